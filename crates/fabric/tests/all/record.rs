//! A crawler on a simulated fabric, a real collector and database: what the crawler's recorder has of a link comes into the database on
//! request, exactly, with the readings that rows leave out; and what can't come is reported.

use crate::simulated::daemon::{DEADLINE, Daemon};
use crate::simulated::{CRAWLER, SMALL};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_collector::Access;
use throughline_daemon::{Clock, SelfMetrics};
use throughline_recorder::{Filter, read_folder};
use throughline_sample::{Guid, catalogue, from_rfc3339, to_rfc3339};
use throughline_simfabric::{Scenario, SimFabric};
use throughline_store::{
    DetailLimits, DetailQueue, DetailReason, DetailSubject, NewDetail, TermClient, Writer, request_detail,
    testing,
};
use tokio::sync::Mutex;
use tokio_postgres::Client;
use tokio_util::sync::{CancellationToken, DropGuard};

const SECOND: i64 = 1_000_000_000;

/// A reading: its port, when it was made (UTC microseconds), and its counters by name.
type Readings = BTreeMap<(Guid, u32, i64), BTreeMap<&'static str, i64>>;

struct Site {
    client: Client,
    fabric: SimFabric,
    folder: tempfile::TempDir,
    collector: String,
    _stop: DropGuard,
}

impl Site {
    async fn start() -> Site {
        let database = testing::database().await;
        let client = database.connect().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector = listener.local_addr().unwrap().to_string();
        let stop = CancellationToken::new();
        tokio::spawn(throughline_collector::run(
            listener,
            vec![Writer::new(database.clone())],
            Arc::new(Mutex::new(TermClient::new(database.clone()))),
            DetailQueue::new(database.clone()),
            Access::default(),
            SelfMetrics::default(),
            "n".into(),
            stop.clone(),
        ));
        let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Site { client, fabric, folder, collector, _stop: stop.drop_guard() }
    }

