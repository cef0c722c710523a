//! Totals of jobs whose rows are known by construction: cumulative bins of several nodes and hours, ranks that were
//! started again, killed or late, and another job beside.

use crate::batches::{SECOND, START, entry};
use std::collections::BTreeMap;
use throughline_sample::wire::{
    Batch, Job, JobRank, MpiOpCell, MpiPeerCell, MpiRankBin, MpiRankPeers, MpiRankRegions, MpiRegionCell,
};
use throughline_store::{Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

/// One life of a rank: `bins` rows of each cell, `step` seconds apart; the nth holds n times the cell's values.
#[derive(Clone)]
pub(crate) struct Life {
    job: &'static str,
    node: &'static str,
    rank: u32,
    /// Seconds after the start.
    begin: i64,
    end: Option<i64>,
    ending: &'static str,
    bins: u64,
    step: i64,
}

fn cells(n: u64, rank: u64) -> Vec<MpiOpCell> {
    let cell = |operation: &str, size_class_bytes, calls: u64, region: &str, algorithm: &str| MpiOpCell {
        operation: operation.into(),
        size_class_bytes,
        calls: n * calls,
        bytes: n * calls * size_class_bytes,
        elapsed_nanoseconds: n * (rank + 1) * 10_000_000,
        longest_nanoseconds: 1_000_000 * (rank + 1),
        region: region.into(),
        algorithm: algorithm.into(),
        algorithm_source: if algorithm.is_empty() { "" } else { "observed" }.into(),
        ..MpiOpCell::default()
    };
    vec![
        cell("allreduce", 8, 3, "", "recursivedoubling"),
        cell("allreduce", 8192, 2, "solve", "ring"),
        cell("allreduce", 8192, 1, "solve", "recursivedoubling"),
        MpiOpCell { wait_nanoseconds: Some(n * 5_000_000), ..cell("isend", 1024, 4, "solve", "") },
        MpiOpCell { received_bytes: Some(n * 4096), ..cell("irecv", 1024, 4, "solve", "") },
    ]
}

/// What the nth report has: one peer each time, and another one each fifth time.
fn peers_of(rank: u32, n: u64, bytes: u64) -> Vec<MpiPeerCell> {
    let next = MpiPeerCell { peer: (rank + 1) % 4, bytes: n * bytes, messages: n * 4 };
    let other = MpiPeerCell { peer: (rank + 2) % 4, bytes: n * 8, messages: n };
    if n.is_multiple_of(5) { vec![next, other] } else { vec![next] }
}

pub(crate) fn life(life: &Life) -> Batch {
    let start = START + life.begin * SECOND;
    let times = (1..=life.bins).map(|n| (n, start + i64::try_from(n).unwrap() * life.step * SECOND));
    let bin = |(n, time): (u64, i64)| MpiRankBin {
        time,
        epoch: start,
        job_key: life.job.into(),
        rank: life.rank,
        source: "pmpi".into(),
        cells: cells(n, u64::from(life.rank)),
    };
    let peers = |(n, time): (u64, i64), kind: &str, bytes: u64| MpiRankPeers {
        time,
        epoch: start,
        job_key: life.job.into(),
        rank: life.rank,
        kind: kind.into(),
        source: "pmpi".into(),
        cells: peers_of(life.rank, n, bytes),
        is_whole: false,
    };
    let regions = |(n, time): (u64, i64)| MpiRankRegions {
        time,
        epoch: start,
        job_key: life.job.into(),
        rank: life.rank,
        source: "pmpi".into(),
        paths: Vec::new(),
        cells: vec![MpiRegionCell {
            region: "solve".into(),
            visits: n,
            elapsed_nanoseconds: n * 1_000_000_000,
            ..MpiRegionCell::default()
        }],
    };
    Batch {
        node: life.node.into(),
        jobs: vec![Job {
            key: life.job.into(),
            user: "ada".into(),
            start,
            // As a node reports it when its own ranks are done, whatever runs elsewhere.
            end: life.end.map_or(0, |end| START + end * SECOND),
            world_size: 4,
            ..Job::default()
        }],
        job_ranks: vec![JobRank {
            job_key: life.job.into(),
            rank: life.rank,
            world_size: 4,
            mpi_library: "Open MPI v4.1.4".into(),
            start,
            end: life.end.map_or(0, |end| START + end * SECOND),
            ending: life.ending.into(),
            host: life.node.into(),
            pid: 100 + life.rank,
            ..JobRank::default()
        }],
        mpi_ops: times.clone().map(bin).collect(),
        mpi_peers: times
            .clone()
            .flat_map(|at| [peers(at, "logical", 4096), peers(at, "wire", 4500)])
            .collect(),
        mpi_regions: times.map(regions).collect(),
        ..Batch::default()
    }
}

/// Job A: rank 0 and 1 on n1, over two chunks (hours); rank 2 on n2 was started twice; rank 3 was killed. Job B
/// runs beside it with the same ranks.
/// How a rank's operations come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A row for each cell.
    Bins,
    /// All cells in a row.
    Rows,
    /// First in one way and then, from the agent that took its place, in the other.
    Replaced,
}

