//! The last values of every source, for `/metrics`.
//!
//! Reads no device. Absent is not old: what a reading lacks, and what is of a GPU that is lost or of a source that went down, is not
//! shown from then on. Where nobody reads any more a value leaves the page after twice the largest gap of the sources
//! ([`LastValues::stale_after`]).

mod chosen;

use crate::mpi_totals::MpiTotals;
use chosen::ChosenMetrics;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_daemon::{Expose, Page};
use throughline_gpu::convert::{GPU_LOST, SOURCE as NVML, SOURCE_GPM};
use throughline_gpu::cupti::convert::SOURCE as CUPTI;
use throughline_gpu::{BUSY, PAUSED};
use throughline_host::convert::SOURCE as SYSFS;
use throughline_host::sysfs::{Text, Tree};
use throughline_sample::catalogue::{NVLINK_HEALTH, NVLINK_UP, Table, by_id, gpu_source_rank};
use throughline_sample::row_rules::DEFAULT;
use throughline_sample::wire::{Batch, Event, GpuInfo, GpuLinkInfo, RowRules, SelfStat, SurveyedGpu, Values};

/// Counters of another source begin elsewhere, so that a series which went over to them would jump: another one takes its
/// place only after so long a silence, longer than the time that rates are made over.
const GOES_OVER_AFTER: Duration = Duration::from_secs(600);

/// So long after its first reading a source is not shown where one that is to be believed before it may still come: a
/// driver that is not kept loaded takes seconds to answer.
const WAITS_FOR_BETTER: Duration = Duration::from_secs(60);

/// Sources that read the same GPUs: NVIDIA's. The others have their vendor's GPUs to themselves.
const RIVALS: [&str; 4] = ["nvml", "nvml_gpm", "dcgm", "cupti"];

/// Most series groups stored per table (ports, links, GPUs); a node has far fewer.
const GROUPS_MAX: usize = 4096;

/// The last values of one node's sources.
#[derive(Debug, Default)]
pub struct LastValues {
    inner: Mutex<Inner>,
    /// Sources that are switched on.
    enabled: Vec<&'static str>,
    /// The largest gap of the sources' rules, where that is not the usual one.
    largest_gap: Option<Duration>,
    /// Whether the page shows whose jobs run here and what they run: any local user may read it.
    shows_owners: bool,
}

#[derive(Debug, Default)]
struct Inner {
    host_ports: BTreeMap<(String, u32), Timestamped<Values>>,
    /// Of one source each: two libraries count the same link from different times on. Which one is said by
    /// `gpu_source_rank`, as in the database.
    links: BTreeMap<(String, u32), Timestamped<SourcedValues>>,
    /// Values of a link's health, each by its metric: they take turns.
    link_health: BTreeMap<(String, u32, u32), Timestamped<Values>>,
    pcie: BTreeMap<String, Timestamped<SourcedValues>>,
    pm: BTreeMap<String, Timestamped<Values>>,
    /// Chosen metrics, by GPU and name: they are reported at intervals of their own.
    chosen: ChosenMetrics,
    gpus: BTreeMap<String, GpuInfo>,
    link_infos: BTreeMap<(String, u32), GpuLinkInfo>,
    adapters: Tree,
    mpi: MpiTotals,
}

/// Values and the source that they are of.
#[derive(Debug)]
struct SourcedValues {
    source: String,
    /// From when on it is shown.
    shown_from: Instant,
    values: Values,
}

#[derive(Debug)]
struct Timestamped<T> {
    at: Instant,
    value: T,
}

impl<T> Timestamped<T> {
    fn now(value: T) -> Self {
        Self { at: Instant::now(), value }
    }

    fn is_fresh(&self, now: Instant, stale_after: Duration) -> bool {
        now.saturating_duration_since(self.at) < stale_after
    }
}

impl Timestamped<SourcedValues> {
    fn is_shown(&self, now: Instant, stale_after: Duration) -> bool {
        self.is_fresh(now, stale_after) && now >= self.value.shown_from
    }
}

impl LastValues {
    /// Of an agent with these sources.
    pub fn new(enabled: Vec<&'static str>, shows_owners: bool) -> Self {
        Self { enabled, shows_owners, ..Self::default() }
    }

    /// With the rules that the sources' intervals make.
    pub fn with_row_rules(self, rules: &BTreeMap<&'static str, RowRules>) -> Self {
        let gaps = self.enabled.iter().filter_map(|source| rules.get(source)).map(RowRules::largest_gap);
        Self { largest_gap: gaps.max(), ..self }
    }

    /// From which age on a value is not shown: health of NVLinks is read once in ten readings, which is more than one gap.
    fn stale_after(&self) -> Duration {
        2 * self.largest_gap.unwrap_or_default().max(DEFAULT.largest_gap())
    }

