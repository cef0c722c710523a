//! Wait states: from what agents of two nodes reported to the answer.

use super::seed::{self, Run};
use super::*;
use throughline_sample::wire::{Batch, MpiSampledCall, MpiSampledCalls};

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

#[tokio::test]
async fn a_slow_rank_is_what_others_wait_for() {
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
    for second in 11..11 + CALLS as i64 {
        batches.push(sampled("n2", second, [(0, 100), (1, 100)]));
        batches.push(sampled("n10", second, [(2, 100), (3, 1)]));
    }
    seed::write(&database, 3, batches).await;
    let router = api_on(database);
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
    assert_eq!(course["step_ms"], 1000);
    assert_eq!(course["time_ms"].as_array().unwrap().len(), CALLS as usize);
    near(&course["waiting_seconds"][0], 0.297);
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
