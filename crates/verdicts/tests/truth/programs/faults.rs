//! What can be wrong with a program.

use super::{Exchange, Program, Run, lost_share};
use crate::truth::{Allowed, COST_DOUBTFUL};
use std::collections::BTreeSet;
use throughline_verdicts::Kind;
use throughline_verdicts::evidence::{EarlierRun, GpuLink, OpenCall};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Ranks wait for each other, or for one that ended or sleeps.
    Hung,
    /// Others wait long for one that computes.
    LongStep,
    SlowRank,
    SlowHost,
    Imbalance,
    Oversubscribed,
    Small,
    Cyclic,
    Affinity,
    Ring,
    /// A link on its way is slower or damaged.
    SlowLink,
}

impl Fault {
    pub const ALL: [Fault; 12] = [
        Fault::None,
        Fault::Hung,
        Fault::LongStep,
        Fault::SlowRank,
        Fault::SlowHost,
        Fault::Imbalance,
        Fault::Oversubscribed,
        Fault::Small,
        Fault::Cyclic,
        Fault::Affinity,
        Fault::Ring,
        Fault::SlowLink,
    ];
}

type Expected = Vec<(Kind, BTreeSet<String>)>;

/// The rank or host that is slow.
pub type Cause = Option<u32>;

fn one(subject: String) -> BTreeSet<String> {
    [subject].into()
}

/// What is wrong from the beginning.
pub fn before(program: &mut Program, fault: Fault, expected: &mut Expected, allowed: &mut Allowed) -> Cause {
    let ranks = program.work.len();
    let slower = 1.05 + program.rng.f64();
    match fault {
        Fault::SlowRank => {
            let rank = program.rng.usize(0..ranks);
            program.work[rank] *= slower;
            Some(rank as u32)
        }
        Fault::SlowHost => {
            program.hosts = program.hosts.max(4);
            program.ranks_a_host = program.ranks_a_host.max(2);
            let ranks = (program.hosts * program.ranks_a_host) as usize;
            program.work = vec![program.work[0]; ranks];
            program.evidence.world_size = ranks as u32;
            let host = program.rng.u32(0..program.hosts);
            for rank in 0..ranks {
                if program.host(rank) == host {
                    program.work[rank] *= slower;
                }
            }
            Some(host)
        }
        Fault::Imbalance => {
            let spread = 0.1 + 1.5 * program.rng.f64();
            let is_linear = program.rng.bool();
            for rank in 0..ranks {
                let place = if is_linear { rank as f64 / ranks as f64 } else { program.rng.f64() };
                program.work[rank] *= 1.0 + spread * place;
            }
            None
        }
        Fault::Small => {
            program.message = 1 << program.rng.u32(0..11);
            // Some microseconds a message; much of the time, or little of it.
            let message = 2e-6 + 2e-5 * program.rng.f64();
            let part = 0.02 + 0.7 * program.rng.f64();
            program.exchanges = ((program.work[0] * part / (1.0 - part)) / message).max(1.0) as u32;
            program.transfer = message * f64::from(program.exchanges);
            None
        }
        Fault::Cyclic => {
            // Enough nodes, ranks on them and traffic for an order to matter; neighbours are a node apart.
            (program.hosts, program.ranks_a_host) = (program.rng.u32(5..13), program.rng.u32(2..9));
            let ranks = (program.hosts * program.ranks_a_host) as usize;
            program.work = vec![program.work[0]; ranks];
            program.evidence.world_size = ranks as u32;
            program.exchange = Exchange::Neighbours;
            program.transfer = program.work[0] * (0.2 + 0.6 * program.rng.f64());
            program.stride = program.ranks_a_host * 4;
            expected.push((Kind::Placement, BTreeSet::new()));
            allowed.insert(Kind::Placement, BTreeSet::new());
            None
        }
        _ => None,
    }
}

