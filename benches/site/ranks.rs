//! Ranks of one job on one node: what their shims push, given to the agent's folding, and traffic as the agent's receiver sums
//! it up for the node.

use crate::load::mix;
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use throughline_agent::fold::{Folder, Intervals};
use throughline_agent::live::LiveJob;
use throughline_sample::wire::{
    Batch, Job, JobRank, MpiNodeTraffic, MpiOpCell, MpiPeerCell, MpiRankBin, MpiRankPeers, MpiRankScheduling,
    MpiSampledCall, MpiSampledCalls,
};

/// Default intervals of the agent: `[mpi] fold_seconds`, `rank_seconds` and `rank_later_seconds`.
const INTERVALS: Intervals =
    Intervals { fold: 10 * SECOND, rank: 60 * SECOND, later: 300 * SECOND, repeat: 86_400 * SECOND };
/// Seconds from one report of sampled calls to the next.
pub const SAMPLED: u64 = 10;
/// Seconds after a rank's start in which its account is reported each second; then it is with each fold.
const ACCOUNT_YOUNG: u64 = 12;
/// In nanoseconds.
pub const SECOND: i64 = 1_000_000_000;

/// What programs call: operation, largest message of its class, region, algorithm, calls a second, and microseconds a call. A job has
/// six to fourteen of them.
const CELLS: [(&str, u64, &str, &str, u64, u64); 14] = [
    ("allreduce", 8, "solve", "recursivedoubling", 400, 22),
    ("isend", 65_536, "halo", "", 900, 3),
    ("irecv", 65_536, "halo", "", 900, 2),
    ("waitall", 0, "halo", "", 220, 180),
    ("allreduce", 8192, "solve", "rabenseifner", 40, 95),
    ("bcast", 1024, "", "binomial", 12, 40),
    ("barrier", 0, "", "", 4, 300),
    ("alltoall", 32_768, "fft", "pairwise", 25, 900),
    ("reduce", 64, "output", "binomial", 6, 35),
    ("isend", 1024, "exchange", "", 300, 2),
    ("irecv", 1024, "exchange", "", 300, 2),
    ("waitall", 0, "exchange", "", 75, 60),
    ("allgather", 256, "", "ring", 9, 120),
    ("gather", 4096, "output", "linear", 1, 400),
];

/// Each rank sends to four others: a stencil in two dimensions.
const PEERS: usize = 4;

/// Ranks of a job here.
pub struct Ranks {
    /// The job's number.
    pub job: u64,
    /// Its key.
    pub job_key: String,
    first: u32,
    count: u32,
    world: u32,
    begin: i64,
    folder: Folder,
    /// Of the node to ranks: the peer and messages a second.
    peers: Vec<(u32, u64)>,
    traffic_since: i64,
    samples: u64,
    /// They report where their time went.
    pub has_account: bool,
}

impl Ranks {
    /// `count` ranks from `first` on of a job of `world`, since `begin`, UTC nanoseconds.
    pub fn new(job: u64, first: u32, count: u32, world: u32, begin: i64) -> Self {
        let mut peers = BTreeMap::new();
        for rank in first..first + count {
            for peer in peers_of(rank, world) {
                *peers.entry(peer).or_insert(0) += 225;
            }
        }
        Self {
            job,
            job_key: format!("slurm:{job}.0@1000"),
            first,
            count,
            world,
            begin,
            folder: Folder::new(INTERVALS),
            peers: peers.into_iter().collect(),
            traffic_since: begin,
            samples: 0,
            has_account: true,
        }
    }

    fn ranks(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }

    /// The job and its ranks, as they are announced.
    pub fn announce(&mut self, host: &str, into: &mut Batch) {
        let rank = |rank| JobRank {
            job_key: self.job_key.clone(),
            rank,
            pid: 1000 + rank,
            world_size: self.world,
            mpi_library: "Open MPI v4.1.4".into(),
            start: self.begin,
            host: host.to_owned(),
            ..JobRank::default()
        };
        into.job_ranks = self.ranks().map(rank).collect();
        into.jobs.push(Job {
            key: self.job_key.clone(),
            scheduler: "slurm".into(),
            native_id: self.job.to_string(),
            step: "0".into(),
            uid: 1000,
            user: "alice".into(),
            command: "./solve".into(),
            name: format!("job{}", self.job),
            start: self.begin,
            world_size: self.world,
            evidence: "cgroup".into(),
            ..Job::default()
        });
        self.folder.take(into, self.begin);
    }

