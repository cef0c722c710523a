//! Who is queried for the subnet: the nodes themselves, or the subnet administrator. Pure.

use crate::discover::Discovery;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Who is queried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The nodes; where they do not answer, the administrator.
    #[default]
    Auto,
    /// The nodes, by subnet management requests.
    Nodes,
    /// The administrator.
    Administrator,
}

/// All choices by name.
const NAMES: [(&str, Choice); 3] =
    [("auto", Choice::Auto), ("smp", Choice::Nodes), ("sa", Choice::Administrator)];

/// Text that names no choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no source of a topology: expected `auto`, `smp` or `sa`")]
pub struct NoChoice(String);

impl FromStr for Choice {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Choice, NoChoice> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| NoChoice(text.to_owned()))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, choice)| choice == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

impl Serialize for Choice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Whether a walk was kept out of the subnet: nobody answers, or nobody beyond the local node although its port
/// has a link. A node that is protected by an M_Key (IBTA volume 1, 14.2.4) drops requests without it.
#[must_use]
pub fn is_shut_out(found: &Discovery) -> bool {
    let topology = &found.topology;
    match topology.nodes.as_slice() {
        [] => true,
        [only] => {
            let local = topology.local.and_then(|end| only.port(end.port)).and_then(|port| port.info);
            // A port that can't be read any more, and one that leads to somebody who does not answer.
            !found.failures.is_empty() && local.is_none_or(|info| info.is_linked())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_names() {
        for (name, choice) in NAMES {
            assert_eq!(name.parse(), Ok(choice));
            assert_eq!(choice.to_string(), name);
        }
        assert!("SMP".parse::<Choice>().unwrap_err().to_string().contains("`auto`, `smp` or `sa`"));
    }

    #[test]
    fn an_empty_subnet_is_one_that_does_not_answer() {
        assert!(is_shut_out(&Discovery::default()));
    }
}
