//! Batches of valid and invalid records of all kinds in any order, through the collector and a real database: exactly the
//! valid ones are stored. `THROUGHLINE_SEED` replays one order.

mod crawler;
mod node;

use crate::maker::*;
use crate::site::*;
use crawler::crawler_entry;
use node::node_entry;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use throughline_sample::wire::*;
use uuid::Uuid;

/// Entries of one run, of each of the two senders.
const ENTRIES: u64 = 8;

const TIMED: [&str; 17] = [
    "ib_port_counters",
    "ib_port_lane_counters",
    "host_port_counters",
    "nvlink_counters",
    "gpu_pcie_counters",
    "gpu_pm_counters",
    "gpu_metrics",
    "mpi_rank_rows",
    "mpi_rank_peers",
    "mpi_pvars",
    "mpi_regions",
    "mpi_node_traffic",
    "mpi_trace",
    "mpi_clock",
    "events",
    "coverage",
    "self_stats",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_fuzzed_batch_stores_exactly_its_valid_records() {
    let seed = std::env::var("THROUGHLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("THROUGHLINE_SEED={seed}");
    let mut random = Random(seed);
    let site = Site::start().await;
    let introduced = |node: &str, key: &str, uid, gpu: &str, hca| Batch {
        node: node.into(),
        nodes: vec![NodeInfo { name: node.into(), hca_guids: vec![hca], ..NodeInfo::default() }],
        gpus: vec![GpuInfo { uuid: gpu.into(), ..GpuInfo::default() }],
        jobs: vec![job(key, uid, "cgroup")],
        job_ranks: vec![rank(key, 0, node)],
        ..Batch::default()
    };
    site.batch("n1", &introduced("n1", "slurm:1@1000", 1000, "GPU-1", 0x10)).await.unwrap();
    site.batch("n2", &introduced("n2", "slurm:2@2000", 2000, "GPU-2", 0x20)).await.unwrap();
    let mut ledger = Ledger::default();
    for key in ["slurm:1@1000", "slurm:2@2000"] {
        ledger.valid.insert(("job", key.into()));
    }
    for uuid in ["GPU-1", "GPU-2"] {
        ledger.valid.insert(("gpu", uuid.into()));
    }
    let (spool, crawler) = (Uuid::new_v4(), Uuid::new_v4());
    let began = now() / 1000 * 1000;
    for number in 1..=ENTRIES {
        let base = began + number as i64 * 1_000_000;
        let entry = node_entry(&mut random, &mut ledger, number, base);
        site.put("n1", &[(spool, number, entry)]).await.unwrap();
        let entry = crawler_entry(&mut random, &mut ledger, number, base);
        site.put("fab1", &[(crawler, number, entry)]).await.unwrap();
    }
    let mut found: BTreeSet<(&'static str, String)> = BTreeSet::new();
    for table in TIMED {
        // The server's own metrics stand beside the senders'.
        let of = if matches!(table, "events" | "coverage" | "self_stats") {
            "WHERE instance <> 'server'"
        } else {
            ""
        };
        let schema = if table == "self_stats" { "public" } else { "internal" };
        let times = format!(
            "SELECT round(extract(epoch FROM time) * 1000000)::bigint::text FROM {schema}.{table} {of}"
        );
        for time in site.texts(&times).await {
            assert!(found.insert((table, time)), "{table}: seed {seed}");
        }
    }
    for (table, keys) in [
        ("job", "SELECT key FROM internal.run WHERE uid IS NOT NULL"),
        ("gpu", "SELECT uuid FROM internal.gpu"),
        ("job_comm", "SELECT comm::text FROM internal.job_comm"),
        ("job_setting", "SELECT name FROM internal.job_setting"),
        ("mpi_open_call", "SELECT thread::text FROM internal.mpi_open_call"),
        ("mpi_rank_scheduling", "SELECT rank::text FROM internal.mpi_rank_scheduling"),
        ("ib_node", "SELECT guid FROM internal.ib_node"),
    ] {
        found.extend(site.texts(keys).await.into_iter().map(|key| (table, key)));
    }
    let missing: Vec<_> = ledger.valid.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&ledger.valid).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "seed {seed}: missing {missing:?}, surplus {surplus:?}"
    );
    let listed = site.number("SELECT sum(records)::bigint FROM internal.record_quarantine").await;
    assert_eq!(listed as u64, ledger.invalid, "seed {seed}");
    assert_eq!(site.number("SELECT count(*) FROM internal.batch_quarantine").await, 0);
    assert_eq!(site.number("SELECT count(*) FROM internal.job_rank").await, 2);
    site.end().await;
}
