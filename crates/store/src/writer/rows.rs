//! Records to rows of the hypertables. Pure: no connection, no SQL beyond names of tables and columns.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use throughline_sample::catalogue::{self, Table};
use throughline_sample::wire::{Batch, Event, GpuMetricValue, LinkValues};
use throughline_sample::{Guid, RecordTimes, timed_kinds};

use super::keys::Keys;
use super::row_values::{fill, push_arrays};
use crate::copy::{RowBuffer, stored};
use crate::fabrics::instance_of_fabric;
use crate::tables::{TABLES, index};

/// How far ahead of this machine's clock a record may be. Beyond it is a broken clock, and each such hour
/// would make a chunk that retention never reaches.
const FUTURE_NANOSECONDS: i64 = 24 * 3600 * 1_000_000_000;

/// Links of one GPU: NVLink 5 has 18; the arrays' length is bounded by this.
const LINKS: usize = 64;

/// Text that is there.
fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A port of a node that is named; of nothing it is nothing.
fn optional_port(row: &mut RowBuffer, guid: &Option<String>, port: u32) {
    match i32::try_from(port) {
        Ok(port) if guid.is_some() => row.int4(port),
        _ => row.null(),
    }
}

/// Rows of all tables.
pub(super) struct Rows {
    pub(super) buffers: Vec<RowBuffer>,
    latest_nanoseconds: i64,
    /// Scratch space for one row's metrics.
    slots: Vec<Option<i64>>,
    unknown_values: u64,
    /// The batch that is added was requested: its rows go to the tables of detail.
    is_detail: bool,
}

impl Rows {
    pub fn new() -> Self {
        let buffers = TABLES.iter().map(|table| RowBuffer::new(table.copied().len())).collect();
        let latest_nanoseconds = now_nanoseconds().saturating_add(FUTURE_NANOSECONDS);
        Self { buffers, latest_nanoseconds, slots: Vec::new(), unknown_values: 0, is_detail: false }
    }

    /// The rows, in the order of [`TABLES`].
    pub fn into_buffers(self) -> Vec<RowBuffer> {
        self.buffers
    }

    /// Adds a batch's samples; returns how many values had a metric that this build does not know.
    pub fn add(&mut self, batch: &Batch, keys: &Keys) -> Result<u64, String> {
        self.unknown_values = 0;
        self.check_times(batch)?;
        self.is_detail = batch.detail.is_some();
        self.add_ports(batch, keys)?;
        self.add_gpus(batch, keys)?;
        if self.is_detail {
            self.add_detail_mpi(batch, keys)?;
            return Ok(self.unknown_values);
        }
        self.add_mpi(batch, keys)?;
        self.add_reports(batch, keys);
        Ok(self.unknown_values)
    }

    fn check_times(&self, batch: &Batch) -> Result<(), String> {
        match newest_time(batch) {
            Some(newest) if newest > self.latest_nanoseconds => Err(format!(
                "a record's time {} is more than a day ahead of this machine's clock",
                throughline_sample::to_rfc3339(newest)
            )),
            _ => Ok(()),
        }
    }

    fn add_ports(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        let fabric = keys.fabric(batch);
        for sample in &batch.ib_ports {
            let id = keys.ib_port(fabric.clone()?, sample.node_guid, sample.port)?;
            self.unknown_values += fill(&mut self.slots, Table::IbPortCounters, sample.values.as_ref());
            let names: Vec<&str> = sample
                .saturated
                .iter()
                .filter_map(|id| catalogue::by_id(*id))
                .map(|metric| metric.name)
                .collect();
            let row = &mut self.buffers[if self.is_detail {
                const { index("detail_ib_ports") }
            } else {
                const { index("ib_port_counters") }
            }];
            begin_sample(row, sample.time, id, sample.epoch, &sample.source);
            self.slots.iter().for_each(|value| row.optional_int8(*value));
            if names.is_empty() { row.null() } else { row.text_array(&names) }
        }
        for sample in &batch.ib_port_lanes {
            let id = keys.ib_port(fabric.clone()?, sample.node_guid, sample.port)?;
            let what = || format!("port {} of {}", sample.port, Guid(sample.node_guid));
            let arrays = self.arrays(Table::IbPortLaneCounters, &sample.lanes, what)?;
            let row = &mut self.buffers[const { index("ib_port_lane_counters") }];
            begin_sample(row, sample.time, id, sample.epoch, &sample.source);
            push_arrays(row, &arrays);
        }
        for sample in &batch.host_ports {
            let id = keys.host_port(&batch.node, &sample.device, sample.port)?;
            self.unknown_values += fill(&mut self.slots, Table::HostPortCounters, sample.values.as_ref());
            let row = &mut self.buffers[if self.is_detail {
                const { index("detail_host_ports") }
            } else {
                const { index("host_port_counters") }
            }];
            begin_sample(row, sample.time, id, sample.epoch, &sample.source);
            self.slots.iter().for_each(|value| row.optional_int8(*value));
        }
        Ok(())
    }

