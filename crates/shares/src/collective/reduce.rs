//! Reductions: reduce, allreduce and reduce_scatter.

use super::assumed::{Library, by_plan};
use super::plan::{Plan, RankSends};
use super::tree::{self, Shape};
use super::{Operation, bcast, gather, halving};
use halving::HalvingScheme;

/// Reduce by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn reduce(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    match algorithm {
        "basic_linear" | "lin" => linear(plan, out),
        _ if super::has_name(algorithm, "chain") => {
            tree::up(Shape::Chains(super::parameter(algorithm).unwrap_or(1)), plan, rank, out);
        }
        "pipeline" => tree::up(Shape::Pipeline, plan, rank, out),
        "binary" => tree::up(Shape::Levels(2), plan, rank, out),
        "binomial" | "log" => tree::up(Shape::BinomialInOrder, plan, rank, out),
        "in_order_binary" => in_order(plan, rank, out),
        // Messages with fewer elements than ranks go straight to the root.
        "redscat_gather" if plan.elements() < 1 << plan.n.ilog2() => linear(plan, out),
        "redscat_gather" => halving::scatter_then_root(HalvingScheme::Windows, plan, rank, out),
        _ => return None,
    }
    Some(())
}

fn linear(plan: &Plan, out: &mut RankSends) {
    out.send(plan.root, plan.whole());
}

/// A binary tree in which all of a left subtree's ranks are above the right one's; its root is the last rank.
fn in_order(plan: &Plan, rank: u32, out: &mut RankSends) {
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
pub(super) fn allreduce(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    let at_zero = plan.message(0, plan.block(0));
    let plan = &at_zero;
    match algorithm {
        "basic_linear" => {
            linear(plan, out);
            bcast::linear(plan, rank, out);
        }
        // A reduce to rank 0 and a broadcast, each by the library's own choice.
        "nonoverlapping" => {
            reduce(by_plan(Library::OpenMpi, Operation::Reduce, plan), plan, rank, out)?;
            bcast::bcast(by_plan(Library::OpenMpi, Operation::Bcast, plan), plan, rank, out)?;
        }
        "recursivedoubling" => halving::reduce_doubling(plan, rank, out),
        "redscat_allgather" if plan.elements() < 1 << plan.n.ilog2() => {
            return allreduce("basic_linear", plan, rank, out);
        }
        "redscat_allgather" => halving::scatter_gather(HalvingScheme::Windows, plan, rank, out),
        "ring" | "ring_segmented" if plan.elements() < u64::from(plan.n) => {
            halving::reduce_doubling(plan, rank, out);
        }
        "ring" | "ring_segmented" => ring(plan, rank, out),
        _ => return None,
    }
    Some(())
}

/// Twice around: each rank sends every block but one to its right neighbour while reducing, and again while gathering.
pub(super) fn ring(plan: &Plan, rank: u32, out: &mut RankSends) {
    let (n, elements) = (u64::from(plan.n), plan.elements());
    let block = |number: u32| elements / n + u64::from(u64::from(number) < elements % n);
    let next = plan.next(rank);
    // While reducing a rank never sends the block that it ends with, its right neighbour's; while gathering never the one
    // that the neighbour ended with.
    out.send_many(next, plan.bytes(elements - block(next)), plan.n - 1);
    out.send_many(next, plan.bytes(elements - block(plan.next(next))), plan.n - 1);
}

/// Reduce_scatter, or with even blocks reduce_scatter_block, by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn reduce_scatter(
    algorithm: &str,
    are_blocks_even: bool,
    plan: &Plan,
    rank: u32,
    out: &mut RankSends,
) -> Option<()> {
    match algorithm {
        // A reduce to rank 0 and a scatter, each by the library's own choice; a scatterv is linear.
        "nonoverlapping" | "basic_linear" => {
            let whole = plan.message(0, plan.total());
            reduce(by_plan(Library::OpenMpi, Operation::Reduce, &whole), &whole, rank, out)?;
            let own = by_plan(Library::OpenMpi, Operation::Scatter, plan);
            gather::scatter(
                if algorithm == "basic_linear" { own } else { "linear" },
                &plan.rooted(0),
                rank,
                out,
            )?;
        }
        "basic_recursivehalving" | "recursivehalving" => halving::blocks_halving(plan, rank, out),
        "butterfly" => halving::butterfly(plan, are_blocks_even, rank, out),
        "recursivedoubling" => halving::blocks_doubling(plan, rank, out),
        "ring" => out.send_many(plan.next(rank), plan.total() - plan.block(rank), plan.n - 1),
        _ => return None,
    }
    Some(())
}
