//! Alltoall, and barriers.

use super::{Call, Edges};

/// Alltoall by an algorithm: `Some(true)` where each rank sends its block to each other one, `Some(false)` where edges
/// were added, `None` for one without a model.
pub(super) fn alltoall(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<bool> {
    let n = call.ranks;
    match algorithm {
        "basic_linear" | "pairwise" | "linear_sync" | "two_procs" => return Some(true),
        // At each step all blocks whose distance has that bit go as far.
        "bruck" => {
            let mut distance = 1;
            while distance < n {
                let blocks = (1..n).filter(|block| block & distance != 0).count() as u64;
                for rank in 0..n {
                    edges.send(rank, (rank + distance) % n, blocks * call.block(rank));
                }
                distance <<= 1;
            }
        }
        _ => return None,
    }
    Some(false)
}

/// Barrier by an algorithm: messages without payload. `None` for one without a model.
pub(super) fn barrier(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    let n = call.ranks;
    match algorithm {
        "basic_linear" => (1..n).for_each(|rank| edges.exchange(0, rank, 0)),
        "doublering" => (0..n).for_each(|rank| {
            edges.send(rank, (rank + 1) % n, 0);
            edges.send(rank, (rank + 1) % n, 0);
        }),
        "two_procs" if n == 2 => edges.exchange(0, 1, 0),
        "bruck" => {
            let mut distance = 1;
            while distance < n {
                (0..n).for_each(|rank| edges.send(rank, (rank + distance) % n, 0));
                distance <<= 1;
            }
        }
        "recursivedoubling" => {
            let power = 1 << n.ilog2();
            (power..n).for_each(|rank| edges.exchange(rank, rank - power, 0));
            let mut mask = 1;
            while mask < power {
                (0..power).for_each(|rank| edges.send(rank, rank ^ mask, 0));
                mask <<= 1;
            }
        }
        "tree" => {
            let depth = n.next_power_of_two();
            let mut step = 1;
            while step < depth {
                for rank in
                    (0..n).filter(|rank| rank & (step - 1) == 0 && rank & step == 0 && rank + step < n)
                {
                    edges.exchange(rank, rank + step, 0);
                }
                step <<= 1;
            }
        }
        _ => return None,
    }
    Some(())
}
