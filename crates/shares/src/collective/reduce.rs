//! Reductions: reduce, allreduce and reduce_scatter.

use super::{CHAINS, Call, Edges, gather, halving, tree};
use tree::Shape;

/// Reduce by an algorithm; `None` for one without a model.
pub(super) fn reduce(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    let bytes = call.block(call.root);
    match algorithm {
        "basic_linear" => tree::star(call).for_each(|rank| edges.send(rank, call.root, bytes)),
        "chain" => tree::up(&Shape::Chains(CHAINS), call, bytes, edges),
        "pipeline" => tree::up(&Shape::Pipeline, call, bytes, edges),
        "binary" => tree::up(&Shape::Levels(2), call, bytes, edges),
        "binomial" => tree::up(&Shape::BinomialInOrder, call, bytes, edges),
        "in_order_binary" => in_order(call, bytes, edges),
        "redscat_gather" => {
            // Messages with fewer elements than ranks, and few ranks, go straight to the root.
            let power = 1_u64 << call.ranks.ilog2();
            if call.elements() < power {
                return reduce("basic_linear", call, edges);
            }
            halving::scatter_then_root(call, edges);
        }
        _ => return None,
    }
    Some(())
}

/// A binary tree in which all of a left subtree's ranks are above the right one's; its root is the last rank.
fn in_order(call: &Call, bytes: u64, edges: &mut Edges) {
    let mut open = vec![(0, call.ranks)];
    while let Some((first, size)) = open.pop() {
        let (parent, right) = (first + size - 1, size / 2);
        let left = size - 1 - right.min(size - 1);
        if size > 1 && parent > first {
            // With two ranks there is a left child only.
            let (left, right) = if size == 2 { (1, 0) } else { (left, right) };
            edges.send(parent - 1, parent, bytes);
            open.push((first + right, left));
            if right > 0 {
                edges.send(first + right - 1, parent, bytes);
                open.push((first, right));
            }
        }
    }
    edges.send(call.ranks - 1, call.root, bytes);
}

/// Allreduce by an algorithm; `None` for one without a model.
pub(super) fn allreduce(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    let bytes = call.block(0);
    let at_zero = Call { root: 0, ..call.clone() };
    match algorithm {
        "basic_linear" => {
            reduce("basic_linear", &at_zero, edges);
            tree::bcast("basic_linear", &at_zero, edges);
        }
        // A reduce to rank 0 and a broadcast; of their own algorithms the usual ones are assumed.
        "nonoverlapping" => {
            tree::up(&Shape::BinomialInOrder, &at_zero, bytes, edges);
            tree::down(&Shape::Binomial, &at_zero, bytes, edges);
        }
        "recursivedoubling" => halving::reduce_doubling(&at_zero, edges),
        "redscat_allgather" if at_zero.elements() < 1 << call.ranks.ilog2() => {
            return allreduce("basic_linear", call, edges);
        }
        "redscat_allgather" => halving::scatter_gather(&at_zero, edges),
        "ring" | "ring_segmented" if at_zero.elements() < u64::from(call.ranks) => {
            halving::reduce_doubling(&at_zero, edges);
        }
        "ring" | "ring_segmented" => ring(&at_zero, edges),
        _ => return None,
    }
    Some(())
}

/// Twice around: each rank sends every block but one to its right neighbour while reducing, and again while gathering.
fn ring(call: &Call, edges: &mut Edges) {
    let (n, elements) = (u64::from(call.ranks), call.elements());
    let block = |number: u32| call.bytes(elements / n + u64::from(u64::from(number) < elements % n));
    for rank in 0..call.ranks {
        let next = (rank + 1) % call.ranks;
        // While reducing a rank never sends the block that it ends with, its right neighbour's.
        for number in (0..call.ranks).filter(|number| *number != next) {
            edges.send(rank, next, block(number));
        }
        // While gathering it never sends the block that the neighbour ended with.
        for number in (0..call.ranks).filter(|number| *number != (next + 1) % call.ranks) {
            edges.send(rank, next, block(number));
        }
    }
}

/// Reduce_scatter and reduce_scatter_block by an algorithm; `None` for one without a model.
pub(super) fn reduce_scatter(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    let (n, total) = (call.ranks, call.total());
    match algorithm {
        // A reduce to rank 0 (by the usual algorithm, an assumption) and a scatter.
        "nonoverlapping" | "basic_linear" => {
            let at_zero = Call { root: 0, ..call.clone() };
            tree::up(&Shape::BinomialInOrder, &at_zero, total, edges);
            gather::scatter("basic_linear", &at_zero, edges);
        }
        "basic_recursivehalving" | "recursivehalving" => halving::blocks_halving(call, edges),
        "ring" => {
            for rank in 0..n {
                let next = (rank + 1) % n;
                for block in (0..n).filter(|block| *block != rank) {
                    edges.send(rank, next, call.block(block));
                }
            }
        }
        _ => return None,
    }
    Some(())
}
