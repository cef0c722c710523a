//! Whether a record can be so: its times, names, numbers and sizes. Texts for people are cleaned, names are not: two
//! that became the same would be one thing.

mod fabric;
mod mpi;

use throughline_sample::admission::{
    NAME_BYTES_MAX, PATH_BYTES_MAX, Rejection, TEXT_BYTES_MAX, TimeWindow, clean_text, is_deceptive,
};
use throughline_sample::clock_times::EARLIEST_TIME;
use throughline_sample::wire::*;

/// Ranks of one job, and members of a communicator: ten times the largest that ran.
const RANKS_MAX: u32 = 1 << 24;
/// Numbers of ports are bytes (IBTA 14.2.5.6).
const PORT_MAX: u32 = 255;
/// Links of a GPU and lanes of a port: NVLink 5 has 18, the fabric 16.
const LINKS_MAX: u32 = 64;
/// Values of one sample: a table has some thirty metrics.
const VALUES_MAX: usize = 512;
/// Operations, peers, regions or trace records of one rank in one record.
const CELLS_MAX: usize = 1 << 18;
/// Names in a list of a record: GPUs with their partitions, adapters, reasons.
const LIST_MAX: usize = 256;
/// GPUs of a node with their partitions.
const SURVEYED_MAX: usize = 2048;
/// NUMA nodes of a rank.
const NUMA_MAX: usize = 1024;
/// Largest count or number of bytes of MPI: 70 PB. Sums over ranks and operations must fit 63 bits.
const COUNT_MAX: u64 = 1 << 56;

/// What is admitted, and the oldest time that was.
pub(super) struct Check {
    window: TimeWindow,
    oldest: i64,
}

impl Check {
    pub fn new(window: TimeWindow) -> Self {
        Self { window, oldest: i64::MAX }
    }

    pub fn oldest(&self) -> i64 {
        self.oldest
    }

    /// Checks one record, and cleans its texts.
    pub fn check<T: Checked>(&mut self, record: &mut T) -> Result<(), Rejection> {
        record.check(self)
    }

    /// The time of a record.
    fn time(&mut self, time: i64) -> Result<(), Rejection> {
        self.window.check(time)?;
        self.oldest = self.oldest.min(time);
        Ok(())
    }

    /// When something began: long ago, or not known (0), and never in the future.
    fn past(&self, time: i64) -> Result<(), Rejection> {
        match time {
            ..0 => Err(Rejection::Number),
            _ if time > self.window.latest => Err(Rejection::TimeFuture),
            _ => Ok(()),
        }
    }

    fn generation(&self, generation: i64) -> Result<(), Rejection> {
        if generation > EARLIEST_TIME { self.window.check(generation) } else { self.past(generation) }
    }
}

/// A kind of record.
pub(super) trait Checked {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection>;
}

/// A name that may be absent.
fn optional(text: &str) -> Result<(), Rejection> {
    let is_plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    if text.len() <= NAME_BYTES_MAX && (is_plain || !text.chars().any(is_deceptive)) {
        Ok(())
    } else {
        Err(Rejection::Name)
    }
}

fn name(text: &str) -> Result<(), Rejection> {
    if text.is_empty() { Err(Rejection::Name) } else { optional(text) }
}

/// The text of a path of regions.
fn path(text: &str) -> Result<(), Rejection> {
    let fits = !text.is_empty() && text.len() <= PATH_BYTES_MAX;
    if fits && !text.chars().any(is_deceptive) { Ok(()) } else { Err(Rejection::Name) }
}

/// One of the words that there are.
fn one_of(text: &str, words: &[&str]) -> Result<(), Rejection> {
    if words.contains(&text) { Ok(()) } else { Err(Rejection::Name) }
}

fn names(list: &[String]) -> Result<(), Rejection> {
    at_most(list.len(), LIST_MAX)?;
    list.iter().try_for_each(|text| name(text))
}

fn clean(text: &mut String) {
    if let std::borrow::Cow::Owned(cleaned) = clean_text(text, TEXT_BYTES_MAX) {
        *text = cleaned;
    } else if text.len() > TEXT_BYTES_MAX {
        let end = clean_text(text, TEXT_BYTES_MAX).len();
        text.truncate(end);
    }
}

