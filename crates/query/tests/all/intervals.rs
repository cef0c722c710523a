//! What is read at unusual intervals has the same rates in SQL, in what the JSON API is made of and in PromQL, from rows and from packed
//! hours: how far apart two readings may be is what the sender reported, on each surface. Of the JSON API itself, with
//! `throughline status`, see `intervals.rs` of the gateway's tests.

use throughline_query::history::tail::{Tail, TailWindow, parts};
use throughline_query::history::{Range, families};
use throughline_query::load::{self, Window};
use throughline_query::rates::{CountedLink, rates};
use throughline_query::time::Grid;
use throughline_query::{links, nvlink_metrics};
use throughline_sample::catalogue::{
    Metric, NVLINK_RECEIVE_BYTES, NVLINK_TRANSMIT_BYTES, PCIE_RECEIVE_BYTES, PCIE_TRANSMIT_BYTES,
    PORT_DATA_RECEIVED_BYTES, PORT_DATA_TRANSMITTED_BYTES, RECEIVE_DATA_BYTES, TRANSMIT_DATA_BYTES,
};
use throughline_sample::row_rules::DEFAULT;
use throughline_sample::wire::{
    Batch, Coverage, GpuInfo, GpuLinkInfo, GpuLinksSample, GpuPcieSample, HostPortSample, LinkValues,
    NodeInfo, RowRules,
};
use throughline_store::{Database, Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::batches::{PREFIX, SECOND, START, entry, port_sample, values};
use crate::chunks::{answers_with, blocks_made, minutes_made, moved::hours_moved, no_cache};

/// Begin of all readings: a whole minute.
const BEGIN: i64 = START / SECOND / 60 * 60 * SECOND;
/// Bytes a second sent and received: nothing, so that PromQL has gaps to fill.
const RATES: [u64; 2] = [1_000_000, 0];
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

/// What the crawler of a fabric has read then.
fn sweep(interval: i64, number: i64, rules: Option<RowRules>) -> Batch {
    let seconds = number * interval;
    let pairs = [(&TRANSMIT_DATA_BYTES, RATES[0] * seconds.cast_unsigned()), (&RECEIVE_DATA_BYTES, 5)];
    let time = BEGIN + seconds * SECOND;
    let round = Coverage { time, source: "mad".to_owned(), row_rules: rules, ..Coverage::default() };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_ports: vec![port_sample(1, (time - START) / SECOND, -60, &pairs)],
        coverage: vec![round],
        ..Batch::default()
    }
}

/// Which samples PromQL has of the counters that stand still, by name.
async fn in_promql(database: &Database) -> Vec<(&'static str, Vec<i64>)> {
    let range = Range { from: BEGIN / 1_000_000, to: BEGIN / 1_000_000 + 86_400_000 };
    let mut all = Vec::new();
    for name in STANDING {
        let answers = answers_with((database, &no_cache()), name, range).await;
        assert_eq!(answers.len(), 1, "{name}");
        all.push((name, answers.values().flatten().map(|(time, _)| time - BEGIN / 1_000_000).collect()));
    }
    all
}

const STANDING: [&str; 4] = [
    "infiniband_switch_port_receive_data_bytes_total",
    "node_infiniband_port_data_received_bytes_total",
    "throughline_nvlink_receive_bytes_total",
    "throughline_pcie_receive_bytes_total",
];

/// The same as the export reads them in a first window: the predecessor of its first reading is looked for before it.
async fn exported(client: &Client, from: i64, to: i64) -> Vec<(&'static str, Vec<i64>)> {
    let mut tail = Tail::default();
    let mut all: Vec<(&str, Vec<i64>)> = STANDING.map(|name| (name, Vec::new())).into();
    let window = TailWindow { from: BEGIN / 1_000_000 + from, to: BEGIN / 1_000_000 + to };
    for part in parts() {
        let round = tail.read(client, part, window, "").await.unwrap();
        for series in round.slices.iter().flat_map(|slice| &slice.series) {
            let of = all.iter_mut().find(|(name, _)| families()[series.family].name == *name);
            let times = series.points.iter().map(|(time, _)| time - BEGIN / 1_000_000);
            of.into_iter().for_each(|(_, all)| all.extend(times.clone()));
        }
    }
    all
}

