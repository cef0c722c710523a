//! Layouts hold what any implementation of the operation must: everybody gets what the operation gives him, and an
//! algorithm that is known to move no byte twice moves none twice.

use throughline_shares::collective::{
    Call, Edge, IntercommCall, LayoutError, Library, Operation, PeerTraffic, RootBetween, layout, sends,
    sends_between,
};

fn edges(operation: Operation, algorithm: &str, call: &Call) -> Vec<Edge> {
    layout(operation, algorithm, call).unwrap_or_else(|error| panic!("{error}"))
}

fn received(edges: &[Edge], rank: u32) -> u64 {
    edges.iter().filter(|edge| edge.destination == rank).map(|edge| edge.bytes).sum()
}

fn sent(edges: &[Edge], rank: u32) -> u64 {
    edges.iter().filter(|edge| edge.source == rank).map(|edge| edge.bytes).sum()
}

fn total(edges: &[Edge]) -> u64 {
    edges.iter().map(|edge| edge.bytes).sum()
}

/// Every algorithm of Open MPI that the agent may report.
const ALGORITHMS: [(&str, &str); 70] = [
    ("allgather", "basic_linear"),
    ("allgather", "bruck"),
    ("allgather", "neighborexchange"),
    ("allgather", "recursivedoubling"),
    ("allgather", "ring"),
    ("allgather", "sparbit"),
    ("allgather", "two_procs"),
    ("allgatherv", "basic_default"),
    ("allgatherv", "bruck"),
    ("allgatherv", "neighborexchange"),
    ("allgatherv", "ring"),
    ("allgatherv", "sparbit"),
    ("allgatherv", "two_procs"),
    ("allreduce", "basic_linear"),
    ("allreduce", "nonoverlapping"),
    ("allreduce", "recursivedoubling"),
    ("allreduce", "redscat_allgather"),
    ("allreduce", "ring"),
    ("allreduce", "ring_segmented"),
    ("alltoall", "basic_linear"),
    ("alltoall", "bruck"),
    ("alltoall", "linear_sync"),
    ("alltoall", "pairwise"),
    ("alltoall", "two_procs"),
    ("alltoallv", "basic_linear"),
    ("alltoallv", "pairwise"),
    ("barrier", "basic_linear"),
    ("barrier", "bruck"),
    ("barrier", "doublering"),
    ("barrier", "recursivedoubling"),
    ("barrier", "tree"),
    ("barrier", "two_procs"),
    ("bcast", "basic_linear"),
    ("bcast", "binomial"),
    ("bcast", "bintree"),
    ("bcast", "chain"),
    ("bcast", "knomial"),
    ("bcast", "pipeline"),
    ("bcast", "scatter_allgather"),
    ("bcast", "scatter_allgather_ring"),
    ("bcast", "split_bintree"),
    ("exscan", "linear"),
    ("exscan", "recursivedoubling"),
    ("gather", "basic_linear"),
    ("gather", "binomial"),
    ("gather", "linear_sync"),
    ("reduce", "basic_linear"),
    ("reduce", "binary"),
    ("reduce", "binomial"),
    ("reduce", "chain"),
    ("reduce", "in_order_binary"),
    ("reduce", "pipeline"),
    ("reduce", "redscat_gather"),
    ("reduce_scatter", "basic_recursivehalving"),
    ("reduce_scatter", "butterfly"),
    ("reduce_scatter", "nonoverlapping"),
    ("reduce_scatter", "ring"),
    ("reduce_scatter_block", "butterfly"),
    ("reduce_scatter_block", "recursivedoubling"),
    ("reduce_scatter_block", "recursivehalving"),
    ("scan", "linear"),
    ("scan", "recursivedoubling"),
    ("scatter", "basic_linear"),
    ("scatter", "binomial"),
    ("scatter", "linear_nb"),
    ("reduce_scatter_block", "basic_linear"),
    ("gatherv", "linear"),
    ("scatterv", "linear"),
    ("alltoall", "basic_inplace"),
    ("alltoallv", "basic_inplace"),
];

/// World sizes with powers of two, odd and even ones, and roots at both ends and within.
fn worlds() -> impl Iterator<Item = (u32, u32)> {
    (2..=33).flat_map(|ranks| [0, 1, ranks / 2, ranks - 1].into_iter().map(move |root| (ranks, root)))
}

