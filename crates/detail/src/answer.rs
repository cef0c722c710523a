//! Answers the collector's requests with what the recorder has.
//!
//! One request at a time, on a thread of low priority. Records go into the spool as others do, in entries that name the
//! request, so that they survive outages and count against its bounds; no more of them wait there at once than
//! [`OUTSTANDING_BYTES`], so that what is measured meanwhile is not delayed noticeably. A request that a restart cut off is
//! sent again by the collector and answered from its begin: the database has each row once.

mod thin;

use crate::recording::{NAME, Recording};
use std::collections::{HashSet, VecDeque};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thin::Thinner;
use throughline_daemon::SelfMetrics;
use throughline_delivery::wire::DetailRequest;
use throughline_recorder::{Filter, Kind, Recorder, records};
use throughline_sample::Message;
use throughline_sample::catalogue::{DETAIL_RECORDS, DETAIL_REQUESTS};
use throughline_sample::wire::{Batch, DetailEnd, DetailPart, Values};
use throughline_spool::{Class, Spool};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The part of the daemon whose self-metrics these are.
const DETAIL: &str = "detail";
/// Requests that wait for the one that is being answered; the collector sends what finds no place with the next stream.
pub const WAITING_MAX: usize = 32;
/// Encoded records of one entry: seven seconds of 32 busy ranks; the database makes a row for each rank. An entry may have
/// twice as many.
const PART_BYTES: usize = 1 << 20;
/// Records of one entry. An empty record takes 2 bytes encoded and some 200 decoded, and the collector counts elements.
pub const PART_RECORDS_MAX: usize = 16_384;
/// What is added to an entry beside its records: its sender and its request.
const SIGNATURE_BYTES: usize = 4096;
/// Messages and numbers in lists of one entry: the collector decodes at most twice as many. A reading of a GPU with 18 links has some
/// hundred of them.
const PART_ELEMENTS: usize = 1 << 17;
/// Readings of GPUs' links that are added to an entry at a time: those of 36 links have half as many elements.
const LINK_READINGS_MAX: usize = 32;
/// Entries of an answer that are in the spool and not acknowledged: enough for a transaction of the collector and what arrives
/// meanwhile. What is measured waits behind them, a fifth of a second where it takes 20 MB a second.
const OUTSTANDING_BYTES: usize = 4 << 20;
/// Pause where that is reached.
const PAUSE: Duration = Duration::from_millis(10);
/// Ranks report the last second up to so much after its end: the end of a request up to now is read then.
const REPORT_NANOSECONDS: i64 = 1_500_000_000;
/// What is older than this has been reported even by a node that is late: it is sent while the rest is waited for.
const SETTLED_NANOSECONDS: i64 = 5_000_000_000;
/// Requests that are remembered as answered; more are not open at once (`[detail]` of server.toml).
const ANSWERED_MAX: usize = 4096;
/// The stream of such entries in the spool: no combination of kinds that sources send.
const STREAM: u16 = u16::MAX - 1;
/// Added to the niceness of the daemon: measuring comes first.
const NICENESS: i32 = 10;

/// What is fetched of a job, of a node, and of a link. Other kinds go to the database whole, or hold only what is so now.
const OF_JOBS: [Kind; 4] = [Kind::MpiOps, Kind::MpiPeers, Kind::MpiPvars, Kind::MpiRegions];
const OF_NODES: [Kind; 4] = [Kind::HostPorts, Kind::GpuLinks, Kind::GpuPcie, Kind::GpuPm];
const OF_LINKS: [Kind; 1] = [Kind::IbPorts];

/// What is particular to the daemon that answers.
pub trait Origin: Send + 'static {
    /// Its configuration file, for messages.
    fn config_file(&self) -> &'static str;
    /// Signs a batch as this sender's.
    fn sign(&mut self, batch: &mut Batch);
    /// Notes in a batch by which clock its times were made.
    fn sign_times(&self, batch: &mut Batch);
    /// Records from this time on have their times by the clock as it is now; earlier ones may not, and are not sent.
    fn certain_from(&self) -> i64;
    /// Entries within their bounds of a batch that is larger than one.
    fn parts(&self, batch: Batch) -> Vec<Batch>;
    /// Whether it answers now; what it does not answer stays open for who does.
    fn may_answer(&self) -> bool;
    /// What shows jobs live.
    fn lift(&self) -> Lift;
}

