//! Nonblocking and persistent collectives of Open MPI: the schedules of its component libnbc (ompi/mca/coll/libnbc), which are the
//! same in 4.1 and 5.0. Names are those of coll_libnbc_OPERATION_algorithm.

use super::halving::{self, HalvingScheme, masks};
use super::plan::{Plan, RankSends};
use super::tree::{self, Shape};
use super::{KNOMIAL_RADIX, Operation, bcast, gather, prefix};

/// Before its names, as some of the blocking algorithms are the same and mean another shape.
pub(super) const PREFIX: &str = "libnbc:";

/// Bytes of a part of a message that goes down a chain, and up one.
const DOWN_PART: u64 = 16_384;
const UP_PART: u64 = 8192;

/// Below so many bytes an allreduce goes up and down a tree, and a reduce up one.
const SHORT_BYTES: u64 = 65_536;

/// Sends of a rank by an algorithm; `None` for one without a model.
pub(super) fn of_rank(
    operation: Operation,
    name: &str,
    plan: &Plan,
    rank: u32,
    out: &mut RankSends,
) -> Option<()> {
    match (operation, name) {
        (Operation::Bcast, "linear") => bcast::linear(plan, rank, out),
        (Operation::Bcast, "binomial") => down(Shape::Binomial, 1, plan, rank, out),
        (Operation::Bcast, "chain") => down(Shape::Pipeline, parts(plan, DOWN_PART), plan, rank, out),
        (Operation::Bcast, "knomial") => tree::down(Shape::Knomial(KNOMIAL_RADIX), plan, rank, out),
        (Operation::Reduce, _) => return reduce(name, plan, rank, out),
        (Operation::Allreduce, _) => return allreduce(name, &plan.message(0, plan.block(0)), rank, out),
        // A reduce to rank 0, which hands out the blocks.
        (Operation::ReduceScatter | Operation::ReduceScatterBlock, "linear") => {
            up(Shape::BinomialInOrder, 1, &plan.message(0, plan.total()), rank, out);
            gather::scatter("linear", &plan.rooted(0), rank, out)?;
        }
        (Operation::Allgather, "recursive_doubling") if plan.n.is_power_of_two() => {
            for mask in masks(plan.n) {
                out.send(rank ^ mask, plan.block(rank) * u64::from(mask));
            }
        }
        // Each to each other one, for allgather also where the ranks are no power of two.
        (Operation::Allgather, "linear" | "recursive_doubling")
        | (Operation::Allgatherv | Operation::Alltoall | Operation::Alltoallv, "linear") => {
            plan.others(rank).for_each(|peer| out.send(peer, plan.block(rank)));
        }
        (Operation::Gather | Operation::Gatherv, "linear") => return gather::gather(name, plan, rank, out),
        (Operation::Scatter | Operation::Scatterv, "linear") => {
            return gather::scatter(name, plan, rank, out);
        }
        (Operation::Scan | Operation::Exscan, "linear") => return prefix::scan(name, plan, rank, out),
        (Operation::Scan | Operation::Exscan, "recursive_doubling") => {
            return prefix::scan("recursivedoubling", plan, rank, out);
        }
        (Operation::Barrier, "dissemination") => {
            masks(plan.n).for_each(|distance| out.send((rank + distance) % plan.n, 0));
        }
        _ => return None,
    }
    Some(())
}

/// The algorithm that it takes by itself, with the prefix.
pub(super) fn assumed(operation: Operation, plan: &Plan) -> &'static str {
    let n = plan.n;
    let is_short = plan.whole() < SHORT_BYTES;
    match operation {
        Operation::Bcast if n > 4 => "libnbc:binomial",
        Operation::Allreduce if n < 4 || plan.block(0) < SHORT_BYTES => "libnbc:binomial",
        Operation::Allreduce if has_halves(plan) => "libnbc:rabenseifner",
        Operation::Allreduce => "libnbc:ring",
        Operation::Reduce if n > 2 && has_halves(plan) => "libnbc:rabenseifner",
        Operation::Reduce if n > 4 || is_short => "libnbc:binomial",
        Operation::Reduce => "libnbc:chain",
        Operation::Barrier => "libnbc:dissemination",
        _ => "libnbc:linear",
    }
}

/// Whether there are elements for each of those that take part in halving.
fn has_halves(plan: &Plan) -> bool {
    plan.elements() >= 1 << plan.n.ilog2()
}

fn reduce(name: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    match name {
        "binomial" => up(Shape::BinomialInOrder, 1, plan, rank, out),
        "rabenseifner" if plan.n > 2 && has_halves(plan) => {
            halving::scatter_then_root(HalvingScheme::Windows, plan, rank, out);
        }
        "chain" | "rabenseifner" => up(Shape::Pipeline, parts(plan, UP_PART), plan, rank, out),
        _ => return None,
    }
    Some(())
}

fn allreduce(name: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    match name {
        "binomial" => {
            up(Shape::BinomialInOrder, 1, plan, rank, out);
            down(Shape::Binomial, 1, plan, rank, out);
        }
        "recursive_doubling" => halving::reduce_doubling(plan, rank, out),
        "rabenseifner" if has_halves(plan) => {
            halving::scatter_gather(HalvingScheme::Windows, plan, rank, out)
        }
        "ring" | "rabenseifner" => ring(plan, rank, out),
        _ => return None,
    }
    Some(())
}

/// Twice around. While reducing a rank never sends the block after its right neighbour's, while gathering never the one after
/// that.
fn ring(plan: &Plan, rank: u32, out: &mut RankSends) {
    let (n, elements) = (u64::from(plan.n), plan.elements());
    let block = |number: u32| elements / n + u64::from(u64::from(number % plan.n) < elements % n);
    for left_out in [rank + 2, rank + 3] {
        out.send_many(plan.next(rank), plan.bytes(elements - block(left_out)), plan.n - 1);
    }
}

/// Messages of a message that goes in parts.
fn parts(plan: &Plan, part: u64) -> u32 {
    u32::try_from(plan.whole().div_ceil(part)).unwrap_or(u32::MAX)
}

/// Unlike in the blocking algorithms, the root and rank 0 change places; all others keep theirs.
fn swapped(plan: &Plan, rank: u32) -> u32 {
    match rank {
        0 => plan.root,
        rank if rank == plan.root => 0,
        rank => rank,
    }
}

fn down(shape: Shape, messages: u32, plan: &Plan, rank: u32, out: &mut RankSends) {
    for child in shape.children(swapped(plan, rank), plan.n) {
        out.send_many(swapped(plan, child), plan.whole(), messages);
    }
}

fn up(shape: Shape, messages: u32, plan: &Plan, rank: u32, out: &mut RankSends) {
    let place = swapped(plan, rank);
    if place > 0 {
        out.send_many(swapped(plan, shape.parent(place, plan.n)), plan.whole(), messages);
    }
}
