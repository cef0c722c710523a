//! Counters that files hold, as snapshots in time: what a sweep would have read.
//!
//! Values are kept in the attribute's own bytes, so that they are judged (width, saturation, unit) by the decoder
//! that judges live ones. A file's time is that of its last change: no format has one of its own. Files of about
//! one time are one snapshot, as long as none says again what another one said.

use crate::errors::find;
use crate::mad::{ClassPortInfo, Counters, MAX_UNICAST_LID, NodeKind, PortCounterSet, counter_metrics};
use crate::topology::Topology;
use crate::{reading::Coverage, reading::PortReading, reading::Selection};
use std::collections::{BTreeMap, HashMap};
use throughline_sample::Guid;

/// Longest time between files of one snapshot: the standard tools take seconds for a fabric each.
const SNAPSHOT_NANOSECONDS: i64 = 120_000_000_000;
/// Most ports with counters in one file: 5,000 switches of 256 ports.
const MAX_PORTS: usize = 5_000 * 256;
/// Most ports with counters in all files together, a port counted in each: 400 readings of 1,428 hosts, 400 MB.
pub const MAX_READINGS: usize = 2_000_000;

/// Where PortCountersExtended has a counter, and how many bits PortCounters has for it (IBTA volume 1, 16.1.3.5
/// and 16.1.4.11): name, bit, bits.
type Field = (&'static str, usize, u32);

/// Bytes of PortCountersExtended up to the end of its last counter.
const BYTES: usize = 184;
const FIELDS: [Field; 22] = [
    ("PortXmitData", 64, 32),
    ("PortRcvData", 128, 32),
    ("PortXmitPkts", 192, 32),
    ("PortRcvPkts", 256, 32),
    ("PortUnicastXmitPkts", 320, 64),
    ("PortUnicastRcvPkts", 384, 64),
    ("PortMulticastXmitPkts", 448, 64),
    ("PortMulticastRcvPkts", 512, 64),
    ("SymbolErrorCounter", 576, 16),
    ("LinkErrorRecoveryCounter", 640, 8),
    ("LinkDownedCounter", 704, 8),
    ("PortRcvErrors", 768, 16),
    ("PortRcvRemotePhysicalErrors", 832, 16),
    ("PortRcvSwitchRelayErrors", 896, 16),
    ("PortXmitDiscards", 960, 16),
    ("PortXmitConstraintErrors", 1024, 8),
    ("PortRcvConstraintErrors", 1088, 8),
    ("LocalLinkIntegrityErrors", 1152, 4),
    ("ExcessiveBufferOverrunErrors", 1216, 4),
    ("VL15Dropped", 1280, 16),
    ("PortXmitWait", 1344, 32),
    ("QP1Dropped", 1408, 16),
];
/// Fields of data and packets: they come first.
const TRAFFIC: usize = 8;
/// CapabilityMask: extended counters with unicast and multicast, PortXmitWait, QP1Dropped (16.1.3.1).
const CAPABILITIES: u16 = 0x0200 | 0x1000 | 0x8000;
/// CapabilityMask2: errors in 64 bits.
const CAPABILITIES_2: u32 = 1 << 1;

/// Which attribute a value was read from, as far as a file says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// PortCounters, whose counters stick at their largest value.
    Classic,
    /// PortCountersExtended: 64 bits.
    Extended,
    /// Traffic in 64 bits, errors of either attribute.
    Either,
}

/// Which port a file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortKey {
    /// Node GUID and port.
    Guid(Guid, u8),
    /// Any GUID (node's or port's) or a LID, and port: as the topology has it.
    Lid(u16, u8),
}

/// Counters of one port.
#[derive(Clone, Debug)]
pub struct Values {
    /// As PortCountersExtended has them.
    data: [u8; BYTES],
    /// Bit i: entry i of [`counter_metrics`] was named.
    named: u64,
    /// Bit i: its value is of 64 bits.
    wide: u64,
}

impl Default for Values {
    fn default() -> Self {
        Values { data: [0; BYTES], named: 0, wide: 0 }
    }
}

/// Position of a counter, by IBTA's name, in [`counter_metrics`].
fn position(name: &str) -> Option<usize> {
    let metric = find(name)?;
    counter_metrics().iter().position(|other| other.id == metric.id)
}

impl Values {
    /// Sets a counter by IBTA's name. `false` for a name that is none of those kept.
    pub fn set(&mut self, name: &str, value: u64, origin: Origin) -> bool {
        let Some(place) = FIELDS.iter().position(|field| field.0 == name) else { return false };
        let Some(index) = position(name) else { return false };
        let (_, bit, bits) = FIELDS[place];
        let is_wide = match origin {
            Origin::Classic => false,
            Origin::Extended => true,
            // An error counter that stands at the end of the short one may be it.
            Origin::Either => place < TRAFFIC,
        };
        if self.wide >> index & 1 == 1 && !is_wide {
            return true;
        }
        let largest = u64::MAX >> (64 - bits);
        // The short one sticks at its end; what is above it was never in it.
        let sticks = !is_wide && (value == largest || place < TRAFFIC && value > largest);
        let value = if sticks { u64::MAX } else { value };
        self.data[bit / 8..bit / 8 + 8].copy_from_slice(&value.to_be_bytes());
        self.named |= 1 << index;
        self.wide |= u64::from(is_wide) << index;
        true
    }

    fn counters(&self) -> Counters {
        let capabilities = ClassPortInfo {
            capabilities: CAPABILITIES,
            capabilities_2: CAPABILITIES_2,
            ..ClassPortInfo::default()
        };
        let mut counters = Counters::default();
        // They are as long as the attribute: this can't fail.
        let _ = counters.decode(PortCounterSet::Extended, &self.data, &capabilities);
        counters.only(self.named)
    }

