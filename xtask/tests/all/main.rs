//! All tests of the tree as a whole, in one test program.
#![allow(clippy::unwrap_used, missing_docs)]

mod config_keys;
mod counters;
mod cupti;
mod metric_names;
mod targets;
mod units;
