//! The algorithm that a library takes by its own decision: an assumption, where nobody observed it.
//!
//! Open MPI's rules are those of the component `tuned` in 4.1 and 5.0 (ompi/mca/coll/tuned/coll_tuned_decision_fixed.c),
//! MPICH's those of 4.x (maint/tuning/coll/mpir/generic.json). Both look at the number of ranks and at bytes. A predefined,
//! commutative operation and contiguous data are taken for granted.

use super::plan::Plan;
use super::{Call, Operation};

/// A library whose decisions are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// Open MPI 4.1 and 5.0, by its component `tuned`.
    OpenMpi,
    /// MPICH 4.0 and later, where each node has one rank. With several, it first works within nodes.
    Mpich,
}

impl Library {
    /// The name by which [`super::layout`] knows an algorithm that the agent reports of this library.
    #[must_use]
    pub fn algorithm(self, reported: &str) -> String {
        match self {
            Self::OpenMpi => reported.to_owned(),
            Self::Mpich => format!("{}{reported}", super::mpich::PREFIX),
        }
    }

    /// By what MPI_Get_library_version reports; `None` for libraries and versions with other rules.
    #[must_use]
    pub fn of_description(text: &str) -> Option<Self> {
        let version = |start: &str| -> Option<(u32, u32)> {
            let mut numbers = text.split_once(start)?.1.trim_start().split(|of: char| !of.is_ascii_digit());
            Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
        };
        match (version("Open MPI v"), version("MPICH Version:")) {
            (Some((4, 1..) | (5, _)), _) => Some(Self::OpenMpi),
            (_, Some((4.., _))) => Some(Self::Mpich),
            _ => None,
        }
    }
}

fn mpich(operation: Operation, plan: &Plan) -> &'static str {
    let (n, power) = (plan.n, plan.n.is_power_of_two());
    // Fewer elements than ranks that take part in halving.
    let is_short = plan.elements() < 1 << n.ilog2();
    match operation {
        Operation::Bcast if n < 8 || plan.whole() <= 12_288 => "mpich:binomial",
        Operation::Bcast if power && plan.whole() <= 524_288 => "mpich:scatter_recursive_doubling_allgather",
        Operation::Bcast => "mpich:scatter_ring_allgather",
        Operation::Allreduce if plan.block(0) <= 8 || is_short => "mpich:recursive_doubling",
        Operation::Allreduce => "mpich:reduce_scatter_allgather",
        Operation::Reduce if plan.whole() <= 2048 || is_short => "mpich:binomial",
        Operation::Reduce => "mpich:reduce_scatter_gather",
        Operation::Allgather | Operation::Allgatherv => match plan.total() {
            ..524_288 if power => "mpich:recursive_doubling",
            ..81_920 => "mpich:brucks",
            _ => "mpich:ring",
        },
        Operation::ReduceScatter | Operation::ReduceScatterBlock if plan.total() < 524_288 => {
            "mpich:recursive_halving"
        }
        Operation::ReduceScatter | Operation::ReduceScatterBlock => "mpich:pairwise",
        Operation::Gather | Operation::Scatter => "mpich:binomial",
        Operation::Gatherv | Operation::Scatterv => "mpich:linear",
        Operation::Scan | Operation::Exscan => "mpich:recursive_doubling",
        Operation::Barrier => "mpich:k_dissemination",
        Operation::Alltoall if n >= 8 && plan.block(0) <= 256 => "mpich:brucks",
        Operation::Alltoall if plan.block(0) > 32_768 => "mpich:pairwise",
        Operation::Alltoall | Operation::Alltoallv => "mpich:scattered",
    }
}

