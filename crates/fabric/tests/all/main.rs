//! Tests of the program `throughline-fabric`: its commands and its daemon, on ibsim and on the simulated fabric.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod administrator;
mod attacks;
mod counters;
mod device;
mod discover;
mod docs;
mod errors;
mod events;
mod exposition;
mod inventory;
mod links;
mod managers;
mod multicast;
mod offline;
mod record;
mod reopen;
mod route;
mod run;
mod shares;
mod simfabric;
mod simfabric_sa;
mod simulated;
mod standby;
mod sweep;
mod triggers;
mod two_fabrics;