    /// The values of a source, unless another one is shown in its place.
    fn sourced(
        &self,
        seen: Option<&Timestamped<SourcedValues>>,
        source: &str,
        values: Values,
    ) -> Option<Timestamped<SourcedValues>> {
        let now = Instant::now();
        let source = source.to_owned();
        let begins = |source: &str| now + self.waits(source);
        let shown_from = match seen {
            Some(seen) if seen.value.source == source => seen.value.shown_from,
            // Not shown yet: the better one has come.
            Some(seen)
                if now < seen.value.shown_from
                    && gpu_source_rank(&source) < gpu_source_rank(&seen.value.source) =>
            {
                begins(&source)
            }
            Some(seen) if now.saturating_duration_since(seen.at) < GOES_OVER_AFTER => return None,
            Some(_) | None => begins(&source),
        };
        Some(Timestamped::now(SourcedValues { source, shown_from, values }))
    }

    /// How long a source is not shown after it began.
    fn waits(&self, source: &str) -> Duration {
        // GPM's readings come from NVML's section of the configuration.
        let section = if source == "nvml_gpm" { "nvml" } else { source };
        let is_better =
            |other: &&str| RIVALS.contains(other) && gpu_source_rank(other) < gpu_source_rank(section);
        let waits = RIVALS.contains(&section) && self.enabled.iter().any(is_better);
        if waits { WAITS_FOR_BETTER } else { Duration::ZERO }
    }

    /// Takes over what a source just sent.
    pub fn observe(&self, batch: &Batch) {
        let mut inner = self.lock();
        batch.events.iter().for_each(|event| inner.forget(event));
        inner.forget_gpus(batch);
        for round in &batch.coverage {
            inner.forget_unread(&round.source, batch);
        }
        let Inner { host_ports, links, link_health, pcie, pm, chosen, gpus, link_infos, mpi, .. } =
            &mut *inner;
        for sample in &batch.host_ports {
            let values = sample.values.clone().unwrap_or_default();
            keep(host_ports, (sample.device.clone(), sample.port), Timestamped::now(values));
        }
        for sample in &batch.gpu_links {
            for link in &sample.links {
                let key = (sample.gpu_uuid.clone(), link.link);
                let (health, others) = apart(link.values.as_ref());
                if others.get(&NVLINK_UP) == Some(0) {
                    link_health.retain(|(gpu, number, _), _| (gpu, *number) != (&key.0, key.1));
                }
                let Some(stored) = self.sourced(links.get(&key), &sample.source, others) else { continue };
                for (id, value) in health.iter() {
                    let value = Values { metric: vec![id], value: vec![value] };
                    keep(link_health, (key.0.clone(), key.1, id), Timestamped::now(value));
                }
                keep(links, key, stored);
            }
        }
        for sample in &batch.gpu_pcie {
            let values = sample.values.clone().unwrap_or_default();
            if let Some(stored) = self.sourced(pcie.get(&sample.gpu_uuid), &sample.source, values) {
                keep(pcie, sample.gpu_uuid.clone(), stored);
            }
        }
        for sample in &batch.gpu_pm {
            keep(pm, sample.gpu_uuid.clone(), Timestamped::now(sample.values.clone().unwrap_or_default()));
        }
        chosen.observe(batch);
        for gpu in &batch.gpus {
            keep(gpus, gpu.uuid.clone(), gpu.clone());
        }
        for link in &batch.gpu_link_infos {
            keep(link_infos, (link.gpu_uuid.clone(), link.link), link.clone());
        }
        mpi.observe(batch, Instant::now());
    }

    /// MPI's totals as records with this time: those that changed since the last call, or all.
    pub fn mpi_records(&self, time: i64, all: bool) -> Vec<SelfStat> {
        self.lock().mpi.records(time, all)
    }

    /// Cells of MPI so far that the totals leave out.
    pub fn left_out_cells(&self) -> u64 {
        self.lock().mpi.left_out()
    }

