//! Jobs, file systems and strangers on one fabric for a window: which of them are held up by which link follows from what each
//! flow wanted and got. What is observed are shares of links, estimated from flows and counters with their errors.

use super::{Allowed, COST_DOUBTFUL, Case};
use crate::generator::{CAPACITY, Scene};
use std::collections::{BTreeMap, BTreeSet};
use throughline_shares::estimate::{Contributor, LinkShares, Share, estimate};
use throughline_shares::network::{PathStage, Routes};
use throughline_verdicts::evidence::{
    Contribution, IdealTime, Link, LinkWindow, Operation, OperationWaiting, Rank, Waiting,
};
use throughline_verdicts::{Evidence, JudgedJob, Kind, Verdict, accuse};

/// Length of a window, seconds.
const WINDOW: f64 = 10.0;

/// A link that carries more is full; the generator shares to a part in fifty.
const FULL: f64 = 0.95;

/// An operation that got less of what it wanted is held up; one that got more is not. Between them either is right.
const HELD_UP: f64 = 0.75;
const FREE: f64 = 0.97;

/// What one of a job's operations wanted, got and used.
#[derive(Default)]
struct Doing {
    wanted: f64,
    got: f64,
    /// Links by the bytes that it wanted to send over them.
    demand: BTreeMap<u32, f64>,
    /// Full links that its flows passed which got less than they wanted.
    bottlenecks: BTreeSet<u32>,
}

impl Doing {
    fn progress(&self) -> f64 {
        if self.wanted > 0.0 { self.got / self.wanted } else { 1.0 }
    }

    /// Seconds that the busiest of its hosts sends or receives, where nobody is in the way.
    fn alone(&self, ports: &BTreeSet<u32>) -> f64 {
        let most = self
            .demand
            .iter()
            .filter(|(link, _)| ports.contains(link))
            .map(|(_, bytes)| *bytes)
            .fold(0.0, f64::max);
        (most / CAPACITY * WINDOW).min(WINDOW)
    }
}

/// A job's number: of contributors 8 x job + operation.
pub fn jobs(scene: &Scene) -> BTreeSet<u32> {
    scene.flows.iter().map(|flow| flow.contributor / 8).collect()
}

fn doings(scene: &Scene, job: u32) -> BTreeMap<u32, Doing> {
    let carried = |link: u32| scene.truth[link as usize].values().sum::<f64>();
    let mut all: BTreeMap<u32, Doing> = BTreeMap::new();
    for (flow, (wanted, got)) in
        scene.flows.iter().zip(&scene.wanted).filter(|(flow, _)| flow.contributor / 8 == job)
    {
        let doing = all.entry(flow.contributor % 8).or_default();
        doing.wanted += wanted;
        doing.got += got;
        let Some(path) = scene.fabric.path(flow.from, flow.to) else { continue };
        for link in path.0.iter().flat_map(PathStage::links) {
            *doing.demand.entry(link.0).or_default() += wanted;
            if *got < FREE * wanted && carried(link.0) >= FULL * CAPACITY {
                doing.bottlenecks.insert(link.0);
            }
        }
    }
    all
}

pub fn link_name(link: usize) -> String {
    format!("link {link}")
}

fn operation_name(operation: u32) -> String {
    format!("operation {operation}")
}

/// One job of a scene, with the estimated shares of its links.
pub fn case(scene: &Scene, shares: &[LinkShares], job: u32) -> Case {
    let doings = doings(scene, job);
    let ports: BTreeSet<u32> =
        scene.fabric.ports().iter().flat_map(|port| [port.transmit.0, port.receive.0]).collect();
    let seconds = times(&doings, &ports);
    let hosts: BTreeSet<usize> = scene
        .flows
        .iter()
        .filter(|flow| flow.contributor / 8 == job)
        .flat_map(|flow| [flow.from, flow.to])
        .collect();
    let ranks = hosts.len() as f64;
    let evidence = Evidence {
        job: format!("{job}"),
        seconds: WINDOW,
        world_size: hosts.len() as u32,
        ranks: hosts
            .iter()
            .enumerate()
            .map(|(rank, host)| a_rank(rank as u32, *host, seconds.values().sum()))
            .collect(),
        operations: seconds
            .iter()
            .map(|(operation, seconds)| Operation {
                operation: operation_name(*operation),
                size_class_bytes: 1 << 20,
                calls: 1000,
                bytes: doings[operation].got as u64,
                seconds: seconds * ranks,
            })
            .collect(),
        waiting: Some(waiting(scene, &doings, &seconds, &hosts)),
        ideals: ideals(scene, shares, job, &hosts),
        links: (0..shares.len()).filter_map(|link| observed(shares, link, job)).collect(),
        ..Evidence::default()
    };
    let (expected, allowed) = right(scene, job, &doings, &seconds);
    Case { evidence, expected, allowed }
}