#[test]
fn no_rank_sends_to_itself_or_beyond_the_communicator() {
    for (operation, algorithm) in ALGORITHMS {
        let operation: Operation = operation.parse().unwrap();
        for (ranks, root) in worlds() {
            if algorithm == "two_procs" && ranks != 2 {
                continue;
            }
            for edge in edges(operation, algorithm, &Call::even(ranks, root, 1000)) {
                assert!(
                    edge.source != edge.destination,
                    "{operation:?} {algorithm} {ranks} {root}: {edge:?}"
                );
                assert!(
                    edge.source < ranks && edge.destination < ranks,
                    "{operation:?} {algorithm}: {edge:?}"
                );
            }
        }
    }
}

#[test]
fn a_broadcast_gives_the_message_to_each_rank_once() {
    let bytes = 7001;
    for algorithm in [
        "basic_linear",
        "chain",
        "pipeline",
        "bintree",
        "binomial",
        "knomial",
        "split_bintree",
        "scatter_allgather_ring",
        "mpich:binomial",
        "mpich:tree",
        "mpich:scatter_ring_allgather",
    ] {
        for (ranks, root) in worlds() {
            let edges = edges(Operation::Bcast, algorithm, &Call::even(ranks, root, bytes));
            for rank in (0..ranks).filter(|rank| *rank != root) {
                let got = received(&edges, rank);
                // Of a scattered message an inner rank of the scatter's tree also gets its children's parts.
                let is_exact =
                    !algorithm.ends_with("scatter_allgather_ring") && !algorithm.contains("scatter_ring");
                assert!(
                    if is_exact { got == bytes } else { got >= bytes },
                    "{algorithm} {ranks} {root} {rank}: {got}"
                );
            }
        }
    }
    // Doubling repeats parts on no rank where the number of ranks is a power of two.
    for ranks in [2, 4, 8, 16, 32] {
        let edges = edges(Operation::Bcast, "scatter_allgather", &Call::even(ranks, 0, 8192));
        for rank in 1..ranks {
            let tree_parts = u64::from(rank & rank.wrapping_neg()) * 8192 / u64::from(ranks);
            assert_eq!(received(&edges, rank), 8192 - 8192 / u64::from(ranks) + tree_parts, "{ranks} {rank}");
        }
    }
    for (ranks, root) in worlds() {
        let edges = edges(Operation::Bcast, "scatter_allgather", &Call::even(ranks, root, 7001));
        for rank in (0..ranks).filter(|rank| *rank != root) {
            assert!(received(&edges, rank) >= 7001, "{ranks} {root} {rank}: {}", received(&edges, rank));
        }
    }
}

#[test]
fn a_reduction_takes_the_message_of_each_rank() {
    let bytes = 4096;
    for algorithm in ["basic_linear", "chain", "pipeline", "binary", "binomial", "mpich:binomial"] {
        for (ranks, root) in worlds() {
            let edges = edges(Operation::Reduce, algorithm, &Call::even(ranks, root, bytes));
            for rank in (0..ranks).filter(|rank| *rank != root) {
                assert_eq!(sent(&edges, rank), bytes, "{algorithm} {ranks} {root} {rank}");
            }
            assert_eq!(sent(&edges, root), 0, "{algorithm} {ranks} {root}");
        }
    }
    for (ranks, root) in worlds() {
        let edges = edges(Operation::Reduce, "in_order_binary", &Call::even(ranks, root, bytes));
        let beyond_the_tree = if root == ranks - 1 { 0 } else { 1 };
        assert_eq!(total(&edges), bytes * u64::from(ranks - 1 + beyond_the_tree), "{ranks} {root}");
        // Rabenseifner's: the root ends with what the others sent it, and each rank has sent at least a half.
        for algorithm in ["redscat_gather", "mpich:reduce_scatter_gather"] {
            let edges = self::edges(Operation::Reduce, algorithm, &Call::even(ranks, root, bytes));
            // A root that was folded away gets the first part, too.
            assert!(received(&edges, root) >= bytes / 2, "{ranks} {root}: {}", received(&edges, root));
            for rank in (0..ranks).filter(|rank| *rank != root) {
                assert!(sent(&edges, rank) >= bytes / 2, "{ranks} {root} {rank}: {}", sent(&edges, rank));
            }
        }
    }
}

