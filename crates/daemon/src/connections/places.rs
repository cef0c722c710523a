//! Places for connections: so many for each peer and in all. A new connection always finds one; where there is none left,
//! another one is closed for it, the longest silent of the same peer, or of the peer that has the most.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// What distinguishes peers.
pub trait Peer: Clone + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Peer for K {}

/// All places.
#[derive(Debug)]
pub struct Places<K: Peer> {
    table: Mutex<Table<K>>,
    most: usize,
    begun: Instant,
}

#[derive(Debug)]
struct Table<K> {
    next: u64,
    open: BTreeMap<u64, Entry<K>>,
    by_peer: HashMap<K, usize>,
}

#[derive(Debug)]
struct Entry<K> {
    peer: K,
    /// Milliseconds since `Places::begun` when bytes last went either way.
    active: Arc<AtomicU64>,
    close: CancellationToken,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub struct Place<K: Peer> {
    id: u64,
    active: Arc<AtomicU64>,
    close: CancellationToken,
    of: Arc<Places<K>>,
}

impl<K: Peer> Places<K> {
    /// So many in all.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        let table = Table { next: 0, open: BTreeMap::new(), by_peer: HashMap::new() };
        Arc::new(Places { table: Mutex::new(table), most: most.max(1), begun: Instant::now() })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A place for a connection of a peer that may have so many; with a word for why another one is closed for it.
    pub fn enter(self: &Arc<Self>, peer: &K, each: usize) -> (Place<K>, Option<&'static str>) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let evicted = if table.by_peer.get(peer).is_some_and(|count| *count >= each.max(1)) {
            table.evict(peer);
            Some("peer")
        } else if table.open.len() >= self.most {
            let greediest =
                table.by_peer.iter().max_by_key(|(_, count)| **count).map(|(peer, _)| peer.clone());
            if let Some(greediest) = greediest {
                table.evict(&greediest);
            }
            Some("total")
        } else {
            None
        };
        let (id, active) = (table.next, Arc::new(AtomicU64::new(self.now())));
        let close = CancellationToken::new();
        table.next += 1;
        *table.by_peer.entry(peer.clone()).or_default() += 1;
        table.open.insert(id, Entry { peer: peer.clone(), active: active.clone(), close: close.clone() });
        (Place { id, active, close, of: Arc::clone(self) }, evicted)
    }
}

impl<K: Peer> Table<K> {
    /// Closes the connection of a peer that was silent for the longest time.
    fn evict(&mut self, peer: &K) {
        let of_peer = self.open.iter().filter(|(_, entry)| entry.peer == *peer);
        let silent = of_peer.min_by_key(|(id, entry)| (entry.active.load(Relaxed), **id)).map(|(id, _)| *id);
        if let Some(id) = silent {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.open.remove(&id) else { return };
        entry.close.cancel();
        if let Some(count) = self.by_peer.get_mut(&entry.peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&entry.peer);
            }
        }
    }
}

impl<K: Peer> Place<K> {
    /// Bytes went either way.
    pub fn touch(&self) {
        self.active.store(self.of.now(), Relaxed);
    }

    /// Cancelled when the place is given to another connection.
    #[must_use]
    pub fn closed(&self) -> CancellationToken {
        self.close.clone()
    }
}

impl<K: Peer> Drop for Place<K> {
    fn drop(&mut self) {
        self.of.table.lock().unwrap_or_else(PoisonError::into_inner).remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silent_of_the_same_peer_or_of_the_greediest_goes_first() {
        let places = Places::new(5);
        let (one, other) = (1, 2);
        let mut held: Vec<Place<u32>> = (0..3).map(|_| places.enter(&one, 3).0).collect();
        let others = places.enter(&other, 3).0;
        held[0].active.store(7, Relaxed);
        held[1].active.store(6, Relaxed);
        held[2].active.store(8, Relaxed);
        let (fourth, evicted) = places.enter(&one, 3);
        fourth.active.store(9, Relaxed);
        let closed = |place: &Place<u32>| place.close.is_cancelled();
        assert_eq!(
            (evicted, held.iter().map(closed).collect::<Vec<_>>()),
            (Some("peer"), vec![false, true, false])
        );
        let _fifth = places.enter(&other, 3).0;
        let (_sixth, evicted) = places.enter(&3, 3);
        assert_eq!((evicted, closed(&held[0]), closed(&others)), (Some("total"), true, false));
        held.clear();
        drop((fourth, others, _fifth, _sixth));
        let table = places.table.lock().unwrap();
        assert!(table.open.is_empty() && table.by_peer.is_empty());
    }
}
