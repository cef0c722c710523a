//! Source: links, PCIe and topology of a node's GPUs, through their vendors' libraries in child processes.
//!
//! ```text
//!  child (sampler)                                parent (agent)
//!  library ── survey, poll ── frame ──▶ pipe ──▶ supervise ── convert ──▶ wire::Batch ──▶ channel
//! ```
//!
//! A driver can wedge its caller for ever or crash it, so only the child calls it ([`sampler_main`]), and the
//! parent ([`GpuSource`]) knows nothing of it but frames on a pipe. Raw values travel; [`convert`] is pure and
//! makes records of them. This crate never knows the spool, the store or another source.

mod amd_smi;
mod bounds;
pub mod code;
pub mod convert;
pub mod cupti;
pub mod cupti_frame;
mod dcgm;
mod duplicates;
pub mod field;
pub mod frame;
mod level_zero;
mod library;
pub mod nvml;
pub mod place;
pub mod topology;

mod output;
mod poll;
mod privileges;
mod reader;
mod sampler;
mod session;
mod slowed;
mod source;
mod status;
mod supervise;
mod vendor;
pub mod xid;

pub use library::OpenError;
pub use privileges::OF_PROFILERS;
pub use reader::{GivenUp, Reader};
pub use sampler::{SUBCOMMAND, SamplerOptions, sampler_main};
pub use source::{GpuConfig, GpuListing, GpuSource, default_clock};
pub use status::{End, SourceStatus, State};
pub use supervise::{BUSY, Clock, PAUSED, Pace, RESUMED, StartError};
pub use vendor::Vendor;
