//! Raw readings to records. Pure: no clock, no I/O; time comes in as an argument.
//!
//! A value that could not be read is absent, with a counted reason. Counters that went backwards begin a new
//! epoch, so that no rate spans a driver reload or a reset.

use std::collections::{BTreeMap, HashMap};

use throughline_sample::catalogue::{self, Metric};
use throughline_sample::wire;

use crate::code::Code;
use crate::duplicates::{DUPLICATE_UUID, DuplicateUuids};
use crate::field;
use crate::frame::{GpuPoll, GpuSurvey, LinkSurvey, Poll, RawField, Survey};
use crate::slowed::SlowdownCauses;
use crate::xid::{self, XidReports};

use counting::{Advance, Counting, Doubt, IMPLAUSIBLE, Reading};

mod counting;
mod inventory;

pub use inventory::Inventory;

/// The name of this source in records.
pub const SOURCE: &str = "nvml";
/// The same where PCIe bytes are rates of GPM, summed up.
pub const SOURCE_GPM: &str = "nvml_gpm";
/// The event of a GPU that does not answer any more, or is not listed. Receivers end what they have of it.
pub const GPU_LOST: &str = "gpu.lost";
/// The event of one that was lost and answers again.
pub const GPU_RETURNED: &str = "gpu.returned";

/// Where a link field goes: its link, its metric and the factor to base units.
#[must_use]
pub fn link_metric(raw: &RawField) -> Option<(u32, &'static Metric, u64)> {
    if let Some(counter) = field::LINK_COUNTERS.iter().find(|counter| counter.field == raw.field) {
        return Some((raw.scope, counter.metric, counter.factor));
    }
    if raw.field == field::C2C_REPLAY {
        return Some((raw.scope + field::C2C_FIRST_LINK, &catalogue::NVLINK_REPLAY_ERRORS, 1));
    }
    // Older error counters have a number for each link: 6 from the first base, 6 from the second.
    let numbered = |first: u32, second: u32| match raw.field {
        number if (first..first + 6).contains(&number) => Some(number - first),
        number if (second..second + 6).contains(&number) => Some(number - second + 6),
        _ => None,
    };
    let replay = numbered(field::REPLAY_L0, field::REPLAY_L6);
    let recovery = numbered(field::RECOVERY_L0, field::RECOVERY_L6);
    let crc = numbered(field::CRC_FLIT_L0, field::CRC_FLIT_L6);
    let found = replay.map(|link| (link, &catalogue::NVLINK_REPLAY_ERRORS));
    let found = found.or(recovery.map(|link| (link, &catalogue::NVLINK_RECOVERY_ERRORS)));
    let found = found.or(crc.map(|link| (link, &catalogue::NVLINK_CRC_ERRORS)));
    found.map(|(link, metric)| (link, metric, 1))
}

/// Stores what is needed to distinguish a reset from traffic, and a change from a repetition.
pub struct Converter {
    /// The name of the source in records.
    source: &'static str,
    survey: Option<Survey>,
    gpus: HashMap<String, GpuMemory>,
    /// GPUs that were lost and did not come back, and those of them whose event is still to come.
    lost: BTreeMap<String, GpuSurvey>,
    unreported: Vec<GpuSurvey>,
    /// A 32-bit PCIe counter's sums begin anew with each sampler.
    sampler: u64,
    xids: XidReports,
    seconds: DuplicateUuids,
}

#[derive(Default)]
struct GpuMemory {
    /// The source of its records.
    source: &'static str,
    links: Counting,
    pcie: Counting,
    /// Whether the sampler refuses what GPM has, since an event of it.
    refuses_pcie: bool,
    /// Sampler and restart that the PCIe sums belong to.
    pcie_origin: (u64, u64),
    up: HashMap<u32, bool>,
    slowed: SlowdownCauses,
}

/// What one poll became.
#[derive(Debug, Default, PartialEq)]
pub struct ConvertedPoll {
    /// The records.
    pub batch: wire::Batch,
    /// Values that are absent, by reason.
    pub absent: BTreeMap<&'static str, u64>,
}

impl Default for Converter {
    fn default() -> Self {
        Self::new(SOURCE)
    }
}

