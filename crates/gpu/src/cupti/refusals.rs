//! Chosen metrics that GPUs do not sample, as the agent has it: an event once, and the source's words.

use std::collections::{BTreeMap, BTreeSet};

use throughline_sample::wire;

use super::convert::SOURCE;
use crate::cupti_frame::CuptiMetrics;

/// The event of a metric that is not sampled.
pub const METRIC_REFUSED: &str = "gpu.metric_refused";

/// How many are named in the source's words.
const NAMED: usize = 5;

/// What GPUs refused, as they reported last.
#[derive(Default)]
pub(super) struct Refusals {
    /// By the GPU's UUID.
    of: BTreeMap<String, BTreeSet<String>>,
    /// Events that were made: a chip's words are the same for each of its GPUs, and at each beginning.
    reported: BTreeSet<String>,
}

impl Refusals {
    /// Takes what a GPU reports; an event for each metric whose words are new.
    pub fn take(&mut self, planned: CuptiMetrics, time: i64) -> Vec<wire::Event> {
        let texts: BTreeSet<String> = planned.refused.into_iter().map(|refused| refused.text).collect();
        let new = texts.iter().filter(|text| self.reported.insert((*text).clone()));
        let event = |text: &String| wire::Event {
            time,
            source: SOURCE.to_owned(),
            kind: METRIC_REFUSED.to_owned(),
            severity: "warning".to_owned(),
            text: text.clone(),
            gpu_uuid: planned.uuid.clone(),
            ..wire::Event::default()
        };
        let events = new.map(event).collect();
        self.of.insert(planned.uuid, texts);
        events
    }

    /// What is not sampled, for people.
    pub fn detail(&self) -> Option<String> {
        let all: BTreeSet<&str> = self.of.values().flatten().map(String::as_str).collect();
        let named: Vec<&str> = all.iter().copied().take(NAMED).collect();
        let more = match all.len() - named.len() {
            0 => String::new(),
            more => format!("; and {more} more, see `throughline-agent gpu doctor`"),
        };
        (!all.is_empty()).then(|| format!("not sampled: {}{more}", named.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cupti_frame::RefusedMetric;

    #[test]
    fn a_metric_is_an_event_once_for_all_gpus_of_a_chip() {
        let refused = |text: &str| RefusedMetric { metric: "m".into(), text: text.into() };
        let planned = |uuid: &str, texts: &[&str]| CuptiMetrics {
            uuid: uuid.into(),
            refused: texts.iter().map(|text| refused(text)).collect(),
            ..CuptiMetrics::default()
        };
        let mut refusals = Refusals::default();
        assert_eq!(refusals.detail(), None);
        let events = refusals.take(planned("GPU-0", &["a", "b"]), 7);
        assert_eq!(events.iter().map(|event| event.text.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(refusals.take(planned("GPU-1", &["a"]), 8).is_empty());
        assert_eq!(refusals.detail().unwrap(), "not sampled: a; b");
        assert!(refusals.take(planned("GPU-0", &[]), 9).is_empty());
        assert_eq!(refusals.detail().unwrap(), "not sampled: a");
        refusals.take(planned("GPU-2", &["c", "d", "e", "f", "g"]), 9);
        assert!(refusals.detail().unwrap().contains("and 1 more"));
    }
}
