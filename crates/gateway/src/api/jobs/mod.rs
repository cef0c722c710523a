//! `/jobs…`: jobs, and what each did.

mod detail;
mod list;
mod traffic;

pub use detail::{job, ranks};
pub use list::{Live, jobs};
pub use traffic::{matrix, operations};