    fn add_gpus(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        for sample in &batch.gpu_links {
            let id = keys.gpu(&batch.node, &sample.gpu_uuid)?;
            let what = || format!("GPU {}", sample.gpu_uuid);
            let arrays = self.arrays(Table::NvlinkCounters, &sample.links, what)?;
            let row = &mut self.buffers[if self.is_detail {
                const { index("detail_nvlink") }
            } else {
                const { index("nvlink_counters") }
            }];
            begin_sample(row, sample.time, id, sample.epoch, &sample.source);
            push_arrays(row, &arrays);
        }
        for sample in &batch.gpu_pcie {
            let id = keys.gpu(&batch.node, &sample.gpu_uuid)?;
            self.unknown_values += fill(&mut self.slots, Table::GpuPcieCounters, sample.values.as_ref());
            let row = &mut self.buffers[if self.is_detail {
                const { index("detail_gpu_pcie") }
            } else {
                const { index("gpu_pcie_counters") }
            }];
            begin_sample(row, sample.time, id, sample.epoch, &sample.source);
            self.slots.iter().for_each(|value| row.optional_int8(*value));
        }
        for sample in &batch.gpu_pm {
            let id = keys.gpu(&batch.node, &sample.gpu_uuid)?;
            self.unknown_values += fill(&mut self.slots, Table::GpuPmCounters, sample.values.as_ref());
            let row = &mut self.buffers[if self.is_detail {
                const { index("detail_gpu_pm") }
            } else {
                const { index("gpu_pm_counters") }
            }];
            begin_sample(row, sample.time, id, sample.epoch, &sample.source);
            self.slots.iter().for_each(|value| row.optional_int8(*value));
        }
        for sample in &batch.gpu_metrics {
            let gpu = keys.gpu(&batch.node, &sample.gpu_uuid)?;
            let known = |metric: &&GpuMetricValue| metric.sum.is_some() || metric.value.is_some();
            for metric in sample.metrics.iter().filter(known) {
                let Some(id) = keys.gpu_metric(gpu, &metric.name) else {
                    self.unknown_values += 1;
                    continue;
                };
                let row = &mut self.buffers[const { index("gpu_metrics") }];
                begin_sample(row, sample.time, id, sample.epoch, &sample.source);
                row.optional_int8(metric.sum.map(|sum| stored(catalogue::GPU_METRIC_SUM.width.reduce(sum))));
                row.optional_float8(metric.value);
            }
        }
        Ok(())
    }

    /// An array per metric, as long as its last link or lane that was read.
    fn arrays(
        &mut self,
        table: Table,
        links: &[LinkValues],
        what: impl Fn() -> String,
    ) -> Result<Vec<Vec<Option<i64>>>, String> {
        let mut arrays: Vec<Vec<Option<i64>>> = vec![Vec::new(); table.metrics().len()];
        for link in links {
            let at = usize::try_from(link.link).unwrap_or(usize::MAX);
            if at >= LINKS {
                return Err(format!("link {at} of {} is out of range", what()));
            }
            self.unknown_values += fill(&mut self.slots, table, link.values.as_ref());
            for (array, value) in arrays.iter_mut().zip(&self.slots) {
                if value.is_some() {
                    array.resize(array.len().max(at + 1), None);
                    array[at] = *value;
                }
            }
        }
        Ok(arrays)
    }

