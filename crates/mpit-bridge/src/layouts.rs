//! What one member of a group sends in a collective: by the shape of the algorithm that is known, or that the library takes
//! by its own decision, where it has a model; else to each member that the data is meant for. Pure; remembers what it laid out last.

use crate::operations::operation_name;
use crate::traffic_frame::Root;
use std::collections::HashMap;
use std::sync::Arc;
use throughline_shares::collective::{
    Call, IntercommCall, Library, Operation, PeerTraffic, RootBetween, assumed, assumed_nonblocking, sends,
    sends_between,
};

/// Sends in memory, of all that were laid out; 24 bytes each. Beyond them all are laid out anew.
const CACHED_SENDS_MAX: usize = 1 << 20;

/// What a member sends in one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sends {
    /// Whether by the algorithm's shape.
    pub is_modelled: bool,
    /// To members of the group.
    pub sends: Box<[PeerTraffic]>,
    /// In an intercommunicator, to members of the own group.
    pub within: Box<[PeerTraffic]>,
}

/// One call, as one of its members sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OneCall {
    /// The operation, by the name of the blocking one.
    pub operation: &'static str,
    /// Whether it was the nonblocking or a persistent one.
    pub goes_on: bool,
    /// Empty where it is not known.
    pub algorithm: Arc<str>,
    /// Whose names of algorithms they are, and whose decision is assumed where none is known; `None`: nobody's is.
    pub library: Option<Library>,
    /// Members; of an intercommunicator those of the remote group.
    pub size: u32,
    /// The member's own number; `None` in an intercommunicator.
    pub rank: Option<u32>,
    /// In an intercommunicator: members of the own group, and the member's own number there, where they are known.
    pub own: Option<(u32, u32)>,
    pub root: Root,
    /// Bytes of its block.
    pub block: u64,
}

/// What was laid out.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    known: HashMap<OneCall, Arc<Sends>>,
    count: usize,
}

impl Layouts {
    /// Lays out a call.
    pub fn of(&mut self, call: &OneCall) -> Arc<Sends> {
        if let Some(known) = self.known.get(call) {
            return known.clone();
        }
        let modelled = modelled(call);
        let is_modelled = modelled.is_some();
        let (sends, within) = modelled.unwrap_or_else(|| (logical(call), Vec::new()));
        let count = sends.len() + within.len() + 8;
        self.count += count;
        if self.count > CACHED_SENDS_MAX {
            self.known.clear();
            self.count = count;
        }
        let sends = Arc::new(Sends { is_modelled, sends: sends.into(), within: within.into() });
        self.known.insert(call.clone(), sends.clone());
        sends
    }
}

