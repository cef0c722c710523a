//! Roles query and upkeep of `throughline serve`.
//!
//! [`query`] is the HTTP side, with [`pages`] for people, [`read`] for Prometheus' remote-read and [`api`] for JSON;
//! [`upkeep`] keeps the database within its retention. Neither takes batches, and what upkeep changes in the database is
//! done by the store's functions.

pub mod access;
pub mod api;
mod api_error;
mod headers;
pub mod listen;
mod origin;
pub mod outbound;
pub mod pages;
pub mod query;
pub mod read;
mod refusals;
mod shares;
pub mod thresholds;
pub mod tls;
pub mod upkeep;
