//! Metrics of the GPUs' performance monitors that a site chooses: `[cupti] metrics` and `[[cupti.group]]`.

use super::Cupti;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use throughline_daemon::{Failure, Seconds};
use throughline_gpu::cupti::wanted::{MetricGroup, groups_fault};

/// Longest interval of a group: rows that are farther apart than 75 seconds would have no rate.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// `[[cupti.group]]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CuptiGroup {
    /// As CUPTI names them.
    pub metrics: Vec<String>,
    /// From one report to the next, a whole multiple of that of the source.
    pub interval_seconds: Seconds,
}

impl Cupti {
    /// All chosen metrics, those of `metrics` first, as far as they can be checked without a GPU.
    ///
    /// # Errors
    /// Naming the metric or the interval that is wrong (64).
    pub fn metric_groups(&self) -> Result<Vec<MetricGroup>, Failure> {
        let interval = self.interval_seconds.duration();
        let own = MetricGroup { metrics: self.metrics.clone(), interval };
        let own = Some(own).filter(|own| !own.metrics.is_empty());
        let groups = self.group.iter().map(|group| MetricGroup {
            metrics: group.metrics.clone(),
            interval: group.interval_seconds.duration(),
        });
        let groups: Vec<MetricGroup> = own.into_iter().chain(groups).collect();
        let fault =
            groups_fault(&groups).or_else(|| self.group.iter().find_map(|group| group.fault(interval)));
        match fault {
            Some(fault) => {
                Err(Failure::usage(format!("configuration: cupti.metrics and cupti.group: {fault}")))
            }
            None => Ok(groups),
        }
    }
}

impl CuptiGroup {
    /// What is wrong with it where the source has this interval.
    fn fault(&self, of_source: Duration) -> Option<String> {
        let interval = self.interval_seconds.duration();
        let (seconds, every) = (interval.as_secs_f64(), of_source.as_secs_f64());
        if self.metrics.is_empty() {
            Some("a group has no metrics".to_owned())
        } else if interval > INTERVAL_MAX.max(of_source) {
            Some(format!("interval_seconds = {seconds} is more than {}", INTERVAL_MAX.as_secs()))
        } else if interval.as_nanos().is_multiple_of(of_source.as_nanos()) {
            None
        } else {
            Some(format!(
                "interval_seconds = {seconds} is no whole multiple of cupti.interval_seconds = {every}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn of(text: &str) -> Result<Vec<MetricGroup>, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.cupti.metric_groups().map_err(|error| error.to_string())
    }

    #[test]
    fn metrics_and_groups_are_read_in_their_order() {
        let text = "[cupti]\nmetrics = [\"sm__cycles_active.avg\"]\n[[cupti.group]]\n\
                    metrics = [\"dram__bytes_read.sum\"]\ninterval_seconds = 10\n";
        let groups = of(text).unwrap();
        let named: Vec<(&str, u64)> =
            groups.iter().map(|group| (group.metrics[0].as_str(), group.interval.as_secs())).collect();
        assert_eq!(named, [("sm__cycles_active.avg", 1), ("dram__bytes_read.sum", 10)]);
        assert!(of("").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_without_a_gpu_is_named() {
        let group = |text: &str| format!("[[cupti.group]]\n{text}");
        for (text, fault) in [
            ("[cupti]\nmetrics = [\"a b\"]".to_owned(), "'a b' has characters"),
            ("[cupti]\nmetrics = [\"\"]".to_owned(), "a name is empty"),
            ("[cupti]\nmetrics = [\"a.sum\", \"a.sum\"]".to_owned(), "'a.sum' is named twice"),
            (format!("[cupti]\nmetrics = {:?}", vec!["a"; 0].len()), "invalid type"),
            (group("metrics = []\ninterval_seconds = 1"), "a group has no metrics"),
            (group("metrics = [\"a.sum\"]\ninterval_seconds = 1.5"), "1.5 is no whole multiple"),
            (group("metrics = [\"a.sum\"]\ninterval_seconds = 90"), "90 is more than 60"),
            (group("metrics = [\"a.sum\"]"), "interval_seconds"),
        ] {
            let said = of(&text).unwrap_err();
            assert!(said.contains(fault), "{text}: {said}");
        }
        let many: Vec<String> = (0..33).map(|number| format!("m{number}.sum")).collect();
        assert!(
            of(&format!("[cupti]\nmetrics = {many:?}")).unwrap_err().contains("33 metrics are more than 32")
        );
    }
}
