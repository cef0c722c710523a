//! What is said of a job: what slows it down, and what to do (docs/VERDICTS.md).

use crate::as_of::AsOf;
use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/verdicts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobVerdicts {
    /// The job's key.
    pub job_key: String,
    /// When it was judged last; null where it was not yet.
    pub judged_ms: Option<i64>,
    /// It was judged after its end, for the last time.
    pub is_final: bool,
    /// What is said now, the most important one first, then what was said before, the newest first.
    pub verdicts: Vec<JobVerdict>,
}

/// One thing that is said of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobVerdict {
    /// As `VerdictKind` of openapi.yaml lists them: hung, link_bound and so on.
    pub kind: String,
    /// The rank, host, link, operation or region; `job` where it is about all of it.
    pub subject: String,
    /// What was observed, with its figures.
    pub observation: String,
    /// What to do.
    pub remedy: String,
    /// certain or likely.
    pub confidence: String,
    /// Part of the ranks' time that it costs, at most 1; null where it can't be said.
    pub cost: Option<f64>,
    /// Key of the other job: whose bytes hold it up, or whom it holds up.
    pub other_job: Option<String>,
    /// Whether it is said now.
    pub is_now: bool,
    /// When it was said first.
    pub first_ms: i64,
    /// When it was said last.
    pub last_ms: i64,
    /// Figures that it rests on.
    pub facts: Vec<VerdictFact>,
}

/// A figure that a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerdictFact {
    /// Name of the figure.
    pub name: String,
    /// The value.
    pub value: f64,
    /// `s`, `share`, `B/s`, `1/s` or `1`.
    pub unit: String,
    /// From which value on the verdict is said; null for what is only said along.
    pub threshold: Option<f64>,
}

/// `GET /jobs/{job}/report`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// The job's key.
    pub job_key: String,
    /// It has ended, and all is in the report.
    pub is_final: bool,
    /// Lines for people.
    pub report: String,
    /// As of when its figures are while the job runs; null in a final report.
    #[serde(default)]
    pub as_of: Option<AsOf>,
}
