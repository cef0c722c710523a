//! Users take turns, large fragments are split, and nothing is lost below the bound.

use super::*;
use crate::accounts::Accounts;
use crate::quota::{QuotaLimits, Quotas};
use std::time::Instant;
use throughline_sample::wire::{Job, MpiOpCell, MpiPvarSample, MpiRankBin};
use tokio::sync::mpsc;

struct Setup {
    counters: Arc<Counters>,
    quotas: Arc<Quotas>,
    outbox: Outbox,
}

fn setup(limit: usize) -> Setup {
    let counters = Arc::new(Counters::default());
    let quotas = Quotas::new(QuotaLimits::default(), 16, Accounts::default(), counters.clone());
    Setup { outbox: Outbox::new(limit, counters.clone()), counters, quotas }
}

impl Setup {
    fn user(&self, uid: u32) -> Arc<User> {
        self.quotas.user(uid, Instant::now())
    }
}

fn bin(time: i64, cells: usize) -> Batch {
    let cells = vec![MpiOpCell { region: "r".repeat(200), ..MpiOpCell::default() }; cells];
    Batch { mpi_ops: vec![MpiRankBin { time, cells, ..MpiRankBin::default() }], ..Batch::default() }
}

fn drain(outbox: &Outbox) -> Vec<Batch> {
    let (to, mut from) = mpsc::channel(1000);
    let pipe = Pipe::new(to);
    let mut all = Vec::new();
    while !outbox.is_empty() {
        assert!(outbox.flush(&pipe));
        all.extend(std::iter::from_fn(|| from.try_recv().ok()));
    }
    all
}

#[test]
fn gathers_while_the_channel_is_full_and_keeps_the_order() {
    let setup = setup(1 << 20);
    let user = setup.user(1);
    let (to, mut from) = mpsc::channel(1);
    let pipe = Pipe::new(to);
    setup.outbox.put(&user, bin(1, 2));
    assert!(setup.outbox.flush(&pipe));
    setup.outbox.put(&user, bin(2, 4));
    assert!(setup.outbox.flush(&pipe), "full, not closed");
    setup.outbox.put(&user, Batch { jobs: vec![Job::default()], ..bin(3, 1) });
    let times = |batch: Batch| batch.mpi_ops.iter().map(|bin| bin.time).collect::<Vec<_>>();
    assert_eq!(times(from.try_recv().unwrap()), [1]);
    assert!(setup.outbox.flush(&pipe));
    let second = from.try_recv().unwrap();
    assert_eq!(second.jobs.len(), 1, "inventory is kept");
    assert_eq!(times(second), [2, 3]);
    assert_eq!((setup.counters.status().records, setup.outbox.bytes()), (2 + 4 + 2, 0));
    assert_eq!(user.waiting.load(Ordering::Relaxed), 0);
    drop(from);
    setup.outbox.put(&user, bin(5, 3));
    assert!(!setup.outbox.flush(&pipe));
    assert_eq!(setup.counters.status().dropped_records, 3);
}

#[test]
fn one_users_flood_leaves_space_and_turns_for_others() {
    let setup = setup(1 << 20);
    let (flood, other) = (setup.user(1), setup.user(2));
    let mut taken = 0;
    while setup.outbox.space(&flood).is_ok() {
        setup.outbox.put(&flood, bin(taken, 100));
        taken += 1;
    }
    assert!((1 << 19..(1 << 19) + (1 << 17)).contains(&setup.outbox.bytes()), "{}", setup.outbox.bytes());
    assert_eq!(setup.outbox.space(&other), Ok(()));
    setup.outbox.put(&other, bin(-1, 1));
    let all = drain(&setup.outbox);
    assert!(all[0].mpi_ops.iter().any(|bin| bin.time == -1), "in the first fragment");
    let bins: Vec<_> = all.iter().flat_map(|batch| &batch.mpi_ops).filter(|bin| bin.time >= 0).collect();
    assert!(bins.is_sorted_by_key(|bin| bin.time));
    assert_eq!(bins.iter().map(|bin| bin.cells.len()).sum::<usize>(), usize::try_from(taken).unwrap() * 100);
    assert_eq!((setup.outbox.space(&flood), setup.counters.status().dropped_records), (Ok(()), 0));
}

#[test]
fn large_fragments_are_split() {
    let setup = setup(64 << 20);
    let user = setup.user(1);
    let pvars = vec![MpiPvarSample { name: "x".repeat(120), ..MpiPvarSample::default() }; 5000];
    setup.outbox.put(&user, Batch { mpi_pvars: pvars, ..bin(1, 5000) });
    let all = drain(&setup.outbox);
    let largest = all.iter().map(weight).max().unwrap();
    assert!(largest < FRAGMENT_BYTES + 3 * TURN_BYTES, "{largest}");
    assert_eq!(all.iter().map(rows).sum::<usize>(), 10_000);
}

#[test]
fn beyond_the_hard_bound_records_are_dropped_and_counted() {
    let setup = setup(100_000);
    let user = setup.user(1);
    for time in 0..1000 {
        setup.outbox.put(&user, bin(time, 1));
    }
    let waiting = setup.outbox.bytes();
    assert!((100_000..=150_000).contains(&waiting), "{waiting}");
    let rows: usize = drain(&setup.outbox).iter().map(rows).sum();
    assert_eq!(rows as u64 + setup.counters.status().dropped_records, 1000);
    assert!(user.over.is_over());
}
