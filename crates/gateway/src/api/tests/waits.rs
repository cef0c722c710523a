//! Wait states: from what agents of two nodes reported to the answer.

use super::seed::{self, Run};
use super::*;
use std::time::Duration;
use throughline_sample::wire::{
    Batch, MpiClockPoint, MpiRankClock, MpiRankTrace, MpiSampledCall, MpiSampledCalls, MpiTraceRecord,
};

use throughline_store::{Retention, thin_chunks};

const CALLS: u64 = 60;

/// One of each second's calls: ranks of `node` spent so many milliseconds in it.
fn sampled(node: &str, second: i64, ranks: [(u32, u64); 2]) -> Batch {
    let least = ranks.iter().min_by_key(|(_, spent)| *spent).unwrap();
    let call = MpiSampledCall {
        call: second as u64,
        ranks: 2,
        elapsed_nanoseconds: ranks.iter().map(|(_, spent)| spent * 1_000_000).sum(),
        least_nanoseconds: least.1 * 1_000_000,
        least_rank: least.0,
        level: 0,
    };
    let calls = MpiSampledCalls {
        time: seed::at(second),
        job_key: seed::key(7),
        comm_group: -12,
        group_size: 4,
        members: "0-3".into(),
        operation: "allreduce".into(),
        size_class_bytes: 8,
        cell: 1,
        calls: vec![call],
    };
    Batch { node: node.into(), mpi_sampled_calls: vec![calls], ..Batch::default() }
}

/// The calls of ten seconds in one record at the end of these.
fn together(batches: Vec<Batch>) -> Vec<Batch> {
    let mut all: Vec<Batch> = Vec::new();
    for mut batch in batches {
        let one = batch.mpi_sampled_calls.remove(0);
        let second = (one.time - seed::at(0)) / 1_000_000_000;
        let end = seed::at((second + 9) / 10 * 10);
        let known = all.iter_mut().find(|of| of.node == batch.node && of.mpi_sampled_calls[0].time == end);
        match known {
            Some(of) => of.mpi_sampled_calls[0].calls.extend(one.calls),
            None => {
                batch.mpi_sampled_calls.push(MpiSampledCalls { time: end, ..one });
                all.push(batch);
            }
        }
    }
    all
}

#[tokio::test]
async fn a_slow_rank_is_what_others_wait_for() {
    check_slow_rank(1).await;
    check_slow_rank(10).await;
}

/// A job whose rank 3 is slow, with records of so many seconds.
async fn slow_rank(seconds: i64) -> Database {
    let database = seed::fabric().await;
    let run = Run { number: 7, user: "ada", start: 10, end: Some(80), hosts: vec!["n2", "n10"] };
    // Ranks 0 to 2 spend 100 ms in each call, rank 3 spends 1 ms.
    let mut batches = vec![seed::run(&run)];
    for rank in 0..4 {
        let inside = if rank == 3 { CALLS } else { 100 * CALLS };
        let mut batch = seed::operations(&run, 79, rank, &[("allreduce", 8, CALLS, 8 * CALLS, inside)]);
        batch.node = run.hosts[rank as usize / 2].into();
        batch.mpi_ops[0].cells[0].least_nanoseconds = Some(CALLS * 1_000_000);
        batches.push(batch);
    }
    let mut samples = Vec::new();
    for second in 11..11 + CALLS as i64 {
        samples.push(sampled("n2", second, [(0, 100), (1, 100)]));
        samples.push(sampled("n10", second, [(2, 100), (3, 1)]));
    }
    batches.extend(if seconds == 1 { samples } else { together(samples) });
    seed::write(&database, 3, batches).await;
    database
}

#[tokio::test]
async fn of_thinned_hours_there_is_the_same_answer() {
    let database = slow_rank(10).await;
    let router = api_on(database.clone());
    let before = get(&router, "/jobs/slurm%3A7.0%401000/waits").await;
    let mut client = database.connect().await.unwrap();
    let years = Duration::from_secs(100 * 365 * 86_400);
    let retention = Retention::for_all(years).with_rows(Duration::from_secs(7200));
    thin_chunks(&mut client, &retention, Duration::from_secs(600)).await.unwrap();
    let rows = "SELECT count(*), count(DISTINCT time) FROM internal.mpi_sampled_calls";
    let row = client.query_one(rows, &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1)),
        (4, 2),
        "of two nodes the last ten seconds of two minutes"
    );
    let after = get(&router, "/jobs/slurm%3A7.0%401000/waits").await;
    let near = |path: &str, expected: f64| {
        let value = after.pointer(path).and_then(Value::as_f64).unwrap();
        assert!((value - expected).abs() < 1e-6, "{path}: {value}, expected {expected}: {after}");
    };
    let paths = [
        "/total/elapsed_seconds",
        "/total/waiting/seconds",
        "/ranks/0/waiting/seconds",
        "/ranks/3/waiting/seconds",
    ];
    for path in paths.into_iter().chain(["/last_arrivals/0/share", "/last_arrivals/0/waited_seconds"]) {
        near(path, before.pointer(path).and_then(Value::as_f64).unwrap());
    }
    // Ten calls that stand for a minute.
    near("/course/waiting_seconds/0", 0.297 * 60.0);
}

