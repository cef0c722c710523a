//! `/jobs…`: jobs, and what each did.

mod account;
mod broadcast;
mod detail;
mod gpu_traffic;
mod gpus;
mod lanes;
mod link_shares;
mod list;
mod names;
mod operation_steps;
mod parts;
mod pvars;
mod trace;
mod traffic;
mod verdicts;
mod waits;

pub use account::{account, steps as account_steps};
pub use broadcast::broadcast;
pub use detail::{job, places, ranks};
pub use gpu_traffic::gpu_traffic;
pub use gpus::gpus;
pub use lanes::{both, lanes, link_lanes};
pub use link_shares::link_shares;
pub use list::{LiveJobs, find, jobs};
pub use names::name;
pub use operation_steps::operation_steps;
pub use parts::{link_peaks, regions, traffic};
pub use pvars::pvars;
pub use trace::{pairs, ranks as traced_ranks, rates, records};
pub use traffic::{matrix, operations, span, step_seconds};
pub use verdicts::{report, verdicts};
pub use waits::waits;