/// Until a number of ranks: until a number of bytes: an algorithm.
type Table = &'static [(u32, &'static [(u64, &'static str)])];

const MANY: u32 = u32::MAX;
const ANY: u64 = u64::MAX;

/// The algorithm that `library` takes for a call by its own decision, as [`super::layout`] knows it.
#[must_use]
pub fn assumed(library: Library, operation: Operation, call: &Call) -> Option<&'static str> {
    if call.ranks < 2 || call.root >= call.ranks {
        return None;
    }
    Some(by_plan(library, operation, &Plan::new(call)))
}

pub(super) fn by_plan(library: Library, operation: Operation, plan: &Plan) -> &'static str {
    match library {
        Library::OpenMpi => open_mpi(operation, plan),
        Library::Mpich => mpich(operation, plan),
    }
}

fn open_mpi(operation: Operation, plan: &Plan) -> &'static str {
    let (table, bytes) = match operation {
        Operation::Allgather => (ALLGATHER, plan.block(0)),
        Operation::Allgatherv => (ALLGATHERV, plan.total() / u64::from(plan.n)),
        Operation::Allreduce => (ALLREDUCE, plan.block(0)),
        Operation::Alltoall => (ALLTOALL, plan.block(0)),
        Operation::Alltoallv => (ALLTOALLV, 0),
        Operation::Barrier => (BARRIER, 0),
        Operation::Bcast => (BCAST, plan.whole()),
        Operation::Gather => (GATHER, plan.block(0)),
        Operation::Reduce => (REDUCE, plan.whole()),
        Operation::ReduceScatter => (REDUCE_SCATTER, plan.total()),
        Operation::ReduceScatterBlock => (REDUCE_SCATTER_BLOCK, plan.block(0)),
        Operation::Scatter => (SCATTER, plan.block(0)),
        // The component `basic` has one algorithm for these.
        Operation::Exscan | Operation::Scan | Operation::Gatherv | Operation::Scatterv => return "linear",
    };
    let sizes = table.iter().find(|(ranks, _)| plan.n < *ranks).map_or(&[][..], |(_, sizes)| sizes);
    sizes.iter().find(|(below, _)| bytes < *below).map_or("basic_linear", |(_, algorithm)| algorithm)
}

/// Decisions for allreduce.
const ALLREDUCE: Table = &[
    (
        4,
        &[
            (8, "ring"),
            (4096, "recursivedoubling"),
            (8192, "ring"),
            (16384, "recursivedoubling"),
            (65536, "ring"),
            (262144, "ring_segmented"),
            (ANY, "redscat_allgather"),
        ],
    ),
    (8, &[(16, "ring"), (8192, "recursivedoubling"), (ANY, "redscat_allgather")]),
    (16, &[(8192, "recursivedoubling"), (ANY, "redscat_allgather")]),
    (32, &[(64, "ring_segmented"), (4096, "recursivedoubling"), (ANY, "redscat_allgather")]),
    (64, &[(128, "ring_segmented"), (ANY, "redscat_allgather")]),
    (128, &[(262144, "recursivedoubling"), (ANY, "redscat_allgather")]),
    (256, &[(131072, "nonoverlapping"), (262144, "recursivedoubling"), (ANY, "redscat_allgather")]),
    (512, &[(4096, "nonoverlapping"), (ANY, "redscat_allgather")]),
    (2048, &[(2048, "nonoverlapping"), (16384, "recursivedoubling"), (ANY, "redscat_allgather")]),
    (
        4096,
        &[
            (2048, "nonoverlapping"),
            (4096, "ring_segmented"),
            (16384, "recursivedoubling"),
            (ANY, "redscat_allgather"),
        ],
    ),
    (
        MANY,
        &[
            (2048, "nonoverlapping"),
            (16384, "ring_segmented"),
            (32768, "recursivedoubling"),
            (ANY, "redscat_allgather"),
        ],
    ),
];

