//! `throughline-agent once`: one sample of each source as one JSON document, and why a source has none.
//!
//! Needs no spool, no collector and no state folder. Ends with 0 whatever is missing: it is a report.

use crate::config::{Config, Places};
use crate::sample_json::samples;
use crate::sources::{self, Sources, Status};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::Clock;
use throughline_sample::to_rfc3339;
use throughline_sample::wire::Batch;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// How long a source may take to its first sample. A GPU driver that is not kept loaded takes seconds.
const DEADLINE: Duration = Duration::from_secs(15);
/// How long ranks may take to find this agent: one that has just begun looks for it every second.
const RANKS_DEADLINE: Duration = Duration::from_secs(3);
/// Beyond the interval of their pushes, how long ranks may take until each has pushed once.
const RANKS_MARGIN: Duration = Duration::from_millis(250);
/// The source whose samples come from many processes.
const RANKS: &str = sources::MPI;
/// How often channels and states are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What one source gave so far.
struct SourceSamples {
    receiver: mpsc::Receiver<Batch>,
    batch: Batch,
    /// When the first sample came.
    first: Option<Instant>,
    closed: bool,
}

/// Prints the document.
pub async fn once(config: &Config, places: &Places) -> anyhow::Result<ExitCode> {
    let clock = Arc::new(Clock::new());
    let mut gathered = BTreeMap::new();
    // What an agent has left for the next one is not for this command.
    let places = &Places { rank_state: None, ..places.clone() };
    let sources = Sources::start(config, places, &clock, |name, receiver| {
        gathered
            .insert(name, SourceSamples { receiver, batch: Batch::default(), first: None, closed: false });
    });
    let begin = Instant::now();
    let ranks_push = config.mpi.push_interval_seconds.duration() + RANKS_MARGIN;
    loop {
        let statuses: BTreeMap<_, _> = sources.statuses().into_iter().collect();
        let mut waiting = false;
        for (name, source) in &mut gathered {
            source.take();
            let lonely = |status: &Status| status.connected == Some(0) && begin.elapsed() > RANKS_DEADLINE;
            let settled =
                source.closed || statuses.get(name).is_none_or(|status| status.settled || lonely(status));
            // Ranks push one by one: the first is not yet all of them.
            let complete = source.first.is_some_and(|first| *name != RANKS || first.elapsed() > ranks_push);
            waiting |= !complete && !settled && begin.elapsed() < DEADLINE;
        }
        if !waiting {
            break;
        }
        sleep(LOOK).await;
    }
    // Not those of the last look: the samples came after it.
    let statuses: BTreeMap<_, _> = sources.statuses().into_iter().collect();
    sources.stop().await;
    for source in gathered.values_mut() {
        source.take();
        newest_only(&mut source.batch);
    }

    let mut document = Map::new();
    for (name, enabled) in sources::names(config) {
        let reported = match (enabled, gathered.get(name)) {
            (true, Some(source)) => describe(statuses.get(name), &source.batch),
            _ => {
                json!({ "up": false, "state": "off", "reason": format!("switched off: [{name}] enabled = false") })
            }
        };
        document.insert(name.to_owned(), reported);
    }
    let document = json!({ "node": places.node, "time": to_rfc3339(clock.now()), "sources": document });
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &document)?;
    writeln!(out)?;
    Ok(ExitCode::SUCCESS)
}

impl SourceSamples {
    /// Takes what has arrived; the first sample of each kind is enough, ranks come one by one.
    fn take(&mut self) {
        loop {
            match self.receiver.try_recv() {
                Ok(fragment) => {
                    merge(&mut self.batch, fragment);
                    if self.first.is_none() && has_sample(&self.batch) {
                        self.first = Some(Instant::now());
                    }
                }
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.closed = true;
                    return;
                }
            }
        }
    }
}

/// Adds a fragment; of a source that polls, the first reading stays and later ones are left out.
fn merge(batch: &mut Batch, fragment: Batch) {
    macro_rules! first {
        ($($kind:ident),+) => { $(if batch.$kind.is_empty() { batch.$kind = fragment.$kind; })+ };
    }
    macro_rules! all {
        ($($kind:ident),+) => { $(batch.$kind.extend(fragment.$kind);)+ };
    }
    first!(host_ports, gpu_links, gpu_pcie, gpu_pm, gpu_metrics, gpus, gpu_link_infos, coverage);
    all!(mpi_ops, mpi_peers, mpi_pvars, mpi_regions, mpi_traffic, mpi_open_calls, mpi_scheduling);
    all!(mpi_sampled_calls);
    all!(jobs, job_ranks, job_comms, job_settings, events);
}

