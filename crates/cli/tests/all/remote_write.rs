//! `[export] remote_write` against a real Prometheus: every sample arrives once, though `serve` and Prometheus are killed and
//! a node's samples come late.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throughline_prefix::{Set, ensure};
use throughline_sample::catalogue::{NVLINK_TRANSMIT_BYTES, RECORDS};
use throughline_sample::wire::{Batch, GpuInfo, GpuLinkInfo, GpuLinksSample, LinkValues, SelfStat, Values};
use throughline_store::{Content, Database, Entry, ExportTarget, Sender, Writer, testing};

const SECOND: i64 = 1_000_000_000;

/// Samples of so many seconds.
pub const LENGTH: i64 = 600;

/// On a busy machine; each wait ends as soon as it can.
const LIMIT: Duration = Duration::from_secs(300);

/// A process that is killed when the test ends, however it ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL: neither end has time to put anything in order.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A reading of a node's GPU at a time.
pub fn batch(node: &str, time: i64, tick: i64) -> Batch {
    let uuid = format!("GPU-{node}");
    let link = |number: u32| {
        let mut values = Values::default();
        values.put(&NVLINK_TRANSMIT_BYTES, tick.cast_unsigned() * 1000 + u64::from(number));
        LinkValues { link: number, values: Some(values) }
    };
    let info = |link| GpuLinkInfo {
        gpu_uuid: uuid.clone(),
        link,
        active: true,
        remote_type: "switch".into(),
        ..GpuLinkInfo::default()
    };
    Batch {
        node: node.into(),
        gpus: vec![GpuInfo { uuid: uuid.clone(), name: "H200".into(), ..GpuInfo::default() }],
        gpu_link_infos: [0, 1].map(info).to_vec(),
        gpu_links: vec![GpuLinksSample {
            gpu_uuid: uuid.clone(),
            time,
            epoch: time - tick * SECOND,
            source: "nvml".into(),
            links: [0, 1].map(link).to_vec(),
        }],
        self_stats: vec![SelfStat {
            time,
            source: "nvml".into(),
            name: RECORDS.name.into(),
            value: tick as f64,
            ..SelfStat::default()
        }],
        ..Batch::default()
    }
}

/// Writes what a node has each second, as its spool delivers it.
pub async fn write(database: &Database, node: u32, begin: i64) {
    let entry = |tick: i64| Entry {
        spool_id: uuid::Uuid::from_u64_pair(node.into(), begin.cast_unsigned()),
        sequence: tick.cast_unsigned() + 1,
        content: Content::Batch(batch(&format!("n{node}"), (begin + 1 + tick) * SECOND, tick)),
        sender: Sender::default(),
    };
    let entries: Vec<Entry> = (0..LENGTH).map(entry).collect();
    let mut writer = Writer::new(database.clone());
    for some in entries.chunks(60) {
        assert_eq!(writer.write(some).await.unwrap().quarantined, 0);
    }
}

pub fn prometheus(folder: &Path, port: u16) -> Running {
    let program = ensure(Set::Fabric).unwrap().program("prometheus");
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let child = Command::new(program)
        .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--web.enable-remote-write-receiver")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    Running(child)
}

pub fn serve(configuration: &Path, database: &Database) -> Running {
    let folder = database.socket_folder().unwrap();
    let url = format!("host={} user=throughline dbname={}", folder.display(), database.name());
    let child = Command::new(env!("CARGO_BIN_EXE_throughline"))
        .args(["serve", "--log-level", "warn", "--config", configuration.to_str().unwrap()])
        .args(["--database-url", &url])
        .env("THROUGHLINE__COLLECT__ENABLED", "false")
        .env("THROUGHLINE__UPKEEP__ENABLED", "false")
        .env("THROUGHLINE__QUERY__LISTEN", "127.0.0.1:0")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Running(child)
}

