//! Where the time of a job's ranks went, over its run and by region.

use super::seed::{self, Run, START_MS};
use super::{api_on, get, refused};
use serde_json::json;
use throughline_sample::wire::{Batch, MpiAccountSums, MpiNodeAccount, MpiRankScheduling};

const JOB: &str = "/jobs/slurm:7.0@1000";

/// A job of two ranks on a node that have spent so many tenths of their first fifty seconds in MPI, and all of the rest.
fn batches() -> Vec<Batch> {
    let run = Run { number: 7, user: "ada", start: 0, end: Some(100), hosts: vec!["n2"] };
    let mut batches = vec![seed::run(&run)];
    let in_mpi = |second: u64| if second <= 50 { second } else { 50 + 10 * (second - 50) };
    for ten in 1..=10_i64 {
        let second = 10 * ten.unsigned_abs();
        let mut row = seed::folded(&run, 10 * (ten - 1), 10 * ten, &[("isend", 8, second, second, second)]);
        if let Some(sums) = row.mpi_node_cells[0].cells[0].sums.as_mut() {
            sums.region = if ten > 5 { "solve" } else { "" }.into();
        }
        // Each has what grew alone.
        row.mpi_node_cells[0].is_whole = false;
        let grown = MpiAccountSums {
            elapsed_nanoseconds: 2_000_000_000 * second,
            mpi_nanoseconds: 200_000_000 * in_mpi(second),
            ..MpiAccountSums::default()
        };
        row.mpi_node_cells[0].account =
            Some(MpiNodeAccount { grown: Some(grown), ..MpiNodeAccount::default() });
        batches.push(row);
    }
    let reading = |rank| MpiRankScheduling {
        time: seed::at(100),
        epoch: seed::at(0),
        job_key: seed::key(7),
        rank,
        cpu_nanoseconds: Some(1),
        elapsed_nanoseconds: Some(100_000_000_000),
        mpi_nanoseconds: Some(55_000_000_000),
        off_outside_nanoseconds: Some(0),
        queued_outside_nanoseconds: Some(0),
        off_inside_nanoseconds: Some(0),
        queued_inside_nanoseconds: Some(0),
        ..MpiRankScheduling::default()
    };
    batches.push(Batch {
        node: "n2".into(),
        mpi_scheduling: (0..2).map(reading).collect(),
        ..Batch::default()
    });
    batches
}

#[tokio::test]
async fn a_job_has_its_account_and_its_course() {
    let database = seed::fabric().await;
    seed::write(&database, 3, batches()).await;
    let router = api_on(database);
    let steps = get(&router, &format!("{JOB}/account-steps?from={START_MS}&to={}", START_MS + 100_000)).await;
    assert_eq!(
        (&steps["step_ms"], &steps["node"], &steps["from_ms"]),
        (&json!(10_000), &json!(null), &json!(START_MS))
    );
    assert_eq!(steps["elapsed_seconds"], json!(vec![20.0; 10]));
    let lines = steps["lines"].as_array().unwrap();
    let names: Vec<(&str, &str)> =
        lines.iter().map(|line| (line["line"].as_str().unwrap(), line["group"].as_str().unwrap())).collect();
    assert_eq!(names, [("computing", "computing"), ("in_mpi", "in_mpi")]);
    assert_eq!(lines[1]["seconds"], json!([2.0, 2.0, 2.0, 2.0, 2.0, 20.0, 20.0, 20.0, 20.0, 20.0]));
    let coarse = get(
        &router,
        &format!("{JOB}/account-steps?step_ms=50000&node=n2&from={START_MS}&to={}", START_MS + 100_000),
    )
    .await;
    assert_eq!((&coarse["node"], &coarse["lines"][1]["seconds"]), (&json!("n2"), &json!([10.0, 100.0])));
    let finer = refused(&router, &format!("{JOB}/account-steps?step_ms=1000")).await;
    assert!(finer.starts_with("400 bad_parameter"), "{finer}");
    let account = get(&router, &format!("{JOB}/account")).await;
    assert_eq!((&account["as_of"], &account["elapsed_seconds"]), (&json!(null), &json!(200.0)));
    assert_eq!(account["lines"][0]["group"], "computing");
    let trend = &account["trends"][0];
    assert_eq!(
        (&trend["line"], &trend["trend"], &trend["time_ms"]),
        (&json!("in_mpi"), &json!("grows"), &json!(START_MS + 50_000))
    );
    let regions = account["regions"].as_array().unwrap();
    assert_eq!(regions.iter().map(|one| &one["region"]).collect::<Vec<_>>(), ["solve", ""]);
    assert_eq!(regions[0]["mpi_seconds"], regions[0]["starting_seconds"], "all of it only began something");
}
