//! Scenes: jobs, file systems and strangers on a fat tree share its bandwidth for a window. From this one hidden truth come
//! what an observer gets, reported flows with their errors and the ports' counters, and what is right.

pub mod errors;
pub mod fabric;
pub mod sharing;

use fabric::{Fabric, Shape};
use fastrand::Rng;
use sharing::Demand;
use std::collections::{BTreeMap, HashMap};
use throughline_shares::estimate::{Contributor, Flow, Kind};

/// Bytes that a link carries in a window of 10 s at 100 Gbit/s.
pub const CAPACITY: f64 = 1.25e11;

/// Ways that one flow takes at most.
const MOST_WAYS: usize = 16;

/// What a scene is made of.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `None`: a small fabric of random form.
    pub shape: Option<Shape>,
    pub rails: u32,
    pub is_adaptive: bool,
    pub jobs: u32,
    /// Hosts of the largest job.
    pub largest: usize,
    /// Senders that nobody monitors; each sends to one to three hosts.
    pub strangers: u32,
    /// File systems, each of four servers: some jobs write to one, some read from it, and nobody reports that.
    pub file_systems: u32,
    pub kind: Kind,
    /// Error of reported bytes, as a part of them.
    pub error: f64,
    /// Error of counters, as a part of them: they are not read at one moment.
    pub counter_error: f64,
    /// Part of ports that were not read.
    pub unread: f64,
    /// All flows of an operation go on together, at the pace of the slowest, as those of a collective do.
    pub is_coupled: bool,
}

/// Jobs on a small fabric whose messages are measured.
pub const MEASURED: Options = Options {
    shape: None,
    rails: 1,
    is_adaptive: false,
    jobs: 4,
    largest: 16,
    strangers: 0,
    file_systems: 0,
    kind: Kind::Measured,
    error: 0.03,
    counter_error: 0.001,
    unread: 0.0,
    is_coupled: false,
};

/// What really happened in a window, and what is observed of it.
pub struct Scene {
    pub fabric: Fabric,
    pub flows: Vec<Flow>,
    /// Of each of these flows: bytes that it would have sent on an empty fabric, and that it sent.
    pub wanted: Vec<(f64, f64)>,
    pub counted: Vec<Option<f64>>,
    /// Bytes of each contributor on each link. Unreported traffic belongs to the port that sent it.
    pub truth: Vec<HashMap<Contributor, f64>>,
}

/// A flow before bandwidth is shared.
struct Planned {
    contributor: Option<u32>,
    from: u32,
    to: u32,
    bytes: f64,
    /// By sending port, receiving port and links.
    ways: Vec<(u32, u32, Vec<u32>, f64)>,
}

impl Scene {
    pub fn new(seed: u64, options: Options) -> Self {
        let mut rng = Rng::with_seed(seed);
        let shape =
            options.shape.unwrap_or_else(|| Shape::random(&mut rng, options.rails, options.is_adaptive));
        let fabric = Fabric::new(shape);
        let mut planned = Vec::new();
        let mut hosts: Vec<u32> = (0..shape.hosts()).collect();
        rng.shuffle(&mut hosts);
        // Strangers and file systems have hosts that no job has, as long as there are some.
        let mut take = |number: usize| hosts.split_off(hosts.len() - number.min(hosts.len() / 3));
        let strangers = take(options.strangers as usize);
        let servers = take(4 * options.file_systems as usize);
        for job in 0..options.jobs {
            let most = options.largest.min(hosts.len()).max(2);
            let size = ((2.0 * (most as f64 / 2.0).powf(rng.f64())) as usize).clamp(2, most);
            let first = rng.usize(0..=hosts.len().saturating_sub(size));
            let ranks = &hosts[first..(first + size).min(hosts.len())];
            job_of(&mut rng, job, ranks, &mut planned);
            if !servers.is_empty() && rng.bool() {
                storage(&mut rng, ranks, &servers, &mut planned);
            }
        }
        for stranger in strangers {
            for _ in 0..rng.u32(1..4) {
                let to = rng.u32(0..shape.hosts());
                planned.push(Planned::new(None, stranger, to, CAPACITY * rng.f64() * 0.6));
            }
        }
        planned.retain(|flow| flow.from != flow.to);
        let mut scene = Self {
            flows: Vec::new(),
            wanted: Vec::new(),
            counted: Vec::new(),
            truth: vec![HashMap::new(); fabric.links()],
            fabric,
        };
        scene.happen(&mut rng, planned, options.is_coupled);
        scene.observe(&mut rng, options);
        scene
    }