/// Waits until the position is such.
pub async fn reached(database: &Database, is_there: impl Fn(&ExportTarget) -> bool) -> ExportTarget {
    let client = database.connect().await.unwrap();
    let deadline = Instant::now() + LIMIT;
    loop {
        let target = ExportTarget::open(&client, "test", 0).await.unwrap();
        if is_there(&target) {
            return target;
        }
        assert!(Instant::now() < deadline, "{target:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Answer of Prometheus to an instant query.
fn query(port: u16, expression: &str, at: i64) -> serde_json::Value {
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let request = format!("GET /api/v1/query?query={encoded}&time={at} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let mut answer = String::new();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let answer: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(answer["status"], "success", "{answer}");
    answer["data"]["result"].clone()
}

fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = String::new();
    let sent = stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n");
    sent.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains(" 200 ")
}

/// Samples of a name in Prometheus: by instance and link or source, (second, value).
fn samples(port: u16, name: &str, at: i64) -> BTreeMap<String, Vec<(i64, i64)>> {
    let found = query(port, &format!("{name}[30m]"), at);
    let series = found.as_array().unwrap().iter().map(|one| {
        let label = |name: &str| one["metric"][name].as_str().unwrap_or_default().to_owned();
        let value = |pair: &serde_json::Value| {
            let value: f64 = pair[1].as_str().unwrap().parse().unwrap();
            (pair[0].as_f64().unwrap() as i64, value as i64)
        };
        let values = one["values"].as_array().unwrap().iter().map(value).collect();
        (format!("{} {}{}", label("instance"), label("link"), label("source")), values)
    });
    series.collect()
}

/// `out_of_order` is how far back Prometheus takes samples; with none there is no late node.
async fn every_sample_arrives_once(out_of_order: Option<&str>) {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let end = (now - 20) / 10 * 10;
    let begin = end - LENGTH;
    ExportTarget::open(&client, "test", begin * 1000).await.unwrap();
    for node in 1..=3 {
        write(&database, node, begin).await;
    }

    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let window =
        out_of_order.map(|window| format!("storage: {{ tsdb: {{ out_of_order_time_window: {window} }} }}\n"));
    std::fs::write(folder.path().join("prometheus.yml"), window.unwrap_or_default()).unwrap();
    let configuration = folder.path().join("server.toml");
    let text = format!(
        "[export]\nremote_write = [{{ name = 'test', url = 'http://127.0.0.1:{port}/api/v1/write', delay_seconds = 1, \
         samples_per_request = 50 }}]\n"
    );
    std::fs::write(&configuration, text).unwrap();

    // Nobody is there at first.
    let mut server = serve(&configuration, &database);
    let mut receiver = prometheus(folder.path(), port);
    let mut generator = fastrand::Rng::with_seed(out_of_order.map_or(1, |_| 2));
    for round in 0..8 {
        let before = reached(&database, |_| true).await.acknowledged;
        let some = generator.u64(1..600);
        let target = reached(&database, |target| target.acknowledged >= before + some).await;
        if round == 3 {
            drop(receiver);
            receiver = prometheus(folder.path(), port);
        } else {
            drop(server);
            server = serve(&configuration, &database);
        }
        if round == 5 && out_of_order.is_some() {
            assert!(target.exported_until > begin * 1000, "{target:?}");
            write(&database, 4, begin).await;
        }
    }
    reached(&database, |target| target.exported_until >= end * 1000 && target.window_end.is_none()).await;
    let deadline = Instant::now() + LIMIT;
    loop {
        let target = reached(&database, |_| true).await;
        if is_ready(port) && target.window_end.is_none() && target.late(&client, 1).await.unwrap().is_empty()
        {
            break;
        }
        assert!(Instant::now() < deadline, "{target:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(server);

    let nodes = if out_of_order.is_some() { 1..=4 } else { 1..=3 };
    let expected = |value: &dyn Fn(i64) -> i64| -> Vec<(i64, i64)> {
        (0..LENGTH).map(|tick| (begin + 1 + tick, value(tick))).collect()
    };
    let links = samples(port, "throughline_nvlink_transmit_bytes_total", end);
    let records = samples(port, "throughline_records_total", end);
    for node in nodes.clone() {
        for link in 0..2 {
            let found = &links[&format!("n{node} {link}")];
            assert!(
                *found == expected(&|tick| tick * 1000 + link),
                "n{node} {link}: {} samples",
                found.len()
            );
        }
        let found = &records[&format!("n{node} nvml")];
        assert!(*found == expected(&|tick| tick), "n{node}: {} samples", found.len());
    }
    assert_eq!(links.len(), nodes.clone().count() * 2);
    // What was acknowledged is what is there, no more and no less.
    let target = reached(&database, |_| true).await;
    let count = query(port, "sum(count_over_time({__name__=~\"throughline_.*\"}[30m]))", now + 600);
    let count: f64 = count[0]["value"][1].as_str().unwrap().parse().unwrap();
    assert_eq!(count as u64, target.acknowledged);
    assert!(target.acknowledged >= LENGTH.cast_unsigned() * 3 * nodes.count() as u64);
    drop(receiver);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_arrives_once_though_both_ends_are_killed_and_a_node_is_late() {
    every_sample_arrives_once(Some("2h")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_takes_nothing_out_of_order_has_every_sample_too() {
    every_sample_arrives_once(None).await;
}
