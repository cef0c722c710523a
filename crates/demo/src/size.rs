//! How large a fat-tree the demo makes, and on which of its hosts the ranks run.

use super::mpi::RANKS;
use throughline_daemon::Failure;
use throughline_infiniband::topology::FatTree;

/// Fewest hosts: one for each rank, two on each of two leaf switches.
const HOSTS_MIN: usize = RANKS;

/// Named sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Size {
    /// 146 hosts, 20 switches
    Small,
    /// 1,428 hosts, 114 switches: the net of the PEARC paper on OSU INAM
    Pearc,
    /// 8,008 hosts, 542 switches
    Large,
}

impl Size {
    /// The tree of this size.
    pub const fn tree(self) -> FatTree {
        match self {
            Size::Small => FatTree::HOSTS_146,
            Size::Pearc => FatTree::HOSTS_1428,
            Size::Large => FatTree::HOSTS_8008,
        }
    }
}

/// A tree of so many hosts, with the proportions of the smallest named size that holds them.
///
/// # Errors
/// Fewer hosts than ranks, or more than the largest size (64).
pub fn tree_of(hosts: usize) -> Result<FatTree, Failure> {
    let sizes = [Size::Small, Size::Pearc, Size::Large].map(Size::tree);
    let largest = sizes[sizes.len() - 1].hosts;
    let like = sizes.into_iter().find(|tree| hosts <= tree.hosts);
    let Some(like) = like.filter(|_| hosts >= HOSTS_MIN) else {
        return Err(Failure::usage(format!("--hosts {hosts}: the demo takes {HOSTS_MIN} to {largest}")));
    };
    let leafs = (hosts * like.leafs).div_ceil(like.hosts).max(2);
    Ok(FatTree { hosts, leafs, ..like })
}

/// The hosts of the ranks: even ranks on the first leaf switch, odd ones on one half-way round, so that the
/// heavy pairs (0, 1) and (2, 3) cross the spine.
pub fn hosts_of_ranks(tree: &FatTree) -> [usize; RANKS] {
    let first_of = |leaf: usize| (0..tree.hosts).find(|host| tree.host_at(*host).0 == leaf).unwrap_or(0);
    let (near, far) = (first_of(0), first_of(tree.leafs / 2));
    [near, far, near + 1, far + 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_size_can_be_built_with_ranks_on_two_leaves() {
        for hosts in [4, 5, 16, 60, 146, 147, 700, 1428, 1429, 8008] {
            let tree = tree_of(hosts).unwrap();
            tree.to_net().unwrap_or_else(|error| panic!("{hosts} hosts: {error}"));
            let ranks = hosts_of_ranks(&tree);
            let leaf = ranks.map(|host| tree.host_at(host).0);
            assert!(leaf[0] == leaf[2] && leaf[1] == leaf[3] && leaf[0] != leaf[1], "{hosts}: {leaf:?}");
            let mut different = ranks.to_vec();
            different.dedup();
            assert_eq!(different.len(), RANKS);
        }
    }

    #[test]
    fn sizes_that_can_not_be_are_refused() {
        assert_eq!(tree_of(3).unwrap_err().status as u8, 64);
        assert!(tree_of(8009).unwrap_err().to_string().contains("4 to 8008"));
    }
}
