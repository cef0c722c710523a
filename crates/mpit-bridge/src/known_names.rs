//! Which names of regions, paths and algorithms were reported on this node lately: what is new becomes a key of the database,
//! which stays there for the retention of its rows, and so each user has a rate of new ones.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};

/// Names of a generation; the newest and the one before are known. A user who is at the quota takes a quarter of an hour to
/// have those of others forgotten, which then count as new once more.
const GENERATION_NAMES: usize = 16_384;

/// Hashes of the newest names, and of some before.
#[derive(Debug, Default)]
struct Generations([HashSet<u64>; 2]);

impl Generations {
    fn has(&self, hash: u64) -> bool {
        self.0.iter().any(|generation| generation.contains(&hash))
    }

    fn insert(&mut self, hash: u64) {
        let [newest, before] = &mut self.0;
        if newest.len() >= GENERATION_NAMES {
            *before = std::mem::take(newest);
        }
        newest.insert(hash);
    }
}

#[derive(Debug, Default)]
struct Sets {
    admitted: Generations,
    /// Of a user: a name stays refused for all ranks of that user, so that one region does not become two.
    refused: Generations,
}

/// The names of a node. One is the same key for all users.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    sets: Mutex<Sets>,
    hasher: RandomState,
}

impl KnownNames {
    /// Whether a user's name is one of the database's keys: it was reported here lately, or `take` finds a place for a new one.
    pub fn admit(&self, uid: u32, name: &str, take: impl FnOnce() -> bool) -> bool {
        let (hash, of_user) = (self.hasher.hash_one(name), self.hasher.hash_one((uid, name)));
        // No code that holds this lock panics halfway.
        let sets = &mut *self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.refused.has(of_user) {
            return false;
        }
        let is_admitted = sets.admitted.has(hash) || take();
        if is_admitted {
            // Again, so that what is reported is not forgotten.
            sets.admitted.insert(hash);
        } else {
            sets.refused.insert(of_user);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_again_is_known_and_what_is_refused_stays_so_for_its_user() {
        let names = KnownNames::default();
        assert!(names.admit(1, "solve", || true) && names.admit(1, "solve", || false));
        assert!(names.admit(2, "solve", || false), "it is the same key");
        assert!(!names.admit(1, "assemble", || false) && !names.admit(1, "assemble", || true));
        assert!(names.admit(2, "assemble", || true), "nobody can take a name from others");
        assert!(!names.admit(1, "assemble", || true), "one region does not become two");
    }

    #[test]
    fn attack_27_no_number_of_names_takes_more_than_two_generations() {
        let names = KnownNames::default();
        for number in 0..5 * GENERATION_NAMES {
            names.admit(1, &number.to_string(), || number % 2 == 0);
        }
        let sets = names.sets.lock().unwrap();
        for generations in [&sets.admitted, &sets.refused] {
            let held: usize = generations.0.iter().map(HashSet::len).sum();
            assert!((GENERATION_NAMES..=2 * GENERATION_NAMES).contains(&held), "{held}");
        }
    }
}
