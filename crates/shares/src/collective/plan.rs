//! A call prepared for laying out, and what collects the sends of one rank.

use super::{Call, PeerTraffic};

/// A call with running sums of its blocks, so that any range of blocks costs one subtraction.
pub(super) struct Plan {
    /// Ranks of the communicator.
    pub n: u32,
    pub root: u32,
    element: u64,
    blocks: Blocks,
}

enum Blocks {
    Even(u64),
    /// Bytes of the blocks below each rank; one more than there are ranks.
    Each(Vec<u64>),
}

impl Plan {
    pub(super) fn new(call: &Call) -> Self {
        let blocks = match call.blocks.as_slice() {
            [] => Blocks::Even(0),
            [all] => Blocks::Even(*all),
            each => {
                let mut below = Vec::with_capacity(call.ranks as usize + 1);
                let mut sum = 0_u64;
                below.push(0);
                for rank in 0..call.ranks as usize {
                    sum = sum.saturating_add(each.get(rank).copied().unwrap_or(0));
                    below.push(sum);
                }
                Blocks::Each(below)
            }
        };
        Self { n: call.ranks, root: call.root, element: call.element.max(1), blocks }
    }

    /// The same ranks with one message of a single element of `bytes` at `root`.
    pub(super) fn one_element(&self, root: u32, bytes: u64) -> Self {
        Self { element: bytes.max(1), ..self.message(root, bytes) }
    }

    /// The same ranks with one message of `bytes` at `root`.
    pub(super) fn message(&self, root: u32, bytes: u64) -> Self {
        Self { n: self.n, root, element: self.element, blocks: Blocks::Even(bytes) }
    }

    /// The same blocks with another root.
    pub(super) fn rooted(&self, root: u32) -> Self {
        let blocks = match &self.blocks {
            Blocks::Even(bytes) => Blocks::Even(*bytes),
            Blocks::Each(below) => Blocks::Each(below.clone()),
        };
        Self { n: self.n, root, element: self.element, blocks }
    }

    /// The same message, of elements of one byte.
    pub(super) fn in_bytes(&self) -> Self {
        Self { element: 1, ..self.message(self.root, self.whole()) }
    }

    pub(super) fn block(&self, rank: u32) -> u64 {
        match &self.blocks {
            Blocks::Even(bytes) => *bytes,
            Blocks::Each(below) => below[rank as usize + 1] - below[rank as usize],
        }
    }

    /// The block size of all ranks, where they have the same.
    pub(super) fn even(&self) -> Option<u64> {
        match &self.blocks {
            Blocks::Even(bytes) => Some(*bytes),
            Blocks::Each(_) => None,
        }
    }

    /// Bytes of `count` blocks (at most all) from that of `first` on, going around after the last rank.
    pub(super) fn sum(&self, first: u32, count: u32) -> u64 {
        match &self.blocks {
            Blocks::Even(bytes) => bytes.saturating_mul(u64::from(count)),
            Blocks::Each(below) => {
                let (first, end, n) = (first as usize, (first + count) as usize, self.n as usize);
                if end <= n { below[end] - below[first] } else { below[n] - below[first] + below[end - n] }
            }
        }
    }

    /// Bytes of the blocks of all ranks.
    pub(super) fn total(&self) -> u64 {
        self.sum(0, self.n)
    }

    /// Bytes of the message, for operations that have one.
    pub(super) fn whole(&self) -> u64 {
        self.block(self.root)
    }

    /// Elements of the message, for operations that have one.
    pub(super) fn elements(&self) -> u64 {
        self.whole() / self.element
    }

    pub(super) fn bytes(&self, elements: u64) -> u64 {
        elements * self.element
    }

    /// How far a rank is from the root.
    pub(super) fn distance(&self, rank: u32) -> u32 {
        (rank + self.n - self.root) % self.n
    }

    /// The rank at a distance from the root.
    pub(super) fn at(&self, distance: u32) -> u32 {
        (self.root + distance) % self.n
    }

    /// The rank that follows.
    pub(super) fn next(&self, rank: u32) -> u32 {
        (rank + 1) % self.n
    }

    /// All ranks but this one.
    pub(super) fn others(&self, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let n = self.n;
        (0..n).filter(move |other| *other != rank)
    }
}

/// Sends of one rank. Messages of a rank to itself are none.
pub(super) struct RankSends {
    rank: u32,
    sends: Vec<PeerTraffic>,
}

impl RankSends {
    pub(super) fn of(rank: u32) -> Self {
        Self { rank, sends: Vec::new() }
    }

    pub(super) fn send(&mut self, peer: u32, bytes: u64) {
        self.send_many(peer, bytes, 1);
    }

    /// `bytes` in `messages` messages.
    pub(super) fn send_many(&mut self, peer: u32, bytes: u64, messages: u32) {
        if peer == self.rank || messages == 0 {
            return;
        }
        match self.sends.last_mut() {
            Some(last) if last.peer == peer => {
                last.bytes += bytes;
                last.messages += u64::from(messages);
            }
            _ => self.sends.push(PeerTraffic { peer, bytes, messages: u64::from(messages) }),
        }
    }

    /// One entry for each peer, in their order.
    pub(super) fn by_peer(mut self) -> Vec<PeerTraffic> {
        self.sends.sort_by_key(|sent| sent.peer);
        self.sends.dedup_by(|later, first| {
            let is_same = later.peer == first.peer;
            if is_same {
                first.bytes += later.bytes;
                first.messages += later.messages;
            }
            is_same
        });
        self.sends
    }
}
