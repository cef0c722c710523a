//! All tests of the tree as a whole, in one test program.
#![allow(clippy::unwrap_used, missing_docs)]

mod contract;
mod counters;
mod cupti;
mod targets;
mod units;
