//! A message scattered in equal parts by distance from the root, and gathered by all.

use super::plan::{Plan, RankSends};
use super::tree::{self, Shape};

/// A message in parts, one for each rank; the last ones may be shorter or empty.
pub(super) struct Parts {
    elements: u64,
    part: u64,
}

impl Parts {
    /// Of the message of a call, rounded up to whole elements.
    pub(super) fn of(plan: &Plan) -> Self {
        let elements = plan.elements();
        Self { elements, part: elements.div_ceil(u64::from(plan.n)) }
    }

    /// Elements of the parts of some distances.
    fn sum(&self, first: u32, count: u32) -> u64 {
        let left = self.elements.saturating_sub(u64::from(first) * self.part);
        left.min(u64::from(count) * self.part)
    }

    /// Down a binomial tree: each child gets the parts of its subtree, if there is anything in them.
    pub(super) fn scatter(&self, plan: &Plan, rank: u32, out: &mut RankSends) {
        for child in Shape::BinomialInOrder.children(plan.distance(rank), plan.n) {
            let elements = self.sum(child, tree::in_order_subtree(child, plan.n));
            if elements > 0 {
                out.send(plan.at(child), plan.bytes(elements));
            }
        }
    }

    /// Each rank passes every part on to its right neighbour, but the neighbour's own.
    pub(super) fn gather_ring(&self, plan: &Plan, rank: u32, out: &mut RankSends) {
        let next = plan.next(rank);
        let elements = self.elements - self.sum(plan.distance(next), 1);
        out.send_many(next, plan.bytes(elements), plan.n - 1);
    }

    /// Twice around: while reducing, each rank sends every part but its own; while gathering, every part but its right
    /// neighbour's.
    pub(super) fn reduce_ring(&self, plan: &Plan, rank: u32, out: &mut RankSends) {
        let own = self.sum(plan.distance(rank), 1);
        out.send_many(plan.next(rank), plan.bytes(self.elements - own), plan.n - 1);
        self.gather_ring(plan, rank, out);
    }

    /// By doubling; where there is no partner beyond a power of two, what it would have is handed on by those that have
    /// partners.
    pub(super) fn gather_doubling(&self, plan: &Plan, rank: u32, out: &mut RankSends) {
        let (n, distance) = (plan.n, plan.distance(rank));
        doubling(n, distance, |peer, first, size| {
            out.send(plan.at(peer), plan.bytes(self.sum(first, size.min(n - first))));
        });
    }
}

/// What a distance sends in an allgather by doubling over any number of ranks: peer, first part and number of parts (which
/// may reach beyond the last).
pub(super) fn doubling(n: u32, distance: u32, mut send: impl FnMut(u32, u32, u32)) {
    let mut mask = 1;
    while mask < n {
        let own = distance & !(mask - 1);
        let theirs = own ^ mask;
        let partner = distance ^ mask;
        if partner < n {
            send(partner, own, mask);
        }
        for peer in handed_on(n, distance, mask) {
            send(peer, theirs, mask);
        }
        mask <<= 1;
    }
}

/// Whom a distance hands on what it received at step `mask` of a doubling: those of its group whose partner isn't there.
pub(super) fn handed_on(n: u32, distance: u32, mask: u32) -> Vec<u32> {
    let own = distance & !(mask - 1);
    let theirs = own ^ mask;
    // Only in a complete group whose partners' group is incomplete and not empty.
    if theirs + mask <= n || theirs >= n || theirs < own {
        return Vec::new();
    }
    let complete = n - own - mask;
    let mut peers = Vec::new();
    let mut half = mask >> 1;
    while half > 0 {
        let first = distance & !((half << 1) - 1);
        let peer = distance ^ half;
        if peer > distance && distance < first + complete && peer >= first + complete {
            peers.push(peer);
        }
        half >>= 1;
    }
    peers
}
