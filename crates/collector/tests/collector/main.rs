//! The collector with real senders: on a store in memory that can be away, refuse and forget, and on a real database.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[macro_use]
mod maker;

mod attacks;
mod bars;
mod clocks;
mod connections;
mod quotas;
mod records;
mod refused;
mod scale;
mod site;
mod with_database;
mod without_database;
mod writers;
