//! The spool against a model, on a simulated disk, crashed at every operation it makes.
//!
//! What must hold after each crash: everything that a flush reported as written and that was not
//! acknowledged is there once, in order, byte by byte; nothing is there that was never appended; no number
//! that left the process is ever given again under the same spool id; opening ends.

mod damage;
mod meta;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use throughline_spool::simulated::{Fault, Random, Sim};
use throughline_spool::{Class, Config, Entry, Spool};
use uuid::Uuid;

#[derive(Debug, Clone)]
enum Op {
    Append {
        bytes: usize,
        precious: bool,
    },
    Flush,
    /// Read this many and acknowledge them.
    Deliver(usize),
    /// Read this many and acknowledge nothing: they may be at the other side.
    Send(usize),
    /// End cleanly and open again.
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (1usize..300, any::<bool>()).prop_map(|(bytes, precious)| Op::Append { bytes, precious }),
        3 => Just(Op::Flush),
        2 => (1usize..6).prop_map(Op::Deliver),
        1 => (1usize..6).prop_map(Op::Send),
        1 => Just(Op::Reopen),
    ]
}

fn small() -> Config {
    Config { memory_bytes_max: 1 << 20, disk_bytes_max: 1 << 20, segment_bytes_max: 600, ..Config::default() }
}

type Key = (Uuid, u64);

/// What the test knows of everything that ever happened to a folder.
#[derive(Default, Clone)]
struct Model {
    appended: BTreeMap<u64, (Key, Vec<u8>)>,
    /// Reported as written by a flush.
    safe: HashSet<u64>,
    acked: u64,
    /// Left the process.
    sent: HashSet<Key>,
    tick: u8,
}

fn open(sim: &Sim, config: &Config) -> Option<Spool> {
    Spool::with_storage(Arc::new(sim.clone()), config.clone(), false).ok()
}

fn read_all(spool: &Spool, after: u64) -> Vec<Entry> {
    let mut reader = spool.reader();
    let mut after = after;
    let mut out = Vec::new();
    while let Ok(batch) = reader.next_batch(after, 3, 500) {
        let Some(last) = batch.last() else { return out };
        assert!(last.sequence > after, "the reader goes forward");
        after = last.sequence;
        out.extend(batch);
    }
    panic!("reading the healthy disk failed");
}

/// Runs the operations until the end or the crash.
fn play(sim: &Sim, config: &Config, ops: &[Op], model: &mut Model) {
    let Some(mut spool) = open(sim, config) else { return };
    let mut reader = spool.reader();
    let mut at = 0;
    for op in ops {
        match op {
            Op::Append { bytes, precious } => {
                model.tick = model.tick.wrapping_add(1);
                let payload = vec![model.tick; *bytes];
                let class = if *precious { Class::Precious } else { Class::Cumulative(0) };
                let sequence = spool.append(payload.clone(), class).unwrap();
                let old = model.appended.insert(sequence, ((spool.id(), sequence), payload));
                if let Some((key, _)) = old {
                    assert!(!model.sent.contains(&key), "{key:?} had left the process and is given again");
                }
            }
            Op::Flush => {
                if spool.flush().is_ok() {
                    model.safe.extend(model.appended.keys());
                }
            }
            Op::Deliver(count) | Op::Send(count) => {
                let Ok(batch) = reader.next_batch(at, *count, usize::MAX) else { continue };
                for entry in &batch {
                    let (key, payload) = &model.appended[&entry.sequence];
                    assert_eq!((entry.spool_id, entry.sequence), *key);
                    assert_eq!(&entry.payload, payload);
                    model.sent.insert(*key);
                    at = entry.sequence;
                }
                if matches!(op, Op::Deliver(_)) {
                    assert!(spool.ack(at));
                    model.acked = model.acked.max(at);
                }
            }
            Op::Reopen => {
                drop(reader);
                let before = sim.ops();
                drop(spool);
                let Some(again) = open(sim, config) else { return };
                assert!(sim.ops() > before);
                model.safe.extend(model.appended.keys());
                (spool, at) = (again, 0);
                reader = spool.reader();
            }
        }
    }
}

