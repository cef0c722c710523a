//! What else is known of jobs: an earlier one that ended within the ten minutes, regions, settings, traffic on the wire.

use super::node::JOB;
use super::{SECOND, TICKS, tick_time};
use throughline_sample::wire::{
    Batch, Job, JobRank, JobSetting, MpiOpCell, MpiPeerCell, MpiPvarSample, MpiRankBin, MpiRankPeers,
    MpiRankRegions, MpiRankScheduling, MpiRegionCell, Names,
};

/// The job that ended.
pub const ENDED: &str = "slurm:4700";
/// Ticks between which it ran.
const RAN: std::ops::Range<i64> = 2..30;

/// The earlier job's two ranks, one on each node.
pub fn ended(end: i64, node: u32, name: &str) -> Vec<Batch> {
    let (start, stop) = (tick_time(end, RAN.start), tick_time(end, RAN.end));
    let rank = |is_over: bool| JobRank {
        job_key: ENDED.to_owned(),
        rank: node,
        pid: 900 + node,
        world_size: 2,
        mpi_library: String::from("MPICH 4.0.2"),
        start,
        end: if is_over { stop } else { 0 },
        ending: if is_over { "clean" } else { "" }.to_owned(),
        host: name.to_owned(),
        hca_ports: Some(Names { name: vec![String::from("mlx5_0/1")] }),
        ..JobRank::default()
    };
    let job = Job {
        key: ENDED.to_owned(),
        scheduler: String::from("slurm"),
        native_id: String::from("4700"),
        user: String::from("grace"),
        command: String::from("./solver --small"),
        start,
        world_size: 2,
        ..Job::default()
    };
    let batch = |jobs, rank| Batch { node: name.to_owned(), jobs, job_ranks: vec![rank], ..Batch::default() };
    let mut batches = vec![batch(vec![job], rank(false))];
    batches.extend(RAN.skip(1).map(|tick| {
        let so_far = (tick - RAN.start).cast_unsigned() * 100;
        let cell = |operation: &str, size_class_bytes: u64| MpiOpCell {
            operation: operation.to_owned(),
            size_class_bytes,
            calls: so_far,
            bytes: so_far * size_class_bytes,
            elapsed_nanoseconds: so_far * 4_000_000,
            longest_nanoseconds: 90_000_000,
            received_bytes: Some(so_far * size_class_bytes),
            ..MpiOpCell::default()
        };
        let bin = MpiRankBin {
            time: tick_time(end, tick),
            epoch: start,
            job_key: ENDED.to_owned(),
            rank: node,
            source: String::from("pmpi"),
            cells: vec![cell("allreduce", 8192), cell("bcast", 1 << 16)],
        };
        let variable = MpiPvarSample {
            time: tick_time(end, tick),
            job_key: ENDED.to_owned(),
            rank: node,
            name: String::from("unexpected_recvq_length"),
            element: 0,
            value: (tick % 5) as f64,
            source: String::from("mpit"),
            variable_class: String::from("level"),
        };
        Batch { node: name.to_owned(), mpi_ops: vec![bin], mpi_pvars: vec![variable], ..Batch::default() }
    }));
    let account = account(ENDED, node, start, stop);
    batches.push(Batch { mpi_scheduling: vec![account], ..batch(Vec::new(), rank(true)) });
    batches
}

/// Where a rank's time went until then: half of it computing, and a part of the rest in each line.
fn account(job: &str, rank: u32, epoch: i64, time: i64) -> MpiRankScheduling {
    let percent = |part: u64| Some((time - epoch).unsigned_abs() / 100 * part);
    MpiRankScheduling {
        time,
        epoch,
        job_key: job.to_owned(),
        rank,
        elapsed_nanoseconds: percent(100),
        mpi_nanoseconds: percent(30),
        off_outside_nanoseconds: percent(20),
        queued_outside_nanoseconds: percent(5),
        off_inside_nanoseconds: percent(10),
        queued_inside_nanoseconds: percent(8),
        file_samples: 9,
        ..MpiRankScheduling::default()
    }
}

/// Regions, settings and wire traffic of the job that runs.
pub fn details(end: i64, name: &str, ranks: std::ops::Range<u32>) -> Batch {
    let (time, epoch) = (tick_time(end, TICKS - 1), end - 1200 * SECOND);
    let mut batch = Batch { node: name.to_owned(), ..Batch::default() };
    for rank in ranks {
        batch.mpi_scheduling.push(account(JOB, rank, epoch, time));
        batch.mpi_regions.push(MpiRankRegions {
            time,
            epoch,
            job_key: JOB.to_owned(),
            rank,
            source: String::from("pmpi"),
            paths: Vec::new(),
            cells: vec![MpiRegionCell {
                region: String::from("solve"),
                visits: 600,
                elapsed_nanoseconds: 500_000_000_000,
                own_nanoseconds: 400_000_000_000,
                mpi_calls: 6000,
                mpi_nanoseconds: 100_000_000_000,
            }],
        });
        batch.job_settings.push(JobSetting {
            time,
            job_key: JOB.to_owned(),
            rank,
            name: String::from("coll_tuned_use_dynamic_rules"),
            value: String::from("false"),
        });
        batch.mpi_peers.push(MpiRankPeers {
            time,
            epoch,
            job_key: JOB.to_owned(),
            rank,
            kind: String::from("wire"),
            source: String::from("pml"),
            cells: vec![MpiPeerCell { peer: (rank + 1) % 4, bytes: 1_000_000, messages: 100 }],
            is_whole: true,
        });
    }
    batch
}