/// With records of so many seconds.
async fn check_slow_rank(seconds: i64) {
    let router = api_on(slow_rank(seconds).await);
    let waits = get(&router, "/jobs/slurm%3A7.0%401000/waits").await;
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 1e-6, "{value}, expected {expected}: {waits}");
    };
    let all = 3.0 * 0.099 * CALLS as f64;
    near(&waits["total"]["elapsed_seconds"], 0.301 * CALLS as f64);
    near(&waits["total"]["waiting"]["seconds"], all);
    near(&waits["operations"][0]["at_collective"]["low"], all);
    near(&waits["ranks"][0]["waiting"]["seconds"], all / 3.0);
    near(&waits["ranks"][3]["waiting"]["seconds"], 0.0);
    assert_eq!(waits["operations"][0]["members"], Value::Null);
    assert_eq!(
        (&waits["communicators"][0]["members"], &waits["communicators"][0]["group_size"]),
        (&"0-3".into(), &4.into())
    );
    let last = &waits["last_arrivals"][0];
    assert_eq!(
        (&last["rank"], &last["operation"], &last["members"]),
        (&3.into(), &"allreduce".into(), &"0-3".into())
    );
    near(&last["share"], 1.0);
    near(&last["waited_seconds"], all);
    let course = &waits["course"];
    assert_eq!(course["step_ms"], 1000 * seconds);
    assert_eq!(course["time_ms"].as_array().unwrap().len(), CALLS as usize / seconds as usize);
    near(&course["waiting_seconds"][0], 0.297 * seconds as f64);
}

#[tokio::test]
async fn a_job_without_calls_has_no_waits() {
    let database = seed::fabric().await;
    let run = Run { number: 7, user: "ada", start: 10, end: None, hosts: vec!["n2"] };
    seed::write(&database, 3, vec![seed::run(&run)]).await;
    let router = api_on(database);
    let waits = get(&router, "/jobs/slurm%3A7.0%401000/waits").await;
    assert_eq!(waits["total"]["calls"], 0);
    assert_eq!(
        (&waits["operations"], &waits["course"]["time_ms"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
}

/// A barrier of four ranks on two nodes, whose clocks are half a second apart: rank 3 comes 2 s after the others.
fn traced(run: &Run, lost: u64) -> Vec<Batch> {
    const SECOND: i64 = 1_000_000_000;
    let one = |rank: u32| {
        let node = run.hosts[rank as usize / 2];
        let behind = if node == "n10" { SECOND / 2 } else { 0 };
        let begin = if rank == 3 { 3 * SECOND } else { SECOND } - behind;
        let end = 3 * SECOND + 1_000_000 - behind;
        let barrier = MpiTraceRecord {
            kind: "call".into(),
            operation: "barrier".into(),
            start: begin,
            nanoseconds: (end - begin) as u64,
            comm: 1,
            ..MpiTraceRecord::default()
        };
        let ended =
            MpiTraceRecord { kind: "end".into(), start: end, bytes: 2 + lost, ..MpiTraceRecord::default() };
        let trace = MpiRankTrace {
            epoch: seed::at(run.start),
            job_key: seed::key(7),
            rank,
            utc_offset: seed::at(run.start),
            number: 0,
            records: vec![barrier],
        };
        let end = MpiRankTrace { number: 1 + lost, records: vec![ended], ..trace.clone() };
        let clock = MpiRankClock {
            epoch: seed::at(run.start),
            job_key: seed::key(7),
            rank,
            utc_offset: seed::at(run.start),
            number: 0,
            points: vec![MpiClockPoint {
                time: SECOND,
                offset: behind,
                uncertainty: 1_000,
                round_trip: 2_000,
            }],
        };
        let mpi_clocks = if rank < 2 { Vec::new() } else { vec![clock] };
        Batch { node: node.into(), mpi_traces: vec![trace, end], mpi_clocks, ..Batch::default() }
    };
    (0..4).map(one).collect()
}

#[tokio::test]
async fn a_job_with_a_whole_trace_has_exact_waits() {
    for (lost, basis) in [(0, "exact"), (5, "estimated")] {
        let database = seed::fabric().await;
        let run = Run { number: 7, user: "ada", start: 10, end: Some(80), hosts: vec!["n2", "n10"] };
        let mut batches = vec![seed::run(&run)];
        batches.extend(traced(&run, lost));
        seed::write(&database, 3, batches).await;
        let router = api_on(database);
        let waits = get(&router, "/jobs/slurm%3A7.0%401000/waits").await;
        assert_eq!(waits["basis"], basis, "{waits}");
        if lost > 0 {
            let why = waits["trace_unused"].as_str().unwrap();
            assert_eq!(why, "20 of its records were lost");
            assert_eq!((&waits["clock_error_seconds"], &waits["total"]["calls"]), (&Value::Null, &0.into()));
            continue;
        }
        assert_eq!(waits["trace_unused"], Value::Null);
        let waited = |part: &str| waits["total"]["at_collective"][part].as_f64().unwrap();
        assert!((waited("seconds") - 6.0).abs() < 1e-6, "{waits}");
        // Clocks on one node are one; those of the other's two ranks are known to a microsecond, and what they drifted in two seconds.
        assert!(waited("low") < 6.0 && waited("low") > 5.98, "{waits}");
        assert_eq!(waits["communicators"][0]["members"], "0-3");
        let last = &waits["last_arrivals"][0];
        assert_eq!((&last["rank"], &last["share"]), (&3.into(), &serde_json::json!(1.0)));
        let error = waits["clock_error_seconds"].as_f64().unwrap();
        assert!((1e-6..1e-5).contains(&error), "{error}");
    }
}
