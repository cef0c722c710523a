//! Layouts of collectives, and shares of links against hidden truths.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod collective;
mod estimate;
#[path = "../generator/mod.rs"]
mod generator;
mod measured;