#[test]
fn allreduce_moves_what_its_formulas_say() {
    for ranks in [2_u32, 4, 8, 16, 32] {
        let (n, bytes) = (u64::from(ranks), 65_536);
        let call = Call::even(ranks, 0, bytes);
        let steps = u64::from(ranks.ilog2());
        assert_eq!(total(&edges(Operation::Allreduce, "recursivedoubling", &call)), n * steps * bytes);
        assert_eq!(total(&edges(Operation::Allreduce, "ring", &call)), 2 * (n - 1) * bytes);
        assert_eq!(total(&edges(Operation::Allreduce, "redscat_allgather", &call)), 2 * (n - 1) * bytes);
        assert_eq!(total(&edges(Operation::Allreduce, "basic_linear", &call)), 2 * (n - 1) * bytes);
        assert_eq!(total(&edges(Operation::Allreduce, "mpich:recursive_doubling", &call)), n * steps * bytes);
        for algorithm in ["mpich:ring", "mpich:reduce_scatter_allgather", "mpich:tree"] {
            assert_eq!(
                total(&edges(Operation::Allreduce, algorithm, &call)),
                2 * (n - 1) * bytes,
                "{algorithm}"
            );
        }
    }
    // Beyond a power of two: the pairs that are folded add the whole message twice.
    for (ranks, extra) in [(3_u64, 1_u64), (5, 1), (6, 2), (7, 3), (12, 4)] {
        let call = Call::even(ranks as u32, 0, 65_536);
        let power = ranks - extra;
        let expected = (power * u64::from(power.ilog2()) + 2 * extra) * 65_536;
        assert_eq!(total(&edges(Operation::Allreduce, "recursivedoubling", &call)), expected, "{ranks}");
        let expected = (2 * (power - 1)) * 65_536 + extra * (65_536 + 65_536 / 2 + 65_536);
        assert_eq!(total(&edges(Operation::Allreduce, "redscat_allgather", &call)), expected, "{ranks}");
        // MPICH's folded ranks send and receive the whole message.
        let expected = (2 * (power - 1) + 2 * extra) * 65_536;
        assert_eq!(total(&edges(Operation::Allreduce, "mpich:reduce_scatter_allgather", &call)), expected);
    }
}

#[test]
fn allgather_gives_each_rank_the_blocks_of_all_others() {
    let algorithms = [
        "ring",
        "bruck",
        "recursivedoubling",
        "neighborexchange",
        "sparbit",
        "mpich:ring",
        "mpich:brucks",
        "mpich:recursive_doubling",
    ];
    for algorithm in algorithms {
        for ranks in 2..=33_u32 {
            // Blocks of their own sizes, so that a wrong block shows.
            let blocks: Vec<u64> = (0..u64::from(ranks)).map(|rank| 1000 + rank * rank).collect();
            let call = Call { ranks, root: 0, blocks: blocks.clone(), element: 1 };
            let edges = edges(Operation::Allgatherv, algorithm, &call);
            for rank in 0..ranks {
                let expected = blocks.iter().sum::<u64>() - blocks[rank as usize];
                assert_eq!(received(&edges, rank), expected, "{algorithm} {ranks} {rank}");
            }
        }
    }
}

#[test]
fn gather_and_scatter_deliver_every_block() {
    for (ranks, root) in worlds() {
        let blocks: Vec<u64> = (0..u64::from(ranks)).map(|rank| 100 + rank * 7).collect();
        let call = Call { ranks, root, blocks: blocks.clone(), element: 1 };
        let others = blocks.iter().sum::<u64>() - blocks[root as usize];
        for algorithm in ["basic_linear", "binomial", "mpich:binomial", "mpich:linear"] {
            assert_eq!(received(&edges(Operation::Gatherv, algorithm, &call), root), others, "{algorithm}");
            let scatter = edges(Operation::Scatterv, algorithm, &call);
            assert_eq!(sent(&scatter, root), others, "{algorithm}");
            for rank in (0..ranks).filter(|rank| *rank != root) {
                assert_eq!(
                    received(&scatter, rank) - sent(&scatter, rank),
                    blocks[rank as usize],
                    "{algorithm}"
                );
            }
        }
    }
}

