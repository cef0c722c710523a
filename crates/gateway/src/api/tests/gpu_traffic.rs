//! NVLinks of a job's GPUs beside the messages of its ranks.

use super::seed::{self, Run, START_MS, at};
use super::*;
use serde_json::json;
use throughline_sample::catalogue::{NVLINK_RECEIVE_BYTES, NVLINK_TRANSMIT_BYTES};
use throughline_sample::wire::*;

/// Bytes a second into GPU a and GPU b from second 0 to 60; the third GPU is another job's.
const INTO: [(&str, u64); 3] = [("GPU-a", 3_000), ("GPU-b", 1_000), ("GPU-c", 50_000)];

fn inventory() -> Batch {
    let gpu = |uuid: &str, index| GpuInfo {
        uuid: uuid.into(),
        index,
        name: "H200".into(),
        source: "nvml".into(),
        link_count: 2,
        ..GpuInfo::default()
    };
    let link = |uuid: &str, link: u32, remote: &str| GpuLinkInfo {
        gpu_uuid: uuid.into(),
        link,
        active: true,
        version: Some(4),
        speed_bytes_per_second: Some(25_000),
        remote_type: remote.into(),
        ..GpuLinkInfo::default()
    };
    let mut inventory = seed::hosts();
    for ((uuid, _), index) in INTO.iter().zip(0..) {
        inventory.gpus.push(gpu(uuid, index));
        inventory.gpu_link_infos.extend([link(uuid, 0, "switch"), link(uuid, 1, "cpu")]);
    }
    inventory
}

/// What a CPU sends over the second link is no message between GPUs.
fn reading(second: i64) -> Batch {
    let sample = |(uuid, rate): &(&str, u64)| {
        let values = |link: u32, rate: u64| LinkValues {
            link,
            values: seed::values(&[
                (&NVLINK_TRANSMIT_BYTES, second.unsigned_abs() * 10),
                (&NVLINK_RECEIVE_BYTES, second.unsigned_abs() * rate),
            ]),
        };
        GpuLinksSample {
            time: at(second),
            epoch: at(0),
            gpu_uuid: (*uuid).into(),
            source: "nvml".into(),
            links: vec![values(0, *rate), values(1, 9_999)],
        }
    };
    Batch { node: "n2".into(), gpu_links: INTO.iter().map(sample).collect(), ..Batch::default() }
}

/// Cumulative bytes of operations of the node's ranks to ranks 0 and 1.
fn traffic(run: &Run, since: i64, second: i64, direction: &str, bytes: [u64; 2]) -> Batch {
    let cell = |(peer, bytes): (u32, u64)| MpiPeerCell { peer, bytes, messages: 1 };
    let row = MpiNodeTraffic {
        time: at(second),
        epoch: at(run.start),
        since: at(since),
        job_key: seed::key(run.number),
        operation: if direction == "transmit" { "isend" } else { "get" }.into(),
        kind: "modelled".into(),
        direction: direction.into(),
        source: "pmpi".into(),
        cells: (0..).zip(bytes).map(cell).collect(),
        is_whole: true,
    };
    Batch { node: "n2".into(), mpi_traffic: vec![row], ..Batch::default() }
}

/// A job of two ranks on GPUs a and b, from second 10 to 50.
async fn seeded(ranks: impl FnOnce(&mut [JobRank])) -> Router {
    let run = Run { number: 7, user: "ada", start: 10, end: Some(50), hosts: vec!["n2"] };
    let mut of_run = seed::run(&run);
    let mut other = of_run.job_ranks[0].gpus.clone();
    other.iter_mut().for_each(|gpu| gpu.gpu_uuid = "GPU-b".into());
    of_run.job_ranks[1].gpus = other;
    of_run.job_ranks[1].gpu_evidence = of_run.job_ranks[0].gpu_evidence.clone();
    ranks(&mut of_run.job_ranks);
    let mut batches = vec![Batch::default(), inventory()];
    batches.extend((0..=60).map(reading));
    batches.push(of_run);
    batches.push(traffic(&run, 10, 20, "transmit", [30_000, 50_000]));
    batches.push(traffic(&run, 20, 30, "transmit", [60_000, 60_000]));
    let database = seed::fabric().await;
    seed::write(&database, 2, batches).await;
    api_on(database)
}

