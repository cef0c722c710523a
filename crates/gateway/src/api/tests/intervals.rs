//! What is read at unusual intervals is known or silent by what its sender reported, the same in each route.

use super::seed::{self, LEAF_1, N2, START_MS, SUBNET};
use super::*;
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_sample::catalogue::*;
use throughline_sample::row_rules::DEFAULT;
use throughline_sample::wire::*;

/// Bytes a second that everything sends.
const RATE: u64 = 1_000_000;

/// Readings of each thing.
const READINGS: i64 = 12;

/// What the agent of n2 reads at a time.
fn node(seconds: i64, count: u64, rules: Option<RowRules>) -> Batch {
    let (time, epoch) = (seed::at(seconds), seed::at(-9));
    let sent =
        |out: &'static Metric, received: &'static Metric| seed::values(&[(out, count * RATE), (received, 0)]);
    let gpu_uuid = "GPU-a".to_owned();
    let gpu = GpuInfo { uuid: gpu_uuid.clone(), source: "nvml".into(), link_count: 1, ..GpuInfo::default() };
    let link = GpuLinkInfo { gpu_uuid: gpu_uuid.clone(), active: true, ..GpuLinkInfo::default() };
    let round =
        |source: &str| Coverage { time, source: source.into(), row_rules: rules, ..Coverage::default() };
    let up = |source: &str| SelfStat {
        time,
        source: source.into(),
        name: SOURCE_UP.name.into(),
        value: 1.0,
        ..SelfStat::default()
    };
    Batch {
        gpus: vec![gpu],
        gpu_link_infos: vec![link],
        gpu_links: vec![GpuLinksSample {
            time,
            epoch,
            gpu_uuid: gpu_uuid.clone(),
            source: "nvml".into(),
            links: vec![LinkValues { link: 0, values: sent(&NVLINK_TRANSMIT_BYTES, &NVLINK_RECEIVE_BYTES) }],
        }],
        gpu_pcie: vec![GpuPcieSample {
            time,
            epoch,
            gpu_uuid,
            source: "nvml".into(),
            values: sent(&PCIE_TRANSMIT_BYTES, &PCIE_RECEIVE_BYTES),
        }],
        host_ports: vec![HostPortSample {
            time,
            epoch,
            device: "mlx5_0".into(),
            port: 1,
            node_guid: N2,
            port_guid: 0,
            source: "sysfs".into(),
            values: sent(&PORT_DATA_TRANSMITTED_BYTES, &PORT_DATA_RECEIVED_BYTES),
        }],
        self_stats: vec![up("sysfs"), up("nvml")],
        coverage: vec![round("sysfs"), round("nvml")],
        ..seed::hosts()
    }
}

/// What the crawler reads then.
fn sweep(seconds: i64, count: u64, rules: Option<RowRules>) -> Batch {
    let port = seed::Port { guid: N2, port: 1, sent: count * RATE, received: 0, waited: 0, errors: 0 };
    let mut batch = seed::sweep(seconds, -9, &[port], 0);
    batch.coverage.iter_mut().for_each(|round| round.row_rules = rules);
    batch
}

#[tokio::test]
async fn each_route_goes_by_the_intervals_that_a_sender_reports() {
    for (interval, is_reported, age, known) in [
        (1, true, 5, true),
        (1, true, 80, false),
        (90, true, 80, true),
        (90, true, 280, false),
        (90, false, 80, false),
    ] {
        let what = format!("each {interval} s, reported: {is_reported}, {age} s ago");
        let rules = RowRules::unthinned(Duration::from_secs(interval));
        let reported = is_reported.then_some(rules);
        let gap = reported.unwrap_or(DEFAULT).largest_gap_seconds;
        let database = seed::fabric().await;
        let since =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed() - START_MS / 1000;
        let interval = interval.cast_signed();
        let times = (0..READINGS).map(|number| since - age - (READINGS - 1 - number) * interval);
        let of = |read: fn(i64, u64, Option<RowRules>) -> Batch| {
            let counted = |time: i64| read(time, (time - since + 2_000).cast_unsigned(), reported);
            std::iter::once(Batch::default()).chain(times.clone().map(counted)).collect::<Vec<_>>()
        };
        seed::write(&database, 2, of(node)).await;
        seed::write(&database, 1, of(sweep)).await;
        let router = api_on(database);
        let known_rate = if known { json!(RATE as f64) } else { json!(null) };

        let window = 3 * interval;
        let body = get(&router, &format!("/nodes/n2?window={}", window.max(10))).await;
        assert_eq!(body["links"]["out_bytes_per_second"][0], known_rate, "an NVLink, {what}");
        assert_eq!(body["adapters"][0]["out_bytes_per_second"], known_rate, "a port of a host, {what}");

        let body = get(&router, &format!("/fabric/{SUBNET}/load?window=10")).await;
        let topology = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
        let (place, is_a) = super::fabric::link(&topology, N2, 1);
        let utilisation = &body["utilisation"][if is_a { "ab" } else { "ba" }][place];
        assert_eq!(!utilisation.is_null(), known, "the load of a fabric, {what}: {utilisation}");

        let to = START_MS + since * 1000;
        let link = format!("/fabric/{SUBNET}/links/{}.1?from={}&to={to}", seed::guid(LEAF_1), to - 600_000);
        let series = &get(&router, &link).await["series"];
        let both =
            ["ab", "ba"].map(|way| series[way]["bytes_per_second"].as_array().unwrap().clone()).concat();
        let is_known = both.contains(&json!(RATE as f64));
        assert_eq!(is_known, is_reported || interval == 1, "a link, {what}: {both:?}");

        for (route, name, silent) in
            [("/status", "state", json!("silent")), ("/health", "is_silent", json!(true))]
        {
            let body = get(&router, route).await;
            for source in ["mad", "sysfs", "nvml"] {
                let all = body["sources"].as_array().unwrap();
                let of = |one: &&Value| one["source"] == source && one["instance"] != "n10";
                let one = all.iter().find(of).unwrap_or_else(|| panic!("{source}: {body:#}"));
                assert_eq!(one["largest_gap_seconds"], json!(gap), "{route}, {source}, {what}");
                assert_eq!(one[name] != silent, known, "{route}, {source}, {what}: {one}");
            }
        }
    }
}
