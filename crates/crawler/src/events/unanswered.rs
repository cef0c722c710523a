//! Nodes that never answered a request for counters, and those of them that do now: one event for all of a sweep. Pure.

use super::{COUNTERS_ANSWERED, COUNTERS_UNANSWERED, FabricEvent, NamedEnd, node_text};
use throughline_infiniband::topology::Topology;
use throughline_sample::Guid;

/// Nodes that are named; the number of the others is reported.
const NODES_NAMED: usize = 20;

/// The event about these nodes, each with the number of its ports; `None` without any. It is about the node, and about the
/// subnet (GUID 0) where it is more than one.
#[must_use]
pub fn unanswered(topology: &Topology, nodes: &[(NamedEnd, usize)], is_silent: bool) -> Option<FabricEvent> {
    let ports: usize = nodes.iter().map(|(_, ports)| ports).sum();
    let mut named: Vec<String> =
        nodes.iter().take(NODES_NAMED).map(|((guid, _), _)| node_text(*guid, [topology; 2])).collect();
    if nodes.len() > NODES_NAMED {
        named.push(format!("and {} more", nodes.len() - NODES_NAMED));
    }
    let after = named.join(", ");
    let end = match nodes {
        [] => return None,
        [(end, _)] => *end,
        [..] => (Guid(0), 0),
    };
    let (kind, words) = match is_silent {
        true => (&COUNTERS_UNANSWERED, "never answered requests for their counters and are requested rarely"),
        false => (&COUNTERS_ANSWERED, "answer requests for their counters now"),
    };
    let text = format!("{} nodes of {ports} ports {words}: {after}", nodes.len());
    Some(FabricEvent { kind, end, remote: None, before: String::new(), after, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_nodes_are_one_event() {
        let topology = Topology::default();
        assert_eq!(unanswered(&topology, &[], true), None);
        let one = unanswered(&topology, &[((Guid(7), 1), 1)], false).unwrap();
        assert_eq!((one.kind.id, one.end), ("counters.answered", (Guid(7), 1)));
        let many: Vec<_> = (1..=1000).map(|guid| ((Guid(guid), 0), 254)).collect();
        let many = unanswered(&topology, &many, true).unwrap();
        assert_eq!((many.kind.id, many.end), ("counters.unanswered", (Guid(0), 0)));
        assert!(many.text.starts_with("1000 nodes of 254000 ports") && many.after.ends_with("and 980 more"));
        assert!(many.text.len() < 4096, "{many:?}");
    }
}
