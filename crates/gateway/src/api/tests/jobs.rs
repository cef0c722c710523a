//! Jobs, their matrices and their operations over time.

use super::seed::{self, Run, START_MS};
use super::*;
use serde_json::json;

fn solver() -> Run {
    Run { number: 7, user: "ada", start: 0, end: Some(60), hosts: vec!["n2", "n10"] }
}

/// A job of four ranks on two hosts, with operations and traffic.
async fn seeded() -> (Database, Router) {
    let database = seed::fabric().await;
    let run = solver();
    let batches = vec![
        Default::default(),
        seed::run(&run),
        seed::operations(&run, 10, 0, &[("allreduce", 8, 10, 80, 100), ("send", 64, 5, 300, 50)]),
        seed::operations(&run, 10, 1, &[("allreduce", 8, 10, 80, 200)]),
        seed::operations(&run, 20, 0, &[("allreduce", 8, 30, 240, 400)]),
        seed::operations(&run, 21, 0, &[("allreduce", 1024, 1, 1000, 50)]),
        seed::operations(&run, 50, 0, &[("allreduce", 8, 31, 248, 450)]),
        seed::peers(&run, 10, 0, "logical", &[(1, 100, 1), (2, 50, 2)]),
        seed::peers(&run, 30, 0, "logical", &[(1, 400, 4), (3, 7, 1)]),
        seed::peers(&run, 30, 3, "logical", &[(0, 9, 1)]),
        seed::peers(&run, 30, 0, "wire", &[(2, 4096, 3)]),
    ];
    seed::write(&database, 2, batches).await;
    let router = api_on(database.clone());
    (database, router)
}

#[tokio::test]
async fn a_job_with_its_hosts_operations_and_sums() {
    let (_, router) = seeded().await;
    let body = get(&router, "/jobs/slurm%3A7.0%401000").await;
    let job = &body["job"];
    assert_eq!(
        (&job["state"], &job["user"], &job["nodes"], &job["ranks"]),
        (&json!("ended"), &json!("ada"), &json!(2), &json!(4))
    );
    assert_eq!(
        (&job["start_ms"], &job["end_ms"], &job["duration_seconds"]),
        (&json!(START_MS), &json!(START_MS + 60_000), &json!(60.0))
    );
    assert_eq!((&job["totals"]["calls"], &job["totals"]["bytes"]), (&json!(47), &json!(1628)));
    assert_eq!(job["totals"]["mpi_seconds"], json!(0.45 + 0.05 + 0.2 + 0.05));
    assert_eq!(job["totals"]["observed_seconds"], json!(120.0), "of the two ranks that reported anything");
    let hosts = [("n2", 0, 1), ("n10", 2, 3)]
        .map(|(host, first, last)| json!({"host": host, "ranks": 2, "first_rank": first, "last_rank": last}));
    assert_eq!(body["hosts"], json!(hosts));
    assert_eq!(
        (&body["libraries"], &body["matrices"]),
        (&json!(["Open MPI 4.1.4"]), &json!(["logical", "wire"]))
    );
    let allreduce = &body["operations"][0];
    assert_eq!(
        (&allreduce["operation"], &allreduce["calls"], &allreduce["bytes"]),
        (&json!("allreduce"), &json!(42), &json!(1328))
    );
    let sizes = allreduce["sizes"].as_array().unwrap();
    assert_eq!(sizes.iter().map(|size| &size["calls"]).collect::<Vec<_>>(), [&json!(41), &json!(1)]);
    assert_eq!(allreduce["algorithms"][0]["algorithm"], "ring");
    assert_eq!(body["operations"][1]["time_share"], json!(0.0667));
}

#[tokio::test]
async fn ranks_in_columns() {
    let (_, router) = seeded().await;
    let body = get(&router, "/jobs/slurm:7.0@1000/ranks").await;
    let ranks = &body["ranks"];
    assert_eq!((&body["hosts"], &ranks["host"]), (&json!(["n2", "n10"]), &json!([0, 0, 1, 1])));
    assert_eq!(
        (&ranks["rank"], &ranks["ending"]),
        (&json!([0, 1, 2, 3]), &json!(["clean", "clean", "clean", "clean"]))
    );
    assert_eq!(
        (&ranks["calls"], &ranks["bytes"]),
        (&json!([37, 10, null, null]), &json!([1548, 80, null, null]))
    );
    assert_eq!(
        (&ranks["gpus"], &ranks["cpus"]),
        (&json!([["GPU-a"], null, null, null]), &json!(["0-3", null, null, null]))
    );
    assert_eq!(ranks["ports"][3], json!(["mlx5_0/1"]));
}

