//! Series of MPI calls that go on, on an agent's page.

/// A gauge whose series come and go with what ranks are in.
#[derive(Debug)]
pub struct OpenCallSeriesMetric {
    /// Prometheus name.
    pub name: &'static str,
    /// Labels in order; `instance` is added by the scrape.
    pub labels: &'static [&'static str],
    /// Help.
    pub help: &'static str,
}

const LABELS: &[&str] = &["job_key", "operation"];

/// For how long.
pub static OPEN_CALL_SECONDS: OpenCallSeriesMetric = OpenCallSeriesMetric {
    name: "throughline_job_open_call_seconds",
    labels: LABELS,
    help: "For how long the longest MPI call of an operation has gone on in ranks of a job on this node, if for a second or more.",
};

/// In how many.
pub static OPEN_CALL_RANKS: OpenCallSeriesMetric = OpenCallSeriesMetric {
    name: "throughline_job_open_call_ranks",
    labels: LABELS,
    help: "Ranks of a job on this node that have been in an MPI call of an operation for a second or more.",
};

/// All of them.
pub static OPEN_CALL_SERIES: [&OpenCallSeriesMetric; 2] = [&OPEN_CALL_SECONDS, &OPEN_CALL_RANKS];
