//! What traffic between ranks does to the links on its way: routes, load and congestion, as pure functions.
//!
//! A link is one direction of one cable. Where flows need more than a link carries, all that cross it are
//! slowed down alike, as end-to-end flow control does, so that what one port sends is what the port at the
//! other end receives. No I/O, no time, no simulator.

use std::collections::BTreeMap;
use throughline_sample::Guid;

/// What a link carries at most, as a share of its speed: headers, link packets and arbitration take the rest.
/// Above the 90 % at which the alerts fire.
pub const ATTAINABLE_SHARE: f64 = 0.97;

/// A port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId {
    /// Node GUID.
    pub guid: Guid,
    /// Port number.
    pub port: u8,
}

/// One direction of one cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    /// The port that sends.
    pub from: PortId,
    /// The port that receives.
    pub to: PortId,
}

/// One node on a route, as `throughline-fabric route --json` prints it: null at the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct Hop {
    /// Node GUID.
    pub guid: Guid,
    /// The port by which the route enters.
    pub in_port: Option<u8>,
    /// The port by which it leaves.
    pub out_port: Option<u8>,
}

/// A link and its speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Which link.
    pub id: LinkId,
    /// Data rate of one direction.
    pub bytes_per_second: f64,
}

/// Traffic from each rank (row) to each other (column), in bytes per second.
pub type TrafficMatrix = Vec<Vec<f64>>;

/// What a link has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// What the flows over this link would send, in bytes per second.
    pub demand: f64,
    /// What it carries, in bytes per second.
    pub carried: f64,
    /// Share of the time in which the sending port has data and may not send.
    pub waiting: f64,
}

/// Routes between ranks over links.
#[derive(Clone, Debug, Default)]
pub struct Network {
    links: Vec<Link>,
    routes: BTreeMap<(usize, usize), Vec<usize>>,
}

/// Routes that do not describe a network.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RouteError {
    /// A hop lacks the port that the next or the previous hop needs.
    #[error("route from rank {from} to rank {to}: hop {hop} has no port where the route goes on")]
    Broken {
        /// Sending rank.
        from: usize,
        /// Receiving rank.
        to: usize,
        /// Index of the hop.
        hop: usize,
    },
}

impl Network {
    /// Adds the route between two ranks. `speed` gives the data rate of the link that a port sends on, in bytes
    /// per second.
    ///
    /// # Errors
    /// The hops do not join.
    pub fn add_route(
        &mut self,
        from: usize,
        to: usize,
        hops: &[Hop],
        speed: impl Fn(PortId) -> f64,
    ) -> Result<(), RouteError> {
        let mut route = Vec::new();
        for (index, pair) in hops.windows(2).enumerate() {
            let broken = |hop| RouteError::Broken { from, to, hop };
            let leaves = PortId { guid: pair[0].guid, port: pair[0].out_port.ok_or_else(|| broken(index))? };
            let enters =
                PortId { guid: pair[1].guid, port: pair[1].in_port.ok_or_else(|| broken(index + 1))? };
            let id = LinkId { from: leaves, to: enters };
            let known = self.links.iter().position(|link| link.id == id);
            route.push(known.unwrap_or_else(|| {
                self.links.push(Link { id, bytes_per_second: speed(leaves) });
                self.links.len() - 1
            }));
        }
        self.routes.insert((from, to), route);
        Ok(())
    }

    /// All links of all routes.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The pairs of ranks whose route crosses a link.
    pub fn pairs_over(&self, link: LinkId) -> Vec<(usize, usize)> {
        let crosses = |route: &[usize]| route.iter().any(|index| self.links[*index].id == link);
        self.routes.iter().filter(|(_, route)| crosses(route)).map(|(pair, _)| *pair).collect()
    }

    /// The load of each link, in the order of [`Network::links`].
    pub fn load(&self, demand: &TrafficMatrix) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.links.len()];
        for (bytes_per_second, route) in self.flows(demand) {
            for index in route {
                loads[*index].demand += bytes_per_second;
            }
        }
        let share: Vec<f64> = self
            .links
            .iter()
            .zip(&loads)
            .map(|(link, load)| fitting_share(link.bytes_per_second * ATTAINABLE_SHARE, load.demand))
            .collect();
        let mut held_back = vec![0.0; self.links.len()];
        for (bytes_per_second, route) in self.flows(demand) {
            let (bottleneck, least) = narrowest(route, &share);
            for (position, index) in route.iter().enumerate() {
                loads[*index].carried += bytes_per_second * least;
                // Up to its bottleneck a flow waits for credits; behind it, it arrives already thinned.
                if position <= bottleneck {
                    held_back[*index] += bytes_per_second * (1.0 - least);
                }
            }
        }
        for (load, held_back) in loads.iter_mut().zip(held_back) {
            load.waiting = if load.demand > 0.0 { held_back / load.demand } else { 0.0 };
        }
        loads
    }

    fn flows<'a>(&'a self, demand: &'a TrafficMatrix) -> impl Iterator<Item = (f64, &'a [usize])> {
        self.routes.iter().filter_map(|((from, to), route)| {
            let bytes_per_second = *demand.get(*from)?.get(*to)?;
            (bytes_per_second > 0.0).then_some((bytes_per_second, route.as_slice()))
        })
    }
}

