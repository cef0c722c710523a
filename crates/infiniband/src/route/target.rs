//! What a user names an end of a route by: a GUID, a LID, or a name. Pure.

use super::RouteError;
use crate::mad::NodeKind;
use crate::topology::{NodeIndex, PortEnd, Topology, label};
use std::fmt::Write;
use std::str::FromStr;
use throughline_sample::Guid;

/// Nodes listed in an error; the rest are a number.
const CHOICES_MAX: usize = 12;

/// One end of a route, as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `0x…`: a node GUID or a port GUID.
    Guid(Guid),
    /// Only digits: a LID.
    Lid(u16),
    /// Anything else: a node's name. The whole NodeDescription, its first word, or a part that only one node has.
    Name(String),
}

/// Why a target is not one end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Nothing has the GUID, or it has no LID.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// Nobody has the LID.
    #[error("no port of this subnet has LID {0}; `throughline-fabric discover` lists them")]
    UnknownLid(u16),
    /// No node has the name.
    #[error("no node of this subnet is called '{0}'; `throughline-fabric discover` lists them")]
    UnknownName(String),
    /// Several nodes fit.
    #[error("'{name}' is not one node; say which one, by its whole name or its GUID:\n{choices}")]
    Ambiguous {
        /// What was given.
        name: String,
        /// The nodes that fit, one a line.
        choices: String,
    },
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        if text.is_empty() {
            return Err("expected a GUID (0x…), a LID or a node's name".to_owned());
        }
        if text.starts_with("0x") {
            return text.parse().map(Target::Guid).map_err(|error| format!("{error}"));
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return match text.parse() {
                Ok(lid @ 1..=crate::mad::MAX_UNICAST_LID) => Ok(Target::Lid(lid)),
                _ => Err(format!("LIDs of ports are 1 to {}", crate::mad::MAX_UNICAST_LID)),
            };
        }
        Ok(Target::Name(text.to_owned()))
    }
}

impl Topology {
    /// The end that is meant.
    ///
    /// # Errors
    /// [`TargetError`]: unknown, without a LID, or not one node alone.
    pub fn find(&self, target: &Target) -> Result<PortEnd, TargetError> {
        match target {
            Target::Guid(guid) => Ok(self.end_of(*guid)?),
            Target::Lid(lid) => self.owner_of(*lid).ok_or(TargetError::UnknownLid(*lid)),
            Target::Name(name) => Ok(self.end_of_node(self.find_name(name)?)?),
        }
    }

    fn find_name(&self, name: &str) -> Result<NodeIndex, TargetError> {
        let lower = name.to_lowercase();
        let first_word = |description: &str| description.split_whitespace().next() == Some(name);
        // The narrowest reading that fits any node decides.
        let readings: [&dyn Fn(&str) -> bool; 3] =
            [&|description| description == name, &first_word, &|description| {
                description.to_lowercase().contains(&lower)
            }];
        for fits in readings {
            let found: Vec<NodeIndex> =
                (0..self.nodes.len()).filter(|index| fits(&self.nodes[*index].description)).collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(*one),
                several => {
                    let choices = self.choices(several);
                    return Err(TargetError::Ambiguous { name: name.to_owned(), choices });
                }
            }
        }
        Err(TargetError::UnknownName(name.to_owned()))
    }

    fn choices(&self, nodes: &[NodeIndex]) -> String {
        let mut text = String::new();
        for index in nodes.iter().take(CHOICES_MAX) {
            let node = &self.nodes[*index];
            let kind = if node.kind == NodeKind::Ca { "host" } else { node.kind.name() };
            let separator = if text.is_empty() { "" } else { "\n" };
            // Writing to a String can't fail.
            let _ = write!(text, "{separator}  {}  ({kind})", label(&node.description, node.guid));
        }
        if nodes.len() > CHOICES_MAX {
            let _ = write!(text, "\n  and {} more", nodes.len() - CHOICES_MAX);
        }
        text
    }
}
