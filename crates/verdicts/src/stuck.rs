//! Ranks that are in MPI with all their threads.

use crate::evidence::{Evidence, OpenCall};
use std::collections::BTreeMap;

/// By rank its calls, one of each of its threads that have called MPI, where all of them have gone on for some seconds. A rank with a
/// thread elsewhere is none: that thread may compute now, and send later.
pub fn stuck(evidence: &Evidence, seconds_min: f64) -> BTreeMap<u32, Vec<&OpenCall>> {
    let mut by_rank: BTreeMap<u32, Vec<&OpenCall>> = BTreeMap::new();
    for call in &evidence.open_calls {
        by_rank.entry(call.rank).or_default().push(call);
    }
    by_rank.retain(|_, calls| {
        calls.iter().all(|call| call.threads_elsewhere == 0 && call.seconds >= seconds_min)
    });
    by_rank
}
