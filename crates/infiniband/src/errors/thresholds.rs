//! Above which count an error counter is reported: a file as `ibqueryerrors` reads it, and counters left out.
//! Pure: no file is opened here.

use crate::mad::counter_metrics;
use std::collections::{BTreeMap, BTreeSet};
use throughline_sample::admission::clean_text;
use throughline_sample::catalogue::{
    EXCESSIVE_BUFFER_OVERRUN_ERRORS, Kind, LINK_DOWNED, LINK_ERROR_RECOVERY, LOCAL_LINK_INTEGRITY_ERRORS,
    Metric, QP1_DROPPED, RECEIVE_CONSTRAINT_ERRORS, RECEIVE_ERRORS, RECEIVE_REMOTE_PHYSICAL_ERRORS,
    RECEIVE_SWITCH_RELAY_ERRORS, SYMBOL_ERROR, TRANSMIT_CONSTRAINT_ERRORS, TRANSMIT_DISCARDS, TRANSMIT_WAIT,
    VL15_DROPPED,
};

/// The error counters of PortCounters with their widths in bits (IBTA volume 1, 16.1.3.5, table 247), in the
/// order in which `ibqueryerrors` reports them. A saturated one counted at least to its end.
pub const ERROR_COUNTERS: [(&Metric, u32); 14] = [
    (&SYMBOL_ERROR, 16),
    (&LINK_ERROR_RECOVERY, 8),
    (&LINK_DOWNED, 8),
    (&RECEIVE_ERRORS, 16),
    (&RECEIVE_REMOTE_PHYSICAL_ERRORS, 16),
    (&RECEIVE_SWITCH_RELAY_ERRORS, 16),
    (&TRANSMIT_DISCARDS, 16),
    (&TRANSMIT_CONSTRAINT_ERRORS, 8),
    (&RECEIVE_CONSTRAINT_ERRORS, 8),
    (&LOCAL_LINK_INTEGRITY_ERRORS, 4),
    (&EXCESSIVE_BUFFER_OVERRUN_ERRORS, 4),
    (&VL15_DROPPED, 16),
    (&QP1_DROPPED, 16),
    (&TRANSMIT_WAIT, 32),
];

/// The one counter that `ibqueryerrors --suppress-common` leaves out: it counts what multicast does anyway.
pub const COMMON: [&Metric; 1] = [&RECEIVE_SWITCH_RELAY_ERRORS];

/// A line of a thresholds file that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected COUNTER=NUMBER, for instance SymbolErrorCounter=10, not '{text}'")]
pub struct BadThreshold {
    /// Line number, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

/// Largest count that is not reported, for each counter: 0 unless something else is given, as `ibqueryerrors` has
/// it without a file, so that every error is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    largest: BTreeMap<&'static str, u64>,
    suppressed: BTreeSet<&'static str>,
}

impl Thresholds {
    /// Reads a file: `NAME=NUMBER` a line, decimal or 0x; `#` begins a comment. Names are IBTA's
    /// (`SymbolErrorCounter`) or the catalogue's (`symbol_error`). Returns the names nobody knows as well.
    ///
    /// # Errors
    /// [`BadThreshold`]: `ibqueryerrors` takes such a line for 0 or leaves it out, silently.
    pub fn parse(text: &str) -> Result<(Thresholds, Vec<String>), BadThreshold> {
        let mut thresholds = Thresholds::default();
        let mut unknown = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let said = line.split('#').next().unwrap_or_default().trim();
            if said.is_empty() {
                continue;
            }
            let bad = || BadThreshold { line: index + 1, text: clean_text(said, SHOWN_BYTES).into_owned() };
            let (name, number) = said.split_once('=').ok_or_else(bad)?;
            let largest = parse_number(number.trim()).ok_or_else(bad)?;
            match find(name.trim()) {
                Some(metric) => drop(thresholds.largest.insert(metric.name, largest)),
                None => unknown.push(clean_text(name.trim(), SHOWN_BYTES).into_owned()),
            }
        }
        Ok((thresholds, unknown))
    }

    /// Leaves a counter out.
    pub fn suppress(&mut self, metric: &'static Metric) {
        self.suppressed.insert(metric.name);
    }

    /// The largest count that is not reported; `None` for a counter that is left out.
    #[must_use]
    pub fn of(&self, metric: &Metric) -> Option<u64> {
        let largest = || self.largest.get(metric.name).copied().unwrap_or(0);
        (!self.suppressed.contains(metric.name)).then(largest)
    }

    /// What differs from the defaults, in words: for the end of a report. Empty where nothing does.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if !self.largest.is_empty() {
            let given: Vec<String> = self.largest.iter().map(|(name, n)| format!("{name}={n}")).collect();
            parts.push(format!("thresholds: {}", given.join(" ")));
        }
        if !self.suppressed.is_empty() {
            let left_out: Vec<&str> = self.suppressed.iter().copied().collect();
            parts.push(format!("left out: {}", left_out.join(" ")));
        }
        parts.join("; ")
    }
}

