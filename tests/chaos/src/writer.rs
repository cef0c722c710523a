//! A producer with a spool and its delivery, as every daemon has them, in a process that can be killed.

use crate::certificates::files;
use anyhow::Context;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use throughline_delivery::{GrpcSink, ShipStats, ship};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Event};
use throughline_spool::{Class, Config, Spool};
use tokio_util::sync::CancellationToken;

/// From one line of counts to the next.
const COUNTS_INTERVAL: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub struct Options {
    /// Its spool
    #[arg(long)]
    folder: PathBuf,
    /// Its node's name
    #[arg(long)]
    node: String,
    /// Its name in this life
    #[arg(long)]
    source: String,
    /// Where it delivers to
    #[arg(long)]
    collector: String,
    /// Where the certificates are
    #[arg(long)]
    certificates: PathBuf,
    /// From one event to the next
    #[arg(long, default_value_t = 25)]
    pace_ms: u64,
}

/// Prints `appended N` for each event, `counts LOST DROPPED BACKLOG` now and then, `done` when all is delivered.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let settings = Config { owner: options.node.clone(), ..Config::default() };
    let spool = Spool::open(&options.folder, settings)?;
    let _guard = runtime.enter();
    let tls = files(&options.certificates, &options.node);
    let sink = GrpcSink::with_tls(&options.collector, Some(tls)).context("collector")?;
    let stop = CancellationToken::new();
    let shipping = runtime.spawn({
        let (spool, stop) = (spool.clone(), stop.clone());
        async move { ship(&spool, &sink, stop, &ShipStats::default()).await }
    });
    let ended = CancellationToken::new();
    std::thread::spawn({
        let ended = ended.clone();
        move || {
            let _ = std::io::stdin().read_line(&mut String::new());
            ended.cancel();
        }
    });
    let mut out = std::fs::File::options().append(true).open("/proc/self/fd/1")?;
    let clock = throughline_daemon::Clock::new();
    let mut counted: Option<Instant> = None;
    let mut number = 0u64;
    loop {
        if counted.is_none_or(|at| at.elapsed() > COUNTS_INTERVAL) {
            counted = Some(Instant::now());
            let stats = spool.stats();
            let dropped = stats.dropped_memory_entries + stats.dropped_disk_entries;
            let (lost, backlog) = (stats.damaged_entries, stats.backlog_entries);
            out.write_all(format!("counts {lost} {dropped} {backlog}\n").as_bytes())?;
            if ended.is_cancelled() && backlog == 0 {
                break;
            }
        }
        if !ended.is_cancelled() {
            let event = Event { time: clock.now(), source: options.source.clone(), ..Event::default() };
            let event = Event { kind: "test".into(), severity: "info".into(), ..event };
            let event = Event { text: number.to_string(), ..event };
            let batch = Batch { node: options.node.clone(), events: vec![event], ..Batch::default() };
            spool.append(batch.encode_to_vec(), Class::Precious)?;
            // One write a line: a line is there wholly or not at all.
            out.write_all(format!("appended {number}\n").as_bytes())?;
            number += 1;
        }
        std::thread::sleep(Duration::from_millis(options.pace_ms));
    }
    stop.cancel();
    runtime.block_on(shipping)?;
    writeln!(out, "done")?;
    Ok(())
}
