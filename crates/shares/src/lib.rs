//! Whose bytes are on a link. Pure: no I/O, no clock, no database.
//!
//! The way of a byte through this crate:
//!
//! 1. [`collective`]: a call of a collective becomes bytes from rank to rank, by the shape of its algorithm.
//!    [`collective::sends`] is what an agent needs, the part of one rank; [`collective::assumed`] names the algorithm that a
//!    library takes where nobody observed it. Point-to-point and one-sided operations name their peer, and need none of this.
//! 2. [`wire::counted_bytes`]: payload becomes bytes as a port's counter has them, with headers by message and MTU.
//! 3. The caller finds the ports of ranks and sums flows by contributor ([`estimate::Flow`]). Traffic within a node is none.
//! 4. [`network`] and [`forwarding`]: the links between two ports; a set of links where routing leaves the choice, and all of
//!    a host's ports where it has several.
//! 5. [`estimate::estimate`]: flows, ways and counters of a window become shares of each link, each with its kind and the
//!    bounds within which it lies. Counters have the last word: shares and rest add up to what a port counted. What hosts
//!    sent beyond their reports is a contributor of its own, by port.
//!
//! How exact this is: `benches/collectives.sh` compares layouts with a real library's messages, `benches/shares.sh` shares
//! with the truth of generated fabrics. docs/BENCHMARKS.md has both.

pub mod collective;
pub mod estimate;
pub mod forwarding;
pub mod network;
pub mod wire;