/// A counter by IBTA's name or the catalogue's, whatever the case.
#[must_use]
pub fn find(name: &str) -> Option<&'static Metric> {
    counter_metrics()
        .iter()
        .copied()
        .filter(|metric| metric.kind == Kind::Counter)
        .find(|metric| metric.name.eq_ignore_ascii_case(name) || ibta_name(metric).eq_ignore_ascii_case(name))
}

/// IBTA's name of a counter, which the catalogue has as its origin.
fn ibta_name(metric: &Metric) -> &'static str {
    metric.origin.split([' ', ',', ';']).next().unwrap_or_default()
}

/// Bytes of a wrong line that a message repeats.
const SHOWN_BYTES: usize = 60;

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What infiniband-diags install as /etc/infiniband-diags/error_thresholds, in use.
    const FILE: &str = "# Define error thresholds here\n\nSymbolErrorCounter=10\nPortXmitWait=0x3e8 # ticks\n\
                        #LinkDownedCounter=10\n vl15_dropped = 7\n";

    #[test]
    fn a_file_as_ibqueryerrors_reads_it() {
        let (thresholds, unknown) = Thresholds::parse(FILE).unwrap();
        assert!(unknown.is_empty());
        assert_eq!(thresholds.of(&SYMBOL_ERROR), Some(10));
        assert_eq!(thresholds.of(&TRANSMIT_WAIT), Some(1000));
        assert_eq!(thresholds.of(&VL15_DROPPED), Some(7));
        assert_eq!(thresholds.of(&LINK_DOWNED), Some(0), "a comment");
        assert_eq!(thresholds.describe(), "thresholds: symbol_error=10 transmit_wait=1000 vl15_dropped=7");
    }

    #[test]
    fn mistakes_are_reported() {
        let error = Thresholds::parse("# a\nSymbolErrorCounter=ten\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(error.to_string().contains("'SymbolErrorCounter=ten'"), "{error}");
        assert!(Thresholds::parse("SymbolErrorCounter\n").is_err());
        assert!(Thresholds::parse("SymbolErrorCounter=-1\n").is_err());
        assert_eq!(Thresholds::parse("Nonsense=1\n").unwrap().1, ["Nonsense"]);
    }

    #[test]
    fn every_counter_of_ibqueryerrors_is_found_by_its_name() {
        for name in [
            "SymbolErrorCounter",
            "LinkErrorRecoveryCounter",
            "LinkDownedCounter",
            "PortRcvErrors",
            "PortRcvRemotePhysicalErrors",
            "PortRcvSwitchRelayErrors",
            "PortXmitDiscards",
            "PortXmitConstraintErrors",
            "PortRcvConstraintErrors",
            "LocalLinkIntegrityErrors",
            "ExcessiveBufferOverrunErrors",
            "VL15Dropped",
            "PortXmitWait",
        ] {
            let metric = find(name).unwrap_or_else(|| panic!("{name}"));
            assert!(ERROR_COUNTERS.iter().any(|(known, _)| known.name == metric.name), "{name}");
        }
        let mut thresholds = Thresholds::default();
        thresholds.suppress(COMMON[0]);
        assert_eq!(thresholds.of(&RECEIVE_SWITCH_RELAY_ERRORS), None);
        assert_eq!(thresholds.describe(), "left out: receive_switch_relay_errors");
    }
}
