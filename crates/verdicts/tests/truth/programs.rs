//! Programs that compute and communicate in turn, iteration by iteration, with one thing wrong or nothing. Who waits for whom follows
//! from when each rank arrives; the verdicts get the sums that agents report, with errors.

mod cables;
mod faults;

use super::{Allowed, Case};
use fastrand::Rng;
use std::collections::BTreeSet;
use throughline_verdicts::Kind;
use throughline_verdicts::evidence::{
    Evidence, LastArrival, Operation, OperationWaiting, Rank, Region, Scheduling, Traffic, Waiting,
};

pub use faults::Fault;

const ITERATIONS: usize = 120;

/// How ranks exchange data after each step of computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// All wait for all.
    Allreduce,
    /// Each waits for the ranks beside it.
    Neighbours,
}

/// A program before anything happens.
pub struct Program {
    pub rng: Rng,
    pub hosts: u32,
    pub ranks_a_host: u32,
    pub exchange: Exchange,
    /// Seconds of computing of each rank and iteration, without noise.
    pub work: Vec<f64>,
    /// Noise of it, as a part.
    pub noise: f64,
    /// Seconds that an exchange takes once all are there.
    pub transfer: f64,
    /// Bytes of a message.
    pub message: u64,
    /// Exchanges one after the other in an iteration.
    pub exchanges: u32,
    /// Neighbours are this many ranks apart.
    pub stride: u32,
    /// Two of three iterations' work is in this region; the rest in another.
    pub evidence: Evidence,
}

