//! All tests of the GPU sources, in one test program; those that count allocations have one of their own.
#![allow(clippy::unwrap_used, missing_docs)]

mod bench;
mod changes;
mod cupti;
mod cupti_chips;
mod cupti_metrics;
mod cupti_nodes;
mod document;
mod faults;
mod hardware;
mod hardware_cupti;
mod life;
mod orders;
mod scenarios;
mod sequences;
mod topologies;
mod vendors;
mod xids;
