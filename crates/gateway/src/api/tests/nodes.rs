//! Hosts, their links, and rates over time.

use super::seed::{self, LEAF_1, N2, Port, Run, START_MS, SUBNET};
use super::*;
use serde_json::json;
use throughline_sample::catalogue::*;
use throughline_sample::wire::*;

/// `n2` with two GPUs: two links between them, one to a switch, one to a GPU of `n10`, one that is down. From START on
/// GPU a's link i sends (i + 1) kB/s, is read each 5 s, and its port sends 1 MB/s.
pub async fn seeded() -> (Database, Router) {
    let database = seed::fabric().await;
    let gpu = |uuid: &str, index| GpuInfo {
        uuid: uuid.into(),
        index,
        name: "H200".into(),
        pci_bus_id: format!("0000:0{index}:00.0"),
        source: "nvml".into(),
        link_count: 5,
        numa_node: Some(index),
        nearest_hcas: vec!["mlx5_0".into()],
        fabric_cluster_uuid: "5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e".into(),
        fabric_clique_id: Some(7),
        fabric_state: "completed".into(),
        ..GpuInfo::default()
    };
    let link = |gpu: &str, link, kind: &str, remote: &str| GpuLinkInfo {
        gpu_uuid: gpu.into(),
        link,
        active: kind != "unknown",
        version: Some(4),
        speed_bytes_per_second: Some(25_000),
        remote_type: kind.into(),
        remote_pci_bus_id: if kind == "switch" { remote.into() } else { String::new() },
        remote_gpu_uuid: if kind == "gpu" { remote.into() } else { String::new() },
        remote_link: (kind == "gpu").then_some(link),
    };
    let mut links = vec![link("GPU-a", 4, "unknown", "")];
    for (number, kind, remote) in
        [(0, "gpu", "GPU-b"), (1, "gpu", "GPU-b"), (2, "switch", "0000:c0:00.0"), (3, "gpu", "GPU-x")]
    {
        links.push(link("GPU-a", number, kind, remote));
    }
    links.extend([0, 1].map(|number| link("GPU-b", number, "gpu", "GPU-a")));
    let elsewhere =
        Batch { node: "n10".into(), gpus: vec![gpu("GPU-x", 0)], coverage: vec![], ..Batch::default() };
    let mut elsewhere = elsewhere;
    elsewhere.coverage = seed::hosts().coverage;
    let mut inventory = seed::hosts();
    inventory.gpus = vec![gpu("GPU-a", 0), gpu("GPU-b", 1)];
    inventory.gpu_link_infos = links;
    let reading = |seconds: i64| {
        let sent = |number: u32| LinkValues {
            link: number,
            values: seed::values(&[
                (&NVLINK_TRANSMIT_BYTES, seconds as u64 * (u64::from(number) + 1) * 1000),
                (&NVLINK_RECEIVE_BYTES, 7),
            ]),
        };
        let sample = |uuid: &str, links: Vec<u32>, source: &str| GpuLinksSample {
            time: seed::at(seconds),
            epoch: seed::at(-9),
            gpu_uuid: uuid.into(),
            source: source.into(),
            links: links.into_iter().map(sent).collect(),
        };
        Batch {
            node: "n2".into(),
            gpu_links: vec![
                sample("GPU-a", vec![0, 1, 2, 3], "nvml"),
                sample("GPU-a", vec![0], "dcgm"),
                sample("GPU-b", vec![0], "nvml"),
            ],
            host_ports: vec![HostPortSample {
                time: seed::at(seconds),
                epoch: seed::at(-9),
                device: "mlx5_0".into(),
                port: 1,
                node_guid: N2,
                port_guid: 0,
                source: "sysfs".into(),
                values: seed::values(&[
                    (&PORT_DATA_TRANSMITTED_BYTES, seconds as u64 * 1_000_000),
                    (&PORT_DATA_RECEIVED_BYTES, 0),
                    (&RATE_BYTES_PER_SECOND, seed::SPEED),
                    (&PCIE_BYTES_PER_SECOND, 16_000_000),
                ]),
            }],
            ..Batch::default()
        }
    };
    let run = Run { number: 7, user: "ada", start: 2, end: Some(28), hosts: vec!["n2", "n10"] };
    let batches = [Batch::default(), inventory]
        .into_iter()
        .chain((0..=6).map(|n| reading(n * 5)))
        .chain([seed::run(&run)]);
    seed::write(&database, 2, batches.collect()).await;
    seed::write(&database, 4, vec![elsewhere]).await;
    let router = api_on(database.clone());
    (database, router)
}