/// Of cumulative cells that came more than once the newest, so that the document has one for each.
fn newest_only(batch: &mut Batch) {
    let mut seen = HashSet::new();
    for bin in batch.mpi_ops.iter_mut().rev() {
        bin.cells.retain(|cell| {
            let which = (cell.operation.clone(), cell.size_class_bytes);
            let where_and_how = (cell.region.clone(), cell.algorithm.clone());
            seen.insert((bin.job_key.clone(), bin.rank, which, where_and_how))
        });
    }
    let mut seen = HashSet::new();
    for row in batch.mpi_regions.iter_mut().rev() {
        row.cells.retain(|cell| seen.insert((row.job_key.clone(), row.rank, cell.region.clone())));
    }
    let mut seen = HashSet::new();
    for row in batch.mpi_regions.iter_mut().rev() {
        row.paths.retain(|cell| seen.insert((row.job_key.clone(), row.rank, cell.path.clone())));
    }
    let mut seen = HashSet::new();
    for row in batch.mpi_peers.iter_mut().rev() {
        row.cells.retain(|cell| seen.insert((row.job_key.clone(), row.rank, row.kind.clone(), cell.peer)));
    }
    let mut seen = HashSet::new();
    for row in batch.mpi_traffic.iter_mut().rev() {
        let of = (row.job_key.clone(), row.operation.clone(), row.kind.clone(), row.direction.clone());
        row.cells.retain(|cell| seen.insert((of.clone(), cell.peer)));
    }
    let mut seen = HashSet::new();
    batch.mpi_pvars.reverse();
    batch
        .mpi_pvars
        .retain(|pvar| seen.insert((pvar.job_key.clone(), pvar.rank, pvar.name.clone(), pvar.element)));
    batch.mpi_pvars.reverse();
}

fn has_sample(batch: &Batch) -> bool {
    !(batch.host_ports.is_empty()
        && batch.gpu_links.is_empty()
        && batch.gpu_pcie.is_empty()
        && batch.gpu_pm.is_empty()
        && batch.gpus.is_empty()
        && batch.mpi_ops.is_empty())
}

fn describe(status: Option<&Status>, batch: &Batch) -> Value {
    let status = status.cloned().unwrap_or_default();
    let is_up = status.is_up();
    let reason = if has_sample(batch) {
        // What is left out of it, and why.
        status.reason
    } else {
        Some(status.reason.unwrap_or_else(|| "no sample arrived in time".to_owned()))
    };
    let mut reported = json!({ "up": is_up, "state": status.state, "reason": reason });
    if let Value::Object(fields) = &mut reported {
        fields.extend(samples(batch));
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{GpuInfo, HostPortSample, MpiOpCell, MpiPvarSample, MpiRankBin};

    #[test]
    fn a_source_without_a_sample_has_a_reason() {
        let status = Status {
            state: "library_missing".into(),
            reason: Some("no library".into()),
            ..Status::default()
        };
        assert_eq!(
            describe(Some(&status), &Batch::default()),
            json!({ "up": false, "state": "library_missing", "reason": "no library" })
        );
        let batch = Batch { gpus: vec![GpuInfo::default()], ..Batch::default() };
        let reported = describe(Some(&Status { health: sources::Health::Up, ..status }), &batch);
        // What is left out of a sample has its reason, too.
        assert_eq!((&reported["up"], &reported["reason"]), (&json!(true), &json!("no library")));
        assert_eq!(reported["gpus"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn of_cumulative_cells_the_newest_is_left() {
        let bin = |calls| MpiRankBin {
            cells: vec![MpiOpCell { operation: "send".into(), calls, ..Default::default() }],
            ..Default::default()
        };
        let pvar = |value| MpiPvarSample { name: "queue".into(), value, ..Default::default() };
        let mut batch = Batch {
            mpi_ops: vec![bin(1), bin(2)],
            mpi_pvars: vec![pvar(1.0), pvar(2.0)],
            ..Batch::default()
        };
        newest_only(&mut batch);
        let reported = samples(&batch);
        assert_eq!(reported["operations"].as_array().map(Vec::len), Some(1));
        assert_eq!(reported["operations"][0]["calls"], json!(2));
        assert_eq!(
            (reported["pvars"].as_array().map(Vec::len), &reported["pvars"][0]["value"]),
            (Some(1), &json!(2.0))
        );
    }

    #[test]
    fn the_first_reading_of_a_poll_stays() {
        let port = |time| Batch {
            host_ports: vec![HostPortSample { time, ..Default::default() }],
            ..Batch::default()
        };
        let mut batch = Batch::default();
        merge(&mut batch, port(1));
        merge(&mut batch, port(2));
        assert_eq!(batch.host_ports.iter().map(|port| port.time).collect::<Vec<_>>(), [1]);
    }
}
