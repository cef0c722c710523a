//! Single flows among unreported traffic, found by equal amounts.
//!
//! Nearly all unreported traffic is that of few pairs: a copy, a backup, a job that nobody monitors. Where one port sent beyond
//! the known what one other received beyond it, or one what two received, that is hardly chance. Such flows are taken out
//! before the rest is spread in proportion, which would give each sender a part of each receiver. The links between have to
//! have carried it.

use super::excess::{Pair, PortExcess, SLACK_BYTES};
use super::model::Model;
use crate::network::Routes;

/// Two amounts are the same within this part of them.
const NEAR: f64 = 0.02;
/// Two amounts add up to a third within this part of it.
const NEAR_SUM: f64 = 0.01;
/// Where more sums than these agree, they agree by chance.
const FEW_SUMS: usize = 3;
/// Among more pairs of ports than these, nothing is sought.
const FEW_PAIRS: usize = 2000;
/// How much of such a flow is believed: the fit may find otherwise.
const BELIEVED: f64 = 0.97;

/// Excess of ports and links that no flow explains so far.
struct Search<'a> {
    pairs: &'a [Pair],
    /// Excess by link.
    left: Vec<f64>,
    /// Certain links of each pair, its ports' own ones first and last.
    paths: Vec<Vec<usize>>,
}

/// What a pair's ports and the way between them may still carry.
#[derive(Clone, Copy)]
struct PairCapacity {
    sent: f64,
    received: f64,
    way: f64,
}

impl Search<'_> {
    fn room(&self, number: usize) -> Option<PairCapacity> {
        let path = &self.paths[number];
        let (first, last) = (path.first()?, path.last()?);
        let way = path.iter().map(|link| self.left[*link]).fold(f64::INFINITY, f64::min);
        (way > SLACK_BYTES).then(|| PairCapacity { sent: self.left[*first], received: self.left[*last], way })
    }

    /// The pair whose two ends are the most alike.
    fn single(&self, rooms: &[Option<PairCapacity>]) -> Option<usize> {
        let closeness = |room: &PairCapacity| room.way / room.sent.max(room.received);
        let alike =
            rooms.iter().enumerate().filter_map(|(number, room)| Some((number, closeness(room.as_ref()?))));
        let best = alike.max_by(|one, other| one.1.total_cmp(&other.1))?;
        (best.1 >= 1.0 - NEAR).then_some(best.0)
    }

    /// Two pairs of one sender, or of one receiver, whose other ends add up to it.
    fn sum(&self, rooms: &[Option<PairCapacity>]) -> Option<[usize; 2]> {
        let mut found: Vec<(f64, [usize; 2])> = Vec::new();
        let fits = |room: &PairCapacity, end: f64| room.way >= end * (1.0 - NEAR);
        for (one, room) in rooms.iter().enumerate() {
            let Some(room) = room else { continue };
            for (other, second) in rooms.iter().enumerate().skip(one + 1) {
                let Some(second) = second else { continue };
                let (pair, mate) = (&self.pairs[one], &self.pairs[other]);
                let off =
                    if pair.from == mate.from && fits(room, room.received) && fits(second, second.received) {
                        (room.received + second.received) / room.sent - 1.0
                    } else if pair.to == mate.to && fits(room, room.sent) && fits(second, second.sent) {
                        (room.sent + second.sent) / room.received - 1.0
                    } else {
                        continue;
                    };
                if off.abs() < NEAR_SUM {
                    found.push((off.abs(), [one, other]));
                }
            }
        }
        if found.len() > FEW_SUMS {
            return None;
        }
        found.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).map(|best| best.1)
    }
}

/// Moves the pairs' bytes to single flows, where there are such.
pub(super) fn find(
    routes: &impl Routes,
    model: &Model<'_>,
    counted: &[Option<f64>],
    ends: [&[PortExcess]; 2],
    pairs: &mut [Pair],
) {
    if pairs.len() > FEW_PAIRS {
        return;
    }
    let beyond = |(link, counted): (usize, &Option<f64>)| {
        counted.map_or(f64::INFINITY, |counted| (counted - model.sum(link)).max(0.0))
    };
    let mut left: Vec<f64> = counted.iter().enumerate().map(beyond).collect();
    let ports = routes.ports();
    let transmit = |port: usize| ports[port].transmit.0 as usize;
    let receive = |port: usize| ports[port].receive.0 as usize;
    ends[0].iter().for_each(|sender| left[transmit(sender.port)] = sender.bytes);
    ends[1].iter().for_each(|receiver| left[receive(receiver.port)] = receiver.bytes);
    let certain = |pair: &Pair| {
        let path = routes.path(pair.from, pair.to).unwrap_or_default();
        let links = path.0.iter().filter_map(|stage| match stage.links() {
            [link] => Some(link.0 as usize),
            _ => None,
        });
        let own = [transmit(pair.from), receive(pair.to)];
        let between: Vec<usize> = links.filter(|link| !own.contains(link)).collect();
        [vec![own[0]], between, vec![own[1]]].concat()
    };
    let paths = pairs.iter().map(certain).collect();
    let mut found = vec![0.0; pairs.len()];
    let mut search = Search { pairs, left, paths };
    loop {
        let rooms: Vec<Option<PairCapacity>> = (0..pairs.len()).map(|number| search.room(number)).collect();
        let next = match search.single(&rooms) {
            Some(number) => vec![number],
            None => search.sum(&rooms).map_or_else(Vec::new, |both| both.to_vec()),
        };
        if next.is_empty() {
            break;
        }
        for number in next {
            let bytes = rooms[number].map_or(0.0, |room| room.way);
            found[number] += bytes;
            for link in &search.paths[number] {
                search.left[*link] = (search.left[*link] - bytes).max(0.0);
            }
        }
    }
    let left = search.left;
    let all: f64 = ends[1].iter().map(|receiver| left[receive(receiver.port)]).sum();
    for (pair, found) in pairs.iter_mut().zip(found) {
        let (sent, received) = (left[transmit(pair.from)], left[receive(pair.to)]);
        let spread = if all > 0.0 { sent * received / all } else { 0.0 };
        pair.bytes = pair.bytes * (1.0 - BELIEVED) + (found + spread) * BELIEVED;
    }
}
