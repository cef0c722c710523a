//! What was read lately: a dashboard requests the same hours of the same ports again and again.
//!
//! Blocks: all that the database has to send is whether they still hold. With each stands the transaction that made it
//! (`xmin` of its row): a block that is made anew has another one, so what is cached here and has the stamp that the database
//! sends is the block that it would send. What no longer holds, or was not requested lately, makes way.
//!
//! Series: which there are is believed for [`SERIES_AGE`], so that the panels of a page, which are requested together, need it
//! once. A new port's series are there so much later.

use super::family::Keys;
use super::series::Series;
use quick_cache::{Weighter, sync::Cache};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use throughline_packed::prometheus::Chunk;
use throughline_store::rollup_kind::Kind;

/// How long it is believed which series there are: less than from one reading of a fabric to the next.
const SERIES_AGE: Duration = Duration::from_secs(2);

/// Bytes that are reckoned for an entry, and for a chunk besides its data.
const ENTRY: usize = 150;
const CHUNK: usize = 64;

/// Bytes of a usual entry, from which the cache reckons how many there will be.
const USUAL: usize = 3_000;

/// Blocks in memory, bounded by their bytes, and the series of each kind of thing.
#[derive(Debug)]
pub struct BlockCache {
    blocks: Cache<Key, Arc<Block>, Bytes>,
    series: Mutex<Vec<CachedSeries>>,
}

/// All series of these keys, as of then.
#[derive(Debug)]
struct CachedSeries {
    keys: &'static Keys,
    since: Instant,
    all: Arc<[Series]>,
}

/// A block of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub kind: Kind,
    pub metric: i32,
    pub id: i64,
    /// Milliseconds since 1970.
    pub begin: i64,
}

/// The series of a block; none where the metric has no samples in it.
#[derive(Debug)]
pub(super) struct Block {
    pub stamp: u32,
    pub series: Vec<BlockSeries>,
}

/// One series of a block.
#[derive(Debug)]
pub(super) struct BlockSeries {
    pub element: i32,
    pub source: usize,
    /// With each the shortest standstill of a counter in it, as [`throughline_packed::series_chunks`] has it.
    pub chunks: Vec<(Chunk, Option<i64>)>,
}

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Key, Arc<Block>> for Bytes {
    fn weight(&self, _: &Key, block: &Arc<Block>) -> u64 {
        let chunks = block.series.iter().flat_map(|strip| &strip.chunks);
        (ENTRY + chunks.map(|(chunk, _)| chunk.data.len() + CHUNK).sum::<usize>()) as u64
    }
}

impl BlockCache {
    /// Keeps at most so many bytes of blocks.
    #[must_use]
    pub fn new(bytes: usize) -> BlockCache {
        BlockCache {
            blocks: Cache::with_weighter(bytes / USUAL, bytes as u64, Bytes),
            series: Mutex::default(),
        }
    }

    pub(super) fn block(&self, key: &Key) -> Option<Arc<Block>> {
        self.blocks.get(key)
    }

    pub(super) fn keep_block(&self, key: Key, block: Arc<Block>) {
        self.blocks.insert(key, block);
    }

    /// All series of these keys, if that was requested just now.
    pub(super) fn series(&self, keys: &Keys) -> Option<Arc<[Series]>> {
        let cache = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache.iter().find(|cache| std::ptr::eq(cache.keys, keys))?;
        (found.since.elapsed() < SERIES_AGE).then(|| Arc::clone(&found.all))
    }

    /// Keeps them, as of `since`; that there are none is read again.
    pub(super) fn insert_series(&self, keys: &'static Keys, since: Instant, all: &Arc<[Series]>) {
        let mut cache = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|cache| !std::ptr::eq(cache.keys, keys) && cache.since.elapsed() < SERIES_AGE);
        if !all.is_empty() {
            cache.push(CachedSeries { keys, since, all: Arc::clone(all) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::SampleLocation;
    use super::*;

    fn block(bytes: usize) -> Arc<Block> {
        let chunk = Chunk { first: 0, last: 1, data: vec![0; bytes].into() };
        Arc::new(Block {
            stamp: 1,
            series: vec![BlockSeries { element: 0, source: 0, chunks: vec![(chunk, None)] }],
        })
    }

    #[test]
    fn no_more_is_cached_than_fits() {
        let key = |id| Key { kind: Kind::IbPorts, metric: 1, id, begin: 0 };
        let cache = BlockCache::new(1 << 20);
        cache.keep_block(key(1), block(100));
        assert!(cache.block(&key(1)).is_some() && cache.block(&Key { begin: 1, ..key(1) }).is_none());
        for id in 10..2_000 {
            cache.keep_block(key(id), block(3_000));
        }
        assert!((500_000..=1 << 20).contains(&cache.blocks.weight()), "{}", cache.blocks.weight());
        let none = BlockCache::new(0);
        none.keep_block(key(1), block(100));
        assert!(none.block(&key(1)).is_none());
    }
    #[test]
    fn series_are_cached_for_two_seconds() {
        let named = |name: &str| super::super::families().iter().find(|family| family.name == name).unwrap();
        let ports = named("infiniband_switch_port_transmit_data_bytes_total").keys().unwrap();
        let links = named("throughline_nvlink_transmit_bytes_total").keys().unwrap();
        let known = SampleLocation::Rows { id: 1, element: 0 };
        let one: Arc<[Series]> = [Series { labels: vec![("port", "7".to_owned())], known }].into();
        let (cache, now) = (BlockCache::new(0), Instant::now());
        cache.insert_series(ports, now + SERIES_AGE, &one);
        cache.insert_series(links, now, &[].into());
        assert_eq!(cache.series(ports), Some(Arc::clone(&one)));
        assert_eq!(cache.series(links), None);
        cache.insert_series(ports, now.checked_sub(SERIES_AGE).unwrap(), &one);
        assert_eq!(cache.series(ports), None);
    }
}
