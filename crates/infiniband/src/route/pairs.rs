//! All pairs of hosts at once: how many pairs pass each link, how long their ways are, and which table entries leave
//! pairs without a way. Pure.
//!
//! Per destination LID the tables make each switch point to one other switch, so that all sources together are a
//! tree (or a tree that ends badly). It is walked once per destination, and sources are counted per switch: the
//! cost is destinations x switches, not pairs x hops.

mod pass;

use super::credit::Dependencies;
use super::wiring::{PortNeighbour, Wiring};
use crate::mad::NodeKind;
use crate::topology::{NodeIndex, PortEnd, Topology};
use pass::Pass;
use std::ops::Range;

/// Findings kept; the rest are a number. Enough to see a pattern; broken tables can have one for each of
/// 48 thousand LIDs at each switch.
pub const FINDINGS_MAX: usize = 1000;
/// Threads at most: beyond that a pass is waiting for memory.
const THREADS_MAX: usize = 8;
/// Steps (destinations x switches) from which on several threads pay.
const STEPS_FOR_THREADS: usize = 200_000;

/// Which pairs are counted.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Only pairs between a node of the first set and one of the second, in both directions; all where `None`.
    /// A set says of each node of the topology whether it is in.
    pub between: Option<(Vec<bool>, Vec<bool>)>,
    /// Whether to count each LID of a destination (2^LMC of them), not only its first.
    pub all_lids: bool,
    /// Whether routers, aggregation nodes and (as destinations) switches count as well, not only hosts.
    pub all_ends: bool,
    /// Whether to look for cycles of links that wait for each other's buffers.
    pub credit_loops: bool,
}

/// What is wrong with a table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The switch has no entry for the LID.
    NoEntry,
    /// It leads to a port behind which nothing is known.
    NoNeighbour {
        /// The port.
        port: u8,
    },
    /// It leads to an end port that does not have the LID, or to the switch's own port 0.
    WrongEnd {
        /// The port.
        port: u8,
    },
    /// It is one of a cycle.
    Loop {
        /// The switches of the cycle with their output ports, in the order in which packets pass them.
        cycle: Vec<PortEnd>,
    },
}

/// A table entry that leaves pairs without a way, or (as `node`) a host whose cable leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The node that has the entry; of a cycle the one with the smallest GUID.
    pub node: NodeIndex,
    /// The LID of the entry.
    pub lid: u16,
    /// Whose LID it is.
    pub destination: PortEnd,
    /// What is wrong.
    pub fault: Fault,
    /// Pairs without a way because of it.
    pub pairs: u64,
}

/// What one direction of a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// The sending end.
    pub from: PortEnd,
    /// The receiving end.
    pub to: PortEnd,
    /// Pairs (source, destination LID) whose way passes it.
    pub pairs: u64,
}

/// The result of a pass over all pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllPairs {
    /// Pairs (source end, destination LID) looked at; an end and itself are none.
    pub pairs: u64,
    /// Pairs with a way.
    pub reached: u64,
    /// Pairs whose way ends before the destination.
    pub unreached: u64,
    /// Pairs whose way does not end.
    pub looping: u64,
    /// Links passed by all ways together: the sum of their lengths.
    pub links_passed: u64,
    /// Entry i is the number of pairs whose way passes i links.
    pub lengths: Vec<u64>,
    /// The first [`FINDINGS_MAX`] findings, by LID and node.
    pub findings: Vec<Finding>,
    /// Findings in all.
    pub findings_total: u64,
    /// A cycle of links that can wait for each other's buffers, where that was looked for and there is one.
    pub credit_loop: Option<Vec<PortEnd>>,
    usage: Vec<LinkUse>,
}

impl AllPairs {
    /// Each direction of each link with what it carries, also where that is nothing; by GUID and port.
    #[must_use]
    pub fn usage(&self) -> &[LinkUse] {
        &self.usage
    }
}

