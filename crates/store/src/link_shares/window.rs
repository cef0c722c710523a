//! The shares of one window: traffic and counters to rows. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use throughline_shares::estimate::{self, Contributor, Flow, Kind, LinkShares, Share};
use throughline_shares::network::{HostPort, Path, Routes};
use throughline_shares::wire::counted_bytes;

use super::counters::CountedBytes;
use super::fabric::Fabric;
use super::groups::Groups;
use super::traffic::{Amount, Key};

/// The usual MTU of InfiniBand, bytes: headers are counted by packet.
const MTU: u64 = 4096;

/// A direction that carried less in a window has no rows: management and idle chatter (64 KiB a second).
pub(super) const LEAST_BYTES: f64 = 655_360.0;

/// Contributors of a direction that have rows of their own.
pub(super) const LISTED: usize = 8;

/// A contributor with a smaller part of what was counted is in `other`. A tenth of what is shown as a cause, so that a job
/// with little traffic on another one's full link is found.
pub(super) const LEAST_SHARE: f64 = 0.001;

/// Where ranks of a job are, and the ports that they use.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The node of each rank.
    pub node_of: HashMap<i32, i64>,
    /// Ports of the fabric by node: `ib_port_key.id`.
    pub ports_of: HashMap<i64, Vec<i64>>,
}

/// What a window is made of.
pub(super) struct Input {
    pub fabrics: Vec<Arc<Fabric>>,
    pub traffic: HashMap<Key, Amount>,
    pub places: HashMap<i64, Arc<Places>>,
    pub counted: HashMap<i64, CountedBytes>,
}

/// Who a share belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ShareOwner {
    /// Job and number of the operation.
    Job(i64, u32),
    Group(String),
    Host(String),
    Other,
    Rest,
}

/// A row of `link_shares`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShareRow {
    pub port: i64,
    pub who: ShareOwner,
    pub bytes: i64,
    pub low: i64,
    pub high: i64,
    pub kind: Kind,
    pub is_bound: bool,
    pub counted: Option<i64>,
}

/// A flow's ends, each as fabric and index of a port in it, and what it has of the whole.
type Pair = (usize, usize, usize, f64);

/// Shares of all directions that carried traffic.
pub(super) fn shares(input: &Input, groups: &Groups) -> Vec<ShareRow> {
    let mut contributors: HashMap<(i64, u32), u32> = HashMap::new();
    let mut flows: Vec<Vec<Flow>> = vec![Vec::new(); input.fabrics.len()];
    // Contributors for which it is not known which of a host's ports they use.
    let mut is_split: HashSet<u32> = HashSet::new();
    let mut pairs_of: HashMap<(i64, i64, i64), Vec<Pair>> = HashMap::new();
    let routes: Vec<WindowRoutes<'_>> =
        input.fabrics.iter().map(|fabric| WindowRoutes::new(fabric, &input.places)).collect();
    for (key, amount) in &input.traffic {
        let Some(places) = input.places.get(&key.job) else { continue };
        let Some(peer) = places.node_of.get(&key.peer).copied() else { continue };
        if peer == key.node {
            // Within the node: by memory or NVLink, never on the fabric.
            continue;
        }
        let (from, to) = if key.is_received { (peer, key.node) } else { (key.node, peer) };
        let pairs = pairs_of
            .entry((key.job, from, to))
            .or_insert_with(|| pairs(input, &routes, places, from, to))
            .as_slice();
        let next = u32::try_from(contributors.len()).unwrap_or(u32::MAX);
        let contributor = *contributors.entry((key.job, key.operation)).or_insert(next);
        if pairs.len() > 1 {
            is_split.insert(contributor);
        }
        let bytes = on_wire(amount);
        for (fabric, from, to, part) in pairs {
            // A part of the ports that nobody knows may be all or nothing.
            let error = if pairs.len() > 1 { (1.0 / part - 1.0).max(1.0) } else { key.kind.usual_error() };
            flows[*fabric].push(Flow {
                contributor,
                from: *from,
                to: *to,
                bytes: bytes * part,
                kind: key.kind,
                error,
            });
        }
    }
    let mut named: Vec<(i64, u32)> = vec![(0, 0); contributors.len()];
    for (job, number) in contributors {
        named[number as usize] = job;
    }
    let mut rows = Vec::new();
    for (routes, flows) in routes.iter().zip(&flows) {
        let fabric = routes.fabric;
        let counted = by_link(fabric, &input.counted);
        let shares = estimate::estimate(routes, flows, &counted);
        for (link, shares) in shares.iter().enumerate() {
            let Some(direction) = fabric.directions.get(link) else { continue };
            let name = |contributor: &Contributor| match contributor {
                Contributor::Reported(number) => {
                    let (job, operation) = named[*number as usize];
                    (ShareOwner::Job(job, operation), is_split.contains(number))
                }
                Contributor::Unreported { port } => {
                    let host = fabric.hosts.get(*port).map_or("", String::as_str);
                    let who = groups.of(host).map_or_else(
                        || ShareOwner::Host(host.to_owned()),
                        |group| ShareOwner::Group(group.to_owned()),
                    );
                    (who, false)
                }
            };
            of_direction(direction.sender, shares, name, &mut rows);
        }
    }
    rows
}

