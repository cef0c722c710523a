//! Traffic: who sends how much to whom, led over the forwarding tables, becomes rates of port counters.
//!
//! Where more is offered to a link than it carries, each flow over it is cut in proportion, from its sender on;
//! ports at and before the narrow place have data that wait, and count PortXmitWait.

use crate::counters::Counter as C;
use crate::model::{ACTIVE, End, Fabric};
use crate::plan::NO_PORT;
use std::collections::BTreeMap;

/// Bytes of a packet: a full one of MTU 4096.
const PACKET_BYTES: f64 = 4096.0;
/// PortXmitWait ticks of a port that waits all the time. The specification leaves the tick to the vendor.
pub(crate) const WAIT_TICKS_PER_SECOND: f64 = 100e6;
/// Most hops of a flow; what is longer loops.
const MAX_HOPS: usize = 64;

/// Who sends, in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TrafficDemand {
    /// One sender, one receiver.
    Pair(End, End, f64),
    /// Each host sends so much in all, evenly to every other one.
    AllToAll(f64),
    /// Each host sends to the next, the last to the first.
    Ring(f64),
    /// Each other host sends so much to this one.
    Incast(End, f64),
}

/// Equal flows that take one way from a place on.
struct Flow {
    /// Senders' ports.
    senders: Vec<End>,
    to: u16,
    /// Of each sender.
    bytes_per_second: f64,
}

/// Loads of ports in their sending direction, by node and port.
struct Loads(Vec<Vec<f64>>);

impl Loads {
    fn new(fabric: &Fabric) -> Loads {
        Loads(fabric.nodes.iter().map(|node| vec![0.0; node.ports.len()]).collect())
    }

    fn at(&mut self, end: End) -> &mut f64 {
        &mut self.0[end.node][usize::from(end.port)]
    }

    /// Whether any link is offered more than it carries.
    fn is_crowded(&self, fabric: &Fabric) -> bool {
        let nodes = fabric.nodes.iter().zip(&self.0);
        let mut ports = nodes.flat_map(|(node, loads)| node.ports.iter().zip(loads));
        ports.any(|(port, load)| *load > port.link.bytes_per_second())
    }

    fn of(&self, end: End) -> f64 {
        self.0[end.node][usize::from(end.port)]
    }
}

/// Sets the rates of all ports' data, packets and waits from `now` on.
pub(crate) fn apply(fabric: &mut Fabric, demands: &[TrafficDemand], now: u64) {
    let mut offered = Loads::new(fabric);
    each_flow(fabric, demands, &mut |flow| {
        for (end, senders) in links(fabric, flow) {
            *offered.at(end) += senders * flow.bytes_per_second;
        }
    });
    let (mut carried, mut held) = (Loads::new(fabric), Loads::new(fabric));
    if offered.is_crowded(fabric) {
        each_flow(fabric, demands, &mut |flow| carry(fabric, flow, &offered, &mut carried, &mut held));
    } else {
        carried.0.clone_from(&offered.0); // Nothing is cut, so that the second look at all flows is spared.
    }
    for node in 0..fabric.nodes.len() {
        for port in 0..fabric.nodes[node].ports.len() {
            let end = End { node, port: port as u8 };
            let received = fabric.across(end).map_or(0.0, |peer| carried.of(peer));
            let sent = carried.of(end);
            let waiting = if held.of(end) > 0.0 { held.of(end) / offered.of(end) } else { 0.0 };
            let counters = &mut fabric.nodes[node].ports[port].counters;
            let mut set = |counter, rate: f64| {
                if counters.rate(counter) != rate {
                    counters.set_rate(counter, rate, now);
                }
            };
            set(C::XmitData, sent / 4.0);
            set(C::RcvData, received / 4.0);
            for counter in [C::XmitPackets, C::UnicastXmitPackets] {
                set(counter, sent / PACKET_BYTES);
            }
            for counter in [C::RcvPackets, C::UnicastRcvPackets] {
                set(counter, received / PACKET_BYTES);
            }
            set(C::XmitWait, waiting * WAIT_TICKS_PER_SECOND);
        }
    }
}

