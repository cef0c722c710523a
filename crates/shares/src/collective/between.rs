//! Collectives between the two groups of an intercommunicator, as one of their ranks sends.
//!
//! Both libraries work within each group first and let its rank 0 exchange the result with the other group's (Open MPI's
//! component inter; MPICH's algorithms `*_inter_*` of src/mpi/coll/, its nonblocking schedules likewise). Within a group they
//! take the algorithm of their own decision. Long gathers and scatters of MPICH go straight between the root and each rank.

use super::assumed::by_plan;
use super::plan::{Plan, RankSends};
use super::{Call, LayoutError, Library, Operation, PeerTraffic, dispatch};

/// Blocks of MPICH's gather and scatter are long from this many bytes of all of them on
/// (MPIR_CVAR_GATHER_INTER_SHORT_MSG_SIZE, MPIR_CVAR_SCATTER_INTER_SHORT_MSG_SIZE).
const MPICH_LONG_BYTES: u64 = 2048;

/// The root of an operation between two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootBetween {
    /// The operation has none.
    None,
    /// A rank of this group.
    Here(u32),
    /// A rank of the other group.
    There(u32),
}

/// One call of a collective by both groups of an intercommunicator, as a rank of one of them makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntercommCall {
    /// Ranks of this group.
    pub here: u32,
    /// Ranks of the other group.
    pub there: u32,
    /// The root.
    pub root: RootBetween,
    /// Bytes of the block of each rank here, with the meaning of [`Call::blocks`].
    pub block_here: u64,
    /// Bytes of the block of each rank there.
    pub block_there: u64,
    /// Bytes of an element of the datatype.
    pub element: u64,
}

/// What one rank sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentBetween {
    /// To ranks of its own group.
    pub here: Vec<PeerTraffic>,
    /// To ranks of the other group.
    pub there: Vec<PeerTraffic>,
}

/// What a rank of this group sends. `algorithm` is the operation's within a group, where it is observed (a name as
/// [`super::layout`] has it); else the library's own decision is assumed, as for the other operations that this one is made of.
///
/// # Errors
/// [`LayoutError`]: the operation has no model between groups, or the rank or the root is none of its group.
pub fn sends_between(
    library: Library,
    operation: Operation,
    algorithm: Option<&str>,
    call: &IntercommCall,
    rank: u32,
) -> Result<SentBetween, LayoutError> {
    if rank >= call.here {
        return Err(LayoutError::Rank { rank, ranks: call.here });
    }
    match call.root {
        RootBetween::Here(root) if root >= call.here => {
            return Err(LayoutError::Root { root, ranks: call.here });
        }
        RootBetween::There(root) if root >= call.there => {
            return Err(LayoutError::Root { root, ranks: call.there });
        }
        _ => {}
    }
    let observed = algorithm.map(|name| (operation, name));
    let mut side = Side { library, observed, call, rank, within: Vec::new(), between: Vec::new() };
    side.lay_out(operation)?;
    Ok(SentBetween { here: joined(side.within), there: side.between })
}

/// One entry for each peer, in their order.
fn joined(mut sends: Vec<PeerTraffic>) -> Vec<PeerTraffic> {
    sends.sort_by_key(|sent| sent.peer);
    sends.dedup_by(|later, first| {
        let is_same = later.peer == first.peer;
        if is_same {
            first.bytes += later.bytes;
            first.messages += later.messages;
        }
        is_same
    });
    sends
}

struct Side<'a> {
    library: Library,
    observed: Option<(Operation, &'a str)>,
    call: &'a IntercommCall,
    rank: u32,
    within: Vec<PeerTraffic>,
    between: Vec<PeerTraffic>,
}

impl Side<'_> {
    fn lay_out(&mut self, operation: Operation) -> Result<(), LayoutError> {
        let IntercommCall { here, there, block_here, block_there, .. } = *self.call;
        let (all_here, all_there) = (block_here * u64::from(here), block_there * u64::from(there));
        let is_long = |bytes: u64| self.library == Library::Mpich && bytes >= MPICH_LONG_BYTES;
        match (operation, self.call.root) {
            (Operation::Bcast, RootBetween::Here(root)) => self.cross(root, 0, block_here),
            (Operation::Bcast, RootBetween::There(_)) => self.inside(Operation::Bcast, block_there)?,
            (Operation::Reduce, RootBetween::There(root)) => {
                self.inside(Operation::Reduce, block_here)?;
                self.cross(0, root, block_here);
            }
            (Operation::Gather, RootBetween::There(root)) if is_long(all_here) => {
                self.cross(self.rank, root, block_here);
            }
            (Operation::Gather, RootBetween::There(root)) => {
                self.inside(Operation::Gather, block_here)?;
                self.cross(0, root, all_here);
            }
            (Operation::Scatter, RootBetween::Here(root)) if is_long(block_here * u64::from(there)) => {
                (0..there).for_each(|peer| self.cross(root, peer, block_here));
            }
            (Operation::Scatter, RootBetween::Here(root)) => {
                self.cross(root, 0, block_here * u64::from(there))
            }
            (Operation::Scatter, RootBetween::There(_)) if is_long(block_there * u64::from(here)) => {}
            (Operation::Scatter, RootBetween::There(_)) => self.inside(Operation::Scatter, block_there)?,
            (Operation::Reduce | Operation::Gather, RootBetween::Here(_)) => {}
            (Operation::Allreduce, _) => {
                self.inside(Operation::Reduce, block_here)?;
                self.cross(0, 0, block_here);
                self.inside(Operation::Bcast, block_there)?;
            }
            (Operation::Allgather, _) => {
                self.inside(Operation::Gather, block_here)?;
                self.cross(0, 0, all_here);
                self.inside(Operation::Bcast, all_there)?;
            }
            (Operation::Alltoall | Operation::Alltoallv, _) => {
                (0..there).for_each(|peer| self.cross(self.rank, peer, block_here));
            }
            _ => return Err(LayoutError::Algorithm { operation, algorithm: "between groups".to_owned() }),
        }
        Ok(())
    }

    /// A rank of this group sends to one of the other.
    fn cross(&mut self, from: u32, to: u32, bytes: u64) {
        if from == self.rank {
            self.between.push(PeerTraffic { peer: to, bytes, messages: 1 });
        }
    }

    /// An operation within the group with root 0: by the algorithm that is known, else by the library's own choice.
    fn inside(&mut self, operation: Operation, block: u64) -> Result<(), LayoutError> {
        let IntercommCall { here, element, .. } = *self.call;
        if here > 1 {
            let plan = Plan::new(&Call { ranks: here, root: 0, blocks: vec![block], element });
            let mut out = RankSends::of(self.rank);
            let algorithm = match self.observed {
                Some((of, name)) if of == operation => name,
                _ => by_plan(self.library, operation, &plan),
            };
            dispatch(operation, algorithm, &plan, self.rank, &mut out)?;
            self.within.extend(out.by_peer());
        }
        Ok(())
    }
}
