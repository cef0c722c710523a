//! Traffic that nobody reported: what host ports counted beyond what is known.

use super::Parts;
use crate::network::HostPort;

/// What a port counted beyond the known is looked at from this part of it on: below it is headers and errors of times.
const SLACK: f64 = 0.03;
/// Management and headers of an idle port, bytes in a window.
const SLACK_BYTES: f64 = 65_536.0;
/// Pairs of ports between which unreported traffic is sought; beyond it the smallest senders stay in the rest.
const MAX_PAIRS: usize = 200_000;

/// Pairs of ports and bytes between them, by what each sent and received beyond the known traffic.
pub(super) fn traffic(
    ports: &[HostPort],
    parts: &Parts,
    counted: &[Option<f64>],
) -> Vec<(usize, usize, f64)> {
    let known = parts.sums(counted.len());
    let beyond = |link: u32| -> f64 {
        let link = link as usize;
        let Some(bytes) = counted.get(link).copied().flatten() else { return 0.0 };
        let excess = bytes - known[link];
        if excess > SLACK * bytes + SLACK_BYTES { excess } else { 0.0 }
    };
    let mut senders: Vec<(usize, f64)> = ports
        .iter()
        .enumerate()
        .map(|(port, of)| (port, beyond(of.transmit.0)))
        .filter(|(_, bytes)| *bytes > 0.0)
        .collect();
    let receivers: Vec<(usize, f64)> = ports
        .iter()
        .enumerate()
        .map(|(port, of)| (port, beyond(of.receive.0)))
        .filter(|(_, bytes)| *bytes > 0.0)
        .collect();
    senders.sort_by(|one, other| other.1.total_cmp(&one.1));
    senders.truncate(MAX_PAIRS / receivers.len().max(1));
    let all: f64 = receivers.iter().map(|(_, bytes)| bytes).sum();
    let mut pairs = Vec::new();
    for (from, sent) in &senders {
        let own = receivers.iter().find(|(port, _)| port == from).map_or(0.0, |(_, bytes)| *bytes);
        let others = all - own;
        for (to, received) in receivers.iter().filter(|(to, _)| to != from) {
            pairs.push((*from, *to, sent * received / others));
        }
    }
    pairs
}
