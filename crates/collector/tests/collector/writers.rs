//! Several writers at a time: nodes of the same jobs go through different ones, and all that each sent is stored once, in its order.

use throughline_sample::catalogue::{COMMIT_FAILURES, DUPLICATE_ENTRIES};
use throughline_sample::wire::{Batch, Job, JobRank, MpiOpCell, MpiRankBin};

use crate::site::{SECOND, Site, job, now, rank};

const NODES: u32 = 24;
const JOBS: u32 = 4;
const BINS: u32 = 40;

fn key(node: u32) -> String {
    format!("slurm:{}.0@1000", node % JOBS)
}

fn introduction(node: u32) -> Batch {
    let (key, name) = (key(node), format!("n{node}"));
    let job = Job { world_size: NODES, ..job(&key, 1000, "cgroup") };
    let rank = JobRank { world_size: NODES, ..rank(&key, node, &name) };
    Batch { node: name, jobs: vec![job], job_ranks: vec![rank], ..Batch::default() }
}

/// One bin of a rank that began to count at `epoch`.
fn bin(node: u32, number: u32, epoch: i64) -> Batch {
    let cell = |operation: &str| MpiOpCell {
        operation: operation.into(),
        size_class_bytes: 64,
        calls: u64::from(number) + 1,
        bytes: 64 * (u64::from(number) + 1),
        ..MpiOpCell::default()
    };
    let ops = MpiRankBin {
        time: epoch + i64::from(number + 1) * SECOND / 10,
        epoch,
        job_key: key(node),
        rank: node,
        source: "pmpi".into(),
        cells: vec![cell("allreduce"), cell("barrier")],
    };
    Batch { node: format!("n{node}"), mpi_ops: vec![ops], ..Batch::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_the_same_jobs_go_through_different_writers_and_lose_nothing() {
    let site = Site::start().await;
    let senders: Vec<_> = (0..NODES)
        .map(|node| {
            let sender = site.ship(&format!("n{node}"));
            sender.append(&introduction(node));
            let epoch = now() - 50 * SECOND;
            (0..BINS).for_each(|number| sender.append(&bin(node, number, epoch)));
            sender
        })
        .collect();
    for sender in senders {
        sender.end().await;
    }
    assert_eq!(site.number("SELECT count(*) FROM internal.mpi_op_rows").await, i64::from(2 * NODES * BINS));
    let complete = format!(
        "SELECT count(*) FROM (SELECT rank FROM internal.mpi_op_rows GROUP BY job_id, rank, operation HAVING max(calls) = {BINS}) c"
    );
    assert_eq!(site.number(&complete).await, i64::from(2 * NODES));
    assert_eq!(site.number("SELECT count(*) FROM internal.job_rank").await, i64::from(NODES));
    assert_eq!(site.number("SELECT count(DISTINCT job_id) FROM internal.run_claim").await, i64::from(JOBS));
    let advanced = format!("SELECT count(*) FROM internal.batch_ledger WHERE sequence = {}", BINS + 1);
    assert_eq!(site.number(&advanced).await, i64::from(NODES));
    for metric in [&COMMIT_FAILURES, &DUPLICATE_ENTRIES] {
        assert_eq!(
            site.metrics.get("collector", metric).map(f64::to_bits),
            Some(0.0_f64.to_bits()),
            "{}",
            metric.name
        );
    }
    for reason in throughline_sample::admission::Rejection::ALL {
        assert_eq!(site.rejected(reason.reason()), 0, "{}", reason.reason());
    }
    site.end().await;
}
