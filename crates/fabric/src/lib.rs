//! Source and daemon: the fabric crawler. It reads an InfiniBand subnet through MADs.
//!
//! Bytes ([`mad`]) → transport ([`transport`], [`umad`]) → pipelined engine ([`engine`]) → discovery
//! ([`discover`]) and sweeps ([`sweep`]) → documents and records. Routes ([`route`]) and generated nets
//! ([`topology`]) are pure. Nothing here writes to the fabric or clears a counter, and nothing knows SQL.

pub mod ask;
pub mod capability;
pub mod check;
pub mod clear;
pub mod discover;
pub mod engine;
pub mod errors;
pub mod events;
#[doc(hidden)]
pub mod fuzz;
pub mod hottest;
pub mod key;
pub mod link;
pub mod mad;
pub mod multicast;
pub mod names;
pub mod offline;
pub mod port;
pub mod records;
pub mod route;
pub mod sa;
pub mod scrape;
pub mod sim;
pub mod simulator;
pub mod stop;
pub mod subnet_manager;
pub mod sweep;
pub mod sweep_text;
pub mod topology;
pub mod transport;
pub mod umad;
