//! Where a walk may go on, and which way comes next: each branch of the fabric gets its share.
//!
//! A walk that ends at a bound must have found what is real. So the next place is looked for from the local node on, at
//! each node in the branch that has taken least so far, counted in ports. Behind a node that makes up endless switches
//! there can then be no more than in each of the other branches, until those are exhausted: bounds of twice the real
//! fabric are enough to find all of it, wherever the liar is. In a fabric within the bounds the order makes no
//! difference. Nothing here sends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use throughline_infiniband::topology::{NodeIndex, PortEnd};

/// One node of the tree in which the walk found them.
#[derive(Default)]
struct Branch {
    /// The node behind which it was found; none of the local one.
    parent: Option<NodeIndex>,
    /// Ports of it and of all behind it, and requests who is there.
    taken: u64,
    /// Places in it and behind it that are still to be looked at.
    open: u64,
    /// Own ports of such.
    ports: VecDeque<u8>,
    /// Nodes behind it with open places, least taken first; what was taken may have grown since.
    children: BinaryHeap<Reverse<(u64, NodeIndex)>>,
    /// Whether it is among its parent's children.
    is_listed: bool,
}

/// The tree.
#[derive(Default)]
pub(super) struct Frontier {
    branches: Vec<Branch>,
}

impl Frontier {
    /// The next node in the order of the walk, found behind `parent`, of so many ports.
    pub fn add(&mut self, parent: Option<NodeIndex>, ports: usize) {
        let index = self.branches.len();
        self.branches.push(Branch { parent, ..Branch::default() });
        self.take(index, ports as u64 + 1);
    }

    /// Adds to what a branch and all around it have taken.
    fn take(&mut self, index: NodeIndex, cost: u64) {
        let mut at = Some(index);
        while let Some(branch) = at.and_then(|index| self.branches.get_mut(index)) {
            branch.taken += cost;
            at = branch.parent;
        }
    }

    /// A place to be looked at.
    pub fn push(&mut self, end: PortEnd) {
        let Some(branch) = self.branches.get_mut(end.node) else { return };
        branch.ports.push_back(end.port);
        let mut at = end.node;
        loop {
            let branch = &mut self.branches[at];
            branch.open += 1;
            let (parent, taken) = (branch.parent, branch.taken);
            let Some(parent) = parent else { return };
            if !std::mem::replace(&mut self.branches[at].is_listed, true) {
                self.branches[parent].children.push(Reverse((taken, at)));
            }
            at = parent;
        }
    }

    /// The place that comes next.
    pub fn pop(&mut self) -> Option<PortEnd> {
        let mut at = 0;
        loop {
            let branch = self.branches.get_mut(at)?;
            if let Some(port) = branch.ports.pop_front() {
                self.close(at);
                return Some(PortEnd { node: at, port });
            }
            at = self.least(at)?;
        }
    }

    /// The branch of a node that has taken least and is open.
    fn least(&mut self, index: NodeIndex) -> Option<NodeIndex> {
        loop {
            let Reverse((taken, child)) = *self.branches[index].children.peek()?;
            let (now, is_open) = (self.branches[child].taken, self.branches[child].open > 0);
            if is_open && taken == now {
                return Some(child);
            }
            self.branches[index].children.pop();
            if is_open {
                self.branches[index].children.push(Reverse((now, child)));
            } else {
                self.branches[child].is_listed = false;
            }
        }
    }

    fn close(&mut self, index: NodeIndex) {
        let mut at = Some(index);
        while let Some(branch) = at.and_then(|index| self.branches.get_mut(index)) {
            branch.open -= 1;
            branch.taken += 1;
            at = branch.parent;
        }
    }

    /// Whether nothing is open.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.branches.first().is_none_or(|root| root.open == 0)
    }

    /// Gives all places up.
    pub fn clear(&mut self) {
        for branch in &mut self.branches {
            (branch.open, branch.is_listed) = (0, false);
            branch.ports = VecDeque::new();
            branch.children = BinaryHeap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of real switches, one port open at each, beside a liar behind whose ports is one more of 254 ports.
    #[test]
    fn a_liar_gets_no_more_than_what_is_real() {
        const REAL: usize = 300;
        const PORTS: usize = 40;
        let mut frontier = Frontier::default();
        frontier.add(None, PORTS);
        frontier.push(PortEnd { node: 0, port: 1 });
        frontier.push(PortEnd { node: 0, port: 2 });
        let (mut real, mut made_up) = (vec![0], vec![]);
        let mut nodes = 1;
        while real.len() < REAL {
            let end = frontier.pop().unwrap();
            let is_real = real.contains(&end.node) && (end.node != 0 || end.port == 1);
            frontier.add(Some(end.node), if is_real { PORTS } else { 254 });
            if is_real {
                real.push(nodes);
                frontier.push(PortEnd { node: nodes, port: 1 });
            } else {
                made_up.push(nodes);
                (2..=254).for_each(|port| frontier.push(PortEnd { node: nodes, port }));
            }
            nodes += 1;
        }
        assert!(made_up.len() * 254 <= (REAL + 10) * (PORTS + 3), "{} made up", made_up.len());
        assert!(!frontier.is_empty());
        frontier.clear();
        assert!(frontier.is_empty() && frontier.pop().is_none());
    }

    #[test]
    fn each_place_comes_once() {
        let mut frontier = Frontier::default();
        frontier.add(None, 3);
        frontier.add(Some(0), 3);
        frontier.add(Some(1), 3);
        let all = [(0, 1), (1, 1), (1, 2), (2, 3)].map(|(node, port)| PortEnd { node, port });
        all.iter().rev().for_each(|end| frontier.push(*end));
        let mut popped: Vec<PortEnd> = std::iter::from_fn(|| frontier.pop()).collect();
        assert_eq!(popped[0], all[0], "near ones first");
        popped.sort_unstable();
        assert_eq!(popped, all);
        assert!(frontier.is_empty());
        frontier.push(all[3]);
        assert_eq!(frontier.pop(), Some(all[3]));
    }
}
