//! Receivers of remote write: VictoriaMetrics as a cluster and as a single node, and Prometheus.

use crate::process::{Process, free_port};
use anyhow::Context;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// What the bench calls one, as in `export_target`.
pub type Name = &'static str;

/// Labels of a series but for its name, and its samples as they came: (milliseconds since 1970, value).
pub type Series = BTreeMap<BTreeMap<String, String>, Vec<(i64, f64)>>;

/// A receiver with its programs.
pub struct Receiver {
    pub name: Name,
    /// Where it takes requests.
    pub write_url: String,
    /// Version of remote write that is sent to it.
    pub protocol: u8,
    /// Before `/api/v1/…`.
    pub api: String,
    is_victoria: bool,
    flush_urls: Vec<String>,
    /// What takes requests; stopped while the receiver is away.
    front: Process,
    /// What is killed and restarted while the receiver is there: a vmstorage of two, or Prometheus itself.
    storage: Option<Process>,
    others: Vec<Process>,
}

impl Receiver {
    /// vminsert, two vmstorage that both have all samples, and vmselect.
    pub fn cluster(programs: &Path, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("cluster");
        std::fs::create_dir_all(&folder)?;
        let log = |name: &str| folder.join(format!("{name}.log"));
        let (mut storages, mut inserts, mut selects) = (Vec::new(), Vec::new(), Vec::new());
        let mut flush_urls = Vec::new();
        for number in 0..2 {
            let [http, insert, select] = [free_port()?, free_port()?, free_port()?];
            let arguments = vec![
                format!("-storageDataPath={}", folder.join(format!("data{number}")).display()),
                format!("-httpListenAddr=127.0.0.1:{http}"),
                format!("-vminsertAddr=127.0.0.1:{insert}"),
                format!("-vmselectAddr=127.0.0.1:{select}"),
                "-retentionPeriod=100y".into(),
                "-dedup.minScrapeInterval=1ms".into(),
            ];
            let ready = format!("http://127.0.0.1:{http}/metrics");
            let name = format!("vmstorage{number}");
            let mut storage = Process::new(&programs.join("vmstorage"), arguments, log(&name), Some(ready));
            storage.start()?;
            storages.push(storage);
            flush_urls.push(format!("http://127.0.0.1:{http}/internal/force_flush"));
            inserts.push(format!("127.0.0.1:{insert}"));
            selects.push(format!("127.0.0.1:{select}"));
        }
        let (insert, select) = (free_port()?, free_port()?);
        let arguments = vec![
            format!("-httpListenAddr=127.0.0.1:{insert}"),
            format!("-storageNode={}", inserts.join(",")),
            "-replicationFactor=2".into(),
        ];
        let ready = |port: u16| Some(format!("http://127.0.0.1:{port}/metrics"));
        let mut front = Process::new(&programs.join("vminsert"), arguments, log("vminsert"), ready(insert));
        front.start()?;
        let arguments = vec![
            format!("-httpListenAddr=127.0.0.1:{select}"),
            format!("-storageNode={}", selects.join(",")),
            format!("-cacheDataPath={}", folder.join("cache").display()),
            "-dedup.minScrapeInterval=1ms".into(),
            "-replicationFactor=2".into(),
            "-search.disableCache".into(),
            "-search.latencyOffset=0s".into(),
        ];
        let mut vmselect =
            Process::new(&programs.join("vmselect"), arguments, log("vmselect"), ready(select));
        vmselect.start()?;
        let storage = storages.pop();
        storages.push(vmselect);
        Ok(Self {
            name: "cluster",
            write_url: format!("http://127.0.0.1:{insert}/insert/0/prometheus/api/v1/write"),
            protocol: 1,
            api: format!("http://127.0.0.1:{select}/select/0/prometheus"),
            is_victoria: true,
            flush_urls,
            front,
            storage,
            others: storages,
        })
    }

    /// VictoriaMetrics in one process.
    pub fn single(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("single");
        std::fs::create_dir_all(&folder)?;
        let port = free_port()?;
        let arguments = vec![
            format!("-storageDataPath={}", folder.join("data").display()),
            format!("-httpListenAddr=127.0.0.1:{port}"),
            "-retentionPeriod=100y".into(),
            "-dedup.minScrapeInterval=1ms".into(),
            "-search.disableCache".into(),
            "-search.latencyOffset=0s".into(),
        ];
        let ready = Some(format!("http://127.0.0.1:{port}/metrics"));
        let mut front = Process::new(program, arguments, folder.join("log"), ready);
        front.start()?;
        Ok(Self {
            name: "single",
            write_url: format!("http://127.0.0.1:{port}/api/v1/write"),
            protocol: 1,
            api: format!("http://127.0.0.1:{port}"),
            is_victoria: true,
            flush_urls: vec![format!("http://127.0.0.1:{port}/internal/force_flush")],
            front,
            storage: None,
            others: Vec::new(),
        })
    }