impl Converter {
    /// Records carry this name of a source.
    #[must_use]
    pub fn new(source: &'static str) -> Self {
        let (gpus, lost) = (HashMap::new(), BTreeMap::new());
        let (xids, seconds) = (XidReports::default(), DuplicateUuids::default());
        Self { source, survey: None, gpus, lost, unreported: Vec::new(), sampler: 0, xids, seconds }
    }

    /// A new sampler has been started: sums that it keeps begin anew.
    pub fn new_sampler(&mut self) {
        self.sampler += 1;
    }

    /// Puts the source's name into all records that have none of their own yet.
    fn sign(&self, batch: &mut wire::Batch) {
        let gpus = batch.gpus.iter_mut().map(|record| &mut record.source);
        let marks = batch.gpu_survey_marks.iter_mut().map(|record| &mut record.source);
        let links = batch.gpu_links.iter_mut().map(|record| &mut record.source);
        let pcie = batch.gpu_pcie.iter_mut().map(|record| &mut record.source);
        let events = batch.events.iter_mut().map(|record| &mut record.source);
        let coverage = batch.coverage.iter_mut().map(|record| &mut record.source);
        let all = gpus.chain(marks).chain(links).chain(pcie).chain(events).chain(coverage);
        all.filter(|name| name.is_empty()).for_each(|name| self.source.clone_into(name));
    }

    /// Makes records of a poll. `utc` turns `CLOCK_MONOTONIC` nanoseconds into UTC nanoseconds.
    pub fn poll(&mut self, poll: &Poll, utc: &dyn Fn(i64) -> i64) -> ConvertedPoll {
        let mut converted = ConvertedPoll::default();
        let Some(survey) = &self.survey else { return converted };
        let mut read = 0;
        let mut time = 0;
        for (gpu, raw) in survey.gpus.iter().zip(&poll.gpus) {
            let at = utc(raw.links_monotonic_nanoseconds);
            if is_lost(raw) {
                if self.lost.insert(gpu.uuid.clone(), gpu.clone()).is_none() {
                    converted.batch.events.push(lost_event(gpu, at, "does not answer any more"));
                }
            } else if self.lost.remove(&gpu.uuid).is_some() {
                self.unreported.retain(|lost| lost.uuid != gpu.uuid);
                let text = format!("GPU {} ({}) answers again", gpu.index, gpu.uuid);
                converted.batch.events.push(event(gpu, at, GPU_RETURNED, "info", text));
            }
            let memory = self.gpus.entry(gpu.uuid.clone()).or_default();
            memory.source = self.source;
            time = utc(raw.links_monotonic_nanoseconds);
            read += links(gpu, raw, time, memory, &mut converted);
            for value in &raw.slowed_fields {
                match memory.slowed.take(value, time) {
                    Ok(report) => {
                        read += 1;
                        let said = report.map(|report| report.event(gpu, time));
                        converted.batch.events.extend(
                            said.map(|(kind, severity, text)| event(gpu, time, kind, severity, text)),
                        );
                    }
                    Err(reason) => *converted.absent.entry(reason).or_default() += 1,
                }
            }
            read += pcie(gpu, raw, utc(raw.pcie_monotonic_nanoseconds), self.sampler, memory, &mut converted);
        }
        let xids = self.xids.take(&poll.xids, time).into_iter();
        converted.batch.events.extend(xids.map(|(severity, text, uuid)| wire::Event {
            gpu_uuid: uuid,
            ..event(&GpuSurvey::default(), time, xid::KIND, severity, text)
        }));
        for refusal in &survey.refusals {
            *converted.absent.entry(Code(refusal.code).reason()).or_default() += refusal.values;
        }
        converted.absent.retain(|_, count| *count > 0);
        let seconds = self.seconds.take(survey).into_iter();
        converted
            .batch
            .events
            .extend(seconds.map(|text| event(&GpuSurvey::default(), time, DUPLICATE_UUID, "warning", text)));
        let gone = std::mem::take(&mut self.unreported);
        converted.batch.events.extend(gone.iter().map(|gpu| lost_event(gpu, time, inventory::UNIDENTIFIED)));
        let failed: u64 = converted.absent.values().sum();
        converted.batch.coverage.push(wire::Coverage {
            time,
            source: String::new(),
            expected: read + failed,
            read,
            failed,
            elapsed_seconds: poll.elapsed_nanoseconds as f64 / 1e9,
            reasons: converted.absent.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
            ..wire::Coverage::default()
        });
        self.sign(&mut converted.batch);
        converted
    }
}

