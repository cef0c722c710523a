//! Nodes that are read at unusual intervals have the same rates in SQL and in what the JSON API is made of: how far apart two readings
//! may be is what the node reported, on each surface.

use throughline_query::nvlink_metrics;
use throughline_query::rates::{Counted, rates};
use throughline_query::time::Grid;
use throughline_sample::catalogue::{
    Metric, NVLINK_RECEIVE_BYTES, NVLINK_TRANSMIT_BYTES, PCIE_RECEIVE_BYTES, PCIE_TRANSMIT_BYTES,
    PORT_DATA_RECEIVED_BYTES, PORT_DATA_TRANSMITTED_BYTES,
};
use throughline_sample::wire::{
    Batch, Coverage, GpuInfo, GpuLinkInfo, GpuLinksSample, GpuPcieSample, HostPortSample, LinkValues,
    NodeInfo, RowRules,
};
use throughline_store::{Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::batches::{SECOND, START, entry, values};

/// Begin of all readings: a whole minute.
const BEGIN: i64 = START / SECOND / 60 * 60 * SECOND;
/// Bytes a second sent and received.
const RATES: [u64; 2] = [1_000_000, 250_000];
/// Readings of each thing.
const READINGS: i64 = 5;

/// What the node has read then, and by which rules, if it reports those.
fn batch(interval: i64, number: i64, rules: Option<RowRules>) -> Batch {
    let time = BEGIN + number * interval * SECOND;
    let counted = |metrics: [&'static Metric; 2]| {
        let seconds = (number * interval).cast_unsigned();
        values(&[(metrics[0], RATES[0] * seconds), (metrics[1], RATES[1] * seconds)])
    };
    let (gpu_uuid, epoch) = ("GPU-1".to_owned(), BEGIN - SECOND);
    let round =
        |source: &str| Coverage { time, source: source.to_owned(), row_rules: rules, ..Coverage::default() };
    Batch {
        node: "n1".to_owned(),
        nodes: vec![NodeInfo { name: "n1".to_owned(), ..NodeInfo::default() }],
        gpus: vec![GpuInfo {
            uuid: gpu_uuid.clone(),
            source: "nvml".to_owned(),
            link_count: 1,
            ..GpuInfo::default()
        }],
        gpu_link_infos: vec![GpuLinkInfo {
            gpu_uuid: gpu_uuid.clone(),
            active: true,
            ..GpuLinkInfo::default()
        }],
        host_ports: vec![HostPortSample {
            time,
            epoch,
            device: "mlx5_0".to_owned(),
            port: 1,
            values: counted([&PORT_DATA_TRANSMITTED_BYTES, &PORT_DATA_RECEIVED_BYTES]),
            source: "sysfs".to_owned(),
            ..HostPortSample::default()
        }],
        gpu_links: vec![GpuLinksSample {
            time,
            epoch,
            gpu_uuid: gpu_uuid.clone(),
            source: "nvml".to_owned(),
            links: vec![LinkValues {
                link: 0,
                values: counted([&NVLINK_TRANSMIT_BYTES, &NVLINK_RECEIVE_BYTES]),
            }],
        }],
        gpu_pcie: vec![GpuPcieSample {
            time,
            epoch,
            gpu_uuid,
            source: "nvml".to_owned(),
            values: counted([&PCIE_TRANSMIT_BYTES, &PCIE_RECEIVE_BYTES]),
        }],
        coverage: vec![round("sysfs"), round("nvml")],
        ..Batch::default()
    }
}

/// How many rates a function of SQL has; each of them must be right.
async fn in_sql(client: &Client, function: &str) -> i64 {
    let sql = format!(
        "SELECT count(*), bool_and(transmit_bytes_per_second = {} AND receive_bytes_per_second = {})
         FROM {function}(to_timestamp({}), to_timestamp({}))",
        RATES[0],
        RATES[1],
        BEGIN / SECOND - 1,
        BEGIN / SECOND + 86_400
    );
    let row = client.query_one(&sql, &[]).await.unwrap();
    assert_ne!(row.get::<_, Option<bool>>(1), Some(false), "{function}");
    row.get(0)
}

#[tokio::test]
async fn each_surface_goes_by_the_intervals_that_a_node_reports() {
    for (interval, is_reported, known) in [(1, true, true), (90, true, true), (90, false, false)] {
        let rules = RowRules::unthinned(std::time::Duration::from_secs(interval));
        let interval = interval.cast_signed();
        let database = testing::database().await;
        let mut writer = Writer::new(database.clone());
        let spool = Uuid::new_v4();
        for (sequence, number) in (1..).zip(0..READINGS) {
            let batch = batch(interval, number, is_reported.then_some(rules));
            writer.write(&[entry(spool, sequence, batch)]).await.unwrap();
        }
        let client = database.connect().await.unwrap();
        let expected = if known { READINGS - 1 } else { 0 };
        let what = format!("each {interval} s, reported: {is_reported}");
        for function in ["host_port_rates", "nvlink_rates", "gpu_pcie_rates"] {
            assert_eq!(in_sql(&client, function).await, expected, "{function}, {what}");
        }
        // A step for each reading; three steps that are longer than a gap would bridge it.
        let step = interval * 1000 / 10;
        let steps = usize::try_from((READINGS - 1) * 10).unwrap();
        let grid = Grid { from: BEGIN / 1_000_000, step, steps };
        for counted in [Counted::Port, Counted::Nvlinks, Counted::GpuPcie] {
            let all = rates(&client, counted, &[1], &grid).await.unwrap();
            let one = &all[&(1, 0)];
            let sent: Vec<f64> = one.out.iter().copied().flatten().collect();
            let expected = if known { vec![RATES[0] as f64; steps] } else { Vec::new() };
            assert_eq!(sent, expected, "{counted:?}, {what}");
            let gap = if is_reported { rules.largest_gap_seconds } else { 75.0 };
            assert!((one.largest_gap_seconds - gap).abs() < 1e-9, "{counted:?}, {what}");
        }
        let links = nvlink_metrics::values(&client, &NVLINK_TRANSMIT_BYTES, &[1], &grid).await.unwrap();
        let sent = links.get(&(1, 0)).map_or(0, |values| values.iter().flatten().count());
        assert_eq!(sent, if known { steps } else { 0 }, "a metric of NVLinks, {what}");
    }
}
