//! Requests and answers of the JSON API as types, for both sides of HTTP. `openapi.yaml` of the gateway is the contract.
//!
//! It must not do I/O, nor know the database. Fields that a later server adds are skipped when an answer is read.

pub mod account;
pub mod as_of;
pub mod broadcast;
pub mod detail;
pub mod gpu_traffic;
mod job_state;
pub mod jobs;
pub mod lanes;
pub mod link_shares;
pub mod live;
pub mod multicast;
pub mod operation_steps;
pub mod status;
pub mod trace;
pub mod verdicts;
pub mod waits;

pub use job_state::{JobState, NoState};

/// Header of every answer: the server's version of the API.
pub const VERSION_HEADER: &str = "throughline-api-version";

/// Version of the API, `MAJOR.MINOR`. A new path or field is a new minor version; a client works with servers of its own
/// major version and at least its own minor one.
pub const VERSION: &str = "1.6";
