//! Roles query, upkeep and export of `throughline serve`.
//!
//! [`query`] is the HTTP side, with [`pages`] for people, [`read`] for Prometheus' remote-read and [`api`] for JSON;
//! [`promql`] is queried for ranges that begin before what the database holds; [`upkeep`] keeps the database within its retention; [`export`] sends its samples by remote write. None takes batches, and
//! what they change in the database is done by the store's functions.

pub mod access;
pub mod api;
mod api_error;
pub mod export;
mod headers;
pub mod listen;
mod origin;
pub mod outbound;
pub mod pages;
pub mod promql;
pub mod query;
pub mod read;
mod refusals;
mod shares;
pub mod thresholds;
pub mod tls;
pub mod upkeep;
