//! Traffic of collective operations: which rank sends how many bytes to which, by the shape of the algorithm.
//!
//! Algorithms have the names of Open MPI's functions `ompi_coll_base_OPERATION_intra_NAME`, as the agent reports them.
//! Shapes follow Open MPI 4.1 and 5.0. Bytes are payload, without headers ([`crate::wire`] adds those).

mod alltoall;
mod gather;
mod halving;
mod prefix;
mod reduce;
mod tree;

use std::str::FromStr;

/// Segment fan-out of `chain` where no setting says otherwise (coll_tuned_bcast_algorithm_chain_fanout).
const CHAINS: u32 = 4;
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

    fn block(&self, rank: u32) -> u64 {
        match self.blocks.as_slice() {
            [] => 0,
            [all] => *all,
            each => each.get(rank as usize).copied().unwrap_or(0),
        }
    }

    /// Bytes of the blocks of all ranks.
    fn total(&self) -> u64 {
        (0..self.ranks).map(|rank| self.block(rank)).sum()
    }

    /// Elements of the message, for operations that have one.
    fn elements(&self) -> u64 {
        self.block(self.root) / self.element.max(1)
    }

    fn bytes(&self, elements: u64) -> u64 {
        elements * self.element.max(1)
    }

    /// The rank at a distance from the root.
    fn at_distance(&self, distance: u32) -> u32 {
        (self.root + distance) % self.ranks
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

/// The traffic of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Single edges, in no order; a pair may be there several times.
    Edges(Vec<Edge>),
    /// Each rank sends its block to each other rank, in one message.
    Complete,
}

impl Layout {
    /// The edges, those of [`Layout::Complete`] included: ranks x (ranks - 1) of them.
    #[must_use]
    pub fn edges(self, call: &Call) -> Vec<Edge> {
        match self {
            Self::Edges(edges) => edges,
            Self::Complete => {
                let pairs = (0..call.ranks).flat_map(|source| (0..call.ranks).map(move |to| (source, to)));
                let others = pairs.filter(|(source, destination)| source != destination);
                others
                    .map(|(source, destination)| Edge {
                        source,
                        destination,
                        bytes: call.block(source),
                        messages: 1,
                    })
                    .collect()
            }
        }
    }
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
}

/// What collects edges while an algorithm is laid out. Messages of a rank to itself are none.
#[derive(Default)]
struct Edges(Vec<Edge>);

impl Edges {
    fn send(&mut self, source: u32, destination: u32, bytes: u64) {
        if source != destination {
            self.0.push(Edge { source, destination, bytes, messages: 1 });
        }
    }

    fn exchange(&mut self, one: u32, other: u32, bytes: u64) {
        self.send(one, other, bytes);
        self.send(other, one, bytes);
    }
}

/// Lays out one call.
///
/// # Errors
/// [`LayoutError`]: the algorithm has no model, or the root is none of the ranks.
pub fn layout(operation: Operation, algorithm: &str, call: &Call) -> Result<Layout, LayoutError> {
    if call.ranks > 0 && call.root >= call.ranks {
        return Err(LayoutError::Root { root: call.root, ranks: call.ranks });
    }
    if call.ranks < 2 {
        return Ok(Layout::Edges(Vec::new()));
    }
    let mut edges = Edges::default();
    let known = match operation {
        Operation::Bcast => tree::bcast(algorithm, call, &mut edges),
        Operation::Reduce => reduce::reduce(algorithm, call, &mut edges),
        Operation::Allreduce => reduce::allreduce(algorithm, call, &mut edges),
        Operation::ReduceScatter | Operation::ReduceScatterBlock => {
            reduce::reduce_scatter(algorithm, call, &mut edges)
        }
        Operation::Allgather | Operation::Allgatherv => gather::allgather(algorithm, call, &mut edges),
        Operation::Gather | Operation::Gatherv => gather::gather(algorithm, call, &mut edges),
        Operation::Scatter | Operation::Scatterv => gather::scatter(algorithm, call, &mut edges),
        Operation::Scan | Operation::Exscan => prefix::scan(algorithm, call, &mut edges),
        Operation::Barrier => alltoall::barrier(algorithm, call, &mut edges),
        Operation::Alltoall | Operation::Alltoallv => match alltoall::alltoall(algorithm, call, &mut edges) {
            Some(true) => return Ok(Layout::Complete),
            found => found.map(|_| ()),
        },
    };
    match known {
        Some(()) => Ok(Layout::Edges(edges.0)),
        None => Err(LayoutError::Algorithm { operation, algorithm: algorithm.to_owned() }),
    }
}
