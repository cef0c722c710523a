//! Decisions of Open MPI's component tuned, 4.1 and 5.0 (coll_tuned_decision_fixed.c), for allgather, gather and scatter.

use super::tables::{ANY, MANY, Table};

/// Decisions for allgather.
pub(super) const ALLGATHER: Table = &[
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
pub(super) const ALLGATHERV: Table = &[
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
pub(super) const GATHER: Table = &[
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
pub(super) const SCATTER: Table = &[
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