    /// What ranks have pushed by `time`, folded: rows that are due go into the batch.
    pub fn push(&mut self, time: i64, now: i64, into: &mut Batch) {
        self.push_of(1, time, now, into);
    }

    /// The same of one in so many ranks, in turns.
    pub fn push_of(&mut self, turns: u64, time: i64, now: i64, into: &mut Batch) {
        let mut fragment = Batch::default();
        let passed = (time - self.begin).unsigned_abs() / SECOND.unsigned_abs();
        for rank in self.ranks().filter(|rank| (passed + u64::from(*rank)).is_multiple_of(turns)) {
            fragment.mpi_ops.push(self.bin(rank, time, passed));
            fragment.mpi_peers.push(self.rank_peers(rank, time, passed));
            if self.has_account && (passed < ACCOUNT_YOUNG || time % INTERVALS.fold == 0) {
                fragment.mpi_scheduling.push(self.account(rank, time, passed));
            }
        }
        self.folder.take(&mut fragment, now);
        self.due(now, into);
        // What is not folded passes as it came.
        into.mpi_ops.append(&mut fragment.mpi_ops);
        into.mpi_peers.append(&mut fragment.mpi_peers);
        into.mpi_scheduling.append(&mut fragment.mpi_scheduling);
        if time % INTERVALS.fold == 0 {
            into.mpi_traffic.extend(self.traffic(time, passed));
        }
    }

    /// Rows that are due.
    fn due(&mut self, now: i64, into: &mut Batch) {
        let mut due = self.folder.due(now);
        into.mpi_node_cells.append(&mut due.mpi_node_cells);
        into.mpi_rank_rows.append(&mut due.mpi_rank_rows);
        into.mpi_peers.append(&mut due.mpi_peers);
        into.mpi_ops.append(&mut due.mpi_ops);
        into.mpi_scheduling.append(&mut due.mpi_scheduling);
    }

    /// Rows of the job while somebody looks at it, as of a whole second.
    pub fn live(&mut self, job: LiveJob, second: i64) -> Batch {
        self.folder.live(&[(self.job_key.clone(), job)], second)
    }

    /// All that is left.
    pub fn finish(&mut self) -> Batch {
        self.folder.finish()
    }

    fn bin(&self, rank: u32, time: i64, passed: u64) -> MpiRankBin {
        let cells = 6 + usize::try_from(mix(self.job) % 9).unwrap_or(0);
        // Ranks are not equal, and their share of the time in MPI goes up and down.
        let own = 80 + mix(u64::from(rank) << 20 ^ self.job) % 41;
        let wave = 1.0 + 0.3 * (time as f64 / 1e9 / 47.0 * TAU + f64::from(rank)).sin();
        let cell = |(number, of): (usize, &(&str, u64, &str, &str, u64, u64))| {
            let (operation, size, region, algorithm, rate, microseconds) = *of;
            let noise = mix(passed << 24 ^ u64::from(rank) << 8 ^ number as u64) % 1000;
            let calls = passed * rate + u64::from(passed > 0) * noise % rate.max(1);
            let elapsed = calls * microseconds * 10 * own;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive
            let waved = (microseconds as f64 * 1000.0 * rate as f64 * wave) as u64;
            MpiOpCell {
                operation: operation.into(),
                size_class_bytes: size,
                calls,
                bytes: calls * (size - size / 4 * (noise & 1)),
                elapsed_nanoseconds: elapsed + waved + noise,
                longest_nanoseconds: microseconds * 9000,
                region: region.into(),
                algorithm: algorithm.into(),
                algorithm_source: if algorithm.is_empty() { "" } else { "forced" }.into(),
                wait_nanoseconds: (operation == "irecv").then_some(elapsed / 3),
                received_bytes: (operation == "irecv").then_some(calls * size),
                least_nanoseconds: Some(elapsed / 3 * 2),
            }
        };
        MpiRankBin {
            time,
            epoch: self.begin,
            job_key: self.job_key.clone(),
            rank,
            source: "pmpi".into(),
            cells: CELLS[..cells.min(CELLS.len())].iter().enumerate().map(cell).collect(),
        }
    }

