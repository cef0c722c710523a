//! Counters that a sweep found lower than before: one event for all ports of a sweep. Pure.

use super::{COUNTER_CLEARED, FabricEvent, NamedEnd, end_text, node_text};
use std::collections::BTreeMap;
use std::fmt::Write;
use throughline_infiniband::topology::Topology;
use throughline_sample::Guid;

/// Nodes that are named; the number of the others is reported. Somebody who clears a whole subnet makes one line, not
/// one of megabytes.
const NODES_NAMED: usize = 20;

/// The event of a sweep that found these ports cleared; `None` where there is none. It is about the port, about the
/// node where it has several, and about the subnet (GUID 0) where it is more than one node. The ports, by node, are
/// what is `after`.
#[must_use]
pub fn cleared(topology: &Topology, ports: &[NamedEnd]) -> Option<FabricEvent> {
    let mut by_node: BTreeMap<Guid, Vec<u8>> = BTreeMap::new();
    for (guid, port) in ports {
        by_node.entry(*guid).or_default().push(*port);
    }
    let both = [topology, topology];
    let nodes = by_node.len();
    let mut named = Vec::new();
    for (guid, ports) in by_node.iter_mut().take(NODES_NAMED) {
        ports.sort_unstable();
        ports.dedup();
        named.push(format!("{} {}", node_text(*guid, both), ports_text(ports)));
    }
    let mut after = named.join("; ");
    if nodes > NODES_NAMED {
        let _ = write!(after, "; and ports of {} more nodes", nodes - NODES_NAMED);
    }
    let (end, where_) = match ports {
        [] => return None,
        [one] => (*one, end_text(*one, both)),
        [first, ..] if nodes == 1 => ((first.0, 0), after.clone()),
        [..] => ((Guid(0), 0), format!("{} ports of {nodes} nodes: {after}", ports.len())),
    };
    let text = format!("counters were set back by somebody else, or the device was reset: {where_}");
    Some(FabricEvent { kind: &COUNTER_CLEARED, end, remote: None, before: String::new(), after, text })
}

/// Sorted ports in words, what follows one another drawn together: `ports 1-3, 7`.
fn ports_text(ports: &[u8]) -> String {
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    for port in ports {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*port) => *last = *port,
            _ => ranges.push((*port, *port)),
        }
    }
    let words: Vec<String> = ranges
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    format!("port{} {}", if ports.len() == 1 { "" } else { "s" }, words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_says_which_ports_and_stays_short() {
        let topology = Topology::default();
        assert_eq!(cleared(&topology, &[]), None);
        let one = cleared(&topology, &[(Guid(7), 3)]).unwrap();
        assert_eq!(one.end, (Guid(7), 3));
        assert!(one.after.ends_with("port 3"), "{one:?}");
        let node = cleared(&topology, &[(Guid(7), 9), (Guid(7), 3), (Guid(7), 4), (Guid(7), 5)]).unwrap();
        assert_eq!(node.end, (Guid(7), 0));
        assert!(node.after.ends_with("ports 3-5, 9") && node.text.ends_with(&node.after), "{node:?}");
        let many: Vec<NamedEnd> = (1..=8008).map(|guid| (Guid(guid), 1)).collect();
        let many = cleared(&topology, &many).unwrap();
        assert_eq!(many.end, (Guid(0), 0));
        assert!(many.text.contains("8008 ports of 8008 nodes"), "{many:?}");
        assert!(many.after.ends_with("and ports of 7988 more nodes") && many.text.len() < 4096, "{many:?}");
    }
}
