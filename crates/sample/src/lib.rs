//! The vocabulary of Throughline: identifiers, units, the metric catalogue, record types and the wire schema.
//!
//! Every other crate uses these types. Nothing here does I/O, reads a clock or knows tokio or SQL.

pub mod admission;
pub mod catalogue;
pub mod clock_times;
mod fabric;
mod ident;
pub mod job_key;
mod kinds;
mod nvlink_domain;
mod rate;
pub mod rounds;
pub mod row_rules;
pub mod throttle;
mod time;
mod values;

pub use fabric::{CommonGuids, FABRIC_NAME_BYTES_MAX, FINGERPRINT_GUIDS_MAX, fabric_name_fault};
pub use ident::{Guid, InvalidGuid};
pub use kinds::RecordTimes;
pub use nvlink_domain::FABRIC_STATES;
pub use rate::{increase, rate};
pub use time::{from_rfc3339, to_rfc3339};

/// The wire schema: one [`wire::Batch`] is one entry of a spool. Generated from `proto/throughline.proto`,
/// whose comments are the documentation of each field.
#[allow(missing_docs, clippy::all)]
pub mod wire {
    include!(concat!(env!("OUT_DIR"), "/throughline.v1.rs"));
}

/// Encodes and decodes wire types; re-exported so that all crates use one version.
pub use prost::Message;