    /// A third of the time in MPI, a tenth waiting for a core, and some of it in files.
    fn account(&self, rank: u32, time: i64, passed: u64) -> MpiRankScheduling {
        let part =
            |permille: u64| Some(passed * permille * 1_000_000 + mix(passed ^ u64::from(rank)) % 1_000_000);
        MpiRankScheduling {
            time,
            epoch: self.begin,
            job_key: self.job_key.clone(),
            rank,
            cpu_nanoseconds: part(850),
            runqueue_wait_nanoseconds: part(110),
            involuntary_switches: Some(passed * 7),
            elapsed_nanoseconds: Some(passed * 1_000_000_000),
            mpi_nanoseconds: part(330),
            off_outside_nanoseconds: part(140),
            queued_outside_nanoseconds: part(90),
            off_inside_nanoseconds: part(30),
            queued_inside_nanoseconds: part(20),
            file_samples: u32::try_from(passed / 20).unwrap_or(u32::MAX),
            ..MpiRankScheduling::default()
        }
    }

    fn rank_peers(&self, rank: u32, time: i64, passed: u64) -> MpiRankPeers {
        let cell = |peer| {
            let messages = passed * 225 + mix(u64::from(peer) ^ passed) % 20 * u64::from(passed > 0);
            MpiPeerCell { peer, bytes: messages * 61_440, messages }
        };
        MpiRankPeers {
            time,
            epoch: self.begin,
            job_key: self.job_key.clone(),
            rank,
            kind: "logical".into(),
            source: "pmpi".into(),
            cells: peers_of(rank, self.world).into_iter().map(cell).collect(),
            is_whole: false, // the folder decides
        }
    }

    fn traffic(&mut self, time: i64, passed: u64) -> Option<MpiNodeTraffic> {
        let since = std::mem::replace(&mut self.traffic_since, time);
        let cell = |(peer, rate): &(u32, u64)| {
            let messages = passed * rate + mix(u64::from(*peer) ^ passed) % 20;
            MpiPeerCell { peer: *peer, bytes: messages * 61_440, messages }
        };
        (passed > 0 && !self.peers.is_empty()).then(|| MpiNodeTraffic {
            time,
            epoch: self.begin,
            job_key: self.job_key.clone(),
            since,
            operation: "isend".into(),
            kind: "modelled".into(),
            direction: "transmit".into(),
            source: "pmpi".into(),
            cells: self.peers.iter().map(cell).collect(),
            is_whole: true,
        })
    }

    /// Calls that ranks sampled in the [`SAMPLED`] seconds before this time, four in each.
    pub fn sampled(&mut self, time: i64) -> MpiSampledCalls {
        let call = |number: u64| MpiSampledCall {
            call: number,
            ranks: self.count,
            elapsed_nanoseconds: u64::from(self.count) * (20_000 + mix(number) % 9000),
            least_nanoseconds: 9000 + mix(number) % 3000,
            least_rank: self.first + u32::try_from(mix(number) % u64::from(self.count)).unwrap_or(0),
            level: 6,
        };
        let calls = (self.samples..self.samples + 4 * SAMPLED).map(call).collect();
        self.samples += 4 * SAMPLED;
        MpiSampledCalls {
            time,
            job_key: self.job_key.clone(),
            comm_group: mix(self.job).cast_signed(),
            group_size: self.world,
            members: format!("0-{}", self.world - 1),
            operation: "allreduce".into(),
            size_class_bytes: 8,
            cell: mix(self.job + 1).cast_signed(),
            calls,
        }
    }
}

/// Neighbours of a rank.
fn peers_of(rank: u32, world: u32) -> Vec<u32> {
    let side = world.isqrt().max(1);
    let steps: [u32; PEERS] = [1, world - 1, side, world - side];
    let mut peers: Vec<u32> =
        steps.iter().map(|step| (rank + step) % world).filter(|peer| *peer != rank).collect();
    peers.sort_unstable();
    peers.dedup();
    peers
}
