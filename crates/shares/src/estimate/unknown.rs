//! Traffic that nobody reported: what host ports counted beyond what is known.

use super::exact;
use super::excess::{Pair, PortExcess, SLACK_BYTES};
use super::model::Model;
use crate::network::Routes;

/// What a port counted beyond the known is looked at from this part of it on: below it is headers and errors of times.
const SLACK: f64 = 0.03;
/// Among so many pairs of ports unreported traffic is sought between each sender and each receiver.
const FEW_PAIRS: usize = 20_000;
/// Among more, between those whose places in the order of bytes multiply to no more than this: some 200,000 pairs, of large
/// ones with all, and of small ones with the largest, as servers are.
const HYPERBOLA: usize = 20_000;

/// Pairs of ports and bytes between them, by what each sent and received beyond the known traffic.
pub(super) fn traffic(routes: &impl Routes, model: &Model<'_>, counted: &[Option<f64>]) -> Vec<Pair> {
    let mut senders = excesses(routes, model, counted, true);
    let mut receivers = excesses(routes, model, counted, false);
    for ends in [&mut senders, &mut receivers] {
        ends.sort_by(|one, other| other.bytes.total_cmp(&one.bytes));
    }
    let mut pairs = Vec::new();
    for (place, sender) in senders.iter().enumerate() {
        let most = if senders.len() * receivers.len() <= FEW_PAIRS {
            receivers.len()
        } else {
            HYPERBOLA / (place + 1)
        };
        let others = || receivers.iter().take(most.max(1)).filter(|receiver| receiver.port != sender.port);
        let all: f64 = others().map(|receiver| receiver.bytes).sum();
        pairs.extend(others().map(|receiver| Pair {
            from: sender.port,
            to: receiver.port,
            bytes: sender.bytes * receiver.bytes / all,
            most: sender.most.min(receiver.most),
        }));
    }
    exact::find(routes, model, counted, [&senders, &receivers], &mut pairs);
    pairs
}

/// Ports that sent, or received, beyond the known. Of a host with several ports what all of them did counts.
fn excesses(
    routes: &impl Routes,
    model: &Model<'_>,
    counted: &[Option<f64>],
    is_sending: bool,
) -> Vec<PortExcess> {
    let ports = routes.ports();
    let link = |port: usize| (if is_sending { ports[port].transmit } else { ports[port].receive }).0 as usize;
    // Counted, known, and known at least, of one port.
    let of = |port: usize| -> Option<(f64, f64, f64)> {
        let link = link(port);
        let bytes = counted.get(link).copied().flatten()?;
        Some((bytes, model.sum(link), least(model, link)))
    };
    let mut found = Vec::new();
    for port in 0..ports.len() {
        let Some((bytes, known, least)) = of(port) else { continue };
        let rails = routes.rails(port).iter().filter(|other| **other != port).filter_map(|other| of(*other));
        let host =
            rails.fold((bytes, known, least), |sum, more| (sum.0 + more.0, sum.1 + more.1, sum.2 + more.2));
        let excess = (bytes - known).min(host.0 - host.1);
        if excess > SLACK * bytes + SLACK_BYTES {
            let most = bytes.min(host.0 - host.2);
            found.push(PortExcess { port, bytes: excess, most: most.max(excess) });
        }
    }
    found
}

/// What reported traffic must have put on a link.
fn least(model: &Model<'_>, link: usize) -> f64 {
    let branches = model.certain.of(link).iter().map(|branch| model.branches[*branch as usize].bundle);
    let bundles = branches.map(|bundle| &model.bundles[bundle as usize]);
    let classes =
        bundles.filter(|bundle| bundle.branches.len() == 1).flat_map(|bundle| bundle.classes.clone());
    classes.map(|class| model.classes[class as usize].low).sum()
}
