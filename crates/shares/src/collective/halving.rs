//! Recursive halving and doubling, with ranks beyond a power of two folded into their neighbours.

use super::parts;
use super::plan::{Plan, RankSends};

/// The largest power of two of ranks, and how many ranks are beyond it.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    /// Ranks that take part after the fold.
    pub power: u32,
    /// Pairs at the beginning, with one rank of each taking part.
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
pub(super) fn reduce_doubling(plan: &Plan, rank: u32, out: &mut RankSends) {
    let (fold, bytes) = (Fold::of(plan.n, 1), plan.whole());
    if let Some(mate) = fold.mate(rank) {
        out.send(mate, bytes);
    }
    if let Some(folded) = fold.folded(rank) {
        masks(fold.power).for_each(|mask| out.send(fold.rank(folded ^ mask), bytes));
    }
}

/// How a message is cut for halving.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HalvingScheme {
    /// Each window into halves, the left one the smaller (Open MPI). Folded pairs exchange halves first, and the odd rank
    /// returns the half that it has reduced.
    Windows,
    /// Into one block for each rank that takes part, the first ones longer by an element (MPICH). Of folded pairs the one
    /// that does not take part sends all.
    Blocks,
}

impl HalvingScheme {
    /// Elements that a folded rank receives and sends at each step of halving a message at growing distance.
    fn steps(self, elements: u64, power: u32, folded: u32) -> Vec<(u64, u64)> {
        let (mut window, mut first, mut blocks) = (elements, 0, u64::from(power));
        let of_blocks = |first: u64, count: u64| {
            let (each, longer) = (elements / u64::from(power), elements % u64::from(power));
            count * each + (first + count).min(longer) - first.min(longer)
        };
        let mut step = |mask: u32| {
            let is_lower = folded & mask == 0;
            let (left, right) = match self {
                Self::Windows => (window / 2, window - window / 2),
                Self::Blocks => {
                    blocks /= 2;
                    let halves = (of_blocks(first, blocks), of_blocks(first + blocks, blocks));
                    first += if is_lower { 0 } else { blocks };
                    halves
                }
            };
            // The lower rank of a pair keeps the left half.
            let (received, sent) = if is_lower { (left, right) } else { (right, left) };
            window = received;
            (received, sent)
        };
        masks(power).map(&mut step).collect()
    }

    /// What ranks of folded pairs exchange before halving.
    fn fold(self, plan: &Plan, fold: Fold, rank: u32, out: &mut RankSends) {
        let Some(mate) = fold.mate(rank) else { return };
        let elements = plan.elements();
        let (left, right) = (elements / 2, elements - elements / 2);
        match self {
            Self::Windows if rank < mate => out.send(mate, plan.bytes(right)),
            Self::Windows => {
                out.send(mate, plan.bytes(left));
                out.send(mate, plan.bytes(right));
            }
            Self::Blocks if fold.folded(rank).is_none() => out.send(mate, plan.whole()),
            Self::Blocks => {}
        }
    }
}

/// Reduce-scatter of a message by halves at growing distance (Rabenseifner).
fn scatter_halving(
    cut: HalvingScheme,
    plan: &Plan,
    fold: Fold,
    rank: u32,
    out: &mut RankSends,
) -> Vec<(u64, u64)> {
    cut.fold(plan, fold, rank, out);
    let Some(folded) = fold.folded(rank) else { return Vec::new() };
    let steps = cut.steps(plan.elements(), fold.power, folded);
    for (mask, (_, sent)) in masks(fold.power).zip(&steps) {
        out.send(fold.rank(folded ^ mask), plan.bytes(*sent));
    }
    steps
}

/// Allreduce by reduce-scatter and allgather, each by halves.
pub(super) fn scatter_gather(cut: HalvingScheme, plan: &Plan, rank: u32, out: &mut RankSends) {
    let fold = Fold::of(plan.n, if cut == HalvingScheme::Windows { 0 } else { 1 });
    let steps = scatter_halving(cut, plan, fold, rank, out);
    let Some(folded) = fold.folded(rank) else { return };
    for (number, (received, _)) in steps.iter().enumerate().rev() {
        out.send(fold.rank(folded ^ (1 << number)), plan.bytes(*received));
    }
    if let Some(mate) = fold.mate(rank) {
        out.send(mate, plan.whole());
    }
}

/// Reduce by reduce-scatter, and a gather at the root along a binomial tree.
pub(super) fn scatter_then_root(cut: HalvingScheme, plan: &Plan, rank: u32, out: &mut RankSends) {
    let fold = Fold::of(plan.n, 0);
    let mut steps = scatter_halving(cut, plan, fold, rank, out);
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
        steps = cut.steps(plan.elements(), fold.power, 0);
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
pub(super) fn blocks_halving(plan: &Plan, rank: u32, out: &mut RankSends) {
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
pub(super) fn butterfly(plan: &Plan, are_blocks_even: bool, rank: u32, out: &mut RankSends) {
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
    // With a power of two of ranks, even blocks are sorted beforehand so that each result is where it belongs.
    if are_blocks_even && fold.extra == 0 {
        return;
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
pub(super) fn blocks_doubling(plan: &Plan, rank: u32, out: &mut RankSends) {
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
