//! The crawler: reads a live InfiniBand subnet through MADs.
//!
//! Transport ([`transport`], [`umad`]) → pipelined engine ([`engine`]) → discovery ([`discover`], [`sa`]) and sweeps
//! ([`sweep`]) → the daemon's threads ([`run`]), which append records to the spool. Nothing here knows SQL, and only
//! [`clear`] writes to the fabric.

pub mod adaptive_routing;
pub mod clear;
pub mod discover;
pub mod engine;
pub mod events;
#[doc(hidden)]
pub mod fuzz;
pub mod lane_reading;
pub mod multicast_tables;
pub mod port;
pub mod run;
pub mod sa;
pub mod scrape;
pub mod simulator;
pub mod smp_batch;
pub mod stop;
pub mod subnet_manager;
pub mod sweep;
pub mod transport;
pub mod umad;
