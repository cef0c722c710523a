//! The program `throughline` as its users run it: real servers, databases, senders and MPI programs. The pages in a
//! browser are a program of their own (`../pages`), which runs Node's tests and prints their output.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod attack_readers;
mod attack_senders;
mod backup;
mod client;
mod crash_delivery;
mod demo;
mod intervals;
mod job;
mod json;
mod long_range;
mod remote_write;
mod root;
mod serve;
mod several_servers;
mod states;
mod status;
