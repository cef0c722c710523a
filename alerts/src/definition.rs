//! What a rule is, and reading the definition with a file of thresholds.

use crate::About;
use serde::Deserialize;
use std::collections::BTreeMap;

const RULES: [(&str, &str); 3] = [
    ("infiniband", include_str!("../rules/infiniband.toml")),
    ("gpu", include_str!("../rules/gpu.toml")),
    ("monitoring", include_str!("../rules/monitoring.toml")),
];

/// Why there is no set of alerts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is no TOML of the expected form.
    #[error("{file}: {cause}")]
    Form {
        /// Which.
        file: String,
        /// Where and why.
        cause: String,
    },
    /// A threshold that can't be.
    #[error("thresholds, [{name}]: {cause}")]
    Threshold {
        /// The alert.
        name: String,
        /// What is wrong, and what would be right.
        cause: String,
    },
}

/// When an alert fires.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// Fires over this.
    pub fires_above: f64,
    /// Once firing, held over this.
    pub holds_above: Option<f64>,
    /// How long over it before it fires: whole minutes, `5m`.
    pub pending: String,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Share of 1, written in per cent.
    Percent,
    /// A count.
    Number,
    /// Errors a bit.
    Ratio,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// What a Grafana rule does without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Silence {
    /// Stays as it was; another rule reports the silence.
    #[default]
    KeepLast,
    /// Fires: the rule is there to report silence.
    Alerting,
}

/// Growth of counters within the range of a rule: PromQL and SQL are made of the catalogue's names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Increase {
    /// Recorded under this name.
    pub record: String,
    /// Short names.
    pub counters: Vec<String>,
    /// For each bit that the link could carry.
    #[serde(default)]
    pub per_bit: bool,
    /// Only ports of switches, so that a host's cable is reported once.
    #[serde(default)]
    pub switches_only: bool,
}

/// Something was there and is not: in PromQL the series of what is there decides, in SQL the inventory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disappearance {
    /// A recorded series of 1 for each thing that is there, with its names.
    pub present: String,
    /// Only while this is there: `on (labels) expression`. When a daemon is away, nothing is known to be lost.
    pub alive: String,
}

/// An alert.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Prometheus' name.
    pub name: String,
    /// Grafana's identifier.
    pub uid: String,
    /// Grafana's title.
    pub title: String,
    /// `warning` or `critical`.
    pub severity: String,
    /// What its rows are.
    pub about: About,
    /// How its value is written.
    pub unit: Unit,
    /// How long it goes on firing in Prometheus without data.
    pub keep: Option<String>,
    /// What it does in Grafana without an answer.
    #[serde(default)]
    pub silence: Silence,
    /// Whether a site may lack what it reads: devices that do not report it.
    #[serde(default)]
    pub is_optional: bool,
    /// How far back it looks.
    pub range_seconds: u32,
    /// Of a port: whether the text names whose bytes are on the link, as `{contributors}`.
    #[serde(default)]
    pub names_contributors: bool,
    /// One line with `{names}`.
    pub summary: String,
    /// When it fires and what that says.
    pub meaning: String,
    /// What to do.
    pub remedy: String,
    /// Name under which the value is recorded.
    pub record: Option<String>,
    /// The value in PromQL; `SIDE` stands for `switch` and for `hca`. With `{fires_above}` it is a whole condition.
    pub promql: Option<String>,
    /// The value in SQL; columns by [`About`].
    pub sql: Option<String>,
    /// In place of `promql` and `sql`.
    pub increase: Option<Increase>,
    /// In place of `promql`.
    pub lost: Option<Disappearance>,
    /// From the thresholds.
    #[serde(skip, default = "unset")]
    pub threshold: Threshold,
}

fn unset() -> Threshold {
    Threshold { fires_above: 0.0, holds_above: None, pending: String::new() }
}

impl Rule {
    /// Below this it resolves.
    #[must_use]
    pub fn holds_above(&self) -> f64 {
        self.threshold.holds_above.unwrap_or(self.threshold.fires_above)
    }

    /// Whether its value looks back so far that it is evaluated once a minute only.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.increase.is_some()
    }

    fn check(&self) -> Result<(), Error> {
        let fail = |cause: String| Err(Error::Threshold { name: self.name.clone(), cause });
        let Threshold { fires_above, pending, .. } = &self.threshold;
        if !fires_above.is_finite() || *fires_above < 0.0 {
            return fail(format!("fires_above = {fires_above}: a number from 0 on is needed"));
        }
        if self.holds_above() > *fires_above {
            return fail(format!("holds_above = {} is over fires_above", self.holds_above()));
        }
        if pending.strip_suffix('m').is_none_or(|minutes| minutes.parse::<u32>().is_err()) {
            return fail(format!("pending = \"{pending}\": whole minutes are needed, for instance \"5m\""));
        }
        Ok(())
    }
}

/// Rules by the file that defines them.
#[derive(Clone, Debug)]
pub struct Set {
    /// Name of the group and its rules.
    pub groups: Vec<(&'static str, Vec<Rule>)>,
}

#[derive(Deserialize)]
struct File {
    rule: Vec<Rule>,
}

impl Set {
    /// The rules of this build with the thresholds of a file. What the file leaves out stays as this build has it.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(thresholds: &str) -> Result<Self, Error> {
        let read = |file: &str, text: &str| -> Result<BTreeMap<String, Threshold>, Error> {
            let form =
                |error: toml::de::Error| Error::Form { file: file.to_owned(), cause: error.to_string() };
            toml::from_str(text).map_err(form)
        };
        let mut all = read("thresholds.toml of this build", crate::THRESHOLDS)?;
        let known: Vec<String> = all.keys().cloned().collect();
        for (name, threshold) in read("thresholds", thresholds)? {
            if all.insert(name.clone(), threshold).is_none() {
                let cause = format!("there is no such alert; there are {}", known.join(", "));
                return Err(Error::Threshold { name, cause });
            }
        }
        let mut groups = Vec::new();
        for (name, text) in RULES {
            let form = |error: toml::de::Error| Error::Form {
                file: format!("rules/{name}.toml"),
                cause: error.to_string(),
            };
            let mut rules = toml::from_str::<File>(text).map_err(form)?.rule;
            for rule in &mut rules {
                let missing =
                    || Error::Threshold { name: rule.name.clone(), cause: String::from("is missing") };
                rule.threshold = all.get(&rule.name).cloned().ok_or_else(missing)?;
                rule.check()?;
            }
            groups.push((name, rules));
        }
        Ok(Self { groups })
    }

    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.groups.iter().flat_map(|(_, rules)| rules)
    }
}
