//! Windows one after the other have what one reading of all their time has, whatever was read in between.

use super::super::{BlockCache, HistoryQuery, Thinning};
use super::*;
use crate::Horizons;
use crate::history::{Series, SeriesSink};
use std::collections::BTreeMap;
use throughline_sample::catalogue::{Metric, NVLINK_TRANSMIT_BYTES, PORT_DATA_TRANSMITTED_BYTES, RECORDS};
use throughline_sample::wire::{
    Batch, GpuInfo, GpuLinkInfo, GpuLinksSample, GpuMetricValue, GpuMetricsSample, HostPortSample,
    LinkValues, SelfStat, Values,
};
use throughline_store::{Content, Database, Entry, ExportTarget, Sender, Writer, testing};

const SECOND: i64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z, in seconds.
const START: i64 = 1_767_225_600;

type All = BTreeMap<String, Vec<(i64, u64)>>;

fn values(metric: &Metric, value: u64) -> Option<Values> {
    let mut values = Values::default();
    values.put(metric, value);
    Some(values)
}

/// What a node reads at a second: a link that counts, one that stands still and is read each minute, a port, a figure.
fn batch(node: &str, second: i64) -> Batch {
    let time = (START + second) * SECOND;
    let uuid = format!("GPU-{node}");
    let link =
        |number: u32, value| LinkValues { link: number, values: values(&NVLINK_TRANSMIT_BYTES, value) };
    let mut links = vec![link(0, second.cast_unsigned() * 100)];
    links.extend((second % 60 == 0).then(|| link(1, 7)));
    let info = |link| GpuLinkInfo {
        gpu_uuid: uuid.clone(),
        link,
        active: true,
        remote_type: "switch".into(),
        ..GpuLinkInfo::default()
    };
    let figure = |value| SelfStat {
        time,
        source: "nvml".into(),
        name: RECORDS.name.into(),
        value,
        ..SelfStat::default()
    };
    Batch {
        node: node.into(),
        gpus: vec![GpuInfo { uuid: uuid.clone(), name: "H200".into(), ..GpuInfo::default() }],
        gpu_link_infos: [0, 1].map(info).to_vec(),
        gpu_links: vec![GpuLinksSample {
            gpu_uuid: uuid.clone(),
            time,
            epoch: START * SECOND,
            source: "nvml".into(),
            links,
        }],
        host_ports: vec![HostPortSample {
            device: "mlx5_0".into(),
            port: 1,
            time,
            epoch: START * SECOND,
            source: "sysfs".into(),
            node_guid: 1,
            port_guid: 0,
            values: values(&PORT_DATA_TRANSMITTED_BYTES, if second < 30 { 5 } else { 6 }),
        }],
        gpu_metrics: vec![GpuMetricsSample {
            time,
            epoch: START * SECOND,
            gpu_uuid: uuid.clone(),
            source: "cupti".into(),
            metrics: vec![
                GpuMetricValue {
                    name: "dram__bytes_read.sum".into(),
                    sum: Some(second.unsigned_abs() / 50),
                    value: None,
                },
                GpuMetricValue {
                    name: "sm__cycles_active.avg".into(),
                    sum: None,
                    value: Some(second as f64 / 8.0),
                },
            ],
        }],
        self_stats: vec![figure((second / 40) as f64)],
        ..Batch::default()
    }
}

async fn write(writer: &mut Writer, spool: u128, sequence: u64, batch: Batch) {
    let entry = Entry {
        spool_id: uuid::Uuid::from_u128(spool),
        sequence,
        content: Content::Batch(batch),
        sender: Sender::default(),
    };
    let outcome = writer.write(&[entry]).await.unwrap();
    assert_eq!((outcome.quarantined, outcome.unknown_values), (0, 0));
}

fn add(all: &mut All, slices: &[Slice]) {
    for series in slices.iter().flat_map(|slice| &slice.series) {
        let name = &families()[series.family].name;
        let points = all.entry(format!("{name} {:?}", series.labels)).or_default();
        for (time, value) in &series.points {
            assert!(points.iter().all(|point| point.0 != *time), "{name}: {time} twice");
            points.push((*time, value.to_bits()));
        }
        points.sort_unstable();
    }
}

/// As remote-read has it.
async fn as_read(client: &Client, range: Range) -> All {
    struct Taken<'a>(&'a str, &'a mut All);
    impl SeriesSink for Taken<'_> {
        async fn take(&mut self, series: &Series, samples: &Samples) -> Result<(), HistoryError> {
            let labels: Labels = series.labels.clone().into();
            let points = samples.points().iter().map(|(time, value)| (*time, value.to_bits()));
            self.1.insert(format!("{} {labels:?}", self.0), points.collect());
            Ok(())
        }
    }
    let (cache, mut all) = (BlockCache::new(0), All::new());
    let horizons = Horizons::read(client).await.unwrap();
    for family in families() {
        let query = HistoryQuery {
            family,
            range,
            thinning: Thinning::None,
            limit: 1_000_000,
            horizons,
            cache: &cache,
            patience: Duration::from_secs(60),
            takes_chunks: false,
        };
        let series = query.series(client, &[]).await.unwrap();
        query.read(client, &series, &mut Taken(&family.name, &mut all)).await.unwrap();
    }
    all
}

