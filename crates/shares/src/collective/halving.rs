//! Recursive halving and doubling, with ranks beyond a power of two folded into their neighbours.

use super::parts;
use super::plan::{Out, Plan};

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

    /// The number under which a rank takes part; `None` where it does not.
    pub(super) fn folded(self, rank: u32) -> Option<u32> {
        match rank {
            _ if rank >= 2 * self.extra => Some(rank - self.extra),
            _ if rank % 2 == self.member => Some(rank / 2),
            _ => None,
        }
    }

    /// The other rank of a folded pair.
    pub(super) fn mate(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra).then_some(rank ^ 1)
    }

    /// The first rank whose block belongs to the one that takes part as `folded`.
    fn first(self, folded: u32) -> u32 {
        if folded < self.extra { folded * 2 } else { folded + self.extra }
    }

    /// Bytes of the blocks of some folded ranks, those that were folded into them included.
    fn blocks(self, plan: &Plan, folded: u32, count: u32) -> u64 {
        let first = self.first(folded);
        plan.sum(first, self.first(folded + count) - first)
    }
}

/// Powers of two below a limit.
pub(super) fn masks(limit: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..limit.max(1).next_power_of_two().ilog2()).map(|bit| 1 << bit)
}

/// Allreduce: at each step, partners exchange the whole message. The odd rank of a folded pair takes part.
pub(super) fn reduce_doubling(plan: &Plan, rank: u32, out: &mut Out) {
    let (fold, bytes) = (Fold::of(plan.n, 1), plan.whole());
    if let Some(mate) = fold.mate(rank) {
        out.send(mate, bytes);
    }
    if let Some(folded) = fold.folded(rank) {
        masks(fold.power).for_each(|mask| out.send(fold.rank(folded ^ mask), bytes));
    }
}

/// Elements that a folded rank receives and sends at each step of halving a message at growing distance.
fn steps(elements: u64, fold: Fold, folded: u32) -> Vec<(u64, u64)> {
    let mut window = elements;
    masks(fold.power)
        .map(|mask| {
            let (left, right) = (window / 2, window - window / 2);
            // The lower rank of a pair keeps the left half, which is the smaller one.
            let (received, sent) = if folded & mask == 0 { (left, right) } else { (right, left) };
            window = received;
            (received, sent)
        })
        .collect()
}

/// Reduce-scatter of a message by halves at growing distance (Rabenseifner). Ranks of folded pairs first exchange halves,
/// and the odd one returns the half that it has reduced.
fn scatter_halving(plan: &Plan, fold: Fold, rank: u32, out: &mut Out) -> Vec<(u64, u64)> {
    let elements = plan.elements();
    let (left, right) = (elements / 2, elements - elements / 2);
    if let Some(mate) = fold.mate(rank) {
        if rank < mate {
            out.send(mate, plan.bytes(right));
        } else {
            out.send(mate, plan.bytes(left));
            out.send(mate, plan.bytes(right));
        }
    }
    let Some(folded) = fold.folded(rank) else { return Vec::new() };
    let steps = steps(elements, fold, folded);
    for (mask, (_, sent)) in masks(fold.power).zip(&steps) {
        out.send(fold.rank(folded ^ mask), plan.bytes(*sent));
    }
    steps
}

/// Allreduce by reduce-scatter and allgather, each by halves.
pub(super) fn scatter_gather(plan: &Plan, rank: u32, out: &mut Out) {
    let fold = Fold::of(plan.n, 0);
    let steps = scatter_halving(plan, fold, rank, out);
    let Some(folded) = fold.folded(rank) else { return };
    for (number, (received, _)) in steps.iter().enumerate().rev() {
        out.send(fold.rank(folded ^ (1 << number)), plan.bytes(*received));
    }
    if let Some(mate) = fold.mate(rank) {
        out.send(mate, plan.whole());
    }
}