/// What the port of each link counted: the sender's word, else the receiver's.
pub(super) fn by_link(fabric: &Fabric, counted: &HashMap<i64, CountedBytes>) -> Vec<Option<f64>> {
    let of = |port: i64| counted.get(&port).copied().unwrap_or_default();
    fabric
        .directions
        .iter()
        .map(|direction| of(direction.sender).sent.or_else(|| of(direction.receiver).received))
        .collect()
}

/// A fabric in a window: of a host with several ports jobs may use any, unless one is known to use a single one.
struct WindowRoutes<'a> {
    fabric: &'a Fabric,
    /// By index of a port.
    rails: Vec<Vec<usize>>,
}

impl<'a> WindowRoutes<'a> {
    fn new(fabric: &'a Fabric, places: &HashMap<i64, Arc<Places>>) -> Self {
        let mut rails = vec![Vec::new(); fabric.hosts.len()];
        let mut of_host: HashMap<&str, Vec<usize>> = HashMap::new();
        for (port, host) in fabric.hosts.iter().enumerate() {
            of_host.entry(host).or_default().push(port);
        }
        of_host.retain(|_, ports| ports.len() > 1);
        if of_host.is_empty() {
            return Self { fabric, rails };
        }
        let mut is_single = vec![false; fabric.hosts.len()];
        for ports in places.values().flat_map(|places| places.ports_of.values()) {
            let mut here = ports.iter().filter_map(|port| fabric.port_of.get(port));
            if let (Some(port), None) = (here.next(), here.next()) {
                is_single[*port] = true;
            }
        }
        for ports in of_host.into_values().filter(|ports| !ports.iter().any(|port| is_single[*port])) {
            ports.iter().for_each(|port| rails[*port].clone_from(&ports));
        }
        Self { fabric, rails }
    }
}

impl Routes for WindowRoutes<'_> {
    fn ports(&self) -> &[HostPort] {
        self.fabric.routes.ports()
    }

    fn path(&self, from: usize, to: usize) -> Option<Path> {
        self.fabric.routes.path(from, to)
    }

    fn rails(&self, port: usize) -> &[usize] {
        self.rails.get(port).map_or(&[], Vec::as_slice)
    }
}