    /// Prometheus; protocol 2 needs its third version.
    pub fn prometheus(program: &Path, protocol: u8, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("prometheus");
        std::fs::create_dir_all(&folder)?;
        let (config, port) = (folder.join("prometheus.yml"), free_port()?);
        std::fs::write(&config, "storage: { tsdb: { out_of_order_time_window: 1d } }\n")?;
        let arguments = vec![
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--web.enable-remote-write-receiver".into(),
        ];
        let ready = Some(format!("http://127.0.0.1:{port}/-/ready"));
        let mut front = Process::new(program, arguments, folder.join("log"), ready);
        front.start()?;
        Ok(Self {
            name: "prometheus",
            write_url: format!("http://127.0.0.1:{port}/api/v1/write"),
            protocol,
            api: format!("http://127.0.0.1:{port}"),
            is_victoria: false,
            flush_urls: Vec::new(),
            front,
            storage: None,
            others: Vec::new(),
        })
    }

    /// It goes in order, as for maintenance: what takes requests ends.
    pub fn leave(&mut self) -> anyhow::Result<()> {
        self.front.stop()
    }

    /// It is there again.
    pub fn come_back(&mut self) -> anyhow::Result<()> {
        self.front.start()
    }

    /// Kills what may be killed without a loss by the receiver's own rules: one vmstorage of two, or Prometheus, which
    /// has a write-ahead log. A single VictoriaMetrics has none: it writes what it acknowledged to disk within 5 s. What died.
    pub fn crash(&mut self) -> Option<&'static str> {
        if let Some(storage) = &mut self.storage {
            storage.kill();
            return Some("vmstorage 1 of 2");
        }
        if self.is_victoria {
            return None;
        }
        self.front.kill();
        Some("Prometheus")
    }

    /// Whether [`Receiver::crash`] kills anything.
    pub fn can_crash(&self) -> bool {
        self.storage.is_some() || !self.is_victoria
    }

    /// What was killed is started again.
    pub fn recover(&mut self) -> anyhow::Result<()> {
        self.storage.as_mut().unwrap_or(&mut self.front).start()
    }

    fn get(&self, path: &str) -> anyhow::Result<ureq::Body> {
        let url = format!("{}{path}", self.api);
        Ok(ureq::get(&url).call().with_context(|| url.clone())?.into_body())
    }

    fn json(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_reader(self.get(path)?.into_reader())?)
    }

    /// Names of all metrics that it has.
    pub fn names(&self, (begin, end): (i64, i64)) -> anyhow::Result<Vec<String>> {
        let answer = self.json(&format!("/api/v1/label/__name__/values?start={begin}&end={end}"))?;
        Ok(serde_json::from_value(answer["data"].clone())?)
    }

    /// All samples of a metric from `begin` to `end`, seconds since 1970. `is_raw`: also those that a reader of VictoriaMetrics
    /// does not get, because another has the same time.
    pub fn samples(&self, name: &str, (begin, end): (i64, i64), is_raw: bool) -> anyhow::Result<Series> {
        if self.is_victoria {
            self.exported(name, (begin, end), is_raw)
        } else {
            self.queried(name, (begin, end))
        }
    }

    /// `/api/v1/export`: with `reduce_mem_usage` blocks come as they are stored, of each vmstorage.
    fn exported(&self, name: &str, (begin, end): (i64, i64), is_raw: bool) -> anyhow::Result<Series> {
        let raw = if is_raw { "&reduce_mem_usage=1" } else { "" };
        let path = format!("/api/v1/export?match[]={name}&start={begin}&end={end}{raw}");
        let mut all = Series::new();
        for line in BufReader::new(self.get(&path)?.into_reader()).lines() {
            let line: Value = serde_json::from_str(&line?)?;
            let times = line["timestamps"].as_array().context("timestamps")?;
            let values = line["values"].as_array().context("values")?;
            let pairs = times.iter().zip(values);
            let pairs = pairs.filter_map(|(time, value)| Some((time.as_i64()?, value.as_f64()?)));
            all.entry(labels(&line["metric"])).or_default().extend(pairs);
        }
        Ok(all)
    }

    fn queried(&self, name: &str, (begin, end): (i64, i64)) -> anyhow::Result<Series> {
        let path = format!("/api/v1/query?query={name}[{}s]&time={end}", end - begin);
        let answer = self.json(&path)?;
        let mut all = Series::new();
        for series in answer["data"]["result"].as_array().context("result")? {
            let pairs = series["values"].as_array().context("values")?.iter();
            #[allow(clippy::cast_possible_truncation)] // milliseconds
            let pairs = pairs.filter_map(|pair| {
                let time = (pair[0].as_f64()? * 1e3).round() as i64;
                Some((time, pair[1].as_str()?.parse().ok()?))
            });
            all.entry(labels(&series["metric"])).or_default().extend(pairs);
        }
        Ok(all)
    }

    /// What waits in memory can be read.
    pub fn flush(&self) {
        for url in &self.flush_urls {
            // It is read some seconds later anyway.
            let _ = ureq::get(url).call();
        }
    }

    /// Stops everything.
    pub fn end(&mut self) {
        for process in self.others.iter_mut().chain(&mut self.storage).chain([&mut self.front]) {
            process.kill();
        }
    }
}

fn labels(metric: &Value) -> BTreeMap<String, String> {
    let pairs = metric.as_object().into_iter().flatten();
    let pairs = pairs.filter(|(name, _)| *name != "__name__");
    pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}
