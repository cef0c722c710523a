//! `throughline-agent once`: one sample of each source as one JSON document, and why a source has none.
//!
//! Needs no spool, no collector and no state folder. Ends with 0 whatever is missing: it tells.

use crate::config::{Config, Places};
use crate::sample_json::samples;
use crate::sources::{self, Sources, Status};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
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
/// How often channels and states are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What one source gave so far.
struct Gathered {
    receiver: mpsc::Receiver<Batch>,
    batch: Batch,
    closed: bool,
}

/// Prints the document.
///
/// # Errors
/// Standard output can't be written.
pub async fn once(config: &Config, places: &Places) -> anyhow::Result<ExitCode> {
    let clock = Arc::new(Clock::new());
    let mut gathered = BTreeMap::new();
    let sources = Sources::start(config, places, &clock, |name, receiver| {
        gathered.insert(name, Gathered { receiver, batch: Batch::default(), closed: false });
    });
    let begin = Instant::now();
    let statuses = loop {
        let statuses: BTreeMap<_, _> = sources.statuses().into_iter().collect();
        let mut waiting = false;
        for (name, source) in &mut gathered {
            source.take();
            let lonely = |status: &Status| status.connected == Some(0) && begin.elapsed() > RANKS_DEADLINE;
            let settled =
                source.closed || statuses.get(name).is_none_or(|status| status.settled || lonely(status));
            waiting |= !has_sample(&source.batch) && !settled && begin.elapsed() < DEADLINE;
        }
        if !waiting {
            break statuses;
        }
        sleep(LOOK).await;
    };
    sources.stop().await;
    gathered.values_mut().for_each(Gathered::take);

    let mut document = Map::new();
    for (name, enabled) in sources::names(config) {
        let told = match (enabled, gathered.get(name)) {
            (true, Some(source)) => describe(statuses.get(name), &source.batch),
            _ => {
                json!({ "up": false, "state": "off", "reason": format!("switched off: [{name}] enabled = false") })
            }
        };
        document.insert(name.to_owned(), told);
    }
    let document = json!({ "node": places.node, "time": to_rfc3339(clock.now()), "sources": document });
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &document)?;
    writeln!(out)?;
    Ok(ExitCode::SUCCESS)
}

impl Gathered {
    /// Takes what has arrived; the first sample of each kind is enough, ranks come one by one.
    fn take(&mut self) {
        loop {
            match self.receiver.try_recv() {
                Ok(fragment) => merge(&mut self.batch, fragment),
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
    first!(host_ports, gpu_links, gpu_pcie, gpus, gpu_link_infos, coverage);
    all!(mpi_ops, mpi_peers, mpi_pvars, jobs, job_ranks, events);
}

fn has_sample(batch: &Batch) -> bool {
    !(batch.host_ports.is_empty()
        && batch.gpu_links.is_empty()
        && batch.gpu_pcie.is_empty()
        && batch.gpus.is_empty()
        && batch.mpi_ops.is_empty())
}

fn describe(status: Option<&Status>, batch: &Batch) -> Value {
    let status = status.cloned().unwrap_or_default();
    let reason = if has_sample(batch) {
        None
    } else {
        Some(status.reason.unwrap_or_else(|| "no sample arrived in time".to_owned()))
    };
    let mut told = json!({ "up": status.up, "state": status.state, "reason": reason });
    if let Value::Object(fields) = &mut told {
        fields.extend(samples(batch));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{GpuInfo, HostPortSample};

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
        let told = describe(Some(&Status { up: true, ..status }), &batch);
        assert_eq!((&told["up"], &told["reason"]), (&json!(true), &Value::Null));
        assert_eq!(told["gpus"].as_array().map(Vec::len), Some(1));
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
