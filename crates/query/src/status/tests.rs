//! What arrives, read from a seeded database.

use super::*;
use std::time::SystemTime;
use throughline_sample::catalogue::{Metric, PAUSED_UNTIL_TIMESTAMP_SECONDS, RECORDS, SOURCE_PAUSED};
use throughline_sample::catalogue::{
    NVLINK_TRANSMIT_BYTES, PORT_DATA_TRANSMITTED_BYTES, TRANSMIT_DATA_BYTES,
};
use throughline_sample::wire::{
    self, Batch, GpuInfo, GpuLinksSample, HostPortSample, IbPortSample, JobRank, LinkValues, MpiOpCell,
    MpiRankBin, SelfStat, Values,
};
use throughline_store::{Content, Entry, Sender, Writer, testing};

const SECOND: i64 = 1_000_000_000;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

fn values(metric: &'static Metric) -> Option<Values> {
    let mut values = Values::default();
    values.put(metric, 4096);
    Some(values)
}

fn figure(time: i64, source: &str, metric: &Metric, value: f64) -> SelfStat {
    SelfStat { time, source: source.into(), name: metric.name.into(), value, ..SelfStat::default() }
}

/// A node with one adapter port, one GPU and a job of two ranks that began 100 s ago, and its figures.
fn node(time: i64) -> Batch {
    let start = time - 100 * SECOND;
    let rank = |rank, end| JobRank {
        job_key: "slurm:7".into(),
        rank,
        pid: 1,
        world_size: 2,
        start,
        end,
        host: "n1".into(),
        ..JobRank::default()
    };
    let cell = |operation: &str, calls, seconds: i64| MpiOpCell {
        operation: operation.into(),
        calls,
        bytes: 10 * calls,
        elapsed_nanoseconds: (seconds * SECOND).unsigned_abs(),
        ..MpiOpCell::default()
    };
    let bin = |rank| MpiRankBin {
        time,
        epoch: start,
        job_key: "slurm:7".into(),
        rank,
        source: "pmpi".into(),
        cells: vec![cell("allreduce", 5, 20), cell("send", 3, 5)],
    };
    let port = HostPortSample {
        time,
        epoch: start,
        device: "mlx5_0".into(),
        port: 1,
        node_guid: 1,
        port_guid: 0,
        source: "sysfs".into(),
        values: values(&PORT_DATA_TRANSMITTED_BYTES),
    };
    let link = LinkValues { link: 0, values: values(&NVLINK_TRANSMIT_BYTES) };
    Batch {
        node: "n1".into(),
        host_ports: vec![HostPortSample { time: time - SECOND, ..port.clone() }, port],
        gpus: vec![GpuInfo { uuid: "GPU-1".into(), source: "nvml".into(), ..GpuInfo::default() }],
        gpu_links: vec![GpuLinksSample {
            time,
            epoch: start,
            gpu_uuid: "GPU-1".into(),
            source: "nvml".into(),
            links: vec![link],
        }],
        jobs: vec![wire::Job {
            key: "slurm:7".into(),
            user: "ada".into(),
            command: "solve".into(),
            start,
            world_size: 2,
            ..wire::Job::default()
        }],
        job_ranks: vec![rank(0, 0), rank(1, 0)],
        mpi_ops: vec![bin(0), bin(1)],
        events: vec![
            event(time, "cupti", "source.down", "busy: a profiler has the GPU"),
            event(time - SECOND, "sysfs", "source.down", "stalled"),
            event(time, "sysfs", "source.up", "running"),
        ],
        self_stats: vec![
            figure(time, "sysfs", &SOURCE_UP, 1.0),
            SelfStat { label: "queue_full".into(), ..figure(time, "sysfs", &RECORDS_DISCARDED, 3.0) },
            figure(time, "cupti", &SOURCE_UP, 0.0),
            figure(time, "spool", &SPOOL_ENTRIES, 2.0),
            figure(time, "delivery", &SOURCE_UP, 1.0),
            figure(time, "delivery", &DELIVERED_ENTRIES, 8.0),
            figure(time, "sysfs", &RECORDS, 9.0),
        ],
        ..Batch::default()
    }
}