/// Decisions for alltoall.
const ALLTOALL: Table = &[
    (
        3,
        &[
            (2, "pairwise"),
            (4, "two_procs"),
            (16, "pairwise"),
            (64, "two_procs"),
            (256, "pairwise"),
            (4096, "two_procs"),
            (32768, "pairwise"),
            (262144, "linear_sync"),
            (1048576, "two_procs"),
            (ANY, "pairwise"),
        ],
    ),
    (
        8,
        &[
            (8192, "linear_sync"),
            (16384, "basic_linear"),
            (65536, "linear_sync"),
            (524288, "basic_linear"),
            (1048576, "pairwise"),
            (ANY, "basic_linear"),
        ],
    ),
    (16, &[(262144, "linear_sync"), (ANY, "basic_linear")]),
    (
        32,
        &[
            (4, "linear_sync"),
            (512, "bruck"),
            (8192, "linear_sync"),
            (32768, "basic_linear"),
            (262144, "linear_sync"),
            (524288, "basic_linear"),
            (ANY, "linear_sync"),
        ],
    ),
    (64, &[(512, "bruck"), (524288, "basic_linear"), (ANY, "linear_sync")]),
    (
        128,
        &[
            (1024, "bruck"),
            (2048, "basic_linear"),
            (4096, "linear_sync"),
            (262144, "basic_linear"),
            (ANY, "pairwise"),
        ],
    ),
    (256, &[(1024, "bruck"), (2048, "linear_sync"), (262144, "basic_linear"), (ANY, "pairwise")]),
    (512, &[(1024, "bruck"), (8192, "linear_sync"), (32768, "basic_linear"), (ANY, "pairwise")]),
    (
        1024,
        &[
            (512, "bruck"),
            (8192, "linear_sync"),
            (16384, "basic_linear"),
            (131072, "linear_sync"),
            (262144, "basic_linear"),
            (ANY, "pairwise"),
        ],
    ),
    (
        2048,
        &[
            (512, "bruck"),
            (1024, "linear_sync"),
            (2048, "basic_linear"),
            (16384, "linear_sync"),
            (262144, "basic_linear"),
            (ANY, "linear_sync"),
        ],
    ),
    (
        4096,
        &[
            (1024, "bruck"),
            (4096, "linear_sync"),
            (8192, "basic_linear"),
            (131072, "linear_sync"),
            (ANY, "basic_linear"),
        ],
    ),
    (
        MANY,
        &[
            (2048, "bruck"),
            (8192, "linear_sync"),
            (16384, "basic_linear"),
            (32768, "linear_sync"),
            (65536, "basic_linear"),
            (ANY, "linear_sync"),
        ],
    ),
];

/// Decisions for alltoallv.
const ALLTOALLV: Table = &[
    (4, &[(ANY, "pairwise")]),
    (64, &[(ANY, "basic_linear")]),
    (128, &[(ANY, "pairwise")]),
    (256, &[(ANY, "basic_linear")]),
    (1024, &[(ANY, "pairwise")]),
    (MANY, &[(ANY, "basic_linear")]),
];

/// Decisions for barrier.
const BARRIER: Table = &[
    (4, &[(ANY, "recursivedoubling")]),
    (8, &[(ANY, "basic_linear")]),
    (64, &[(ANY, "recursivedoubling")]),
    (256, &[(ANY, "bruck")]),
    (512, &[(ANY, "tree")]),
    (1024, &[(ANY, "bruck")]),
    (4096, &[(ANY, "tree")]),
    (MANY, &[(ANY, "bruck")]),
];