#[test]
fn reduce_scatter_leaves_each_rank_its_block() {
    for ranks in 2..=33_u32 {
        let n = u64::from(ranks);
        let call = Call::even(ranks, 0, 640);
        let ring = edges(Operation::ReduceScatter, "ring", &call);
        assert_eq!(total(&ring), n * (n - 1) * 640);
        let halving = edges(Operation::ReduceScatterBlock, "recursivehalving", &call);
        for rank in 0..ranks {
            assert!(received(&halving, rank) >= 640, "{ranks} {rank}");
        }
        let pairwise = edges(Operation::ReduceScatter, "mpich:pairwise", &call);
        assert!((0..ranks).all(|rank| received(&pairwise, rank) == (n - 1) * 640), "{ranks}");
        if ranks.is_power_of_two() {
            assert_eq!(total(&halving), n * (n - 1) * 640, "{ranks}");
            for algorithm in ["mpich:recursive_halving", "mpich:noncommutative"] {
                assert_eq!(total(&edges(Operation::ReduceScatter, algorithm, &call)), n * (n - 1) * 640);
            }
            // Doubling: at each step all blocks but those of the own group.
            let steps = u64::from(ranks.ilog2());
            let doubling = edges(Operation::ReduceScatterBlock, "mpich:recursive_doubling", &call);
            assert_eq!(total(&doubling), n * (n * steps - (n - 1)) * 640, "{ranks}");
        }
    }
}

#[test]
fn alltoall_sends_to_all() {
    let call = Call::even(9, 0, 50);
    assert_eq!(edges(Operation::Alltoall, "pairwise", &call).len(), 9 * 8);
    assert_eq!(total(&edges(Operation::Alltoall, "pairwise", &call)), 9 * 8 * 50);
    // Bruck's: a block goes as many hops as its distance has bits.
    let hops: u64 = (1..9_u64).map(|distance| u64::from(distance.count_ones())).sum();
    assert_eq!(total(&edges(Operation::Alltoall, "bruck", &call)), 9 * hops * 50);
    assert_eq!(total(&edges(Operation::Alltoall, "mpich:brucks", &call)), 9 * hops * 50);
    assert_eq!(total(&edges(Operation::Alltoall, "mpich:scattered", &call)), 9 * 8 * 50);
}

#[test]
fn what_has_no_model_is_named() {
    let error = layout(Operation::Bcast, "teleport", &Call::even(4, 0, 1)).unwrap_err();
    assert_eq!(error.to_string(), "no model of the algorithm `teleport` of Bcast");
    let error = layout(Operation::Bcast, "binomial", &Call::even(4, 4, 1)).unwrap_err();
    assert_eq!(error.to_string(), "the root 4 is not below the number of ranks, 4");
    assert!("sendrecv".parse::<Operation>().is_err());
    assert_eq!("reduce_scatter".parse(), Ok(Operation::ReduceScatter));
}

/// What a rank sends in a layout, by peer.
fn filtered(edges: &[Edge], rank: u32) -> Vec<PeerTraffic> {
    let own = edges.iter().filter(|edge| edge.source == rank);
    let sent =
        |edge: &Edge| PeerTraffic { peer: edge.destination, bytes: edge.bytes, messages: edge.messages };
    own.map(sent).collect()
}

#[test]
fn sends_of_a_rank_are_those_of_the_layout() {
    for (name, algorithm) in ALGORITHMS {
        let operation: Operation = name.parse().unwrap();
        for (ranks, root) in worlds().filter(|(ranks, _)| algorithm != "two_procs" || *ranks == 2) {
            let each = (0..u64::from(ranks)).map(|rank| rank * rank % 7 * 10).collect();
            for blocks in [vec![7001], each] {
                let call = Call { ranks, root, blocks, element: 4 };
                let edges = edges(operation, algorithm, &call);
                for rank in 0..ranks {
                    let sends = sends(operation, algorithm, &call, rank).unwrap();
                    assert_eq!(sends, filtered(&edges, rank), "{name} {algorithm} {call:?} {rank}");
                    let is_ordered = sends.windows(2).all(|pair| pair[0].peer < pair[1].peer);
                    assert!(is_ordered, "each peer once: {name} {algorithm} {call:?} {rank}: {sends:?}");
                }
            }
        }
    }
}

