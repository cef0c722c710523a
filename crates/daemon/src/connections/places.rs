//! The registry of connections: so many for each peer and in all. Where a peer has as many as it may, the least useful of its own is
//! closed for a new one; where all places are taken, one that [`GivesWay`] names.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Formatter};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What distinguishes peers.
pub trait Peer: Clone + Eq + Hash + Send + Sync + Unpin + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + Unpin + 'static> Peer for K {}

/// How useful a connection is.
pub trait Usefulness: Send + Sync + 'static {
    /// Its order among others.
    type Rank: Ord;

    /// The lowest goes first; of the same, the oldest.
    fn rank(&self) -> Self::Rank;

    /// Whether it may go for a connection of another peer.
    fn is_spare(&self) -> bool {
        true
    }
}

/// A connection is as useful as its last bytes are new.
#[derive(Debug)]
pub struct LastBytes(AtomicU64);

impl LastBytes {
    /// Milliseconds since the first connection of the process.
    fn now() -> u64 {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(BEGUN.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for LastBytes {
    fn default() -> Self {
        LastBytes(AtomicU64::new(LastBytes::now()))
    }
}

impl Usefulness for LastBytes {
    type Rank = u64;

    fn rank(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Which connection is closed for a new one where all places are taken.
#[derive(Clone, Copy, Debug)]
pub enum GivesWay {
    /// The least useful one of the peer that has the most, once it is so old.
    OfGreediest(Duration),
    /// The least useful one of all, if it is spare.
    Spare,
}

/// A connection that was closed for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// Of the same peer, which had as many as it may.
    OfPeer,
    /// All places were taken.
    OfAll,
}

impl EvictionCause {
    /// The reason, as metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EvictionCause::OfPeer => "peer",
            EvictionCause::OfAll => "total",
        }
    }
}

/// All places are taken, and no connection gives way; where one will, after this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacesFullError(pub Option<Duration>);

/// All places.
pub struct Places<K: Peer, U: Usefulness = LastBytes> {
    table: Mutex<Table<K, U>>,
    most: usize,
    gives_way: GivesWay,
    /// Gets how many there are, after each change.
    changed: Box<dyn Fn(usize) + Send + Sync>,
}

struct Table<K: Peer, U: Usefulness> {
    next: u64,
    open: BTreeMap<u64, Entry<K, U>>,
    by_peer: HashMap<K, usize>,
}

struct Entry<K, U> {
    peer: K,
    began: Instant,
    used: Arc<U>,
    close: CancellationToken,
}

/// The place of a connection, until it is dropped.
pub struct Place<K: Peer, U: Usefulness = LastBytes> {
    id: u64,
    peer: K,
    used: Arc<U>,
    close: CancellationToken,
    of: Arc<Places<K, U>>,
}

impl<K: Peer, U: Usefulness> Places<K, U> {
    /// So many in all; `changed` gets how many are taken.
    #[must_use]
    pub fn new(
        most: usize,
        gives_way: GivesWay,
        changed: impl Fn(usize) + Send + Sync + 'static,
    ) -> Arc<Self> {
        changed(0);
        let table = Table { next: 0, open: BTreeMap::new(), by_peer: HashMap::new() };
        Arc::new(Places {
            table: Mutex::new(table),
            most: most.max(1),
            gives_way,
            changed: Box::new(changed),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table<K, U>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of a peer that may have so many, and whether another one is closed for it.
    ///
    /// # Errors
    /// [`PlacesFullError`].
    pub fn enter(
        self: &Arc<Self>,
        peer: &K,
        each: usize,
        used: U,
    ) -> Result<(Place<K, U>, Option<EvictionCause>), PlacesFullError> {
        let mut table = self.lock();
        let evicted = if table.by_peer.get(peer).is_some_and(|count| *count >= each.max(1)) {
            let own = table.first_to_go(|entry| entry.peer == *peer);
            own.into_iter().for_each(|id| table.remove(id));
            Some(EvictionCause::OfPeer)
        } else if table.open.len() >= self.most {
            table.make_room(self.gives_way)?;
            Some(EvictionCause::OfAll)
        } else {
            None
        };
        let (id, used, close) = (table.next, Arc::new(used), CancellationToken::new());
        table.next += 1;
        *table.by_peer.entry(peer.clone()).or_default() += 1;
        let entry =
            Entry { peer: peer.clone(), began: Instant::now(), used: used.clone(), close: close.clone() };
        table.open.insert(id, entry);
        (self.changed)(table.open.len());
        Ok((Place { id, peer: peer.clone(), used, close, of: Arc::clone(self) }, evicted))
    }

    /// Closes the least useful one of the peer that has the most; whether there was one.
    pub fn evict_one(&self) -> bool {
        let mut table = self.lock();
        let first = table.of_greediest();
        first.into_iter().for_each(|id| table.remove(id));
        (self.changed)(table.open.len());
        first.is_some()
    }

    /// Closes those that this holds for; returns how many they were.
    pub fn evict_where(&self, goes: impl Fn(&U) -> bool) -> usize {
        let mut table = self.lock();
        let those = table.open.iter().filter(|(_, entry)| goes(&entry.used));
        let those: Vec<u64> = those.map(|(id, _)| *id).collect();
        those.iter().for_each(|id| table.remove(*id));
        (self.changed)(table.open.len());
        those.len()
    }
}

impl<K: Peer, U: Usefulness> Table<K, U> {
    /// The least useful one among some.
    fn first_to_go(&self, among: impl Fn(&Entry<K, U>) -> bool) -> Option<u64> {
        let those = self.open.iter().filter(|(_, entry)| among(entry));
        those.min_by_key(|(id, entry)| (entry.used.rank(), **id)).map(|(id, _)| *id)
    }

    /// The least useful one of the peer that has the most; of such peers, of the one with the oldest connection.
    fn of_greediest(&self) -> Option<u64> {
        let most = self.by_peer.values().max()?;
        let of_such = |entry: &&Entry<K, U>| self.by_peer.get(&entry.peer) == Some(most);
        let peer = self.open.values().find(of_such)?.peer.clone();
        self.first_to_go(|entry| entry.peer == peer)
    }

    fn make_room(&mut self, gives_way: GivesWay) -> Result<(), PlacesFullError> {
        let id = match gives_way {
            GivesWay::OfGreediest(grace) => {
                let id = self.of_greediest().ok_or(PlacesFullError(None))?;
                match grace.saturating_sub(self.open[&id].began.elapsed()) {
                    Duration::ZERO => id,
                    wait => return Err(PlacesFullError(Some(wait))),
                }
            }
            GivesWay::Spare => self
                .first_to_go(|_| true)
                .filter(|id| self.open[id].used.is_spare())
                .ok_or(PlacesFullError(None))?,
        };
        self.remove(id);
        Ok(())
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

impl<K: Peer, U: Usefulness> Place<K, U> {
    /// Whose it is.
    #[must_use]
    pub fn peer(&self) -> &K {
        &self.peer
    }

    /// What the connection does.
    #[must_use]
    pub fn used(&self) -> &Arc<U> {
        &self.used
    }

    /// Cancelled when the place is given to another connection.
    #[must_use]
    pub fn closed(&self) -> CancellationToken {
        self.close.clone()
    }
}

impl<K: Peer> Place<K> {
    /// Bytes went either way.
    pub fn touch(&self) {
        self.used.0.store(LastBytes::now(), Relaxed);
    }
}

impl<K: Peer, U: Usefulness> Debug for Place<K, U> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Place").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<K: Peer, U: Usefulness> Drop for Place<K, U> {
    fn drop(&mut self) {
        let mut table = self.of.lock();
        table.remove(self.id);
        (self.of.changed)(table.open.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silent_of_the_same_peer_or_of_the_greediest_goes_first() {
        let places = Places::new(5, GivesWay::OfGreediest(Duration::ZERO), |_| ());
        let enter = |peer: u32| places.enter(&peer, 3, LastBytes::default()).unwrap();
        let (one, other) = (1, 2);
        let mut held: Vec<Place<u32>> = (0..3).map(|_| enter(one).0).collect();
        let others = enter(other).0;
        for (place, at) in held.iter().zip([7, 6, 8]) {
            place.used.0.store(at, Relaxed);
        }
        let (fourth, evicted) = enter(one);
        fourth.used.0.store(9, Relaxed);
        let closed = |place: &Place<u32>| place.close.is_cancelled();
        assert_eq!(
            (evicted, held.iter().map(closed).collect::<Vec<_>>()),
            (Some(EvictionCause::OfPeer), vec![false, true, false])
        );
        let _fifth = enter(other).0;
        let (_sixth, evicted) = enter(3);
        assert_eq!((evicted, closed(&held[0]), closed(&others)), (Some(EvictionCause::OfAll), true, false));
        held.clear();
        drop((fourth, others, _fifth, _sixth));
        let table = places.lock();
        assert!(table.open.is_empty() && table.by_peer.is_empty());
    }

    #[test]
    fn what_is_new_does_not_give_way_yet() {
        let grace = Duration::from_secs(3600);
        let places = Places::new(1, GivesWay::OfGreediest(grace), |_| ());
        let _first = places.enter(&1, 1, LastBytes::default()).unwrap();
        let PlacesFullError(wait) = places.enter(&2, 1, LastBytes::default()).unwrap_err();
        assert!(wait.is_some_and(|wait| wait <= grace));
        assert!(places.evict_one() && !places.evict_one());
    }
}
