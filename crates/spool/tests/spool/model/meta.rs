//! The meta file: a state that may not be on disk is not relied on.

use std::collections::HashSet;

use throughline_spool::simulated::{Fault, Random, Sim};
use throughline_spool::{Class, Spool};
use uuid::Uuid;

use super::{open, small};

/// Operations of the end of a run, and of the beginning of one, and a few more.
const OPS: u64 = 8;

/// Appends entries, has them read and acknowledged; which numbers left the process.
fn send(spool: &Spool, entries: u8) -> HashSet<(Uuid, u64)> {
    for n in 0..entries {
        spool.append(vec![n; 20], Class::Precious).unwrap();
    }
    let sent = spool.reader().next_batch(0, 100, usize::MAX).unwrap();
    if let Some(last) = sent.last() {
        spool.ack(last.sequence);
    }
    sent.iter().map(|entry| (entry.spool_id, entry.sequence)).collect()
}

#[test]
fn numbers_are_not_given_again_after_a_sync_that_failed_and_then_a_power_failure() {
    for (failing, crashing, seed) in
        (0..OPS).flat_map(|f| (0..OPS).flat_map(move |c| (0..8).map(move |s| (f, c, s))))
    {
        let sim = Sim::default();
        let mut sent = send(&open(&sim, &small()).unwrap(), 3);
        // The end of this run fails at one operation.
        let spool = open(&sim, &small()).unwrap();
        sent.extend(send(&spool, 3));
        sim.fail(sim.ops() + failing, Fault::Io);
        drop(spool);
        // Power fails while the next one begins, or soon after.
        sim.crash_at(sim.ops() + crashing);
        if let Some(spool) = open(&sim, &small()) {
            sent.extend(send(&spool, 3));
        }
        let sim = sim.after_crash(&mut Random::new(seed));
        let again = send(&open(&sim, &small()).unwrap(), 3);
        let twice: Vec<_> = again.intersection(&sent).collect();
        assert!(
            twice.is_empty(),
            "failing {failing}, crashing {crashing}, seed {seed}: {twice:?} given twice"
        );
    }
}