    /// Ways are chosen, bandwidth is shared, and links carry what flows get.
    fn happen(&mut self, rng: &mut Rng, mut planned: Vec<Planned>, is_coupled: bool) {
        for flow in &mut planned {
            flow.choose_ways(rng, &self.fabric);
        }
        let got = if is_coupled {
            together(&planned, self.fabric.links())
        } else {
            apart(&planned, self.fabric.links())
        };
        for (flow, bytes) in planned.iter().zip(got) {
            for (from, _, links, part) in &flow.ways {
                let contributor = match flow.contributor {
                    Some(number) => Contributor::Reported(number),
                    None => Contributor::Unreported { port: *from as usize },
                };
                for link in links {
                    *self.truth[*link as usize].entry(contributor).or_default() += bytes * part;
                }
            }
            if let Some(contributor) = flow.contributor {
                let rails = self.fabric.shape.rails;
                let (from, to) = ((flow.from * rails) as usize, (flow.to * rails) as usize);
                self.wanted.push((flow.bytes, bytes));
                self.flows.push(Flow { contributor, from, to, bytes, kind: Kind::Measured, error: 0.0 });
            }
        }
    }

    /// Reports and counters, with their errors.
    fn observe(&mut self, rng: &mut Rng, options: Options) {
        // Errors of a sum of many small ones: two thirds lie within half of the stated error.
        let mut noise = |error: f64| 1.0 + (rng.f64() + rng.f64() + rng.f64() - 1.5) / 1.5 * error;
        for flow in &mut self.flows {
            // What was reported is wrong by at most this part of it.
            flow.bytes /= noise(options.error).max(0.1);
            (flow.kind, flow.error) = (options.kind, options.error);
        }
        let carried: Vec<f64> = self.truth.iter().map(|link| link.values().sum()).collect();
        // Management: a little on every link.
        self.counted =
            carried.iter().map(|bytes| Some(bytes * noise(options.counter_error) + 10_000.0)).collect();
        for counted in &mut self.counted {
            if rng.f64() < options.unread {
                *counted = None;
            }
        }
    }
}

/// Bytes of each flow where all go on by themselves.
fn apart(planned: &[Planned], links: usize) -> Vec<f64> {
    let demands: Vec<Demand> = planned.iter().map(Planned::demand).collect();
    sharing::share(&demands, links, CAPACITY)
}

/// Bytes of each flow where those of a contributor are one demand.
fn together(planned: &[Planned], links: usize) -> Vec<f64> {
    let key = |(place, flow): (usize, &Planned)| match flow.contributor {
        Some(number) => (0, number as usize),
        None => (1, place),
    };
    let mut groups: BTreeMap<_, (f64, HashMap<u32, f64>)> = BTreeMap::new();
    for (place, flow) in planned.iter().enumerate() {
        let (bytes, uses) = groups.entry(key((place, flow))).or_default();
        *bytes += flow.bytes;
        for (link, part) in flow.demand().links {
            *uses.entry(link).or_default() += part * flow.bytes;
        }
    }
    let demand = |(bytes, uses): &(f64, HashMap<u32, f64>)| {
        let mut links: Vec<(u32, f64)> = uses.iter().map(|(link, sum)| (*link, sum / bytes)).collect();
        links.sort_unstable_by_key(|(link, _)| *link);
        Demand { bytes: *bytes, links }
    };
    let demands: Vec<Demand> = groups.values().map(demand).collect();
    let got = sharing::share(&demands, links, CAPACITY);
    let progress: BTreeMap<_, f64> =
        groups.iter().zip(got).map(|((key, (bytes, _)), got)| (*key, got / bytes)).collect();
    planned.iter().enumerate().map(|one| one.1.bytes * progress[&key(one)]).collect()
}