impl Form {
    pub(crate) fn apply(self, mut batch: Batch) -> Batch {
        let bins = std::mem::take(&mut batch.mpi_ops);
        let first_row = match self {
            Form::Bins => bins.len(),
            Form::Rows => 0,
            Form::Replaced => bins.len() / 2,
        };
        batch.mpi_rank_rows = bins[first_row..].to_vec();
        batch.mpi_ops = bins[..first_row].to_vec();
        // Both kinds of each report. An agent's first row is whole, and then each seventh.
        let mut sums: BTreeMap<(String, u32), MpiPeerCell> = BTreeMap::new();
        for (at, peers) in batch.mpi_peers.iter_mut().enumerate() {
            for cell in &peers.cells {
                sums.insert((peers.kind.clone(), cell.peer), *cell);
            }
            if let Some(rows_before) = (at / 2).checked_sub(first_row) {
                peers.is_whole = rows_before.is_multiple_of(7);
                if peers.is_whole {
                    let all = sums.iter().filter(|((kind, _), _)| *kind == peers.kind);
                    peers.cells = all.map(|(_, cell)| *cell).collect();
                }
            }
        }
        batch
    }
}

pub(crate) fn lives() -> Vec<Life> {
    let a = Life {
        job: "slurm:1.0",
        node: "n1",
        rank: 0,
        begin: 0,
        end: Some(7300),
        ending: "clean",
        bins: 72,
        step: 100,
    };
    vec![
        a.clone(),
        Life { rank: 1, ..a.clone() },
        Life { node: "n2", rank: 2, end: Some(1000), ending: "lost", bins: 7, ..a.clone() },
        Life { node: "n2", rank: 2, begin: 2000, end: Some(7200), bins: 50, ..a.clone() },
        Life { node: "n2", rank: 3, end: Some(4000), ending: "lost", bins: 30, ..a.clone() },
        Life { job: "slurm:1.1", ending: "", end: None, bins: 3, step: 1, ..a.clone() },
        Life { job: "slurm:1.1", node: "n2", rank: 1, ending: "clean", end: Some(5), bins: 4, step: 1, ..a },
    ]
}

async fn seeded() -> Client {
    seeded_as(Form::Bins).await
}

async fn seeded_as(form: Form) -> Client {
    let database = testing::database().await;
    let mut entries: Vec<_> =
        lives().iter().zip(1..).map(|(of, n)| entry(Uuid::from_u128(1), n, form.apply(life(of)))).collect();
    // Rows of an earlier life that arrive after all others.
    let (first, second) = (entries.remove(2), entries.remove(2));
    entries.splice(2..2, [second, first]);
    for (sequence, entry) in (1..).zip(&mut entries) {
        entry.sequence = sequence;
        Writer::new(database.clone()).write(std::slice::from_ref(entry)).await.unwrap();
    }
    database.connect_reader().await.unwrap()
}

async fn id(client: &Client, key: &str) -> i64 {
    client.query_one("SELECT id FROM internal.run WHERE key = $1", &[&key]).await.unwrap().get(0)
}

/// How often a rank of job A counted: the last bins of its lives.
const COUNTED: [i64; 4] = [72, 72, 57, 30];

#[tokio::test]
async fn totals_are_the_last_rows_of_each_life() {
    for form in [Form::Bins, Form::Rows, Form::Replaced] {
        check_totals(form).await;
    }
}

