//! The last values of the metrics of GPUs that a site chose.

use super::{Timestamped, keep};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use throughline_daemon::Page;
use throughline_sample::catalogue::{GPU_METRIC_SUM, GPU_METRIC_VALUE, Table};
use throughline_sample::wire::{Batch, GpuMetricValue};

/// By GPU and name: groups are reported at intervals of their own.
#[derive(Debug, Default)]
pub(super) struct ChosenMetrics(BTreeMap<(String, String), Timestamped<GpuMetricValue>>);

impl ChosenMetrics {
    /// Takes over what a reading has; what was due in it and held no number goes.
    pub fn observe(&mut self, batch: &Batch) {
        for sample in &batch.gpu_metrics {
            for metric in &sample.metrics {
                let key = (sample.gpu_uuid.clone(), metric.name.clone());
                if metric.sum.is_none() && metric.value.is_none() {
                    self.0.remove(&key);
                } else {
                    keep(&mut self.0, key, Timestamped::now(metric.clone()));
                }
            }
        }
    }

    /// Leaves those of some GPUs.
    pub fn retain(&mut self, is_left: impl Fn(&str) -> bool) {
        self.0.retain(|(gpu, _), _| is_left(gpu));
    }

    /// Adds their series.
    pub fn expose(&self, page: &mut Page, now: Instant, stale_after: Duration) {
        let prefix = Table::GpuMetrics.prometheus_prefixes().first().copied().unwrap_or_default();
        for ((gpu, name), seen) in self.0.iter().filter(|(_, seen)| seen.is_fresh(now, stale_after)) {
            let labels = [("gpu", gpu.as_str()), ("metric", name.as_str())];
            if let Some(sum) = seen.value.sum {
                // As it is stored, so that the series read back is the same.
                page.metric(&GPU_METRIC_SUM, prefix, &labels, GPU_METRIC_SUM.width.reduce(sum));
            }
            if let Some(value) = seen.value.value {
                page.metric(&GPU_METRIC_VALUE, prefix, &labels, value);
            }
        }
    }
}