/// The demand, `factor` times.
#[cfg(test)]
pub fn scaled(demand: &TrafficMatrix, factor: f64) -> TrafficMatrix {
    demand.iter().map(|row| row.iter().map(|cell| cell * factor).collect()).collect()
}

fn fitting_share(attainable: f64, demand: f64) -> f64 {
    if demand > attainable { attainable / demand } else { 1.0 }
}

/// The first link of a route that slows it down most, and the share that it lets through.
fn narrowest(route: &[usize], share: &[f64]) -> (usize, f64) {
    let mut found = (0, 1.0);
    for (position, index) in route.iter().enumerate() {
        if share[*index] < found.1 {
            found = (position, share[*index]);
        }
    }
    found
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const SPEED: f64 = 1000.0;

    /// Hosts 0 and 2 on leaf A, 1 and 3 on leaf B, two spines: 0 and 1 talk over spine 1, all others over 2.
    pub fn two_leaves() -> Network {
        let mut network = Network::default();
        for from in 0..4_u8 {
            for to in (0..4_u8).filter(|to| *to != from) {
                network.add_route(from.into(), to.into(), &route(from, to), |_| SPEED).unwrap();
            }
        }
        network
    }

    fn route(from: u8, to: u8) -> Vec<Hop> {
        let leaf = |rank: u8| Guid(0x100 + u64::from(rank % 2));
        let host = |rank: u8| Guid(u64::from(rank));
        let mut hops = vec![Hop { guid: host(from), in_port: None, out_port: Some(1) }];
        let mut switch = |guid, into, out| hops.push(Hop { guid, in_port: Some(into), out_port: Some(out) });
        if from % 2 == to % 2 {
            switch(leaf(from), from + 1, to + 1);
        } else {
            let spine: u8 = if from < 2 && to < 2 { 1 } else { 2 };
            switch(leaf(from), from + 1, 10 + spine);
            switch(Guid(0x200 + u64::from(spine)), from % 2 + 1, to % 2 + 1);
            switch(leaf(to), 10 + spine, to + 1);
        }
        hops.push(Hop { guid: host(to), in_port: Some(1), out_port: None });
        hops
    }

    fn demand(cells: &[(usize, usize, f64)]) -> TrafficMatrix {
        let mut demand = vec![vec![0.0; 4]; 4];
        for (from, to, value) in cells {
            demand[*from][*to] = *value;
        }
        demand
    }

    #[test]
    fn a_flow_loads_every_link_of_its_route_and_no_other() {
        let network = two_leaves();
        let loads = network.load(&demand(&[(0, 1, 100.0)]));
        let loaded: Vec<&Link> = network
            .links()
            .iter()
            .zip(&loads)
            .filter(|(_, load)| load.carried > 0.0)
            .map(|(l, _)| l)
            .collect();
        assert_eq!(loaded.len(), 4);
        for link in loaded {
            assert!(network.pairs_over(link.id).contains(&(0, 1)));
        }
        assert!(loads.iter().all(|load| load.waiting == 0.0));
    }

    #[test]
    fn overload_is_carried_at_the_attainable_speed_and_waits_before_the_bottleneck() {
        let network = two_leaves();
        // 2 to 1 and 2 to 3 share host 2's link; 0 to 1 meets 2 to 1 on the link to host 1.
        let loads = network.load(&demand(&[(0, 1, 800.0), (2, 1, 400.0)]));
        let attainable = SPEED * ATTAINABLE_SHARE;
        for (link, load) in network.links().iter().zip(&loads) {
            assert!(load.carried <= attainable + 1e-6, "{link:?} {load:?}");
        }
        let into_host_1 = network.links().iter().position(|link| link.id.to.guid == Guid(1)).unwrap();
        assert!((loads[into_host_1].carried - attainable).abs() < 1e-6);
        let share = attainable / 1200.0;
        let out_of_host_0 = network.links().iter().position(|link| link.id.from.guid == Guid(0)).unwrap();
        assert!((loads[out_of_host_0].carried - 800.0 * share).abs() < 1e-6);
        assert!((loads[out_of_host_0].waiting - (1.0 - share)).abs() < 1e-9);
    }

    #[test]
    fn behind_the_bottleneck_nothing_waits() {
        let network = two_leaves();
        let loads = network.load(&demand(&[(0, 1, 2.0 * SPEED)]));
        let waiting: Vec<f64> = loads.iter().map(|load| load.waiting).filter(|share| *share > 0.0).collect();
        assert_eq!(waiting.len(), 1, "only the host's own port, which is the bottleneck");
    }

    #[test]
    fn a_route_with_a_gap_is_refused() {
        let hops = [
            Hop { guid: Guid(1), in_port: None, out_port: None },
            Hop { guid: Guid(2), in_port: Some(1), out_port: None },
        ];
        let refused = Network::default().add_route(0, 1, &hops, |_| 1.0);
        assert_eq!(refused, Err(RouteError::Broken { from: 0, to: 1, hop: 0 }));
    }
}
