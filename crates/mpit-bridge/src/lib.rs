//! What MPI ranks push: the receiver of the shim's frames, and what `throughline-exec` needs to preload it.
//!
//! The shim itself is C (`shim/`), the frames are described in `protocol/README.md`. This crate never calls
//! MPI and never waits for a rank or for its own reader; it trusts nothing that a rank says about itself.

mod accounts;
mod bypass;
mod config;
mod cpus;
pub mod exec;
pub mod frame;
mod hello;
mod identity;
mod jobs;
mod kernel;
mod last_totals;
mod layouts;
mod ledger;
mod member;
mod members;
mod names;
mod open_calls;
mod open_frame;
mod operations;
mod outbox;
mod over;
mod pipe;
mod process;
mod quota;
mod rank;
mod receiver;
mod recovery;
mod sampled_calls;
mod saved;
mod schedulers;
mod scheduling;
mod session;
mod shared;
mod shim_status;
mod socket;
mod status;
mod throttle;
pub mod trace;
mod trace_box;
mod traffic_cells;
mod traffic_frame;
mod variables;
mod weigh;
mod welcome;
mod window;

pub use bypass::{Bypass, How};
pub use config::{Config, JobEdge, Limits};
pub use hello::Hello;
pub use identity::{Identity, Refusal};
pub use jobs::{Known, Places};
pub use kernel::{Kernel, ScheduledJob, Verdict};
pub use open_frame::{OpenCall, OpenOn};
pub use operations::{operation_name, operations};
pub use quota::QuotaLimits;
pub use receiver::Receiver;
pub use schedulers::About;
pub use shared::Clock;
pub use socket::BindError;
pub use status::{Malformed, OverQuota, Quota, Reason, Status};
pub use trace_box::TraceLimits;
pub use traffic_frame::{Collective, CollectiveKey, GroupPart, Root, Run, Sample, Traffic, TrafficKind};
pub use welcome::{Tracing, Welcome};
pub use window::WindowLimits;