/// Decisions for bcast.
const BCAST: Table = &[
    (
        4,
        &[
            (32, "pipeline"),
            (256, "bintree"),
            (512, "pipeline"),
            (1024, "knomial"),
            (32768, "basic_linear"),
            (131072, "bintree"),
            (262144, "chain"),
            (524288, "basic_linear"),
            (1048576, "binomial"),
            (ANY, "bintree"),
        ],
    ),
    (
        8,
        &[
            (64, "bintree"),
            (128, "binomial"),
            (2048, "bintree"),
            (8192, "binomial"),
            (1048576, "basic_linear"),
            (ANY, "chain"),
        ],
    ),
    (
        16,
        &[
            (8, "knomial"),
            (64, "bintree"),
            (4096, "knomial"),
            (16384, "bintree"),
            (32768, "binomial"),
            (ANY, "basic_linear"),
        ],
    ),
    (32, &[(4096, "knomial"), (1048576, "binomial"), (ANY, "scatter_allgather")]),
    (64, &[(2048, "binomial"), (ANY, "knomial")]),
    (128, &[(ANY, "knomial")]),
    (
        256,
        &[(2, "binomial"), (16384, "bintree"), (32768, "basic_linear"), (65536, "bintree"), (ANY, "knomial")],
    ),
    (1024, &[(16384, "knomial"), (32768, "split_bintree"), (ANY, "knomial")]),
    (2048, &[(524288, "knomial"), (ANY, "scatter_allgather")]),
    (4096, &[(262144, "knomial"), (ANY, "scatter_allgather")]),
    (MANY, &[(8192, "knomial"), (16384, "bintree"), (262144, "knomial"), (ANY, "scatter_allgather")]),
];

/// Decisions for reduce.
const REDUCE: Table = &[
    (
        4,
        &[
            (8, "redscat_gather"),
            (16, "binary"),
            (32, "pipeline"),
            (262144, "basic_linear"),
            (524288, "pipeline"),
            (1048576, "chain"),
            (ANY, "pipeline"),
        ],
    ),
    (
        8,
        &[
            (4096, "binary"),
            (65536, "chain"),
            (262144, "binomial"),
            (524288, "basic_linear"),
            (1048576, "binomial"),
            (ANY, "basic_linear"),
        ],
    ),
    (16, &[(8192, "binary"), (ANY, "binomial")]),
    (32, &[(4096, "binary"), (ANY, "binomial")]),
    (256, &[(ANY, "binomial")]),
    (512, &[(8192, "binomial"), (16384, "in_order_binary"), (ANY, "binomial")]),
    (2048, &[(ANY, "binomial")]),
    (
        4096,
        &[
            (512, "binomial"),
            (1024, "in_order_binary"),
            (8192, "binomial"),
            (16384, "in_order_binary"),
            (ANY, "binomial"),
        ],
    ),
    (
        MANY,
        &[
            (16, "binomial"),
            (32, "in_order_binary"),
            (1024, "binomial"),
            (2048, "in_order_binary"),
            (8192, "binomial"),
            (16384, "in_order_binary"),
            (ANY, "binomial"),
        ],
    ),
];

/// Decisions for reduce_scatter.
const REDUCE_SCATTER: Table = &[
    (4, &[(65536, "ring"), (131072, "butterfly"), (ANY, "ring")]),
    (8, &[(8, "nonoverlapping"), (262144, "basic_recursivehalving"), (ANY, "ring")]),
    (32, &[(262144, "basic_recursivehalving"), (ANY, "ring")]),
    (64, &[(64, "nonoverlapping"), (2048, "basic_recursivehalving"), (524288, "butterfly"), (ANY, "ring")]),
    (
        128,
        &[
            (256, "nonoverlapping"),
            (512, "basic_recursivehalving"),
            (2048, "butterfly"),
            (4096, "basic_recursivehalving"),
            (ANY, "butterfly"),
        ],
    ),
    (256, &[(256, "nonoverlapping"), (512, "basic_recursivehalving"), (ANY, "butterfly")]),
    (512, &[(256, "nonoverlapping"), (1024, "basic_recursivehalving"), (ANY, "butterfly")]),
    (
        1024,
        &[
            (512, "nonoverlapping"),
            (2048, "basic_recursivehalving"),
            (8192, "butterfly"),
            (16384, "basic_recursivehalving"),
            (ANY, "butterfly"),
        ],
    ),
    (
        2048,
        &[
            (512, "nonoverlapping"),
            (4096, "basic_recursivehalving"),
            (16384, "butterfly"),
            (32768, "basic_recursivehalving"),
            (ANY, "butterfly"),
        ],
    ),
    (4096, &[(512, "nonoverlapping"), (4096, "basic_recursivehalving"), (ANY, "butterfly")]),
    (MANY, &[(1024, "nonoverlapping"), (8192, "basic_recursivehalving"), (ANY, "butterfly")]),
];

