//! The spool on a real folder, and against a model on a simulated disk.
#![allow(clippy::unwrap_used, missing_docs)]

mod folder;
mod model;
