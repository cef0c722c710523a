//! Multicast packets on the links of a tree, and packets that are missing behind a link or a switch. Pure, but for the
//! readings.
//!
//! Ports count packets, of all groups together; their bytes are a bound. Loss is what counters prove: the sender's count
//! is taken inside of the time of the receiver's, so that what is missing was lost, and not read earlier.

use super::super::answer::rounded;
use super::topology::{Port, Topology};
use super::trees::{MulticastReach, Trees};
use crate::api_error::ApiError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use throughline_api::multicast::{Directions, MulticastLoss, SwitchLoss, TreeTraffic};
use throughline_query::load::Window;
use throughline_query::multicast::{Count, SLACK_MS, around, inside};
use throughline_shares::wire::{LARGEST_MTU_BYTES, MULTICAST_HEADER_BYTES};
use tokio_postgres::Client;

/// Ports whose counters one request reads: both ends of the links of a tree over 8,008 hosts.
pub const PORTS_MAX: usize = 24_000;
/// Links of a group that its rate is taken from in a list: those that the fewest groups share.
const LINKS_OF_RATE: usize = 8;
/// Ports whose counters a list reads; groups of higher LIDs have no rate then.
const LIST_PORTS_MAX: usize = 4096;

/// A group's packets per second, and how that is known.
pub type GroupRate = (f64, &'static str);

/// A tree whose counters are requested.
pub struct TreeQuery<'a> {
    pub topology: &'a Topology,
    pub trees: &'a Trees,
    pub reach: &'a MulticastReach,
    /// Links in order.
    pub links: &'a [usize],
    /// Largest MTU of each LID's groups; those not in it are not known.
    pub mtus: &'a BTreeMap<u16, u64>,
}

impl TreeQuery<'_> {
    /// The figures; none where the tree has more than [`PORTS_MAX`] ports.
    pub async fn read(&self, client: &Client, window: &Window) -> Result<Option<TreeTraffic>, ApiError> {
        let ports = self.ports();
        if ports.len() > PORTS_MAX {
            return Ok(None);
        }
        let counts = around(client, &ports, begin(window), window.at, window.is_latest).await?;
        let ranges = self.ranges(&counts);
        let found = inside(client, &ranges).await?;
        // A port may be held against several others: by port and time.
        let inner: HashMap<(i64, i64, i64), Count> =
            ranges.into_iter().zip(found).filter_map(|(range, count)| Some((range, count?))).collect();
        Ok(Some(self.figures(&counts, &inner)))
    }

    /// Ends of the links, and all output ports of the switches.
    fn ports(&self) -> Vec<i64> {
        let ends = self.links.iter().flat_map(|link| self.topology.ends[*link]).map(|end| end.id);
        let outputs = self.reach.switches.iter().flat_map(|switch| self.outputs(*switch));
        let all: BTreeSet<i64> = ends.chain(outputs.map(|(_, port)| port.id)).collect();
        all.into_iter().collect()
    }

    /// Ports by which a switch sends or gets any group, by number.
    fn outputs(&self, switch: usize) -> BTreeMap<i32, Port> {
        let numbers = self.trees.entries.get(&switch).into_iter().flat_map(BTreeMap::values).flatten();
        let port = |number: &i32| {
            let (link, is_a) = self.topology.link_at.get(&(switch, *number))?;
            Some((*number, self.topology.ends[*link][usize::from(!is_a)]))
        };
        numbers.filter_map(port).collect()
    }

    /// Of ports that are held against others the time inside of theirs.
    fn ranges(&self, counts: &HashMap<i64, Count>) -> Vec<(i64, i64, i64)> {
        let mut ranges = BTreeSet::new();
        for link in self.links {
            let [a, b] = self.topology.ends[*link];
            for (sender, receiver) in [(a, b), (b, a)] {
                ranges.extend(counts.get(&receiver.id).map(|count| within(sender.id, count.from, count.to)));
            }
        }
        for switch in &self.reach.switches {
            let outputs = self.outputs(*switch);
            if let Some((from, to)) = common(&outputs, counts) {
                ranges.extend(outputs.values().map(|port| within(port.id, from, to)));
            }
        }
        ranges.into_iter().filter(|(_, from, to)| from < to).collect()
    }

    fn figures(&self, counts: &HashMap<i64, Count>, inner: &HashMap<(i64, i64, i64), Count>) -> TreeTraffic {
        let mut made = TreeTraffic::default();
        for link in self.links {
            let [a, b] = self.topology.ends[*link];
            let mtu = self.largest_mtu(*link);
            for (sender, receiver, is_ab) in [(a, b, true), (b, a, false)] {
                let rate = direction_rate(counts.get(&sender.id), counts.get(&receiver.id)).map(rounded);
                #[allow(clippy::cast_precision_loss)] // some thousand bytes
                let bound = rate.map(|rate| rounded(rate * (mtu + MULTICAST_HEADER_BYTES) as f64));
                let loss = link_loss(sender.id, counts.get(&receiver.id), inner);
                let TreeTraffic { packets_per_second, bound_bytes_per_second, loss: losses, .. } = &mut made;
                let put = |list: &mut Directions<f64>, value| {
                    if is_ab { &mut list.ab } else { &mut list.ba }.push(value);
                };
                put(packets_per_second, rate);
                put(bound_bytes_per_second, bound);
                if is_ab { &mut losses.ab } else { &mut losses.ba }.push(loss);
            }
            made.mlids.push(self.trees.sharing(*link));
        }
        let switch = |node: &usize| SwitchLoss {
            node: *node,
            name: self.topology.columns.nodes.name[*node].clone(),
            loss: self.switch_loss(*node, counts, inner),
        };
        made.switches = self.reach.switches.iter().map(switch).collect();
        made
    }

    /// The largest MTU of the groups on a link; that of the specification where one's is not known.
    fn largest_mtu(&self, link: usize) -> u64 {
        let mlids = self.trees.mlids_of_link.get(&link).into_iter().flatten();
        let mtus = mlids.map(|mlid| self.mtus.get(mlid).copied().unwrap_or(LARGEST_MTU_BYTES));
        mtus.max().unwrap_or(LARGEST_MTU_BYTES)
    }

    /// What a switch sent less than it had to. A packet that came by a port of trees is of one of these, and goes out by
    /// all other ports of it: at least by as many as the smallest has. Packets of other ports count as none.
    fn switch_loss(
        &self,
        switch: usize,
        counts: &HashMap<i64, Count>,
        inner: &HashMap<(i64, i64, i64), Count>,
    ) -> Option<MulticastLoss> {
        let outputs = self.outputs(switch);
        let (from, to) = common(&outputs, counts)?;
        let sent: i64 = outputs.values().map(|port| counts.get(&port.id)?.sent).sum::<Option<i64>>()?;
        let mut due = None;
        let mut seconds: f64 = 0.0;
        for (number, port) in &outputs {
            let entries = self.trees.entries.get(&switch)?.values();
            let others = entries.filter(|ports| ports.contains(number)).map(|ports| ports.len() - 1);
            let count = inner.get(&within(port.id, from, to));
            if let Some((count, received)) = count.and_then(|count| Some((count, count.received?))) {
                let branches = i64::try_from(others.min().unwrap_or(0)).unwrap_or(0);
                due = Some(due.unwrap_or(0) + received * branches);
                seconds = seconds.max(count.seconds());
            }
        }
        due.map(|due| missing(due, seconds, sent))
    }
}

