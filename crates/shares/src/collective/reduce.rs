//! Reductions: reduce, allreduce and reduce_scatter.

use super::plan::{Out, Plan};
use super::tree::{self, Shape};
use super::{CHAINS, bcast, gather, halving};

/// Reduce by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn reduce(algorithm: &str, plan: &Plan, rank: u32, out: &mut Out) -> Option<()> {
    match algorithm {
        "basic_linear" => linear(plan, out),
        "chain" => tree::up(Shape::Chains(CHAINS), plan, rank, out),
        "pipeline" => tree::up(Shape::Pipeline, plan, rank, out),
        "binary" => tree::up(Shape::Levels(2), plan, rank, out),
        "binomial" => tree::up(Shape::BinomialInOrder, plan, rank, out),
        "in_order_binary" => in_order(plan, rank, out),
        // Messages with fewer elements than ranks go straight to the root.
        "redscat_gather" if plan.elements() < 1 << plan.n.ilog2() => linear(plan, out),
        "redscat_gather" => halving::scatter_then_root(plan, rank, out),
        _ => return None,
    }
    Some(())
}

fn linear(plan: &Plan, out: &mut Out) {
    out.send(plan.root, plan.whole());
}

/// A binary tree in which all of a left subtree's ranks are above the right one's; its root is the last rank.
fn in_order(plan: &Plan, rank: u32, out: &mut Out) {
    let last = plan.n - 1;
    if rank == last {
        return out.send(plan.root, plan.whole());
    }
    let (mut first, mut size) = (0, plan.n);
    loop {
        // The subtree of `size` ranks from `first` on has its root at the end; the left child is the one before.
        let parent = first + size - 1;
        let right = if size == 2 { 0 } else { size / 2 };
        let is_child = rank + 1 == parent || (right > 0 && rank + 1 == first + right);
        if is_child {
            return out.send(parent, plan.whole());
        }
        if rank < first + right {
            size = right;
        } else {
            first += right;
            size -= right + 1;
        }
    }
}

/// Allreduce by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn allreduce(algorithm: &str, plan: &Plan, rank: u32, out: &mut Out) -> Option<()> {
    let at_zero = plan.message(0, plan.block(0));
    let plan = &at_zero;
    match algorithm {
        "basic_linear" => {
            linear(plan, out);
            bcast::linear(plan, rank, out);
        }
        // A reduce to rank 0 and a broadcast; of their own algorithms the usual ones are assumed.
        "nonoverlapping" => {
            tree::up(Shape::BinomialInOrder, plan, rank, out);
            tree::down(Shape::Binomial, plan, rank, out);
        }
        "recursivedoubling" => halving::reduce_doubling(plan, rank, out),
        "redscat_allgather" if plan.elements() < 1 << plan.n.ilog2() => {
            return allreduce("basic_linear", plan, rank, out);
        }
        "redscat_allgather" => halving::scatter_gather(plan, rank, out),
        "ring" | "ring_segmented" if plan.elements() < u64::from(plan.n) => {
            halving::reduce_doubling(plan, rank, out);
        }
        "ring" | "ring_segmented" => ring(plan, rank, out),
        _ => return None,
    }
    Some(())
}

/// Twice around: each rank sends every block but one to its right neighbour while reducing, and again while gathering.
pub(super) fn ring(plan: &Plan, rank: u32, out: &mut Out) {
    let (n, elements) = (u64::from(plan.n), plan.elements());
    let block = |number: u32| elements / n + u64::from(u64::from(number) < elements % n);
    let next = plan.next(rank);
    // While reducing a rank never sends the block that it ends with, its right neighbour's; while gathering never the one
    // that the neighbour ended with.
    out.send_many(next, plan.bytes(elements - block(next)), plan.n - 1);
    out.send_many(next, plan.bytes(elements - block(plan.next(next))), plan.n - 1);
}

/// Reduce_scatter and reduce_scatter_block by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn reduce_scatter(algorithm: &str, plan: &Plan, rank: u32, out: &mut Out) -> Option<()> {
    match algorithm {
        // A reduce to rank 0 (by the usual algorithm, an assumption) and a scatter.
        "nonoverlapping" | "basic_linear" => {
            tree::up(Shape::BinomialInOrder, &plan.message(0, plan.total()), rank, out);
            gather::scatter("basic_linear", &plan.rooted(0), rank, out);
        }
        "basic_recursivehalving" | "recursivehalving" => halving::blocks_halving(plan, rank, out),
        "butterfly" => halving::butterfly(plan, rank, out),
        "recursivedoubling" => halving::blocks_doubling(plan, rank, out),
        "ring" => out.send_many(plan.next(rank), plan.total() - plan.block(rank), plan.n - 1),
        _ => return None,
    }
    Some(())
}
