//! Raw readings of CUPTI to records. Pure: no clock, no I/O; time comes in as an argument.
//!
//! A GPU that could not be read has no sample, and a counted reason. Each time that sampling begins anew, so does the
//! epoch of its sums.

use std::collections::{BTreeMap, HashMap};

use throughline_sample::catalogue::{self, Metric};
use throughline_sample::wire;

use super::code;
use crate::cupti_frame::{CuptiGpu, CuptiPoll, MetricReading};

/// The name of this source in records.
pub const SOURCE: &str = "cupti";
/// The event of a GPU that another profiler has.
pub const GPU_BUSY: &str = "gpu.busy";
/// The event of one that is sampled again.
pub const GPU_SAMPLED: &str = "gpu.sampled";

/// The reason for a chosen metric none of whose samples held a number, as a ratio of nothing to nothing has none.
pub const NOT_A_NUMBER: &str = "not_a_number";
/// The reason for one without a sample since its last report.
pub const NO_SAMPLE: &str = "no_sample";

/// The metrics of each quantity: its bytes and its highest rate.
const METRICS: [[&Metric; 2]; 4] = [
    [&catalogue::PM_NVLINK_TRANSMIT_BYTES, &catalogue::PM_NVLINK_TRANSMIT_PEAK],
    [&catalogue::PM_NVLINK_RECEIVE_BYTES, &catalogue::PM_NVLINK_RECEIVE_PEAK],
    [&catalogue::PM_PCIE_READ_BYTES, &catalogue::PM_PCIE_READ_PEAK],
    [&catalogue::PM_PCIE_WRITE_BYTES, &catalogue::PM_PCIE_WRITE_PEAK],
];

/// Stores when each GPU's sums began and its last state.
#[derive(Default)]
pub struct CuptiConverter {
    gpus: HashMap<String, Memory>,
}

#[derive(Default)]
struct Memory {
    /// When the sums began, by the monotonic clock and as the epoch in records.
    begun: Option<(i64, i64)>,
    code: u32,
}

/// What one poll became.
#[derive(Debug, Default, PartialEq)]
pub struct ConvertedCuptiPoll {
    /// The records.
    pub batch: wire::Batch,
    /// GPUs that could not be read and values of chosen metrics that are absent, by reason.
    pub absent: BTreeMap<&'static str, u64>,
}

impl CuptiConverter {
    /// Makes records of a poll. `utc` turns `CLOCK_MONOTONIC` nanoseconds into UTC nanoseconds.
    pub fn poll(&mut self, poll: &CuptiPoll, utc: &dyn Fn(i64) -> i64) -> ConvertedCuptiPoll {
        let mut converted = ConvertedCuptiPoll::default();
        let (mut time, mut failed) = (0, 0);
        for gpu in &poll.gpus {
            let memory = self.gpus.entry(gpu.uuid.clone()).or_default();
            time = utc(gpu.monotonic_nanoseconds);
            let before = std::mem::replace(&mut memory.code, gpu.code);
            if before != gpu.code {
                converted.batch.events.push(change(gpu, time));
            }
            if gpu.code != 0 {
                *converted.absent.entry(code::reason(gpu.code)).or_default() += 1;
                failed += 1;
                continue;
            }
            let epoch = match memory.begun {
                Some((begun, epoch)) if begun == gpu.begun_nanoseconds => epoch,
                _ => utc(gpu.begun_nanoseconds),
            };
            memory.begun = Some((gpu.begun_nanoseconds, epoch));
            if gpu.by_links {
                converted.batch.gpu_links.push(links(gpu, time, epoch));
            } else {
                converted.batch.gpu_pm.push(sums(gpu, time, epoch));
                converted.metrics(gpu, time, epoch);
            }
        }
        converted.batch.coverage.push(wire::Coverage {
            time,
            source: SOURCE.to_owned(),
            expected: poll.gpus.len() as u64,
            read: poll.gpus.len() as u64 - failed,
            failed,
            elapsed_seconds: poll.elapsed_nanoseconds as f64 / 1e9,
            reasons: converted.absent.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
            ..wire::Coverage::default()
        });
        converted
    }
}

impl ConvertedCuptiPoll {
    /// The metrics that the site chose, as far as they are due; without a value where no sample held a number.
    fn metrics(&mut self, gpu: &CuptiGpu, time: i64, epoch: i64) {
        let unknown = gpu.metrics.iter().filter(|metric| metric.sum.is_none() && metric.value.is_none());
        for metric in unknown {
            let reason = if metric.void_samples > 0 { NOT_A_NUMBER } else { NO_SAMPLE };
            *self.absent.entry(reason).or_default() += 1;
        }
        if gpu.metrics.is_empty() {
            return;
        }
        let value = |metric: &MetricReading| wire::GpuMetricValue {
            name: metric.name.clone(),
            sum: metric.sum,
            value: metric.value,
        };
        self.batch.gpu_metrics.push(wire::GpuMetricsSample {
            time,
            epoch,
            gpu_uuid: gpu.uuid.clone(),
            source: SOURCE.to_owned(),
            metrics: gpu.metrics.iter().map(value).collect(),
        });
    }
}