#[tokio::test]
async fn of_each_gpu_mpi_explains_no_more_than_was_meant_for_it() {
    let router = seeded(|_| ()).await;
    let body = get(&router, "/jobs/slurm:7.0@1000/gpu-traffic?points=4").await;
    assert_eq!((&body["from_ms"], &body["left_out"]), (&json!(START_MS + 10_000), &json!(0)));
    let hosts = body["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), &hosts[0]["host"], &hosts[0]["gpus"]), (1, &json!("n2"), &json!([0, 1])));
    // To GPU a 60,000 of what it got, to GPU b more than came: that was in the host's memory.
    let totals = &hosts[0]["totals"];
    let number = |name: &str| totals[name].as_f64().unwrap();
    let seconds = number("seconds");
    assert_eq!((seconds, number("mpi_bytes"), &totals["ranks_share_gpus"]), (41.0, 120_000.0, &json!(false)));
    assert!((number("nvlink_bytes") - 4_000.0 * seconds).abs() < 10.0, "{totals}");
    assert!((number("explained_bytes") - 60_000.0 - 1_000.0 * seconds).abs() < 10.0, "{totals}");
    assert!((number("residual_bytes") - (3_000.0 * seconds - 60_000.0)).abs() < 10.0, "{totals}");
    let operations = &hosts[0]["operations"];
    assert_eq!((&operations[0]["operation"], &operations[1]), (&json!("isend"), &Value::Null));
    let values: Vec<f64> =
        operations[0]["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    let sum: f64 = values.iter().sum::<f64>() * body["step_seconds"].as_f64().unwrap();
    assert!((sum - 120_000.0).abs() < 20.0 && values[3] == 0.0, "{values:?}");
}

#[tokio::test]
async fn ranks_on_one_gpu_ranks_without_any_and_unknown_ones_differ() {
    let shared = seeded(|ranks| ranks[1].gpus = ranks[0].gpus.clone()).await;
    let body = get(&shared, "/jobs/slurm:7.0@1000/gpu-traffic?points=4").await;
    assert_eq!(
        (&body["hosts"][0]["gpus"], &body["hosts"][0]["totals"]["ranks_share_gpus"]),
        (&json!([0]), &json!(true))
    );
    let none = seeded(|ranks| ranks[1].gpus.clear()).await;
    let body = get(&none, "/jobs/slurm:7.0@1000/gpu-traffic?points=4").await;
    assert_eq!(
        (&body["hosts"][0]["gpus"], &body["hosts"][0]["totals"]["mpi_bytes"]),
        (&json!([0]), &json!(60_000.0))
    );
    let unknown = seeded(|ranks| {
        ranks[1].gpus.clear();
        ranks[1].gpu_evidence.clear();
    })
    .await;
    let body = get(&unknown, "/jobs/slurm:7.0@1000/gpu-traffic?points=4").await;
    let said = body["hosts"][0]["unknown"].as_str().unwrap();
    assert!(said.contains("not known which GPUs") && body["hosts"][0]["totals"].is_null(), "{said}");
}

#[tokio::test]
async fn what_ranks_read_is_explained_wherever_it_came() {
    let run = Run { number: 7, user: "ada", start: 10, end: Some(50), hosts: vec!["n2"] };
    let (database, mut batches) = (seed::fabric().await, vec![Batch::default(), inventory()]);
    let mut of_run = seed::run(&run);
    of_run.job_ranks.truncate(1);
    batches.extend((0..=60).map(reading));
    batches.extend([of_run, traffic(&run, 10, 20, "receive", [20_000, 0])]);
    seed::write(&database, 2, batches).await;
    let body = get(&api_on(database), "/jobs/slurm:7.0@1000/gpu-traffic?points=1").await;
    let totals = &body["hosts"][0]["totals"];
    assert_eq!((&totals["mpi_bytes"], &totals["explained_bytes"]), (&json!(20_000.0), &json!(20_000.0)));
}
