//! Series of single jobs on an agent's page: MPI calls that go on, and where the time of their ranks went.

/// Its series come and go with jobs on the node.
#[derive(Debug)]
pub struct JobSeriesMetric {
    /// Prometheus name.
    pub name: &'static str,
    /// Labels in order; `instance` is added by the scrape.
    pub labels: &'static [&'static str],
    /// Help.
    pub help: &'static str,
}

const LABELS: &[&str] = &["job_key", "operation"];

/// For how long.
pub static OPEN_CALL_SECONDS: JobSeriesMetric = JobSeriesMetric {
    name: "throughline_job_open_call_seconds",
    labels: LABELS,
    help: "For how long the longest MPI call of an operation has gone on in ranks of a job on this node, if for a second or more.",
};

/// In how many.
pub static OPEN_CALL_RANKS: JobSeriesMetric = JobSeriesMetric {
    name: "throughline_job_open_call_ranks",
    labels: LABELS,
    help: "Ranks of a job on this node that have been in an MPI call of an operation for a second or more.",
};

/// A counter, whose name on a page ends with `_total`.
pub static ACCOUNT_SECONDS: JobSeriesMetric = JobSeriesMetric {
    name: "throughline_job_account_seconds",
    labels: &["job_key", "line"],
    help: "Where the time of a job's ranks on this node went since the end of MPI_Init, summed: computing, waiting_for_core and off_processor outside of MPI, and in_mpi; read each 10 s.",
};

/// Those of calls that go on.
pub static OPEN_CALL_SERIES: [&JobSeriesMetric; 2] = [&OPEN_CALL_SECONDS, &OPEN_CALL_RANKS];