fn at_most(count: usize, most: usize) -> Result<(), Rejection> {
    if count <= most { Ok(()) } else { Err(Rejection::Size) }
}

fn number(value: impl Into<u64>, most: impl Into<u64>) -> Result<(), Rejection> {
    if value.into() <= most.into() { Ok(()) } else { Err(Rejection::Number) }
}

/// Fits the store's `integer`.
fn small(value: u32) -> Result<(), Rejection> {
    number(value, i32::MAX.unsigned_abs())
}

/// Fits the store's `bigint`.
fn large(value: u64) -> Result<(), Rejection> {
    number(value, i64::MAX.unsigned_abs())
}

fn finite(value: f64) -> Result<(), Rejection> {
    if value.is_finite() { Ok(()) } else { Err(Rejection::Number) }
}

fn rank(value: u32) -> Result<(), Rejection> {
    number(value, RANKS_MAX - 1)
}

fn values(values: Option<&Values>) -> Result<(), Rejection> {
    values.map_or(Ok(()), |values| at_most(values.metric.len().max(values.value.len()), VALUES_MAX))
}

fn links(list: &[LinkValues]) -> Result<(), Rejection> {
    at_most(list.len(), LIST_MAX)?;
    list.iter().try_for_each(|link| {
        number(link.link, LINKS_MAX - 1)?;
        values(link.values.as_ref())
    })
}

impl Checked for IbPortSample {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        number(self.port, PORT_MAX)?;
        name(&self.source)?;
        values(self.values.as_ref())?;
        at_most(self.saturated.len(), VALUES_MAX)?;
        check.time(self.time)
    }
}

impl Checked for IbPortLanesSample {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        number(self.port, PORT_MAX)?;
        name(&self.source)?;
        links(&self.lanes)?;
        check.time(self.time)
    }
}

impl Checked for HostPortSample {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        number(self.port, PORT_MAX)?;
        name(&self.source)?;
        name(&self.device)?;
        values(self.values.as_ref())?;
        check.time(self.time)
    }
}

impl Checked for GpuLinksSample {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        name(&self.source)?;
        name(&self.gpu_uuid)?;
        links(&self.links)?;
        check.time(self.time)
    }
}

macro_rules! gpu_values {
    ($($kind:ty),+) => {
        $(impl Checked for $kind {
            fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
                check.past(self.epoch)?;
                name(&self.source)?;
                name(&self.gpu_uuid)?;
                values(self.values.as_ref())?;
                check.time(self.time)
            }
        })+
    };
}

gpu_values!(GpuPcieSample, GpuPmSample);

impl Checked for GpuMetricsSample {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        name(&self.source)?;
        name(&self.gpu_uuid)?;
        at_most(self.metrics.len(), LIST_MAX)?;
        for metric in &self.metrics {
            name(&metric.name)?;
            finite(metric.value.unwrap_or(0.0))?;
        }
        check.time(self.time)
    }
}

impl Checked for Event {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        for text in [&self.source, &self.kind, &self.severity] {
            name(text)?;
        }
        optional(&self.gpu_uuid)?;
        optional(&self.job_key)?;
        number(self.ib_port.max(self.remote_ib_port), PORT_MAX)?;
        for text in [&mut self.text, &mut self.before, &mut self.after] {
            clean(text);
        }
        check.time(self.time)
    }
}

impl Checked for Coverage {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.source)?;
        finite(self.elapsed_seconds)?;
        at_most(self.reasons.len(), LIST_MAX)?;
        self.reasons.keys().try_for_each(|text| name(text))?;
        // The round is right all the same; its readers assume the usual rules.
        self.row_rules.take_if(|rules| !rules.are_plausible());
        if !self.is_run_plausible() {
            return Err(Rejection::Number);
        }
        check.time(self.time)
    }
}

impl Checked for SelfStat {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.source)?;
        name(&self.name)?;
        optional(&self.label)?;
        finite(self.value)?;
        check.time(self.time)
    }
}

impl Checked for NodeInfo {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.name)?;
        optional(&self.boot_id)?;
        check.past(self.boot_time)?;
        at_most(self.hca_guids.len(), LIST_MAX)
    }
}