/// The blocking operation of a nonblocking or persistent one.
pub(crate) fn blocking(operation: &'static str) -> &'static str {
    let name = operation.strip_suffix("_init").unwrap_or(operation);
    match name.strip_prefix('i') {
        Some(rest) if is_collective(rest) => rest,
        _ => name,
    }
}

/// Collectives that go from member to member: reported by peer only where their groups have no more space.
pub(crate) fn names_no_receiver(operation: u16) -> bool {
    let direct = ["alltoallv", "gatherv", "scatterv"];
    operation_name(operation).is_some_and(|name| {
        let name = blocking(name);
        !direct.contains(&name) && name.parse::<Operation>().is_ok()
    })
}

fn is_collective(operation: &str) -> bool {
    operation.parse::<Operation>().is_ok()
}

/// By the shape of the algorithm: to members of the group, and of the own one in an intercommunicator. `None` where it has
/// none.
fn modelled(call: &OneCall) -> Option<(Vec<PeerTraffic>, Vec<PeerTraffic>)> {
    let operation = call.operation.parse().ok()?;
    match call.rank {
        Some(rank) => Some((within(operation, call, rank)?, Vec::new())),
        None if is_direct(operation, call) => Some((logical(call), Vec::new())),
        None => between(operation, call),
    }
}

/// Between two groups, through one member of each. What the other group's blocks are only its members know: as large as those
/// of this one.
fn between(operation: Operation, call: &OneCall) -> Option<(Vec<PeerTraffic>, Vec<PeerTraffic>)> {
    let (library, (here, rank)) = (call.library?, call.own?);
    let is_rooted =
        matches!(operation, Operation::Bcast | Operation::Gather | Operation::Reduce | Operation::Scatter);
    if library == Library::OpenMpi && call.goes_on {
        return None; // schedules of libnbc without a model
    }
    let root = match call.root {
        Root::Own => RootBetween::Here(rank),
        Root::Member(root) => RootBetween::There(root),
        Root::None if is_rooted => return Some((Vec::new(), Vec::new())), // another one of the root's group
        Root::None => RootBetween::None,
    };
    let (block_here, block_there) = (call.block, call.block);
    let one = IntercommCall { here, there: call.size, root, block_here, block_there, element: 1 };
    let observed = library.algorithm(&call.algorithm);
    let algorithm = Some(observed.as_str()).filter(|_| !call.algorithm.is_empty());
    let sent = sends_between(library, operation, algorithm, &one, rank).ok()?;
    Some((sent.there, sent.here))
}

/// Within one group.
fn within(operation: Operation, call: &OneCall, rank: u32) -> Option<Vec<PeerTraffic>> {
    let root = match call.root {
        Root::Member(root) => root,
        _ => 0,
    };
    let one = Call::even(call.size, root, call.block);
    match (call.algorithm.as_ref(), call.library) {
        ("", None) => None,
        ("", Some(library)) => {
            let own = if call.goes_on { assumed_nonblocking } else { assumed };
            sends(operation, own(library, operation, &one)?, &one, rank).ok()
        }
        (algorithm, None) => sends(operation, algorithm, &one, rank).ok(),
        (algorithm, Some(library)) => sends(operation, &library.algorithm(algorithm), &one, rank).ok(),
    }
}

/// Whether an operation between two groups sends each block straight to whom it is meant for.
fn is_direct(operation: Operation, call: &OneCall) -> bool {
    match (operation, call.library) {
        (Operation::Alltoall, Some(_)) => true,
        // Schedules of libnbc are linear between groups.
        (
            Operation::Allgather
            | Operation::Allgatherv
            | Operation::Bcast
            | Operation::Gather
            | Operation::Reduce
            | Operation::Scatter,
            Some(Library::OpenMpi),
        ) => call.goes_on,
        _ => false,
    }
}

/// To each member that the block is meant for, as the logical matrix has it (`protocol/README.md`).
fn logical(call: &OneCall) -> Vec<PeerTraffic> {
    let one = |member| PeerTraffic { peer: member, bytes: call.block, messages: 1 };
    let is_root = match call.root {
        Root::Own => true,
        Root::Member(root) => Some(root) == call.rank,
        Root::None => false,
    };
    match call.operation {
        "bcast" | "scatter" if is_root => others(call.size, call.rank, call.block),
        "bcast" | "scatter" => Vec::new(),
        "reduce" | "gather" => match call.root {
            Root::Member(root) if !is_root && root < call.size => vec![one(root)],
            _ => Vec::new(),
        },
        "scan" | "exscan" => (call.rank.map_or(0, |rank| rank + 1)..call.size).map(one).collect(),
        _ => others(call.size, call.rank, call.block),
    }
}

/// A block to each other member.
fn others(size: u32, own: Option<u32>, block: u64) -> Vec<PeerTraffic> {
    let others = (0..size).filter(|member| Some(*member) != own);
    others.map(|member| PeerTraffic { peer: member, bytes: block, messages: 1 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: &'static str, algorithm: &str, rank: u32, root: Root) -> OneCall {
        OneCall {
            operation,
            goes_on: false,
            algorithm: algorithm.into(),
            library: None,
            size: 4,
            rank: Some(rank),
            own: None,
            root,
            block: 100,
        }
    }

    fn of(call: &OneCall) -> (bool, Vec<(u32, u64, u64)>) {
        let sends = Layouts::default().of(call);
        let list = sends.sends.iter().map(|send| (send.peer, send.bytes, send.messages));
        (sends.is_modelled, list.collect())
    }

    #[test]
    fn a_ring_sends_to_the_next_member_only() {
        // Twice three steps of a quarter each.
        assert_eq!(of(&call("allreduce", "ring", 3, Root::None)), (true, vec![(0, 150, 6)]));
    }

    #[test]
    fn a_tree_begins_at_its_root() {
        let root = Root::Member(2);
        let (is_modelled, from_root) = of(&call("bcast", "binomial", 2, root));
        assert!(is_modelled && from_root.iter().all(|(member, bytes, _)| *member != 2 && *bytes == 100));
        assert_eq!(from_root.len(), 2);
        let all = (0..4).map(|rank| of(&call("bcast", "binomial", rank, root)).1.len());
        assert_eq!(all.sum::<usize>(), 3);
    }

    #[test]
    fn without_an_algorithm_it_is_logical() {
        let others = vec![(0, 100, 1), (2, 100, 1), (3, 100, 1)];
        for (operation, root, expected) in [
            ("allreduce", Root::None, others.clone()),
            ("bcast", Root::Member(1), others.clone()),
            ("bcast", Root::Member(0), vec![]),
            ("gather", Root::Member(3), vec![(3, 100, 1)]),
            ("reduce", Root::Member(1), vec![]),
            ("scan", Root::None, vec![(2, 100, 1), (3, 100, 1)]),
            ("barrier", Root::None, others.clone()),
        ] {
            assert_eq!(of(&call(operation, "", 1, root)), (false, expected), "{operation}");
        }
        assert_eq!(of(&call("allreduce", "of a newer library", 1, Root::None)), (false, others));
        let mpich = OneCall { library: Some(Library::Mpich), ..call("bcast", "", 1, Root::Member(1)) };
        assert_eq!(of(&mpich), (true, vec![(2, 100, 1), (3, 100, 1)]), "a binomial tree is assumed");
    }

    #[test]
    fn operations_that_go_on_have_schedules_of_their_own() {
        let open_mpi = |operation, rank, root| OneCall {
            library: Some(Library::OpenMpi),
            goes_on: true,
            ..call(operation, "", rank, root)
        };
        // Linear up to four ranks; the tuned component has another tree.
        assert_eq!(
            of(&open_mpi("bcast", 1, Root::Member(1))),
            (true, vec![(0, 100, 1), (2, 100, 1), (3, 100, 1)])
        );
        assert_eq!(of(&open_mpi("allreduce", 3, Root::None)), (true, vec![(2, 100, 1)]));
        let eight = OneCall { size: 8, ..open_mpi("bcast", 0, Root::Member(5)) };
        // The root and rank 0 change places: rank 0 stands where 5 would.
        assert_eq!(of(&eight), (true, vec![]));
        let root = OneCall { rank: Some(5), ..eight };
        let peers: Vec<u32> = of(&root).1.into_iter().map(|(peer, ..)| peer).collect();
        assert_eq!(peers, [1, 2, 4]);
    }

    #[test]
    fn without_the_own_group_only_what_goes_straight_is_modelled() {
        let between = |operation, library, goes_on| OneCall {
            rank: None,
            library,
            goes_on,
            ..call(operation, "", 0, Root::Own)
        };
        let all: Vec<(u32, u64, u64)> = (0..4).map(|peer| (peer, 100, 1)).collect();
        for library in [Library::OpenMpi, Library::Mpich] {
            assert_eq!(of(&between("alltoall", Some(library), false)), (true, all.clone()));
            assert_eq!(of(&between("bcast", Some(library), false)), (false, all.clone()));
        }
        assert_eq!(of(&between("bcast", Some(Library::OpenMpi), true)), (true, all.clone()));
        assert!(!of(&between("allreduce", Some(Library::OpenMpi), true)).0);
        assert!(!of(&between("bcast", Some(Library::Mpich), true)).0);
        assert!(!of(&between("alltoall", None, false)).0);
    }

    /// Three ranks here, this one among them; four there.
    #[test]
    fn between_groups_one_member_passes_on_what_the_others_give() {
        let between = |operation, rank, root, algorithm| OneCall {
            rank: None,
            library: Some(Library::OpenMpi),
            own: Some((3, rank)),
            ..call(operation, algorithm, 0, root)
        };
        let sent = |call: &OneCall| {
            let laid_out = Layouts::default().of(call);
            let list =
                |sends: &[PeerTraffic]| sends.iter().map(|one| (one.peer, one.bytes)).collect::<Vec<_>>();
            assert!(laid_out.is_modelled, "{call:?}");
            (list(&laid_out.within), list(&laid_out.sends))
        };
        assert_eq!(sent(&between("allreduce", 1, Root::None, "")), (vec![(0, 100)], vec![]));
        assert_eq!(sent(&between("allreduce", 0, Root::None, "")).1, [(0, 100)]);
        assert_eq!(sent(&between("gather", 2, Root::Member(3), "")), (vec![(0, 100)], vec![]));
        assert_eq!(sent(&between("gather", 0, Root::Member(3), "")), (vec![], vec![(3, 300)]));
        assert_eq!(sent(&between("bcast", 2, Root::Own, "")), (vec![], vec![(0, 100)]));
        assert_eq!(sent(&between("bcast", 1, Root::None, "")), (vec![], vec![]), "another one is the root");
        assert_eq!(sent(&between("bcast", 1, Root::Member(0), "pipeline")), (vec![(2, 100)], vec![]));
        let other = |change: &dyn Fn(&mut OneCall)| {
            let mut call = between("allreduce", 0, Root::None, "");
            change(&mut call);
            of(&call).0
        };
        assert!(other(&|call| (call.library, call.goes_on) = (Some(Library::Mpich), true)));
        assert!(!other(&|call| call.goes_on = true), "a schedule of libnbc");
        assert!(!other(&|call| call.operation = "scan"));
        assert!(!other(&|call| call.operation = "barrier"));
        assert!(!other(&|call| call.library = None));
    }

    #[test]
    fn operations_that_go_on_are_known_by_their_blocking_form() {
        for (name, expected) in [
            ("iallreduce", "allreduce"),
            ("allreduce_init", "allreduce"),
            ("ibarrier", "barrier"),
            ("isend", "isend"),
            ("reduce_scatter_block_init", "reduce_scatter_block"),
        ] {
            assert_eq!(blocking(name), expected);
        }
    }
}