/// Whether the driver does not have a GPU any more: every answer is that it is lost or not there.
fn is_lost(raw: &GpuPoll) -> bool {
    const LOST: [Code; 2] = [Code::GPU_IS_LOST, Code::GPU_NOT_FOUND];
    let mut fields = raw.link_fields.iter().chain(&raw.pcie_fields).peekable();
    fields.peek().is_some() && fields.all(|value| LOST.contains(&Code(value.code)))
}

fn lost_event(gpu: &GpuSurvey, time: i64, what: &str) -> wire::Event {
    let remedy =
        "see its events gpu.xid, or Xid in the kernel's log; drain the node, and reset the GPU or reboot";
    let text = format!("GPU {} ({}, {}) {what}: {remedy}", gpu.index, gpu.uuid, gpu.pci_bus_id);
    event(gpu, time, GPU_LOST, "error", text)
}

/// Speeds of the links of a GPU that are known, bytes per second.
fn speeds(gpu: &GpuSurvey) -> BTreeMap<u32, u64> {
    let known = |link: &LinkSurvey| Some((link.link, link.speed_megabytes_per_second?));
    gpu.links.iter().filter_map(known).map(|(link, speed)| (link, speed.saturating_mul(1_000_000))).collect()
}

/// The counters of one GPU's links: each by its own speed, errors too, since a link has no more of them than bytes.
fn counters<'r>(gpu: &GpuSurvey, raw: &'r GpuPoll) -> impl Iterator<Item = ((u32, u32), Reading)> + use<'r> {
    let speeds = speeds(gpu);
    raw.link_fields.iter().filter_map(move |value| {
        let (link, metric, factor) = link_metric(value)?;
        let reading = Reading::new(value.unsigned().ok()?, speeds.get(&link).copied(), factor);
        Some(((link, metric.id), reading))
    })
}

/// Events of what became of a group of counters; `name` is what one of them is of, `unit` the bytes of one.
fn report(
    (gpu, time): (&GpuSurvey, i64),
    what: &str,
    advance: &Advance,
    name: impl Fn((u32, u32)) -> (String, u64),
    into: &mut ConvertedPoll,
) {
    if advance.began {
        into.batch.events.push(reset_event(gpu, time, what));
    }
    if let Some((key, doubt)) = advance.doubts {
        let (name, unit) = name(key);
        into.batch.events.push(implausible_event(gpu, time, &name, doubt, unit));
    }
}

/// Converts the links of one GPU; gives the number of values read.
fn links(gpu: &GpuSurvey, raw: &GpuPoll, time: i64, memory: &mut GpuMemory, into: &mut ConvertedPoll) -> u64 {
    if gpu.links.is_empty() {
        return 0;
    }
    let advance = memory.links.advance(time, raw.links_monotonic_nanoseconds, counters(gpu, raw));
    let source = memory.source;
    let name = |(link, metric): (u32, u32)| {
        let of = |value: &RawField| link_metric(value).filter(|(at, of, _)| (*at, of.id) == (link, metric));
        let (_, metric, unit) =
            raw.link_fields.iter().find_map(of).unwrap_or((link, &catalogue::NVLINK_UP, 1));
        (format!("{} of {}", metric.name, link_name(source, link)), unit)
    };
    report((gpu, time), link_kind(source), &advance, name, into);
    let mut by_link: BTreeMap<u32, wire::Values> = BTreeMap::new();
    let mut read = health(raw, &mut by_link, into);
    let up = link_states(gpu, raw, time, memory, into);
    for (link, up) in &up {
        if let Some(up) = up {
            by_link.entry(*link).or_default().put(&catalogue::NVLINK_UP, u64::from(*up));
            read += 1;
        }
    }
    for value in &raw.link_fields {
        let Some((link, metric, factor)) = link_metric(value) else { continue };
        let believed = advance.values.get(&(link, metric.id)).copied();
        match believed.unwrap_or_else(|| value.unsigned()) {
            Ok(number) => {
                by_link.entry(link).or_default().put(metric, number.wrapping_mul(factor));
                read += 1;
            }
            Err(reason) => {
                let down = up.get(&link) == Some(&Some(false));
                *into.absent.entry(if down { "link_inactive" } else { reason }).or_default() += 1;
            }
        }
    }
    for link in &gpu.links {
        let is_up = up.get(&link.link) == Some(&Some(true));
        if let (true, Some(speed)) = (is_up, link.speed_megabytes_per_second) {
            let values = by_link.entry(link.link).or_default();
            values.put(&catalogue::NVLINK_SPEED_BYTES_PER_SECOND, speed.saturating_mul(1_000_000));
        }
    }
    // A GPU without anything that could be read has no sample: the coverage record says why.
    if by_link.is_empty() {
        return read;
    }
    into.batch.gpu_links.push(wire::GpuLinksSample {
        time,
        epoch: memory.links.epoch.unwrap_or(time),
        gpu_uuid: gpu.uuid.clone(),
        source: String::new(),
        links: by_link
            .into_iter()
            .map(|(link, values)| wire::LinkValues { link, values: Some(values) })
            .collect(),
    });
    read
}

