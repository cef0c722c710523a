//! Tests of the crawler's library. The memory test in `corpus` measures the whole process: tests that allocate beside
//! it belong into the crate they test, or have to take its lock.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod corpus;