/// Reduce by reduce-scatter, and a gather at the root along a binomial tree.
pub(super) fn scatter_then_root(plan: &Plan, rank: u32, out: &mut Out) {
    let fold = Fold::of(plan.n, 0);
    let mut steps = scatter_halving(plan, fold, rank, out);
    // A root that the fold left out takes the place of rank 0, which hands it its part.
    let is_excluded = fold.folded(plan.root).is_none();
    let folded_root = fold.folded(plan.root).unwrap_or(0);
    let place = |folded: u32| if is_excluded && folded == 0 { plan.root } else { fold.rank(folded) };
    let mut folded = fold.folded(rank);
    if is_excluded && rank == 0 {
        let part = steps.last().map_or(plan.elements(), |step| step.0);
        out.send(plan.root, plan.bytes(part));
        return;
    }
    if is_excluded && rank == plan.root {
        folded = Some(0);
        steps = self::steps(plan.elements(), fold, 0);
    }
    let Some(folded) = folded else { return };
    for (number, step) in steps.iter().enumerate().rev() {
        let partner = folded ^ (1 << number);
        // Ranks whose higher bits are the root's still take part; of these, those on the other side of this bit send.
        if partner >> number == folded_root >> number {
            out.send(place(partner), plan.bytes(step.0));
        }
    }
}

/// Reduce-scatter of blocks by halves at falling distance; of folded pairs the odd rank takes part. Empty messages are
/// left out.
pub(super) fn blocks_halving(plan: &Plan, rank: u32, out: &mut Out) {
    let fold = Fold::of(plan.n, 1);
    let Some(folded) = fold.folded(rank) else {
        out.send(rank + 1, plan.total());
        return;
    };
    for mask in masks(fold.power).rev() {
        let partner = folded ^ mask;
        // Of the window of 2 x mask blocks that both still have, each sends the partner's half.
        let bytes = fold.blocks(plan, partner & !(mask - 1), mask);
        if bytes > 0 {
            out.send(fold.rank(partner), bytes);
        }
    }
    if let Some(mate) = fold.mate(rank)
        && plan.block(mate) > 0
    {
        out.send(mate, plan.block(mate));
    }
}

/// Reduce-scatter of blocks by a butterfly (Träff 2005): halves at growing distance, then each result goes to its owner, the
/// rank with the bits in reverse.
pub(super) fn butterfly(plan: &Plan, rank: u32, out: &mut Out) {
    let fold = Fold::of(plan.n, 1);
    let Some(folded) = fold.folded(rank) else {
        out.send(rank + 1, plan.total());
        return;
    };
    let (mut first, mut blocks) = (0, fold.power);
    for mask in masks(fold.power) {
        blocks /= 2;
        let (kept, sent) = if folded & mask == 0 { (first, first + blocks) } else { (first + blocks, first) };
        out.send(fold.rank(folded ^ mask), fold.blocks(plan, sent, blocks));
        first = kept;
    }
    let owner = folded.reverse_bits() >> (32 - fold.power.ilog2());
    let rank_of_owner = fold.rank(owner);
    if let Some(mate) = fold.mate(rank_of_owner) {
        out.send(mate, plan.block(mate));
    }
    if owner != folded {
        out.send(rank_of_owner, plan.block(rank_of_owner));
    }
}

/// Reduce-scatter of blocks by doubling: partners exchange all blocks but those of their own groups.
pub(super) fn blocks_doubling(plan: &Plan, rank: u32, out: &mut Out) {
    let n = plan.n;
    // All blocks but those of a group of `mask` ranks.
    let beyond = |group: u32, mask: u32| {
        let after = group.saturating_add(mask).min(n);
        plan.sum(0, group.min(n)) + plan.sum(after % n, n - after)
    };
    for mask in masks(n) {
        let own = rank & !(mask - 1);
        let partner = rank ^ mask;
        if partner < n {
            out.send(partner, beyond(own, mask));
        }
        // What the partner sent is handed on as it came: all but the partner's group.
        for peer in parts::handed_on(n, rank, mask) {
            out.send(peer, beyond(own ^ mask, mask));
        }
    }
}
