//! Discovery: walks the subnet by directed routes, many nodes at once, and reads forwarding tables on the way.
//!
//! A *whole* walk ([`discover`]) queries every node for everything. A *light* one ([`walk`]) starts from what is known
//! and reads only what can have changed: who each switch is, its SwitchInfo and the PortInfo of all its ports;
//! of neighbours those behind ports that changed, those that somebody suspects, and a share of the others in
//! turn. Both go outwards through ports whose link is up now, so a cut cable never leaves a path that leads
//! nowhere.
//!
//! What did not answer is not gone: a node is gone when the ports that it hung on say that their links are down
//! or lead elsewhere. Otherwise it stays, marked as [`NodeStanding`] says. What could not be read is listed with its
//! reason and hides nothing else. Nothing here decides when to walk, or what a change means.

mod frontier;
mod keep;
mod limits;
mod walk;
mod walked;

use crate::engine::{Engine, EngineError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use throughline_infiniband::mad::DirectedPath;
use throughline_infiniband::topology::{Failure, Topology};
use throughline_sample::Guid;

pub(crate) use limits::DiscoveryUsage;
pub use limits::{
    DEFAULT_MAX_MADS, DEFAULT_MAX_NODES, DEFAULT_MAX_PORTS, DEFAULT_MAX_TIME, DEFAULT_MEMORY_BYTES_MAX,
    Limits,
};
pub use throughline_infiniband::topology::NodeStanding;

/// The result of a discovery.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// The subnet.
    pub topology: Topology,
    /// What could not be read.
    pub failures: Vec<Failure>,
    /// How long it took.
    pub elapsed: Duration,
    /// Requests sent, with repetitions.
    pub mads: u64,
    /// Replies that were not believed, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// The local port has no link and had one: nothing can be said of the rest of the subnet.
    pub is_cut_off: bool,
}

/// How to look at the subnet.
#[derive(Clone, Debug)]
pub struct WalkOptions<'a> {
    /// What is known. Nodes that do not answer are kept from it.
    pub known: Option<&'a Topology>,
    /// Whether everything is queried, whatever is known.
    pub whole: bool,
    /// Whether all forwarding tables are read; else those whose switch says that its top changed.
    pub tables: bool,
    /// Nodes to be queried whatever is known of them.
    pub nodes: &'a BTreeSet<Guid>,
    /// LIDs of such.
    pub lids: &'a BTreeSet<u16>,
    /// Which share of the other nodes is queried in a light walk: each in one of [`WalkOptions::turns`] walks.
    pub turn: u64,
    /// See [`WalkOptions::turn`]; at least 1, which queries all in each walk.
    pub turns: u64,
    /// What the walk may take.
    pub limits: Limits,
}

/// No node in particular.
static NOBODY: BTreeSet<Guid> = BTreeSet::new();
/// No LID in particular.
static NOWHERE: BTreeSet<u16> = BTreeSet::new();

impl<'a> WalkOptions<'a> {
    /// A whole walk.
    #[must_use]
    pub fn whole(known: Option<&'a Topology>, tables: bool) -> WalkOptions<'a> {
        WalkOptions {
            known,
            whole: true,
            tables,
            nodes: &NOBODY,
            lids: &NOWHERE,
            turn: 0,
            turns: 1,
            limits: Limits::default(),
        }
    }

    /// A light walk that queries each neighbour.
    #[must_use]
    pub fn light(known: &'a Topology) -> WalkOptions<'a> {
        WalkOptions { whole: false, ..WalkOptions::whole(Some(known), false) }
    }
}

/// Walks a subnet without knowing anything of it. With `tables`, forwarding tables are read as well.
///
/// # Errors
/// [`EngineError`]. A local node that does not answer gives an empty topology with a failure.
pub fn discover(engine: &mut Engine, tables: bool, stop: &AtomicBool) -> Result<Discovery, EngineError> {
    walk(engine, &WalkOptions::whole(None, tables), stop)
}

/// Walks the subnet.
///
/// # Errors
/// As [`discover`].
pub fn walk(engine: &mut Engine, how: &WalkOptions<'_>, stop: &AtomicBool) -> Result<Discovery, EngineError> {
    let start = Instant::now();
    let sent = engine.stats().sent;
    engine.clear_nodes();
    let mut walk = walk::Walk::new(how);
    walk.probe(engine.queue(), DirectedPath::local(), None);
    engine.run(&mut walk, stop)?;
    // Cables that were taken for known and whose other end did not turn up are followed up.
    while walk.request_missing(engine.queue()) {
        engine.run(&mut walk, stop)?;
    }
    let mut found = walk.finish(how.known);
    for (reason, count) in engine.take_rejected() {
        *found.rejected.entry(reason).or_default() += count;
    }
    found.elapsed = start.elapsed();
    found.mads = engine.stats().sent - sent;
    Ok(found)
}