fn sums(gpu: &CuptiGpu, time: i64, epoch: i64) -> wire::GpuPmSample {
    let mut values = wire::Values::default();
    for sum in &gpu.sums {
        let Some([bytes, peak]) = METRICS.get(sum.quantity as usize) else { continue };
        values.put(bytes, sum.bytes);
        values.put(peak, sum.peak);
    }
    values.put(&catalogue::PM_SAMPLES, gpu.samples);
    values.put(&catalogue::PM_VOID_SAMPLES, gpu.void_samples);
    values.put(&catalogue::PM_OVERFLOWS, gpu.overflows);
    wire::GpuPmSample {
        time,
        epoch,
        gpu_uuid: gpu.uuid.clone(),
        source: SOURCE.to_owned(),
        values: Some(values),
    }
}

fn links(gpu: &CuptiGpu, time: i64, epoch: i64) -> wire::GpuLinksSample {
    let links = gpu.links.iter().map(|link| {
        let mut values = wire::Values::default();
        values.put(&catalogue::NVLINK_TRANSMIT_BYTES, link.transmit);
        values.put(&catalogue::NVLINK_RECEIVE_BYTES, link.receive);
        wire::LinkValues { link: link.link, values: Some(values) }
    });
    wire::GpuLinksSample {
        time,
        epoch,
        gpu_uuid: gpu.uuid.clone(),
        source: SOURCE.to_owned(),
        links: links.collect(),
    }
}

/// A GPU can be read again, or not any more.
fn change(gpu: &CuptiGpu, time: i64) -> wire::Event {
    let (kind, severity, text) = match gpu.code {
        0 => (GPU_SAMPLED, "info", "its performance monitor is sampled again".to_owned()),
        code::HARDWARE_BUSY => (GPU_BUSY, "info", gpu.problem.clone()),
        _ => ("gpu.not_sampled", "warning", gpu.problem.clone()),
    };
    wire::Event {
        time,
        source: SOURCE.to_owned(),
        kind: kind.to_owned(),
        severity: severity.to_owned(),
        text: format!("GPU {} ({}): {text}", gpu.index, gpu.uuid),
        gpu_uuid: gpu.uuid.clone(),
        ..wire::Event::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cupti_frame::{LinkBytes, QuantitySum};

    fn gpu(code: u32, begun: i64, bytes: u64) -> CuptiGpu {
        CuptiGpu {
            uuid: "GPU-1".into(),
            code,
            monotonic_nanoseconds: begun + 1000,
            begun_nanoseconds: begun,
            sums: vec![QuantitySum { quantity: 2, bytes, peak: 9 }],
            samples: 4,
            ..CuptiGpu::default()
        }
    }

    fn poll(gpus: Vec<CuptiGpu>) -> CuptiPoll {
        CuptiPoll { gpus, ..CuptiPoll::default() }
    }

    #[test]
    fn what_the_chip_does_not_offer_is_absent_and_each_beginning_is_an_epoch() {
        let mut converter = CuptiConverter::default();
        // A clock that is set while sums go on moves no epoch.
        let first = converter.poll(&poll(vec![gpu(0, 100, 7)]), &|monotonic| monotonic + 5).batch;
        let second = converter.poll(&poll(vec![gpu(0, 100, 8)]), &|monotonic| monotonic + 6).batch;
        let anew = converter.poll(&poll(vec![gpu(0, 5000, 1)]), &|monotonic| monotonic + 6).batch;
        let values = first.gpu_pm[0].values.as_ref().unwrap();
        assert_eq!(values.get(&catalogue::PM_PCIE_READ_BYTES), Some(7));
        assert_eq!(values.get(&catalogue::PM_PCIE_READ_PEAK), Some(9));
        assert_eq!(values.get(&catalogue::PM_NVLINK_TRANSMIT_BYTES), None);
        assert_eq!((first.gpu_pm[0].epoch, second.gpu_pm[0].epoch, anew.gpu_pm[0].epoch), (105, 105, 5006));
    }

    #[test]
    fn a_busy_gpu_has_no_sample_and_a_reason_and_its_changes_are_events() {
        let mut converter = CuptiConverter::default();
        let busy = converter.poll(&poll(vec![gpu(26, 100, 7)]), &|monotonic| monotonic);
        assert!(busy.batch.gpu_pm.is_empty());
        assert_eq!(busy.absent, [("hardware_busy", 1)].into());
        assert_eq!((busy.batch.coverage[0].expected, busy.batch.coverage[0].failed), (1, 1));
        assert_eq!(busy.batch.events[0].kind, "gpu.busy");
        let still = converter.poll(&poll(vec![gpu(26, 100, 7)]), &|monotonic| monotonic);
        assert!(still.batch.events.is_empty());
        let back = converter.poll(&poll(vec![gpu(0, 200, 7)]), &|monotonic| monotonic);
        assert_eq!((back.batch.events[0].kind.as_str(), back.batch.gpu_pm.len()), ("gpu.sampled", 1));
    }

    #[test]
    fn the_metric_apis_links_are_rows_of_links() {
        let links = vec![LinkBytes { link: 3, transmit: 5, receive: 6 }];
        let volta = CuptiGpu { by_links: true, links, sums: Vec::new(), ..gpu(0, 1, 0) };
        let batch = CuptiConverter::default().poll(&poll(vec![volta]), &|monotonic| monotonic).batch;
        assert!(batch.gpu_pm.is_empty());
        let link = &batch.gpu_links[0].links[0];
        assert_eq!(
            (link.link, link.values.as_ref().unwrap().get(&catalogue::NVLINK_RECEIVE_BYTES)),
            (3, Some(6))
        );
        assert_eq!(batch.gpu_links[0].source, "cupti");
    }
}
