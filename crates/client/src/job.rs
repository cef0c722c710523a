//! `throughline job`: what jobs did with MPI, as the server has it. One file for each subcommand.

pub mod diff;
pub mod list;
pub mod matrix;
pub mod name;
pub mod show;
pub mod summary;
pub mod top;
pub mod trace;

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
