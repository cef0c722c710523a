//! Verdicts on jobs: from what agents and the fabric reported to the answers.

use super::seed::{self, LEAF_1, N2, Run, SECOND, START_MS};
use super::*;
use crate::upkeep::{AfterJudgement, VerdictMemory, judge_jobs};
use serde_json::json;
use throughline_daemon::SelfMetrics;
use throughline_sample::wire::{Batch, MpiOpenCall};

/// Seconds since the seed's start.
fn now() -> i64 {
    throughline_daemon::Clock::new().now() / SECOND - START_MS / 1000
}

async fn judged(database: &Database) {
    let mut client = database.connect().await.unwrap();
    let known = &mut VerdictMemory::default();
    judge_jobs(&mut client, &SelfMetrics::default(), AfterJudgement::default(), known).await.unwrap();
}

fn kinds(verdicts: &Value) -> Vec<&str> {
    verdicts.as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect()
}

fn job(number: u32, path: &str) -> String {
    format!("/jobs/slurm%3A{number}.0%401000{path}")
}

#[tokio::test]
async fn ranks_that_wait_for_one_that_died_are_hung_and_the_end_has_a_report() {
    let database = seed::fabric().await;
    let now = now();
    let run = Run { number: 1, user: "ada", start: now - 300, end: None, hosts: vec!["n2", "n10"] };
    let mut batch = seed::run(&run);
    (batch.job_ranks[3].end, batch.job_ranks[3].ending) = (seed::at(now - 140), "lost".into());
    let barrier = |rank| MpiOpenCall {
        time: seed::at(now),
        epoch: seed::at(run.start),
        job_key: seed::key(1),
        rank,
        operation: "barrier".into(),
        start: seed::at(now - 138),
        is_on_world: true,
        comm_size: Some(4),
        ..MpiOpenCall::default()
    };
    let open = |node: &str, ranks: std::ops::Range<u32>| Batch {
        node: node.into(),
        mpi_open_calls: ranks.map(barrier).collect(),
        ..Batch::default()
    };
    seed::write(&database, 3, vec![batch.clone(), open("n2", 0..2), open("n10", 2..3)]).await;
    let router = api_on(database.clone());
    assert_eq!(get(&router, &job(1, "")).await["verdicts"], json!([]), "not judged yet");
    assert_eq!(get(&router, &job(1, "/verdicts")).await["judged_ms"], Value::Null);
    judged(&database).await;
    let body = get(&router, &job(1, "")).await;
    assert_eq!(kinds(&body["verdicts"]), ["hung"]);
    let verdict = &body["verdicts"][0];
    let said = verdict["observation"].as_str().unwrap();
    assert!(said.starts_with("Ranks 0, 1 and 2 are in MPI_Barrier for 1"), "{said}");
    assert!(said.ends_with("on MPI_COMM_WORLD; rank 3 died (n10) and will not come."), "{said}");
    assert_eq!((&verdict["confidence"], &verdict["is_now"]), (&json!("certain"), &json!(true)));
    assert_eq!(get(&router, "/jobs").await["jobs"][0]["verdict"], "hung");
    let text = get(&router, &job(1, "/report")).await;
    assert_eq!(text["is_final"], false);
    assert!(text["report"].as_str().unwrap().contains("HUNG (certain): Ranks 0, 1 and 2"), "{text}");
    // Judged in this minute: not again, and once more after its end.
    let again = get(&router, &job(1, "/verdicts")).await["judged_ms"].clone();
    for rank in &mut batch.job_ranks {
        rank.end = seed::at(now - 60);
        rank.ending = "lost".into();
    }
    batch.jobs[0].end = seed::at(now - 60);
    seed::write(&database, 4, vec![batch]).await;
    judged(&database).await;
    let after = get(&router, &job(1, "/verdicts")).await;
    assert_eq!(after["is_final"], true);
    assert!(after["judged_ms"].as_i64() >= again.as_i64());
    let text = get(&router, &job(1, "/report")).await;
    assert_eq!(text["is_final"], true);
    let text = text["report"].as_str().unwrap();
    assert!(text.starts_with("Job 1 of ada (./solve), 4 ranks on 2 hosts, ran for 240 s\n"), "{text}");
    assert!(text.contains("Ended without MPI_Finalize: ranks 0, 1, 2 and 3."), "{text}");
    let lines = text.lines().count();
    judged(&database).await;
    assert_eq!(get(&router, &job(1, "/verdicts")).await["judged_ms"], after["judged_ms"], "once is enough");
    assert!(lines <= 12, "{text}");
}