/// Pairs of ports by which one node of a job reaches another one, and what each has of the traffic: those of one fabric. Of
/// several each is weighed by what its ports counted; where a host's ports are rails of each other, one stands for all.
fn pairs(input: &Input, routes: &[WindowRoutes<'_>], places: &Places, from: i64, to: i64) -> Vec<Pair> {
    let of = |node: i64| places.ports_of.get(&node).map_or(&[][..], Vec::as_slice);
    let counted = |port: i64, is_sender: bool| {
        let counted = input.counted.get(&port).copied().unwrap_or_default();
        1.0 + (if is_sender { counted.sent } else { counted.received }).unwrap_or(0.0)
    };
    // The first of a host's rails stands for all.
    let stands = |routes: &WindowRoutes<'_>, port: usize| routes.rails(port).first().copied().unwrap_or(port);
    let mut pairs: Vec<Pair> = Vec::new();
    for (number, routes) in routes.iter().enumerate() {
        for sender in of(from) {
            let Some(from) = routes.fabric.port_of.get(sender) else { continue };
            for receiver in of(to) {
                let Some(to) = routes.fabric.port_of.get(receiver) else { continue };
                let weight = counted(*sender, true) * counted(*receiver, false);
                let (from, to) = (stands(routes, *from), stands(routes, *to));
                match pairs.iter_mut().find(|pair| (pair.0, pair.1, pair.2) == (number, from, to)) {
                    Some(pair) => pair.3 += weight,
                    None => pairs.push((number, from, to, weight)),
                }
            }
        }
    }
    let all: f64 = pairs.iter().map(|(_, _, _, weight)| weight).sum();
    pairs.iter_mut().for_each(|(_, _, _, weight)| *weight /= all);
    pairs
}

/// Bytes as ports count them.
fn on_wire(amount: &Amount) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    {
        // Parts of messages are none; headers of a few more or less do not matter.
        let messages = amount.messages.max(0.0).ceil() as u64;
        counted_bytes(amount.bytes.max(0.0).round() as u64, messages, MTU) as f64
    }
}

/// Bytes as whole numbers.
fn whole(bytes: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation)] // saturates
    (bytes.max(0.0).round() as i64)
}

/// Rows of one direction: they add up to what was counted.
fn of_direction(
    port: i64,
    shares: &LinkShares,
    name: impl Fn(&Contributor) -> (ShareOwner, bool),
    rows: &mut Vec<ShareRow>,
) {
    let sum: f64 = shares.shares.iter().map(|share| share.bytes).sum();
    let all = shares.counted.unwrap_or(sum);
    if all < LEAST_BYTES {
        return;
    }
    let counted = shares.counted.map(whole);
    // Ports of one host, and hosts of one group, are one contributor.
    let mut by_name: BTreeMap<ShareOwner, (Share, bool)> = BTreeMap::new();
    for share in &shares.shares {
        let (who, is_split) = name(&share.contributor);
        let sum = by_name.entry(who).or_insert_with(|| {
            let none = Share { bytes: 0.0, low: 0.0, high: 0.0, kind: share.kind, is_bound: false, ..*share };
            (none, false)
        });
        sum.0 = together(&sum.0, share);
        sum.1 |= is_split;
    }
    let mut listed: Vec<(ShareOwner, (Share, bool))> = by_name.into_iter().collect();
    listed.sort_by(|one, other| other.1.0.bytes.total_cmp(&one.1.0.bytes).then_with(|| one.0.cmp(&other.0)));
    let is_large =
        |(_, (share, _)): &&(ShareOwner, (Share, bool))| share.bytes >= (all * LEAST_SHARE).max(1.0);
    let large = listed.iter().take(LISTED).filter(is_large).count();
    let small = listed.split_off(large);
    if let Some((_, (first, _))) = small.first() {
        let none = Share { bytes: 0.0, low: 0.0, high: 0.0, kind: first.kind, is_bound: false, ..*first };
        let other = small.iter().fold(none, |sum, (_, (share, _))| together(&sum, share));
        listed.push((ShareOwner::Other, (other, false)));
    }
    let mut left = counted;
    for (who, (share, is_split)) in listed {
        // Rounding adds nothing that was not counted.
        let bytes = left.map_or_else(|| whole(share.bytes), |left| whole(share.bytes).min(left));
        left = left.map(|left| left - bytes);
        let high = counted.map_or(i64::MAX, |counted| counted.max(bytes));
        rows.push(ShareRow {
            port,
            who,
            bytes,
            low: whole(share.low).min(bytes),
            high: whole(share.high).max(bytes).min(high),
            kind: share.kind,
            is_bound: share.is_bound || is_split,
            counted,
        });
    }
    let rest = left.unwrap_or(0);
    rows.push(ShareRow {
        port,
        who: ShareOwner::Rest,
        bytes: rest,
        low: 0,
        high: rest,
        kind: Kind::Unreported,
        is_bound: false,
        counted,
    });
}