#[tokio::test]
async fn matrices_by_rank_by_host_and_of_the_past() {
    let (_, router) = seeded().await;
    let matrix = async |query: &str| get(&router, &format!("/jobs/slurm:7.0@1000/matrix?{query}")).await;
    // 0 to 1, 2 and 3, and 3 to 0.
    let body = matrix("").await;
    assert_eq!(
        (&body["size"], &body["names"], &body["host_of"]),
        (&json!(4), &json!(["n2", "n10"]), &json!([0, 0, 1, 1]))
    );
    assert_eq!(body["cells"], json!({"gap": [2, 1, 1, 9], "value": [400, 50, 7, 9]}));
    assert_eq!((&body["total"], &body["largest"]), (&json!(466), &json!(400)));
    assert_eq!(matrix("measure=messages").await["cells"]["value"], json!([4, 2, 1, 1]));
    let folded = matrix("fold=node").await;
    assert_eq!(
        (&folded["size"], &folded["cells"]),
        (&json!(2), &json!({"gap": [1, 1, 1], "value": [400, 57, 9]}))
    );
    assert_eq!(matrix("kind=wire").await["cells"], json!({"gap": [3], "value": [4096]}));
    let past = matrix(&format!("at={}", START_MS + 20_000)).await;
    assert_eq!(past["cells"], json!({"gap": [2, 1], "value": [100, 50]}));
}

#[tokio::test]
async fn operations_over_time() {
    let (_, router) = seeded().await;
    let query = async |query: &str| get(&router, &format!("/jobs/slurm:7.0@1000/operations?{query}")).await;
    // Of a job from its start to its end, in steps that fit: 61 s in steps of 10 s.
    let body = query("points=10").await;
    assert_eq!((&body["from_ms"], &body["step_seconds"]), (&json!(START_MS), &json!(10.0)));
    assert_eq!(body["times_ms"].as_array().unwrap().len(), 7);
    let series = |body: &Value, place: usize, column: &str| body["series"][place][column].clone();
    assert_eq!(body["series"][0]["operation"], "allreduce");
    // The end of a step belongs to it.
    assert_eq!(series(&body, 0, "calls"), json!([20, 20, 1, 0, 1, 0, 0]));
    assert_eq!(series(&body, 0, "bytes"), json!([160, 160, 1000, 0, 8, 0, 0]));
    assert_eq!(series(&body, 0, "elapsed_seconds"), json!([0.3, 0.3, 0.05, 0.0, 0.05, 0.0, 0.0]));
    assert_eq!(
        (series(&body, 1, "operation"), series(&body, 1, "calls")),
        (json!("send"), json!([5, 0, 0, 0, 0, 0, 0]))
    );
    let ranks = query("points=10&by=rank").await;
    assert_eq!(
        (series(&ranks, 0, "rank"), series(&ranks, 0, "calls")),
        (json!(0), json!([15, 20, 1, 0, 1, 0, 0]))
    );
    assert_eq!(
        (series(&ranks, 1, "rank"), series(&ranks, 1, "calls")),
        (json!(1), json!([10, 0, 0, 0, 0, 0, 0]))
    );
    assert_eq!(series(&query("points=10&rank=1").await, 0, "calls"), json!([10, 0, 0, 0, 0, 0, 0]));
    // What came before the range is no part of it.
    let later = query(&format!("points=10&operation=allreduce&from={}", START_MS + 20_000)).await;
    assert_eq!(
        (&later["step_seconds"], series(&later, 0, "calls")),
        (&json!(5.0), json!([1, 0, 0, 0, 0, 1, 0, 0, 0]))
    );
}