    /// Takes over what adapters there are.
    pub fn set_adapters(&self, adapters: Tree) {
        self.lock().adapters = adapters;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves at worst one old value.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// What an event says to be gone has no values and is not there.
    fn forget(&mut self, event: &Event) {
        match event.kind.as_str() {
            GPU_LOST => {
                let lost = event.gpu_uuid.as_str();
                self.clear(|gpu, _| gpu == lost);
                self.pm.remove(lost);
                self.chosen.retain(|gpu| gpu != lost);
                self.gpus.retain(|uuid, gpu| uuid != lost && gpu.parent_uuid != lost);
                self.link_infos.retain(|(gpu, _), _| gpu != lost);
            }
            // What a source does not read on purpose is as absent as what it can't read.
            PAUSED | BUSY => {
                let paused = event.source.as_str();
                self.clear(|_, source| is_of(source, paused));
                if paused == CUPTI {
                    self.pm.clear();
                    self.chosen.retain(|_| false);
                }
            }
            "source.down" | "source.absent" => {
                let down = event.source.as_str();
                self.clear(|_, source| is_of(source, down));
                self.gpus.retain(|_, gpu| gpu.source != down);
                let Self { gpus, link_infos, .. } = self;
                link_infos.retain(|(gpu, _), _| gpus.contains_key(gpu));
                match down {
                    CUPTI => {
                        self.pm.clear();
                        self.chosen.retain(|_| false);
                    }
                    SYSFS => self.host_ports.clear(),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Takes the values of links and PCIe away, by GPU and source. The source stays: another one counts from elsewhere.
    fn clear(&mut self, is_gone: impl Fn(&str, &str) -> bool) {
        let Self { links, pcie, link_health, .. } = self;
        for ((gpu, link), seen) in
            links.iter_mut().filter(|((gpu, _), seen)| is_gone(gpu, &seen.value.source))
        {
            seen.value.values = Values::default();
            link_health.retain(|(of, number, _), _| (of, number) != (gpu, link));
        }
        for (_, seen) in pcie.iter_mut().filter(|(gpu, seen)| is_gone(gpu, &seen.value.source)) {
            seen.value.values = Values::default();
        }
    }

    /// A survey is complete, of each source: what it lacks is not there any more, or does not answer.
    fn forget_gpus(&mut self, batch: &Batch) {
        for mark in &batch.gpu_survey_marks {
            let here: BTreeMap<&str, &SurveyedGpu> =
                mark.gpus.iter().map(|gpu| (gpu.uuid.as_str(), gpu)).collect();
            self.gpus.retain(|uuid, gpu| gpu.source != mark.source || here.contains_key(uuid.as_str()));
            let gone: BTreeSet<String> = self
                .links
                .iter()
                .filter(|(_, seen)| is_of(&seen.value.source, &mark.source))
                .map(|((gpu, _), _)| gpu)
                .chain(
                    self.pcie
                        .iter()
                        .filter(|(_, seen)| is_of(&seen.value.source, &mark.source))
                        .map(|(gpu, _)| gpu),
                )
                .filter(|gpu| !here.contains_key(gpu.as_str()))
                .cloned()
                .collect();
            self.links.retain(|(gpu, _), _| !gone.contains(gpu));
            self.link_health.retain(|(gpu, _, _), _| !gone.contains(gpu));
            self.pcie.retain(|gpu, _| !gone.contains(gpu));
            // CUPTI samples the GPUs that NVML lists.
            if mark.source == NVML {
                self.pm.retain(|gpu, _| here.contains_key(gpu.as_str()));
                self.chosen.retain(|gpu| here.contains_key(gpu));
            }
            let Self { gpus, link_infos, .. } = self;
            link_infos.retain(|(gpu, link), _| {
                let links = here.get(gpu.as_str()).map(|found| &found.links);
                gpus.contains_key(gpu) && links.is_none_or(|links| links.contains(link))
            });
        }
    }

    /// A round reads all that its source has: what it lacks could not be read.
    fn forget_unread(&mut self, source: &str, batch: &Batch) {
        if source == SYSFS {
            let read: BTreeSet<(&str, u32)> =
                batch.host_ports.iter().map(|port| (port.device.as_str(), port.port)).collect();
            return self.host_ports.retain(|(device, port), _| read.contains(&(device.as_str(), *port)));
        }
        if source == CUPTI {
            let sampled: BTreeSet<&str> = batch.gpu_pm.iter().map(|gpu| gpu.gpu_uuid.as_str()).collect();
            self.pm.retain(|gpu, _| sampled.contains(gpu.as_str()));
            self.chosen.retain(|gpu| sampled.contains(gpu));
        }
        let samples = batch.gpu_links.iter();
        let read: BTreeSet<(&str, u32)> =
            samples.flat_map(|gpu| gpu.links.iter().map(|link| (gpu.gpu_uuid.as_str(), link.link))).collect();
        let pcie: BTreeSet<&str> = batch.gpu_pcie.iter().map(|gpu| gpu.gpu_uuid.as_str()).collect();
        for ((gpu, link), seen) in &mut self.links {
            if is_of(&seen.value.source, source) && !read.contains(&(gpu.as_str(), *link)) {
                seen.value.values = Values::default();
                self.link_health.retain(|(of, number, _), _| (of, number) != (gpu, link));
            }
        }
        for (gpu, seen) in &mut self.pcie {
            if is_of(&seen.value.source, source) && !pcie.contains(gpu.as_str()) {
                seen.value.values = Values::default();
            }
        }
    }
}

/// Whether records of this name are of a source: NVML reads GPM, too.
fn is_of(name: &str, source: &str) -> bool {
    name == source || name == SOURCE_GPM && source == NVML
}

/// The values of a link's health, and the others.
fn apart(values: Option<&Values>) -> (Values, Values) {
    let (mut health, mut others) = (Values::default(), Values::default());
    for (id, value) in values.into_iter().flat_map(Values::iter) {
        let into = if NVLINK_HEALTH.contains(&id) { &mut health } else { &mut others };
        into.metric.push(id);
        into.value.push(value);
    }
    (health, others)
}

/// Inserts or replaces; beyond the bound only what is known already is updated.
fn keep<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) {
    if map.len() < GROUPS_MAX || map.contains_key(&key) {
        map.insert(key, value);
    }
}

/// Adds each value of a group under its table's first prefix.
fn metrics(page: &mut Page, table: Table, labels: &[(&'static str, &str)], values: &Values) {
    let prefix = table.prometheus_prefixes().first().copied().unwrap_or_default();
    for (id, value) in values.iter() {
        if let Some(metric) = by_id(id).filter(|metric| metric.table == table) {
            page.metric(metric, prefix, labels, value);
        }
    }
}

impl Expose for LastValues {
    fn expose(&self, page: &mut Page) {
        let (now, stale_after) = (Instant::now(), self.stale_after());
        let inner = self.lock();
        for ((device, port), seen) in
            inner.host_ports.iter().filter(|(_, seen)| seen.is_fresh(now, stale_after))
        {
            metrics(
                page,
                Table::HostPortCounters,
                &[("device", device), ("port", &port.to_string())],
                &seen.value,
            );
        }
        let health = inner
            .link_health
            .iter()
            .map(|((gpu, link, _), seen)| (gpu, link, seen.is_fresh(now, stale_after), &seen.value));
        let links = inner.links.iter();
        let links = links
            .map(|((gpu, link), seen)| (gpu, link, seen.is_shown(now, stale_after), &seen.value.values))
            .chain(health);
        for (gpu, link, _, values) in links.filter(|(_, _, is_fresh, _)| *is_fresh) {
            metrics(page, Table::NvlinkCounters, &[("gpu", gpu), ("link", &link.to_string())], values);
        }
        for (gpu, seen) in inner.pcie.iter().filter(|(_, seen)| seen.is_shown(now, stale_after)) {
            metrics(page, Table::GpuPcieCounters, &[("gpu", gpu)], &seen.value.values);
        }
        for (gpu, seen) in inner.pm.iter().filter(|(_, seen)| seen.is_fresh(now, stale_after)) {
            metrics(page, Table::GpuPmCounters, &[("gpu", gpu)], &seen.value);
        }
        inner.chosen.expose(page, now, stale_after);
        for adapter in &inner.adapters.adapters {
            // An attribute that can't be read is an empty label, as node_exporter has it.
            let text = |text: &Text| text.clone().unwrap_or_default();
            let (board, firmware) = (text(&adapter.board_id), text(&adapter.firmware));
            let (kind, guid) = (
                text(&adapter.adapter_type),
                adapter.node_guid.map_or_else(String::new, |guid| guid.to_string()),
            );
            let labels = [
                ("device", adapter.device.as_str()),
                ("board_id", &board),
                ("firmware_version", &firmware),
                ("hca_type", &kind),
                ("node_guid", &guid),
            ];
            page.info("node_infiniband_info", "An InfiniBand adapter of this host.", &labels);
        }
        for gpu in inner.gpus.values() {
            let index = gpu.index.to_string();
            if !gpu.parent_uuid.is_empty() {
                let labels = [
                    ("gpu", gpu.parent_uuid.as_str()),
                    ("index", &index),
                    ("name", &gpu.name),
                    ("partition", &gpu.uuid),
                ];
                page.info(
                    "throughline_gpu_partition_info",
                    "A partition (MIG) of a GPU of this node.",
                    &labels,
                );
                continue;
            }
            let domain = gpu.nvlink_domain().unwrap_or_default();
            let labels = [
                ("gpu", gpu.uuid.as_str()),
                ("index", &index),
                ("name", &gpu.name),
                ("pci", &gpu.pci_bus_id),
                ("domain", &domain),
            ];
            page.info("throughline_gpu_info", "A GPU of this node.", &labels);
        }
        for link in inner.link_infos.values() {
            let (number, remote) =
                (link.link.to_string(), link.remote_link.map_or_else(String::new, |link| link.to_string()));
            let labels = [
                ("gpu", link.gpu_uuid.as_str()),
                ("link", &number),
                ("remote_type", &link.remote_type),
                ("remote_gpu", &link.remote_gpu_uuid),
                ("remote_link", &remote),
            ];
            page.info("throughline_nvlink_info", "Where an NVLink leads to.", &labels);
        }
        inner.mpi.expose(page, self.shows_owners);
    }
}

#[cfg(test)]
mod tests;