/// Opens what the crash left and compares.
fn check(sim: &Sim, config: &Config, model: &Model) {
    let spool = open(sim, config).unwrap();
    let found = read_all(&spool, 0);
    let mut last = 0;
    for entry in &found {
        assert!(entry.sequence > last, "each once and in order");
        last = entry.sequence;
        let (key, payload) = &model.appended[&entry.sequence];
        assert_eq!((entry.spool_id, entry.sequence), *key);
        assert_eq!(&entry.payload, payload);
    }
    let found: HashSet<u64> = found.iter().map(|e| e.sequence).collect();
    for sequence in model.safe.iter().filter(|s| **s > model.acked) {
        assert!(found.contains(sequence), "{sequence} was written and is lost; found {found:?}");
    }
    // The next number is fresh, is delivered, and everything survives a clean end.
    let next = spool.append(vec![1], Class::Precious).unwrap();
    assert!(!model.sent.contains(&(spool.id(), next)), "{next} had left the process before the crash");
    let id = spool.id();
    drop(spool);
    let spool = open(sim, config).unwrap();
    let all = read_all(&spool, 0);
    assert_eq!(all.last().map(|e| (e.spool_id, e.sequence)), Some((id, next)));
    assert_eq!(all.len(), found.len() + 1);
}

/// Few by default: each case is played again for every crash point. `make soak` sets more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_written_is_lost_at_any_crash_point(
        ops in proptest::collection::vec(op(), 1..25),
        seed in any::<u64>(),
    ) {
        let config = small();
        let whole = Sim::default();
        let mut model = Model::default();
        play(&whole, &config, &ops, &mut model);
        let count = whole.ops();
        for point in 0..=count {
            let sim = Sim::default();
            sim.crash_at(point);
            let mut model = Model::default();
            play(&sim, &config, &ops, &mut model);
            let mut random = Random::new(seed ^ point);
            let left = sim.after_crash(&mut random);
            // Crash once more while the first crash is being repaired.
            let again = left.after_crash(&mut random);
            again.crash_at(random.below(16));
            let _ = open(&again, &config);
            check(&again.after_crash(&mut random), &config, &model);
            check(&left, &config, &model);
        }
    }

    #[test]
    fn a_failing_disk_loses_nothing_that_fits_in_memory(
        ops in proptest::collection::vec(op(), 1..40),
        faults in proptest::collection::vec((0u64..120, 0u8..3), 0..12),
        seed in any::<u64>(),
    ) {
        let config = small();
        let sim = Sim::default();
        for (at, kind) in &faults {
            sim.fail(*at, [Fault::NoSpace, Fault::Io, Fault::Torn][usize::from(*kind)]);
        }
        // Reopening while the disk fails may lose what a close could not write; that is another test's matter.
        let ops: Vec<Op> = ops.into_iter().filter(|op| !matches!(op, Op::Reopen)).collect();
        let mut model = Model::default();
        play(&sim, &config, &ops, &mut model);
        let mut random = Random::new(seed);
        check(&sim.after_crash(&mut random), &config, &model);
    }

    #[test]
    fn a_full_spool_stays_within_its_bound_and_counts_what_it_gives_up(
        sizes in proptest::collection::vec((1usize..300, 0u8..5), 50..200),
    ) {
        let config = Config { disk_bytes_max: 3000, segment_bytes_max: 600, ..small() };
        let sim = Sim::default();
        let spool = open(&sim, &config).unwrap();
        let mut precious = Vec::new();
        for (bytes, kind) in &sizes {
            let class = if *kind == 0 { Class::Precious } else { Class::Cumulative(u16::from(*kind)) };
            let sequence = spool.append(vec![*kind; *bytes], class).unwrap();
            if *kind == 0 {
                precious.push(sequence);
            }
            spool.flush().unwrap();
            prop_assert!(sim.bytes_of(".seg") <= config.disk_bytes_max, "{} bytes", sim.bytes_of(".seg"));
        }
        let left = read_all(&spool, 0);
        let stats = spool.stats();
        prop_assert_eq!(
            stats.appended_entries,
            left.len() as u64 + stats.thinned_disk_entries + stats.dropped_disk_entries
        );
        prop_assert_eq!(stats.backlog_entries, left.len() as u64);
        prop_assert_eq!(left.last().unwrap().sequence, sizes.len() as u64, "the newest stays");
        if stats.dropped_disk_entries == 0 {
            for sequence in precious {
                prop_assert!(left.iter().any(|e| e.sequence == sequence), "a precious entry was thinned");
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_set_aside_and_ends() {
    let config = small();
    let fill = || {
        let sim = Sim::default();
        let spool = open(&sim, &config).unwrap();
        for n in 0..12u8 {
            spool.append(vec![n; 100], Class::Precious).unwrap();
            spool.flush().unwrap();
        }
        drop(spool);
        sim
    };
    let names: Vec<String> = fill().names().into_iter().filter(|n| n.ends_with(".seg")).collect();
    assert!(names.len() >= 2);
    for at in (0..600).step_by(7) {
        let sim = fill();
        sim.flip(&names[0], at);
        let spool = open(&sim, &config).unwrap();
        let found = read_all(&spool, 0);
        let lost = usize::from(at >= 64);
        assert_eq!(found.len(), 12 - lost, "only the damaged entry is lost, at {at}");
        let stats = spool.stats();
        assert_eq!((stats.damaged_segments, stats.damaged_entries), (1, lost as u64), "at {at}");
        assert_eq!(sim.names().iter().filter(|n| n.ends_with(".bad")).count(), 1);
        drop(spool);
        let spool = open(&sim, &config).unwrap();
        assert_eq!(read_all(&spool, 0).len(), found.len());
        assert_eq!(spool.stats().damaged_segments, 0, "met once, not at each start");
    }
}

#[test]
fn damage_met_while_reading_is_passed_over() {
    let config = small();
    let sim = Sim::default();
    let spool = open(&sim, &config).unwrap();
    for n in 0..12u8 {
        spool.append(vec![n; 100], Class::Precious).unwrap();
        spool.flush().unwrap();
    }
    let first = sim.names().into_iter().find(|n| n.ends_with(".seg")).unwrap();
    sim.flip(&first, 64 + 132 + 50);
    let found = read_all(&spool, 0);
    assert_eq!(found[0].sequence, 1, "what stands before the damage is delivered");
    assert_eq!(found.last().unwrap().sequence, 12);
    assert_eq!(found.len(), 11, "what stands behind it, too");
    assert_eq!((spool.stats().damaged_segments, spool.stats().damaged_entries), (1, 1));
    assert!(spool.ack(12));
    spool.flush().unwrap();
    assert!(sim.names().iter().any(|n| n.ends_with(".bad")));
}

#[test]
fn a_full_disk_keeps_the_newest_in_memory_and_writes_them_when_it_can() {
    let config = Config { memory_bytes_max: 4000, ..small() };
    let sim = Sim::default();
    let spool = open(&sim, &config).unwrap();
    sim.fail_always(Some(Fault::NoSpace));
    for n in 0..100u8 {
        spool.append(vec![n; 100], Class::Cumulative(u16::from(n % 2))).unwrap();
        assert!(spool.flush().is_err());
        assert!(spool.stats().memory_bytes <= 4000);
    }
    let stats = spool.stats();
    assert!(
        stats.no_space_errors >= 100 && stats.dropped_memory_entries > 0 && stats.thinned_memory_entries > 0
    );
    assert_eq!(100, stats.backlog_entries + stats.dropped_memory_entries + stats.thinned_memory_entries);
    sim.fail_always(None);
    spool.flush().unwrap();
    drop(spool);
    let left = read_all(&open(&sim, &config).unwrap(), 0);
    assert_eq!(left.len() as u64, stats.backlog_entries);
    assert_eq!(left.last().unwrap().payload[0], 99);
}

#[test]
fn a_disk_without_room_for_the_meta_file_gives_a_spool_with_an_id_of_its_own() {
    let sim = Sim::default();
    sim.fail_always(Some(Fault::NoSpace));
    let spool = open(&sim, &small()).unwrap();
    let one = (spool.id(), spool.append(vec![1], Class::Precious).unwrap());
    assert_eq!(spool.reader().next_after(0).unwrap().unwrap().sequence, one.1, "delivery goes on");
    drop(spool);
    sim.fail_always(None);
    let spool = open(&sim, &small()).unwrap();
    assert_ne!(one, (spool.id(), spool.append(vec![2], Class::Precious).unwrap()));
}

#[test]
fn a_copied_folder_of_another_owner_takes_a_new_id_and_a_kept_one_does_not() {
    let sim = Sim::default();
    let config = |owner: &str| Config { owner: owner.into(), ..small() };
    let id = open(&sim, &config("a")).unwrap().id();
    assert_eq!(open(&sim, &config("a")).unwrap().id(), id);
    assert_ne!(open(&sim, &config("b")).unwrap().id(), id);
}

#[test]
fn entries_larger_than_a_read_and_a_file_cut_short_both_end() {
    let config =
        Config { segment_bytes_max: 2 << 20, disk_bytes_max: 64 << 20, memory_bytes_max: 8 << 20, ..small() };
    let sim = Sim::default();
    let spool = open(&sim, &config).unwrap();
    for n in 0..5u8 {
        spool.append(vec![n; 700_000], Class::Precious).unwrap();
        spool.flush().unwrap();
    }
    let found = read_all(&spool, 0);
    assert_eq!(found.iter().map(|e| e.payload.len()).collect::<Vec<_>>(), [700_000; 5]);
    // Cut within the second entry, behind more than one read's worth of it.
    let first = sim.names().into_iter().find(|n| n.ends_with(".seg")).unwrap();
    sim.cut(&first, 1_200_000);
    let found = read_all(&spool, 0);
    assert_eq!(found[0].sequence, 1);
    assert_eq!(spool.stats().damaged_segments, 1);
}