/// A job computes and communicates in turn; where it gets less than it wants it does less of both in the window, and spends what is
/// left of it in its operations. Seconds in each.
fn times(doings: &BTreeMap<u32, Doing>, ports: &BTreeSet<u32>) -> BTreeMap<u32, f64> {
    let alone: BTreeMap<u32, f64> =
        doings.iter().map(|(operation, doing)| (*operation, doing.alone(ports))).collect();
    let compute = (WINDOW - alone.values().sum::<f64>()).max(0.05 * WINDOW);
    let progress = doings.values().map(Doing::progress).fold(1.0, f64::min);
    // What is not held up takes as long as alone; the others share the rest.
    let is_free = |operation: &u32| doings[operation].progress() >= FREE;
    let of_free: f64 =
        alone.iter().filter(|(operation, _)| is_free(operation)).map(|(_, seconds)| seconds).sum();
    let inside = (WINDOW - compute * progress - of_free).max(0.0);
    let weight = |operation: &u32| alone[operation] / doings[operation].progress().max(0.01);
    let all: f64 = doings.keys().filter(|operation| !is_free(operation)).map(weight).sum();
    let time = |operation: &u32| {
        if is_free(operation) {
            alone[operation]
        } else {
            inside * weight(operation) / all.max(f64::MIN_POSITIVE)
        }
    };
    doings.keys().map(|operation| (*operation, time(operation))).collect()
}

/// A host with less to send or receive than the busiest one waits for that.
fn waiting(
    scene: &Scene,
    doings: &BTreeMap<u32, Doing>,
    seconds: &BTreeMap<u32, f64>,
    hosts: &BTreeSet<usize>,
) -> Waiting {
    let of = |operation: &u32| {
        let doing = &doings[operation];
        let own = |host: &usize| {
            let port = scene.fabric.ports()[*host];
            [port.transmit.0, port.receive.0]
                .iter()
                .filter_map(|link| doing.demand.get(link))
                .copied()
                .fold(0.0, f64::max)
        };
        let most = hosts.iter().map(own).fold(0.0, f64::max);
        let waited: f64 = hosts
            .iter()
            .map(|host| seconds[operation] * (1.0 - own(host) / most.max(f64::MIN_POSITIVE)))
            .sum();
        OperationWaiting {
            operation: operation_name(*operation),
            seconds: waited,
            low_seconds: waited,
            high_seconds: waited,
        }
    };
    Waiting { operations: doings.keys().map(of).collect(), last_arrivals: Vec::new() }
}

fn a_rank(rank: u32, host: usize, inside: f64) -> Rank {
    Rank {
        rank,
        host: format!("n{host}"),
        observed_seconds: WINDOW,
        mpi_seconds: inside.min(WINDOW),
        ..Rank::default()
    }
}

fn is_of(share: &Share, job: u32) -> Option<u32> {
    match share.contributor {
        Contributor::Reported(number) if number / 8 == job => Some(number % 8),
        _ => None,
    }
}

/// Seconds at the ports' speed, by the estimated shares of the hosts' own links; a rank on each host.
fn ideals(scene: &Scene, shares: &[LinkShares], job: u32, hosts: &BTreeSet<usize>) -> Vec<IdealTime> {
    let mut by: BTreeMap<u32, f64> = BTreeMap::new();
    for host in hosts {
        let port = scene.fabric.ports()[*host];
        let mut own: BTreeMap<u32, f64> = BTreeMap::new();
        for link in [port.transmit, port.receive] {
            for share in &shares[link.0 as usize].shares {
                if let Some(operation) = is_of(share, job) {
                    let most = own.entry(operation).or_default();
                    *most = most.max(share.bytes);
                }
            }
        }
        own.into_iter()
            .for_each(|(operation, bytes)| *by.entry(operation).or_default() += bytes / CAPACITY * WINDOW);
    }
    by.into_iter()
        .map(|(operation, seconds)| IdealTime { operation: operation_name(operation), seconds })
        .collect()
}

fn observed(shares: &[LinkShares], link: usize, job: u32) -> Option<Link> {
    let found = &shares[link];
    let counted = found.counted?;
    let contribution = |share: &Share| {
        let (name, other) = match share.contributor {
            Contributor::Reported(number) if number / 8 == job => (operation_name(number % 8), None),
            Contributor::Reported(number) => {
                (format!("operation {} of job {}", number % 8, number / 8), Some(format!("{}", number / 8)))
            }
            Contributor::Unreported { port } => (format!("unmonitored host n{port}"), None),
        };
        Contribution { name, job: other, bytes: share.bytes, low: share.low, high: share.high }
    };
    let (own, others): (Vec<&Share>, Vec<&Share>) =
        found.shares.iter().partition(|share| is_of(share, job).is_some());
    (!own.is_empty()).then(|| Link {
        name: link_name(link),
        bytes_per_second: CAPACITY / WINDOW,
        windows: vec![LinkWindow {
            from_ms: 0,
            seconds: WINDOW,
            counted,
            wait_ratio: None,
            own: own.into_iter().map(contribution).collect(),
            others: others.into_iter().map(contribution).collect(),
        }],
        ..Link::default()
    })
}

