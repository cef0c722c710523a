//! Counters that files hold, as snapshots in time: what a sweep would have read.
//!
//! Values are kept in the attribute's own bytes, so that they are judged (width, saturation, unit) by the decoder
//! that judges live ones. A file's time is that of its last change: no format has one of its own. Files of about
//! one time are one snapshot, as long as none says again what another one said.

use super::facts::MAX_UNICAST_LID;
use crate::errors::find;
use crate::mad::{ClassPortInfo, Counters, NodeKind, PortCounterSet, counter_metrics};
use crate::sweep::{Coverage, PortReading, Selection};
use crate::topology::Topology;
use std::collections::{BTreeMap, HashMap};
use throughline_sample::Guid;

/// Longest time between files of one snapshot: the standard tools take seconds for a fabric each.
const SNAPSHOT_NANOSECONDS: i64 = 120_000_000_000;
/// Most ports with counters in one file: 5,000 switches of 256 ports.
const MAX_PORTS: usize = 5_000 * 256;
/// Most ports with counters in all files together, a port counted in each: 400 readings of 1,428 hosts, 400 MB.
pub const MAX_READINGS: usize = 2_000_000;

/// Where a counter stands in its attribute (IBTA volume 1, 16.1.3.5 and 16.1.4.11): name, bit, bits.
type Field = (&'static str, usize, usize);

/// PortCounters.
const CLASSIC: [Field; 14] = [
    ("SymbolErrorCounter", 32, 16),
    ("LinkErrorRecoveryCounter", 48, 8),
    ("LinkDownedCounter", 56, 8),
    ("PortRcvErrors", 64, 16),
    ("PortRcvRemotePhysicalErrors", 80, 16),
    ("PortRcvSwitchRelayErrors", 96, 16),
    ("PortXmitDiscards", 112, 16),
    ("PortXmitConstraintErrors", 128, 8),
    ("PortRcvConstraintErrors", 136, 8),
    ("LocalLinkIntegrityErrors", 152, 4),
    ("ExcessiveBufferOverrunErrors", 156, 4),
    ("QP1Dropped", 160, 16),
    ("VL15Dropped", 176, 16),
    ("PortXmitWait", 320, 32),
];
/// PortCountersExtended.
const EXTENDED: [Field; 8] = [
    ("PortXmitData", 64, 64),
    ("PortRcvData", 128, 64),
    ("PortXmitPkts", 192, 64),
    ("PortRcvPkts", 256, 64),
    ("PortUnicastXmitPkts", 320, 64),
    ("PortUnicastRcvPkts", 384, 64),
    ("PortMulticastXmitPkts", 448, 64),
    ("PortMulticastRcvPkts", 512, 64),
];
/// CapabilityMask: extended counters with unicast and multicast, PortXmitWait, QP1Dropped (16.1.3.1).
const CAPABILITIES: u16 = 0x0200 | 0x1000 | 0x8000;

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
    classic: [u8; 44],
    extended: [u8; 72],
    /// Bit i: entry i of [`counter_metrics`] was named.
    named: u64,
}

impl Default for Values {
    fn default() -> Self {
        Values { classic: [0; 44], extended: [0; 72], named: 0 }
    }
}

/// Writes a field; values that do not fit stand at its end, which is "saturated".
fn put(data: &mut [u8], (_, bit, bits): Field, value: u64) {
    let largest = u64::MAX >> (64 - bits);
    let value = value.min(largest);
    for offset in 0..bits {
        let at = bit + bits - 1 - offset;
        let mask = 0x80 >> (at % 8);
        match value >> offset & 1 {
            0 => data[at / 8] &= !mask,
            _ => data[at / 8] |= mask,
        }
    }
}

impl Values {
    /// Sets a counter by IBTA's name. `is_classic` says that a 32-bit counter of traffic was read. `false` for a
    /// name that is none of those kept.
    pub fn set(&mut self, name: &str, value: u64, is_classic: bool) -> bool {
        let Some(index) =
            find(name).and_then(|metric| counter_metrics().iter().position(|m| m.id == metric.id))
        else {
            return false;
        };
        if let Some(field) = CLASSIC.iter().find(|field| field.0 == name) {
            put(&mut self.classic, *field, value);
        } else if let Some(field) = EXTENDED.iter().find(|field| field.0 == name) {
            // 32 bits stick at their end; 64 do not get there.
            let sticks = is_classic && value >= u64::from(u32::MAX);
            if is_classic && self.named & (1 << index) != 0 {
                return true;
            }
            put(&mut self.extended, *field, if sticks { u64::MAX } else { value });
        } else {
            return false;
        }
        self.named |= 1 << index;
        true
    }

    fn counters(&self) -> Counters {
        let capabilities = ClassPortInfo { capabilities: CAPABILITIES, ..ClassPortInfo::default() };
        let mut counters = Counters::default();
        // Both are as long as the attribute: this can't fail.
        let _ = counters.decode(PortCounterSet::Classic, &self.classic, &capabilities);
        let _ = counters.decode(PortCounterSet::Extended, &self.extended, &capabilities);
        counters.only(self.named)
    }

    /// Whether both name the same counter.
    fn overlaps(&self, other: &Values) -> bool {
        self.named & other.named != 0
    }

    fn merge(&mut self, other: &Values) {
        for field in CLASSIC {
            copy(&other.classic, &mut self.classic, field, other);
        }
        for field in EXTENDED {
            copy(&other.extended, &mut self.extended, field, other);
        }
        self.named |= other.named;
    }
}

fn copy(from: &[u8], to: &mut [u8], field: Field, values: &Values) {
    let index = find(field.0).and_then(|metric| counter_metrics().iter().position(|m| m.id == metric.id));
    if index.is_some_and(|index| values.named & (1 << index) != 0) {
        let (_, bit, bits) = field;
        let value = (bit..bit + bits)
            .fold(0u64, |value, at| value << 1 | u64::from(from[at / 8] >> (7 - at % 8) & 1));
        put(to, field, value);
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

    /// Ports of which it has something.
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
            (reading.fresh, reading.was_asked) = (counters.present(), true);
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
