//! Trees over ranks, by distance from the root.

use super::plan::{Plan, RankSends};

/// Who is whose parent.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// One child each.
    Pipeline,
    /// The root has this many chains; the first ones are longer by one.
    Chains(u32),
    /// Complete tree, filled level by level. Levels are interleaved, not contiguous.
    Levels(u32),
    /// Complete tree in the order of a heap: the children of `d` are `d * k + 1` to `d * k + k`.
    Heap(u32),
    /// Binomial: the parent lacks the highest bit of the distance.
    Binomial,
    /// Binomial in order: the parent lacks the lowest bit of the distance.
    BinomialInOrder,
    /// As the one before with digits of a radix.
    Knomial(u32),
}

impl Shape {
    /// The parent of `distance` (at least 1) in a tree of `ranks`.
    pub(super) fn parent(self, distance: u32, ranks: u32) -> u32 {
        match self {
            Self::Pipeline => distance - 1,
            Self::Chains(chains) => {
                if chain_head(distance, ranks - 1, chains.clamp(1, ranks - 1)) {
                    0
                } else {
                    distance - 1
                }
            }
            Self::Levels(fanout) => in_levels(distance, fanout),
            Self::Heap(fanout) => (distance - 1) / fanout,
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

    /// The children of `distance` in a tree of `ranks`.
    pub(super) fn children(self, distance: u32, ranks: u32) -> Vec<u32> {
        let (d, n) = (u64::from(distance), u64::from(ranks));
        let mut children: Vec<u64> = match self {
            Self::Pipeline => vec![d + 1],
            Self::Chains(chains) => {
                let chains = chains.clamp(1, (ranks - 1).max(1));
                if distance == 0 {
                    chain_heads(ranks - 1, chains)
                } else if distance + 1 < ranks && !chain_head(distance + 1, ranks - 1, chains) {
                    vec![d + 1]
                } else {
                    Vec::new()
                }
            }
            Self::Levels(fanout) => {
                let step = level_step(distance, fanout);
                (1..=u64::from(fanout)).map(|child| d + child * step).collect()
            }
            Self::Heap(fanout) => {
                (1..=u64::from(fanout)).map(|child| d * u64::from(fanout) + child).collect()
            }
            Self::Binomial => {
                let first = if distance == 0 { 0 } else { distance.ilog2() + 1 };
                (first..32).map(|bit| d + (1 << bit)).collect()
            }
            Self::BinomialInOrder => {
                let bits = if distance == 0 { 32 } else { distance.trailing_zeros() };
                (0..bits).map(|bit| d + (1 << bit)).collect()
            }
            Self::Knomial(radix) => {
                let radix = u64::from(radix.max(2));
                let (mut unit, mut children) = (1, Vec::new());
                while unit < n && d.is_multiple_of(radix * unit) {
                    children.extend((1..radix).map(|digit| d + digit * unit));
                    unit *= radix;
                }
                children
            }
        };
        children.retain(|child| *child < n);
        children.into_iter().filter_map(|child| u32::try_from(child).ok()).collect()
    }
}

/// Whether a distance is the first of its chain. `others` ranks in chains: the first `others % chains` of them have one
/// rank more.
fn chain_head(distance: u32, others: u32, chains: u32) -> bool {
    let short = others / chains;
    let (long_chains, long) = (others % chains, short + 1);
    let place = distance - 1;
    if place < long_chains * long {
        place.is_multiple_of(long)
    } else {
        (place - long_chains * long).is_multiple_of(short)
    }
}

fn chain_heads(others: u32, chains: u32) -> Vec<u64> {
    let (short, long_chains) = (u64::from(others / chains), u64::from(others % chains));
    (0..u64::from(chains)).map(|chain| 1 + chain * short + chain.min(long_chains)).collect()
}

/// How far apart the children of a distance are: the size of its level.
fn level_step(distance: u32, fanout: u32) -> u64 {
    let (distance, fanout) = (u64::from(distance), u64::from(fanout));
    let (mut above, mut level) = (0, 1);
    while distance >= above + level {
        above += level;
        level *= fanout;
    }
    level
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

/// Ranks of the subtree of a distance in [`Shape::BinomialInOrder`]: it and the ones that follow.
pub(super) fn in_order_subtree(distance: u32, ranks: u32) -> u32 {
    if distance == 0 { ranks } else { (distance & distance.wrapping_neg()).min(ranks - distance) }
}

/// The message goes down the tree, whole.
pub(super) fn down(shape: Shape, plan: &Plan, rank: u32, out: &mut RankSends) {
    for child in shape.children(plan.distance(rank), plan.n) {
        out.send(plan.at(child), plan.whole());
    }
}

/// Partial results go up the tree, whole.
pub(super) fn up(shape: Shape, plan: &Plan, rank: u32, out: &mut RankSends) {
    let distance = plan.distance(rank);
    if distance > 0 {
        out.send(plan.at(shape.parent(distance, plan.n)), plan.whole());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parents(shape: Shape, ranks: u32) -> Vec<u32> {
        (1..ranks).map(|distance| shape.parent(distance, ranks)).collect()
    }

    #[test]
    fn shapes_are_those_of_the_figures_in_open_mpi() {
        // Comments of coll_base_topo.c: fan-out 2 on 7 ranks, binomial and in order on 8, radix 3 and 4 on 10.
        assert_eq!(parents(Shape::Levels(2), 7), [0, 0, 1, 2, 1, 2]);
        assert_eq!(parents(Shape::Binomial, 8), [0, 0, 1, 0, 1, 2, 3]);
        assert_eq!(parents(Shape::BinomialInOrder, 8), [0, 0, 2, 0, 4, 4, 6]);
        assert_eq!(parents(Shape::Knomial(3), 10), [0, 0, 0, 3, 3, 0, 6, 6, 0]);
        assert_eq!(parents(Shape::Knomial(4), 10), [0, 0, 0, 0, 4, 4, 4, 0, 8]);
        assert_eq!(parents(Shape::Chains(4), 10), [0, 1, 2, 0, 4, 0, 6, 0, 8]);
        assert_eq!(parents(Shape::Chains(4), 3), [0, 0]);
        assert_eq!(parents(Shape::Pipeline, 4), [0, 1, 2]);
        assert_eq!(parents(Shape::Heap(2), 7), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn children_are_those_whose_parent_it_is() {
        let shapes = [
            Shape::Pipeline,
            Shape::Chains(1),
            Shape::Chains(4),
            Shape::Levels(2),
            Shape::Levels(3),
            Shape::Heap(2),
            Shape::Binomial,
            Shape::BinomialInOrder,
            Shape::Knomial(2),
            Shape::Knomial(4),
        ];
        for shape in shapes {
            for ranks in 2..70 {
                for distance in 0..ranks {
                    let mut children = shape.children(distance, ranks);
                    children.sort_unstable();
                    let expected: Vec<u32> =
                        (1..ranks).filter(|child| shape.parent(*child, ranks) == distance).collect();
                    assert_eq!(children, expected, "{distance} of {ranks}");
                }
            }
        }
    }
}
