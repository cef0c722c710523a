//! Attacks on the role query as a client of it, over real sockets: the server stays bounded, and others are answered.
#![allow(clippy::unwrap_used, missing_docs)]

mod connections;
mod regexes;
mod rights;
mod site;
mod text;

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
