//! Decisions of Open MPI's component tuned, 4.1 and 5.0 (coll_tuned_decision_fixed.c), for commutative operations; those in
//! which ranks gather or scatter are in `gather_tables`.

/// Until a number of ranks: until a number of bytes: an algorithm.
pub(super) type Table = &'static [(u32, &'static [(u64, &'static str)])];

pub(super) const MANY: u32 = u32::MAX;
pub(super) const ANY: u64 = u64::MAX;

/// Decisions for allreduce.
pub(super) const ALLREDUCE: Table = &[
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
pub(super) const ALLTOALL: Table = &[
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
pub(super) const ALLTOALLV: Table = &[
    (4, &[(ANY, "pairwise")]),
    (64, &[(ANY, "basic_linear")]),
    (128, &[(ANY, "pairwise")]),
    (256, &[(ANY, "basic_linear")]),
    (1024, &[(ANY, "pairwise")]),
    (MANY, &[(ANY, "basic_linear")]),
];

/// Decisions for barrier.
pub(super) const BARRIER: Table = &[
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
pub(super) const BCAST: Table = &[
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
pub(super) const REDUCE: Table = &[
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
pub(super) const REDUCE_SCATTER: Table = &[
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
pub(super) const REDUCE_SCATTER_BLOCK: Table = &[
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
