//! A job that runs for longer than rows are kept: the API has its totals, as if nothing had expired.

use super::seed::{self, Run, START_MS, at};
use super::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_sample::wire::{Batch, MpiNodeTraffic, MpiPeerCell, MpiRankRegions, MpiRegionCell};
use throughline_store::{Retention, apply_retention};

const DAY: i64 = 86_400;

/// All that a job reported in its first hour, and what rank 1 called later on.
fn reports(run: &Run) -> Vec<Batch> {
    let key = seed::key(run.number);
    let regions = MpiRankRegions {
        time: at(1000),
        epoch: at(run.start),
        job_key: key.clone(),
        rank: 0,
        source: "pmpi".into(),
        cells: vec![MpiRegionCell {
            region: "init".into(),
            visits: 14_400,
            elapsed_nanoseconds: 90_000_000_000,
            mpi_calls: 60,
            ..MpiRegionCell::default()
        }],
        ..MpiRankRegions::default()
    };
    let traffic = MpiNodeTraffic {
        time: at(1000),
        epoch: at(run.start),
        since: at(990),
        job_key: key,
        operation: "alltoall".into(),
        kind: "measured".into(),
        direction: "transmit".into(),
        source: "pml".into(),
        cells: vec![MpiPeerCell { peer: 1, bytes: 1_080_000_000_000, messages: 9000 }],
        is_whole: true,
    };
    let batch = Batch {
        node: run.hosts[0].into(),
        mpi_regions: vec![regions],
        mpi_traffic: vec![traffic],
        ..Batch::default()
    };
    vec![
        seed::run(run),
        seed::rank_row(run, 1000, 0, &[("allreduce", 8, 144_000, 80, 100), ("send", 64, 14_400, 300, 50)]),
        seed::rank_row(run, 1000, 1, &[("allreduce", 8, 144_000, 80, 100)]),
        seed::rank_row(run, 6 * DAY, 1, &[("allreduce", 8, 144_001, 81, 101)]),
        seed::peers(run, 1000, 0, "logical", &[(1, 100, 1), (2, 50, 2), (3, 7, 7)]),
        seed::peers(run, 6 * DAY, 0, "logical", &[(1, 200, 2)]),
        batch,
    ]
}

/// Without times, and what depends on how long a rank was seen.
fn totals(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_time =
                |name: &str| ["_ms", "observed", "duration", "share"].iter().any(|part| name.contains(part));
            let fields = fields.iter().filter(|(name, _)| !is_time(name));
            fields.map(|(name, value)| (name.clone(), totals(value))).collect()
        }
        Value::Array(all) => all.iter().map(totals).collect(),
        other => other.clone(),
    }
}

/// What the API answers of a job, and its traffic by operation.
async fn answers(database: &Database, number: u32) -> Vec<Value> {
    let router = api_on(database.clone());
    let mut all = Vec::new();
    for part in ["", "/ranks", "/regions", "/traffic", "/matrix"] {
        all.push(totals(&get(&router, &format!("/jobs/{}{part}", seed::key(number))).await));
    }
    let traffic = "SELECT coalesce(string_agg(operation || ' to ' || peer || ' ' || bytes, ', ' ORDER BY operation, peer), '')
                   FROM internal.mpi_traffic_totals WHERE job_key = $1";
    let client = database.connect().await.unwrap();
    let row = client.query_one(traffic, &[&seed::key(number)]).await.unwrap();
    all.push(Value::String(row.get(0)));
    all
}

/// What has expired so many seconds after the start, where rows are kept for a week.
async fn expire(database: &Database, seconds: i64) {
    let oldest = START_MS / 1000 + seconds - 7 * DAY;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let keep = now - Duration::from_secs(oldest.unsigned_abs());
    let client = database.connect().await.unwrap();
    apply_retention(&client, &Retention::for_all(keep), None).await.unwrap();
    client.batch_execute("CALL internal.expire()").await.unwrap();
}

#[tokio::test]
async fn a_job_of_forty_days_has_its_totals_while_it_runs_and_a_week_after_it_was_lost() {
    let database = seed::fabric().await;
    let live = Run { number: 71, user: "bob", start: 10, end: None, hosts: vec!["n2", "n10"] };
    let lost = Run { number: 7, user: "ada", start: 10, end: Some(40 * DAY), hosts: vec!["n2", "n10"] };
    seed::write(&database, 12, reports(&live)).await;
    seed::write(&database, 13, reports(&lost)).await;
    let client = database.connect().await.unwrap();
    client
        .batch_execute("UPDATE internal.rank_claim SET ending = 'lost' WHERE end_time IS NOT NULL")
        .await
        .unwrap();
    let before = (answers(&database, 71).await, answers(&database, 7).await);
    let text = format!("{:?}", before.0);
    for figure in ["288001", "14400", "1080000000000", "init"] {
        assert!(text.contains(figure), "{figure}: {text}");
    }
    for days in [8, 9, 40, 46] {
        expire(&database, days * DAY).await;
        assert_eq!(answers(&database, 71).await, before.0, "{days}");
        assert_eq!(answers(&database, 7).await, before.1, "{days}");
    }
    let rows = "SELECT count(*) FROM internal.mpi_rank_rows WHERE time < to_timestamp($1::float8)";
    #[allow(clippy::cast_precision_loss)] // seconds
    let oldest = (START_MS / 1000 + 39 * DAY - 3600) as f64;
    assert_eq!(client.query_one(rows, &[&oldest]).await.unwrap().get::<_, i64>(0), 0);
    expire(&database, 48 * DAY).await;
    assert_eq!(answers(&database, 71).await, before.0);
    assert_ne!(answers(&database, 7).await, before.1, "a week after its end");
}
