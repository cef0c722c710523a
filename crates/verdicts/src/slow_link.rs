//! *Slow link*: a link on the job's way carries less than its peers, or damages what it carries.
//!
//! Needs the speeds of links between the same kinds of nodes and the error counters. It is said of links that the job uses
//! ([`USED_MIN`] of the speed): below [`SLOWER`] of the middle speed of their peers, where at most [`AS_SLOW_MOST`] is as slow, or with
//! [`ERRORS_MIN`] errors that are more than one in [`PACKETS_AN_ERROR`] packets. Where more are as slow the switch is built of
//! different speeds; a single older node at it looks the same as a fault.

use crate::evidence::{Evidence, Link};
use crate::text::{bytes, percent};
use crate::{Confidence, Kind, Verdict, fact};

/// Part of the peers' speed.
pub const SLOWER: f64 = 0.75;

/// Peers that are as slow: links fail one by one, older nodes are bought by the chassis.
pub const AS_SLOW_MOST: usize = 1;

/// Part of the link's speed that the job uses, in the mean of its windows.
pub const USED_MIN: f64 = 0.05;

/// Errors in the time that is judged.
pub const ERRORS_MIN: u64 = 100;

/// One error in so many packets is more than retransmission hides.
pub const PACKETS_AN_ERROR: f64 = 1e5;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    evidence
        .links
        .iter()
        .filter(|link| is_used(link))
        .filter_map(|link| slow(link).or_else(|| damaged(link)))
        .collect()
}

fn is_used(link: &Link) -> bool {
    let seconds: f64 = link.windows.iter().map(|window| window.seconds).sum();
    let own: f64 = link.windows.iter().flat_map(|window| &window.own).map(|one| one.low).sum();
    seconds > 0.0 && link.bytes_per_second > 0.0 && own / seconds / link.bytes_per_second >= USED_MIN
}

fn slow(link: &Link) -> Option<Verdict> {
    let peers = link.peers.filter(|peers| peers.as_slow <= AS_SLOW_MOST)?.bytes_per_second;
    if link.bytes_per_second >= SLOWER * peers {
        return None;
    }
    let share = link.bytes_per_second / peers;
    Some(Verdict {
        kind: Kind::SlowLink,
        subject: link.name.clone(),
        observation: format!(
            "{} on its way runs at {}/s, {} of what links of its kind do ({}/s).",
            link.name,
            bytes(link.bytes_per_second),
            percent(share),
            bytes(peers)
        ),
        remedy: "Reseat or replace the cable and bring the link up again: it came up with fewer lanes or at a lower speed.".to_owned(),
        confidence: Confidence::Certain,
        cost: None,
        other_job: None,
        facts: vec![fact("speed, of its peers'", share, "share", Some(SLOWER))],
    })
}

#[allow(clippy::cast_precision_loss)] // below 2^53
fn damaged(link: &Link) -> Option<Verdict> {
    let errors = link.errors.filter(|errors| *errors >= ERRORS_MIN)?;
    let packets = link.packets? as f64;
    (errors as f64 * PACKETS_AN_ERROR >= packets).then(|| Verdict {
        kind: Kind::SlowLink,
        subject: link.name.clone(),
        observation: format!(
            "{} on its way had {errors} errors in {packets:.0} packets: what is damaged is sent again.",
            link.name
        ),
        remedy:
            "Replace the cable or clean its connectors; until then let the subnet manager route around it."
                .to_owned(),
        confidence: Confidence::Certain,
        cost: None,
        other_job: None,
        facts: vec![
            fact("errors", errors as f64, "1", Some(ERRORS_MIN as f64)),
            fact("errors a packet", errors as f64 / packets.max(1.0), "share", Some(1.0 / PACKETS_AN_ERROR)),
        ],
    })
}
