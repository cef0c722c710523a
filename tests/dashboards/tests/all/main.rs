//! Tests of the dashboards and rules, in one binary: they share a database server.
#![allow(clippy::unwrap_used, missing_docs)]

mod against_data;
mod alerts;
mod form;
mod old_chunks;
mod remote_read;
mod scrape;
mod seam;
mod support;
