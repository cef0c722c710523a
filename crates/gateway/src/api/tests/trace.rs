//! Traces and pairs page by page, and what running jobs do now.

use super::seed::{self, Run, START_MS};
use super::*;
use serde_json::json;
use throughline_sample::wire::{
    Batch, MpiClockPoint, MpiOpenCall, MpiRankClock, MpiRankTrace, MpiTraceRecord,
};

fn run() -> Run {
    Run { number: 7, user: "ada", start: 0, end: Some(60), hosts: vec!["n2", "n10"] }
}

/// Two batches of records of rank 1. UTC was adjusted by 3 ms between them.
fn traced() -> Vec<Batch> {
    let record = |start: i64| MpiTraceRecord {
        kind: "send".into(),
        operation: "send".into(),
        start,
        nanoseconds: 500,
        peer: Some(0),
        tag: Some(-1),
        bytes: 64,
        comm: 1,
        sequence: Some(9),
        ..MpiTraceRecord::default()
    };
    let part = |number: u64, offset: i64, starts: &[i64]| Batch {
        node: "n2".into(),
        mpi_traces: vec![MpiRankTrace {
            epoch: seed::at(0),
            job_key: seed::key(7),
            rank: 1,
            utc_offset: seed::at(0) + offset,
            number,
            records: starts.iter().map(|start| record(*start)).collect(),
        }],
        ..Batch::default()
    };
    let clock = MpiRankClock {
        epoch: seed::at(0),
        job_key: seed::key(7),
        rank: 1,
        utc_offset: seed::at(0),
        number: 0,
        points: vec![MpiClockPoint { time: 1_000, offset: -40, uncertainty: 7, round_trip: 14 }],
    };
    let clocks = Batch { node: "n2".into(), mpi_clocks: vec![clock], ..Batch::default() };
    vec![clocks, part(0, 0, &[1_000, 2_000, 3_000]), part(4, 3_000_000, &[4_000, 5_000])]
}

#[tokio::test]
async fn a_trace_page_by_page_to_its_last_record() {
    let database = seed::fabric().await;
    let mut batches = vec![seed::run(&run())];
    batches.extend(traced());
    seed::write(&database, 3, batches).await;
    let router = api_on(database);
    let ranks = get(&router, "/jobs/slurm:7.0@1000/trace").await;
    let rank = &ranks["ranks"][0];
    assert_eq!((&rank["rank"], &rank["records"], &rank["host"]), (&json!(1), &json!(5), &json!("n2")));
    assert_eq!((&rank["first_ns"], &rank["last_ns"]), (&json!(1_000), &json!(5_000)));
    // Number 3 is missing. Nothing reports how many more there are.
    assert_eq!((&rank["calls"], &rank["lost"], &rank["ending"]), (&json!(5), &json!(1), &Value::Null));
    let offset = |name: &str| rank[name].as_i64().unwrap();
    assert_eq!(offset("utc_offset_max_ns") - offset("utc_offset_ns"), 3_000_000);
    assert_eq!(
        rank["comparisons"],
        json!({"number": [0], "clock_ns": [1_000], "offset_ns": [-40], "uncertainty_ns": [7]})
    );
    // All of them, the last ones too: their UTC is later than the smallest offset says.
    let until = (offset("last_ns") + offset("utc_offset_max_ns")) / 1_000_000 + 1;
    let records = format!("/jobs/slurm:7.0@1000/trace/1?epoch_us={}&to={until}&limit=2", START_MS * 1_000);
    let (mut numbers, mut next) = (Vec::new(), String::new());
    loop {
        let page = get(&router, &format!("{records}{next}")).await;
        numbers.extend(page["records"]["number"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()));
        match page["next"].as_i64() {
            Some(after) => next = format!("&next={after}"),
            None => break,
        }
    }
    assert_eq!(numbers, [0, 1, 2, 4, 5]);
    let few = get(&router, &format!("{records}&from_ns=2600&to_ns=3000")).await;
    assert_eq!((&few["records"]["start_ns"], &few["records"]["end_ns"]), (&json!([3_000]), &json!([3_500])));
    assert_eq!((&few["records"]["tag"], &few["records"]["sequence"]), (&json!([-1]), &json!([9])));
    for (path, said) in [
        ("/jobs/slurm:7.0@1000/trace/1", "400 bad_parameter: epoch_us is not given; give `epoch_us`"),
        ("/jobs/slurm:7.0@1000/trace/-1?epoch_us=0", "400 bad_parameter: rank = -1"),
        ("/jobs/slurm:7.0@1000/trace/1?epoch_us=0&limit=20001", "400 bad_parameter: limit = 20001"),
        ("/jobs/slurm:8.0@1000/trace", "404 not_found: no job slurm:8.0@1000"),
    ] {
        let error = refused(&router, path).await;
        assert!(error.starts_with(said), "{path}: {error}");
    }
}

