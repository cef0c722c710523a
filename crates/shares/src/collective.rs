//! Traffic of collective operations: which rank sends how many bytes to which, by the shape of the algorithm.
//!
//! Algorithms have the names of Open MPI's functions `ompi_coll_base_OPERATION_intra_NAME`, as the agent reports them, and
//! of its component `basic` (`log`, `lin`); shapes follow Open MPI 4.1 and 5.0. `chain/4` and `knomial/2` state a fan-out: a
//! chain has one unless a setting requests more, and the default of coll_tuned_OPERATION_algorithm_chain_fanout, which
//! applies where the algorithm is forced, is 4. MPICH's algorithms have its own names (those of
//! MPIR_CVAR_OPERATION_INTRA_ALGORITHM, 4.0 and later) after `mpich:`; [`Library::algorithm`] adds that. Those of Open MPI's
//! nonblocking collectives have names after `libnbc:`. Bytes are payload, without headers ([`crate::wire`] adds those).

mod allgather;
mod alltoall;
mod assumed;
mod bcast;
mod between;
mod gather;
mod halving;
mod libnbc;
mod mpich;
mod parts;
mod plan;
mod prefix;
mod reduce;
mod tree;

pub use assumed::{Library, assumed, assumed_nonblocking};
pub use between::{IntercommCall, RootBetween, SentBetween, sends_between};
use plan::{Plan, RankSends};
use std::str::FromStr;

/// Radix of `knomial` where no setting says otherwise (coll_tuned_bcast_algorithm_knomial_radix).
const KNOMIAL_RADIX: u32 = 4;

/// A collective operation whose traffic depends on its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "named as the functions of MPI")]
pub enum Operation {
    Allgather,
    Allgatherv,
    Allreduce,
    Alltoall,
    Alltoallv,
    Barrier,
    Bcast,
    Exscan,
    Gather,
    Gatherv,
    Reduce,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Scatter,
    Scatterv,
}

/// Operations by the names that the agent reports.
const NAMES: [(&str, Operation); 16] = [
    ("allgather", Operation::Allgather),
    ("allgatherv", Operation::Allgatherv),
    ("allreduce", Operation::Allreduce),
    ("alltoall", Operation::Alltoall),
    ("alltoallv", Operation::Alltoallv),
    ("barrier", Operation::Barrier),
    ("bcast", Operation::Bcast),
    ("exscan", Operation::Exscan),
    ("gather", Operation::Gather),
    ("gatherv", Operation::Gatherv),
    ("reduce", Operation::Reduce),
    ("reduce_scatter", Operation::ReduceScatter),
    ("reduce_scatter_block", Operation::ReduceScatterBlock),
    ("scan", Operation::Scan),
    ("scatter", Operation::Scatter),
    ("scatterv", Operation::Scatterv),
];

impl FromStr for Operation {
    type Err = LayoutError;

    fn from_str(name: &str) -> Result<Self, LayoutError> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, operation)| *operation).ok_or_else(|| LayoutError::Operation(name.to_owned()))
    }
}

/// One call of a collective by all ranks of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Rank of the root; 0 where the operation has none.
    pub root: u32,
    /// Bytes of each rank's block. One value for all, or one for each rank (the v-variants and reduce_scatter).
    ///
    /// A block is the whole message of bcast, reduce, allreduce, scan and exscan; what one rank contributes to allgather
    /// and gather; what one rank receives in scatter and reduce_scatter; what one rank sends to one other in alltoall.
    pub blocks: Vec<u64>,
    /// Bytes of an element of the datatype: parts of a message are whole elements.
    pub element: u64,
}

impl Call {
    /// The same block for each rank, of elements of one byte.
    #[must_use]
    pub fn even(ranks: u32, root: u32, block: u64) -> Self {
        Self { ranks, root, blocks: vec![block], element: 1 }
    }
}

/// Bytes from one rank to another, in a number of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The sending rank.
    pub source: u32,
    /// The receiving rank.
    pub destination: u32,
    /// Payload, bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// What one rank sends to one other in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerTraffic {
    /// The receiving rank.
    pub peer: u32,
    /// Payload, bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// Why there is no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Not a collective of [`Operation`].
    #[error("`{0}` is no collective operation whose traffic is modelled")]
    Operation(String),
    /// An algorithm without a model.
    #[error("no model of the algorithm `{algorithm}` of {operation:?}")]
    Algorithm {
        /// The operation.
        operation: Operation,
        /// Its name.
        algorithm: String,
    },
    /// The root is no rank of the communicator.
    #[error("the root {root} is not below the number of ranks, {ranks}")]
    Root {
        /// The root.
        root: u32,
        /// Ranks.
        ranks: u32,
    },
    /// The rank whose sends were requested is no rank of the communicator.
    #[error("the rank {rank} is not below the number of ranks, {ranks}")]
    Rank {
        /// The rank.
        rank: u32,
        /// Ranks.
        ranks: u32,
    },
}