#[tokio::test]
async fn a_host_with_its_gpus_switches_adapters_and_links() {
    let (_, router) = seeded().await;
    let body = get(&router, &format!("/nodes/n2?at={}&window=20", START_MS + 26_000)).await;
    assert_eq!(body["boot_ms"], json!(START_MS - 3_600_000));
    assert_eq!(
        (&body["gpus"][1]["uuid"], &body["gpus"][1]["nearest_adapters"]),
        (&json!("GPU-b"), &json!(["mlx5_0"]))
    );
    let domain = "5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e.7";
    assert_eq!(
        (&body["gpus"][0]["nvlink_domain"], &body["gpus"][0]["fabric_state"]),
        (&json!(domain), &json!("completed"))
    );
    let nodes = json!([{ "host": "n10", "gpus": 1 }, { "host": "n2", "gpus": 2 }]);
    assert_eq!(body["nvlink_domains"], json!([{ "domain": domain, "nodes": nodes }]));
    assert_eq!(
        (&body["nv_switches"], &body["numa_nodes"]),
        (&json!([{"pci": "0000:c0:00.0"}]), &json!([0, 1]))
    );
    let links = &body["links"];
    assert_eq!(
        (&links["gpu"], &links["link"]),
        (&json!([0, 0, 0, 0, 0, 1, 1]), &json!([0, 1, 2, 3, 4, 0, 1]))
    );
    assert_eq!(links["active"], json!([true, true, true, true, false, true, true]));
    assert_eq!(links["remote_kind"], json!(["gpu", "gpu", "switch", "elsewhere", "unknown", "gpu", "gpu"]));
    assert_eq!(links["remote"], json!([1, 1, 0, null, null, 0, 0]));
    assert_eq!(links["out_bytes_per_second"], json!([1000.0, 2000.0, 3000.0, 4000.0, null, 1000.0, null]));
    assert_eq!(links["in_bytes_per_second"][0], json!(0.0));
    assert_eq!(links["age_seconds"], json!([1.0, 1.0, 1.0, 1.0, null, 1.0, null]));
    let logical = body["logical"].as_array().unwrap();
    assert_eq!(logical.len(), 3);
    let pair = json!({"gpu": 0, "remote_kind": "gpu", "remote": 1, "links": [0, 1], "bytes_per_second": 50_000, "out_bytes_per_second": 3000.0, "in_bytes_per_second": 0.0});
    assert_eq!(logical[0], pair);
    let adapter = &body["adapters"][0];
    // The port sends a megabyte a second; its PCIe link is slower than the cable.
    let pcie = json!({"bytes_per_second": 16_000_000, "ports_bytes_per_second": seed::SPEED, "out_share": 0.0625, "in_share": 0.0});
    assert_eq!(adapter["pcie"], pcie);
    assert_eq!(
        (&adapter["device"], &adapter["leaf"], &adapter["subnet"]),
        (&json!("mlx5_0"), &json!("leaf1"), &json!(SUBNET))
    );
    assert_eq!(
        (&adapter["link"], &adapter["leaf_guid"]),
        (&json!(format!("{}.1", seed::guid(N2))), &json!(seed::guid(LEAF_1)))
    );
    assert_eq!((&adapter["out_bytes_per_second"], &adapter["state"]), (&json!(1e6), &json!("Active")));
    assert_eq!(
        body["jobs"],
        json!([{"job_key": "slurm:7.0@1000", "user": "ada", "name": "name7", "ranks": 2}])
    );
    // Later the job has ended and nobody reads any more.
    let late = get(&router, &format!("/nodes/n2?at={}", START_MS + 110_000)).await;
    assert_eq!(
        (
            &late["jobs"],
            &late["links"]["out_bytes_per_second"][0],
            &late["adapters"][0]["out_bytes_per_second"]
        ),
        (&json!([]), &json!(null), &json!(null))
    );
}

