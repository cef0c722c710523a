//! Which metrics a site chose, and what is made of their samples. Pure.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

/// Most metrics of a configuration, of all groups together.
pub const METRICS_MAX: usize = 32;
/// Longest name: the longest one that CUPTI 12.6 to 13.1 list has 91 letters, without what may follow it.
pub const NAME_BYTES_MAX: usize = 160;

/// Metrics that are reported at the same times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricGroup {
    /// As CUPTI names them: `sm__cycles_active.avg`.
    pub metrics: Vec<String>,
    /// From one report to the next; a whole multiple of the source's interval.
    pub interval: Duration,
}

impl MetricGroup {
    /// As one argument of a sampler.
    pub(super) fn to_argument(&self) -> OsString {
        format!("{} {}", self.interval.as_nanos(), self.metrics.join(" ")).into()
    }

    /// What [`MetricGroup::to_argument`] wrote.
    pub(super) fn from_argument(argument: &OsString) -> Option<Self> {
        let mut words = argument.to_str()?.split(' ');
        let interval = Duration::from_nanos(words.next()?.parse().ok()?);
        let metrics: Vec<String> = words.map(str::to_owned).collect();
        metrics.iter().all(|name| name_fault(name).is_none()).then_some(Self { metrics, interval })
    }
}

/// What is wrong with a name, as far as that is known without a GPU.
#[must_use]
pub fn name_fault(name: &str) -> Option<String> {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    if name.is_empty() {
        Some("a name is empty".to_owned())
    } else if name.len() > NAME_BYTES_MAX {
        Some(format!("'{name}' is longer than {NAME_BYTES_MAX} letters"))
    } else if !name.bytes().all(is_usual) {
        Some(format!(
            "'{name}' has characters that no metric of CUPTI has: letters, digits, _ and . are allowed"
        ))
    } else {
        None
    }
}

/// What is wrong with all groups together.
#[must_use]
pub fn groups_fault(groups: &[MetricGroup]) -> Option<String> {
    let names = || groups.iter().flat_map(|group| &group.metrics);
    if let Some(fault) = names().find_map(|name| name_fault(name)) {
        return Some(fault);
    }
    let mut seen = HashSet::new();
    if let Some(twice) = names().find(|name| !seen.insert(name.as_str())) {
        return Some(format!("'{twice}' is named twice"));
    }
    let count = names().count();
    (count > METRICS_MAX).then(|| format!("{count} metrics are more than {METRICS_MAX}"))
}

/// What is made of a metric's samples, by how its name ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollup {
    /// `.sum`: summed up, a counter.
    Sum,
    /// Anything else: the mean of the samples of a report.
    Mean,
    /// `.max`, and `.max.` with something behind it: the largest.
    Largest,
    /// `.min`: the least.
    Least,
}

/// The words with which what follows a metric's own name begins.
const ENDINGS: [&str; 7] = ["sum", "avg", "max", "min", "pct", "ratio", "max_rate"];

/// A name divided into the metric's own and what follows it, which begins with a dot or is empty. Own names may have dots.
pub(super) fn divided(name: &str) -> (&str, &str) {
    let dots = name.match_indices('.').map(|(at, _)| at);
    let ending = dots.into_iter().find(|at| {
        let word = name[at + 1..].split('.').next().unwrap_or_default();
        ENDINGS.contains(&word)
    });
    name.split_at(ending.unwrap_or(name.len()))
}

impl Rollup {
    /// Of a metric.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let (_, ending) = divided(name);
        match ending {
            ".sum" => Self::Sum,
            ".max" => Self::Largest,
            ".min" => Self::Least,
            _ if ending.starts_with(".max.") => Self::Largest,
            _ if ending.starts_with(".min.") => Self::Least,
            _ => Self::Mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_samples_follows_the_end_of_the_name() {
        for (name, rollup) in [
            ("dram__bytes_read.sum", Rollup::Sum),
            ("PCI.TriageCompute.pcie__read_bytes.sum", Rollup::Sum),
            ("dram__bytes_read.sum.per_second", Rollup::Mean),
            ("sm__cycles_active.avg", Rollup::Mean),
            ("sm__warps_active.avg.pct_of_peak_sustained_active", Rollup::Mean),
            ("sm__cycles_active.max", Rollup::Largest),
            ("sm__cycles_active.min.per_second", Rollup::Least),
            ("l1tex__request_hit_rate.max_rate", Rollup::Mean),
            ("l1tex__request_hit_rate.pct", Rollup::Mean),
        ] {
            assert_eq!(Rollup::of(name), rollup, "{name}");
        }
        assert_eq!(divided("A.B.c__d.sum.per_second"), ("A.B.c__d", ".sum.per_second"));
        assert_eq!(divided("c__d"), ("c__d", ""));
    }

    #[test]
    fn names_and_groups_are_checked_and_survive_the_way_to_the_child() {
        let group = |names: &[&str]| MetricGroup {
            metrics: names.iter().map(|name| (*name).to_owned()).collect(),
            interval: Duration::from_secs(2),
        };
        let good = group(&["sm__cycles_active.avg", "dram__bytes_read.sum"]);
        assert_eq!(MetricGroup::from_argument(&good.to_argument()), Some(good.clone()));
        assert_eq!(groups_fault(std::slice::from_ref(&good)), None);
        let fault = |groups: &[MetricGroup]| groups_fault(groups).unwrap();
        assert!(fault(&[good.clone(), group(&["sm__cycles_active.avg"])]).contains("is named twice"));
        assert!(fault(&[group(&[""])]).contains("empty"));
        assert!(fault(&[group(&["a b"])]).contains("characters"));
        assert!(fault(&[group(&[&"a".repeat(161)])]).contains("160"));
        let many: Vec<String> = (0..33).map(|number| format!("m{number}.sum")).collect();
        let many = MetricGroup { metrics: many, interval: Duration::from_secs(1) };
        assert!(fault(&[many]).contains("33 metrics are more than 32"));
    }
}
