//! Source: the counters of a host's own InfiniBand ports in sysfs; and who a process belongs to.
//!
//! Four things that only this host knows: [`SysfsSource`] reads `class/infiniband` (raw read in [`sysfs`], pure
//! conversion in [`convert`]), and [`identity`] reports a process's job from `/proc` and its control group, before
//! anything that the process itself claims; [`qp`] which process uses which port; [`profilers`] which of them profile GPUs.
//! Roots are always arguments, so tests bring trees of their own (`throughline-doubles`). This crate never knows the spool, the store or another source.

pub mod cgroup;
pub mod convert;
pub mod identity;
pub mod pcie;
pub mod process;
pub mod profilers;
pub mod qp;
pub mod rate;
pub mod slurm;
pub mod sysfs;

mod source;

pub use identity::{JobIdentity, Roots, Scheduler, identify};
pub use source::{Clock, StartError, State, SysfsConfig, SysfsSource, SysfsStatus};