impl Planned {
    fn new(contributor: Option<u32>, from: u32, to: u32, bytes: f64) -> Self {
        Self { contributor, from, to, bytes, ways: Vec::new() }
    }

    /// One way with static routing and one port a host; else random parts over all of them.
    fn choose_ways(&mut self, rng: &mut Rng, fabric: &Fabric) {
        let rails = fabric.shape.rails;
        let ports = |host: u32| host * rails..(host + 1) * rails;
        for from in ports(self.from) {
            for to in ports(self.to) {
                for via in fabric.vias(from, to) {
                    let links = fabric.by(from, to, via).into_iter().map(|link| link.0).collect();
                    self.ways.push((from, to, links, 0.05 + rng.f64().powi(2)));
                }
            }
        }
        // Of very many ways a flow takes some.
        rng.shuffle(&mut self.ways);
        self.ways.truncate(MOST_WAYS);
        let sum: f64 = self.ways.iter().map(|way| way.3).sum();
        self.ways.iter_mut().for_each(|way| way.3 /= sum);
    }

    fn demand(&self) -> Demand {
        let mut links: Vec<(u32, f64)> = Vec::new();
        for (_, _, way, part) in &self.ways {
            for link in way {
                match links.iter_mut().find(|(known, _)| known == link) {
                    Some((_, sum)) => *sum += part,
                    None => links.push((*link, *part)),
                }
            }
        }
        Demand { bytes: self.bytes, links }
    }
}

/// Traffic of a job's one or two operations, each of a pattern: number 8 x job + operation.
fn job_of(rng: &mut Rng, job: u32, ranks: &[u32], planned: &mut Vec<Planned>) {
    let size = ranks.len();
    for operation in 0..rng.u32(1..3) {
        // What a host sends in all, from a thirtieth of its link to more than all of it.
        let sent = CAPACITY * (0.03 * 40.0_f64.powf(rng.f64()));
        let pattern = rng.u32(0..5);
        for (place, from) in ranks.iter().enumerate() {
            let partners: Vec<u32> = match pattern {
                0 => vec![ranks[(place + 1) % size]],
                1 if size <= 64 => ranks.to_vec(),
                // Doubling.
                1 | 2 => (0..size.ilog2()).filter_map(|bit| ranks.get(place ^ (1 << bit))).copied().collect(),
                // Neighbours in a square.
                3 => {
                    let side = size.isqrt().max(1);
                    [1, size - 1, side, size - side].map(|step| ranks[(place + step) % size]).to_vec()
                }
                _ => (0..2).map(|_| ranks[rng.usize(0..size)]).collect(),
            };
            let number = partners.iter().filter(|to| *to != from).count().max(1) as f64;
            planned.extend(
                partners
                    .into_iter()
                    .map(|to| Planned::new(Some(8 * job + operation), *from, to, sent / number)),
            );
        }
    }
}

/// Some of a job's hosts write to a file system's servers, or read from them.
fn storage(rng: &mut Rng, ranks: &[u32], servers: &[u32], planned: &mut Vec<Planned>) {
    let servers = rng.choice(servers.chunks(4)).unwrap_or(servers);
    let (is_write, sent) = (rng.bool(), CAPACITY * 0.3 * rng.f64());
    for host in ranks.iter().take(8) {
        for server in servers {
            let (from, to) = if is_write { (*host, *server) } else { (*server, *host) };
            planned.push(Planned::new(None, from, to, sent / servers.len() as f64));
        }
    }
}
