//! Random damage of any bytes: every undamaged entry is delivered, once and in order, and what is lost is counted.

use super::{open, read_all, small};
use proptest::prelude::*;
use throughline_spool::simulated::{Random, Sim};
use throughline_spool::{Class, Config, Spool};

/// Entries of each case.
const ENTRIES: u64 = 60;
const PAYLOAD_BYTES: usize = 70;
const SEGMENT_BYTES: u64 = 1000;

/// A spool of several segments whose entries were never acknowledged, closed.
fn filled() -> (Sim, Config) {
    let config = Config { segment_bytes_max: SEGMENT_BYTES, ..small() };
    let sim = Sim::default();
    let spool = open(&sim, &config).unwrap();
    for number in 1..=ENTRIES {
        assert_eq!(spool.append(payload(number), Class::Precious).unwrap(), number);
        spool.flush().unwrap();
    }
    (sim, config)
}

fn payload(number: u64) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(PAYLOAD_BYTES).collect()
}

fn segments(sim: &Sim) -> Vec<String> {
    sim.names().into_iter().filter(|name| name.ends_with(".seg")).collect()
}

/// What is delivered; each entry is right, once, in order.
fn delivered(spool: &Spool) -> Vec<u64> {
    let found = read_all(spool, 0);
    assert!(found.iter().all(|entry| entry.payload == payload(entry.sequence)));
    assert!(found.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
    found.iter().map(|entry| entry.sequence).collect()
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_damage_loses_what_it_hit_and_counts_it(
        spots in proptest::collection::vec((any::<u64>(), any::<u64>(), 1usize..40), 1..8),
        emptied in proptest::option::of(any::<u64>()),
        garbage in proptest::option::of(any::<u64>()),
        live in any::<bool>(),
    ) {
        let (sim, config) = filled();
        // Damage while the spool is open is met by its reader, at other times when it opens.
        let running = live.then(|| {
            let spool = open(&sim, &config).unwrap();
            spool.flush().unwrap();
            spool
        });
        let mut random = Random::new(spots[0].0);
        let names = segments(&sim);
        let mut hit = std::collections::HashSet::new();
        for (which, at, bytes) in &spots {
            let name = &names[*which as usize % names.len()];
            let length = sim.length(name);
            let from = *at as usize % length;
            hit.insert((name.clone(), from));
            sim.overwrite(name, from, &(0..(*bytes).min(length - from)).map(|_| random.below(256) as u8).collect::<Vec<_>>());
        }
        if !live {
            if let Some(which) = garbage {
                let name = &names[which as usize % names.len()];
                let noise: Vec<u8> = (0..sim.length(name)).map(|_| random.below(256) as u8).collect();
                sim.overwrite(name, 0, &noise);
            }
            if let Some(which) = emptied {
                sim.cut(&names[which as usize % names.len()], 0);
            }
        }
        let spool = running.unwrap_or_else(|| open(&sim, &config).unwrap());
        let found = delivered(&spool);
        let stats = spool.stats();
        prop_assert_eq!(found.len() as u64 + stats.damaged_entries, ENTRIES, "delivered and lost, {:?}", stats);
        // A spot of 40 bytes reaches two entries at most.
        let bound = spots.len() * 2 + 24 * (usize::from(garbage.is_some()) + usize::from(emptied.is_some()));
        prop_assert!(ENTRIES as usize - found.len() <= bound, "{} of {} lost by {:?}", ENTRIES as usize - found.len(), ENTRIES, spots);
        let set_aside = sim.names().iter().filter(|name| name.ends_with(".bad")).count();
        prop_assert!(set_aside <= throughline_spool::QUARANTINE_FILES_MAX);
        // The next opening finds a whole spool with the same entries.
        drop(spool);
        let again = open(&sim, &config).unwrap();
        prop_assert_eq!(delivered(&again), found);
        if !live {
            prop_assert_eq!(again.stats().damaged_entries, 0, "counted once");
        }
    }
}

/// What cost a job 73.5 % of its calls: two spots of 16 bytes.
#[test]
fn two_flips_of_16_bytes_cost_two_entries() {
    let config =
        Config { segment_bytes_max: 1 << 20, disk_bytes_max: 8 << 20, memory_bytes_max: 4 << 20, ..small() };
    let sim = Sim::default();
    let spool = open(&sim, &config).unwrap();
    for number in 1..=200 {
        spool.append(payload(number), Class::Precious).unwrap();
    }
    spool.flush().unwrap();
    drop(spool);
    let name = segments(&sim).remove(0);
    let entry = PAYLOAD_BYTES + 32;
    sim.overwrite(&name, 64 + 53 * entry, &[0xa5; 16]);
    sim.overwrite(&name, 64 + 140 * entry + 40, &[0xa5; 16]);
    let spool = open(&sim, &config).unwrap();
    let found = delivered(&spool);
    assert_eq!(found, (1..=200).filter(|n| *n != 54 && *n != 141).collect::<Vec<_>>());
    let stats = spool.stats();
    assert_eq!((stats.damaged_segments, stats.damaged_entries), (1, 2));
    assert_eq!(stats.damaged_bytes, 2 * entry as u64);
}

#[test]
fn the_newest_segment_emptied_or_cut_short_is_counted() {
    for keep in [0, 100, 64 + 102, 300] {
        let (sim, config) = filled();
        let newest = segments(&sim).pop().unwrap();
        sim.cut(&newest, keep);
        let spool = open(&sim, &config).unwrap();
        let found = delivered(&spool);
        let stats = spool.stats();
        assert!(stats.damaged_entries > 0, "cut to {keep}");
        assert_eq!(
            (found.len() as u64 + stats.damaged_entries, stats.damaged_segments),
            (ENTRIES, 1),
            "cut to {keep}"
        );
    }
}

#[test]
fn a_lost_connection_loses_nothing_of_a_damaged_segment() {
    let (sim, config) = filled();
    let spool = open(&sim, &config).unwrap();
    let name = segments(&sim).remove(0);
    sim.overwrite(&name, 64 + 2 * (PAYLOAD_BYTES + 32), &[0; 16]);
    let first = delivered(&spool);
    assert_eq!(delivered(&spool), first, "read again after a lost connection");
    assert_eq!((first.len(), spool.stats().damaged_entries), (59, 1), "counted once");
}

/// The newest segment is cut and nobody knows how long it was: the least is counted, and said to be that.
#[test]
fn a_cut_of_unknown_size_is_counted_as_the_least() {
    let (sim, config) = filled();
    let newest = segments(&sim).pop().unwrap();
    sim.cut(&newest, 64 + 102 + 50);
    sim.overwrite("tail", 0, &[0; 64]);
    let spool = open(&sim, &config).unwrap();
    let stats = spool.stats();
    assert_eq!((stats.damaged_entries, stats.uncounted_spots), (1, 1), "{stats:?}");
    assert!((delivered(&spool).len() as u64) < ENTRIES - 1, "more than one is lost");
    assert!(stats.losses()[0].starts_with("at least 1 damaged"), "{:?}", stats.losses());
    // Where the file `tail` is there, it is the number.
    let (sim, config) = filled();
    sim.cut(&segments(&sim).pop().unwrap(), 64 + 102 + 50);
    let stats = open(&sim, &config).unwrap().stats();
    assert!(stats.damaged_entries > 1 && stats.uncounted_spots == 0, "{stats:?}");
}
