//! Wait states of programs whose truth is known by construction.

#![allow(clippy::unwrap_used)] // tests

mod collectives;
mod messages;
