//! Gather and scatter.

use super::plan::{Plan, RankSends};
use super::tree::{self, Shape};

/// Bytes of the blocks of a distance's subtree.
fn subtree(plan: &Plan, distance: u32) -> u64 {
    plan.sum(plan.at(distance), tree::in_order_subtree(distance, plan.n))
}

/// Gather by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn gather(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    let distance = plan.distance(rank);
    match algorithm {
        "basic_linear" | "linear" => out.send(plan.root, plan.block(rank)),
        // The root requests each block by an empty message, and gets it in two.
        "linear_sync" if distance == 0 => plan.others(rank).for_each(|peer| out.send(peer, 0)),
        "linear_sync" => out.send_many(plan.root, plan.block(rank), 2),
        "binomial" if distance == 0 => {}
        "binomial" => {
            out.send(plan.at(Shape::BinomialInOrder.parent(distance, plan.n)), subtree(plan, distance));
        }
        _ => return None,
    }
    Some(())
}

/// Scatter by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn scatter(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    match algorithm {
        "basic_linear" | "linear" | "linear_nb" => {
            if rank == plan.root {
                plan.others(rank).for_each(|peer| out.send(peer, plan.block(peer)));
            }
        }
        "binomial" => {
            for child in Shape::BinomialInOrder.children(plan.distance(rank), plan.n) {
                out.send(plan.at(child), subtree(plan, child));
            }
        }
        _ => return None,
    }
    Some(())
}
