//! Whose bytes are on a link. Pure: no I/O, no clock, no database.
//!
//! [`collective`] lays the bytes of a collective operation out over pairs of ranks by the shape of its algorithm.
//! [`estimate`] combines such traffic, the routes and the ports' own counters into the share of each contributor on each
//! link. Counters have the last word: shares of a link add up to what its port counted. [`forwarding`] has the ways by the
//! switches' tables.

pub mod collective;
pub mod estimate;
pub mod forwarding;
pub mod network;
pub mod wire;
