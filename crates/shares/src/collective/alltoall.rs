//! Alltoall, and barriers.

use super::halving::masks;
use super::plan::{Plan, RankSends};
use super::tree::Shape;

/// Alltoall by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn alltoall(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    match algorithm {
        "basic_linear" | "pairwise" | "linear_sync" | "two_procs" | "basic_inplace" => {
            plan.others(rank).for_each(|peer| out.send(peer, plan.block(rank)));
        }
        "bruck" => bruck(plan, rank, out),
        _ => return None,
    }
    Some(())
}

/// At each step all blocks whose distance has that bit go as far.
pub(super) fn bruck(plan: &Plan, rank: u32, out: &mut RankSends) {
    for bit in masks(plan.n) {
        out.send((rank + bit) % plan.n, with_bit(bit, plan.n) * plan.block(rank));
    }
}

/// How many numbers below a limit have a bit.
fn with_bit(bit: u32, limit: u32) -> u64 {
    let (bit, limit) = (u64::from(bit), u64::from(limit));
    limit / (2 * bit) * bit + (limit % (2 * bit)).saturating_sub(bit)
}

/// Barrier by an algorithm of Open MPI: messages without payload. `None` for one without a model.
pub(super) fn barrier(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    let n = plan.n;
    match algorithm {
        "basic_linear" | "lin" if rank == 0 => (1..n).for_each(|peer| out.send(peer, 0)),
        "basic_linear" | "lin" => out.send(0, 0),
        // Up and down the tree in which the parent lacks the highest bit.
        "log" => {
            Shape::Binomial.children(rank, n).into_iter().for_each(|child| out.send(child, 0));
            if rank > 0 {
                out.send(Shape::Binomial.parent(rank, n), 0);
            }
        }
        "doublering" => out.send_many(plan.next(rank), 0, 2),
        "two_procs" if n == 2 => out.send(1 - rank, 0),
        "bruck" => masks(n).for_each(|distance| out.send((rank + distance) % n, 0)),
        "recursivedoubling" => {
            let power = 1 << n.ilog2();
            if rank >= power {
                out.send(rank - power, 0);
            } else {
                masks(power).for_each(|mask| out.send(rank ^ mask, 0));
                if rank + power < n {
                    out.send(rank + power, 0);
                }
            }
        }
        "tree" => {
            for step in masks(n).filter(|step| rank & (step - 1) == 0) {
                // Up where the step's bit is set, down where it is not.
                if rank & step != 0 {
                    out.send(rank - step, 0);
                } else if rank + step < n {
                    out.send(rank + step, 0);
                }
            }
        }
        _ => return None,
    }
    Some(())
}
