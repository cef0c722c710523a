//! The read model: the only crate that queries the database on behalf of people and programs. The JSON API, remote-read,
//! the command line and the pages show what is computed here. Read-only: every function takes a connection of the
//! reading role.
//!
//! * [`Pool`]: connections, bounded in number and time. [`ReadPath`]: to the primary, or to a read replica.
//! * [`time`]: moments, steps of a range, and the database's clock.
//! * [`jobs`], [`job_names`], [`job_parts`], [`traffic`]: jobs, what a name means, their ranks, and their MPI traffic.
//! * [`as_of`]: as of when figures of running jobs are.
//! * [`broadcast`]: what each rank got in broadcasts. [`detail`]: requests for full resolution.
//! * [`operation_steps`]: what a rank did, step by step.
//! * [`job_rates`], [`open_calls`], [`trace`]: what running jobs do now, calls that go on, and traced calls and messages.
//! * [`rank_cpu`]: what the kernel counted of ranks, their CPUs and NUMA nodes.
//! * [`waits`]: what of the time in MPI was waiting for other ranks. [`account`], [`node_accounts`]: where all of the
//!   ranks' time went, and over time.
//! * [`fabric`], [`links`], [`load`]: topology, links and their load. [`link_shares`]: whose bytes are on them.
//! * [`long_range`]: ranges that begin before what the database holds, from a server of PromQL.
//! * [`gpu_traffic`]: what ranks sent to other GPUs of their node, beside NVLinks.
//! * [`multicast`]: multicast groups, members, and packets that ports counted.
//! * [`nodes`], [`rates`]: hosts, their GPUs and ports, and rates of these. [`clocks`]: how well their times are aligned.
//! * [`events`], [`search`], [`rejected_records`]: events, names, and records that were rejected.
//! * [`recent`]: what was stored in the last seconds.
//! * [`status`]: what arrives, for operators.
//! * [`history`]: samples of the past as the series that Prometheus knows.
//!
//! It depends on `throughline_store` for the connection ([`throughline_store::Database`]), its error, and how rows are stored
//! ([`throughline_store::chunks`], [`throughline_store::rollup_kind`]): that is decided by the writer and can't be stated twice.
//! It must not know HTTP, nor decide how results are shown.

pub mod account;
pub mod as_of;
pub mod broadcast;
pub mod clocks;
pub mod contests;
pub mod database_clock;
pub mod detail;
pub mod events;
pub mod evidence;
pub mod fabric;
pub mod fabric_hosts;
pub mod gpu_metrics;
pub mod gpu_traffic;
pub mod history;
mod horizons;
pub mod job_gpus;
pub mod job_names;
pub mod job_parts;
pub mod job_rates;
mod job_span;
pub mod jobs;
pub mod link_shares;
pub mod links;
pub mod live;
pub mod load;
pub mod long_range;
pub mod multicast;
pub mod node_accounts;
pub mod nodes;
pub mod nvlink_metrics;
pub mod open_calls;
pub mod operation_steps;
pub mod pauses;
mod pool;
pub mod pvars;
pub mod rank_cpu;
mod rank_growth;
pub mod rates;
mod read_path;
pub mod recent;
pub mod region_paths;
mod rejections;
mod row_rules;
pub mod search;
pub mod sender_clocks;
pub mod status;
pub mod stored_history;
pub mod time;
pub mod trace;
pub mod traffic;
pub mod verdicts;
pub mod waits;

pub use horizons::Horizons;
pub use pool::{NoConnection, Pool, PooledClient};
pub use read_path::{ReadPath, at_primary};
pub use rejections::{RejectedRecords, rejected_records};

/// A count of the database, whose integers are signed.
fn whole(count: Option<i64>) -> u64 {
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default()
}
