//! Scan and exscan.

use super::halving::masks;
use super::plan::{Plan, RankSends};

/// Scan or exscan by an algorithm of Open MPI; `None` for one without a model.
pub(super) fn scan(algorithm: &str, plan: &Plan, rank: u32, out: &mut RankSends) -> Option<()> {
    let bytes = plan.block(0);
    match algorithm {
        "linear" if rank + 1 < plan.n => out.send(rank + 1, bytes),
        "linear" => {}
        "recursivedoubling" => {
            let partners = masks(plan.n).map(|mask| rank ^ mask).filter(|partner| *partner < plan.n);
            partners.for_each(|partner| out.send(partner, bytes));
        }
        _ => return None,
    }
    Some(())
}