/// Converts what is not a counter as it stands: bit error ratios, and two numbers of
/// the history of forward error correction. Gives the number of values read.
fn health(raw: &GpuPoll, by_link: &mut BTreeMap<u32, wire::Values>, into: &mut ConvertedPoll) -> u64 {
    let mut read = 0;
    // Per link: blocks with a mended symbol, most symbols mended in one; `None` once a part is missing.
    let mut corrected: BTreeMap<u32, Option<(u64, u64)>> = BTreeMap::new();
    for value in &raw.link_fields {
        let ratio = match value.field {
            field::EFFECTIVE_BER => Some(&catalogue::NVLINK_EFFECTIVE_BER),
            field::SYMBOL_BER => Some(&catalogue::NVLINK_SYMBOL_BER),
            _ => None,
        };
        let mended = match value.field {
            number @ field::FEC_HISTORY_0..=field::FEC_HISTORY_15 => {
                Some(u64::from(number - field::FEC_HISTORY_0))
            }
            _ => None,
        };
        if ratio.is_none() && mended.is_none() {
            continue;
        }
        let number = match value.unsigned() {
            Ok(number) => number,
            Err(reason) => {
                *into.absent.entry(reason).or_default() += 1;
                if mended.is_some() {
                    corrected.insert(value.scope, None);
                }
                continue;
            }
        };
        read += 1;
        if let Some(metric) = ratio {
            by_link.entry(value.scope).or_default().put(metric, field::ber_per_1e18(number));
        }
        if let Some(symbols) = mended
            && let Some((blocks, most)) = corrected.entry(value.scope).or_insert(Some((0, 0)))
            && symbols > 0
        {
            *blocks = blocks.wrapping_add(number);
            *most = if number > 0 { symbols } else { *most };
        }
    }
    for (link, (blocks, most)) in corrected.into_iter().filter_map(|(link, sums)| Some((link, sums?))) {
        let values = by_link.entry(link).or_default();
        values.put(&catalogue::NVLINK_FEC_CORRECTED_BLOCKS, blocks);
        values.put(&catalogue::NVLINK_FEC_MOST_SYMBOLS, most);
    }
    read
}

/// The state of each link, with an event for each that changed.
fn link_states(
    gpu: &GpuSurvey,
    raw: &GpuPoll,
    time: i64,
    memory: &mut GpuMemory,
    into: &mut ConvertedPoll,
) -> BTreeMap<u32, Option<bool>> {
    let mut states = BTreeMap::new();
    for value in &raw.link_fields {
        let link = match value.field {
            field::LINK_STATE => value.scope,
            field::C2C_STATUS => value.scope + field::C2C_FIRST_LINK,
            _ => continue,
        };
        let state = match value.unsigned() {
            // 2 is asleep: established, in a low-power state.
            Ok(state) => Some(state != 0),
            Err(reason) => {
                *into.absent.entry(reason).or_default() += 1;
                None
            }
        };
        states.insert(link, state);
        let Some(up) = state else { continue };
        let before = memory.up.insert(link, up);
        if before.is_some_and(|before| before != up) {
            let (kind, severity) = if up { ("link.up", "info") } else { ("link.down", "warning") };
            let word = if up { "up again" } else { "down" };
            let text =
                format!("{} of GPU {} ({}) is {word}", link_name(memory.source, link), gpu.index, gpu.uuid);
            into.batch.events.push(event(gpu, time, kind, severity, text));
        }
    }
    states
}