/// What is seen of it, and what is right to say.
pub fn after(
    program: &mut Program,
    run: &Run,
    fault: Fault,
    cause: Cause,
    expected: &mut Expected,
    allowed: &mut Allowed,
) {
    match fault {
        Fault::None | Fault::SlowLink => {}
        Fault::Hung => hung(program, expected),
        Fault::LongStep => long_step(program, allowed),
        Fault::SlowRank => slow_rank(program, run, cause.unwrap_or(0), expected, allowed),
        Fault::SlowHost => {
            let cost = lost_share(run);
            let host = format!("n{:02}", cause.unwrap_or(0));
            judge_cost(cost, Kind::SlowRank, one(host), expected, allowed);
            if cost < COST_DOUBTFUL.end {
                allowed.insert(Kind::ImbalancedWork, BTreeSet::new());
            }
        }
        Fault::Imbalance => {
            let cost = lost_share(run);
            judge_cost(cost, Kind::ImbalancedWork, BTreeSet::new(), expected, allowed);
            // Ranks that happen to share a node may stand out.
        }
        Fault::Oversubscribed => oversubscribed(program, expected, allowed),
        Fault::Small => {
            let all = run.seconds * run.inside.len() as f64;
            let share = program.transfer * super::ITERATIONS as f64 * run.inside.len() as f64 / all;
            let rate = f64::from(program.exchanges) * super::ITERATIONS as f64 / run.seconds;
            if share > 0.13 && rate > 1200.0 {
                expected.push((Kind::LatencyBound, BTreeSet::new()));
            } else if share > 0.07 && rate > 800.0 {
                allowed.insert(Kind::LatencyBound, BTreeSet::new());
            }
        }
        Fault::Cyclic => {}
        Fault::Affinity => affinity(program, expected),
        Fault::Ring => ring(program, expected),
    }
}

fn judge_cost(
    cost: f64,
    kind: Kind,
    subjects: BTreeSet<String>,
    expected: &mut Expected,
    allowed: &mut Allowed,
) {
    if cost >= COST_DOUBTFUL.end {
        expected.push((kind, subjects));
    } else if cost >= COST_DOUBTFUL.start {
        allowed.insert(kind, BTreeSet::new());
    }
}

fn slow_rank(program: &mut Program, run: &Run, rank: u32, expected: &mut Expected, allowed: &mut Allowed) {
    let cause = program.rng.u32(0..10);
    let slower = program.work[rank as usize] / program.work[(rank as usize + 1) % program.work.len()];
    let slow = &mut program.evidence.ranks[rank as usize];
    match cause {
        0 => {
            let share = (1.0 - 1.0 / slower) * slow.outside_seconds();
            if let Some(scheduling) = slow.scheduling.as_mut() {
                scheduling.runqueue_wait_seconds += share;
                scheduling.cpu_seconds -= share;
            }
        }
        1 => slow.cpu_hertz = Some(2.4e9 / slower),
        2 => slow.is_far_from_adapter = Some(true),
        3 => slow.port_bytes_per_second = Some(3.1e9),
        4 => slow.port_errors = Some(5000),
        5 => {
            program.evidence.ranks.iter_mut().for_each(|rank| rank.gpu_link_bytes_per_second = Some(4.5e11));
            program.evidence.ranks[rank as usize].gpu_link_bytes_per_second = Some(2.25e11);
        }
        7 => {
            program
                .evidence
                .ranks
                .iter_mut()
                .for_each(|rank| rank.gpu_link_errors = Some(program.rng.u64(0..4)));
            program.evidence.ranks[rank as usize].gpu_link_errors = Some(program.rng.u64(200..100_000));
        }
        8 => {
            program.evidence.ranks.iter_mut().for_each(|rank| rank.ranks_a_cpu = Some(1.0));
            program.evidence.ranks[rank as usize].ranks_a_cpu = Some(2.0);
            program.evidence.ranks[rank as usize].cpus_shared_with = vec!["4712".into()];
        }
        9 => slow.gpu_slowed = Some("GPU 0 (GPU-7) is slowed down by heat: 8.10 of 20 s".into()),
        // It has more to do: nothing differs.
        _ => {}
    }
    let cost = lost_share(run);
    let is_seen = match cause {
        0 => slower > 1.12,
        1 => slower > 1.15,
        6 => false,
        _ => true,
    };
    if is_seen && slower > 1.3 {
        judge_cost(cost, Kind::SlowRank, one(format!("rank {rank}")), expected, allowed);
    } else {
        // Which word fits is open, and both name the rank.
        if cost >= COST_DOUBTFUL.start {
            allowed.extend([(Kind::ImbalancedWork, BTreeSet::new())]);
        }
        if is_seen {
            allowed.insert(Kind::SlowRank, BTreeSet::new());
        }
    }
    if cost < COST_DOUBTFUL.end && is_seen {
        allowed.extend([(Kind::ImbalancedWork, BTreeSet::new()), (Kind::SlowRank, BTreeSet::new())]);
    }
}

