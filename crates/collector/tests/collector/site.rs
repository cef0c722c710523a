//! A collector with TLS on a real database, and senders with certificates.
#![allow(dead_code)] // Each test file uses some of it.

use std::sync::Arc;
use std::time::Duration;

use throughline_collector::{Access, Crawlers, run};
use throughline_daemon::{Clock, SelfMetrics};
use throughline_delivery::{GrpcSink, OnRefusal, ShipStats, Sink, TlsFiles, ship};
use throughline_sample::Message;
use throughline_sample::catalogue::RECORDS_REJECTED;
use throughline_sample::wire::*;
use throughline_spool::{Class, Config, Entry, Spool};
use throughline_store::{Database, TermClient, Writer, testing};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Generous: tests wait for conditions.
pub const DEADLINE: Duration = Duration::from_secs(60);
pub const SECOND: i64 = 1_000_000_000;
pub const HOUR: i64 = 3600 * SECOND;
pub const PREFIX: u64 = 0xfe80_0000_0000_0000;

pub fn now() -> i64 {
    Clock::new().now()
}

/// Certificates of an authority, as files.
pub struct Authority {
    folder: tempfile::TempDir,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    pub fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let mut of_it = rcgen::CertificateParams::new(Vec::new()).unwrap();
        of_it.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = of_it.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Authority { folder, issuer: rcgen::Issuer::new(of_it, key) }
    }

    /// Files of somebody with this name, who trusts this authority.
    pub fn files(&self, name: &str) -> TlsFiles {
        self.files_with(name, &[name])
    }

    /// The same with these names in the certificate.
    pub fn files_with(&self, name: &str, names: &[&str]) -> TlsFiles {
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let of_it = rcgen::CertificateParams::new(names).unwrap();
        let certificate = of_it.signed_by(&key, &self.issuer).unwrap();
        let path = |kind: &str| self.folder.path().join(format!("{name}.{kind}.pem"));
        std::fs::write(path("certificate"), certificate.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        TlsFiles { ca: self.folder.path().join("ca.pem"), certificate: path("certificate"), key: path("key") }
    }
}

/// Writers of the collector.
const WRITERS: usize = 3;

/// The collector.
pub struct Site {
    pub database: Database,
    pub client: tokio_postgres::Client,
    pub metrics: SelfMetrics,
    pub authority: Authority,
    pub url: String,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Site {
    /// `fab1` is a crawler of [`PREFIX`].
    pub async fn start() -> Site {
        let database = testing::database().await;
        let writers = (0..WRITERS).map(|_| Writer::new(database.clone())).collect();
        Site::start_with(database, writers).await
    }

    pub async fn start_with(database: Database, writers: Vec<Writer>) -> Site {
        Site::start_as(database, writers, Access::default()).await
    }

    /// With these quotas and this list of what is barred; certificates and crawlers are those of every site.
    pub async fn start_as(database: Database, writers: Vec<Writer>, access: Access) -> Site {
        let authority = Authority::new();
        let client = database.connect().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let crawlers =
            Crawlers::default().with("fab1".into(), [throughline_sample::Guid(PREFIX).to_string()]);
        let access = Access { tls: Some(authority.files("localhost")), crawlers, ..access };
        let (metrics, stop) = (SelfMetrics::default(), CancellationToken::new());
        let terms = Arc::new(Mutex::new(TermClient::new(database.clone())));
        let work = run(
            listener,
            writers,
            terms,
            throughline_collector::NoDetail,
            access,
            metrics.clone(),
            "server".into(),
            stop.clone(),
        );
        let task = tokio::spawn(work);
        Site { database, client, metrics, authority, url, stop, task }
    }

    pub fn sink(&self, name: &str) -> GrpcSink {
        GrpcSink::with_tls(&self.url, Some(self.authority.files(name))).unwrap()
    }

    /// Sends entries with a certificate over one stream; the answer to the last, or why the stream ended.
    pub async fn put(&self, name: &str, entries: &[(Uuid, u64, Vec<u8>)]) -> Result<(), String> {
        Site::put_through(&self.sink(name), entries).await
    }

    /// The same with the certificate of this sink.
    pub async fn put_through(sink: &GrpcSink, entries: &[(Uuid, u64, Vec<u8>)]) -> Result<(), String> {
        let work = async {
            let mut session = sink.connect(OnRefusal::End).await.map_err(|error| error.to_string())?;
            for (spool_id, sequence, payload) in entries {
                let (spool_id, sequence, payload) = (*spool_id, *sequence, payload.clone().into());
                let entry = Entry { spool_id, sequence, class: Class::Precious, appended_ns: 0, payload };
                if session.entries.send(entry).await.is_err() {
                    break;
                }
            }
            let last = entries.last().unwrap();
            loop {
                match session.next_ack().await {
                    Some(Ok(ack)) if ack.sequence >= last.1 => return Ok(()),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.to_string()),
                    None => return Err("the stream ended".into()),
                }
            }
        };
        tokio::time::timeout(DEADLINE, work).await.expect("an answer")
    }

