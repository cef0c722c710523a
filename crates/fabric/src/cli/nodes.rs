//! Which nodes a command is about: `--node` and its like, by GUID, LID or part of a name.

use std::str::FromStr;
use throughline_daemon::Failure;
use throughline_infiniband::topology::{NodeIndex, Topology};
use throughline_sample::Guid;

/// What a user names a node by.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// `0x…`: a node GUID or a port GUID.
    Guid(Guid),
    /// Only digits: a LID; if no port has it, part of a name.
    Lid(u16, String),
    /// Part of a NodeDescription; upper and lower case are the same.
    Name(String),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        if text.is_empty() {
            return Err("expected a GUID (0x…), a LID or part of a node's name".to_owned());
        }
        if text.starts_with("0x") {
            return text.parse().map(Pattern::Guid).map_err(|error| format!("{error}"));
        }
        Ok(match text.parse() {
            Ok(lid) => Pattern::Lid(lid, text.to_owned()),
            Err(_) => Pattern::Name(text.to_lowercase()),
        })
    }
}

/// The nodes chosen; all of them where nothing was named.
pub struct SelectedNodes(Option<Vec<bool>>);

impl SelectedNodes {
    /// Whether a node is one of them.
    pub fn has(&self, node: NodeIndex) -> bool {
        self.0.as_ref().is_none_or(|chosen| chosen.get(node).copied().unwrap_or(false))
    }
}

/// Finds the nodes that are named.
///
/// # Errors
/// A pattern that no node fits (64).
pub fn select(topology: &Topology, patterns: &[Pattern]) -> Result<SelectedNodes, Failure> {
    if patterns.is_empty() {
        return Ok(SelectedNodes(None));
    }
    let mut chosen = vec![false; topology.nodes.len()];
    for pattern in patterns {
        let found = fitting(topology, pattern);
        if found.is_empty() {
            let said = match pattern {
                Pattern::Guid(guid) => guid.to_string(),
                Pattern::Lid(_, text) | Pattern::Name(text) => format!("'{text}'"),
            };
            let message =
                format!("no node of {} fits {said}; `discover` lists their names", topology.nodes.len());
            return Err(Failure::usage(message));
        }
        found.into_iter().for_each(|node| chosen[node] = true);
    }
    Ok(SelectedNodes(Some(chosen)))
}

fn fitting(topology: &Topology, pattern: &Pattern) -> Vec<NodeIndex> {
    let named = |text: &str| -> Vec<NodeIndex> {
        let nodes = topology.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.description.to_lowercase().contains(text)).map(|(i, _)| i).collect()
    };
    match pattern {
        Pattern::Guid(guid) => topology
            .node_by_guid(*guid)
            .or_else(|| topology.port_by_guid(*guid).map(|end| end.node))
            .into_iter()
            .collect(),
        Pattern::Name(text) => named(text),
        Pattern::Lid(lid, text) => {
            let has_lid = |node: &throughline_infiniband::topology::Node| {
                node.ports.iter().filter_map(|port| port.info).any(|info| {
                    // A port answers to 2^LMC LIDs from its base LID on.
                    info.lid != 0
                        && info.lid <= *lid
                        && u32::from(*lid) < u32::from(info.lid) + (1 << info.lmc)
                })
            };
            let nodes = topology.nodes.iter().enumerate();
            let by_lid: Vec<NodeIndex> = nodes.filter(|(_, node)| has_lid(node)).map(|(i, _)| i).collect();
            if by_lid.is_empty() { named(text) } else { by_lid }
        }
    }
}
