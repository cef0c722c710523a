//! The walk over some of the destinations: per destination the fate of each switch, then the sources along the
//! tree. Pure; what it adds up is put together by its parent.

use super::*;

/// What becomes of packets for the present destination at a switch.
const UNKNOWN: u32 = u32::MAX;
const ON_THE_WAY: u32 = u32::MAX - 1;
/// From here on: they do not arrive, because of the finding with this number.
const BAD: u32 = 1 << 30;

/// A walk over some of the destinations.
pub(super) struct Pass<'a> {
    wiring: &'a Wiring<'a>,
    plan: &'a Plan,
    tally: PairTally,
    /// Per switch: links from it to the destination, or one of the constants above.
    fate: Vec<u32>,
    /// Per switch: the channel by which it sends.
    out: Vec<u32>,
    /// Per switch: sources at it and behind it.
    flow: Vec<u64>,
    /// Switches on the way that is followed.
    stack: Vec<u32>,
    /// Switches whose packets arrive, each behind the one it sends to.
    order: Vec<u32>,
    /// Of the present destination: node, fault, pairs.
    bad: Vec<(NodeIndex, Fault, u64)>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(wiring: &'a Wiring<'a>, plan: &'a Plan) -> Pass<'a> {
        let switches = wiring.switches.len();
        Pass {
            wiring,
            plan,
            tally: PairTally::new(wiring, plan),
            fate: vec![UNKNOWN; switches],
            out: vec![0; switches],
            flow: vec![0; switches],
            stack: Vec::with_capacity(switches),
            order: Vec::with_capacity(switches),
            bad: Vec::new(),
        }
    }

    pub(super) fn run(mut self, range: Range<usize>) -> PairTally {
        let plan = self.plan;
        for destination in &plan.destinations[range] {
            self.fate.fill(UNKNOWN);
            self.order.clear();
            self.bad.clear();
            for switch in 0..self.fate.len() {
                if self.fate[switch] == UNKNOWN {
                    self.follow(switch as u32, destination);
                }
            }
            self.count(destination);
            self.report(destination);
        }
        self.own_cables();
        self.tally
    }

    /// Follows the tables from a switch until something is known, and notes it for all switches passed.
    fn follow(&mut self, switch: u32, destination: &Destination) {
        let mut here = switch as usize;
        let mut fate = loop {
            self.stack.push(here as u32);
            self.fate[here] = ON_THE_WAY;
            if destination.owner == PortNeighbour::Switch(here as u32) {
                self.out[here] = u32::MAX;
                // It is there already; the unwinding below counts a link for each switch.
                self.fate[here] = 0;
                self.order.push(here as u32);
                self.stack.pop();
                break 0;
            }
            match self.step(here, destination) {
                Ok(PortNeighbour::Switch(next)) => match self.fate[next as usize] {
                    UNKNOWN => here = next as usize,
                    ON_THE_WAY => break self.cycle(next),
                    known => break known,
                },
                Ok(_) => break 0,
                Err(fault) => {
                    self.bad.push((self.wiring.switches[here], fault, 0));
                    break BAD + (self.bad.len() - 1) as u32;
                }
            }
        };
        while let Some(passed) = self.stack.pop() {
            if fate < BAD {
                fate += 1;
                self.order.push(passed);
            }
            self.fate[passed as usize] = fate;
        }
    }

    /// Where a switch sends packets for the destination.
    fn step(&mut self, switch: usize, destination: &Destination) -> Result<PortNeighbour, Fault> {
        let index = self.wiring.switches[switch];
        let node = &self.wiring.topology.nodes[index];
        let port = node.output_port(destination.lid).ok_or(Fault::NoEntry)?;
        if port == 0 {
            return Err(Fault::WrongEnd { port });
        }
        let channel = self.wiring.channel(index, port).ok_or(Fault::NoNeighbour { port })?;
        self.out[switch] = channel as u32;
        match self.wiring.behind(channel) {
            PortNeighbour::Nothing => Err(Fault::NoNeighbour { port }),
            end @ PortNeighbour::End(_) if end != destination.owner => Err(Fault::WrongEnd { port }),
            next => Ok(next),
        }
    }

    /// A way came back to a switch that is on it.
    fn cycle(&mut self, first: u32) -> u32 {
        let from = self.stack.iter().position(|passed| *passed == first).unwrap_or(0);
        let mut cycle: Vec<PortEnd> = self.stack[from..]
            .iter()
            .map(|switch| self.wiring.port_of(self.out[*switch as usize] as usize))
            .collect();
        // Reported the same from wherever it was entered; nodes are ordered by GUID.
        let least = cycle.iter().enumerate().min_by_key(|(_, end)| end.node).map_or(0, |(place, _)| place);
        cycle.rotate_left(least);
        self.bad.push((cycle[0].node, Fault::Loop { cycle }, 0));
        BAD + (self.bad.len() - 1) as u32
    }

    /// Counts the sources of one destination along its tree.
    fn count(&mut self, destination: &Destination) {
        let group = &self.plan.groups[destination.group];
        // The end itself is no source, wherever it is cabled.
        let own = match destination.owner {
            PortNeighbour::End(end) if group.sources[end as usize] => Some(end as usize),
            _ => None,
        };
        let own_switch = own.and_then(|end| match self.wiring.ends[end].behind {
            PortNeighbour::Switch(switch) => Some(switch as usize),
            _ => None,
        });
        self.tally.result.pairs += group.count - u64::from(own.is_some());
        for (flow, sources) in self.flow.iter_mut().zip(&group.at_switch) {
            *flow = u64::from(*sources);
        }
        if let (Some(end), Some(switch)) = (own, own_switch) {
            self.flow[switch] -= 1;
            self.tally.own[end] += u32::from(self.fate[switch] < BAD);
        }
        for (switch, fate) in self.fate.iter().enumerate() {
            let sources = self.flow[switch];
            if *fate < BAD {
                self.tally.length(*fate as usize + 1, sources);
                self.tally.reached_from[destination.group][switch] += 1;
            } else if let Some((_, fault, pairs)) = self.bad.get_mut((*fate - BAD) as usize) {
                *pairs += sources;
                match fault {
                    Fault::Loop { .. } => self.tally.result.looping += sources,
                    _ => self.tally.result.unreached += sources,
                }
            }
        }
        for switch in self.order.iter().rev() {
            let flow = self.flow[*switch as usize];
            let channel = self.out[*switch as usize];
            if flow == 0 || channel == u32::MAX {
                continue;
            }
            self.tally.channels[channel as usize] += flow;
            if let PortNeighbour::Switch(next) = self.wiring.behind(channel as usize) {
                self.flow[next as usize] += flow;
                let further = self.out[next as usize];
                if let (Some(dependencies), true) = (&mut self.tally.dependencies, further != u32::MAX) {
                    dependencies.note(channel, self.wiring.port_of(further as usize).port);
                }
            }
        }
        for source in group.elsewhere.iter().filter(|source| own != Some(**source as usize)) {
            let end = &self.wiring.ends[*source as usize];
            if end.behind == destination.owner {
                self.tally.length(1, 1);
                self.tally.channels[end.channel as usize] += 1;
            } else {
                self.tally.result.unreached += 1;
                let port = end.at.port;
                let fault = match end.behind {
                    PortNeighbour::End(_) => Fault::WrongEnd { port },
                    _ => Fault::NoNeighbour { port },
                };
                self.bad.push((end.at.node, fault, 1));
            }
        }
    }

    /// Puts what was found for one destination into the result. An entry that no pair needs is no finding, but
    /// one that makes packets circle always is.
    fn report(&mut self, destination: &Destination) {
        for (node, fault, pairs) in self.bad.drain(..) {
            if pairs == 0 && !matches!(fault, Fault::Loop { .. }) {
                continue;
            }
            let result = &mut self.tally.result;
            result.findings_total += 1;
            if result.findings.len() < FINDINGS_MAX {
                let (lid, destination) = (destination.lid, destination.at);
                result.findings.push(Finding { node, lid, destination, fault, pairs });
            }
        }
    }

    /// The cable of each source carries its pairs that arrive.
    fn own_cables(&mut self) {
        for (group, reached) in self.plan.groups.iter().zip(&self.tally.reached_from) {
            for (number, end) in self.wiring.ends.iter().enumerate() {
                if let (true, PortNeighbour::Switch(switch)) = (group.sources[number], end.behind) {
                    self.tally.channels[end.channel as usize] += reached[switch as usize];
                }
            }
        }
        // Its own LIDs were counted among them, in the one group that they belong to.
        for (end, own) in self.wiring.ends.iter().zip(&self.tally.own) {
            self.tally.channels[end.channel as usize] -= u64::from(*own);
        }
    }
}
