//! Gather, scatter and allgather.

use super::{Call, Edges, tree};
use tree::Shape;

/// Bytes of the blocks of each distance's subtree in a tree whose children are further from the root than parents.
fn subtrees(shape: &Shape, call: &Call) -> Vec<u64> {
    let mut bytes: Vec<u64> =
        (0..call.ranks).map(|distance| call.block(call.at_distance(distance))).collect();
    for distance in (1..call.ranks).rev() {
        bytes[shape.parent(distance, call.ranks) as usize] += bytes[distance as usize];
    }
    bytes
}

/// Gather by an algorithm; `None` for one without a model.
pub(super) fn gather(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    match algorithm {
        // The synchronous form sends the same bytes in two messages.
        "basic_linear" | "linear" | "linear_sync" => {
            tree::star(call).for_each(|rank| edges.send(rank, call.root, call.block(rank)));
        }
        "binomial" => {
            let (shape, bytes) = (Shape::BinomialInOrder, subtrees(&Shape::BinomialInOrder, call));
            for distance in 1..call.ranks {
                let parent = call.at_distance(shape.parent(distance, call.ranks));
                edges.send(call.at_distance(distance), parent, bytes[distance as usize]);
            }
        }
        _ => return None,
    }
    Some(())
}

/// Scatter by an algorithm; `None` for one without a model.
pub(super) fn scatter(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    match algorithm {
        "basic_linear" | "linear" | "linear_nb" => {
            tree::star(call).for_each(|rank| edges.send(call.root, rank, call.block(rank)));
        }
        "binomial" => {
            let (shape, bytes) = (Shape::BinomialInOrder, subtrees(&Shape::BinomialInOrder, call));
            for distance in 1..call.ranks {
                let parent = call.at_distance(shape.parent(distance, call.ranks));
                edges.send(parent, call.at_distance(distance), bytes[distance as usize]);
            }
        }
        _ => return None,
    }
    Some(())
}

/// Scatters a message in equal parts (rounded up to elements) along a binomial tree. Returns bytes by distance.
pub(super) fn scatter_message(call: &Call, edges: &mut Edges) -> Vec<u64> {
    let elements = call.elements();
    let part = elements.div_ceil(u64::from(call.ranks));
    let parts: Vec<u64> = (0..call.ranks)
        .map(|distance| call.bytes(elements.saturating_sub(u64::from(distance) * part).min(part)))
        .collect();
    let shape = Shape::BinomialInOrder;
    let mut below = parts.clone();
    for distance in (1..call.ranks).rev() {
        let parent = shape.parent(distance, call.ranks);
        let bytes = below[distance as usize];
        below[parent as usize] += bytes;
        if bytes > 0 {
            edges.send(call.at_distance(parent), call.at_distance(distance), bytes);
        }
    }
    parts
}

/// Allgather by an algorithm; `None` for one without a model.
pub(super) fn allgather(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    let n = call.ranks;
    match algorithm {
        // A gather at rank 0 and a broadcast of all of it; of their own algorithms the usual ones are assumed.
        "basic_linear" | "basic_default" => {
            let at_zero = Call { root: 0, ..call.clone() };
            gather("basic_linear", &at_zero, edges);
            let whole = Call { blocks: vec![call.total()], ..at_zero };
            tree::down(&Shape::Binomial, &whole, whole.block(0), edges);
        }
        "ring" => ring(call, edges),
        "two_procs" if n == 2 => {
            edges.send(0, 1, call.block(0));
            edges.send(1, 0, call.block(1));
        }
        "recursivedoubling" if n.is_power_of_two() => doubling(call, edges),
        "bruck" | "recursivedoubling" => bruck(call, edges),
        "neighborexchange" if n.is_multiple_of(2) => neighbours(call, edges),
        "neighborexchange" => ring(call, edges),
        "sparbit" => sparbit(call, edges),
        _ => return None,
    }
    Some(())
}

/// Each rank passes all blocks but its right neighbour's own to that neighbour, one by one.
fn ring(call: &Call, edges: &mut Edges) {
    for rank in 0..call.ranks {
        let next = (rank + 1) % call.ranks;
        for block in (0..call.ranks).filter(|block| *block != next) {
            edges.send(rank, next, call.block(block));
        }
    }
}

fn doubling(call: &Call, edges: &mut Edges) {
    let mut mask = 1;
    while mask < call.ranks {
        for rank in 0..call.ranks {
            let first = rank / mask * mask;
            let bytes = (first..first + mask).map(|block| call.block(block)).sum();
            edges.send(rank, rank ^ mask, bytes);
        }
        mask <<= 1;
    }
}

/// Each rank sends the blocks that it has to the rank at a distance below it; the distance doubles.
fn bruck(call: &Call, edges: &mut Edges) {
    let n = call.ranks;
    let mut distance = 1;
    while distance < n {
        let blocks = distance.min(n - distance);
        for rank in 0..n {
            let bytes = (0..blocks).map(|block| call.block((rank + block) % n)).sum();
            edges.send(rank, (rank + n - distance) % n, bytes);
        }
        distance <<= 1;
    }
}

/// Pairs exchange their blocks, then two blocks at a time with the neighbours on either side in turn.
fn neighbours(call: &Call, edges: &mut Edges) {
    let n = call.ranks;
    for even in (0..n).step_by(2) {
        edges.send(even, even + 1, call.block(even));
        edges.send(even + 1, even, call.block(even + 1));
    }
    // What a rank sends is the pair of blocks that it received last; at first its own pair's.
    let mut last: Vec<u32> = (0..n).map(|rank| rank / 2 * 2).collect();
    for step in 1..n / 2 {
        let partner = |rank: u32| {
            let is_up = rank.is_multiple_of(2) == step.is_multiple_of(2);
            if is_up { (rank + 1) % n } else { (rank + n - 1) % n }
        };
        let sent = last.clone();
        for rank in 0..n {
            let pair = sent[rank as usize];
            edges.send(rank, partner(rank), call.block(pair) + call.block(pair + 1));
            last[partner(rank) as usize] = pair;
        }
    }
}

/// Stripe parallel binomial trees: single blocks to ever nearer ranks.
fn sparbit(call: &Call, edges: &mut Edges) {
    let n = call.ranks;
    let steps = n.next_power_of_two().trailing_zeros();
    let low = n.trailing_zeros();
    let ignored = (!(n >> low) | 1) << low;
    let (mut distance, mut expected) = (1_u32 << (steps - 1), 1_u32);
    for _ in 0..steps {
        let excluded = u32::from(distance & ignored == distance);
        for rank in 0..n {
            for number in 0..expected - excluded {
                let behind = (2 * number * distance) % n;
                edges.send(rank, (rank + distance) % n, call.block((rank + n - behind) % n));
            }
        }
        distance >>= 1;
        expected = (expected << 1) - excluded;
    }
}