/// Takes a request that shows a job live, and the present time, UTC nanoseconds.
pub type Lift = Box<dyn Fn(DetailRequest, i64) + Send>;

/// What answers.
pub struct Details<O> {
    recording: Recording,
    spool: Spool,
    origin: O,
    metrics: SelfMetrics,
    answered: HashSet<u64>,
    stop: CancellationToken,
}

/// Why an answer is not finished.
enum AnswerError {
    /// With what the last part is to have of it.
    Refused(&'static str, String),
    /// The agent stops: the next one answers.
    Stopped,
}

impl<O: Origin> Details<O> {
    /// Answers from this recorder through this spool.
    pub fn new(
        recording: Recording,
        spool: Spool,
        origin: O,
        metrics: SelfMetrics,
        stop: CancellationToken,
    ) -> Self {
        for outcome in ["answered", "refused", "live"] {
            metrics.add((DETAIL, outcome), &DETAIL_REQUESTS, 0);
        }
        // A daemon without a recorder has none of its metrics.
        if matches!(recording, Recording::On(_)) {
            metrics.add(NAME, &DETAIL_RECORDS, 0);
        }
        Self { recording, spool, origin, metrics, answered: HashSet::new(), stop }
    }

    /// Starts the thread. It ends soon after `stop`, and holds the recorder until then. Who looks at a job that runs does not wait for an
    /// answer that takes minutes.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(mut self, mut all: mpsc::Receiver<DetailRequest>) -> std::io::Result<JoinHandle<()>> {
        let runtime = Handle::current();
        let (answered, mut requests) = mpsc::channel(WAITING_MAX);
        let (lift, metrics) = (self.origin.lift(), self.metrics.clone());
        runtime.spawn(async move {
            while let Some(request) = all.recv().await {
                if request.is_live {
                    metrics.add((DETAIL, "live"), &DETAIL_REQUESTS, 1);
                    lift(request, now_ns());
                } else if answered.try_send(request).is_err() {
                    tracing::debug!("a request for detail finds no place");
                }
            }
        });
        std::thread::Builder::new().name("detail".into()).spawn(move || {
            if let Err(error) = rustix::process::nice(NICENESS) {
                tracing::debug!(%error, "the priority of the thread of detail");
            }
            let stop = self.stop.clone();
            while let Some(Some(request)) = runtime.block_on(stop.run_until_cancelled(requests.recv())) {
                self.take(&request);
            }
        })
    }

    fn take(&mut self, request: &DetailRequest) {
        if self.answered.contains(&request.id) || !self.origin.may_answer() {
            return;
        }
        let mut answer = Answer {
            spool: &self.spool,
            origin: &mut self.origin,
            stop: &self.stop,
            part: DetailPart { request: request.id, attempt: now_ns().unsigned_abs(), end: None },
            expires: request.expires,
            encoded: Vec::new(),
            encoded_records: 0,
            encoded_elements: 0,
            outstanding: VecDeque::new(),
            outstanding_bytes: 0,
            records: 0,
        };
        let mut end = DetailEnd::default();
        let result = match &self.recording {
            Recording::On(recorder) => send(recorder, request, &mut answer, &mut end),
            Recording::Off => {
                let file = answer.origin.config_file();
                let text =
                    format!("the recorder there is switched off: set enabled = true in [recorder] of {file}");
                Err(AnswerError::Refused("off", text))
            }
            Recording::Failed(why) => {
                Err(AnswerError::Refused("failed", format!("the recorder there: {why}")))
            }
        };
        match result {
            Ok(()) => {}
            Err(AnswerError::Refused(reason, text)) => (end.refusal, end.text) = (reason.to_owned(), text),
            Err(AnswerError::Stopped) => return,
        }
        let outcome = if end.refusal.is_empty() { "answered" } else { "refused" };
        self.metrics.add((DETAIL, outcome), &DETAIL_REQUESTS, 1);
        if answer.records > 0 {
            self.metrics.add(NAME, &DETAIL_RECORDS, answer.records);
        }
        end.records = answer.records;
        tracing::info!(
            request = request.id,
            job = request.job_key,
            ports = request.ports.len(),
            records = end.records,
            refusal = end.refusal,
            "detail on demand"
        );
        answer.finish(end);
        if self.answered.len() >= ANSWERED_MAX {
            self.answered.clear();
        }
        self.answered.insert(request.id);
    }
}

