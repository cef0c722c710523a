//! The shim under real MPI libraries, through throughline-exec and the receiver.

mod algorithms;
mod arguments;
mod beside;
mod bins;
mod devices;
mod exact;
mod exec;
mod faults;
mod generated;
mod golden;
mod jumps;
mod launches;
mod open_calls;
mod program_state;
mod regions;
mod requests;
mod sanitized;
mod spawn;
pub mod support;
mod surroundings;
mod trace;
mod traffic;
mod variables;
mod waits;
mod wire;
