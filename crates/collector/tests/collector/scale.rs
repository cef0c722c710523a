//! A thousand senders at once: what a collector and a database on this machine take.

use std::sync::Arc;
use std::time::{Duration, Instant};

use throughline_collector::{Access, run};
use throughline_daemon::{Clock, SelfMetrics};
use throughline_delivery::{GrpcSink, ShipStats, ship};
use throughline_sample::Message;
use throughline_sample::catalogue::COMMITS;
use throughline_sample::wire::{Batch, JobRank, MpiPvarSample};
use throughline_spool::{Class, Config, Spool};
use throughline_store::{TermClient, Writer, testing};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

const SENDERS: usize = 1000;
const ENTRIES: usize = 10;
const ROWS: u32 = 50;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a quiet machine: prints a rate, for make soak"]
async fn a_thousand_senders() {
    let database = testing::database().await;
    let (stop, metrics) = (CancellationToken::new(), SelfMetrics::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let writer = Writer::new(database.clone());
    let terms = Arc::new(Mutex::new(TermClient::new(database.clone())));
    let collector = tokio::spawn(run(
        listener,
        vec![writer],
        terms,
        throughline_collector::NoDetail,
        Access::default(),
        metrics.clone(),
        "n".into(),
        stop.clone(),
    ));
    let began = Instant::now();
    let mut senders = Vec::new();
    for sender in 0..SENDERS {
        let sink = GrpcSink::new(&url).unwrap();
        senders.push(tokio::spawn(async move {
            let config = Config { memory_bytes_max: 1 << 20, segment_bytes_max: 65536, ..Config::default() };
            let (spool, stats) = (Spool::in_memory(config).unwrap(), ShipStats::default());
            for entry in 0..ENTRIES {
                let time = Clock::new().now() + i64::try_from(entry).unwrap();
                let pvar = |element| MpiPvarSample {
                    time,
                    job_key: "local:scale".into(),
                    rank: u32::try_from(sender).unwrap(),
                    name: "posted_recvq_length".into(),
                    element,
                    value: 1.0,
                    source: "mpit".into(),
                    variable_class: "level".into(),
                };
                let mpi_pvars = (0..ROWS).map(pvar).collect();
                let rank = JobRank {
                    job_key: "local:scale".into(),
                    rank: u32::try_from(sender).unwrap(),
                    start: time,
                    ..JobRank::default()
                };
                let job_ranks = if entry == 0 { vec![rank] } else { Vec::new() };
                let batch = Batch { node: format!("n{sender}"), job_ranks, mpi_pvars, ..Batch::default() };
                spool.append(batch.encode_to_vec(), Class::Cumulative(0)).unwrap();
            }
            let stop = CancellationToken::new();
            let end = async {
                while spool.stats().backlog_entries > 0 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                stop.cancel();
            };
            tokio::join!(ship(&spool, &sink, stop.clone(), &stats), end);
        }));
    }
    for sender in senders {
        sender.await.unwrap();
    }
    let elapsed = began.elapsed().as_secs_f64();
    stop.cancel();
    collector.await.unwrap().unwrap();
    let client = database.connect().await.unwrap();
    let rows: i64 = client.query_one("SELECT count(*) FROM internal.mpi_pvars", &[]).await.unwrap().get(0);
    assert_eq!(rows, i64::from(ROWS) * (SENDERS * ENTRIES) as i64);
    let commits = metrics.get("collector", &COMMITS).unwrap();
    println!(
        "{SENDERS} senders: {rows} rows in {elapsed:.1} s, {:.0} rows/s, {commits} transactions",
        rows as f64 / elapsed
    );
}