fn crawler(time: i64) -> Batch {
    let port = |port| IbPortSample {
        time,
        epoch: time,
        node_guid: 9,
        port,
        source: "mad".into(),
        values: values(&TRANSMIT_DATA_BYTES),
        ..IbPortSample::default()
    };
    // Read an hour ago: only the coverage of that round says when.
    let round =
        wire::Coverage { time, source: "mad".into(), expected: 2, read: 2, ..wire::Coverage::default() };
    Batch {
        fabric: throughline_store::testing::fabric(0xfe80_0000_0000_0000),
        ib_ports: vec![port(1), port(2)],
        coverage: vec![round],
        ..Batch::default()
    }
}

fn event(time: i64, source: &str, kind: &str, text: &str) -> wire::Event {
    wire::Event {
        time,
        source: source.into(),
        kind: kind.into(),
        severity: "warning".into(),
        text: text.into(),
        ..wire::Event::default()
    }
}

/// A node without GPUs.
fn without_gpus(time: i64) -> Batch {
    let events = vec![event(time, "nvml", "source.absent", "library_missing: no library")];
    Batch { node: "n3".into(), events, ..Batch::default() }
}

/// A node whose agent reported an hour ago that ranks may connect and its spool fills, and nothing since.
fn gone(time: i64) -> Batch {
    let hour = time - 3600 * SECOND;
    let figures = vec![figure(hour, "mpi", &SOURCE_UP, 1.0), figure(hour, "spool", &SPOOL_ENTRIES, 41.0)];
    Batch { node: "n2".into(), self_stats: figures, ..Batch::default() }
}

async fn written(batches: Vec<Batch>) -> (Client, Status) {
    let database = testing::database().await;
    let spool_id = uuid::Uuid::from_u128(7);
    let entries = batches.into_iter().zip(1..).map(|(batch, sequence)| Entry {
        spool_id,
        sequence,
        content: Content::Batch(batch),
        sender: Sender::default(),
    });
    let entries: Vec<Entry> = entries.collect();
    Writer::new(database.clone()).write(&entries).await.unwrap();
    let client = database.connect_reader().await.unwrap();
    let status = read(&client, 10).await.unwrap();
    (client, status)
}

