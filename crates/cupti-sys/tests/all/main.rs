//! All tests of the bindings, in one test program.
#![allow(clippy::unwrap_used, missing_docs)]

mod layout;
mod libraries;