/// Sums of a run.
struct Run {
    seconds: f64,
    compute: Vec<f64>,
    waited: Vec<f64>,
    inside: Vec<f64>,
    last: Vec<f64>,
    waited_for: Vec<f64>,
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let hosts = rng.u32(2..13);
        let ranks_a_host = rng.u32(1..9);
        let ranks = (hosts * ranks_a_host).max(4) as usize;
        let step = 2e-3 * 20.0_f64.powf(rng.f64());
        // From a fiftieth to a third of the time.
        let transfer = step * (0.02 * 20.0_f64.powf(rng.f64()));
        Self {
            hosts,
            ranks_a_host: ranks.div_ceil(hosts as usize) as u32,
            exchange: if rng.bool() { Exchange::Allreduce } else { Exchange::Neighbours },
            work: vec![step; ranks],
            noise: 0.005 + 0.025 * rng.f64(),
            transfer,
            message: 4096 << rng.u32(0..9),
            exchanges: 1,
            stride: 1,
            evidence: Evidence { job: format!("{seed}"), world_size: ranks as u32, ..Evidence::default() },
            rng,
        }
    }

    /// Every iteration: compute, arrive, wait, exchange.
    fn run(&mut self) -> Run {
        let ranks = self.work.len();
        let zero = || vec![0.0; ranks];
        let (mut clock, mut compute, mut waited) = (zero(), zero(), zero());
        let (mut inside, mut last, mut waited_for) = (zero(), zero(), zero());
        for _ in 0..ITERATIONS {
            let arrival: Vec<f64> = (0..ranks)
                .map(|rank| {
                    // Mostly a little longer, now and then much: the system's own work.
                    let noise = self.noise * (self.rng.f64() + self.rng.f64() - 0.5);
                    let hit = if self.rng.u32(0..200) == 0 { self.noise * 5.0 } else { 0.0 };
                    let work = self.work[rank] * (1.0 + noise + hit);
                    compute[rank] += work;
                    clock[rank] + work
                })
                .collect();
            for rank in 0..ranks {
                let others = self.partners(rank);
                let latest = others
                    .iter()
                    .copied()
                    .fold(rank, |one, other| if arrival[other] > arrival[one] { other } else { one });
                let wait = arrival[latest] - arrival[rank];
                waited[rank] += wait;
                inside[rank] += wait + self.transfer;
                waited_for[latest] += wait;
                clock[rank] = arrival[latest] + self.transfer;
            }
            let latest =
                (0..ranks).fold(0, |one, other| if arrival[other] > arrival[one] { other } else { one });
            last[latest] += 1.0 / ITERATIONS as f64;
        }
        let seconds = clock.iter().copied().fold(0.0, f64::max);
        Run { seconds, compute, waited, inside, last, waited_for }
    }

    fn partners(&self, rank: usize) -> Vec<usize> {
        let ranks = self.work.len();
        match self.exchange {
            Exchange::Allreduce => (0..ranks).collect(),
            Exchange::Neighbours => {
                let step = self.stride as usize;
                vec![(rank + step) % ranks, (rank + ranks - step % ranks) % ranks]
            }
        }
    }

    fn host(&self, rank: usize) -> u32 {
        rank as u32 / self.ranks_a_host
    }

    /// As long as jobs are, so that nothing is too short to be judged: `scale` times as many iterations like these.
    fn observe(&mut self, run: &Run) {
        let scale = (60.0 + 600.0 * self.rng.f64()) / run.seconds;
        let name = if self.exchange == Exchange::Allreduce { "allreduce" } else { "sendrecv" };
        let ranks = self.work.len();
        for rank in 0..ranks {
            let wobble = |rng: &mut Rng, part: f64| 1.0 + part * (2.0 * rng.f64() - 1.0);
            let observed = run.seconds * scale;
            let one = Rank {
                rank: rank as u32,
                host: format!("n{:02}", self.host(rank)),
                observed_seconds: observed,
                mpi_seconds: (observed - run.compute[rank] * scale).max(0.0),
                cpus: vec![rank as u32 % self.ranks_a_host],
                scheduling: Some(Scheduling {
                    cpu_seconds: observed * 0.98,
                    runqueue_wait_seconds: observed * 0.01 * self.rng.f64(),
                }),
                recent_cpu_share: Some(wobble(&mut self.rng, 0.05).min(1.0)),
                cpu_hertz: Some(2.4e9 * wobble(&mut self.rng, 0.02)),
                is_far_from_adapter: Some(false),
                port_bytes_per_second: Some(1.25e10),
                port_errors: Some(self.rng.u64(0..4)),
                gpu_link_bytes_per_second: None,
                ..Rank::default()
            };
            self.evidence.ranks.push(one);
            for (region, part) in [("solve", 0.7), ("assemble", 0.3)] {
                let compute_seconds = run.compute[rank] * scale * part;
                self.evidence.regions.push(Region {
                    region: region.into(),
                    rank: rank as u32,
                    compute_seconds,
                });
            }
        }
        self.evidence.is_running = true;
        self.evidence.seconds = run.seconds * scale;
        let calls = (ITERATIONS as f64 * scale) as u64 * u64::from(self.exchanges) * ranks as u64;
        let inside: f64 = run.inside.iter().sum::<f64>() * scale;
        self.evidence.operations.push(Operation {
            operation: name.into(),
            size_class_bytes: self.message.next_power_of_two(),
            calls,
            bytes: calls * self.message,
            seconds: inside,
        });
        self.waiting(run, name, scale);
        self.traffic(calls);
    }

    /// What the estimator makes of folded counters: some per cent beside the truth.
    fn waiting(&mut self, run: &Run, name: &str, scale: f64) {
        let truth: f64 = run.waited.iter().sum::<f64>() * scale;
        let seconds = truth * (0.9 + 0.15 * self.rng.f64());
        let last_arrivals = (0..self.work.len())
            .map(|rank| LastArrival {
                rank: rank as u32,
                share: run.last[rank],
                waited_seconds: run.waited_for[rank] * scale,
            })
            .collect();
        self.evidence.waiting = Some(Waiting {
            operations: vec![OperationWaiting {
                operation: name.into(),
                seconds,
                low_seconds: seconds * 0.8,
                high_seconds: seconds * 1.2,
            }],
            last_arrivals: if self.exchange == Exchange::Allreduce { last_arrivals } else { Vec::new() },
        });
    }

    fn traffic(&mut self, calls: u64) {
        let ranks = self.work.len();
        let bytes = calls as f64 * self.message as f64 / ranks as f64;
        let pairs = (0..ranks)
            .flat_map(|from| {
                let to = self.partners(from);
                let part = bytes / to.len() as f64;
                to.into_iter().filter(move |to| *to != from).map(move |to| (from as u32, to as u32, part))
            })
            .collect();
        let hosts: Vec<u32> = (0..ranks).map(|rank| self.host(rank)).collect();
        // Four hosts a switch.
        let leaves = (0..=hosts.iter().copied().max().unwrap_or(0)).map(|host| host / 4).collect();
        self.evidence.traffic = Some(Traffic { pairs, hosts, leaves });
    }
}

/// A program of a seed with a fault of some kind.
pub fn case(seed: u64, fault: Fault) -> Case {
    let mut program = Program::new(seed);
    let mut expected = Vec::new();
    let mut allowed: Allowed =
        [(Kind::NothingFound, BTreeSet::new()), (Kind::Waiting, BTreeSet::new())].into();
    let cause = faults::before(&mut program, fault, &mut expected, &mut allowed);
    let run = program.run();
    program.observe(&run);
    cables::on_its_way(&mut program, fault == Fault::SlowLink, &mut expected, &mut allowed);
    faults::after(&mut program, &run, fault, cause, &mut expected, &mut allowed);
    Case { evidence: program.evidence, expected, allowed }
}

fn lost_share(run: &Run) -> f64 {
    let most = run.compute.iter().copied().fold(0.0, f64::max);
    let lost: f64 = run.compute.iter().map(|one| most - one).sum();
    lost / (run.seconds * run.compute.len() as f64)
}
