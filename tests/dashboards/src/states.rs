//! When a Grafana rule fires: the states of its instances from evaluation to evaluation, as Grafana 11 and 12 have
//! them.
//!
//! Normal, pending, firing. The recovery threshold counts for instances that are pending or firing, unless their last
//! evaluation gave no answer: then Grafana has forgotten that they were. Without an answer `KeepLast` changes nothing;
//! `Alerting` makes an instance of its own. One whose row is missing among others resolves at the second time.

use crate::alerts::{GrafanaRule, Labels};
use crate::template;
use std::collections::BTreeMap;

/// Evaluations without its row after which an instance is gone.
const MISSING_MAX: u32 = 2;

/// One row of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its identity.
    pub labels: Labels,
    /// The value that is compared.
    pub value: f64,
    /// Labels of the second query's row that belongs to it.
    pub more: Option<Labels>,
}

impl Instance {
    /// An annotation's text for this instance.
    ///
    /// # Errors
    /// What of the template is not known.
    pub fn annotation(&self, rule: &GrafanaRule, name: &str) -> Result<String, String> {
        let text = rule.annotations.get(name).ok_or_else(|| format!("there is no annotation {name}"))?;
        template::expanded(text, self)
    }
}

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Over the threshold, not for long enough.
    Pending {
        /// Since when.
        since: i64,
    },
    /// Fires.
    Firing,
}

#[derive(Clone, Debug)]
struct TrackedInstance {
    instance: Instance,
    state: State,
    missing: u32,
    /// Whether the last evaluation gave no answer.
    is_kept: bool,
}

/// The instances of a rule that are not normal.
#[derive(Clone, Debug, Default)]
pub struct States {
    known: BTreeMap<Labels, TrackedInstance>,
    errors: u32,
}

impl States {
    /// Takes over an evaluation.
    pub fn step(&mut self, rule: &GrafanaRule, at: i64, result: Result<Option<Vec<Instance>>, String>) {
        let instances = match result {
            Ok(Some(instances)) => instances,
            Ok(None) => return self.without(rule, at, &rule.no_data),
            Err(_) => {
                self.errors += 1;
                return self.without(rule, at, &rule.on_error);
            }
        };
        self.known.values_mut().for_each(|known| known.missing += 1);
        for instance in instances {
            let before = self.known.remove(&instance.labels);
            let is_loaded = before.as_ref().is_some_and(|known| !known.is_kept);
            let limit = if is_loaded { rule.recovery } else { rule.threshold };
            if instance.value > limit {
                self.raise(rule, at, before, instance);
            }
        }
        self.known.retain(|_, known| known.missing < MISSING_MAX);
    }

    fn raise(&mut self, rule: &GrafanaRule, at: i64, before: Option<TrackedInstance>, instance: Instance) {
        let mut state = before.map_or(State::Pending { since: at }, |known| known.state);
        if let State::Pending { since } = state
            && at - since >= rule.pending_seconds * 1_000_000_000
        {
            state = State::Firing;
        }
        let labels = instance.labels.clone();
        self.known.insert(labels, TrackedInstance { instance, state, missing: 0, is_kept: false });
    }

    /// No answer.
    fn without(&mut self, rule: &GrafanaRule, at: i64, what: &str) {
        match what {
            "KeepLast" => self.known.values_mut().for_each(|known| known.is_kept = true),
            "Alerting" => {
                let labels = Labels::from([("datasource_uid".to_owned(), rule.data_source.clone())]);
                let before = self.known.remove(&labels);
                self.raise(rule, at, before, Instance { labels, value: f64::NAN, more: None });
            }
            _ => self.known.clear(),
        }
    }

    /// Instances that fire.
    #[must_use]
    pub fn firing(&self) -> Vec<&Instance> {
        self.known
            .values()
            .filter(|known| known.state == State::Firing)
            .map(|known| &known.instance)
            .collect()
    }

    /// Instances that are pending.
    #[must_use]
    pub fn pending(&self) -> Vec<&Instance> {
        self.known
            .values()
            .filter(|known| known.state != State::Firing)
            .map(|known| &known.instance)
            .collect()
    }

    /// Evaluations that failed.
    #[must_use]
    pub fn errors(&self) -> u32 {
        self.errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(silence: &str) -> GrafanaRule {
        let text = format!(
            "groups:\n- folder: F\n  interval: 1m\n  rules:\n  - {{uid: u, for: 2m, noDataState: {silence}, execErrState: {silence}, \
             data: [{{refId: C, model: {{type: threshold, conditions: [{{evaluator: {{params: [90]}}, unloadEvaluator: {{params: [80]}}}}]}}}}]}}\n"
        );
        GrafanaRule::parse(&[("f".to_owned(), text)]).unwrap().remove(0)
    }

    fn steps(rule: &GrafanaRule, values: &[Option<f64>]) -> Vec<(usize, usize)> {
        let mut states = States::default();
        let mut seen = Vec::new();
        for (minute, value) in values.iter().enumerate() {
            let labels = Labels::from([("port".to_owned(), "1".to_owned())]);
            let row = value.map(|value| vec![Instance { labels, value, more: None }]);
            let result = row.map(Some).ok_or_else(|| "the database is away".to_owned());
            states.step(rule, i64::try_from(minute).unwrap() * 60_000_000_000, result);
            seen.push((states.pending().len(), states.firing().len()));
        }
        seen
    }

    #[test]
    fn it_fires_after_its_time_holds_in_the_band_and_resolves() {
        let values = [95.0, 95.0, 95.0, 85.0, 85.0, 79.0, 85.0, 95.0].map(Some);
        let seen = steps(&rule("KeepLast"), &values);
        assert_eq!(seen, [(1, 0), (1, 0), (0, 1), (0, 1), (0, 1), (0, 0), (0, 0), (1, 0)]);
    }

    #[test]
    fn an_absent_database_keeps_or_raises() {
        let high = Some(95.0);
        let kept = steps(&rule("KeepLast"), &[high, high, high, None, None, None, high, Some(10.0)]);
        assert_eq!(kept, [(1, 0), (1, 0), (0, 1), (0, 1), (0, 1), (0, 1), (0, 1), (0, 0)]);
        let raised = steps(&rule("Alerting"), &[Some(10.0), None, None, None]);
        assert_eq!(raised, [(0, 0), (1, 0), (1, 0), (0, 1)]);
    }
}