fn together(one: &Share, other: &Share) -> Share {
    Share {
        contributor: one.contributor,
        bytes: one.bytes + other.bytes,
        low: one.low + other.low,
        high: one.high + other.high,
        kind: one.kind.max(other.kind),
        is_bound: one.is_bound || other.is_bound,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fabric::Direction;
    use super::*;
    use throughline_shares::forwarding::{End, Forwarding, Host, HostRoutes, Switch};

    /// Hosts n1 and n2 with two ports each (1, 2 and 3, 4) at one switch (ports 11 to 14).
    fn two_rails() -> Fabric {
        let end = |node, port| End { node, port };
        let cables: Vec<[End; 2]> = (0..4).map(|n| [end(n / 2, 1 + n % 2), end(2, 1 + n)]).collect();
        let table = Some(vec![255, 1, 2, 3, 4]);
        let switches = HashMap::from([(2, Switch { table, is_adaptive: false })]);
        let host = |n: usize| Host { node: n / 2, port: 1 + n % 2, lid: n + 1, lids: 1 };
        let forwarding = Forwarding::new(3, cables, switches);
        let (routes, _) = HostRoutes::new(forwarding, (0..4).map(host).collect());
        let direction = |n: i64| {
            let (host, switch) = (n + 1, n + 11);
            [Direction { sender: host, receiver: switch }, Direction { sender: switch, receiver: host }]
        };
        let hosts = ["n1", "n1", "n2", "n2"].map(str::to_owned).to_vec();
        let port_of = (0..4).map(|n| (n + 1, n as usize)).collect();
        Fabric { routes, directions: (0..4).flat_map(direction).collect(), port_of, hosts, ports: Vec::new() }
    }

    #[test]
    fn a_host_with_two_ports_uses_them_as_they_counted() {
        let key = Key { job: 1, node: 1, peer: 1, operation: 0, kind: Kind::Measured, is_received: false };
        let ports_of = |ports: [&[i64]; 2]| HashMap::from([(1, ports[0].to_vec()), (2, ports[1].to_vec())]);
        let of = |ports: [&[i64]; 2]| {
            let places = Places { node_of: HashMap::from([(0, 1), (1, 2)]), ports_of: ports_of(ports) };
            let counted = |sent, received| CountedBytes { sent: Some(sent), received: Some(received) };
            let input = Input {
                fabrics: vec![Arc::new(two_rails())],
                traffic: HashMap::from([(key, Amount { bytes: 10e6, messages: 1.0 })]),
                places: HashMap::from([(1, Arc::new(places))]),
                counted: [(1, 8e6, 0.0), (2, 2e6, 0.0), (3, 0.0, 2e6), (4, 0.0, 8e6)]
                    .map(|(port, sent, received)| (port, counted(sent, received)))
                    .into(),
            };
            shares(&input, &Groups::default())
        };
        let part = |rows: &[ShareRow], port: i64| {
            let row = rows.iter().find(|row| row.port == port && row.who == ShareOwner::Job(1, 0));
            row.map(|row| (row.bytes as f64 / 1e6, row.is_bound))
        };
        // Each of both may be used: what is known of it is bounds.
        let rows = of([&[1, 2], &[3, 4]]);
        for (port, expected) in [(1, 8.0), (2, 2.0), (13, 2.0), (14, 8.0)] {
            let (bytes, is_bound) = part(&rows, port).unwrap_or_else(|| panic!("{port}: {rows:#?}"));
            assert!((bytes - expected).abs() < 0.4 && is_bound, "{port}: {rows:#?}");
        }
        // A rank that uses one port alone has nothing on the other.
        let rows = of([&[1], &[4]]);
        assert!(part(&rows, 2).is_none() && part(&rows, 13).is_none(), "{rows:#?}");
        assert!(!part(&rows, 1).unwrap().1, "{rows:#?}");
    }

    fn share(contributor: Contributor, bytes: f64) -> Share {
        Share {
            contributor,
            bytes,
            low: bytes * 0.9,
            high: bytes * 1.2,
            kind: Kind::Modelled,
            is_bound: false,
        }
    }

    fn rows(shares: &LinkShares) -> Vec<ShareRow> {
        let mut rows = Vec::new();
        let name = |contributor: &Contributor| match contributor {
            Contributor::Reported(number) => (ShareOwner::Job(1, *number), *number == 7),
            Contributor::Unreported { port } => (ShareOwner::Host(format!("n{}", port % 2)), false),
        };
        of_direction(5, shares, name, &mut rows);
        rows
    }

    #[test]
    fn rows_add_up_to_what_was_counted_whatever_the_shares() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % 1_000_000) as f64 * 3.7
        };
        for round in 0..200 {
            let mut parts: Vec<Share> =
                (0..round % 30).map(|number| share(Contributor::Reported(number), next())).collect();
            parts.extend(
                (0..round % 5).map(|port| share(Contributor::Unreported { port: port as usize }, next())),
            );
            let sum: f64 = parts.iter().map(|share| share.bytes).sum();
            let counted = (sum + next()).max(LEAST_BYTES);
            let shares = LinkShares { counted: Some(counted), rest: counted - sum, shares: parts };
            let rows = rows(&shares);
            assert_eq!(rows.iter().map(|row| row.bytes).sum::<i64>(), whole(counted), "{round}");
            assert_eq!(rows.iter().filter(|row| row.who == ShareOwner::Rest).count(), 1);
            assert!(rows.len() <= LISTED + 2);
            assert!(rows.iter().all(|row| row.bytes >= 0 && row.low <= row.bytes && row.bytes <= row.high));
            assert!(rows.iter().all(|row| row.high <= whole(counted)));
        }
    }

    #[test]
    fn an_idle_direction_has_no_rows_and_ports_of_a_host_are_one() {
        let idle =
            LinkShares { counted: Some(LEAST_BYTES - 1.0), shares: Vec::new(), rest: LEAST_BYTES - 1.0 };
        assert!(rows(&idle).is_empty());
        let shares = [0, 2, 3].map(|port| share(Contributor::Unreported { port }, 1e6)).to_vec();
        let rows = rows(&LinkShares { counted: Some(4e6), shares, rest: 1e6 });
        let bytes: Vec<(ShareOwner, i64)> = rows.into_iter().map(|row| (row.who, row.bytes)).collect();
        let host = |name: &str| ShareOwner::Host(name.to_owned());
        assert_eq!(bytes, [(host("n0"), 2_000_000), (host("n1"), 1_000_000), (ShareOwner::Rest, 1_000_000)]);
    }

    #[test]
    fn without_a_counter_the_estimates_stand_and_split_flows_are_bounds() {
        let shares = vec![share(Contributor::Reported(7), 1e6)];
        let rows = rows(&LinkShares { counted: None, shares, rest: 0.0 });
        assert_eq!((rows[0].bytes, rows[0].counted, rows[0].is_bound), (1_000_000, None, true));
        assert_eq!((rows[1].bytes, &rows[1].who), (0, &ShareOwner::Rest));
    }
}