#[tokio::test]
async fn pairs_page_by_page() {
    let database = seed::fabric().await;
    let batches = vec![
        seed::run(&run()),
        seed::peers(&run(), 10, 0, "logical", &[(1, 100, 1), (2, 50, 2)]),
        seed::peers(&run(), 30, 0, "logical", &[(1, 400, 4)]),
        seed::peers(&run(), 30, 3, "logical", &[(0, 9, 1)]),
        seed::peers(&run(), 30, 0, "wire", &[(2, 4096, 3)]),
    ];
    seed::write(&database, 3, batches).await;
    let router = api_on(database);
    let all = get(&router, "/jobs/slurm:7.0@1000/pairs").await;
    assert_eq!(
        (&all["pairs"], &all["next"]),
        (
            &json!({"from": [0, 0, 3], "to": [1, 2, 0], "bytes": [400, 50, 9], "messages": [4, 2, 1]}),
            &Value::Null
        )
    );
    let first = get(&router, "/jobs/slurm:7.0@1000/pairs?limit=2").await;
    assert_eq!(first["pairs"]["to"], json!([1, 2]));
    let next = format!("/jobs/slurm:7.0@1000/pairs?limit=2&next={}", first["next"].as_str().unwrap());
    let second = get(&router, &next).await;
    assert_eq!((&second["pairs"]["from"], &second["next"]), (&json!([3]), &Value::Null));
    let wire = get(&router, "/jobs/slurm:7.0@1000/pairs?kind=wire").await;
    assert_eq!(wire["pairs"]["bytes"], json!([4096]));
}

#[tokio::test]
async fn rates_of_jobs_that_sent_something_lately() {
    let database = seed::fabric().await;
    let now = throughline_daemon::Clock::new().now() / seed::SECOND - START_MS / 1000;
    let live = |number, user| Run { number, user, start: now - 300, end: None, hosts: vec!["n2"] };
    let (busy, quiet) = (live(1, "ada"), live(2, "bob"));
    let batches = vec![
        seed::run(&busy),
        seed::run(&quiet),
        seed::operations(&busy, now - 30, 0, &[("allreduce", 8, 10, 800, 1_000), ("send", 64, 5, 300, 50)]),
        seed::operations(&busy, now - 5, 0, &[("allreduce", 8, 110, 8_800, 6_000), ("send", 64, 5, 300, 50)]),
        seed::operations(&quiet, now - 200, 0, &[("allreduce", 8, 10, 80, 100)]),
    ];
    seed::write(&database, 3, batches).await;
    let router = api_on(database.clone());
    let rates = get(&router, "/job-rates").await;
    let jobs = rates["jobs"].as_array().unwrap();
    assert_eq!(
        (jobs.len(), &jobs[0]["job_key"], &jobs[0]["user"]),
        (1, &json!("slurm:1.0@1000"), &json!("ada"))
    );
    assert_eq!((&jobs[0]["calls_per_second"], &jobs[0]["bytes_per_second"]), (&json!(10.0), &json!(800.0)));
    // Of two ranks.
    assert_eq!((&jobs[0]["mpi_seconds_per_second"], &jobs[0]["mpi_time_share"]), (&json!(0.5), &json!(0.25)));
    assert_eq!(
        (&jobs[0]["top_operation"], &jobs[0]["top_operation_share"]),
        (&json!("allreduce"), &json!(1.0))
    );
    assert_eq!(jobs[0]["open_call"], json!(null));
    // Four seconds of MPI a second: two threads of each of two ranks, which are no share of the ranks' time.
    let threads = seed::operations(
        &busy,
        now - 2,
        0,
        &[("allreduce", 8, 110, 8_800, 41_000), ("send", 64, 5, 300, 50)],
    );
    seed::write(&database, 4, vec![threads]).await;
    let job = &get(&router, "/job-rates").await["jobs"][0];
    assert!(job["mpi_seconds_per_second"].as_f64().unwrap() >= 3.5, "{job}");
    assert_eq!(job["mpi_time_share"], json!(null));
    assert_eq!(get(&router, "/job-rates?user=bob&window=2").await["jobs"], json!([]));
    let error = refused(&router, "/job-rates?window=0").await;
    assert!(error.starts_with("400 bad_parameter: window = 0; give a number from 0.5"), "{error}");
}

