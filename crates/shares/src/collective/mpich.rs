//! Algorithms of MPICH, by the names of MPIR_CVAR_OPERATION_INTRA_ALGORITHM in 4.0 and later (src/mpi/coll/).

use super::Operation;
use super::halving::{self, HalvingScheme, masks};
use super::parts::{self, Parts};
use super::plan::{Plan, RankSends};
use super::tree::{self, Shape};
use super::{allgather, alltoall, gather, prefix};

/// Sends of a rank by an algorithm; `None` for one without a model.
pub(super) fn of_rank(
    operation: Operation,
    name: &str,
    plan: &Plan,
    rank: u32,
    out: &mut RankSends,
) -> Option<()> {
    // Those of nonblocking operations have the same shapes under these names.
    let (name, is_schedule) = name.strip_prefix("sched_").map_or((name, false), |name| (name, true));
    match operation {
        Operation::Bcast => return bcast(name, plan, rank, out),
        Operation::Reduce => match name {
            "binomial" => tree::up(Shape::BinomialInOrder, plan, rank, out),
            "reduce_scatter_gather" if plan.elements() < 1 << plan.n.ilog2() => {
                tree::up(Shape::BinomialInOrder, plan, rank, out);
            }
            "reduce_scatter_gather" => halving::scatter_then_root(HalvingScheme::Blocks, plan, rank, out),
            _ => return None,
        },
        Operation::Allreduce => return allreduce(name, &plan.message(0, plan.block(0)), rank, out),
        Operation::ReduceScatter | Operation::ReduceScatterBlock => {
            return reduce_scatter(name, plan, rank, out);
        }
        Operation::Allgather | Operation::Allgatherv => match name {
            "ring" => allgather::ring(plan, rank, out),
            "brucks" => allgather::bruck(plan, rank, out),
            "recursive_doubling" => parts::doubling(plan.n, rank, |peer, first, size| {
                out.send(peer, plan.sum(first, size.min(plan.n - first)));
            }),
            _ => return None,
        },
        Operation::Gather | Operation::Gatherv => return gather::gather(name, plan, rank, out),
        Operation::Scatter | Operation::Scatterv => return gather::scatter(name, plan, rank, out),
        Operation::Scan | Operation::Exscan if name == "recursive_doubling" => {
            return prefix::scan("recursivedoubling", plan, rank, out);
        }
        Operation::Scan | Operation::Exscan => return None,
        Operation::Barrier => match name {
            "recursive_doubling" if !is_schedule => return None,
            "dissemination" | "k_dissemination" | "recursive_doubling" => {
                masks(plan.n).for_each(|distance| out.send((rank + distance) % plan.n, 0));
            }
            _ => return None,
        },
        Operation::Alltoall | Operation::Alltoallv => match name {
            "brucks" => alltoall::bruck(plan, rank, out),
            "pairwise" | "scattered" | "permuted_sendrecv" | "pairwise_sendrecv_replace" | "blocked" => {
                plan.others(rank).for_each(|peer| out.send(peer, plan.block(rank)));
            }
            _ => return None,
        },
    }
    Some(())
}

fn bcast(name: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    // A scattered message is cut by bytes, whatever the datatype.
    match name {
        "binomial" => tree::down(Shape::BinomialInOrder, plan, rank, out),
        "tree" | "pipelined_tree" => tree::down(Shape::Heap(2), plan, rank, out),
        "scatter_recursive_doubling_allgather" => {
            let parts = Parts::of(&plan.in_bytes());
            parts.scatter(&plan.in_bytes(), rank, out);
            parts.gather_doubling(&plan.in_bytes(), rank, out);
        }
        "scatter_ring_allgather" => {
            let parts = Parts::of(&plan.in_bytes());
            parts.scatter(&plan.in_bytes(), rank, out);
            parts.gather_ring(&plan.in_bytes(), rank, out);
        }
        _ => return None,
    }
    Some(())
}

fn allreduce(name: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    match name {
        "recursive_doubling" => halving::reduce_doubling(plan, rank, out),
        "reduce_scatter_allgather" if plan.elements() < 1 << plan.n.ilog2() => {
            halving::reduce_doubling(plan, rank, out);
        }
        "reduce_scatter_allgather" => halving::scatter_gather(HalvingScheme::Blocks, plan, rank, out),
        "ring" => Parts::of(plan).reduce_ring(plan, rank, out),
        "tree" => {
            tree::up(Shape::Heap(2), plan, rank, out);
            tree::down(Shape::Heap(2), plan, rank, out);
        }
        _ => return None,
    }
    Some(())
}

fn reduce_scatter(name: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    match name {
        "recursive_halving" => halving::blocks_halving(plan, rank, out),
        "recursive_doubling" => halving::blocks_doubling(plan, rank, out),
        "pairwise" => plan.others(rank).for_each(|peer| out.send(peer, plan.block(peer))),
        // For powers of two: halves of what is left, at growing distance.
        "noncommutative" if plan.n.is_power_of_two() => {
            for (step, mask) in masks(plan.n).enumerate() {
                out.send(rank ^ mask, plan.total() >> (step + 1));
            }
        }
        "noncommutative" => halving::blocks_doubling(plan, rank, out),
        _ => return None,
    }
    Some(())
}
