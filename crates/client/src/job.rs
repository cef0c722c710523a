//! `throughline job`: what jobs did with MPI, as the server has it. One file for each subcommand.

mod account;
pub mod as_of;
pub mod diff;
pub mod export;
pub mod fetch;
mod finer;
pub mod list;
mod live;
pub mod matrix;
pub mod name;
mod output;
mod progress;
pub mod report;
pub mod show;
pub mod top;
pub mod trace;
pub mod waits;
mod whole;

/// Mean of a sum.
#[allow(clippy::cast_precision_loss)] // for people
#[must_use]
pub fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

/// A share of a whole; absent where the whole is none.
#[must_use]
pub fn part(of: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| of / all)
}

/// The kind of a verdict as words: `link_bound` as `link-bound`, `slow_rank` as `slow rank`.
#[must_use]
pub fn verdict_name(kind: &str) -> String {
    match kind {
        "link_bound" => "link-bound".to_owned(),
        "latency_bound" => "latency-bound".to_owned(),
        "one_directional_ring" => "one-directional ring".to_owned(),
        other => other.replace('_', " "),
    }
}