/// A job that was in MPI last three minutes ago, and whose ranks have been in calls since then.
#[tokio::test]
async fn calls_that_go_on_are_time_in_mpi() {
    let database = seed::fabric().await;
    let now = throughline_daemon::Clock::new().now() / seed::SECOND - START_MS / 1000;
    let run = Run { number: 1, user: "ada", start: now - 300, end: None, hosts: vec!["n2"] };
    let open = |rank: u32, operation: &str, since: i64, reported: i64| MpiOpenCall {
        time: (START_MS / 1000 + now - reported) * seed::SECOND,
        epoch: (START_MS / 1000 + now - 300) * seed::SECOND,
        job_key: "slurm:1.0@1000".into(),
        rank,
        operation: operation.into(),
        start: (START_MS / 1000 + now - since) * seed::SECOND,
        is_on_world: true,
        comm_size: Some(2),
        ..MpiOpenCall::default()
    };
    let calls = vec![open(0, "barrier", 180, 0), MpiOpenCall { peer: Some(0), ..open(1, "recv", 5, 1) }];
    let mut reported = seed::operations(&run, now - 180, 0, &[("send", 64, 5, 300, 50)]);
    reported.mpi_open_calls = calls;
    seed::write(&database, 3, vec![seed::run(&run), reported]).await;
    let router = api_on(database);

    let rates = get(&router, "/job-rates").await;
    let job = &rates["jobs"][0];
    let share = job["mpi_time_share"].as_f64().unwrap();
    assert!((share - 0.75).abs() < 0.01, "one for 10 s, one for 5 s: {rates}");
    assert_eq!(job["top_operation"], json!("barrier"));
    assert_eq!((&job["open_call"]["operation"], &job["open_call"]["ranks"]), (&json!("barrier"), &json!(1)));
    let seconds = job["open_call"]["longest_seconds"].as_f64().unwrap();
    assert!((180.0..240.0).contains(&seconds), "until now: {seconds}");

    let detail = get(&router, "/jobs/slurm:1.0@1000").await;
    let of = |field: &str| {
        detail["open_calls"].as_array().unwrap().iter().map(|one| one[field].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("operation"), [json!("barrier"), json!("recv")]);
    assert_eq!(of("comm"), [json!("MPI_COMM_WORLD"), json!("MPI_COMM_WORLD")]);
    assert_eq!(of("peers"), [json!([]), json!([0])]);
    // As of the time that is stated: rows of the ranks are of three minutes ago, and no node has reported since.
    let at = detail["job"]["as_of"]["time_ms"].as_i64().unwrap();
    assert!((at - (START_MS + (now - 180) * 1000)).abs() <= 1000, "{detail}");
    let seconds = detail["job"]["totals"]["mpi_seconds"].as_f64().unwrap();
    assert!((0.05..=1.05).contains(&seconds), "{detail}");
    assert_eq!(detail["job"]["totals"]["calls"], json!(5));
    let ranks = get(&router, "/jobs/slurm:1.0@1000/ranks").await;
    assert_eq!(ranks["ranks"]["open_operation"], json!(["barrier", "recv"]));
}