/// Reads a window as the export does, and what is noted as late behind it; every other window from the beginning, as
/// after a stop.
async fn export(database: &Database, tail: &mut Tail, target: &mut ExportTarget, to: i64, all: &mut All) {
    let mut client = database.connect().await.unwrap();
    target.begin_window(&mut client, to).await.unwrap();
    let window = TailWindow { from: target.exported_until, to };
    for part in parts() {
        let mut after = String::new();
        loop {
            let round = tail.read(&client, part, window, &after).await.unwrap();
            add(all, &round.slices);
            let Some(next) = round.next else { break };
            after = next;
        }
    }
    target.end_window(&client).await.unwrap();
    tail.window_read();
    let notes = target.late(&client, 1_000).await.unwrap();
    let mut things: HashMap<String, Vec<Range>> = HashMap::new();
    for note in &notes {
        things.entry(note.thing.clone()).or_default().push(Range { from: note.since, to: note.until });
    }
    if let Some(first) = notes.first() {
        add(all, &tail.read_late(&client, &first.part, &things).await.unwrap());
        let ids: Vec<i64> = notes.iter().map(|note| note.id).collect();
        target.acknowledge_late(&mut client, (1, 0), &ids).await.unwrap();
    }
}

#[tokio::test]
async fn windows_and_what_came_late_are_what_one_reading_has() {
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let client = database.connect().await.unwrap();
    let (begin, end) = ((START - 10) * 1000, (START + 240) * 1000);
    let mut target = ExportTarget::open(&client, "one", begin).await.unwrap();
    let (mut tail, mut all) = (Tail::default(), All::new());
    let mut sequence = 0;
    for window in 0..25 {
        let to = begin + (window + 1) * 10_000;
        for second in (window * 10 - 10 + 1)..=(window * 10) {
            sequence += 1;
            if second >= 0 {
                write(&mut writer, 1, sequence, batch("n1", second)).await;
            }
        }
        // Another node was cut off, and delivers what it has long after.
        if window == 17 {
            for second in (0..=160).step_by(20) {
                sequence += 1;
                write(&mut writer, 2, sequence, batch("n2", second)).await;
            }
        }
        if window % 4 == 2 {
            tail = Tail::default();
        }
        export(&database, &mut tail, &mut target, to, &mut all).await;
    }
    // A part at a time.
    for _ in 0..5 {
        let to = target.exported_until + 10_000;
        export(&database, &mut tail, &mut target, to, &mut all).await;
    }
    assert!(target.late(&client, 1).await.unwrap().is_empty());
    let mut expected = as_read(&client, Range { from: begin + 1, to: end }).await;
    // Info metrics are valid from when the store took them, which is now: tested by themselves.
    expected.retain(|name, _| !name.contains("_info "));
    all.retain(|name, _| !name.contains("_info "));
    all.values_mut().for_each(|points| points.retain(|point| point.0 <= end));
    assert_eq!(all.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, points) in &expected {
        assert_eq!(all[name], *points, "{name}");
    }
    let samples: usize = expected.values().map(Vec::len).sum();
    assert!(expected.len() >= 8 && samples > 700, "{} series, {samples} samples", expected.len());
}

#[tokio::test]
async fn what_arrives_while_its_window_is_sent_is_either_read_or_noted() {
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let mut client = database.connect().await.unwrap();
    let begin = START * 1000;
    let mut target = ExportTarget::open(&client, "one", begin).await.unwrap();
    write(&mut writer, 1, 1, batch("n1", 5)).await;
    target.begin_window(&mut client, (START + 10) * 1000).await.unwrap();
    write(&mut writer, 1, 2, batch("n1", 6)).await;
    let part = Table::HostPortCounters.name();
    let window = TailWindow { from: begin, to: (START + 10) * 1000 };
    ExportTarget::begin_reading(&client).await.unwrap();
    let read = Tail::default().read(&client, part, window, "").await.unwrap();
    // Behind the reading's moment.
    write(&mut writer, 1, 3, batch("n1", 7)).await;
    let served = target.notes_of_window(&client, part).await.unwrap();
    ExportTarget::end_reading(&client).await.unwrap();
    let times: Vec<i64> =
        read.slices[0].series[0].points.iter().map(|point| point.0 / 1000 - START).collect();
    assert_eq!(times, [5, 6]);
    assert_eq!(served.iter().map(|note| note.since / 1000 - START).collect::<Vec<_>>(), [6]);
    target.acknowledge(&mut client, (part, "1"), (2, 0), &served).await.unwrap();
    // Another server that believes to be at the same place is stopped.
    let mut other = target.clone();
    target.end_window(&client).await.unwrap();
    assert!(other.end_window(&client).await.is_err());
    let left = "SELECT extract(epoch FROM since)::bigint FROM internal.export_late WHERE part = $1";
    let left = client.query(left, &[&part]).await.unwrap();
    assert_eq!(left.iter().map(|row| row.get::<_, i64>(0) - START).collect::<Vec<_>>(), [7]);
    let again = ExportTarget::open(&client, "one", 0).await.unwrap();
    assert_eq!((again.exported_until, again.window_end, again.acknowledged), ((START + 10) * 1000, None, 2));
}
