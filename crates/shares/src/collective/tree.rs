//! Trees over ranks, and broadcasts along them.

use super::{CHAINS, Call, Edges, KNOMIAL_RADIX, gather, halving};

/// The parent of each distance from the root, from distance 1 on.
pub(super) enum Shape {
    /// One child each.
    Pipeline,
    /// The root has this many chains; the first ones are longer by one.
    Chains(u32),
    /// Complete tree, filled level by level. Levels are interleaved, not contiguous.
    Levels(u32),
    /// Binomial: the parent lacks the highest bit of the distance.
    Binomial,
    /// Binomial in order: the parent lacks the lowest bit of the distance.
    BinomialInOrder,
    /// As the one before with digits of a radix.
    Knomial(u32),
}

impl Shape {
    /// The parent of `distance` (at least 1) in a tree of `ranks`.
    pub(super) fn parent(&self, distance: u32, ranks: u32) -> u32 {
        match *self {
            Self::Pipeline => distance - 1,
            Self::Chains(chains) => in_chain(distance, ranks - 1, chains.min(ranks - 1).max(1)),
            Self::Levels(fanout) => in_levels(distance, fanout),
            Self::Binomial => distance ^ (1 << distance.ilog2()),
            Self::BinomialInOrder => distance & (distance - 1),
            Self::Knomial(radix) => {
                let mut unit = 1;
                while distance.is_multiple_of(radix * unit) {
                    unit *= radix;
                }
                distance / (radix * unit) * (radix * unit)
            }
        }
    }
}

/// `others` ranks in chains: the first `others % chains` of them have one rank more.
fn in_chain(distance: u32, others: u32, chains: u32) -> u32 {
    let short = others / chains;
    let (long_chains, long) = (others % chains, short + 1);
    let place = distance - 1;
    let is_head = if place < long_chains * long {
        place.is_multiple_of(long)
    } else {
        (place - long_chains * long).is_multiple_of(short)
    };
    if is_head { 0 } else { distance - 1 }
}

/// A level of `fanout^level` ranks; children lie a level's size apart.
fn in_levels(distance: u32, fanout: u32) -> u32 {
    if distance <= fanout {
        return 0;
    }
    let (mut above, mut level) = (1, fanout);
    // `above` ranks on all levels above the one that holds the distance, which has `level` ranks.
    while distance >= above + level {
        above += level;
        level *= fanout;
    }
    let step = level / fanout;
    let mut parent = distance;
    while parent >= above {
        parent -= step;
    }
    parent
}

/// The message goes down the tree, whole.
pub(super) fn down(shape: &Shape, call: &Call, bytes: u64, edges: &mut Edges) {
    for distance in 1..call.ranks {
        let parent = shape.parent(distance, call.ranks);
        edges.send(call.at_distance(parent), call.at_distance(distance), bytes);
    }
}

/// Partial results go up the tree, whole.
pub(super) fn up(shape: &Shape, call: &Call, bytes: u64, edges: &mut Edges) {
    for distance in 1..call.ranks {
        let parent = shape.parent(distance, call.ranks);
        edges.send(call.at_distance(distance), call.at_distance(parent), bytes);
    }
}

/// The root and each other rank alone, without a tree.
pub(super) fn star(call: &Call) -> impl Iterator<Item = u32> {
    let root = call.root;
    (0..call.ranks).filter(move |rank| *rank != root)
}

/// Of a halved message: where each subtree below the root's two children gets its half, and pairs exchange the rest.
fn split_binary(call: &Call, edges: &mut Edges) {
    let elements = call.elements();
    let halves = [call.bytes(elements.div_ceil(2)), call.bytes(elements / 2)];
    if elements < 2 {
        return down(&Shape::Pipeline, call, halves[0] + halves[1], edges);
    }
    let shape = Shape::Levels(2);
    // Distance 1 is the left child; the side of a rank is that of its ancestor below the root.
    let mut side = vec![0; call.ranks as usize];
    for distance in 1..call.ranks {
        let parent = shape.parent(distance, call.ranks);
        side[distance as usize] = if parent == 0 { (distance - 1) as usize } else { side[parent as usize] };
        edges.send(call.at_distance(parent), call.at_distance(distance), halves[side[distance as usize]]);
    }
    // Neighbours, one of either subtree: (1, 2), (3, 4) ...; a last one without a partner gets its half from the root.
    for distance in (1..call.ranks).step_by(2) {
        let (left, right) = (call.at_distance(distance), call.at_distance(distance + 1));
        if distance + 1 == call.ranks {
            edges.send(call.root, left, halves[1 - side[distance as usize]]);
        } else {
            edges.send(left, right, halves[side[distance as usize]]);
            edges.send(right, left, halves[side[distance as usize + 1]]);
        }
    }
}

/// Broadcast by an algorithm; `None` for one without a model.
pub(super) fn bcast(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    let bytes = call.block(call.root);
    match algorithm {
        "basic_linear" => star(call).for_each(|rank| edges.send(call.root, rank, bytes)),
        "chain" => down(&Shape::Chains(CHAINS), call, bytes, edges),
        "pipeline" => down(&Shape::Pipeline, call, bytes, edges),
        "bintree" => down(&Shape::Levels(2), call, bytes, edges),
        "binomial" => down(&Shape::Binomial, call, bytes, edges),
        "knomial" => down(&Shape::Knomial(KNOMIAL_RADIX), call, bytes, edges),
        "split_bintree" => split_binary(call, edges),
        "scatter_allgather" | "scatter_allgather_ring" if call.elements() < u64::from(call.ranks) => {
            star(call).for_each(|rank| edges.send(call.root, rank, bytes));
        }
        "scatter_allgather" => {
            let parts = gather::scatter_message(call, edges);
            halving::gather_doubling(call, &parts, edges);
        }
        "scatter_allgather_ring" => {
            let parts = gather::scatter_message(call, edges);
            let n = call.ranks;
            // Each rank passes every part on to its right neighbour, but the neighbour's own.
            for distance in 0..n {
                let next = (distance + 1) % n;
                for part in (0..n).filter(|part| *part != next) {
                    edges.send(call.at_distance(distance), call.at_distance(next), parts[part as usize]);
                }
            }
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parents(shape: &Shape, ranks: u32) -> Vec<u32> {
        (1..ranks).map(|distance| shape.parent(distance, ranks)).collect()
    }

    #[test]
    fn shapes_are_those_of_the_figures_in_open_mpi() {
        // Comments of coll_base_topo.c: fan-out 2 on 7 ranks, binomial and in order on 8, radix 3 and 4 on 10.
        assert_eq!(parents(&Shape::Levels(2), 7), [0, 0, 1, 2, 1, 2]);
        assert_eq!(parents(&Shape::Binomial, 8), [0, 0, 1, 0, 1, 2, 3]);
        assert_eq!(parents(&Shape::BinomialInOrder, 8), [0, 0, 2, 0, 4, 4, 6]);
        assert_eq!(parents(&Shape::Knomial(3), 10), [0, 0, 0, 3, 3, 0, 6, 6, 0]);
        assert_eq!(parents(&Shape::Knomial(4), 10), [0, 0, 0, 0, 4, 4, 4, 0, 8]);
        assert_eq!(parents(&Shape::Chains(4), 10), [0, 1, 2, 0, 4, 0, 6, 0, 8]);
        assert_eq!(parents(&Shape::Chains(4), 3), [0, 0]);
        assert_eq!(parents(&Shape::Pipeline, 4), [0, 1, 2]);
    }
}