#[tokio::test]
async fn lists_of_live_and_ended_jobs_page_by_page() {
    let (database, router) = seeded().await;
    let now = throughline_daemon::Clock::new().now() / 1_000_000_000 - START_MS / 1000;
    let users = ["bob", "ada", "eve", "bob", "ada"];
    let live = (0..5).map(|n| Run {
        number: 20 + n,
        user: users[n as usize],
        start: now - 100 + i64::from(n),
        end: None,
        hosts: vec!["n2"; 1 + n as usize % 2],
    });
    let ended = (0..5).map(|n| Run {
        number: 10 + n,
        user: users[n as usize],
        start: i64::from(n) * 100,
        end: Some(i64::from(n) * 100 + 60 - i64::from(n)),
        hosts: vec!["n10"],
    });
    let batches = live.chain(ended).map(|run| seed::run(&run));
    seed::write(&database, 3, batches.collect()).await;
    let numbers = |body: &Value| -> Vec<i64> {
        body["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["native_id"].as_str().unwrap().parse().unwrap())
            .collect()
    };
    // All pages of a request, each of two jobs.
    let all = async |query: &str| {
        let (mut found, mut next) = (Vec::new(), String::new());
        loop {
            let body = get(&router, &format!("/jobs?limit=2&{query}{next}")).await;
            assert!(body["jobs"].as_array().unwrap().len() <= 2);
            found.extend(numbers(&body));
            match body["next"].as_str() {
                Some(place) => next = format!("&next={place}"),
                None => return found,
            }
        }
    };
    assert_eq!(all("").await, [24, 23, 22, 21, 20], "live, the newest first");
    assert_eq!(all("sort=user&order=asc").await, [21, 24, 20, 23, 22]);
    assert_eq!(all("sort=nodes&order=asc").await, [20, 21, 22, 23, 24]);
    assert_eq!(all("sort=duration").await, [20, 21, 22, 23, 24]);
    assert_eq!(all("q=NAME23").await, [23]);
    assert_eq!(all("user=ada").await, [24, 21]);
    assert_eq!(all("state=ended").await, [14, 13, 12, 11, 10, 7]);
    assert_eq!(all("state=ended&sort=duration&order=asc").await, [14, 13, 12, 11, 7, 10]);
    assert_eq!(all("state=ended&sort=user").await, [12, 13, 10, 14, 11, 7]);
    assert_eq!(all("state=ended&sort=ranks").await, [7, 14, 13, 12, 11, 10]);
    assert_eq!(all(&format!("state=ended&from={}", START_MS + 260_000)).await, [14, 13]);
    assert_eq!(all("state=ended&q=ada&order=asc").await, [7, 11, 14]);
    let body = get(&router, "/jobs").await;
    assert_eq!(
        (&body["total"], &body["jobs"][0]["state"], &body["jobs"][0]["totals"]),
        (&json!(5), &json!("running"), &json!(null))
    );
    let sums = get(&router, "/jobs?state=ended&totals=true&order=asc&limit=1").await;
    assert_eq!(sums["jobs"][0]["totals"]["calls"], json!(47));
}

#[tokio::test]
async fn what_is_no_job_or_too_much() {
    let (_, router) = seeded().await;
    for (path, said) in [
        ("/jobs/slurm:7", "404 not_found: no job slurm:7; give a whole key"),
        ("/jobs/x/matrix", "404 not_found"),
        (
            "/jobs/slurm:7.0@1000/matrix?kind=real",
            "400 bad_parameter: kind = real; give one of logical, wire",
        ),
        (
            "/jobs/slurm:7.0@1000/operations?points=2001",
            "400 bad_parameter: points = 2001; give a number from 1 to 2000",
        ),
        ("/jobs/slurm:7.0@1000/operations?rank=-1", "400 bad_parameter: rank = -1"),
        (
            "/jobs/slurm:7.0@1000/operations?from=5&to=4",
            "400 bad_parameter: the range from 5 to 4 ends before",
        ),
        (
            "/jobs?totals=true&limit=101",
            "400 bad_parameter: limit = 101 with sums; with totals=true give at most limit=100",
        ),
        ("/jobs?next=zz", "400 bad_parameter: next = zz is no place in this list"),
        ("/jobs?next=%C3%A9", "400 bad_parameter"),
        (
            "/jobs?state=ended&sort=user&next=5b312e302c315d",
            "400 bad_parameter: next is a place in a list of another order",
        ),
    ] {
        let body = refused(&router, path).await;
        assert!(body.starts_with(said), "{path}: {body}");
    }
    // A range of two centuries is no error: it has few, long steps.
    let huge = get(&router, "/jobs/slurm:7.0@1000/operations?from=0&to=7000000000000&points=300").await;
    assert_eq!(huge["times_ms"].as_array().unwrap().len(), 222);
}
