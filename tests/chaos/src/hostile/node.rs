//! A hostile node: its certificate is valid, and it sends claims about everything through the client of every sender.

use super::claims::{Claims, Victims};
use super::{COUNTS_INTERVAL, end_of_input};
use crate::certificates::files;
use anyhow::Context;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use throughline_delivery::{Answer, GrpcSink, OnRefusal, Session, Sink};
use throughline_sample::Message;
use throughline_spool::{Class, Entry};
use uuid::Uuid;

/// Longest time for a connection, and for the collector to take a batch.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub struct Options {
    /// Its name, which its certificate has
    #[arg(long)]
    node: String,
    /// Where the certificates are
    #[arg(long)]
    certificates: PathBuf,
    /// Where it sends to
    #[arg(long)]
    collector: String,
    /// Which claims
    #[arg(long)]
    seed: u64,
    /// Numbers of the jobs that it claims
    #[arg(long, value_delimiter = ',')]
    jobs: Vec<u32>,
    /// The nodes in whose name it sends, and whose things it claims
    #[arg(long, value_delimiter = ',')]
    victims: Vec<String>,
    /// From one batch to the next
    #[arg(long, default_value_t = 100)]
    pace_ms: u64,
}

/// What it did.
#[derive(Default)]
struct Counts {
    batches: usize,
    records: usize,
    stored: usize,
    refused: usize,
    ended: usize,
    last: String,
}

impl Counts {
    /// A session ended, or was not made. Standard error has each reason that is new.
    fn failed(&mut self, why: &str) {
        self.ended += 1;
        if self.last != why {
            eprintln!("{why}");
            why.clone_into(&mut self.last);
        }
    }
}

/// Prints `sent ...` now and then, until standard input ends.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let tls = files(&options.certificates, &options.node);
    let sink = GrpcSink::with_tls(&options.collector, Some(tls)).context("collector")?;
    let mut random = fastrand::Rng::with_seed(options.seed);
    let uid = nix::unistd::geteuid().as_raw();
    let victims = Victims { jobs: options.jobs.clone(), uid, nodes: options.victims.clone() };
    let is_closed = end_of_input();
    let mut out = std::fs::File::options().append(true).open("/proc/self/fd/1")?;
    let clock = throughline_daemon::Clock::new();
    let spool_id = Uuid::new_v4();
    let (mut counts, mut sequence, mut session) = (Counts::default(), 0, None);
    let mut counted: Option<Instant> = None;
    while is_closed.recv_timeout(Duration::from_millis(options.pace_ms)) == Err(RecvTimeoutError::Timeout) {
        // A tenth in the name of another node, which is refused and ends nothing of others.
        let sender = match random.usize(..10 * victims.nodes.len()) {
            at if at < victims.nodes.len() => victims.nodes[at].clone(),
            _ => options.node.clone(),
        };
        let mut claims =
            Claims { random: &mut random, victims: &victims, node: &options.node, now: clock.now() };
        let (batch, records) = claims.batch(&sender);
        sequence += if random.u16(..1000) == 0 { 1 << 40 } else { 1 };
        let payload = batch.encode_to_vec().into();
        let entry = Entry { spool_id, sequence, class: Class::Precious, appended_ns: 0, payload };
        if runtime.block_on(send(&sink, &mut session, entry, &mut counts)) {
            counts.batches += 1;
            counts.records += records;
        }
        if counted.is_none_or(|at| at.elapsed() > COUNTS_INTERVAL) {
            counted = Some(Instant::now());
            let Counts { batches, records, stored, refused, ended, .. } = counts;
            let line = format!(
                "sent {batches} batches of {records} records: {stored} acknowledgements, {refused} refused, {ended} sessions ended or failed\n"
            );
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(())
}

/// Whether a session took it.
async fn send(sink: &GrpcSink, session: &mut Option<Session>, entry: Entry, counts: &mut Counts) -> bool {
    let mut present = match session.take() {
        Some(present) => present,
        None => match tokio::time::timeout(PATIENCE, sink.connect(OnRefusal::Continue)).await {
            Ok(Ok(made)) => made,
            Ok(Err(error)) => {
                counts.failed(&error.to_string());
                return false;
            }
            Err(_) => {
                counts.failed("no connection in time");
                return false;
            }
        },
    };
    while let Ok(answer) = present.answers.try_recv() {
        match answer {
            Ok(Answer::Stored(_)) => counts.stored += 1,
            Ok(Answer::Refused(_)) => counts.refused += 1,
            Err(error) => {
                counts.failed(&error.to_string());
                return false;
            }
        }
    }
    let is_taken = matches!(tokio::time::timeout(PATIENCE, present.entries.send(entry)).await, Ok(Ok(())));
    if is_taken {
        *session = Some(present);
    } else {
        counts.failed("a batch was not taken in time");
    }
    is_taken
}
