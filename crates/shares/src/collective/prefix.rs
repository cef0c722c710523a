//! Scan and exscan.

use super::{Call, Edges};

/// Scan or exscan by an algorithm; `None` for one without a model.
pub(super) fn scan(algorithm: &str, call: &Call, edges: &mut Edges) -> Option<()> {
    let bytes = call.block(0);
    match algorithm {
        "linear" => (1..call.ranks).for_each(|rank| edges.send(rank - 1, rank, bytes)),
        "recursivedoubling" => {
            let mut mask = 1;
            while mask < call.ranks {
                for rank in (0..call.ranks).filter(|rank| rank ^ mask < call.ranks) {
                    edges.send(rank, rank ^ mask, bytes);
                }
                mask <<= 1;
            }
        }
        _ => return None,
    }
    Some(())
}