/// Sends what the recorder has of a request.
fn send(
    recorder: &Recorder,
    request: &DetailRequest,
    answer: &mut Answer<'_, impl Origin>,
    end: &mut DetailEnd,
) -> Result<(), AnswerError> {
    let mut thinner = Thinner::new(request.resolution);
    // A segment may be read for both parts.
    let mut damaged = HashSet::new();
    let certain_from = answer.origin.certain_from();
    let from = request.from.max(certain_from.min(request.to));
    let settled = request.to.min(now_ns().saturating_sub(SETTLED_NANOSECONDS)).max(from);
    for times in [from..settled, settled..request.to] {
        if times.is_empty() {
            continue;
        }
        answer.wait_for_reports(times.end)?;
        let found = recorder.records(times, filter(request));
        if end.recorded_from == 0 {
            end.recorded_from = recorder.stats().oldest_ns.map_or(0, |oldest| oldest.max(certain_from));
        }
        for batch in found {
            match batch {
                Ok(batch) => answer.add(thinner.take(batch), request.records_max)?,
                Err(error) => {
                    tracing::warn!(request = request.id, %error, "detail on demand goes on behind it");
                    damaged.insert(error.to_string());
                    end.damaged = damaged.len() as u64;
                }
            }
        }
    }
    answer.add(thinner.finish(), request.records_max)?;
    answer.send()
}

fn filter(request: &DetailRequest) -> Filter {
    let job_key = Some(request.job_key.clone()).filter(|key| !key.is_empty());
    let ports: Vec<(u64, u32)> = request.ports.iter().map(|port| (port.node_guid, port.port)).collect();
    let kinds: &[Kind] = match job_key {
        Some(_) => &OF_JOBS,
        None if ports.is_empty() => &OF_NODES,
        None => &OF_LINKS,
    };
    Filter { job_key, device: None, kinds: kinds.to_vec(), ports }
}

/// An answer on its way into the spool.
struct Answer<'a, O> {
    spool: &'a Spool,
    origin: &'a mut O,
    stop: &'a CancellationToken,
    part: DetailPart,
    expires: i64,
    /// The next entry: its records encoded, as batches one behind the other, which are one batch.
    encoded: Vec<u8>,
    encoded_records: usize,
    encoded_elements: usize,
    /// Sequences and bytes of entries that are not acknowledged.
    outstanding: VecDeque<(u64, usize)>,
    outstanding_bytes: usize,
    records: u64,
}

