//! Jobs on one node of eight GPUs: each has its own GPUs, links and PCIe in all answers about it.

use super::seed::{self, START_MS, at, values};
use super::*;
use serde_json::json;
use throughline_sample::catalogue::*;
use throughline_sample::wire::*;

/// What the agent of a node with eight GPUs of one link each reads; GPU 7 has a partition.
fn node(second: i64) -> Batch {
    let gpu = |index: u32| GpuInfo {
        uuid: format!("GPU-{index}"),
        index,
        name: "H200".into(),
        source: "nvml".into(),
        link_count: 1,
        nearest_hcas: vec![format!("mlx5_{}", index / 4)],
        ..GpuInfo::default()
    };
    let part =
        GpuInfo { uuid: "MIG-1".into(), index: 1, parent_uuid: "GPU-7".into(), link_count: 0, ..gpu(7) };
    let link = |index: u32| GpuLinkInfo {
        gpu_uuid: format!("GPU-{index}"),
        active: true,
        remote_type: "switch".into(),
        speed_bytes_per_second: Some(25_000_000_000),
        ..GpuLinkInfo::default()
    };
    let counted = second.unsigned_abs() * 1_000;
    let links = |index: u32| GpuLinksSample {
        time: at(second),
        epoch: at(0),
        gpu_uuid: format!("GPU-{index}"),
        source: "nvml".into(),
        links: vec![LinkValues {
            link: 0,
            values: values(&[(&NVLINK_TRANSMIT_BYTES, counted), (&NVLINK_RECEIVE_BYTES, counted)]),
        }],
    };
    let pcie = |index: u32| GpuPcieSample {
        time: at(second),
        epoch: at(0),
        gpu_uuid: format!("GPU-{index}"),
        source: "nvml".into(),
        values: values(&[(&PCIE_TRANSMIT_BYTES, counted), (&PCIE_RECEIVE_BYTES, counted)]),
    };
    let port = |adapter: u64| HostPortSample {
        time: at(second),
        epoch: at(0),
        source: "sysfs".into(),
        device: format!("mlx5_{adapter}"),
        port: 1,
        node_guid: 0xa0 + adapter,
        values: values(&[(&PORT_DATA_TRANSMITTED_BYTES, counted), (&PORT_DATA_RECEIVED_BYTES, counted)]),
        ..HostPortSample::default()
    };
    let round = |source: &str| Coverage { time: at(second), source: source.into(), ..Coverage::default() };
    Batch {
        node: "g1".into(),
        gpus: (0..8).map(gpu).chain([part]).collect(),
        gpu_link_infos: (0..8).map(link).collect(),
        gpu_links: (0..8).map(links).collect(),
        gpu_pcie: (0..8).map(pcie).collect(),
        host_ports: (0..2).map(port).collect(),
        coverage: vec![round("nvml"), round("sysfs")],
        ..Batch::default()
    }
}

/// Jobs 1 to 5 of a rank each: on GPUs 0 and 1, on a partition, on none, on what is not known, and on GPU 1 beside the first.
fn jobs() -> Batch {
    let on = |gpu: u32, partition: &str| RankGpu {
        gpu_uuid: format!("GPU-{gpu}"),
        partition_uuid: partition.into(),
        evidence: "driver".into(),
        minor: Some(gpu),
        first_seen: at(2),
        nearest_distance: "switch".into(),
        ..RankGpu::default()
    };
    let rank = |job: u32, known: &str, gpus: Vec<RankGpu>, ports: &[&str]| JobRank {
        job_key: seed::key(job),
        pid: 100 + job,
        world_size: 1,
        start: at(0),
        host: "g1".into(),
        gpu_evidence: known.into(),
        gpus,
        hca_ports: Some(Names { name: ports.iter().map(|port| (*port).into()).collect() }),
        ..JobRank::default()
    };
    let job = |number: u32| Job {
        key: seed::key(number),
        uid: 1000,
        start: at(0),
        seen: at(30),
        world_size: 1,
        ..Job::default()
    };
    Batch {
        node: "g1".into(),
        jobs: (1..=5).map(job).collect(),
        job_ranks: vec![
            rank(1, "driver", vec![on(0, ""), on(1, "")], &["mlx5_0/1"]),
            rank(2, "driver", vec![on(7, "MIG-1")], &["mlx5_0/1"]),
            rank(3, "driver", vec![], &[]),
            rank(4, "", vec![], &["mlx5_1/1"]),
            rank(5, "driver", vec![on(1, "")], &[]),
        ],
        ..Batch::default()
    }
}