#[tokio::test]
async fn the_queries_of_the_handbook_run() {
    let (client, _) = written(vec![node(now())]).await;
    // As psql has it.
    client.batch_execute("SET search_path = public").await.unwrap();
    let handbook = include_str!("../../../../docs/DATABASE.md");
    let queries = handbook.split("```sql").skip(1).filter_map(|rest| rest.split_once("```"));
    let mut count = 0;
    for (query, _) in queries {
        // What follows a backslash is for psql.
        let query = query.split_once('\\').map_or(query, |(query, _)| query);
        client.batch_execute(query).await.unwrap_or_else(|error| panic!("{error:?} in {query}"));
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[tokio::test]
async fn an_empty_database_is_an_empty_report() {
    let (_, status) = written(Vec::new()).await;
    assert!(status.sources.is_empty() && status.delivery.is_empty() && status.jobs.is_empty());
    assert!((now() / 1_000_000 - status.time_ms).abs() < 3_600_000);
}

/// A node whose monitors have not been read for so long, by this event, as this metric confirms.
fn pausing(name: &str, time: i64, ago: i64, kind: &str, paused: f64, until: Option<i64>) -> Batch {
    let begun = time - ago * SECOND;
    let round = wire::Coverage { time: begun, source: "cupti".into(), ..wire::Coverage::default() };
    let mut self_stats =
        vec![figure(time, "cupti", &SOURCE_UP, 1.0), figure(time, "cupti", &SOURCE_PAUSED, paused)];
    let until = until.map(|seconds| (time + seconds * SECOND) as f64 / 1e9);
    self_stats.extend(until.map(|until| figure(time, "cupti", &PAUSED_UNTIL_TIMESTAMP_SECONDS, until)));
    let events = vec![event(begun, "cupti", kind, "job 7 has the GPUs")];
    Batch { node: name.into(), coverage: vec![round], self_stats, events, ..Batch::default() }
}

#[tokio::test]
async fn pauses_and_busy_monitors_are_states_and_never_silent() {
    let time = now();
    let (client, status) = written(vec![
        pausing("begun", time, 20, "source.paused", 0.0, None),
        pausing("minutes", time, 142, "source.paused", 1.0, Some(60)),
        pausing("hour", time, 3600, "source.paused", 1.0, Some(82_800)),
        pausing("taken", time, 3600, "source.busy", 1.0, None),
        pausing("over", time, 20, "source.resumed", 1.0, None),
        // Its agent was killed while it was paused, and another one reports that it reads.
        pausing("restarted", time, 3600, "source.paused", 0.0, None),
    ])
    .await;
    let state = |name: &str| {
        let mut sources = status.sources.iter();
        let one = sources.find(|one| one.instance == name && one.source == "cupti").unwrap();
        let (since, until) = (one.since_ms.map(|ms| ms - time / 1_000_000), one.until_ms);
        let rounded = |ms: i64| (ms + 500).div_euclid(1000);
        (one.state, one.reason.as_deref(), since.map(rounded), until.map(|ms| rounded(ms - time / 1_000_000)))
    };
    let reason = Some("job 7 has the GPUs");
    assert_eq!(state("begun"), (SourceState::Paused, reason, Some(-20), None));
    assert_eq!(state("minutes"), (SourceState::Paused, reason, Some(-142), Some(60)));
    assert_eq!(state("hour"), (SourceState::Paused, reason, Some(-3600), Some(82_800)));
    assert_eq!(state("taken"), (SourceState::Busy, reason, Some(-3600), None));
    assert_eq!(state("over"), (SourceState::Up, None, None, None));
    assert_eq!(state("restarted"), (SourceState::Silent, None, None, None));
    let sources = crate::events::sources(&client).await.unwrap();
    let paused: Vec<&str> =
        sources.iter().filter(|one| one.pause.is_some()).map(|one| one.instance.as_str()).collect();
    assert_eq!(paused, ["begun", "hour", "minutes", "taken"]);
}

#[tokio::test]
async fn sources_delivery_and_jobs() {
    let time = now();
    let (_, status) =
        written(vec![node(time), crawler(time - 3600 * SECOND), gone(time), without_gpus(time)]).await;
    let find =
        |source: &str| status.sources.iter().find(|known| known.source == source && !known.absent).unwrap();
    let sysfs = find("sysfs");
    assert_eq!((sysfs.instance.as_str(), sysfs.up, sysfs.records_discarded), ("n1", Some(true), Some(3)));
    assert!((sysfs.rows_per_second - 2.0 / 60.0).abs() < 1e-9, "{sysfs:?}");
    assert!((sysfs.newest_ms.unwrap() - time / 1_000_000).abs() <= 1, "{sysfs:?}");
    assert!(find("nvml").age_seconds.unwrap() < 3600.0 && find("mpi").rows_per_second > 0.0);
    // Down, and never a row: listed all the same.
    assert_eq!((find("cupti").up, find("cupti").newest_ms), (Some(false), None));
    assert_eq!(find("cupti").reason.as_deref(), Some("busy: a profiler has the GPU"));
    assert_eq!(find("sysfs").reason, None);
    let mad = find("mad");
    assert_eq!((mad.instance.as_str(), mad.rows_per_second), ("0xfe80000000000000", 0.0));
    assert!(mad.age_seconds.unwrap() > 3500.0, "{mad:?}");
    // One that went away does not just vanish.
    let gone = status.sources.iter().find(|known| known.instance == "n2").unwrap();
    assert_eq!((gone.source.as_str(), gone.up, gone.newest_ms), ("mpi", None, None));
    let absent = status.sources.iter().find(|known| known.instance == "n3").unwrap();
    assert_eq!((absent.absent, absent.up), (true, None));
    assert_eq!(absent.reason.as_deref(), Some("library_missing: no library"));
    // A node that went away keeps its line, with the time since it reported last.
    let [here, away] = &status.delivery[..] else { panic!("{:?}", status.delivery) };
    assert_eq!(
        (here.instance.as_str(), here.spool_entries, here.delivered_entries),
        ("n1", Some(2), Some(8))
    );
    assert!(here.age_seconds.unwrap() < 600.0);
    assert_eq!((away.instance.as_str(), away.spool_entries, away.lag_seconds), ("n2", Some(41), None));
    assert!(away.age_seconds.unwrap() >= 3600.0, "{away:?}");

    let StatusJob { job, operations } = &status.jobs[0];
    assert_eq!(
        (job.job_key.as_str(), job.state.as_str(), job.ranks, job.nodes),
        ("slurm:7", "running", 2, 1)
    );
    assert_eq!((job.user.as_deref(), job.command.as_deref()), (Some("ada"), Some("solve")));
    let names: Vec<&str> = operations.iter().map(|operation| operation.operation.as_str()).collect();
    assert_eq!(names, ["allreduce", "send"]);
    assert_eq!((operations[0].calls, operations[0].bytes), (10, 100));
    let share = job.totals.unwrap().mpi_time_share.unwrap();
    assert!((0.24..=0.25).contains(&share), "time goes on meanwhile: {job:?}");
}

#[tokio::test]
async fn a_job_has_ended_when_its_last_rank_has() {
    let time = now();
    let mut ended = Batch { node: "n1".into(), job_ranks: node(time).job_ranks, ..Batch::default() };
    ended.job_ranks.iter_mut().for_each(|rank| rank.end = time - 30 * SECOND);
    let (_, status) = written(vec![node(time), ended]).await;
    let job = &status.jobs[0].job;
    assert_eq!((job.state.as_str(), job.end_ms), ("ended", Some((time - 30 * SECOND) / 1_000_000)));
}

/// Each program once, for an hour.
#[tokio::test(flavor = "multi_thread")]
async fn programs_that_bypass_the_shim_are_named() {
    let time = now();
    let bypass = |ago: i64, text| event(time - ago * SECOND, "mpi", "mpi.bypassed", text);
    let events =
        vec![bypass(4000, "too old"), bypass(900, "julia"), bypass(60, "python3"), bypass(5, "julia")];
    let (_client, status) = written(vec![Batch { node: "n1".into(), events, ..Batch::default() }]).await;
    let named: Vec<_> = status.bypassed.iter().map(|one| (one.node.as_str(), one.text.as_str())).collect();
    assert_eq!(named, [("n1", "julia"), ("n1", "python3")]);
    assert!(
        (status.bypassed[0].time_ms - (time - 5 * SECOND) / 1_000_000).abs() <= 1,
        "{:?}",
        status.bypassed
    );
}

/// A line names the node and the user who was last over quota, as long as anybody is.
#[tokio::test(flavor = "multi_thread")]
async fn users_over_quota_are_named() {
    let time = now();
    let batch = |node: &str, users: f64| Batch {
        node: node.into(),
        self_stats: vec![figure(time, "mpi", &SOURCE_UP, 1.0), figure(time, "mpi", &OVER_QUOTA_USERS, users)],
        events: vec![event(time, "mpi", "mpi.quota", "MPI ranks of user ada (1001) are over quota (rows)")],
        ..Batch::default()
    };
    let (_client, status) = written(vec![batch("n1", 2.0), batch("n2", 0.0)]).await;
    let of = |origin: &str| status.sources.iter().find(|source| source.instance == origin).unwrap();
    assert_eq!((of("n1").over_quota_users, of("n2").over_quota_users), (Some(2), Some(0)));
    let reason = of("n1").reason.as_deref().unwrap();
    assert!(reason.contains("ada (1001)") && reason.ends_with("; 2 users in all"), "{reason}");
    assert_eq!(of("n2").reason, None);
}
