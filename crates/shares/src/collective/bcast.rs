//! Broadcasts.

use super::plan::{Plan, RankSends};
use super::tree::{self, Shape};
use super::{KNOMIAL_RADIX, parts::Parts};

/// Broadcast by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn bcast(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    match algorithm {
        "basic_linear" | "lin" => linear(plan, rank, out),
        _ if super::has_name(algorithm, "chain") => {
            tree::down(Shape::Chains(super::parameter(algorithm).unwrap_or(1)), plan, rank, out);
        }
        "pipeline" => tree::down(Shape::Pipeline, plan, rank, out),
        "bintree" => tree::down(Shape::Levels(2), plan, rank, out),
        "binomial" | "log" => tree::down(Shape::Binomial, plan, rank, out),
        _ if super::has_name(algorithm, "knomial") => {
            let radix = super::parameter(algorithm).unwrap_or(KNOMIAL_RADIX);
            tree::down(Shape::Knomial(radix), plan, rank, out);
        }
        "split_bintree" => split_binary(plan, rank, out),
        "scatter_allgather" | "scatter_allgather_ring" if plan.elements() < u64::from(plan.n) => {
            linear(plan, rank, out);
        }
        "scatter_allgather" => {
            let parts = Parts::of(plan);
            parts.scatter(plan, rank, out);
            parts.gather_doubling(plan, rank, out);
        }
        "scatter_allgather_ring" => {
            let parts = Parts::of(plan);
            parts.scatter(plan, rank, out);
            parts.gather_ring(plan, rank, out);
        }
        _ => return None,
    }
    Some(())
}

pub(super) fn linear(plan: &Plan, rank: u32, out: &mut RankSends) {
    if rank == plan.root {
        plan.others(rank).for_each(|peer| out.send(peer, plan.whole()));
    }
}

/// Of a halved message each subtree below the root's two children gets its half, and pairs exchange the rest.
fn split_binary(plan: &Plan, rank: u32, out: &mut RankSends) {
    let elements = plan.elements();
    if elements < 2 {
        return tree::down(Shape::Pipeline, plan, rank, out);
    }
    let (n, distance) = (plan.n, plan.distance(rank));
    // Odd distances are on the left side, even ones on the right: steps from level to level are even.
    let half =
        |distance: u32| plan.bytes(if distance % 2 == 1 { elements.div_ceil(2) } else { elements / 2 });
    for child in Shape::Levels(2).children(distance, n) {
        out.send(plan.at(child), half(child));
    }
    // Neighbours, one of either side: (1, 2), (3, 4) ...; a last one without a partner gets its half from the root.
    match distance {
        0 if n.is_multiple_of(2) => out.send(plan.at(n - 1), half(0)),
        0 => {}
        odd if odd % 2 == 1 => {
            if odd + 1 < n {
                out.send(plan.at(odd + 1), half(odd));
            }
        }
        even => out.send(plan.at(even - 1), half(even)),
    }
}