/// Converts PCIe of one GPU; gives the number of values read.
fn pcie(
    gpu: &GpuSurvey,
    raw: &GpuPoll,
    time: i64,
    sampler: u64,
    memory: &mut GpuMemory,
    into: &mut ConvertedPoll,
) -> u64 {
    let origin = (sampler, raw.pcie_restarts);
    if std::mem::replace(&mut memory.pcie_origin, origin) != origin {
        memory.pcie.restart();
    }
    let counters = raw.pcie_fields.iter().filter_map(|value| {
        Some(((0, value.field), Reading::new(value.unsigned().ok()?, gpu.pcie_bytes_per_second, 1)))
    });
    let mut advance = memory.pcie.advance(time, raw.pcie_monotonic_nanoseconds, counters);
    // The sampler judges what it sums up itself.
    let is_refused = raw.pcie_fields.iter().any(|value| Code(value.code) == Code::IMPLAUSIBLE);
    if is_refused && !memory.refuses_pcie {
        advance.doubts.get_or_insert(((0, field::PCIE_TX_BYTES), Doubt { rise: None, nanoseconds: 0 }));
    }
    memory.refuses_pcie = is_refused;
    report((gpu, time), "PCIe", &advance, |_| ("bytes over PCIe".to_owned(), 1), into);
    let mut values = wire::Values::default();
    let mut read = 0;
    for value in &raw.pcie_fields {
        let metric = match value.field {
            field::PCIE_TX_BYTES => &catalogue::PCIE_TRANSMIT_BYTES,
            field::PCIE_RX_BYTES => &catalogue::PCIE_RECEIVE_BYTES,
            _ => continue,
        };
        let believed = advance.values.get(&(0, value.field)).copied();
        match believed.unwrap_or_else(|| value.unsigned()) {
            Ok(number) => {
                values.put(metric, number);
                read += 1;
            }
            Err(reason) => *into.absent.entry(reason).or_default() += 1,
        }
    }
    if read > 0 {
        into.batch.gpu_pcie.push(wire::GpuPcieSample {
            time,
            epoch: memory.pcie.epoch.unwrap_or(time),
            gpu_uuid: gpu.uuid.clone(),
            source: if raw.pcie_by_gpm { SOURCE_GPM.to_owned() } else { String::new() },
            values: Some(values),
        });
    }
    read
}

/// What the links are called that a source reads.
fn link_kind(source: &str) -> &'static str {
    match source {
        "amd_smi" => "xGMI link",
        "level_zero" => "Xe link",
        _ => "NVLink",
    }
}

/// What a link is called, by the source that reads it.
#[must_use]
pub fn link_name(source: &str, link: u32) -> String {
    match link.checked_sub(field::C2C_FIRST_LINK) {
        Some(c2c) => format!("C2C link {c2c}"),
        None => format!("{} {link}", link_kind(source)),
    }
}

fn reset_event(gpu: &GpuSurvey, time: i64, what: &str) -> wire::Event {
    let text = format!("{what} counters of GPU {} ({}) began anew", gpu.index, gpu.uuid);
    event(gpu, time, "counter.cleared", "info", text)
}

fn implausible_event(gpu: &GpuSurvey, time: i64, name: &str, doubt: Doubt, unit: u64) -> wire::Event {
    let seconds = doubt.nanoseconds as f64 / 1e9;
    let what = match doubt.rise {
        Some(rise) => format!(
            "rose by {} within {seconds:.1} s, more than twice what can pass",
            rise.saturating_mul(unit)
        ),
        None => "has a value that is no count".to_owned(),
    };
    let text = format!(
        "{name} of GPU {} ({}) {what}: such readings are left out, counted as {IMPLAUSIBLE}",
        gpu.index, gpu.uuid
    );
    event(gpu, time, "counter.implausible", "warning", text)
}

fn event(gpu: &GpuSurvey, time: i64, kind: &str, severity: &str, text: String) -> wire::Event {
    wire::Event {
        time,
        source: String::new(),
        kind: kind.to_owned(),
        severity: severity.to_owned(),
        text,
        gpu_uuid: gpu.uuid.clone(),
        ..wire::Event::default()
    }
}

/// `nvmlIntNvLinkDeviceType_t` in words: a switch is not a GPU, and IBM's NPU is the CPU's side.
#[must_use]
pub fn remote_type_name(remote_type: Option<u32>) -> &'static str {
    match remote_type {
        Some(0) => "gpu",
        Some(1) => "cpu",
        Some(2) => "switch",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
