//! All tests of the shim and the receiver, in one test program; the one that counts memory has one of its own.
#![allow(clippy::unwrap_used, missing_docs, dead_code)] // `client` and `support` are shared with it

mod attacks;
mod client;
mod mpi;
mod receiver;
mod recipes;
mod who;