/// What is right to say, and what may be said.
fn right(
    scene: &Scene,
    job: u32,
    doings: &BTreeMap<u32, Doing>,
    seconds: &BTreeMap<u32, f64>,
) -> (Vec<(Kind, BTreeSet<String>)>, Allowed) {
    let (mut expected, mut allowed) = (Allowed::new(), Allowed::new());
    for (operation, doing) in doings {
        let (progress, time) = (doing.progress(), seconds[operation] / WINDOW);
        let cost = time * (1.0 - progress);
        for link in &doing.bottlenecks {
            let (own, name) = (part_of(scene, job, *link as usize), link_name(*link as usize));
            let kind = if own >= 0.5 { Kind::LinkBound } else { Kind::Victim };
            // The parts are known to some points only, and a link that the job hardly uses is not said.
            let is_doubtful = (0.4..0.6).contains(&own) || own < 0.05;
            let is_must = progress <= HELD_UP && cost >= COST_DOUBTFUL.end && !is_doubtful;
            if is_must {
                expected.entry(kind).or_default().insert(name.clone());
            }
            allowed.entry(kind).or_default().insert(name.clone());
            if is_doubtful {
                for kind in [Kind::LinkBound, Kind::Victim] {
                    allowed.entry(kind).or_default().insert(name.clone());
                }
            }
        }
    }
    // A job that fills its own link without being held up: both words fit.
    for link in 0..scene.truth.len() {
        let all: f64 = scene.truth[link].values().sum();
        if all >= 0.87 * CAPACITY && part_of(scene, job, link) >= 0.4 {
            allowed.entry(Kind::LinkBound).or_default().insert(link_name(link));
        }
    }
    // Of several links that hold it up any is right; where it has both kinds, its own bytes are enough.
    for (kind, links) in &mut expected {
        links.extend(allowed.get(kind).into_iter().flatten().cloned());
    }
    if expected.contains_key(&Kind::LinkBound) {
        expected.remove(&Kind::Victim);
    }
    allowed.extend([(Kind::NothingFound, BTreeSet::new()), (Kind::Waiting, BTreeSet::new())]);
    (expected.into_iter().collect(), allowed)
}

/// Part of a link's bytes that a job has, by the truth.
fn part_of(scene: &Scene, job: u32, link: usize) -> f64 {
    let truth = &scene.truth[link];
    let own =
        truth.iter().filter(|(who, _)| matches!(who, Contributor::Reported(number) if number / 8 == job));
    own.map(|(_, bytes)| bytes).sum::<f64>() / truth.values().sum::<f64>()
}

/// A job with most of a link that holds another one up is rightly named.
fn expect_aggressors(scene: &Scene, cases: &mut [Case]) {
    let mut found: Vec<(usize, f64)> = Vec::new();
    for victim in cases.iter() {
        for link in
            victim.expected.iter().filter(|(kind, _)| *kind == Kind::Victim).flat_map(|(_, links)| links)
        {
            let Some(link) = link.strip_prefix("link ").and_then(|number| number.parse().ok()) else {
                continue;
            };
            for (place, other) in cases.iter().enumerate() {
                let job: u32 = other.evidence.job.parse().unwrap_or(u32::MAX);
                if other.evidence.job != victim.evidence.job {
                    found.push((place, part_of(scene, job, link)));
                }
            }
        }
    }
    for (place, case) in cases.iter_mut().enumerate() {
        let parts: Vec<f64> =
            found.iter().filter(|(other, _)| *other == place).map(|(_, part)| *part).collect();
        // Where a victim has several full links, that which is named may be another one's.
        if !parts.is_empty() && parts.iter().all(|part| *part >= 0.6) {
            case.expected.push((Kind::Aggressor, BTreeSet::new()));
        }
        // Held up a little, or at a link whose parts are near to a half.
        let job: u32 = case.evidence.job.parse().unwrap_or(u32::MAX);
        let others = jobs(scene)
            .into_iter()
            .filter(|other| *other != job)
            .flat_map(|other| doings(scene, other).into_values());
        let held = others
            .flat_map(|doing| doing.bottlenecks)
            .filter(|link| part_of(scene, job, *link as usize) >= 0.45);
        let held: BTreeSet<String> = held.map(|link| link_name(link as usize)).collect();
        if !held.is_empty() {
            case.allowed.insert(Kind::Aggressor, held);
        }
    }
}

/// Cases of all jobs of a scene with what is said of them.
pub fn of_scene(scene: &Scene) -> Vec<(Case, Vec<Verdict>)> {
    let shares = estimate(&scene.fabric, &scene.flows, &scene.counted);
    let mut cases: Vec<Case> = jobs(scene).into_iter().map(|job| case(scene, &shares, job)).collect();
    expect_aggressors(scene, &mut cases);
    let judged = |case: &Case| JudgedJob {
        key: case.evidence.job.clone(),
        name: format!("job {}", case.evidence.job),
        verdicts: throughline_verdicts::judge(&case.evidence),
    };
    let mut said: Vec<JudgedJob> = cases.iter().map(judged).collect();
    accuse(&mut said, std::iter::empty());
    cases.into_iter().zip(said.into_iter().map(|one| one.verdicts)).collect()
}