/// Rows of a port in the last windows: what was counted, and parts of it by job and operation.
async fn share(database: &Database, guid: u64, port: i32, counted: i64, parts: &[(u32, i64)]) {
    let client = database.connect().await.unwrap();
    let sql = "
        INSERT INTO internal.link_shares (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind, is_bound,
                                 counted_bytes)
        SELECT w.time, p.id, CASE WHEN $3 = '' THEN 'rest' ELSE 'job' END, j.id, CASE WHEN $3 <> '' THEN 'alltoall' END, NULL,
               $4, $4, $4, 'measured', false, $5
        FROM generate_series(date_bin('10 s', now(), 'epoch') - INTERVAL '5 minutes', now() - INTERVAL '10 s', '10 s') w (time)
        CROSS JOIN (SELECT p.id FROM internal.ib_port_key p JOIN internal.ib_node_key n ON n.id = p.ib_node_id WHERE n.guid = $1 AND p.port = $2) p
        LEFT JOIN internal.run j ON j.key = $3";
    let rest = counted - parts.iter().map(|part| part.1).sum::<i64>();
    let all = parts.iter().map(|(number, bytes)| (seed::key(*number), *bytes)).chain([(String::new(), rest)]);
    for (key, bytes) in all {
        client.execute(sql, &[&seed::guid(guid), &port, &key, &bytes, &counted]).await.unwrap();
    }
}

#[tokio::test]
async fn the_victim_of_a_full_link_names_the_job_that_fills_it_and_that_learns_of_it() {
    let database = seed::fabric().await;
    let now = now();
    let mut batches = Vec::new();
    for number in [1, 2] {
        let run = Run { number, user: "ada", start: now - 300, end: None, hosts: vec!["n2", "n10"] };
        batches.push(seed::run(&run));
        // Two of five minutes in alltoall, on each rank.
        for rank in 0..4 {
            batches.push(seed::operations(
                &run,
                now - 1,
                rank,
                &[("alltoall", 1 << 20, 1000, 1 << 30, 120_000)],
            ));
        }
    }
    seed::write(&database, 3, batches).await;
    // The uplink is full, and 80 % of it are job 2's; the hosts' own ports are nearly idle.
    let full = 250_000_000_000;
    share(&database, LEAF_1, 3, full, &[(1, full / 5), (2, full / 5 * 4)]).await;
    share(&database, N2, 1, full / 10, &[(1, full / 50), (2, full / 20)]).await;
    judged(&database).await;
    let router = api_on(database);
    let victim = get(&router, &job(1, "/verdicts")).await;
    assert_eq!(kinds(&victim["verdicts"]), ["victim"], "{victim:#}");
    let verdict = &victim["verdicts"][0];
    assert_eq!(verdict["subject"], "leaf1[3] → spine[1]");
    let said = verdict["observation"].as_str().unwrap();
    assert!(
        said.contains("this job has 20 % of its bytes, alltoall of job 2 (ada) has 80 % of its bytes"),
        "{said}"
    );
    assert_eq!(verdict["other_job"], seed::key(2));
    let other = get(&router, &job(2, "")).await;
    let mut all = kinds(&other["verdicts"]);
    all.sort_unstable();
    assert_eq!(all, ["aggressor", "link_bound"], "its own bytes hold it up, and the other job");
    let aggressor =
        other["verdicts"].as_array().unwrap().iter().find(|one| one["kind"] == "aggressor").unwrap();
    assert!(aggressor["observation"].as_str().unwrap().contains("holds up job 1 (ada)"), "{aggressor}");
}

#[test]
fn the_contract_lists_every_kind() {
    let listed = &schema::OPENAPI["components"]["schemas"]["VerdictKind"]["enum"];
    let listed: Vec<&str> = listed.as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect();
    assert_eq!(listed, throughline_verdicts::Kind::ALL.map(throughline_verdicts::Kind::name));
}
