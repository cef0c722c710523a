//! All tests of the agent as a program, in one test program: linking is what most test programs cost.
#![allow(clippy::unwrap_used, missing_docs)]

mod attacks;
mod bench;
mod cupti;
mod gpu;
mod gpu_doctor;
mod gpu_isolation;
mod hardware_script;
mod mpi;
mod mpi_faults;
mod node;
mod profilers;
mod rank_gpus;
mod ranks;
mod recorder;
mod start;
