//! Readings of port counters: what one holds, which counters belong to it, what changed between two, and which become
//! rows. Pure.
//!
//! A reading may be partial: what could not be read is absent, with a reason, and never hides another port.

pub mod rates;
mod sets;
pub mod thin;

pub use sets::Sets;

use crate::mad::{Counters, NodeKind};
use crate::topology::NodeIndex;
use std::collections::BTreeMap;
use std::time::Duration;
use throughline_sample::Guid;

/// The counters of one port.
#[derive(Clone, Copy, Debug)]
pub struct PortReading {
    /// The node.
    pub node: NodeIndex,
    /// Its node GUID.
    pub guid: Guid,
    /// Kind of the node.
    pub kind: NodeKind,
    /// The port.
    pub port: u8,
    /// The LID that was queried.
    pub lid: u16,
    /// Data rate of one direction of its link, as discovered.
    pub rate_bytes_per_second: Option<u64>,
    /// Lanes of its link, as discovered.
    pub link_lanes: Option<u8>,
    /// Bytes that the link could have carried in one tick of PortXmitWait, where the device reports or it is assumed.
    pub tick_bytes: Option<u64>,
    /// UTC nanoseconds of the reply with the data counters, or of the last reply of a sweep that did not read those; 0
    /// when nothing was ever read.
    pub time: i64,
    /// How long before that it was requested: the counters are of some time in between.
    pub took: Duration,
    /// When the present counting began, UTC nanoseconds: the first reading, or the first after a clear.
    pub epoch: i64,
    /// What is known now: of this sweep, and of earlier ones where a set is read more rarely. What a sweep
    /// requested and did not get is not in it any more.
    pub counters: Counters,
    /// Bit i: metric i was read in the last sweep. Bit 63: counters by lane were.
    pub fresh: u64,
    /// Whether the last sweep requested anything of it.
    pub was_requested: bool,
    /// Whether a counter was lower in the last sweep than before: cleared by somebody, or the device was reset.
    pub was_cleared: bool,
    /// Reason why something is missing in the last sweep that requested anything.
    pub failure: Option<&'static str>,
}

impl PortReading {
    /// A port with nothing read yet.
    #[must_use]
    pub fn new(node: NodeIndex, guid: Guid, kind: NodeKind, port: u8, lid: u16) -> PortReading {
        PortReading {
            node,
            guid,
            kind,
            port,
            lid,
            rate_bytes_per_second: None,
            link_lanes: None,
            tick_bytes: None,
            time: 0,
            took: Duration::ZERO,
            epoch: 0,
            counters: Counters::default(),
            fresh: 0,
            was_requested: false,
            was_cleared: false,
            failure: None,
        }
    }

    /// Whether the last sweep read counters by lane.
    #[must_use]
    pub fn has_fresh_lanes(&self) -> bool {
        self.fresh & FRESH_LANES != 0
    }

    /// What the last sweep read.
    #[must_use]
    pub fn fresh_counters(&self) -> Counters {
        self.counters.only(self.fresh)
    }
}

/// Bits of [`PortReading::fresh`]: data sent and received, the first two metrics.
const FRESH_DATA: u64 = 0b11;

/// Whether a reply with these metrics gives its reading the time, after those in `fresh`.
///
/// A reading has the time of its data counters, since rates are made from these. Other sets may be read much later in the same
/// sweep: with their time, a rate would be too low, and the next one too high, up to several times the link's speed.
#[must_use]
pub const fn gives_time(metrics: u64, fresh: u64) -> bool {
    metrics & FRESH_DATA != 0 || fresh & FRESH_DATA == 0
}

/// Bit of [`PortReading::fresh`]: counters by lane.
pub const FRESH_LANES: u64 = 1 << 63;

/// What a sweep was to read and what it read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Ports that should be read.
    pub expected: usize,
    /// Ports with all counters read.
    pub complete: usize,
    /// Ports with some counters read.
    pub partial: usize,
    /// Ports with no counter read.
    pub missing: usize,
    /// Ports incomplete, by reason.
    pub reasons: BTreeMap<&'static str, usize>,
    /// From the first MAD to the last reply.
    pub elapsed: Duration,
    /// Ports whose counters were cleared by somebody since the last sweep.
    pub cleared: usize,
    /// Optional attributes that a node turned out not to have; requested again only after a while.
    pub unsupported: usize,
}

/// What of a topology is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Selection {
    /// Also ports without a link: their error counters stay readable on switches.
    pub unlinked: bool,
    /// Bytes of one tick of PortXmitWait on devices that do not report (PortSamplesControl).
    pub assumed_tick_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::counter_index;
    use throughline_sample::catalogue::{RECEIVE_DATA_BYTES, SYMBOL_ERROR, TRANSMIT_DATA_BYTES};

    #[test]
    fn a_reading_has_the_time_of_its_data() {
        let bit = |metric| 1_u64 << counter_index(metric).unwrap_or(63);
        let data = bit(&TRANSMIT_DATA_BYTES) | bit(&RECEIVE_DATA_BYTES);
        assert_eq!(data, FRESH_DATA);
        let errors = bit(&SYMBOL_ERROR);
        // Data first, then a set that is read later; the other way around; one of them alone.
        assert!(gives_time(data, 0) && !gives_time(errors, data));
        assert!(gives_time(errors, 0) && gives_time(data, errors));
        assert!(gives_time(data | errors, 0) && gives_time(FRESH_LANES, errors));
        assert!(!gives_time(FRESH_LANES, data | errors));
    }
}