/// What one rank of a call sends: one entry for each peer, in their order.
///
/// Takes time and memory by the number of its peers, or by the logarithm of the number of ranks where that is more. Calls
/// whose blocks differ (the v-variants) take time by the number of ranks.
///
/// # Errors
/// [`LayoutError`]: the algorithm has no model, or the rank or the root is none of the ranks.
pub fn sends(
    operation: Operation,
    algorithm: &str,
    call: &Call,
    rank: u32,
) -> Result<Vec<PeerTraffic>, LayoutError> {
    if rank >= call.ranks {
        return Err(LayoutError::Rank { rank, ranks: call.ranks });
    }
    check_root(call)?;
    of_rank(operation, algorithm, &Plan::new(call), rank)
}

/// Lays out one call: what each rank sends to each other, the edges of a rank one after the other.
///
/// Linear algorithms and alltoall have about ranks x (ranks - 1) edges: for many ranks, use [`sends`].
///
/// # Errors
/// [`LayoutError`]: the algorithm has no model, or the root is none of the ranks.
pub fn layout(operation: Operation, algorithm: &str, call: &Call) -> Result<Vec<Edge>, LayoutError> {
    check_root(call)?;
    let plan = Plan::new(call);
    let mut edges = Vec::new();
    for source in 0..call.ranks {
        let sends = of_rank(operation, algorithm, &plan, source)?;
        edges.extend(sends.into_iter().map(|PeerTraffic { peer, bytes, messages }| Edge {
            source,
            destination: peer,
            bytes,
            messages,
        }));
    }
    Ok(edges)
}

fn check_root(call: &Call) -> Result<(), LayoutError> {
    if call.ranks > 0 && call.root >= call.ranks {
        return Err(LayoutError::Root { root: call.root, ranks: call.ranks });
    }
    Ok(())
}

fn of_rank(
    operation: Operation,
    algorithm: &str,
    plan: &Plan,
    rank: u32,
) -> Result<Vec<PeerTraffic>, LayoutError> {
    if plan.n < 2 {
        return Ok(Vec::new());
    }
    let mut out = RankSends::of(rank);
    dispatch(operation, algorithm, plan, rank, &mut out)?;
    Ok(out.by_peer())
}

/// Adds what a rank of two or more sends.
fn dispatch(
    operation: Operation,
    algorithm: &str,
    plan: &Plan,
    rank: u32,
    out: &mut RankSends,
) -> Result<(), LayoutError> {
    let known = match operation {
        _ if let Some(name) = algorithm.strip_prefix(assumed::MPICH_PREFIX) => {
            mpich::of_rank(operation, name, plan, rank, out)
        }
        _ if let Some(name) = algorithm.strip_prefix(libnbc::PREFIX) => {
            libnbc::of_rank(operation, name, plan, rank, out)
        }
        Operation::Bcast => bcast::bcast(algorithm, plan, rank, out),
        Operation::Reduce => reduce::reduce(algorithm, plan, rank, out),
        Operation::Allreduce => reduce::allreduce(algorithm, plan, rank, out),
        Operation::ReduceScatter | Operation::ReduceScatterBlock => {
            let are_blocks_even = operation == Operation::ReduceScatterBlock;
            reduce::reduce_scatter(algorithm, are_blocks_even, plan, rank, out)
        }
        Operation::Allgather | Operation::Allgatherv => allgather::allgather(algorithm, plan, rank, out),
        Operation::Gather | Operation::Gatherv => gather::gather(algorithm, plan, rank, out),
        Operation::Scatter | Operation::Scatterv => gather::scatter(algorithm, plan, rank, out),
        Operation::Scan | Operation::Exscan => prefix::scan(algorithm, plan, rank, out),
        Operation::Barrier => alltoall::barrier(algorithm, plan, rank, out),
        Operation::Alltoall | Operation::Alltoallv => alltoall::alltoall(algorithm, plan, rank, out),
    };
    match known {
        Some(()) => Ok(()),
        None => Err(LayoutError::Algorithm { operation, algorithm: algorithm.to_owned() }),
    }
}

/// Whether an algorithm has this name, with a parameter or without.
fn has_name(algorithm: &str, name: &str) -> bool {
    algorithm.split('/').next() == Some(name)
}

/// What stands after the slash of `chain/4`, from 1 to 32 (Open MPI's largest fan-out).
fn parameter(algorithm: &str) -> Option<u32> {
    let (_, number) = algorithm.split_once('/')?;
    number.parse().ok().filter(|number| (1..=32).contains(number))
}