    /// One batch in a spool of its own.
    pub async fn batch(&self, name: &str, batch: &Batch) -> Result<(), String> {
        self.put(name, &[(Uuid::new_v4(), 1, batch.encode_to_vec())]).await
    }

    /// A spool that is emptied like an agent's.
    pub fn ship(&self, name: &str) -> Shipping {
        let spool = Spool::in_memory(Config::default()).unwrap();
        let (sink, stop) = (self.sink(name), CancellationToken::new());
        let task = tokio::spawn({
            let (spool, stop) = (spool.clone(), stop.clone());
            async move { ship(&spool, &sink, stop, &ShipStats::default()).await }
        });
        Shipping { spool, stop, task }
    }

    pub async fn number(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }

    pub async fn texts(&self, query: &str) -> Vec<String> {
        self.client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    pub fn rejected(&self, reason: &'static str) -> u64 {
        self.metrics.get(("collector", reason), &RECORDS_REJECTED).unwrap_or(0.0) as u64
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// A sender with its spool.
pub struct Shipping {
    pub spool: Spool,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Shipping {
    pub fn append(&self, batch: &Batch) {
        self.spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
    }

    /// Waits until all is acknowledged.
    pub async fn end(self) {
        let end = tokio::time::Instant::now() + DEADLINE;
        while self.spool.stats().backlog_entries > 0 {
            assert!(tokio::time::Instant::now() < end, "delivery did not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

pub fn event(time: i64, text: &str) -> Event {
    Event {
        time,
        source: "mpi".into(),
        kind: "test".into(),
        severity: "info".into(),
        text: text.into(),
        ..Event::default()
    }
}

pub fn job(key: &str, uid: u32, evidence: &str) -> Job {
    Job {
        key: key.into(),
        scheduler: "slurm".into(),
        uid,
        user: format!("user{uid}"),
        command: "./solver".into(),
        start: now() - SECOND,
        world_size: 2,
        evidence: evidence.into(),
        ..Job::default()
    }
}

pub fn rank(key: &str, rank: u32, host: &str) -> JobRank {
    JobRank {
        job_key: key.into(),
        rank,
        pid: 1,
        world_size: 2,
        mpi_library: "Open MPI".into(),
        start: now() - SECOND,
        host: host.into(),
        ..JobRank::default()
    }
}

pub fn bin(key: &str, rank: u32, time: i64) -> MpiRankBin {
    let cell = MpiOpCell { operation: "bcast".into(), calls: 1, bytes: 8, ..MpiOpCell::default() };
    MpiRankBin {
        time,
        epoch: time.wrapping_sub(SECOND),
        job_key: key.into(),
        rank,
        source: "pmpi".into(),
        cells: vec![cell],
    }
}
