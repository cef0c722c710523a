//! Integration tests of the read model, on a database of their own each.
#![allow(clippy::unwrap_used, missing_docs)]

mod batches;
mod chunks;
mod evidence;
mod finals;
mod intervals;
mod job_ports;
mod lost;
mod node_accounts;
mod rank_cpu;
mod rates;
mod rounds;
mod self_stats;
mod sender_clocks;
mod sources;
