//! Names of jobs, parts of a job, and the page of what arrives.

use super::seed::{self, Run, START_MS};
use super::*;
use serde_json::json;
use throughline_store::testing;

async fn seeded() -> Router {
    api_on(database().await)
}

async fn database() -> Database {
    let database = seed::fabric().await;
    let run = Run { number: 7, user: "ada", start: 0, end: Some(60), hosts: vec!["n2", "n10"] };
    let live = Run { number: 71, user: "bob", start: 10, end: None, hosts: vec!["n2"] };
    let batches = vec![
        Default::default(),
        seed::run(&run),
        seed::run(&live),
        seed::operations(&run, 10, 0, &[("allreduce", 8, 10, 80, 100), ("send", 64, 5, 300, 50)]),
        seed::peers(&run, 10, 0, "logical", &[(1, 100, 1), (2, 50, 2)]),
        seed::peers(&run, 30, 3, "logical", &[(0, 9, 1)]),
    ];
    seed::write(&database, 2, batches).await;
    database
}

#[tokio::test]
async fn names_lead_to_one_job_or_say_which_there_are() {
    let router = seeded().await;
    let name = async |name: &str| get(&router, &format!("/job-names/{name}")).await["job_key"].clone();
    assert_eq!(name("7").await, "slurm:7.0@1000");
    assert_eq!(name("last").await, "slurm:71.0@1000");
    assert_eq!(name("last-1?uid=1000").await, "slurm:7.0@1000");
    for (path, said) in [
        ("slurm", "409 ambiguous: slurm fits 2 jobs: slurm:71.0@1000 (user bob, by its "),
        ("slurm:72", "404 not_found: no job slurm:72; the nearest: slurm:7"),
        ("zzz", "404 not_found: no job zzz; `throughline job list` shows those that there are"),
        ("last-2", "404 not_found: there are not as many jobs: last-2"),
        ("last?uid=5", "404 not_found: no job of yours yet (user 5); run an MPI program"),
        ("last?uid=ada", "400 bad_parameter: uid = ada"),
        ("zz%E2%80%AEz", "404 not_found: no job zz\u{fffd}z"),
    ] {
        let error = refused(&router, &format!("/job-names/{path}")).await;
        assert!(error.starts_with(said), "{path}: {error}");
    }
}

#[tokio::test]
async fn lists_of_all_jobs_and_of_one_scheduler() {
    let router = seeded().await;
    let keys = async |query: &str| -> Vec<Value> {
        let list = get(&router, &format!("/jobs?{query}")).await;
        list["jobs"].as_array().unwrap().iter().map(|job| job["job_key"].clone()).collect()
    };
    assert_eq!(keys("state=all").await, ["slurm:71.0@1000", "slurm:7.0@1000"]);
    assert_eq!(keys("state=all&user=ada").await, ["slurm:7.0@1000"]);
    // A job that runs, runs at any later time; one that ended does not.
    assert_eq!(keys(&format!("state=all&from={}", START_MS + 61_000)).await, ["slurm:71.0@1000"]);
    for state in ["all", "live", "ended"] {
        assert_eq!(keys(&format!("state={state}&scheduler=pbs")).await, [] as [Value; 0], "{state}");
    }
    let first = get(&router, "/jobs?state=all&limit=1&totals=true").await;
    let next = format!("/jobs?state=all&limit=1&totals=true&next={}", first["next"].as_str().unwrap());
    let second = get(&router, &next).await;
    assert_eq!((&second["jobs"][0]["totals"]["calls"], &second["next"]), (&json!(15), &Value::Null));
    let error = refused(&router, "/jobs?state=all&sort=end").await;
    assert!(error.starts_with("400 bad_parameter: a job that runs has no end"), "{error}");
}

#[tokio::test]
async fn endings_regions_traffic_and_links_of_a_job() {
    let router = seeded().await;
    let detail = get(&router, "/jobs/slurm:7.0@1000").await;
    assert_eq!(detail["endings"], json!([{"ending": "clean", "ranks": 4, "examples": [0, 1, 2, 3]}]));
    assert_eq!(
        detail["hosts"],
        json!([{"host": "n2", "ranks": 2, "first_rank": 0, "last_rank": 1},
               {"host": "n10", "ranks": 2, "first_rank": 2, "last_rank": 3}])
    );
    assert_eq!(detail["operations"][0]["sizes"][0]["algorithms"], json!(["ring"]));
    let traffic = get(&router, "/jobs/slurm:7.0@1000/traffic").await;
    let logical = &traffic["traffic"][0];
    assert_eq!(
        (&logical["bytes"], &logical["messages"], &logical["pairs"]),
        (&json!(159), &json!(4), &json!(3))
    );
    assert_eq!(logical["between_nodes_bytes"], 59);
    assert_eq!(
        logical["busiest"][0],
        json!({"from": 0, "to": 1, "bytes": 100, "messages": 1, "same_node": true})
    );
    assert_eq!(get(&router, "/jobs/slurm:7.0@1000/regions").await["regions"], json!([]));
    let links = get(&router, "/jobs/slurm:7.0@1000/link-peaks?seconds=60").await;
    assert_eq!(links["job_key"], "slurm:7.0@1000");
    assert!(links["links"].is_array(), "{links}");
    // The connection is as it was: another request gets its answer.
    assert_eq!(get(&router, "/jobs/slurm:7.0@1000/link-peaks").await, links);
    let error = refused(&router, "/jobs/slurm:8.0@1000/traffic").await;
    assert!(error.starts_with("404 not_found: no job slurm:8.0@1000"), "{error}");
}

#[tokio::test]
async fn behind_a_pooler_answers_are_the_same() {
    let database = database().await;
    let (router, pooled) = (api_on(database.clone()), api_on(testing::behind_pooler(&database)));
    let job = "/jobs/slurm:7.0@1000";
    let parts = ["", "/traffic", "/link-peaks?seconds=60", "/link-peaks?seconds=60", "/ranks", "/regions"];
    for part in parts {
        let path = format!("{job}{part}");
        assert_eq!(get(&pooled, &path).await, get(&router, &path).await, "{path}");
    }
    let error = refused(&pooled, "/jobs/slurm:8.0@1000/traffic").await;
    assert!(error.starts_with("404 not_found"), "{error}");
    assert!(get(&pooled, "/status").await["jobs"].is_array());
}

#[tokio::test]
async fn the_status_lists_running_jobs_first() {
    let router = seeded().await;
    let status = get(&router, "/status").await;
    let keys: Vec<&Value> =
        status["jobs"].as_array().unwrap().iter().map(|job| &job["job"]["job_key"]).collect();
    assert_eq!(keys, ["slurm:71.0@1000", "slurm:7.0@1000"]);
    let ended = &status["jobs"][1];
    assert_eq!(
        (&ended["operations"][0]["operation"], &ended["job"]["totals"]["calls"]),
        (&json!("allreduce"), &json!(15))
    );
    assert!(status["database"].as_str().is_some_and(|place| !place.is_empty()), "{status}");
    assert_eq!(get(&router, "/status?jobs=1").await["jobs"].as_array().unwrap().len(), 1);
}