/// End ports of hosts that take part.
fn hosts(fabric: &Fabric) -> Vec<End> {
    let nodes = fabric.nodes.iter().enumerate().filter(|(_, node)| !node.is_switch());
    let ends =
        nodes.flat_map(|(node, ports)| ports.end_ports().map(move |port| End { node, port: port as u8 }));
    ends.filter(|end| fabric.port(*end).is_some_and(|port| port.state == ACTIVE && port.lid != 0)).collect()
}

/// Calls back for each flow; at 8,008 hosts there are millions.
fn each_flow(fabric: &Fabric, demands: &[TrafficDemand], call: &mut dyn FnMut(&Flow)) {
    let lid = |end: End| fabric.port(end).map_or(0, |port| port.lid);
    let hosts = hosts(fabric);
    for demand in demands {
        let mut pair = |from: End, to: End, bytes_per_second: f64| {
            if from != to {
                call(&Flow { senders: vec![from], to: lid(to), bytes_per_second });
            }
        };
        match demand {
            TrafficDemand::Pair(from, to, rate) => pair(*from, *to, *rate),
            TrafficDemand::Ring(rate) => {
                for (place, from) in hosts.iter().enumerate() {
                    pair(*from, hosts[(place + 1) % hosts.len()], *rate);
                }
            }
            TrafficDemand::Incast(to, rate) => hosts.iter().for_each(|from| pair(*from, *to, *rate)),
            TrafficDemand::AllToAll(rate) => {
                let others = hosts.len().saturating_sub(1).max(1) as f64;
                all_to_all(fabric, &hosts, rate / others, call);
            }
        }
    }
}

/// Hosts of one leaf switch go the same way to a receiver, so they are one flow.
fn all_to_all(fabric: &Fabric, hosts: &[End], bytes_per_second: f64, call: &mut dyn FnMut(&Flow)) {
    let mut by_leaf: BTreeMap<usize, Vec<End>> = BTreeMap::new();
    for host in hosts {
        if let Some(leaf) = fabric.across(*host) {
            by_leaf.entry(leaf.node).or_default().push(*host);
        }
    }
    let mut flow = Flow { senders: Vec::new(), to: 0, bytes_per_second };
    for to in hosts {
        flow.to = fabric.port(*to).map_or(0, |port| port.lid);
        for ends in by_leaf.values() {
            flow.senders.clear();
            flow.senders.extend(ends.iter().copied().filter(|end| end != to));
            call(&flow);
        }
    }
}

/// The sending ports on the way with how many of the senders pass each: the senders' own ports, then the common
/// way. Empty where there is none, so that nothing is sent.
fn links(fabric: &Fabric, flow: &Flow) -> Vec<(End, f64)> {
    let mut links: Vec<(End, f64)> = flow.senders.iter().map(|end| (*end, 1.0)).collect();
    let Some(mut at) = flow.senders.first().and_then(|end| fabric.across(*end)) else { return Vec::new() };
    for _ in 0..MAX_HOPS {
        let node = &fabric.nodes[at.node];
        if !node.is_switch() {
            let arrived = fabric.by_lid(flow.to) == Some(at);
            return if arrived { links } else { Vec::new() };
        }
        let port = node.forwarding.get(usize::from(flow.to)).copied().unwrap_or(NO_PORT);
        let here = End { node: at.node, port };
        if port == 0 || fabric.port(here).is_none_or(|port| port.state != ACTIVE) {
            return Vec::new();
        }
        let Some(next) = fabric.across(here) else { return Vec::new() };
        links.push((here, flow.senders.len() as f64));
        at = next;
    }
    Vec::new()
}

