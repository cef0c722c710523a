//! Recursive halving and doubling, with ranks beyond a power of two folded into their neighbours.

use super::{Call, Edges};

/// The largest power of two of ranks, and how many ranks are beyond it.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    /// Ranks that take part after the fold.
    pub power: u32,
    /// Pairs at the beginning of which one rank takes part.
    pub extra: u32,
    /// Which rank of such a pair does: 0 the even one, 1 the odd one.
    pub member: u32,
}

impl Fold {
    pub(super) fn of(ranks: u32, member: u32) -> Self {
        let power = 1 << ranks.ilog2();
        Self { power, extra: ranks - power, member }
    }

    /// The rank that takes part as number `folded`.
    pub(super) fn rank(self, folded: u32) -> u32 {
        if folded < self.extra { folded * 2 + self.member } else { folded + self.extra }
    }

    /// Pairs of which one rank takes part: (that one, the other one).
    pub(super) fn pairs(self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.extra).map(move |pair| (pair * 2 + self.member, pair * 2 + 1 - self.member))
    }
}

/// Allreduce: at each step, partners exchange the whole message.
pub(super) fn reduce_doubling(call: &Call, edges: &mut Edges) {
    let bytes = call.block(call.root);
    let fold = Fold::of(call.ranks, 1);
    for (member, other) in fold.pairs() {
        edges.exchange(other, member, bytes);
    }
    let mut mask = 1;
    while mask < fold.power {
        for folded in 0..fold.power {
            edges.send(fold.rank(folded), fold.rank(folded ^ mask), bytes);
        }
        mask <<= 1;
    }
}

/// Elements that each folded rank receives, and those that it sends, at each step of halving: by step, then by rank.
type Steps = Vec<Vec<(u64, u64)>>;

/// Reduce-scatter of a message by halves at growing distance (Rabenseifner). Ranks of folded pairs first exchange halves.
fn scatter_halving(call: &Call, fold: Fold, edges: &mut Edges) -> Steps {
    let elements = call.elements();
    let (left, right) = (elements / 2, elements - elements / 2);
    for (even, odd) in fold.pairs() {
        edges.send(even, odd, call.bytes(right));
        edges.send(odd, even, call.bytes(left));
        // The odd rank returns the half that it has reduced.
        edges.send(odd, even, call.bytes(right));
    }
    let mut window = vec![elements; fold.power as usize];
    let mut steps = Steps::new();
    let mut mask = 1;
    while mask < fold.power {
        let step: Vec<_> = (0..fold.power)
            .map(|folded| {
                let size = window[folded as usize];
                // The lower rank of a pair keeps the left half, which is the smaller one.
                if folded & mask == 0 { (size / 2, size - size / 2) } else { (size - size / 2, size / 2) }
            })
            .collect();
        for folded in 0..fold.power {
            let (received, sent) = step[folded as usize];
            edges.send(fold.rank(folded), fold.rank(folded ^ mask), call.bytes(sent));
            window[folded as usize] = received;
        }
        steps.push(step);
        mask <<= 1;
    }
    steps
}

/// Allreduce by reduce-scatter and allgather, each by halves.
pub(super) fn scatter_gather(call: &Call, edges: &mut Edges) {
    let fold = Fold::of(call.ranks, 0);
    let steps = scatter_halving(call, fold, edges);
    for (number, step) in steps.iter().enumerate().rev() {
        for folded in 0..fold.power {
            edges.send(
                fold.rank(folded),
                fold.rank(folded ^ (1 << number)),
                call.bytes(step[folded as usize].0),
            );
        }
    }
    for (even, odd) in fold.pairs() {
        edges.send(even, odd, call.block(call.root));
    }
}

/// Reduce by reduce-scatter, and a gather at the root along a binomial tree.
pub(super) fn scatter_then_root(call: &Call, edges: &mut Edges) {
    let fold = Fold::of(call.ranks, 0);
    let steps = scatter_halving(call, fold, edges);
    let is_excluded = call.root < 2 * fold.extra && call.root % 2 == 1;
    let folded_root = match call.root {
        _ if is_excluded => 0,
        root if root < 2 * fold.extra => root / 2,
        root => root - fold.extra,
    };
    // A root that the fold left out takes the place of rank 0, which hands it its part.
    let rank = |folded: u32| if is_excluded && folded == 0 { call.root } else { fold.rank(folded) };
    if is_excluded {
        let part = steps.last().map_or(call.elements(), |step| step[0].0);
        edges.send(0, call.root, call.bytes(part));
    }
    for (number, step) in steps.iter().enumerate().rev() {
        for folded in 0..fold.power {
            let partner = folded ^ (1 << number);
            // Ranks whose higher bits are the root's still take part; of these, those on the other side of this bit send.
            if partner >> number == folded_root >> number {
                edges.send(rank(folded), rank(partner), call.bytes(step[folded as usize].0));
            }
        }
    }
}

/// Allgather of a scattered message by doubling; ranks beyond a power of two get what they lack from those that have it.
/// `parts` are bytes by distance from the root.
pub(super) fn gather_doubling(call: &Call, parts: &[u64], edges: &mut Edges) {
    let n = call.ranks;
    let mut held = parts.to_vec();
    let mut mask = 1;
    while mask < n {
        let before = held.clone();
        let mut received = vec![0; n as usize];
        for distance in (0..n).filter(|distance| distance ^ mask < n) {
            let partner = distance ^ mask;
            edges.send(call.at_distance(distance), call.at_distance(partner), before[distance as usize]);
            received[partner as usize] = before[distance as usize];
            held[partner as usize] += before[distance as usize];
        }
        let mut half = mask >> 1;
        while half > 0 {
            for distance in 0..n {
                let own = distance / mask * mask;
                let theirs = own ^ mask;
                if theirs + mask <= n || theirs < own {
                    continue;
                }
                let complete = distance / (half << 1) * (half << 1) + (n.saturating_sub(own + mask));
                let partner = distance ^ half;
                if partner > distance && distance < complete && partner >= complete {
                    edges.send(
                        call.at_distance(distance),
                        call.at_distance(partner),
                        received[distance as usize],
                    );
                    received[partner as usize] = received[distance as usize];
                    held[partner as usize] += received[distance as usize];
                }
            }
            half >>= 1;
        }
        mask <<= 1;
    }
}

/// Reduce-scatter of blocks by halves at falling distance; of folded pairs the odd rank takes part.
pub(super) fn blocks_halving(call: &Call, edges: &mut Edges) {
    let fold = Fold::of(call.ranks, 1);
    let total = call.total();
    for (odd, even) in fold.pairs() {
        edges.send(even, odd, total);
    }
    // Bytes of the block of each folded rank: its own and its neighbour's.
    let own: Vec<u64> = (0..fold.power)
        .map(|folded| {
            let rank = fold.rank(folded);
            call.block(rank) + if folded < fold.extra { call.block(rank - 1) } else { 0 }
        })
        .collect();
    let sum = |from: u32, until: u32| own[from as usize..until as usize].iter().sum::<u64>();
    let mut mask = fold.power >> 1;
    while mask > 0 {
        for folded in 0..fold.power {
            let partner = folded ^ mask;
            // Of the window of 2 x mask blocks that both still have, each sends the partner's half.
            let half = partner / mask * mask;
            let bytes = sum(half, half + mask);
            if bytes > 0 {
                edges.send(fold.rank(folded), fold.rank(partner), bytes);
            }
        }
        mask >>= 1;
    }
    for (odd, even) in fold.pairs() {
        if call.block(even) > 0 {
            edges.send(odd, even, call.block(even));
        }
    }
}
