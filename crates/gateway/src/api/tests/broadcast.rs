//! A job's broadcasts by rank, and the PCIe links of its hosts.

use super::seed::{self, N2, Run, START_MS};
use super::*;
use serde_json::json;
use throughline_sample::catalogue::*;
use throughline_sample::wire::{Batch, HostPortSample};

const RUN: Run = Run { number: 7, user: "ada", start: 2, end: Some(40), hosts: Vec::new() };
const MB: u64 = 1 << 20;

/// What the port of n2's adapter has received until `seconds`: 4 MB a second, through a PCIe link of 16.
fn port(seconds: i64) -> Batch {
    let sample = HostPortSample {
        time: seed::at(seconds),
        epoch: seed::at(-9),
        device: "mlx5_0".into(),
        port: 1,
        node_guid: N2,
        port_guid: 0,
        source: "sysfs".into(),
        values: seed::values(&[
            (&PORT_DATA_TRANSMITTED_BYTES, 0),
            (&PORT_DATA_RECEIVED_BYTES, seconds as u64 * 4_000_000),
            (&RATE_BYTES_PER_SECOND, seed::SPEED),
            (&PCIE_BYTES_PER_SECOND, 16_000_000),
        ]),
    };
    Batch { node: "n2".into(), host_ports: vec![sample], ..Batch::default() }
}

#[tokio::test]
async fn what_each_rank_got_in_the_time_of_its_broadcasts() {
    let database = seed::fabric().await;
    let run = Run { hosts: vec!["n2", "n10"], ..RUN };
    // Ten broadcasts of a megabyte by rank 0 to all; rank 3 is half as fast.
    let done = (0..4).map(|rank| {
        let (bytes, inside) = (if rank == 0 { 10 * MB } else { 0 }, if rank == 3 { 1000 } else { 500 });
        seed::operations(
            &run,
            30,
            rank,
            &[("bcast", MB, 10, bytes, inside), ("allreduce", MB, 5, 5 * MB, 100)],
        )
    });
    let ports = (0..=8).map(|n| port(n * 5));
    seed::write(
        &database,
        2,
        [Batch::default(), seed::run(&run)].into_iter().chain(done).chain(ports).collect(),
    )
    .await;
    let router = api_on(database);
    let body = get(&router, &format!("/jobs/{}/broadcast", seed::key(7))).await;
    let ranks = &body["ranks"];
    assert_eq!((&ranks["rank"], &ranks["calls"]), (&json!([0, 1, 2, 3]), &json!([10, 10, 10, 10])));
    assert_eq!(ranks["host"], json!(["n2", "n2", "n10", "n10"]));
    assert_eq!(ranks["kind"], json!(["modelled", "modelled", "modelled", "modelled"]));
    assert_eq!(ranks["sent_bytes"], json!([10 * MB, 0, 0, 0]));
    let received = json!([0, 10 * MB, 10 * MB, 10 * MB]);
    assert_eq!((&ranks["received_low_bytes"], &ranks["received_high_bytes"]), (&received, &received));
    let rates = |of: &str| -> Vec<f64> {
        ranks[of].as_array().unwrap().iter().map(|r| r.as_f64().unwrap()).collect()
    };
    for (of, rate) in rates("low_bytes_per_second").into_iter().zip([0.0, 20.0, 20.0, 10.0]) {
        assert!((of / MB as f64 - rate).abs() < 0.01, "{ranks}");
    }
    assert_eq!((&body["from_ms"], &body["to_ms"]), (&json!(START_MS + 2_000), &json!(START_MS + 40_000)));
    // The other host reported no port.
    let [n2, n10] = &body["hosts"].as_array().unwrap()[..] else { panic!("{body}") };
    assert_eq!((&n10["host"], &n10["adapters"]), (&json!("n10"), &json!([])));
    let adapter = &n2["adapters"][0];
    assert_eq!(
        (&adapter["device"], &adapter["in_bytes_per_second"]),
        (&json!("mlx5_0"), &json!(4_000_000.0))
    );
    assert_eq!(adapter["pcie"]["in_share"], json!(0.25));
    assert_eq!(adapter["pcie"]["bytes_per_second"], json!(16_000_000));
}

#[tokio::test]
async fn a_job_without_broadcasts_has_no_rows() {
    let database = seed::fabric().await;
    let run = Run { hosts: vec!["n2", "n10"], ..RUN };
    let batches = vec![
        Batch::default(),
        seed::run(&run),
        seed::operations(&run, 30, 0, &[("allreduce", MB, 5, 5 * MB, 100)]),
    ];
    seed::write(&database, 2, batches).await;
    let router = api_on(database);
    let body = get(&router, &format!("/jobs/{}/broadcast", seed::key(7))).await;
    assert_eq!((&body["ranks"]["rank"], &body["hosts"]), (&json!([]), &json!([])));
    let missing = refused(&router, "/jobs/none/broadcast").await;
    assert!(missing.starts_with("404 not_found"), "{missing}");
}