    /// What a process reports about itself and its rounds.
    fn add_reports(&mut self, batch: &Batch, keys: &Keys) {
        let instance = instance_of(batch, keys);
        for event in &batch.events {
            self.add_event(&instance, event);
        }
        for round in &batch.coverage {
            let row = &mut self.buffers[const { index("coverage") }];
            row.row();
            row.time(round.time);
            row.text(&instance);
            row.text(&round.source);
            row.int8(stored(round.expected));
            row.int8(stored(round.read));
            row.int8(stored(round.failed));
            row.float8(round.elapsed_seconds);
            match serde_json::to_string(&round.reasons) {
                // jsonb has no NUL character either.
                Ok(text) if !round.reasons.is_empty() => row.jsonb(&text.replace("\\u0000", "\u{fffd}")),
                _ => row.null(),
            }
            row.int4(round.rounds().try_into().unwrap_or(i32::MAX));
            match round.rounds() {
                2.. => row.time(round.first_time),
                _ => row.null(),
            }
        }
        self.add_stats(&instance, batch);
    }

    /// Adds one event that this process reports.
    pub fn add_event(&mut self, instance: &str, event: &Event) {
        let guid_text = |guid: u64| (guid != 0).then(|| Guid(guid).to_string());
        let (guid, remote) = (guid_text(event.ib_guid), guid_text(event.remote_ib_guid));
        let row = &mut self.buffers[const { index("events") }];
        row.row();
        row.time(event.time);
        for text in [instance, &event.source, &event.kind, &event.severity, &event.text] {
            row.text(text);
        }
        row.optional_text(guid.as_deref());
        optional_port(row, &guid, event.ib_port);
        row.optional_text(some(&event.gpu_uuid));
        row.optional_text(some(&event.job_key));
        row.optional_text(remote.as_deref());
        optional_port(row, &remote, event.remote_ib_port);
        row.optional_text(some(&event.before));
        row.optional_text(some(&event.after));
    }

    /// Adds what a process reports of itself, a row for each time.
    fn add_stats(&mut self, instance: &str, batch: &Batch) {
        let mut times: BTreeMap<i64, BTreeMap<(&str, &str, &str), f64>> = BTreeMap::new();
        for stat in &batch.self_stats {
            times.entry(stat.time).or_default().insert((&stat.source, &stat.label, &stat.name), stat.value);
        }
        // With them, and not with each batch: it hardly changes from one second to the next.
        if let (Some(error), Some(mut last)) = (batch.clock_error_nanoseconds, times.last_entry()) {
            last.get_mut().insert((CLOCK, "", catalogue::CLOCK_ERROR_SECONDS.name), error as f64 / 1e9);
        }
        for (time, stats) in times {
            let row = &mut self.buffers[const { index("self_stat_rows") }];
            row.row();
            row.time(time);
            row.text(instance);
            row.text_array(&stats.keys().map(|(source, ..)| *source).collect::<Vec<_>>());
            row.text_array(&stats.keys().map(|(_, label, _)| *label).collect::<Vec<_>>());
            row.text_array(&stats.keys().map(|(.., name)| *name).collect::<Vec<_>>());
            row.float8_array(&stats.into_values().collect::<Vec<_>>());
        }
    }
}

/// The part of a daemon whose metric the error of its clock is.
pub(super) const CLOCK: &str = "clock";

/// Who reports: the node's name, or the fabric of a crawler by its id.
pub(super) fn instance_of(batch: &Batch, keys: &Keys) -> String {
    match keys.fabric(batch) {
        Ok(fabric) if batch.node.is_empty() => instance_of_fabric(fabric),
        _ => batch.node.clone(),
    }
}

/// The newest time of a batch's samples; `None` for a batch of inventory alone.
pub(super) fn newest_time(batch: &Batch) -> Option<i64> {
    macro_rules! newest {
        ($($kind:ident),+) => {
            [$(batch.$kind.iter().flat_map(RecordTimes::times).max()),+].into_iter().flatten().max()
        };
    }
    timed_kinds!(newest)
}

/// This machine's clock in UTC nanoseconds.
pub(super) fn now_nanoseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn begin_sample(row: &mut RowBuffer, time: i64, id: i64, epoch: i64, source: &str) {
    row.row();
    row.time(time);
    row.int8(id);
    row.time(epoch);
    row.text(source);
}
