//! InfiniBand as data: the bytes of MADs, topologies, routes, multicast trees, counters, saved files, and what is wrong
//! in them. Pure: no sockets, no threads, no command line. The crawler (`throughline-crawler`) reads a live subnet
//! into these types; `throughline-fabric` prints them.
//!
//! Bytes ([`mad`], [`link`]) → [`topology`] and [`reading`] → [`route`], [`multicast`], [`errors`], [`check`] →
//! [`records`] of the wire schema. [`offline`] reads the same types from files of the standard tools.

pub mod capability;
pub mod check;
pub mod errors;
#[doc(hidden)]
pub mod fuzz;
pub mod hottest;
pub mod key;
pub mod link;
pub mod mad;
pub mod multicast;
pub mod names;
pub mod offline;
pub mod reading;
pub mod records;
pub mod route;
pub mod sweep_text;
pub mod topology;