async fn check_totals(form: Form) {
    let client = seeded_as(form).await;
    let a = id(&client, "slurm:1.0").await;
    let rows = client
        .query(
            "SELECT rank, operation, size_class_bytes, region, algorithm, algorithm_source, calls, bytes, \
             elapsed_seconds, longest_seconds, wait_seconds, received_bytes FROM internal.mpi_op_cell_totals \
             WHERE job_id = $1 ORDER BY rank, operation, size_class_bytes, algorithm",
            &[&a],
        )
        .await
        .unwrap();
    assert_eq!(rows.len(), 4 * 5);
    for row in &rows {
        let rank: i32 = row.get("rank");
        let counted = COUNTED[usize::try_from(rank).unwrap()];
        let key = (row.get::<_, &str>("operation"), row.get::<_, i64>("size_class_bytes"));
        let (calls, region, source) = match (key, row.get::<_, &str>("algorithm")) {
            (("allreduce", 8), "recursivedoubling") => (3, "", "observed"),
            (("allreduce", 8192), "ring") => (2, "solve", "observed"),
            (("allreduce", 8192), "recursivedoubling") => (1, "solve", "observed"),
            (("isend" | "irecv", 1024), "") => (4, "solve", ""),
            other => panic!("{other:?}"),
        };
        assert_eq!((row.get::<_, &str>("region"), row.get::<_, &str>("algorithm_source")), (region, source));
        assert_eq!(row.get::<_, i64>("calls"), calls * counted, "{row:?}");
        assert_eq!(row.get::<_, i64>("bytes"), calls * counted * key.1, "{row:?}");
        let elapsed = f64::from(rank + 1) * 0.01 * f64::from(i32::try_from(counted).unwrap());
        assert!((row.get::<_, f64>("elapsed_seconds") - elapsed).abs() < 1e-9, "{row:?}");
        assert!((row.get::<_, f64>("longest_seconds") - f64::from(rank + 1) / 1000.0).abs() < 1e-9);
        // What nobody reported is absent, not 0.
        assert_eq!(row.get::<_, Option<f64>>("wait_seconds").is_some(), key.0 == "isend");
        let received = (key.0 == "irecv").then_some(counted * 4096);
        assert_eq!(row.get::<_, Option<i64>>("received_bytes"), received);
    }
    // Each report is there once in whatever form.
    let rows = "SELECT count(*), sum(calls)::bigint, count(wait_seconds), count(received_bytes) FROM internal.mpi_op_rows WHERE job_id = $1";
    let row = client.query_one(rows, &[&a]).await.unwrap();
    let reports = [72_i64, 72, 7, 50, 30];
    let summed: i64 = reports.iter().map(|bins| 14 * bins * (bins + 1) / 2).sum();
    let count: i64 = reports.iter().sum();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (5 * count, summed), "{form:?}");
    assert_eq!((row.get::<_, i64>(2), row.get::<_, i64>(3)), (count, count), "absent is not zero");
    let b: i64 = client
        .query_one(
            "SELECT sum(calls)::bigint FROM public.mpi_op_totals WHERE job_key = 'slurm:1.1' AND operation = 'allreduce'",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert_eq!(b, 6 * (3 + 4));
}

#[tokio::test]
async fn totals_as_of_a_time() {
    for form in [Form::Bins, Form::Rows, Form::Replaced] {
        check_totals_at(form).await;
    }
}

async fn check_totals_at(form: Form) {
    let client = seeded_as(form).await;
    let a = id(&client, "slurm:1.0").await;
    let calls = |seconds: i64| {
        let until = throughline_sample::to_rfc3339(START + seconds * SECOND);
        let client = &client;
        async move {
            let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM internal.mpi_op_cells($1, $2::text::timestamptz) \
                       WHERE operation = 'isend'";
            client.query_one(sql, &[&a, &until]).await.unwrap().get::<_, i64>(0)
        }
    };
    assert_eq!(calls(50).await, 0);
    // Four ranks with 5 bins each.
    assert_eq!(calls(500).await, 4 * 4 * 5);
    // Ranks 0, 1, 3: 22 bins; rank 2: the 7 of its first life and the 2 of its second.
    assert_eq!(calls(2200).await, 4 * (3 * 22 + 7 + 2));
    assert_eq!(calls(100_000).await, 4 * COUNTED.iter().sum::<i64>());
}

