//! Runs dashboards and alert rules as Grafana and Prometheus would, without Grafana.
//!
//! * [`Files`]: the dashboards and rules of this repository, or of a copy that a test has damaged.
//! * [`lint`]: what can be checked without a database: ids, positions, units, titles, links, known panel types.
//! * `shown`: what a reader would see of an answer: identifiers as numbers, units, shares above 100 %, steps that are not
//!   over.
//! * [`expand`]: macros and variables, as Grafana documents them; an unknown `$` is a finding.
//! * [`check`]: runs every query of every panel, variable and rule, and finds errors, empty answers and
//!   columns that a panel names and the answer lacks.
//! * [`compare`]: runs every PromQL expression on two servers with the same samples.
//! * [`saturated_by_sql`], [`saturated_by_promql`]: which links an alert would fire for.
//!
//! It only reads. It must not repair anything, and it knows no schema, only the queries.

mod alerts;
mod answers;
mod bounds;
mod check;
mod compare;
mod dashboard;
mod expand;
mod files;
mod lint;
mod prometheus;
mod rules;
mod shown;
mod sql;
mod states;
mod template;

pub use alerts::{GrafanaRule, Labels, saturated_by_promql, saturated_by_sql};
pub use answers::Answer;
pub use check::{Report, Sources, check};
pub use compare::{Comparison, compare};
pub use dashboard::{Dashboard, Panel, Target, Variable};
pub use expand::{Expander, Language, UnknownDollar, Window};
pub use files::Files;
pub use lint::lint;
pub use prometheus::Prometheus;
pub use rules::PrometheusRules;
pub use sql::Sql;
pub use states::{Instance, State, States};

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// File, and panel, variable or rule in it.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl Finding {
    /// A finding at a place.
    pub fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }
}

/// Why the check could not be made at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read.
    #[error("{path}: {cause}; run this from the repository, or name its folder")]
    Read {
        /// The file or folder.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// A file is no JSON or YAML of the expected form.
    #[error("{path}: {cause}")]
    Form {
        /// The file.
        path: String,
        /// Where and why.
        cause: String,
    },
    /// The database can't be reached.
    #[error("the database cannot be used; is the URL right and the server running?")]
    Database(#[from] tokio_postgres::Error),
    /// Prometheus can't be reached.
    #[error("Prometheus at {address}: {cause}; is the URL right (http://HOST:PORT) and the server running?")]
    Prometheus {
        /// Host and port.
        address: String,
        /// Why.
        cause: String,
    },
    /// An alert rule that the check needs is missing or has another form.
    #[error("alert rule {0}")]
    Rule(String),
}
