//! Allgather.

use super::assumed::{Library, by_plan};
use super::halving::masks;
use super::plan::{Plan, RankSends};
use super::{Operation, bcast, gather};

/// Allgather by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn allgather(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    let n = plan.n;
    match algorithm {
        // A gather at rank 0 and a broadcast of all of it, each by the library's own choice; a gatherv is linear.
        "basic_linear" | "basic_default" => {
            let own = by_plan(Library::OpenMpi, Operation::Gather, plan);
            gather::gather(
                if algorithm == "basic_linear" { own } else { "linear" },
                &plan.rooted(0),
                rank,
                out,
            )?;
            // The broadcast of unequal blocks is one element of a datatype made for it, which no algorithm cuts.
            let whole = match algorithm {
                "basic_linear" => plan.message(0, plan.total()),
                _ => plan.one_element(0, plan.total()),
            };
            bcast::bcast(by_plan(Library::OpenMpi, Operation::Bcast, &whole), &whole, rank, out)?;
        }
        "ring" => ring(plan, rank, out),
        "two_procs" if n == 2 => out.send(1 - rank, plan.block(rank)),
        "recursivedoubling" if n.is_power_of_two() => doubling(plan, rank, out),
        "bruck" | "recursivedoubling" => bruck(plan, rank, out),
        "neighborexchange" if n.is_multiple_of(2) => neighbours(plan, rank, out),
        "neighborexchange" => ring(plan, rank, out),
        "sparbit" => sparbit(plan, rank, out),
        _ => return None,
    }
    Some(())
}

/// Each rank passes all blocks but its right neighbour's own to that neighbour, one by one.
pub(super) fn ring(plan: &Plan, rank: u32, out: &mut RankSends) {
    let next = plan.next(rank);
    out.send_many(next, plan.total() - plan.block(next), plan.n - 1);
}

/// Partners exchange the blocks of their groups, which double.
pub(super) fn doubling(plan: &Plan, rank: u32, out: &mut RankSends) {
    for mask in masks(plan.n) {
        out.send(rank ^ mask, plan.sum(rank & !(mask - 1), mask));
    }
}

/// Each rank sends the blocks that it has to the rank at a distance below it; the distance doubles.
pub(super) fn bruck(plan: &Plan, rank: u32, out: &mut RankSends) {
    for distance in masks(plan.n) {
        let bytes = plan.sum(rank, distance.min(plan.n - distance));
        out.send((rank + plan.n - distance) % plan.n, bytes);
    }
}

/// Pairs exchange their blocks, then two blocks at a time with the neighbours on either side in turn.
fn neighbours(plan: &Plan, rank: u32, out: &mut RankSends) {
    let n = plan.n;
    // At even steps with the neighbour of its own pair, at odd ones with the one on the other side.
    let (mate, other) = (rank ^ 1, if rank.is_multiple_of(2) { (rank + n - 1) % n } else { plan.next(rank) });
    out.send(mate, plan.block(rank));
    let steps = n / 2 - 1;
    if let Some(block) = plan.even() {
        let odd = steps.div_ceil(2);
        out.send_many(other, 2 * block * u64::from(odd), odd);
        out.send_many(mate, 2 * block * u64::from(steps - odd), steps - odd);
        return;
    }
    // What a rank sends is the pair of blocks that it received last; at first its own pair's. By the side of its neighbour
    // a rank receives pairs ever further away in that direction.
    let pair = rank & !1;
    let (mut sent, mut from) = (pair, [pair, pair]);
    for step in 1..=steps {
        let side = (step % 2) as usize;
        let is_up = rank.is_multiple_of(2) == (side == 0);
        out.send(if side == 0 { mate } else { other }, plan.sum(sent, 2));
        from[side] = if is_up { (from[side] + 2) % n } else { (from[side] + n - 2) % n };
        sent = from[side];
    }
}

/// Stripe parallel binomial trees: single blocks to ever nearer ranks.
fn sparbit(plan: &Plan, rank: u32, out: &mut RankSends) {
    let n = plan.n;
    let steps = n.next_power_of_two().trailing_zeros();
    let low = n.trailing_zeros();
    let ignored = (!(n >> low) | 1) << low;
    let (mut distance, mut expected) = (1_u32 << (steps - 1), 1_u32);
    for _ in 0..steps {
        let excluded = u32::from(distance & ignored == distance);
        let blocks = expected - excluded;
        let bytes = match plan.even() {
            Some(block) => block * u64::from(blocks),
            None => {
                let behind =
                    |number: u32| (u64::from(number) * u64::from(2 * distance) % u64::from(n)) as u32;
                (0..blocks).map(|number| plan.block((rank + n - behind(number)) % n)).sum()
            }
        };
        out.send_many((rank + distance) % n, bytes, blocks);
        distance >>= 1;
        expected = (expected << 1) - excluded;
    }
}
