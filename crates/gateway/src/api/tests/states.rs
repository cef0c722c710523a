//! The state of a job: one rule, the same in the API, in the view and in the function that dashboards use.

use super::seed::{self, Run, START_MS};
use super::*;
use std::collections::BTreeMap;
use throughline_api::JobState;

/// What happened to a job: its number, when it began and ended (seconds before now), how a rank ended, when a node last
/// reported it (minutes before now), and the state that all surfaces must show.
type Case = (u32, i64, Option<i64>, &'static str, i64, &'static str);

const CASES: [Case; 7] = [
    (1, 600, None, "", 0, "running"),
    // Reported each minute, and without a call of MPI for ten minutes.
    (2, 900, None, "", 0, "running"),
    (3, 600, None, "", 2, "running"),
    (4, 600, None, "", 4, "silent"),
    (5, 600, Some(60), "silent", 20, "silent"),
    (6, 600, Some(60), "lost", 0, "lost"),
    (7, 600, Some(60), "clean", 20, "ended"),
];

#[tokio::test]
async fn every_surface_shows_the_same_state() {
    let database = seed::fabric().await;
    let now = throughline_daemon::Clock::new().now() / seed::SECOND - START_MS / 1000;
    let mut batches = Vec::new();
    for (number, start, end, ending, ..) in CASES {
        let end = end.map(|end| now - end);
        let run = Run { number, user: "ada", start: now - start, end, hosts: vec!["n2", "n10"] };
        let mut batch = seed::run(&run);
        if end.is_some() {
            ending.clone_into(&mut batch.job_ranks[3].ending);
        }
        batches.push(batch);
        if number == 2 {
            batches.push(seed::operations(&run, now - 700, 0, &[("allreduce", 8, 10, 80, 100)]));
        }
    }
    // A job that only a sample came from.
    let run = Run { number: 8, user: "ada", start: now - 100, end: None, hosts: vec!["n2"] };
    batches.push(seed::operations(&run, now - 10, 0, &[("allreduce", 8, 10, 80, 100)]));
    seed::write(&database, 3, batches).await;
    let client = database.connect().await.unwrap();
    for (number, .., minutes, _) in CASES {
        let age = "UPDATE internal.run_claim n SET reported_at = now() - make_interval(mins => $1::integer)
                   FROM internal.run j WHERE j.id = n.job_id AND j.key = $2";
        assert_eq!(client.execute(age, &[&(minutes as i32), &seed::key(number)]).await.unwrap(), 1);
    }
    let expected: BTreeMap<String, String> = CASES
        .iter()
        .map(|case| (seed::key(case.0), case.5.to_owned()))
        .chain([(seed::key(8), "running".to_owned())])
        .collect();
    let shown = |rows: Vec<tokio_postgres::Row>| -> BTreeMap<String, String> {
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let reader = database.connect_reader().await.unwrap();
    let view = reader.query("SELECT job_key, state FROM public.job_summary", &[]).await.unwrap();
    assert_eq!(shown(view), expected);
    let running =
        "SELECT j.key, 'running' FROM public.jobs_running(now()) r (id) JOIN internal.run j USING (id)";
    let mut only_running = expected.clone();
    only_running.retain(|_, state| state == "running");
    assert_eq!(shown(reader.query(running, &[]).await.unwrap()), only_running);

    let router = api_on(database.clone());
    let mut listed = BTreeMap::new();
    for path in ["/jobs", "/jobs?state=ended"] {
        for job in get(&router, path).await["jobs"].as_array().unwrap() {
            let text = |name: &str| job[name].as_str().unwrap().to_owned();
            listed.insert(text("job_key"), text("state"));
        }
    }
    assert_eq!(listed, expected);
    for (key, state) in &expected {
        assert_eq!(get(&router, &format!("/jobs/{key}")).await["job"]["state"], **state, "{key}");
    }
}

#[tokio::test]
async fn jobs_running_knows_the_past() {
    let database = seed::fabric().await;
    let run = |number, start, end| {
        seed::run(&Run { number, user: "ada", start, end: Some(end), hosts: vec!["n2", "n10"] })
    };
    seed::write(&database, 3, vec![run(1, 0, 100), run(2, 50, 200)]).await;
    let reader = database.connect_reader().await.unwrap();
    for (seconds, expected) in [(-1, vec![]), (10, vec![1]), (60, vec![1, 2]), (150, vec![2]), (200, vec![])]
    {
        let sql =
            "SELECT j.native_id::integer FROM public.jobs_running(to_timestamp($1)) r (id) JOIN internal.run j USING (id)
                   ORDER BY 1";
        #[allow(clippy::cast_precision_loss)] // seconds
        let at = (START_MS / 1000 + seconds) as f64;
        let rows = reader.query(sql, &[&at]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), expected, "{seconds}");
    }
}

#[test]
fn the_contract_lists_every_state() {
    let listed = &schema::OPENAPI["components"]["schemas"]["Job"]["properties"]["state"]["enum"];
    let listed: Vec<&str> = listed.as_array().unwrap().iter().map(|state| state.as_str().unwrap()).collect();
    let (mut listed, mut all) = (listed, JobState::ALL.map(JobState::as_str));
    listed.sort_unstable();
    all.sort_unstable();
    assert_eq!(listed, all);
}
