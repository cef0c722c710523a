//! Shares of links, fitted to what ports counted.
//!
//! Known traffic (measured, modelled or logical) is laid along its routes. What a host port counted beyond it is traffic
//! that nobody reported: where a sender's is just what one or two ports received, it is their flow; all other is spread over
//! the ports that received beyond what is known, in proportion (the gravity model of tomogravity: Zhang, Roughan, Duffield,
//! Greenberg 2003). Then all of it is fitted to the counters of all links by
//! multiplicative steps (iterative proportional fitting), in which traffic moves the more the less certain it is and reported
//! traffic stays within its own bounds. What is left on a link is its rest, so that shares add up to what was counted.

mod exact;
mod excess;
mod fit;
mod interval;
mod model;
mod unknown;

use crate::network::Routes;
use model::Model;

/// How the bytes of a share are known, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Messages that the library reported.
    Measured,
    /// Bytes of operations laid out by the shape of their algorithm.
    Modelled,
    /// Send buffers to the members that they are meant for.
    Logical,
    /// Nobody reported it; found in the counters alone.
    Unreported,
}

impl Kind {
    /// By how much such bytes may be wrong, as a part of them, where the caller knows no better.
    ///
    /// Measured on an emulated fabric in windows of 10 s: measured 0.1 to 2.8 %, modelled 0.2 to 2.8 % and up to 46 % where
    /// the algorithm's links are wrong, logical up to 419 %.
    #[must_use]
    pub fn usual_error(self) -> f64 {
        match self {
            Self::Measured => 0.03,
            Self::Modelled => 0.06,
            Self::Logical => 1.0,
            Self::Unreported => 1.0,
        }
    }
}

/// Reported traffic of one contributor from one host port to another in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Whose: a number of the caller's, for instance of a job and operation.
    pub contributor: u32,
    /// Index of the sending port.
    pub from: usize,
    /// Index of the receiving port.
    pub to: usize,
    /// Bytes as ports count them ([`crate::wire::counted_bytes`]).
    pub bytes: f64,
    /// How they are known.
    pub kind: Kind,
    /// By how much they may be wrong, as a part of them; [`Kind::usual_error`] where nothing better is known. Bytes that may
    /// have flowed in a neighbouring window count here.
    pub error: f64,
}

/// Who has a part of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Contributor {
    /// A contributor of reported flows, by the caller's number.
    Reported(u32),
    /// What the host of this port sent beyond what was reported.
    Unreported {
        /// Index of the sending port.
        port: usize,
    },
}

/// A part of what passed a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Whose.
    pub contributor: Contributor,
    /// Bytes, fitted to the counters.
    pub bytes: f64,
    /// At least so many.
    pub low: f64,
    /// At most so many.
    pub high: f64,
    /// The least certain kind among its flows.
    pub kind: Kind,
    /// Some of the flows may also take other links: the bytes are one possibility within the bounds.
    pub is_bound: bool,
}

/// What passed one direction of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkShares {
    /// What its port counted, bytes; `None` where it was not read: shares are then not fitted here.
    pub counted: Option<f64>,
    /// The largest first.
    pub shares: Vec<Share>,
    /// Counted bytes that belong to nobody known: management, headers, errors of the other shares.
    pub rest: f64,
}

/// Shares of each link, by its index in `counted`.
///
/// `counted` has the bytes that each link's sending port counted in the window, `None` where it was not read. A flow with an
/// unknown way, between ports that are not there, or within one port adds to no link.
#[must_use]
pub fn estimate(routes: &impl Routes, flows: &[Flow], counted: &[Option<f64>]) -> Vec<LinkShares> {
    let mut model = Model::of(routes, flows, counted.len());
    if model.branches.len() > model.bundles.len() {
        // Which of its ports a host used must be known roughly before what it sent beyond reported traffic is looked for.
        fit::to_counters(&mut model, counted);
    }
    for pair in unknown::traffic(routes, &model, counted) {
        if let Some(path) = routes.path(pair.from, pair.to) {
            model.add_unreported(pair.from, pair.bytes, pair.most, &path);
        }
    }
    model.arrange(counted.len());
    fit::to_counters(&mut model, counted);
    interval::shares(&model, counted)
}