    /// Whether both name the same counter.
    fn overlaps(&self, other: &Values) -> bool {
        self.named & other.named != 0
    }

    fn merge(&mut self, other: &Values) {
        for (name, bit, _) in FIELDS {
            if position(name).is_some_and(|index| other.named >> index & 1 == 1) {
                let bytes = bit / 8..bit / 8 + 8;
                self.data[bytes.clone()].copy_from_slice(&other.data[bytes]);
            }
        }
        self.named |= other.named;
        self.wide |= other.wide;
    }
}

/// What one file, or several of one time, hold.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// UTC nanoseconds.
    pub time: i64,
    ports: HashMap<PortKey, Values>,
}

impl Snapshot {
    /// An empty one.
    #[must_use]
    pub fn at(time: i64) -> Snapshot {
        Snapshot { time, ports: HashMap::new() }
    }

    /// Number of ports with anything in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// The values of a port, to be set.
    ///
    /// # Errors
    /// Too many ports.
    pub fn port(&mut self, key: PortKey) -> Result<&mut Values, String> {
        if self.ports.len() >= MAX_PORTS && !self.ports.contains_key(&key) {
            return Err(format!("counters of more than {MAX_PORTS} ports"));
        }
        if matches!(key, PortKey::Lid(lid, _) if lid == 0 || lid > MAX_UNICAST_LID) {
            return Err("counters of a LID that is none".to_owned());
        }
        Ok(self.ports.entry(key).or_default())
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    fn overlaps(&self, other: &Snapshot) -> bool {
        other.ports.iter().any(|(key, values)| self.ports.get(key).is_some_and(|mine| mine.overlaps(values)))
    }

    fn merge(&mut self, other: Snapshot) {
        for (key, values) in other.ports {
            self.ports.entry(key).or_default().merge(&values);
        }
    }
}

/// Puts files of about one time together, oldest first.
#[must_use]
pub fn gather(mut files: Vec<Snapshot>) -> Vec<Snapshot> {
    files.retain(|file| !file.is_empty());
    files.sort_by_key(|file| file.time);
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for file in files {
        match snapshots.last_mut() {
            Some(last) if file.time - last.time <= SNAPSHOT_NANOSECONDS && !last.overlaps(&file) => {
                last.merge(file)
            }
            _ => snapshots.push(file),
        }
    }
    snapshots
}

/// Why a port has no counters.
const NOT_SAVED: &str = "not_saved";

/// Saved readings, one snapshot after the other.
pub struct SavedSweeps {
    snapshots: std::vec::IntoIter<Snapshot>,
    readings: Vec<PortReading>,
    /// Keys under which files may have each port.
    keys: Vec<[PortKey; 2]>,
}

impl SavedSweeps {
    /// Of the ports of a topology that a sweep would read.
    #[must_use]
    pub fn new(snapshots: Vec<Snapshot>, topology: &Topology, selection: Selection) -> SavedSweeps {
        let mut sweeps =
            SavedSweeps { snapshots: snapshots.into_iter(), readings: Vec::new(), keys: Vec::new() };
        for (index, node) in topology.nodes.iter().enumerate() {
            for port in node.physical_ports() {
                let is_linked = port.info.is_some_and(|info| info.is_linked());
                if !(is_linked || selection.unlinked && node.kind == NodeKind::Switch) {
                    continue;
                }
                let lid = node.lid_of(port);
                let mut reading = PortReading::new(index, node.guid, node.kind, port.number, lid);
                reading.rate_bytes_per_second =
                    node.link_of(port).map(|(width, speed)| crate::link::rate_bytes_per_second(width, speed));
                sweeps.keys.push([PortKey::Guid(node.guid, port.number), PortKey::Lid(lid, port.number)]);
                sweeps.readings.push(reading);
            }
        }
        sweeps
    }

    /// Goes to the next snapshot; `None` when there is none any more.
    pub fn advance(&mut self) -> Option<Coverage> {
        let snapshot = self.snapshots.next()?;
        let mut reasons = BTreeMap::new();
        let mut coverage = Coverage { expected: self.readings.len(), ..Coverage::default() };
        for (reading, keys) in self.readings.iter_mut().zip(&self.keys) {
            let mut values = Values::default();
            keys.iter().filter_map(|key| snapshot.ports.get(key)).for_each(|part| values.merge(part));
            let (before, counters) = (reading.counters, values.counters());
            let went_back = (0..counter_metrics().len())
                .any(|index| matches!((before.raw(index), counters.raw(index)), (Some(b), Some(a)) if a < b));
            if counters.is_empty() {
                (reading.time, reading.failure) = (0, Some(NOT_SAVED));
                *reasons.entry(NOT_SAVED).or_default() += 1;
                coverage.missing += 1;
            } else {
                if went_back || reading.epoch == 0 {
                    reading.epoch = snapshot.time;
                    coverage.cleared += usize::from(went_back);
                }
                (reading.time, reading.failure) = (snapshot.time, None);
                coverage.complete += 1;
            }
            reading.counters = counters;
            (reading.fresh, reading.was_requested) = (counters.present(), true);
        }
        coverage.reasons = reasons;
        Some(coverage)
    }

    /// The readings of the present snapshot, ordered by node GUID and port.
    #[must_use]
    pub fn readings(&self) -> &[PortReading] {
        &self.readings
    }

    /// Snapshots that are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.snapshots.len()
    }
}