/// Cuts a flow to what its narrowest link leaves it, and notes what is held back at and before that link.
fn carry(fabric: &Fabric, flow: &Flow, offered: &Loads, carried: &mut Loads, held: &mut Loads) {
    let links = links(fabric, flow);
    let room = |end: End| {
        let capacity = fabric.port(end).map_or(0.0, |port| port.link.bytes_per_second());
        (capacity / offered.of(end)).min(1.0)
    };
    let mut narrowest = (1.0, None);
    for (place, (end, _)) in links.iter().enumerate() {
        if room(*end) < narrowest.0 {
            narrowest = (room(*end), Some(place));
        }
    }
    let (share, place) = narrowest;
    for (index, (end, senders)) in links.iter().enumerate() {
        let load = senders * flow.bytes_per_second;
        *carried.at(*end) += load * share;
        if place.is_some_and(|place| index <= place) {
            *held.at(*end) += load * (1.0 - share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::View;
    use crate::{manager, net};
    use throughline_infiniband::topology::FatTree;

    const SECOND: u64 = 1_000_000_000;

    fn fabric() -> Fabric {
        let mut fabric = net::read(&FatTree::HOSTS_146.to_net().unwrap()).unwrap();
        fabric.manager = Some(End { node: fabric.find("node0001 mlx5_0").unwrap(), port: 1 });
        manager::configure(&mut fabric);
        fabric
    }

    fn host(fabric: &Fabric, number: usize) -> End {
        End { node: fabric.find(&FatTree::host_description(number)).unwrap(), port: 1 }
    }

    fn shown(fabric: &Fabric, end: End, counter: C) -> u64 {
        fabric.port(end).unwrap().counters.value(View::Extended, counter, SECOND)
    }

    #[test]
    fn what_one_end_sends_the_other_receives() {
        let mut fabric = fabric();
        apply(&mut fabric, &[TrafficDemand::AllToAll(1e9), TrafficDemand::Ring(1e8)], 0);
        let mut cables = 0;
        for node in 0..fabric.nodes.len() {
            for port in 1..=fabric.nodes[node].port_count() {
                let end = End { node, port };
                if let Some(peer) = fabric.across(end) {
                    assert_eq!(shown(&fabric, end, C::XmitData), shown(&fabric, peer, C::RcvData));
                    cables += 1;
                }
            }
        }
        assert_eq!(cables, 2 * (146 + 14 * 12));
        let sent = shown(&fabric, host(&fabric, 3), C::XmitData) * 4;
        assert!((1_099_990_000..=1_100_010_000).contains(&sent), "{sent}");
    }

    #[test]
    fn an_incast_fills_the_last_link_and_senders_wait() {
        let mut fabric = fabric();
        let to = host(&fabric, 9);
        let from: Vec<End> = [40, 80, 120].map(|number| host(&fabric, number)).to_vec();
        let demands: Vec<TrafficDemand> =
            from.iter().map(|from| TrafficDemand::Pair(*from, to, 10e9)).collect();
        apply(&mut fabric, &demands, 0);
        let capacity = 12_500_000_000;
        let received = shown(&fabric, to, C::RcvData) * 4;
        assert!(received.abs_diff(capacity) < 1000, "{received}");
        for from in &from {
            assert!((shown(&fabric, *from, C::XmitData) * 4).abs_diff(capacity / 3) < 1000);
            assert!(shown(&fabric, *from, C::XmitWait) > 0, "senders wait");
        }
        let last = fabric.across(to).unwrap();
        let waited = shown(&fabric, last, C::XmitWait) as f64 / WAIT_TICKS_PER_SECOND;
        assert!((waited - (1.0 - 12.5 / 30.0)).abs() < 0.01, "{waited}");
        assert_eq!(shown(&fabric, to, C::XmitWait), 0);
        apply(&mut fabric, &[], SECOND);
        let then = fabric.port(to).unwrap().counters.value(View::Extended, C::RcvData, 9 * SECOND);
        assert_eq!(then * 4 / 1000, received / 1000, "what was counted stays");
    }
}
