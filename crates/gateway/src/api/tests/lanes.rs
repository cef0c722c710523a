//! What stands on a job's time axis beside its MPI calls.

use super::seed::{self, SPEED, START_MS, SUBNET, at, values};
use super::*;
use serde_json::json;
use throughline_sample::catalogue::{PCIE_RECEIVE_BYTES, PCIE_TRANSMIT_BYTES};
use throughline_sample::wire::{Batch, Coverage, GpuPcieSample, SelfStat};

/// PCIe of both GPUs of n2, and rounds of its agent. The job uses the first GPU.
fn pcie() -> Vec<Batch> {
    let sample = |second: i64, gpu: &str| GpuPcieSample {
        time: at(second),
        epoch: at(0),
        gpu_uuid: gpu.into(),
        source: "nvml".into(),
        values: values(&[
            (&PCIE_TRANSMIT_BYTES, second.unsigned_abs() * 700),
            (&PCIE_RECEIVE_BYTES, second.unsigned_abs() * 300),
        ]),
    };
    let round = |second: i64| Coverage { time: at(second), source: "nvml".into(), ..Coverage::default() };
    let batch = |second: i64| Batch {
        node: "n2".into(),
        gpu_pcie: vec![sample(second, "GPU-a"), sample(second, "GPU-b")],
        coverage: vec![round(second)],
        self_stats: vec![SelfStat {
            time: at(second),
            source: "nvml".into(),
            name: "records".into(),
            value: 1.0,
            ..SelfStat::default()
        }],
        clock_error_nanoseconds: Some(40_000 * (1 + second)),
        ..Batch::default()
    };
    (0..=4).map(|round| batch(round * 5)).collect()
}

#[tokio::test]
async fn lanes_of_the_nodes_of_a_job_with_their_bounds() {
    let (database, router) = nodes::seeded().await;
    seed::write(&database, 9, pcie()).await;
    let range = format!("from={START_MS}&to={}&points=6", START_MS + 30_000);
    let body = get(&router, &format!("/jobs/slurm:7.0@1000/lanes?{range}")).await;
    assert_eq!(
        (&body["step_seconds"], &body["left_out"], &body["window_seconds"]),
        (&json!(5.0), &json!(0), &Value::Null)
    );
    let lanes = body["lanes"].as_array().unwrap();
    let names: Vec<&str> = lanes.iter().map(|lane| lane["name"].as_str().unwrap()).collect();
    let used = ["n2 GPU 0 NVLink", "n2 GPU 1 NVLink", "n2 mlx5_0 port 1", "n2 GPU 0 PCIe", "n2 GPU 1 PCIe"];
    assert_eq!(names, used);
    assert_eq!(
        lanes[0]["series"][0],
        json!({"name": "out", "unit": "bytes_per_second", "values": vec![10_000.0; 6]})
    );
    assert_eq!((&lanes[2]["kind"], &lanes[2]["bytes_per_second"]), (&json!("port"), &json!(SPEED)));
    // What was not read is not 0.
    assert_eq!(lanes[3]["series"][1]["values"], json!([300.0, 300.0, 300.0, 300.0, null, null]));
    let clock =
        &body["clocks"].as_array().unwrap().iter().find(|clock| clock["instance"] == "n2").unwrap().clone();
    assert_eq!(clock["clock_error_seconds"], json!(0.000_84));
    assert_eq!(clock["sources"], json!([{"source": "nvml", "interval_seconds": 5.0}]));
    let pcie = get(&router, &format!("/jobs/slurm:7.0@1000/lanes?{range}&kind=pcie&host=n2")).await;
    assert_eq!(pcie["lanes"].as_array().unwrap().len(), 2);
    let said = refused(&router, "/jobs/slurm:7.0@1000/lanes?host=n3").await;
    assert!(said.starts_with("400 bad_parameter: no rank of slurm:7.0@1000 was seen on n3"), "{said}");
}

#[tokio::test]
async fn lanes_of_links_have_the_jobs_part_by_window() {
    let (_database, router) = link_shares::seeded().await;
    let range = format!("from={START_MS}&to={}&points=30", START_MS + 30_000);
    let body = get(&router, &format!("/jobs/slurm:2.0@1000/link-lanes?{range}")).await;
    assert_eq!((&body["step_seconds"], &body["window_seconds"]), (&json!(1.0), &json!(10.0)));
    assert_eq!(body["window_times_ms"].as_array().unwrap().len(), 3);
    let lane = &body["lanes"][0];
    assert_eq!((&lane["name"], &lane["instance"]), (&json!("leaf1[3] → spine[1]"), &json!(SUBNET)));
    let own = lane["series"].as_array().unwrap().iter().find(|series| series["name"] == "own").unwrap();
    // Half a percent of half the speed, in the second window; none in the first, in which others sent.
    assert_eq!(own["values"], json!([0.0, 0.0025, null]));
    let none = get(
        &router,
        &format!("/jobs/slurm:2.0@1000/link-lanes?from={}&to={}", START_MS + 60_000, START_MS + 90_000),
    )
    .await;
    assert_eq!(none["lanes"], json!([]));
}

#[tokio::test]
async fn what_a_rank_did_step_by_step() {
    let database = seed::fabric().await;
    let run = seed::Run { number: 7, user: "ada", start: 0, end: Some(60), hosts: vec!["n2"] };
    let counted = |second, calls, milliseconds| {
        let cells = [("send", 1024, calls, calls * 1000, milliseconds), ("recv", 1024, 2, 0, 1)];
        seed::operations(&run, second, 1, &cells)
    };
    let batches = vec![seed::run(&run), counted(1, 10, 40), counted(2, 30, 100), counted(50, 31, 5_100)];
    seed::write(&database, 3, batches).await;
    let router = api_on(database);
    let of = |query: &str| format!("/jobs/slurm:7.0@1000/operation-steps?rank=1&{query}");
    let body = get(&router, &of("step_ms=1000")).await;
    assert_eq!(
        (&body["from_ms"], &body["step_ms"], &body["next_ms"]),
        (&json!(START_MS), &json!(1000), &Value::Null)
    );
    let steps = &body["steps"];
    // Rows are cumulative; of an operation that stood still there is a row without calls.
    assert_eq!(steps["operation"], json!(["recv", "send", "recv", "send", "recv", "send"]));
    assert_eq!(steps["calls"], json!([2, 10, 0, 20, 0, 1]));
    assert_eq!(steps["bytes"], json!([0, 10_000, 0, 20_000, 0, 1_000]));
    assert_eq!(steps["time_ms"][5], json!(START_MS + 50_000));
    assert_eq!(steps["wait_seconds"][0], Value::Null);
    // What was before the range is not in it.
    let part = get(&router, &of(&format!("from={}&to={}", START_MS + 1_500, START_MS + 10_000))).await;
    assert_eq!(
        (&part["steps"]["calls"], &part["steps"]["time_ms"]),
        (&json!([0, 20]), &json!([START_MS + 2_000, START_MS + 2_000]))
    );
    // Half an hour is read at a time.
    let long = get(&router, &of(&format!("from={START_MS}&to={}", START_MS + 7_200_000))).await;
    assert_eq!(long["next_ms"], json!(START_MS + 1_800_000));
    for (query, said) in [
        ("step_ms=1", "400 bad_parameter: step_ms = 1"),
        ("rang=1", "400 bad_parameter: there is no parameter rang"),
    ] {
        let refusal = refused(&router, &of(query)).await;
        assert!(refusal.starts_with(said), "{refusal}");
    }
}
