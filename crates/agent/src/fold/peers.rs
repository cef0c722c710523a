//! The peers of one rank in one kind of traffic: what it sent to each so far, and what of it no row has yet.

use std::collections::BTreeMap;
use throughline_mpit_bridge::SnapshotSchedule;
use throughline_sample::wire::{MpiPeerCell, MpiRankPeers};

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    bytes: u64,
    messages: u64,
    has_changed: bool,
}

impl Peer {
    fn cell(&self, peer: u32) -> MpiPeerCell {
        MpiPeerCell { peer, bytes: self.bytes, messages: self.messages }
    }
}

/// Peers of one kind.
#[derive(Debug)]
pub(super) struct Peers {
    time: i64,
    /// Of its last row.
    sent_time: i64,
    source: String,
    peers: BTreeMap<u32, Peer>,
    changed: usize,
    /// All that the rank has sent to is in `peers`. Else there was no place for it: rows have what changed, and `peers` what waits.
    is_complete: bool,
    wholes: SnapshotSchedule,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            time: 0,
            sent_time: 0,
            source: String::new(),
            peers: BTreeMap::new(),
            changed: 0,
            is_complete: true,
            wholes: SnapshotSchedule::default(),
        }
    }
}

impl Peers {
    /// How many are held.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Takes a record of peers that changed; at most `space` of them may be new here. Returns a record of those that do not fit.
    pub fn take(&mut self, mut record: MpiRankPeers, space: usize) -> Option<MpiRankPeers> {
        self.time = self.time.max(record.time);
        if self.source != record.source {
            self.source.clone_from(&record.source);
        }
        let mut space = space;
        if self.new_ones(&record) > space && self.is_complete {
            // Rows go on without whole ones: those that wait for none make place.
            self.is_complete = false;
            let before = self.peers.len();
            self.peers.retain(|_, peer| peer.has_changed);
            space += before - self.peers.len();
        }
        record.cells.retain(|cell| {
            if !self.peers.contains_key(&cell.peer) {
                if space == 0 {
                    return true;
                }
                space -= 1;
            }
            self.put(cell);
            false
        });
        if record.cells.is_empty() {
            return None;
        }
        record.time = self.next_time(record.time);
        record.is_whole = false;
        Some(record)
    }

    fn new_ones(&self, record: &MpiRankPeers) -> usize {
        record.cells.iter().filter(|cell| !self.peers.contains_key(&cell.peer)).count()
    }

    fn put(&mut self, cell: &MpiPeerCell) {
        let peer = self.peers.entry(cell.peer).or_default();
        // After a reconnect a rank sends all once more.
        if (peer.bytes, peer.messages) != (cell.bytes, cell.messages) {
            (peer.bytes, peer.messages) = (cell.bytes, cell.messages);
            self.changed += usize::from(!std::mem::replace(&mut peer.has_changed, true));
        }
    }

    /// The clock was set by so much.
    pub fn step(&mut self, step: i64) {
        for time in [&mut self.time, &mut self.sent_time].into_iter().filter(|time| **time != 0) {
            *time = time.saturating_add(step);
        }
    }

    /// Stored in microseconds, and a key.
    fn next_time(&mut self, time: i64) -> i64 {
        self.sent_time = time.max(self.sent_time + 1000);
        self.sent_time
    }

    /// The row of what changed, or of all; `None` where nothing did, unless with `whole_at` all are to be in a row as of that time.
    pub fn row(
        &mut self,
        job_key: &str,
        (rank, epoch): (u32, i64),
        kind: &str,
        whole_at: Option<i64>,
    ) -> Option<MpiRankPeers> {
        let whole_at = whole_at.filter(|_| self.is_complete && !self.peers.is_empty());
        if self.changed == 0 && whole_at.is_none() {
            return None;
        }
        if self.changed == 0 {
            self.time = self.time.max(whole_at.unwrap_or(0));
        }
        let changed = if whole_at.is_some() { self.peers.len() } else { self.changed };
        let is_whole = self.is_complete && self.wholes.is_next(changed, self.peers.len());
        let in_row = self.peers.iter().filter(|(_, peer)| is_whole || peer.has_changed);
        let cells = in_row.map(|(number, peer)| peer.cell(*number)).collect();
        if self.is_complete {
            self.peers.values_mut().for_each(|peer| peer.has_changed = false);
        } else {
            self.peers.clear();
        }
        self.changed = 0;
        Some(MpiRankPeers {
            time: self.next_time(self.time),
            epoch,
            job_key: job_key.to_owned(),
            rank,
            kind: kind.to_owned(),
            source: self.source.clone(),
            cells,
            is_whole,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(time: i64, cells: &[(u32, u64)]) -> MpiRankPeers {
        let cells = cells.iter().map(|(peer, bytes)| MpiPeerCell { peer: *peer, bytes: *bytes, messages: 1 });
        MpiRankPeers { time, cells: cells.collect(), ..MpiRankPeers::default() }
    }

    fn row(peers: &mut Peers) -> (bool, Vec<(u32, u64)>) {
        let row = peers.row("job", (0, 0), "logical", None).unwrap();
        (row.is_whole, row.cells.iter().map(|cell| (cell.peer, cell.bytes)).collect())
    }

    #[test]
    fn a_row_has_all_peers_or_those_that_changed() {
        let mut peers = Peers::default();
        assert!(peers.row("job", (0, 0), "logical", Some(5)).is_none());
        let all: Vec<(u32, u64)> = (0..100).map(|peer| (peer, 10)).collect();
        assert_eq!(peers.take(report(1, &all), 100), None);
        assert_eq!(row(&mut peers), (true, all.clone()));
        let mut wholes = 0;
        for round in 1..=24 {
            peers.take(report(1, &[(7, 10 + round)]), 0);
            let (is_whole, cells) = row(&mut peers);
            wholes += u32::from(is_whole);
            assert_eq!(cells.len(), if is_whole { 100 } else { 1 });
            assert!(cells.contains(&(7, 10 + round)));
        }
        assert_eq!(wholes, 2);
        // The same once more is no change.
        peers.take(report(2, &all[..5]), 0);
        assert!(peers.row("job", (0, 0), "logical", None).is_none());
        let whole = peers.row("job", (0, 0), "logical", Some(1_000_000)).unwrap();
        assert_eq!((whole.is_whole, whole.cells.len(), whole.time), (true, 100, 1_000_000));
    }

    #[test]
    fn what_finds_no_place_goes_on_as_changes_alone() {
        let mut peers = Peers::default();
        assert_eq!(peers.take(report(1000, &[(1, 1), (2, 1)]), 2), None);
        assert!(row(&mut peers).0);
        // Two have a row and make place for two; the third passes, at a time of its own.
        let passed = peers.take(report(1000, &[(3, 5), (4, 5), (5, 5)]), 0).unwrap();
        assert_eq!((passed.cells.len(), passed.is_whole, passed.time), (1, false, 2000));
        assert_eq!(row(&mut peers), (false, vec![(3, 5), (4, 5)]));
        assert_eq!(peers.len(), 0);
        assert_eq!(peers.take(report(5000, &[(1, 2)]), 9), None);
        assert_eq!(row(&mut peers), (false, vec![(1, 2)]), "never whole again");
    }
}
