//! Jobs whose ranks are folded on their nodes: courses and rates are the nodes' sums, totals are the ranks' own.

use super::seed::{self, Run, START_MS};
use super::{api_on, get};
use serde_json::json;

#[tokio::test]
async fn a_course_is_the_nodes_and_totals_are_the_ranks() {
    let database = seed::fabric().await;
    let run = Run { number: 7, user: "ada", start: 0, end: Some(61), hosts: vec!["n2"] };
    let mut batches = vec![seed::run(&run)];
    for step in 1..=6 {
        let calls = 20 * u64::try_from(step).unwrap();
        let cells = [("allreduce", 8, calls, 8 * calls, 10 * calls)];
        batches.push(seed::folded(&run, 10 * (step - 1), 10 * step, &cells));
    }
    // The end, with what no interval has had.
    batches.push(seed::folded(&run, 60, 61, &[("allreduce", 8, 123, 984, 1230), ("send", 64, 5, 300, 50)]));
    for (rank, calls) in [(0, 70), (1, 53)] {
        batches.push(seed::rank_row(&run, 10, rank, &[("allreduce", 8, 10, 80, 100)]));
        let all = [("allreduce", 8, calls, 8 * calls, 10 * calls), ("send", 64, 5, 300, 50)];
        batches.push(seed::rank_row(&run, 61, rank, &all[..2 - rank as usize]));
    }
    seed::write(&database, 3, batches).await;
    let router = api_on(database);
    let job = "/jobs/slurm:7.0@1000";
    let course = get(&router, &format!("{job}/operations?points=10")).await;
    assert_eq!(course["series"][0]["calls"], json!([20, 20, 20, 20, 20, 20, 3]));
    assert_eq!(course["series"][1]["calls"], json!([0, 0, 0, 0, 0, 0, 5]));
    let later = get(&router, &format!("{job}/operations?points=10&from={}", START_MS + 40_000)).await;
    let calls = later["series"][0]["calls"].as_array().unwrap().iter().filter_map(|calls| calls.as_i64());
    assert_eq!(calls.sum::<i64>(), 43);
    let ranks = get(&router, &format!("{job}/operations?points=10&by=rank")).await;
    // A rank has rows at 10 and 61 s: no step is shorter than a minute.
    assert_eq!((&ranks["step_seconds"], &ranks["series"][1]["calls"]), (&json!(60.0), &json!([10, 43])));
    let seconds = ranks["series"][1]["elapsed_seconds"].as_array().unwrap();
    let seconds: f64 = seconds.iter().filter_map(serde_json::Value::as_f64).sum();
    assert!((seconds - 0.53).abs() < 1e-4, "{seconds}");
    // A part of that time has the step that it is in.
    let range = format!("from={}&to={}", START_MS + 30_000, START_MS + 40_000);
    let part = get(&router, &format!("{job}/operations?points=10&by=rank&rank=1&{range}")).await;
    assert_eq!(part["series"][0]["calls"], json!([43]));
    let totals = get(&router, &format!("{job}/ranks")).await;
    assert_eq!(totals["ranks"]["calls"], json!([75, 53]));
    let steps = get(&router, &format!("{job}/operation-steps?rank=0&step_ms=100000")).await;
    assert_eq!(steps["steps"]["calls"], json!([70, 5]), "{steps}");
    let after =
        get(&router, &format!("{job}/operation-steps?rank=0&step_ms=10000&from={}", START_MS + 10_000)).await;
    assert_eq!(after["steps"]["calls"], json!([60, 5]), "what came before is no part of it: {after}");
}

#[tokio::test]
async fn rates_of_folded_jobs_are_over_whole_intervals() {
    let database = seed::fabric().await;
    let now = throughline_daemon::Clock::new().now() / seed::SECOND - START_MS / 1000;
    let run = Run { number: 1, user: "ada", start: now - 300, end: None, hosts: vec!["n2"] };
    let mut batches = vec![seed::run(&run)];
    for (ago, calls) in [(25, 10_u64), (15, 110), (5, 210)] {
        let cells = [("allreduce", 8, calls, 80 * calls, 50 * calls)];
        batches.push(seed::folded(&run, now - ago - 10, now - ago, &cells));
    }
    // A row of a rank is no rate.
    batches.push(seed::rank_row(&run, now - 4, 0, &[("allreduce", 8, 9000, 9000, 9000)]));
    seed::write(&database, 3, batches).await;
    let router = api_on(database);
    for window in ["", "?window=2", "?window=20"] {
        let rates = get(&router, &format!("/job-rates{window}")).await;
        let job = &rates["jobs"][0];
        assert_eq!(
            (&job["calls_per_second"], &job["bytes_per_second"]),
            (&json!(10.0), &json!(800.0)),
            "{window}"
        );
        assert_eq!(
            (&job["mpi_seconds_per_second"], &job["top_operation"]),
            (&json!(0.5), &json!("allreduce"))
        );
    }
    let status = get(&router, "/status").await;
    let sources = status["sources"].as_array().unwrap();
    assert!(sources.iter().any(|source| source["source"] == "mpi" && source["instance"] == "n2"), "{status}");
}