/// Decisions for reduce_scatter_block.
const REDUCE_SCATTER_BLOCK: Table = &[
    (
        4,
        &[
            (4, "recursivedoubling"),
            (8, "butterfly"),
            (16, "recursivehalving"),
            (128, "butterfly"),
            (256, "recursivehalving"),
            (4096, "butterfly"),
            (8192, "recursivehalving"),
            (131072, "butterfly"),
            (ANY, "basic_linear"),
        ],
    ),
    (
        8,
        &[
            (8, "recursivehalving"),
            (32, "recursivedoubling"),
            (256, "butterfly"),
            (8192, "recursivehalving"),
            (16384, "butterfly"),
            (1048576, "recursivehalving"),
            (ANY, "basic_linear"),
        ],
    ),
    (
        16,
        &[
            (4, "basic_linear"),
            (32, "recursivehalving"),
            (128, "butterfly"),
            (524288, "recursivehalving"),
            (4194304, "basic_linear"),
            (ANY, "butterfly"),
        ],
    ),
    (
        32,
        &[
            (32, "basic_linear"),
            (524288, "recursivehalving"),
            (2097152, "basic_linear"),
            (4194304, "recursivehalving"),
            (ANY, "butterfly"),
        ],
    ),
    (
        MANY,
        &[
            (4, "recursivehalving"),
            (16, "basic_linear"),
            (65536, "butterfly"),
            (262144, "basic_linear"),
            (ANY, "butterfly"),
        ],
    ),
];

/// Decisions for allgather.
const ALLGATHER: Table = &[
    (3, &[(ANY, "two_procs")]),
    (32, &[(ANY, "recursivedoubling")]),
    (64, &[(1024, "recursivedoubling"), (65536, "neighborexchange"), (ANY, "ring")]),
    (128, &[(512, "recursivedoubling"), (65536, "neighborexchange"), (ANY, "ring")]),
    (
        256,
        &[
            (512, "recursivedoubling"),
            (131072, "neighborexchange"),
            (524288, "ring"),
            (1048576, "neighborexchange"),
            (ANY, "ring"),
        ],
    ),
    (
        512,
        &[
            (32, "recursivedoubling"),
            (128, "bruck"),
            (1024, "recursivedoubling"),
            (131072, "neighborexchange"),
            (524288, "ring"),
            (1048576, "neighborexchange"),
            (ANY, "ring"),
        ],
    ),
    (
        1024,
        &[(64, "recursivedoubling"), (256, "bruck"), (2048, "recursivedoubling"), (ANY, "neighborexchange")],
    ),
    (
        2048,
        &[
            (4, "recursivedoubling"),
            (8, "bruck"),
            (16, "recursivedoubling"),
            (32, "bruck"),
            (256, "recursivedoubling"),
            (512, "bruck"),
            (4096, "recursivedoubling"),
            (ANY, "neighborexchange"),
        ],
    ),
    (
        4096,
        &[
            (32, "bruck"),
            (128, "recursivedoubling"),
            (512, "bruck"),
            (4096, "recursivedoubling"),
            (ANY, "neighborexchange"),
        ],
    ),
    (
        MANY,
        &[
            (2, "recursivedoubling"),
            (8, "bruck"),
            (16, "recursivedoubling"),
            (512, "bruck"),
            (4096, "recursivedoubling"),
            (ANY, "neighborexchange"),
        ],
    ),
];