impl<O: Origin> Answer<'_, O> {
    /// Until what ranks did before this time has been reported.
    fn wait_for_reports(&self, until: i64) -> Result<(), AnswerError> {
        let begin = Instant::now();
        let wait =
            until.saturating_add(REPORT_NANOSECONDS).saturating_sub(now_ns()).clamp(0, REPORT_NANOSECONDS);
        while begin.elapsed() < Duration::from_nanos(wait.unsigned_abs()) {
            self.pause()?;
        }
        Ok(())
    }

    fn pause(&self) -> Result<(), AnswerError> {
        if self.stop.is_cancelled() {
            return Err(AnswerError::Stopped);
        }
        if now_ns() >= self.expires {
            let text = "the collector did not take all of it in time; request a shorter time";
            return Err(AnswerError::Refused("expired", text.to_owned()));
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn add(&mut self, mut batch: Batch, records_max: u64) -> Result<(), AnswerError> {
        if batch.gpu_links.len() > LINK_READINGS_MAX {
            let readings = std::mem::take(&mut batch.gpu_links);
            for some in readings.chunks(LINK_READINGS_MAX) {
                self.add(Batch { gpu_links: some.to_vec(), ..Batch::default() }, records_max)?;
            }
        }
        let (count, length) = (records(&batch), batch.encoded_len());
        self.records += count as u64;
        if self.encoded.len() + length > PART_BYTES
            || self.encoded_records + count > PART_RECORDS_MAX
            || self.encoded_elements + elements(&batch) > PART_ELEMENTS
        {
            self.send()?;
        }
        if length <= PART_BYTES && count <= PART_RECORDS_MAX {
            self.encode(batch, count);
        } else {
            // Hundreds of ranks in one block.
            for part in self.origin.parts(batch) {
                let count = records(&part);
                self.encode(part, count);
                self.send()?;
            }
        }
        if self.records > records_max {
            self.send()?;
            let text = format!(
                "more than the {records_max} records that a request may bring from a node; request a shorter time"
            );
            return Err(AnswerError::Refused("limit", text));
        }
        Ok(())
    }

    fn encode(&mut self, mut batch: Batch, count: usize) {
        self.origin.sign_times(&mut batch);
        if self.encoded.is_empty() {
            self.encoded.reserve(PART_BYTES + SIGNATURE_BYTES);
        }
        self.encoded.extend(batch.encode_to_vec());
        self.encoded_records += count;
        self.encoded_elements += elements(&batch);
    }

    /// Puts into the spool what was gathered, as it is emptied.
    fn send(&mut self) -> Result<(), AnswerError> {
        if self.encoded.is_empty() {
            return Ok(());
        }
        loop {
            let acked = self.spool.acked();
            while let Some((_, bytes)) = self.outstanding.front().filter(|(sequence, _)| *sequence <= acked) {
                self.outstanding_bytes -= bytes;
                self.outstanding.pop_front();
            }
            if self.outstanding_bytes < OUTSTANDING_BYTES {
                break;
            }
            self.pause()?;
        }
        self.append(Class::Cumulative(STREAM));
        Ok(())
    }

    fn append(&mut self, class: Class) {
        let mut batch = Batch::default();
        self.origin.sign(&mut batch);
        // It belongs to what was measured just now.
        batch.clock_error_nanoseconds = None;
        batch.detail = Some(self.part.clone());
        // What is encoded one behind the other is one batch.
        let mut payload = std::mem::take(&mut self.encoded);
        payload.extend(batch.encode_to_vec());
        (self.encoded_records, self.encoded_elements) = (0, 0);
        let bytes = payload.len();
        match self.spool.append(payload, class) {
            Ok(sequence) => {
                self.outstanding.push_back((sequence, bytes));
                self.outstanding_bytes += bytes;
            }
            // The spool has counted it, and the database misses it: the last part has the number of all.
            Err(error) => tracing::warn!(%error, "a part of an answer is lost"),
        }
    }

    fn finish(mut self, end: DetailEnd) {
        self.part.end = Some(end);
        self.append(Class::Precious);
    }
}

/// What the collector counts as elements of a batch: messages, and numbers in lists.
fn elements(batch: &Batch) -> usize {
    let values =
        |values: Option<&Values>| values.map_or(0, |values| 1 + values.metric.len() + values.value.len());
    let links =
        batch.gpu_links.iter().flat_map(|gpu| &gpu.links).map(|link| 1 + values(link.values.as_ref()));
    let ports = batch.host_ports.iter().map(|port| values(port.values.as_ref()));
    let pcie = batch.gpu_pcie.iter().map(|gpu| values(gpu.values.as_ref()));
    let monitors = batch.gpu_pm.iter().map(|gpu| values(gpu.values.as_ref()));
    let fabric_ports = batch.ib_ports.iter().map(|port| values(port.values.as_ref()) + port.saturated.len());
    let cells = batch.mpi_ops.iter().map(|bin| bin.cells.len());
    records(batch)
        + links.chain(ports).chain(fabric_ports).chain(pcie).chain(monitors).chain(cells).sum::<usize>()
}

/// This node's clock, by which records have their times.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
