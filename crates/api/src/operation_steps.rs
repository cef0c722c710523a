//! What a rank did with MPI, step by step.

use serde::{Deserialize, Serialize};

/// `GET /jobs/{job}/operation-steps`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationSteps {
    /// The job's key.
    pub job_key: String,
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// Begin of the first step that was read.
    pub from_ms: i64,
    /// Length of a step.
    pub step_ms: i64,
    /// Parameter `from` of the following request; null in the last answer.
    pub next_ms: Option<i64>,
    /// By time. A step without calls has no rows.
    pub steps: OperationStepColumns,
}

/// Columns of one length: a row for each step and cell of operation, size class, region and algorithm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationStepColumns {
    /// Begin of the time in which the calls returned: of the step, or where no row is as short, end of the row before.
    pub since_ms: Vec<i64>,
    /// End of that time: of the step, or of the row.
    pub time_ms: Vec<i64>,
    /// MPI name without the prefix.
    pub operation: Vec<String>,
    /// Largest message size of the class: 0 or a power of two.
    pub size_class_bytes: Vec<i64>,
    /// Innermost annotated region; empty outside of all.
    pub region: Vec<String>,
    /// Of a collective, by the library's name; empty where it is not known.
    pub algorithm: Vec<String>,
    /// observed, pvar, forced, unknown; empty for an operation that has none.
    pub algorithm_source: Vec<String>,
    /// Calls that returned in it.
    pub calls: Vec<i64>,
    /// Bytes passed to send.
    pub bytes: Vec<i64>,
    /// Time inside of these calls: of a long call it lies before `since_ms`.
    pub elapsed_seconds: Vec<f64>,
    /// From the return of the call that began it to its completion; null where nothing completed later.
    pub wait_seconds: Vec<Option<f64>>,
    /// What receives got; null where nothing was received.
    pub received_bytes: Vec<Option<i64>>,
}