fn oversubscribed(program: &mut Program, expected: &mut Expected, allowed: &mut Allowed) {
    let share = 0.03 + 0.5 * program.rng.f64();
    let mut most = 0;
    for host in 0..program.hosts {
        let name = format!("n{host:02}");
        let mut count = 0;
        for rank in program.evidence.ranks.iter_mut().filter(|rank| rank.host == name) {
            if let Some(scheduling) = rank.scheduling.as_mut() {
                scheduling.runqueue_wait_seconds = share * rank.observed_seconds;
            }
            rank.cpus = vec![0];
            count += 1;
        }
        most = most.max(count);
    }
    if most >= 2 && share > 0.12 {
        expected.push((Kind::Oversubscribed, BTreeSet::new()));
    } else if most >= 2 && share > 0.08 {
        allowed.insert(Kind::Oversubscribed, BTreeSet::new());
    }
}

fn affinity(program: &mut Program, expected: &mut Expected) {
    let slower = program.rng.f64() * 1.5 + 0.8;
    let mut operations = program.evidence.operations.clone();
    operations.iter_mut().for_each(|one| one.seconds /= slower);
    let is_moved = program.rng.u32(0..3) > 0;
    let cpus = program.evidence.ranks.iter().map(|rank| {
        let moved = rank.cpus.iter().map(|cpu| cpu + 8 * u32::from(is_moved)).collect();
        (rank.rank, moved)
    });
    let cpus = cpus.collect();
    program.evidence.before =
        Some(EarlierRun { job: "4711".into(), seconds: program.evidence.seconds, cpus, operations });
    if is_moved && slower > 1.26 {
        expected.push((Kind::AffinityChanged, BTreeSet::new()));
    }
}

fn ring(program: &mut Program, expected: &mut Expected) {
    let gpus = program.rng.u32(3..9);
    let speed = 2.5e10;
    let (is_ring, is_switched) = (program.rng.u32(0..3) > 0, program.rng.u32(0..5) == 0);
    let busy = speed * (0.05 + 0.9 * program.rng.f64());
    let idle = busy * if is_ring { 0.05 * program.rng.f64() } else { 0.5 + 0.5 * program.rng.f64() };
    for host in ["n00", "n01"] {
        for gpu in 0..gpus {
            for (link, peer, is_next) in [(0, (gpu + 1) % gpus, true), (1, (gpu + gpus - 1) % gpus, false)] {
                let peer_gpu = (!is_switched).then_some(peer);
                let (transmit, receive) = if is_next { (busy, idle) } else { (idle, busy) };
                let host = host.to_owned();
                program.evidence.gpu_links.push(GpuLink {
                    host,
                    gpu,
                    link,
                    peer_gpu,
                    transmit,
                    receive,
                    bytes_per_second: speed,
                });
            }
        }
    }
    if is_ring && !is_switched && busy >= 0.26 * speed {
        expected.push((Kind::OneDirectionalRing, BTreeSet::new()));
    }
}

fn call(rank: u32, operation: &str, seconds: f64) -> OpenCall {
    OpenCall {
        rank,
        operation: operation.into(),
        comm: Some("MPI_COMM_WORLD".into()),
        seconds,
        ..OpenCall::default()
    }
}

fn hung(program: &mut Program, expected: &mut Expected) {
    let age = 35.0 + 1000.0 * program.rng.f64();
    let ranks = program.evidence.ranks.len() as u32;
    let odd = program.rng.u32(0..ranks);
    program.evidence.ranks.iter_mut().for_each(|rank| rank.observed_seconds += age);
    let kind = program.rng.u32(0..3);
    for rank in 0..ranks {
        let it = &mut program.evidence.ranks[rank as usize];
        if rank != odd || kind == 0 {
            it.mpi_seconds += age;
            let operation = if rank == odd { "recv" } else { "barrier" };
            program.evidence.open_calls.push(call(rank, operation, age));
        } else if kind == 1 {
            (it.has_ended, it.ending) = (true, Some("lost".into()));
        } else {
            it.stopped_seconds = Some(age);
        }
    }
    program.evidence.seconds += age;
    expected.push((Kind::Hung, BTreeSet::new()));
}

/// One rank reads a file, or computes, while the others wait: no hang.
fn long_step(program: &mut Program, allowed: &mut Allowed) {
    let age = 100.0 * program.rng.f64();
    let ranks = program.evidence.ranks.len() as u32;
    let odd = program.rng.u32(0..ranks);
    for rank in 0..ranks {
        let it = &mut program.evidence.ranks[rank as usize];
        it.observed_seconds += age;
        if rank != odd {
            it.mpi_seconds += age;
            program.evidence.open_calls.push(call(rank, "bcast", age));
        }
    }
    program.evidence.seconds += age;
    allowed.insert(Kind::ImbalancedWork, BTreeSet::new());
}