#[tokio::test]
async fn rates_of_a_host_and_of_a_job_in_the_same_steps() {
    let (_, router) = seeded().await;
    let range = format!("from={START_MS}&to={}&points=6", START_MS + 30_000);
    let body = get(&router, &format!("/nodes/n2/rates?{range}")).await;
    assert_eq!((&body["step_seconds"], &body["fold"]), (&json!(5.0), &json!("link")));
    let names: Vec<&str> =
        body["links"].as_array().unwrap().iter().map(|link| link["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "n2 GPU 0 link 0",
            "n2 GPU 0 link 1",
            "n2 GPU 0 link 2",
            "n2 GPU 0 link 3",
            "n2 GPU 1 link 0",
            "n2 mlx5_0 port 1"
        ]
    );
    assert_eq!(body["links"][1]["out"], json!(vec![2000.0; 6]));
    assert_eq!(
        (&body["links"][5]["out"], &body["links"][5]["bytes_per_second"]),
        (&json!(vec![1e6; 6]), &json!(seed::SPEED))
    );
    let folded = get(&router, &format!("/nodes/n2/rates?{range}&fold=gpu")).await;
    assert_eq!(
        (&folded["links"][0]["out"], &folded["links"][0]["count"], &folded["links"][0]["name"]),
        (&json!(vec![10_000.0; 6]), &json!(4), &json!("n2 GPU 0"))
    );
    // Of the job: all of its hosts, summed; n10 has no reading.
    let job = get(&router, &format!("/jobs/slurm:7.0@1000/links?{range}")).await;
    assert_eq!((&job["fold"], &job["times_ms"]), (&json!("host"), &body["times_ms"]));
    let all: Vec<_> = job["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| (link["name"].clone(), link["out"][3].clone()))
        .collect();
    assert_eq!(all, [(json!("n2 NVLink"), json!(11_000.0)), (json!("n2 ports"), json!(1e6))]);
    let one = get(&router, "/jobs/slurm:7.0@1000/links?host=n2&points=30").await;
    // Of each second only those have a reading that end one.
    assert_eq!((&one["step_seconds"], &one["fold"]), (&json!(1.0), &json!("link")));
    assert_eq!(one["links"][0]["out"][4], json!(1000.0));
}

#[tokio::test]
async fn hosts_page_by_page_and_what_is_none() {
    let (_, router) = seeded().await;
    let body = get(&router, "/nodes?limit=1").await;
    assert_eq!(
        body["nodes"],
        json!([{"host": "n10", "gpus": 1, "lost_gpus": 0, "adapters": 0, "boot_ms": START_MS - 3_600_000}])
    );
    let body = get(&router, &format!("/nodes?limit=1&next={}", body["next"].as_str().unwrap())).await;
    assert_eq!(
        (&body["nodes"][0]["host"], &body["nodes"][0]["gpus"], &body["next"]),
        (&json!("n2"), &json!(2), &json!(null))
    );
    assert_eq!(get(&router, "/nodes?q=N1").await["nodes"].as_array().unwrap().len(), 1);
    for (path, said) in [
        ("/nodes/n3", "404 not_found: no host n3; /api/v1/nodes lists"),
        ("/nodes/n2/rates?fold=all", "400 bad_parameter: fold = all; give one of link, gpu, host"),
        ("/jobs/slurm:7.0@1000/links?host=n3", "400 bad_parameter: no rank of slurm:7.0@1000 was seen on n3"),
    ] {
        let body = refused(&router, path).await;
        assert!(body.starts_with(said), "{path}: {body}");
    }
}

/// The host of an adapter that no agent reports: here without a description, so its GUID is its name. Once an agent reports
/// it under a name, that is the host's.
#[tokio::test]
async fn a_host_without_an_agent_is_what_the_fabric_knows() {
    let (database, router) = seeded().await;
    let sweep = |seconds: i64| {
        let count = seconds.unsigned_abs() * 1_000_000;
        let port =
            Port { guid: seed::STRANGER, port: 1, sent: count * 3, received: count, waited: 0, errors: 0 };
        seed::sweep(seconds, -9, &[port], 0)
    };
    // By the crawler of the discovery, which has the subnet, behind its first batch.
    let sweeps = std::iter::once(Batch::default()).chain((0..=6).map(|i| sweep(i * 10)));
    seed::write(&database, 1, sweeps.collect()).await;
    let name = seed::guid(seed::STRANGER);
    let host = get(&router, &format!("/nodes/{name}?at={}&window=20", START_MS + 50_000)).await;
    assert_eq!(
        (&host["has_agent"], &host["gpus"], &host["boot_ms"]),
        (&json!(false), &json!([]), &json!(null))
    );
    let adapter = &host["adapters"][0];
    for (key, value) in [
        ("device", json!(name)),
        ("port", json!(1)),
        ("state", json!("Active")),
        ("subnet", json!(SUBNET)),
        ("link", json!(format!("{name}.1"))),
        ("leaf", json!("leaf2")),
        ("bytes_per_second", json!(seed::SPEED)),
        ("out_bytes_per_second", json!(3_000_000.0)),
        ("in_bytes_per_second", json!(1_000_000.0)),
    ] {
        assert_eq!(adapter[key], value, "{key} of {adapter}");
    }
    let range = format!("from={START_MS}&to={}&points=6", START_MS + 60_000);
    let rates = get(&router, &format!("/nodes/{name}/rates?{range}")).await;
    let link = &rates["links"][0];
    assert_eq!((&link["kind"], &link["port"], &link["count"]), (&json!("port"), &json!(1), &json!(1)));
    assert_eq!(link["out"][3], json!(3_000_000.0));
    let summed = get(&router, &format!("/nodes/{name}/rates?{range}&fold=host")).await;
    assert_eq!(
        (&summed["links"][0]["device"], &summed["links"][0]["out"][3]),
        (&json!(null), &json!(3_000_000.0))
    );
    assert_eq!(get(&router, "/nodes/n2").await["has_agent"], json!(true));
    let said = refused(&router, "/nodes/n3").await;
    assert!(said.starts_with("404 not_found: no host n3"), "{said}");
}

#[tokio::test]
async fn any_metric_of_nvlinks_is_drawn_by_gpu_or_link() {
    let (_, router) = seeded().await;
    let range = format!("from={}&to={}&points=3", START_MS, START_MS + 30_000);
    let sent = get(&router, &format!("/nodes/n2/nvlink?{range}")).await;
    let names: Vec<&str> =
        sent["metrics"].as_array().unwrap().iter().map(|metric| metric["metric"].as_str().unwrap()).collect();
    assert!(names.starts_with(&["transmit_bytes", "receive_bytes", "replay_errors"]), "{names:?}");
    assert_eq!(sent["metrics"][0]["is_rate"], json!(true));
    // Links 0 to 3 of GPU a send 1 to 4 kB/s; those of another library are not added up.
    let of_gpu = |index: usize| sent["series"][index]["values"].clone();
    assert_eq!(
        (sent["series"].as_array().unwrap().len(), of_gpu(0)),
        (2, json!([10_000.0, 10_000.0, 10_000.0]))
    );
    assert_eq!(of_gpu(1), json!([1000.0, 1000.0, 1000.0]));
    let links = get(&router, &format!("/nodes/n2/nvlink?{range}&fold=link&gpu=0")).await;
    let second = &links["series"][1];
    assert_eq!(
        (&second["link"], &second["remote"], &second["values"][2]),
        (&json!(1), &json!("GPU 1"), &json!(2000.0))
    );
    let errors = get(&router, &format!("/nodes/n2/nvlink?{range}&metric=crc_errors")).await;
    assert_eq!(errors["series"], json!([]), "not read is not 0");
    assert!(refused(&router, "/nodes/n2/nvlink?metric=speed").await.contains("transmit_bytes"));
    assert!(refused(&router, "/nodes/n99/nvlink").await.contains("404"));
}

#[tokio::test]
async fn metrics_that_the_site_chose_are_listed_and_drawn_by_gpu() {
    let (database, router) = seeded().await;
    let range = format!("from={}&to={}&points=3", START_MS, START_MS + 30_000);
    let nothing = get(&router, &format!("/nodes/n2/gpu-metrics?{range}")).await;
    assert_eq!((&nothing["metrics"], &nothing["metric"]), (&json!([]), &json!(null)));
    let value = |name: &str, sum, value| GpuMetricValue { name: name.into(), sum, value };
    let reading = |seconds: i64| Batch {
        node: "n2".into(),
        gpu_metrics: vec![GpuMetricsSample {
            time: seed::at(seconds),
            epoch: seed::at(-9),
            gpu_uuid: "GPU-a".into(),
            source: "cupti".into(),
            metrics: vec![
                value("dram__bytes_read.sum", Some(seconds as u64 * 500), None),
                value("gpc__cycles_elapsed.max", None, Some(seconds as f64)),
                value("sm__cycles_active.avg", None, Some(seconds as f64 / 2.0)),
                value("lts__t_sector_hit_rate.pct", None, None),
            ],
        }],
        ..Batch::default()
    };
    seed::write(&database, 40, (0..=6).map(|place| reading(place * 5)).collect()).await;
    let listed = get(&router, &format!("/nodes/n2/gpu-metrics?{range}")).await;
    let metric =
        |name: &str, fold: &str| json!({"metric": name, "gpus": 1, "is_rate": fold == "rate", "fold": fold});
    let menu = json!([
        metric("dram__bytes_read.sum", "rate"),
        metric("gpc__cycles_elapsed.max", "largest"),
        metric("sm__cycles_active.avg", "mean")
    ]);
    assert_eq!(listed["metrics"], menu, "what held no number is not there");
    let of = async |name: &str| {
        let drawn = get(&router, &format!("/nodes/n2/gpu-metrics?{range}&metric={name}")).await;
        assert_eq!(drawn["series"].as_array().unwrap().len(), 1);
        assert_eq!((&drawn["series"][0]["gpu"], &drawn["series"][0]["uuid"]), (&json!(0), &json!("GPU-a")));
        drawn["series"][0]["values"].clone()
    };
    assert_eq!(of("dram__bytes_read.sum").await, json!([500.0, 500.0, 500.0]));
    assert_eq!(of("gpc__cycles_elapsed.max").await, json!([10.0, 20.0, 30.0]));
    // Of 5 and 10, of 15 and 20, of 25 and 30 s.
    assert_eq!(of("sm__cycles_active.avg").await, json!([3.75, 8.75, 13.75]));
    let said = refused(&router, &format!("/nodes/n2/gpu-metrics?{range}&metric=dram")).await;
    assert!(said.contains("give one of dram__bytes_read.sum"), "{said}");
    let long = format!("/nodes/n2/gpu-metrics?from={START_MS}&to={}", START_MS + 2 * 86_400_000);
    assert!(refused(&router, &long).await.contains("more than a day"));
    assert!(refused(&router, "/nodes/n99/gpu-metrics").await.contains("404"));
}

#[tokio::test]
async fn a_node_and_the_load_come_with_the_thresholds_in_use() {
    let database = seed::fabric().await;
    let config = crate::thresholds::ThresholdsConfig {
        nvlink: Some(crate::thresholds::ThresholdConfig { fires_above: 0.6, holds_above: Some(0.5) }),
        port: Some(crate::thresholds::ThresholdConfig { fires_above: 0.7, holds_above: None }),
        waiting: None,
    };
    let api = Api::new(database, Limits::default()).with_thresholds(config.thresholds().unwrap());
    let router = super::super::router(Arc::new(api));
    let body = get(&router, "/nodes/n2").await;
    let own = json!({"alert": "NvlinkSaturated", "busy_above": 0.5, "full_above": 0.6, "origin": "site"});
    assert_eq!(body["thresholds"]["nvlink"], own);
    let own =
        json!({"alert": "InfinibandLinkSaturated", "busy_above": 0.7, "full_above": 0.7, "origin": "site"});
    assert_eq!(body["thresholds"]["port"], own);
    // The map and the page of a node have one pair.
    let load = get(&router, &format!("/fabric/{SUBNET}/load")).await;
    assert_eq!(load["thresholds"]["utilisation"], own);
    assert_eq!(load["thresholds"]["waiting"]["origin"], json!("default"));
}