/// Decisions for allgatherv.
const ALLGATHERV: Table = &[
    (3, &[(2048, "ring"), (4096, "two_procs"), (8192, "ring"), (ANY, "two_procs")]),
    (
        8,
        &[
            (256, "basic_default"),
            (4096, "neighborexchange"),
            (8192, "ring"),
            (16384, "neighborexchange"),
            (262144, "bruck"),
            (ANY, "neighborexchange"),
        ],
    ),
    (16, &[(1024, "basic_default"), (ANY, "bruck")]),
    (32, &[(128, "basic_default"), (262144, "bruck"), (ANY, "ring")]),
    (64, &[(256, "basic_default"), (8192, "bruck"), (ANY, "ring")]),
    (128, &[(256, "basic_default"), (4096, "bruck"), (ANY, "ring")]),
    (256, &[(1024, "bruck"), (65536, "neighborexchange"), (ANY, "ring")]),
    (512, &[(1024, "bruck"), (ANY, "ring")]),
    (
        1024,
        &[
            (512, "bruck"),
            (1024, "basic_default"),
            (4096, "bruck"),
            (1048576, "neighborexchange"),
            (ANY, "ring"),
        ],
    ),
    (MANY, &[(4096, "bruck"), (ANY, "neighborexchange")]),
];

/// Decisions for gather.
const GATHER: Table = &[
    (
        4,
        &[
            (2, "linear_sync"),
            (4, "basic_linear"),
            (32768, "binomial"),
            (65536, "basic_linear"),
            (131072, "binomial"),
            (ANY, "linear_sync"),
        ],
    ),
    (
        8,
        &[
            (1024, "binomial"),
            (8192, "basic_linear"),
            (32768, "binomial"),
            (262144, "basic_linear"),
            (ANY, "linear_sync"),
        ],
    ),
    (256, &[(ANY, "binomial")]),
    (512, &[(2048, "binomial"), (8192, "basic_linear"), (ANY, "binomial")]),
    (MANY, &[(ANY, "binomial")]),
];

/// Decisions for scatter.
const SCATTER: Table = &[
    (4, &[(2, "linear_nb"), (131072, "basic_linear"), (262144, "linear_nb"), (ANY, "basic_linear")]),
    (
        8,
        &[
            (2048, "binomial"),
            (4096, "basic_linear"),
            (8192, "binomial"),
            (32768, "basic_linear"),
            (1048576, "linear_nb"),
            (ANY, "basic_linear"),
        ],
    ),
    (16, &[(16384, "binomial"), (1048576, "linear_nb"), (ANY, "basic_linear")]),
    (32, &[(16384, "binomial"), (32768, "basic_linear"), (ANY, "linear_nb")]),
    (64, &[(512, "binomial"), (8192, "linear_nb"), (16384, "binomial"), (ANY, "linear_nb")]),
    (MANY, &[(512, "binomial"), (ANY, "linear_nb")]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_descriptions() {
        let of = Library::of_description;
        assert_eq!(of("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), Some(Library::OpenMpi));
        assert_eq!(of("Open MPI v5.0.7, package: x"), Some(Library::OpenMpi));
        assert_eq!(of("Open MPI v4.0.3"), None);
        assert_eq!(of("MPICH Version:\t4.0.2\nMPICH Release date:"), Some(Library::Mpich));
        assert_eq!(of("MPICH Version:      3.3a2"), None);
        assert_eq!(of("Intel(R) MPI Library 2021.9"), None);
    }

    #[test]
    fn each_call_has_an_algorithm_with_a_model() {
        use super::super::{NAMES, layout};
        for library in [Library::OpenMpi, Library::Mpich] {
            for (_, operation) in NAMES {
                for ranks in (2..40).chain([64, 100, 128, 300]) {
                    for bytes in [0, 1, 8, 300, 5000, 70_000, 1 << 20, 1 << 23] {
                        let call = Call::even(ranks, 0, bytes);
                        let algorithm = assumed(library, operation, &call).unwrap();
                        let made = layout(operation, algorithm, &call);
                        assert!(made.is_ok(), "{library:?} {operation:?} {algorithm} {ranks} {bytes}");
                    }
                }
            }
        }
    }
}
