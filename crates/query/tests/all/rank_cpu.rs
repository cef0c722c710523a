//! What the kernel counted of ranks: differences of readings, of the last start of each rank; absent is not zero.

use crate::batches::{SECOND, entry};
use std::time::SystemTime;
use throughline_query::rank_cpu::{RankCpu, rank_cpu};
use throughline_sample::wire::{Batch, Job, JobRank, MpiRankScheduling, Names};
use throughline_store::{Writer, testing};
use throughline_verdicts::account::{OffReasons, RankTimes};
use uuid::Uuid;

const KEY: &str = "slurm:1";

/// A reading so many seconds after the rank's start: so many milliseconds of processor time and on a run queue.
fn reading(rank: u32, start: i64, seconds: i64, cpu: u64, wait: Option<u64>) -> MpiRankScheduling {
    MpiRankScheduling {
        time: start + seconds * SECOND,
        epoch: start,
        job_key: KEY.into(),
        rank,
        cpu_nanoseconds: Some(cpu * 1_000_000),
        runqueue_wait_nanoseconds: wait.map(|wait| wait * 1_000_000),
        involuntary_switches: Some(cpu / 100),
        // Of rank 0 alone the kernel says the clock.
        cpu_hertz: (rank == 0).then_some(2_000_000_000 + seconds.unsigned_abs() * 10_000_000),
        ..account(rank, seconds)
    }
}

/// Of rank 0 half of the time in MPI, and a quarter off the processor outside of it; it is stopped at 20 s.
fn account(rank: u32, seconds: i64) -> MpiRankScheduling {
    let part = |percent: u64| (rank == 0).then_some(seconds.unsigned_abs() * 10_000_000 * percent);
    MpiRankScheduling {
        elapsed_nanoseconds: part(100),
        mpi_nanoseconds: part(50),
        off_outside_nanoseconds: part(25),
        queued_outside_nanoseconds: part(5),
        off_inside_nanoseconds: part(10),
        queued_inside_nanoseconds: part(1),
        throttled_nanoseconds: part(1).map(|one| one * 3 / 2),
        file_samples: 2,
        is_stopped: rank == 0 && seconds == 20,
        ..MpiRankScheduling::default()
    }
}

fn rank(rank: u32, start: i64, ports: Option<&[&str]>) -> JobRank {
    JobRank {
        job_key: KEY.into(),
        rank,
        start,
        host: "n1".into(),
        cpus: "8-9".into(),
        numa_nodes: vec![1],
        hca_ports: ports.map(|ports| Names { name: ports.iter().map(|port| (*port).to_owned()).collect() }),
        hca_numa_nodes: vec![0],
        ..JobRank::default()
    }
}

#[tokio::test]
async fn readings_become_differences() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let start = i64::try_from(now).unwrap() / SECOND * SECOND - 30 * SECOND;
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let spool = Uuid::from_u128(1);
    let batch = |readings: Vec<MpiRankScheduling>| Batch {
        node: "n1".into(),
        mpi_scheduling: readings,
        ..Batch::default()
    };
    let first = Batch {
        jobs: vec![Job { key: KEY.into(), user: "ada".into(), start, world_size: 5, ..Job::default() }],
        job_ranks: vec![
            rank(0, start, Some(&["mlx5_0/1"])),
            rank(1, start, Some(&[])),
            rank(2, start - 3600 * SECOND, None),
            rank(3, start, None),
            rank(4, start, None),
        ],
        ..batch(vec![
            reading(0, start, 0, 1_000, Some(500)),
            reading(1, start, 0, 1_000, None),
            // Its readings came in one batch, an hour ago.
            reading(2, start - 3600 * SECOND, 10, 12_000, Some(0)),
            reading(2, start - 3600 * SECOND, 0, 2_000, Some(0)),
            // One reading counts nothing.
            reading(3, start, 0, 7_000, Some(3_000)),
        ])
    };
    writer.write(&[entry(spool, 1, first)]).await.unwrap();
    let later = batch(vec![reading(0, start, 10, 6_000, Some(2_500)), reading(1, start, 20, 3_000, None)]);
    writer.write(&[entry(spool, 2, later)]).await.unwrap();
    // One that comes late is none.
    let last = batch(vec![reading(0, start, 20, 8_000, Some(10_500)), reading(1, start, 10, 1_500, None)]);
    writer.write(&[entry(spool, 3, last)]).await.unwrap();

    let client = database.connect_reader().await.unwrap();
    let job = client.query_one("SELECT id FROM internal.run", &[]).await.unwrap().get(0);
    let ranks = rank_cpu(&client, job).await.unwrap();
    let one = RankCpu {
        rank: 0,
        seconds: Some(20.0),
        cpu_seconds: Some(7.0),
        runqueue_wait_seconds: Some(10.0),
        involuntary_switches: Some(70),
        recent_cpu_share: Some(0.2),
        cpu_hertz: Some(2_100_000_000.0),
        cpus: Some("8-9".into()),
        numa_nodes: Some(vec![1]),
        hca_numa_nodes: Some(vec![0]),
        read_ms: ranks[0].read_ms,
        stopped_seconds: ranks[0].stopped_seconds,
        times: Some(RankTimes {
            elapsed: 20.0,
            computing: 5.0,
            queued: 1.0,
            off: 4.0,
            found: OffReasons { file: 2, ..OffReasons::default() },
            mpi: 10.0,
            off_in_mpi: 2.0,
            queued_in_mpi: 0.2,
            throttled: 0.3,
        }),
    };
    assert_eq!(ranks[0], one);
    assert_eq!(ranks[0].read_ms, Some((start + 20 * SECOND) / 1_000_000));
    assert!(ranks[0].stopped_seconds.is_some() && ranks[1].stopped_seconds.is_none());
    assert_eq!((ranks[1].times, ranks[4].times), (None, None), "their shims report none");
    assert_eq!(ranks[0].is_far_from_adapter(), Some(true));
    assert_eq!((ranks[1].cpu_hertz, ranks[3].cpu_hertz), (None, None), "the kernel does not say it");
    // It uses no adapter.
    assert_eq!((ranks[1].runqueue_wait_seconds, ranks[1].is_far_from_adapter()), (None, None));
    assert_eq!((ranks[1].cpu_seconds, ranks[1].recent_cpu_share), (Some(2.0), Some(0.1)));
    assert_eq!(
        (ranks[2].cpu_seconds, ranks[2].runqueue_wait_seconds, ranks[2].recent_cpu_share),
        (Some(10.0), Some(0.0), None)
    );
    assert_eq!((ranks[3].seconds, ranks[3].cpu_seconds, ranks[3].involuntary_switches), (None, None, None));
    assert_eq!((ranks.len(), ranks[4].cpu_seconds, ranks[4].cpus.as_deref()), (5, None, Some("8-9")));
}
