//! Sets of counters as people choose them, and the attributes that hold them on a device.

use crate::mad::{ClassPortInfo, PortCounterSet};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// A choice of counter sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sets(u8);

impl Sets {
    /// None.
    pub const NONE: Sets = Sets(0);
    /// Data and packets.
    pub const DATA: Sets = Sets(1);
    /// Ticks of congestion.
    pub const WAIT: Sets = Sets(1 << 1);
    /// Error counters.
    pub const ERRORS: Sets = Sets(1 << 2);
    /// Which errors of receiving, and which discards.
    pub const DETAILS: Sets = Sets(1 << 3);
    /// Flow-control packets.
    pub const FLOW: Sets = Sets(1 << 4);
    /// Forward error correction.
    pub const FEC: Sets = Sets(1 << 5);
    /// Data by service level.
    pub const SL: Sets = Sets(1 << 6);
    /// Wait, congestion and errors by virtual lane, and counters of operation code 0.
    pub const VL: Sets = Sets(1 << 7);

    /// What every sweep reads unless configured otherwise.
    pub const USUAL: Sets = Sets(1 | 1 << 1 | 1 << 2);
    /// Sets whose attributes a device may lack.
    pub const OPTIONAL: Sets = Sets(0xF8);
    /// All.
    pub const ALL: Sets = Sets(0xFF);

    const NAMES: [(&'static str, Sets); 8] = [
        ("data", Sets::DATA),
        ("wait", Sets::WAIT),
        ("errors", Sets::ERRORS),
        ("details", Sets::DETAILS),
        ("flow", Sets::FLOW),
        ("fec", Sets::FEC),
        ("sl", Sets::SL),
        ("vl", Sets::VL),
    ];

    /// Whether nothing is chosen.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether one of `other` is chosen.
    #[must_use]
    pub const fn any_of(self, other: Sets) -> bool {
        self.0 & other.0 != 0
    }

    /// The common part.
    #[must_use]
    pub const fn and(self, other: Sets) -> Sets {
        Sets(self.0 & other.0)
    }

    /// The counters of these sets, by bit of their position in
    /// [`counter_metrics`](crate::mad::counter_metrics); those by lane are not among them.
    #[must_use]
    pub fn metrics(self) -> u64 {
        let mut attributes = self.optional();
        if self.any_of(Sets::USUAL) {
            attributes |= PortCounterSet::Classic.bit() | PortCounterSet::Extended.bit();
        }
        let most = ClassPortInfo { capabilities: 0xFFFF, capabilities_2: 2, redirection: None };
        let sets = PortCounterSet::ALL.into_iter().filter(|set| attributes & set.bit() != 0);
        sets.fold(0, |bits, set| bits | set.metrics(&most))
    }

    /// As a number, for a file.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// The reverse of [`Sets::to_bits`].
    #[must_use]
    pub const fn from_bits(bits: u8) -> Sets {
        Sets(bits)
    }

    /// The names, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Sets::NAMES.into_iter().filter(move |(_, set)| self.any_of(*set)).map(|(name, _)| name)
    }

    /// The attributes that hold the mandatory counters on an agent of these capabilities: bits of
    /// [`PortCounterSet::bit`].
    #[must_use]
    pub fn mandatory(self, capabilities: &ClassPortInfo) -> u16 {
        let (classic, extended) = (PortCounterSet::Classic.bit(), PortCounterSet::Extended.bit());
        let mut attributes = 0;
        if self.any_of(Sets::DATA) {
            attributes |= if capabilities.has_extended() { extended } else { classic };
        }
        let wait = self.any_of(Sets::WAIT) && capabilities.has_transmit_wait();
        if wait || self.any_of(Sets::ERRORS) {
            attributes |= if capabilities.has_extended_errors() { extended } else { classic };
        }
        attributes
    }

    /// The attributes of the sets that a device may lack.
    #[must_use]
    pub fn optional(self) -> u16 {
        let table: [(Sets, &[PortCounterSet]); 5] = [
            (Sets::DETAILS, &[PortCounterSet::ReceiveErrorDetails, PortCounterSet::DiscardDetails]),
            (Sets::FLOW, &[PortCounterSet::FlowControl]),
            (Sets::FEC, &[PortCounterSet::ExtendedSpeeds]),
            (Sets::SL, &[PortCounterSet::SlTransmitData, PortCounterSet::SlReceiveData]),
            (
                Sets::VL,
                &[
                    PortCounterSet::VlTransmitWait,
                    PortCounterSet::VlFlowControlErrors,
                    PortCounterSet::VlCongestion,
                    PortCounterSet::VlOperationPackets,
                    PortCounterSet::VlOperationData,
                    PortCounterSet::Operations,
                ],
            ),
        ];
        let chosen = table.iter().filter(|(set, _)| self.any_of(*set));
        chosen.flat_map(|(_, attributes)| attributes.iter()).fold(0, |bits, set| bits | set.bit())
    }
}

impl BitOr for Sets {
    type Output = Sets;

    fn bitor(self, other: Sets) -> Sets {
        Sets(self.0 | other.0)
    }
}

impl fmt::Display for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.names().enumerate() {
            f.write_str(if place > 0 { "," } else { "" })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl FromStr for Sets {
    type Err = String;

    fn from_str(text: &str) -> Result<Sets, String> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).try_fold(Sets::NONE, |all, name| {
            let found = Sets::NAMES.iter().find(|(known, _)| *known == name);
            match found {
                Some((_, set)) => Ok(all | *set),
                None if name == "all" => Ok(Sets::ALL),
                None => Err(format!(
                    "`{name}` is no set of counters: expected {} or all",
                    Sets::NAMES.map(|(name, _)| name).join(", ")
                )),
            }
        })
    }
}

impl Serialize for Sets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl<'de> Deserialize<'de> for Sets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sets, D::Error> {
        // In a file a list; in the environment one text.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            List(Vec<String>),
        }
        let text = match Form::deserialize(deserializer)? {
            Form::Text(text) => text,
            Form::List(names) => names.join(","),
        };
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(capabilities: u16, capabilities_2: u32) -> ClassPortInfo {
        ClassPortInfo { capabilities, capabilities_2, redirection: None }
    }

    #[test]
    fn one_mad_does_where_it_can() {
        let (classic, extended) = (PortCounterSet::Classic.bit(), PortCounterSet::Extended.bit());
        let of =
            |sets: Sets, capabilities, capabilities_2| sets.mandatory(&agent(capabilities, capabilities_2));
        assert_eq!(of(Sets::USUAL, 0x1200, 2), extended, "64-bit errors: one");
        assert_eq!(of(Sets::USUAL, 0x1200, 0), extended | classic);
        assert_eq!(of(Sets::USUAL, 0, 0), classic, "32 bits only: one");
        assert_eq!(of(Sets::DATA, 0x1200, 0), extended);
        assert_eq!(of(Sets::WAIT, 0x0200, 0), 0, "no wait: nothing to ask for");
        assert_eq!(of(Sets::DETAILS, 0x1200, 0), 0);
        assert_eq!(Sets::ALL.optional().count_ones(), 12);
    }

    #[test]
    fn names_go_both_ways() {
        assert_eq!("data, fec".parse(), Ok(Sets::DATA | Sets::FEC));
        assert_eq!("all".parse(), Ok(Sets::ALL));
        assert_eq!(Sets::USUAL.to_string(), "data,wait,errors");
        assert_eq!(Sets::ALL.to_string().parse(), Ok(Sets::ALL));
        assert!("date".parse::<Sets>().unwrap_err().contains("expected data, wait"));
    }
}