impl Checked for GpuInfo {
    fn check(&mut self, _: &mut Check) -> Result<(), Rejection> {
        name(&self.uuid)?;
        for text in [&self.name, &self.pci_bus_id, &self.source, &self.parent_uuid] {
            optional(text)?;
        }
        small(self.index)?;
        number(self.link_count, LINKS_MAX)?;
        small(self.numa_node.unwrap_or(0))?;
        large(self.pcie_bytes_per_second.unwrap_or(0))?;
        if !self.is_fabric_plausible() {
            return Err(Rejection::Name);
        }
        names(&self.nearest_hcas)
    }
}

impl Checked for GpuLinkInfo {
    fn check(&mut self, _: &mut Check) -> Result<(), Rejection> {
        name(&self.gpu_uuid)?;
        for text in [&self.remote_type, &self.remote_pci_bus_id, &self.remote_gpu_uuid] {
            optional(text)?;
        }
        number(self.link, LINKS_MAX - 1)?;
        small(self.version.unwrap_or(0))?;
        small(self.remote_link.unwrap_or(0))?;
        large(self.speed_bytes_per_second.unwrap_or(0))
    }
}

impl Checked for GpuSurveyMark {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.source)?;
        small(self.unidentified)?;
        at_most(self.gpus.len().max(self.lost.len()), SURVEYED_MAX)?;
        self.lost.iter().try_for_each(|uuid| name(uuid))?;
        for gpu in &self.gpus {
            name(&gpu.uuid)?;
            at_most(gpu.links.len(), LIST_MAX)?;
            gpu.links.iter().try_for_each(|link| number(*link, LINKS_MAX - 1))?;
        }
        check.time(self.time)
    }
}

impl Checked for Job {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.key)?;
        for text in [&self.scheduler, &self.native_id, &self.step, &self.array_id, &self.evidence] {
            optional(text)?;
        }
        for text in [&mut self.user, &mut self.command, &mut self.name, &mut self.account, &mut self.queue] {
            clean(text);
        }
        number(self.world_size, RANKS_MAX)?;
        [self.start, self.end, self.seen].into_iter().try_for_each(|time| check.past(time))
    }
}

impl Checked for JobRank {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.job_key)?;
        for text in [&self.host, &self.ending, &self.mpi_library] {
            optional(text)?;
        }
        clean(&mut self.cpus);
        rank(self.rank)?;
        number(self.world_size, RANKS_MAX)?;
        self.hca_ports.iter().try_for_each(|list| names(&list.name))?;
        rank_gpus(self, check)?;
        at_most(self.numa_nodes.len(), NUMA_MAX)?;
        at_most(self.hca_numa_nodes.len(), NUMA_MAX)?;
        self.numa_nodes.iter().chain(&self.hca_numa_nodes).try_for_each(|node| small(*node))?;
        check.past(self.start)?;
        check.past(self.end)
    }
}

/// What a rank has to do with GPUs. Words of another meaning than the schema's are refused there.
fn rank_gpus(rank: &mut JobRank, check: &mut Check) -> Result<(), Rejection> {
    at_most(rank.gpus.len(), LIST_MAX)?;
    rank.visible_devices.iter_mut().for_each(clean);
    if !["", "driver", "device"].contains(&rank.gpu_evidence.as_str()) {
        return Err(Rejection::Name);
    }
    for gpu in &rank.gpus {
        name(&gpu.gpu_uuid)?;
        [&gpu.partition_uuid, &gpu.nearest_distance].into_iter().try_for_each(|text| optional(text))?;
        if !["driver", "device", "visible"].contains(&gpu.evidence.as_str()) {
            return Err(Rejection::Name);
        }
        small(gpu.minor.unwrap_or(0))?;
        check.past(gpu.first_seen)?;
        check.past(gpu.last_seen)?;
    }
    Ok(())
}

impl Checked for JobComm {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.job_key)?;
        clean(&mut self.name);
        rank(self.rank)?;
        small(self.comm)?;
        number(self.size, RANKS_MAX)?;
        rank(self.rank_in_comm.unwrap_or(0))?;
        check.past(self.epoch)?;
        check.past(self.time)
    }
}

impl Checked for JobSetting {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.job_key)?;
        name(&self.name)?;
        rank(self.rank)?;
        clean(&mut self.value);
        check.past(self.time)
    }
}
