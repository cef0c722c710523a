//! The live request: one for all who look, eight jobs at a time, and what is said of nodes that do not answer.

use super::seed::{self, Run, START_MS};
use super::*;
use serde_json::json;
use throughline_sample::wire::Batch;

/// Seconds from the start of the seeds to now.
fn now() -> i64 {
    throughline_daemon::Clock::new().now() / seed::SECOND - START_MS / 1000
}

async fn post(router: &Router, path: &str) -> (u16, Value) {
    let response = router.clone().oneshot(Request::post(path).body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let as_get = if status == 202 { 200 } else { status };
    let wrong = schema::check(path.split('?').next().unwrap(), as_get, &body);
    assert!(wrong.is_empty(), "{path}: {status}: {wrong:#?}\n{body:#}");
    (status, body)
}

/// What each host of a job reports of its own ranks.
fn by_host(run: &Run) -> Vec<Batch> {
    let of_host = |host: &&'static str| {
        let mut batch = Batch { node: (*host).to_owned(), ..seed::run(run) };
        batch.job_ranks.retain(|rank| rank.host == **host);
        batch
    };
    run.hosts.iter().map(of_host).collect()
}

async fn count(database: &Database, condition: &str) -> i64 {
    let client = database.connect().await.unwrap();
    let sql = format!("SELECT count(*) FROM internal.detail_request WHERE reason = 'live' AND {condition}");
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn however_many_look_there_is_one_request_with_all_ranks_of_a_small_job() {
    let database = seed::fabric().await;
    let run = Run { number: 7, user: "ada", start: now() - 300, end: None, hosts: vec!["n2", "n10"] };
    seed::write(&database, 3, by_host(&run)).await;
    let router = api_on(database.clone());
    let job = "/jobs/slurm:7.0@1000";
    // Reading makes none.
    for path in ["/jobs", job, "/jobs/slurm:7.0@1000/waits", "/job-rates"] {
        get(&router, path).await;
    }
    let live = get(&router, &format!("{job}/live")).await;
    assert_eq!(
        (&live["id"], &live["has_ended"], count(&database, "true").await),
        (&Value::Null, &json!(false), 0)
    );

    let (path, router_of) = (format!("{job}/live"), &router);
    let looks = futures::future::join_all((0..20).map(|_| post(router_of, &path))).await;
    let first = looks[0].1["id"].as_i64().unwrap();
    assert!(looks.iter().all(|(status, live)| *status == 202 && live["id"] == first), "{looks:?}");
    let client = database.connect().await.unwrap();
    let all = "SELECT ranks, expires_at::text, (SELECT count(*) FROM internal.detail_request_node) FROM internal.detail_request";
    let rows = client.query(all, &[]).await.unwrap();
    let [row] = rows.as_slice() else { panic!("{} requests", rows.len()) };
    let mut ranks: Vec<i32> = row.get(0);
    ranks.sort_unstable();
    assert_eq!((ranks, row.get::<_, i64>(2)), (vec![0, 1, 2, 3], 2));
    // Who looks on renews it only when it comes to its end.
    post(&router, &path).await;
    let same = client.query_one(all, &[]).await.unwrap();
    assert_eq!(same.get::<_, String>(1), row.get::<_, String>(1));
    client
        .execute("UPDATE internal.detail_request SET expires_at = now() + interval '5 s'", &[])
        .await
        .unwrap();
    tokio::time::sleep(FRESH).await;
    assert_eq!(post(&router, &path).await.1["id"], first);
    let renewed = count(&database, "expires_at > now() + interval '6 s'").await;
    assert_eq!((renewed, count(&database, "true").await), (1, 1));
    // All ranks of one of its nodes; not of a stranger's.
    assert_eq!(post(&router, &format!("{path}?node=n10")).await.0, 202);
    let shown = "SELECT count(*) FROM internal.detail_request_node n JOIN internal.node_key k ON k.id = n.node_id \
                 WHERE n.ranks_until > now() AND k.name = 'n10'";
    assert_eq!(client.query_one(shown, &[]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(post(&router, &format!("{path}?node=nobody")).await.0, 404);
}

#[tokio::test]
async fn the_ninth_job_is_told_so_and_keeps_its_stored_figures() {
    let database = seed::fabric().await;
    let run = |number| Run { number, user: "ada", start: now() - 300, end: None, hosts: vec!["n2"] };
    let mut batches: Vec<Batch> = (1..=9).map(|number| seed::run(&run(number))).collect();
    batches.push(seed::folded(&run(9), now() - 40, now() - 30, &[("send", 8, 5, 40, 50)]));
    seed::write(&database, 3, batches).await;
    let router = api_on(database.clone());
    for number in 1..=8 {
        assert_eq!(post(&router, &format!("/jobs/slurm:{number}.0@1000/live")).await.0, 202);
    }
    let (status, body) = post(&router, "/jobs/slurm:9.0@1000/live").await;
    let error = &body["error"];
    assert_eq!(
        (status, &error["code"], &error["limit"]),
        (429, &json!("over_limit"), &json!("detail.live_jobs_max"))
    );
    assert_eq!(error["message"], "8 other jobs are shown live, the most at a time");
    get(&router, "/jobs/slurm:9.0@1000").await;
    // One of the eight is looked at no more.
    let client = database.connect().await.unwrap();
    let gone = "UPDATE internal.detail_request SET expires_at = now() WHERE job_id = (SELECT id FROM internal.run WHERE key = 'slurm:3.0@1000')";
    client.execute(gone, &[]).await.unwrap();
    assert_eq!(post(&router, "/jobs/slurm:9.0@1000/live").await.0, 202);
    assert_eq!(count(&database, "expires_at > now()").await, 8);
}

#[tokio::test]
async fn nodes_that_do_not_answer_are_named_with_the_time_of_their_newest_figures() {
    let database = seed::fabric().await;
    let start = now() - 300;
    let run = Run { number: 7, user: "ada", start, end: None, hosts: vec!["n2", "n10"] };
    let of_n10 = Run { number: 7, user: "ada", start, end: None, hosts: vec!["n10"] };
    let router = api_on(database.clone());
    let path = "/jobs/slurm:7.0@1000/live";
    // This one's clock is ahead of what the machine takes for the rest of the test.
    let (late, current) = (now() - 100, now() + 60);
    let cells = [("send", 8, 5, 40, 50)];
    let mut batches = by_host(&run);
    batches.push(seed::folded(&of_n10, late - 10, late, &cells));
    seed::write(&database, 3, batches).await;
    let (_, live) = post(&router, path).await;
    assert_eq!(
        (&live["as_of_ms"], &live["nodes"], &live["absent_nodes"]),
        (&Value::Null, &json!(2), &json!(2))
    );
    seed::write(&database, 4, vec![seed::folded(&run, current - 1, current, &cells)]).await;
    tokio::time::sleep(FRESH).await;
    let live = get(&router, path).await;
    let at = |seconds: i64| json!(START_MS + seconds * 1000);
    // What a clock that is ahead has sent is as of now.
    let as_of = live["as_of_ms"].as_i64().unwrap();
    assert!((START_MS + (late + 90) * 1000..=START_MS + now() * 1000).contains(&as_of), "{live}");
    assert_eq!((&live["nodes"], &live["absent_nodes"]), (&json!(2), &json!(1)));
    assert_eq!(live["absent"], json!([{"node": "n10", "time_ms": at(late)}]));
    // Its ranks end, and nothing more is expected of it.
    let end = Run { end: Some(now()), ..run };
    seed::write(&database, 5, by_host(&end).split_off(1)).await;
    tokio::time::sleep(FRESH).await;
    let live = get(&router, path).await;
    assert_eq!((&live["nodes"], &live["absent_nodes"]), (&json!(1), &json!(0)), "{live}");
}