impl Topology {
    /// Counts all pairs; see [`Scope`]. The topology must have its forwarding tables.
    #[must_use]
    pub fn all_pairs(&self, scope: &Scope) -> AllPairs {
        let wiring = Wiring::new(self);
        let plan = Plan::new(&wiring, scope);
        let steps = plan.destinations.len() * wiring.switches.len();
        let threads = match std::thread::available_parallelism() {
            Ok(cores) if steps >= STEPS_FOR_THREADS => cores.get().min(THREADS_MAX),
            _ => 1,
        };
        let share = plan.destinations.len().div_ceil(threads).max(1);
        let mut total = std::thread::scope(|threads| {
            let starts = (0..plan.destinations.len()).step_by(share);
            let parts: Vec<_> = starts
                .map(|start| {
                    let range = start..(start + share).min(plan.destinations.len());
                    let (wiring, plan) = (&wiring, &plan);
                    threads.spawn(move || Pass::new(wiring, plan).run(range))
                })
                .collect();
            parts.into_iter().map(std::thread::ScopedJoinHandle::join).fold(
                PairTally::new(&wiring, &plan),
                |mut total, part| {
                    match part {
                        Ok(part) => total.add(part),
                        // A bug in a pass is not hidden by joining it.
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                    total
                },
            )
        });
        total.result.credit_loop = total.dependencies.as_ref().and_then(|found| found.cycle(&wiring));
        total.finish(&wiring)
    }
}

/// A destination LID.
#[derive(Clone, Copy)]
struct Destination {
    lid: u16,
    /// Who has it.
    at: PortEnd,
    /// Behind what packets are there.
    owner: PortNeighbour,
    /// Which sources count for it: position in [`Plan::groups`].
    group: usize,
}

/// Sources that count for some destinations.
struct Group {
    /// Of each end, whether it is one.
    sources: Vec<bool>,
    /// Sources at each switch.
    at_switch: Vec<u32>,
    /// Sources that are cabled to no switch.
    elsewhere: Vec<u32>,
    count: u64,
}

struct Plan {
    destinations: Vec<Destination>,
    groups: Vec<Group>,
    find_credit_loops: bool,
}

impl Plan {
    fn new(wiring: &Wiring<'_>, scope: &Scope) -> Plan {
        let topology = wiring.topology;
        let counts = |node: NodeIndex| {
            let node = &topology.nodes[node];
            scope.all_ends || (node.kind == NodeKind::Ca && !super::is_aggregation_node(node))
        };
        let sets = |node: NodeIndex| match &scope.between {
            None => (true, true),
            Some((first, second)) => {
                (first.get(node).copied().unwrap_or(false), second.get(node).copied().unwrap_or(false))
            }
        };
        // A destination of the second set has its sources in the first, and the other way round.
        let group = |in_group: &dyn Fn((bool, bool)) -> bool| {
            let is_source =
                |end: &super::wiring::End| end.lid != 0 && counts(end.at.node) && in_group(sets(end.at.node));
            Group::new(wiring, wiring.ends.iter().map(is_source).collect())
        };
        let groups = vec![group(&|sets| sets.0), group(&|sets| sets.1), group(&|sets| sets.0 || sets.1)];
        let mut plan = Plan { destinations: Vec::new(), groups, find_credit_loops: scope.credit_loops };
        let mut add = |at: PortEnd, first: u16, last: u16, owner: PortNeighbour| {
            let group = match sets(at.node) {
                (false, false) => return,
                (false, true) => 0,
                (true, false) => 1,
                (true, true) => 2,
            };
            if first != 0 && counts(at.node) {
                let last = if scope.all_lids { last } else { first };
                plan.destinations.extend((first..=last).map(|lid| Destination { lid, at, owner, group }));
            }
        };
        for (number, end) in wiring.ends.iter().enumerate() {
            add(end.at, end.lid, end.last_lid, PortNeighbour::End(number as u32));
        }
        for (number, node) in wiring.switches.iter().enumerate() {
            let (first, last) = wiring.switch_lids[number];
            add(PortEnd { node: *node, port: 0 }, first, last, PortNeighbour::Switch(number as u32));
        }
        // Neighbouring LIDs are neighbours in each table.
        plan.destinations.sort_by_key(|destination| destination.lid);
        plan
    }
}

impl Group {
    fn new(wiring: &Wiring<'_>, sources: Vec<bool>) -> Group {
        let mut group = Group {
            at_switch: vec![0; wiring.switches.len()],
            elsewhere: Vec::new(),
            count: sources.iter().filter(|is_source| **is_source).count() as u64,
            sources,
        };
        for (number, end) in wiring.ends.iter().enumerate().filter(|(number, _)| group.sources[*number]) {
            match end.behind {
                PortNeighbour::Switch(switch) => group.at_switch[switch as usize] += 1,
                _ => group.elsewhere.push(number as u32),
            }
        }
        group
    }
}

/// What is counted; that of several threads adds up.
struct PairTally {
    result: AllPairs,
    /// Pairs by channel.
    channels: Vec<u64>,
    /// Per group and switch: destinations that its sources reach.
    reached_from: Vec<Vec<u64>>,
    /// Per end: of its own LIDs, those which its own switch leads to it: counted above and no pairs.
    own: Vec<u32>,
    dependencies: Option<Dependencies>,
}

impl PairTally {
    fn new(wiring: &Wiring<'_>, plan: &Plan) -> PairTally {
        PairTally {
            result: AllPairs::default(),
            channels: vec![0; wiring.channels()],
            reached_from: vec![vec![0; wiring.switches.len()]; plan.groups.len()],
            own: vec![0; wiring.ends.len()],
            dependencies: plan.find_credit_loops.then(|| Dependencies::new(wiring.channels())),
        }
    }

    fn add(&mut self, other: PairTally) {
        let sum = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        let (to, from) = (&mut self.result, other.result);
        to.pairs += from.pairs;
        to.reached += from.reached;
        to.unreached += from.unreached;
        to.looping += from.looping;
        to.links_passed += from.links_passed;
        to.findings_total += from.findings_total;
        to.lengths.resize(to.lengths.len().max(from.lengths.len()), 0);
        sum(&mut to.lengths, &from.lengths);
        let room = FINDINGS_MAX.saturating_sub(to.findings.len());
        to.findings.extend(from.findings.into_iter().take(room));
        sum(&mut self.channels, &other.channels);
        self.reached_from.iter_mut().zip(&other.reached_from).for_each(|(to, from)| sum(to, from));
        self.own.iter_mut().zip(&other.own).for_each(|(to, from)| *to += from);
        if let (Some(to), Some(from)) = (&mut self.dependencies, &other.dependencies) {
            to.add(from);
        }
    }

    fn length(&mut self, links: usize, pairs: u64) {
        let lengths = &mut self.result.lengths;
        if pairs == 0 {
            return;
        }
        if lengths.len() <= links {
            lengths.resize(links + 1, 0);
        }
        lengths[links] += pairs;
        self.result.reached += pairs;
        self.result.links_passed += links as u64 * pairs;
    }

    /// The sources' own cables, and everything in its place.
    fn finish(mut self, wiring: &Wiring<'_>) -> AllPairs {
        let channels = self.channels.iter().enumerate();
        self.result.usage = channels
            .filter_map(|(channel, pairs)| {
                let from = wiring.port_of(channel);
                let to = wiring.topology.nodes[from.node].port(from.port)?.remote?;
                Some(LinkUse { from, to, pairs: *pairs })
            })
            .collect();
        self.result
    }
}
