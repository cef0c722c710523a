//! `/jobs…`: jobs, and what each did.

mod detail;
mod list;
mod traffic;

pub use detail::{job, places, ranks};
pub use list::{Live, find, jobs};
pub use traffic::{matrix, operations, span, step_seconds};