/// Packets per second of a direction: by the sender's counter, or where nobody reads that by the receiver's.
fn direction_rate(sender: Option<&Count>, receiver: Option<&Count>) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)] // packets of some minutes
    let rate = |packets: i64, count: &Count| packets as f64 / count.seconds();
    let sent = sender.and_then(|count| Some(rate(count.sent?, count)));
    sent.or_else(|| receiver.and_then(|count| Some(rate(count.received?, count))))
}

/// What a link's receiver counted less than its sender.
fn link_loss(
    sender: i64,
    receiver: Option<&Count>,
    inner: &HashMap<(i64, i64, i64), Count>,
) -> Option<MulticastLoss> {
    let receiver = receiver?;
    let count = inner.get(&within(sender, receiver.from, receiver.to))?;
    Some(missing(count.sent?, count.seconds(), receiver.received?))
}

/// What is missing of packets that were due at least, over the time of their count, behind those that were counted over a
/// longer one.
fn missing(due: i64, seconds: f64, counted: i64) -> MulticastLoss {
    MulticastLoss { lost_packets: (due - counted).max(0), packets: due, seconds: rounded(seconds) }
}

/// A port and the time inside of another one's readings.
const fn within(port: i64, from: i64, to: i64) -> (i64, i64, i64) {
    (port, from + SLACK_MS, to - SLACK_MS)
}

/// The time in which all of these ports were counted; `None` where one was not.
fn common(ports: &BTreeMap<i32, Port>, counts: &HashMap<i64, Count>) -> Option<(i64, i64)> {
    let counts: Vec<&Count> = ports.values().map(|port| counts.get(&port.id)).collect::<Option<_>>()?;
    Some((counts.iter().map(|count| count.from).max()?, counts.iter().map(|count| count.to).min()?))
}

/// When a window begins.
#[allow(clippy::cast_possible_truncation)] // milliseconds
fn begin(window: &Window) -> i64 {
    window.at - (window.seconds * 1e3) as i64
}

/// Packets per second of each LID. A packet passes each link of its tree once, so a link that no other group has counts
/// them; where all are shared, the least of them is a bound. Of what is no sound tree nothing can be said.
pub async fn group_rates(
    client: &Client,
    topology: &Topology,
    trees: &Trees,
    window: &Window,
) -> Result<HashMap<u16, GroupRate>, ApiError> {
    let mut links_of: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    let mut ports = BTreeSet::new();
    for (mlid, reach) in trees.by_mlid.iter().filter(|(_, reach)| reach.is_sound(topology)) {
        let mut links: Vec<usize> = reach.links.keys().copied().collect();
        links.sort_by_key(|link| (trees.sharing(*link), *link));
        links.truncate(LINKS_OF_RATE);
        let ends: Vec<i64> = links.iter().flat_map(|link| topology.ends[*link]).map(|end| end.id).collect();
        if ports.len() + ends.len() > LIST_PORTS_MAX {
            break;
        }
        ports.extend(ends);
        links_of.insert(*mlid, links);
    }
    let ports: Vec<i64> = ports.into_iter().collect();
    let counts = around(client, &ports, begin(window), window.at, window.is_latest).await?;
    let both = |link: &usize| -> Option<f64> {
        let [a, b] = topology.ends[*link].map(|end| counts.get(&end.id));
        Some(direction_rate(a, b)? + direction_rate(b, a)?)
    };
    let rate = |links: &Vec<usize>| -> Option<GroupRate> {
        // Its own link has the group's packets and no others; what is sent while it is read differs by link.
        let own = links.iter().filter(|link| trees.sharing(**link) == 1).find_map(both);
        let least = || links.iter().filter_map(both).min_by(f64::total_cmp);
        own.map(|rate| (rounded(rate), "measured")).or_else(|| Some((rounded(least()?), "bound")))
    };
    Ok(links_of.iter().filter_map(|(mlid, links)| Some((*mlid, rate(links)?))).collect())
}