/// How many rates a function of SQL has; each of them must be right.
async fn in_sql(client: &Client, function: &str, from: i64) -> i64 {
    let sql = format!(
        "SELECT count(*), bool_and(transmit_bytes_per_second = {} AND receive_bytes_per_second = {})
         FROM public.{function}(to_timestamp({}), to_timestamp({}))",
        RATES[0],
        RATES[1],
        BEGIN / SECOND + from,
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
        let (node, crawler) = (Uuid::new_v4(), Uuid::new_v4());
        for (sequence, number) in (1..).zip(0..READINGS) {
            let reported = is_reported.then_some(rules);
            writer.write(&[entry(node, sequence, batch(interval, number, reported))]).await.unwrap();
            writer.write(&[entry(crawler, sequence, sweep(interval, number, reported))]).await.unwrap();
        }
        let client = database.connect().await.unwrap();
        let expected = if known { READINGS - 1 } else { 0 };
        let what = format!("each {interval} s, reported: {is_reported}");
        for function in ["ib_port_rates", "host_port_rates", "nvlink_rates", "gpu_pcie_rates"] {
            assert_eq!(in_sql(&client, function, -1).await, expected, "{function}, {what}");
            // A range with one reading has the rate up to it.
            let last = (READINGS - 1) * interval - 1;
            assert_eq!(in_sql(&client, function, last).await, expected.min(1), "{function}, {what}");
        }
        // A step for each reading; three steps that are longer than a gap would bridge it.
        let step = interval * 1000 / 10;
        let steps = usize::try_from((READINGS - 1) * 10).unwrap();
        let grid = Grid { from: BEGIN / 1_000_000, step, steps };
        for counted in [CountedLink::Port, CountedLink::Nvlinks, CountedLink::GpuPcie] {
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
        let series = links::series(&client, &[1], &grid).await.unwrap();
        let sent = series.get(&1).map_or(0, |series| series.out.iter().flatten().count());
        assert_eq!(sent, if known { steps } else { 0 }, "the series of a link, {what}");

        // Of the newest reading nothing is known of now once it is older than the largest gap.
        let (last, gap) =
            ((READINGS - 1) * interval, if is_reported { rules } else { DEFAULT }.largest_gap_seconds);
        for age in [gap - 1.0, gap + 1.0] {
            let at = BEGIN / 1_000_000 + last * 1000 + (age * 1e3) as i64;
            let window = Window { at, is_latest: false, seconds: 10.0 };
            let load = load::readings(&client, &[1], &window).await.unwrap();
            let rates = load[0].rates(&window, None);
            assert_eq!(rates.transmit.is_some(), known && age < gap, "the load of a fabric, {age} s, {what}");
            let counters = links::counters(&client, 1, at).await.unwrap();
            assert!(counters.is_some() || age > gap, "counters of a port, {age} s, {what}");
        }

        let node = "INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, \
                    valid_from) SELECT id, guid, 'switch', 's', 1, 1, 1, guid, 1, to_timestamp(0) FROM internal.ib_node_key";
        client.batch_execute(node).await.unwrap();
        let is_filled = known && interval > 15;
        let each = if is_filled { 15_000 } else { interval * 1000 };
        let expected: Vec<i64> = (0..=last * 1000 / each).map(|number| number * each).collect();
        let expected = STANDING.map(|name| (name, expected.clone()));
        assert_eq!(in_promql(&database).await, expected, "PromQL of rows, {what}");
        // A window has what is filled before it: only its reading ends the gap.
        let (from, to) = (last * 1000 - 1_000, last * 1000);
        let gap_begins = (last - interval) * 1000;
        let filled = expected[0].1.iter().copied().filter(|time| is_filled && *time > gap_begins);
        let mut within: Vec<i64> = filled.chain([to]).collect();
        within.dedup();
        let within = STANDING.map(|name| (name, within.clone()));
        assert_eq!(exported(&client, from, to).await, within, "the export, {what}");
        minutes_made(&database).await;
        blocks_made(&database).await.unwrap();
        assert_eq!(in_promql(&database).await, expected, "PromQL of packed hours, {what}");
        hours_moved(&database).await;
        assert_eq!(in_promql(&database).await, expected, "PromQL of hours that are packed only, {what}");
        assert_eq!(
            in_sql(&client, "ib_port_rates", -1).await,
            if known { READINGS - 1 } else { 0 },
            "packed only, {what}"
        );
    }
}
