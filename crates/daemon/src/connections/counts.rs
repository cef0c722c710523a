//! Numbers by key, each bounded: what one reader has at a time, and what all have.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers by key, each bounded, and their sum too.
#[derive(Debug)]
pub struct Counts<K> {
    by: Mutex<(usize, HashMap<K, usize>)>,
    most: usize,
}

/// One more of a key, until it is dropped.
#[derive(Debug)]
pub struct CountGuard<K: Eq + Hash> {
    key: K,
    of: Arc<Counts<K>>,
}

impl<K: Eq + Hash + Clone> Counts<K> {
    /// At most so many of all keys.
    #[must_use]
    pub fn new(most: usize) -> Arc<Counts<K>> {
        Arc::new(Counts { by: Mutex::new((0, HashMap::new())), most })
    }

    /// One more, where there are fewer than `each` of this key, and fewer than the bound of all.
    pub fn enter(self: &Arc<Self>, key: &K, each: usize) -> Option<CountGuard<K>> {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = by.1.get(key).copied().unwrap_or_default();
        if by.0 >= self.most || of_key >= each {
            return None;
        }
        by.0 += 1;
        by.1.insert(key.clone(), of_key + 1);
        Some(CountGuard { key: key.clone(), of: Arc::clone(self) })
    }
}

impl<K: Eq + Hash> Drop for CountGuard<K> {
    fn drop(&mut self) {
        let mut by = self.of.by.lock().unwrap_or_else(PoisonError::into_inner);
        by.0 = by.0.saturating_sub(1);
        if let Some(count) = by.1.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                by.1.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_by_key_end_with_their_last() {
        let counts = Counts::new(3);
        let (one, two) = (counts.enter(&1, 2).unwrap(), counts.enter(&1, 2).unwrap());
        assert!(counts.enter(&1, 2).is_none());
        let three = counts.enter(&2, 2).unwrap();
        assert!(counts.enter(&3, 2).is_none());
        drop((one, two, three));
        assert_eq!(*counts.by.lock().unwrap(), (0, HashMap::new()));
    }
}