    fn crawler(&self, recorder: &str) -> Daemon {
        let mut command = Command::new(CRAWLER);
        command.arg("--transport").arg(self.fabric.via().to_string()).current_dir(self.folder.path());
        let configuration = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{}'\n[sweep]\n\
             interval_seconds = 0.25\n[recorder]\n{recorder}\n",
            self.collector
        );
        Daemon::spawn(command, &configuration, "state".into())
    }

    fn ring(&self) -> PathBuf {
        self.folder.path().join("state/fabric-recorder")
    }

    async fn number(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error}")).get(0)
    }

    async fn until(&self, query: &str, is_so: impl Fn(i64) -> bool) {
        let begin = Instant::now();
        while !is_so(self.number(query).await) {
            assert!(begin.elapsed() < DEADLINE, "{query}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The ports at both ends of some link, and their names.
    async fn link(&self) -> ([i64; 2], Vec<(u64, u32)>) {
        self.until("SELECT count(*) FROM internal.ib_link WHERE valid_to IS NULL", |count| count > 0).await;
        let query = "SELECT p.id, n.guid, p.port FROM (SELECT * FROM internal.ib_link WHERE valid_to IS NULL ORDER BY port_a_id LIMIT 1) l \
                     JOIN internal.ib_port_key p ON p.id IN (l.port_a_id, l.port_b_id) JOIN internal.ib_node_key n ON n.id = p.ib_node_id";
        let rows = self.client.query(query, &[]).await.unwrap();
        let port = |row: &tokio_postgres::Row| {
            let guid: Guid = row.get::<_, String>(1).parse().unwrap();
            (guid.0, u32::try_from(row.get::<_, i32>(2)).unwrap())
        };
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        (ids.try_into().unwrap(), rows.iter().map(port).collect())
    }

    /// Requests a time (UTC nanoseconds, whole milliseconds) and waits until it is answered: state, records, refusal and remark.
    async fn request(
        &mut self,
        ports: [i64; 2],
        times: &Range<i64>,
    ) -> (String, i64, Option<String>, String) {
        let new = NewDetail {
            requested_by: "local:7".into(),
            turn: None,
            reason: DetailReason::Person,
            subject: DetailSubject::Link(ports),
            from: times.start / 1_000_000,
            to: times.end / 1_000_000,
            resolution: 0.0,
        };
        let made = request_detail(&mut self.client, &new, &DetailLimits::default()).await.unwrap().unwrap();
        let open = format!(
            "SELECT count(*) FROM internal.detail_request_node WHERE request_id = {made} AND state IN ('waiting', 'sent', 'receiving')"
        );
        self.until(&open, |count| count == 0).await;
        let query = "SELECT state, records, refusal, coalesce(remark, '') FROM internal.detail_request_node WHERE request_id = $1";
        let row = self.client.query_one(query, &[&made]).await.unwrap();
        (row.get(0), row.get(1), row.get(2), row.get(3))
    }

    /// What the ring has of ports.
    fn recorded(&self, ports: &[(u64, u32)], times: Range<i64>) -> Readings {
        let filter = Filter { ports: ports.to_vec(), ..Filter::default() };
        let mut readings = Readings::new();
        for batch in read_folder(&self.ring(), times, filter).unwrap() {
            for sample in batch.unwrap().ib_ports {
                let values = sample.values.unwrap_or_default();
                let named = values.metric.iter().zip(values.value);
                let named =
                    named.map(|(id, value)| (catalogue::by_id(*id).unwrap().name, value.cast_signed()));
                readings.insert(
                    (Guid(sample.node_guid), sample.port, sample.time.div_euclid(1000)),
                    named.collect(),
                );
            }
        }
        readings
    }

    /// What `throughline-fabric recorder` prints of a port: its readings with all counters.
    fn printed(&self, (guid, port): (u64, u32), times: &Range<i64>) -> Readings {
        let mut command = Command::new(CRAWLER);
        command.args(["recorder", "--json", "--of", &format!("{}/{port}", Guid(guid)), "--state-dir"]);
        command.arg(self.folder.path().join("state"));
        let output = command
            .args(["--from", &to_rfc3339(times.start), "--to", &to_rfc3339(times.end)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        let readings = lines.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let metrics = catalogue::Table::IbPortCounters.metrics().iter();
            let values = metrics.filter_map(|metric| Some((metric.name, line[metric.name].as_i64()?)));
            let time = from_rfc3339(line["time"].as_str().unwrap()).unwrap().div_euclid(1000);
            let guid: Guid = line["node_guid"].as_str().unwrap().parse().unwrap();
            let port = u32::try_from(line["port"].as_u64().unwrap()).unwrap();
            ((guid, port, time), values.collect())
        });
        readings.collect()
    }

    /// What the database has of them.
    async fn fetched(&self) -> Readings {
        let query = "SELECT n.guid, p.port, (extract(epoch FROM d.time) * 1000000)::bigint, \
                        (to_jsonb(d) - ARRAY['time', 'port_id', 'epoch', 'source', 'saturated'])::text \
                     FROM internal.detail_ib_ports d JOIN internal.ib_port_key p ON p.id = d.port_id JOIN internal.ib_node_key n ON n.id = p.ib_node_id";
        let mut readings = Readings::new();
        for row in self.client.query(query, &[]).await.unwrap() {
            let columns: serde_json::Value = serde_json::from_str(row.get(3)).unwrap();
            let metrics = catalogue::Table::IbPortCounters.metrics().iter();
            let values = metrics.filter_map(|metric| Some((metric.name, columns[metric.name].as_i64()?)));
            let guid: Guid = row.get::<_, String>(0).parse().unwrap();
            let port = u32::try_from(row.get::<_, i32>(1)).unwrap();
            readings.insert((guid, port, row.get(2)), values.collect());
        }
        readings
    }
}

/// This machine's clock in whole milliseconds, as nanoseconds.
fn now() -> i64 {
    Clock::new().now() / 1_000_000 * 1_000_000
}

#[tokio::test(flavor = "multi_thread")]
async fn a_links_readings_are_fetched_exactly_and_refusals_are_reported() {
    let mut site = Site::start().await;
    let mut crawler = site.crawler("enabled = true");
    let (ids, ports) = site.link().await;
    // Each port is read four times a second; rows of ports that stand still come once a minute.
    let begin = now();
    let has_some = |readings: &Readings| readings.len() >= 12;
    let start = Instant::now();
    while !has_some(&site.recorded(&ports, begin..i64::MAX)) {
        assert!(start.elapsed() < DEADLINE, "no readings in the ring");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let times = begin..now();
    let (state, records, refusal, remark) = site.request(ids, &times).await;
    assert_eq!((state.as_str(), refusal), ("done", None), "{remark}");
    let (recorded, fetched) = (site.recorded(&ports, times.clone()), site.fetched().await);
    assert_eq!(fetched, recorded);
    assert_eq!((records, has_some(&recorded)), (i64::try_from(recorded.len()).unwrap(), true));
    assert!(recorded.values().all(|values| values.contains_key("transmit_data_bytes")), "{recorded:?}");
    let printed: Readings = ports.iter().flat_map(|port| site.printed(*port, &times)).collect();
    assert_eq!(printed, recorded);
    let query =
        format!("SELECT count(*) FROM internal.ib_port_counters WHERE port_id IN ({}, {})", ids[0], ids[1]);
    assert!(site.number(&query).await < records, "rows leave out what did not change");
    // Requested again each is there once.
    let (state, again, ..) = site.request(ids, &times).await;
    assert_eq!((state.as_str(), again, site.fetched().await), ("done", records, recorded));
    // From before the crawler there is nothing.
    let (state, _, _, remark) = site.request(ids, &(begin - 600 * SECOND..begin - 500 * SECOND)).await;
    assert_eq!(state, "incomplete");
    assert!(remark.contains("fabric.toml"), "{remark}");
    let page = crawler.metrics();
    for series in ["throughline_recorder_bytes{", "throughline_detail_records_total{"] {
        assert!(
            page.lines().any(|line| line.starts_with(series) && !line.ends_with(" 0")),
            "{series}\n{page}"
        );
    }
    assert_eq!(crawler.stop(), 0);
    drop(crawler);

    let mut without = site.crawler("enabled = false");
    let (state, records, refusal, remark) = site.request(ids, &times).await;
    assert_eq!((state.as_str(), records, refusal.as_deref()), ("refused", 0, Some("off")));
    assert!(remark.contains("[recorder] of fabric.toml"), "{remark}");
    assert_eq!(without.stop(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_crawler_has_written_stays() {
    let site = Site::start().await;
    let crawler = site.crawler("enabled = true");
    let (_, ports) = site.link().await;
    let begin = now();
    let newest = || site.recorded(&ports, begin..i64::MAX).keys().map(|(_, _, time)| *time).max();
    let start = Instant::now();
    while newest().is_none_or(|newest| newest * 1000 < begin + 3 * SECOND) {
        assert!(start.elapsed() < DEADLINE, "no readings in the ring");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let before = site.recorded(&ports, begin..i64::MAX);
    // Dropped, it is killed.
    drop(crawler);
    let after = site.recorded(&ports, begin..i64::MAX);
    assert!(before.iter().all(|(key, values)| after.get(key) == Some(values)), "what was written stays");
    let mut next = site.crawler("enabled = true");
    let restarted = now();
    let start = Instant::now();
    while site.recorded(&ports, restarted..i64::MAX).is_empty() {
        assert!(start.elapsed() < DEADLINE, "the next crawler records on");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(before.iter().all(|(key, _)| site.recorded(&ports, begin..i64::MAX).contains_key(key)));
    assert_eq!(next.stop(), 0);
}