/// A text of each element.
fn texts(list: &Value, of: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one[of].as_str().unwrap_or("-").to_owned()).collect()
}

#[tokio::test]
async fn each_job_has_its_own_gpus_links_and_ports() {
    let database = seed::fabric().await;
    seed::write(&database, 8, (0..=6).map(|round| node(round * 5)).collect()).await;
    seed::write(&database, 9, vec![jobs()]).await;
    let router = api_on(database);
    let of = |job: u32, what: &str| format!("/jobs/{}/{what}", seed::key(job));
    let gpus = async |job: u32| get(&router, &of(job, "gpus")).await;
    let body = gpus(1).await;
    let named = |body: &Value| {
        let all = body["gpus"].as_array().unwrap();
        all.iter()
            .map(|one| {
                json!([
                    one["index"],
                    one["partition_index"],
                    one["evidence"],
                    one["known_by"],
                    one["is_own"],
                    one["is_shared"]
                ])
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        named(&body),
        [json!([0, null, "driver", "driver", true, false]), json!([1, null, "driver", "driver", true, true])],
        "job 5 is on GPU 1, too"
    );
    let first = &body["gpus"][0];
    assert_eq!(
        json!([first["gpu"], first["port"], first["distance"], first["has_queue_pairs"], first["minor"]]),
        json!(["GPU-0", "mlx5_0/1", "switch", true, 0])
    );
    assert_eq!((&first["first_seen_ms"], &first["last_seen_ms"]), (&json!(START_MS + 2_000), &Value::Null));
    let body = gpus(2).await;
    assert_eq!(named(&body), [json!([7, 1, "driver", "driver", true, true])]);
    assert_eq!(json!([body["gpus"][0]["partition"], body["gpus"][0]["port"]]), json!(["MIG-1", "mlx5_1/1"]));
    assert_eq!(body["gpus"][0]["has_queue_pairs"], json!(false), "it sends by the other one");
    assert_eq!(named(&gpus(3).await), [json!([null, null, null, "driver", false, false])], "none");
    assert_eq!(named(&gpus(4).await), [json!([null, null, null, null, false, false])], "unknown");
    let other = get(&router, &of(1, "gpus?host=n1")).await;
    assert_eq!((named(&other).len(), &other["left_out"]), (0, &json!(0)));
    assert_eq!(get(&router, &of(1, "gpus?limit=1")).await["left_out"], json!(1));

    let range = format!("from={START_MS}&to={}&points=6", START_MS + 30_000);
    let lanes =
        async |job: u32| texts(&get(&router, &of(job, &format!("lanes?{range}"))).await["lanes"], "name");
    assert_eq!(
        lanes(1).await,
        [
            "g1 GPU 0 NVLink",
            "g1 GPU 1 NVLink (shared)",
            "g1 mlx5_0 port 1",
            "g1 GPU 0 PCIe",
            "g1 GPU 1 PCIe (shared)"
        ]
    );
    assert_eq!(lanes(2).await, ["g1 GPU 7 NVLink (shared)", "g1 mlx5_0 port 1", "g1 GPU 7 PCIe (shared)"]);
    assert_eq!(lanes(3).await, [""; 0]);
    assert_eq!(lanes(4).await.len(), 8 + 1 + 8, "of what is not known all of the node");
    let links = get(&router, &of(2, &format!("links?{range}&fold=gpu"))).await;
    assert_eq!(texts(&links["links"], "name"), ["g1 GPU 7", "g1 mlx5_0 port 1"]);
    assert_eq!(links["links"][0]["is_shared"], json!(true));
    let peaks = get(&router, &of(2, "link-peaks?seconds=60")).await;
    let mut peaks: Vec<_> = peaks["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {}", one["link"].as_str().unwrap(), one["is_shared"]))
        .collect();
    peaks.dedup();
    peaks.sort();
    peaks.dedup();
    assert_eq!(peaks, ["GPU 7 link 0 true", "mlx5_0 port 1 false"]);
}
