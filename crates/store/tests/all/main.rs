//! Everything of this crate that needs a database. One program, so that one throw-away cluster serves all of them.
#![allow(clippy::unwrap_used, missing_docs)]

mod batches;
mod block_sizes;
mod cluster;
mod columns;
mod columnstore;
mod details;
mod gpu_rates;
mod inventory;
mod job_links;
mod job_totals;
mod jobs;
mod link_shares;
mod minutes;
mod node_rows;
mod open_calls;
mod row_rules;
mod schema;
mod schema_changes;
mod sizes;
mod tables;
mod terms;
mod thinned_sizes;
mod thinning;
mod tls;
mod writer;
