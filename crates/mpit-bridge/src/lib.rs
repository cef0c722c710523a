//! What MPI ranks push: the receiver of the shim's frames, and what `throughline-exec` needs to preload it.
//!
//! The shim itself is C (`shim/`), the frames are described in `protocol/README.md`. This crate never calls
//! MPI and never waits for a rank or for its own reader; it trusts nothing that a rank says about itself.

mod accept;
mod cpus;
pub mod exec;
pub mod frame;
mod identity;
mod jobs;
mod kernel;
mod member;
mod names;
mod operations;
mod outbox;
mod process;
mod rank;
mod receiver;
mod saved;
mod schedulers;
mod session;
mod socket;
mod status;
mod throttle;
pub mod trace;
mod trace_box;
mod welcome;

pub use identity::{Hello, Identity, Refusal};
pub use jobs::{Known, Places};
pub use kernel::{Kernel, ScheduledJob, Verdict};
pub use operations::{operation_name, operations};
pub use receiver::{Clock, Config, JobEdge, Limits, Receiver};
pub use schedulers::About;
pub use socket::BindError;
pub use status::{Malformed, Reason, Status};
pub use trace_box::TraceLimits;