async fn check_pairs(client: &Client, form: Form) {
    let a = id(client, "slurm:1.0").await;
    // The last fifth reports of its lives.
    let fifth = [70_i64, 70, 5 + 50, 30];
    // Job A has many rows for each pair, job B few: they are found in different ways.
    for (key, counted) in [("slurm:1.0", &COUNTED[..]), ("slurm:1.1", &[3, 4])] {
        let sql = "SELECT rank, peer, kind, bytes, messages FROM public.mpi_peer_totals WHERE job_key = $1 ORDER BY 1, 2, 3";
        let rows = client.query(sql, &[&key]).await.unwrap();
        assert_eq!(rows.len(), counted.len() * if key == "slurm:1.0" { 4 } else { 2 }, "{key} {form:?}");
        for row in rows {
            let (rank, peer): (i32, i32) = (row.get(0), row.get(1));
            let place = usize::try_from(rank).unwrap();
            let each = if row.get::<_, &str>(2) == "wire" { 4500 } else { 4096 };
            let expected = if peer == (rank + 1) % 4 {
                (counted[place] * each, counted[place] * 4)
            } else {
                assert_eq!(peer, (rank + 2) % 4);
                (fifth[place] * 8, fifth[place])
            };
            assert_eq!((row.get::<_, i64>(3), row.get::<_, i64>(4)), expected, "{key} {rank} {form:?}");
        }
    }
    // Rank 0 after 5, 21 and 22 of its reports.
    for (seconds, next, other) in [(550, 5, 5), (2150, 21, 20), (2250, 22, 20)] {
        let until = throughline_sample::to_rfc3339(START + seconds * SECOND);
        let sql = "SELECT sum(messages) FILTER (WHERE peer = 1)::bigint, sum(messages) FILTER (WHERE peer = 2)::bigint
                   FROM internal.mpi_peer_cells($1, $2::text::timestamptz) WHERE rank = 0 AND kind = 'wire'";
        let row = client.query_one(sql, &[&a, &until]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (4 * next, other), "{form:?} at {seconds}");
    }
    // Each report of a rank's next is there once in whatever form.
    let rows = "SELECT count(*), sum(bytes)::bigint FROM internal.mpi_peer_rows
                WHERE job_id = $1 AND kind = 'logical' AND peer = (rank + 1) % 4";
    let row = client.query_one(rows, &[&a]).await.unwrap();
    let reports = [72_i64, 72, 7, 50, 30];
    let summed: i64 = reports.iter().map(|bins| 4096 * bins * (bins + 1) / 2).sum();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (reports.iter().sum(), summed), "{form:?}");
}

#[tokio::test]
async fn pairs_regions_and_ranks() {
    for form in [Form::Bins, Form::Rows, Form::Replaced] {
        check_pairs(&seeded_as(form).await, form).await;
    }
    let client = seeded().await;
    let a = id(&client, "slurm:1.0").await;
    let visits: i64 = client
        .query_one("SELECT sum(visits)::bigint FROM internal.mpi_region_totals WHERE job_id = $1", &[&a])
        .await
        .unwrap()
        .get(0);
    assert_eq!(visits, COUNTED.iter().sum::<i64>());
    let ranks = client
        .query(
            "SELECT rank, calls, observed_seconds, wait_seconds, received_bytes FROM public.mpi_rank_totals \
             WHERE job_id = $1 ORDER BY rank",
            &[&a],
        )
        .await
        .unwrap();
    let observed: Vec<f64> = ranks.iter().map(|row| row.get("observed_seconds")).collect();
    assert_eq!(observed, [7300.0, 7300.0, 1000.0 + 5200.0, 4000.0]);
    let calls: Vec<i64> = ranks.iter().map(|row| row.get("calls")).collect();
    assert_eq!(calls, COUNTED.map(|counted| counted * 14));
    // A rank that runs was observed up to its newest row.
    let running: f64 = client
        .query_one(
            "SELECT observed_seconds FROM public.mpi_rank_totals WHERE job_key = 'slurm:1.1' AND rank = 0",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert!((running - 3.0).abs() < 1e-6, "{running}");
}

#[tokio::test]
async fn sums_beyond_a_bigint_stand_at_its_end() {
    let client = seeded().await;
    let row = client
        .query_one(
            "SELECT internal.stored_total(9223372036854775807::numeric * 3), internal.stored_total(NULL), internal.stored_total(7)",
            &[],
        )
        .await
        .unwrap();
    let totals: [Option<i64>; 3] = [row.get(0), row.get(1), row.get(2)];
    assert_eq!(totals, [Some(i64::MAX), None, Some(7)]);
}

#[tokio::test]
async fn a_job_runs_as_long_as_one_rank_of_it_does() {
    let client = seeded().await;
    let rows = client
        .query(
            "SELECT job_key, ranks, nodes, ranks_running, ranks_lost, rank_starts, world_size, \
             extract(epoch FROM end_time)::bigint FROM public.job_summary ORDER BY job_key",
            &[],
        )
        .await
        .unwrap();
    let counts: Vec<[i64; 5]> =
        rows.iter().map(|row| [1, 2, 3, 4, 5].map(|column| row.get(column))).collect();
    assert_eq!(counts, [[4, 2, 0, 2, 5], [2, 2, 1, 0, 2]]);
    assert_eq!(rows[0].get::<_, Option<i64>>(7), Some(START / SECOND + 7300));
    // Its node n2 said that its part ended; a rank on n1 still runs.
    assert_eq!(rows[1].get::<_, Option<i64>>(7), None);
}