#[test]
fn a_rank_of_many_has_few_peers() {
    let ranks = 100_000;
    for (name, algorithm) in ALGORITHMS.iter().filter(|(_, algorithm)| *algorithm != "two_procs") {
        let call = Call::even(ranks, 3, 1 << 20);
        for rank in [0, 3, 4, 50_001, 99_999] {
            let sends = sends(name.parse().unwrap(), algorithm, &call, rank).unwrap();
            let bytes: u64 = sends.iter().map(|sent| sent.bytes).sum();
            // Linear roots and alltoall have all others as peers, everybody else at most two by bit of a rank.
            let is_linear = sends.len() == ranks as usize - 1;
            assert!(is_linear || sends.len() <= 52, "{name} {algorithm} {rank}: {} peers", sends.len());
            // A root that sends all that it gathered to each has more than any other.
            assert!(is_linear || bytes <= 1 << 41, "{name} {algorithm} {rank}: {bytes} bytes");
        }
    }
    let rank = sends(Operation::Bcast, "binomial", &Call::even(4, 0, 1), 4);
    assert_eq!(rank, Err(LayoutError::Rank { rank: 4, ranks: 4 }));
}

#[test]
fn between_two_groups_everybody_gets_what_the_operation_gives() {
    let call = IntercommCall {
        here: 3,
        there: 5,
        root: RootBetween::None,
        block_here: 100,
        block_there: 70,
        element: 1,
    };
    let other_way = |call: IntercommCall| {
        let root = match call.root {
            RootBetween::Here(root) => RootBetween::There(root),
            RootBetween::There(root) => RootBetween::Here(root),
            RootBetween::None => RootBetween::None,
        };
        let (here, there) = (call.there, call.here);
        IntercommCall {
            here,
            there,
            root,
            block_here: call.block_there,
            block_there: call.block_here,
            ..call
        }
    };
    for library in [Library::OpenMpi, Library::Mpich] {
        // Bytes that cross from the first group to the second, and back.
        let crossing = |operation, call: IntercommCall| -> u64 {
            let sent = |rank| sends_between(library, operation, None, &call, rank).unwrap().there;
            (0..call.here).flat_map(sent).map(|sent| sent.bytes).sum()
        };
        let both = |operation, call| (crossing(operation, call), crossing(operation, other_way(call)));
        assert_eq!(both(Operation::Allreduce, call), (100, 70));
        assert_eq!(both(Operation::Allgather, call), (300, 350));
        assert_eq!(both(Operation::Alltoall, call), (3 * 5 * 100, 5 * 3 * 70));
        let from_here = IntercommCall { root: RootBetween::Here(2), ..call };
        assert_eq!(both(Operation::Bcast, from_here), (100, 0));
        assert_eq!(both(Operation::Scatter, from_here), (500, 0));
        assert_eq!(both(Operation::Reduce, from_here), (0, 70));
        assert_eq!(both(Operation::Gather, from_here), (0, 350));
        // A broadcast from there reaches each rank here once.
        let from_there = IntercommCall { root: RootBetween::There(4), ..call };
        let within: u64 = (0..3)
            .flat_map(|rank| sends_between(library, Operation::Bcast, None, &from_there, rank).unwrap().here)
            .map(|sent| sent.bytes)
            .sum();
        assert_eq!(within, 2 * 70);
    }
    // One that was observed: from each to the next.
    let from_there = IntercommCall { root: RootBetween::There(4), ..call };
    let pipeline = |rank| {
        sends_between(Library::OpenMpi, Operation::Bcast, Some("pipeline"), &from_there, rank).unwrap().here
    };
    let next = |peer| vec![PeerTraffic { peer, bytes: 70, messages: 1 }];
    assert_eq!([0, 1, 2].map(pipeline), [next(1), next(2), vec![]]);
    let of_another = sends_between(Library::OpenMpi, Operation::Bcast, Some("another's"), &from_there, 0);
    assert!(of_another.is_err());
    // Long blocks of MPICH's gather go straight to the root, Open MPI's by rank 0.
    let long = IntercommCall { root: RootBetween::There(1), block_here: 10_000, ..call };
    let of_rank_2 = |library| sends_between(library, Operation::Gather, None, &long, 2).unwrap().there;
    assert_eq!(of_rank_2(Library::Mpich), [PeerTraffic { peer: 1, bytes: 10_000, messages: 1 }]);
    assert!(of_rank_2(Library::OpenMpi).is_empty());
    let none = sends_between(
        Library::OpenMpi,
        Operation::Bcast,
        None,
        &IntercommCall { root: RootBetween::Here(3), ..call },
        0,
    );
    assert_eq!(none, Err(LayoutError::Root { root: 3, ranks: 3 }));
    assert!(sends_between(Library::OpenMpi, Operation::Scan, None, &call, 0).is_err());
}
