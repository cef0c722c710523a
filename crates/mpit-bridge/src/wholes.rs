//! Which records of peers have all of them, and which only those that changed.
//!
//! Totals are read from the last whole record and those after it, so both must stay few and small. A whole one comes once the others
//! since have taken as many bytes as it takes: records take at most twice the bytes of their changes, and a reader reads at most as many
//! again as the whole one has.

/// What a row of the database takes beside its peers, in these.
const PEERS_OF_ROW: usize = 8;

/// What records since the last whole one have taken, in peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotSchedule {
    peers: usize,
}

impl SnapshotSchedule {
    /// Whether the next record has all peers; so many of all changed.
    pub fn is_next(&mut self, changed: usize, all: usize) -> bool {
        self.peers += changed + PEERS_OF_ROW;
        let is_whole = changed >= all || self.peers >= all;
        if is_whole {
            self.peers = 0;
        }
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_records_take_no_more_than_the_others() {
        // Few peers: each record has all.
        let mut few = SnapshotSchedule::default();
        assert!((0..10).all(|_| few.is_next(1, 9)));
        // All change: so has each.
        let mut all = SnapshotSchedule::default();
        assert!((0..10).all(|_| all.is_next(1000, 1000)));
        // One of many changes: one in a hundred and twelve has all.
        let mut many = SnapshotSchedule::default();
        assert!(many.is_next(1000, 1000), "the first one");
        let wholes = (0..1120).filter(|_| many.is_next(1, 1000)).count();
        assert_eq!(wholes, 1120 / 112);
        assert!(wholes * 1000 <= 1120 * (1 + PEERS_OF_ROW));
    }
}
