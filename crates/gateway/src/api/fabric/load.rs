//! What each direction of each link carries, as shares of its speed. Pure.

use super::super::answer::rounded;
use super::topology::Topology;
use crate::thresholds::OfFabric;
use serde::Serialize;
use std::collections::HashMap;
use throughline_query::load::{Rates, Reading, Round, Window};

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    subnet: String,
    topology: String,
    at_ms: i64,
    window_seconds: f64,
    /// From where on a link is busy, full, or waits.
    thresholds: OfFabric,
    round: Option<RoundResponse>,
    utilisation: Directions,
    waiting: Directions,
    errors: Ends<i64>,
    age_seconds: Ends<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct RoundResponse {
    time_ms: i64,
    expected: i64,
    read: i64,
    failed: i64,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Directions {
    ab: Vec<Option<f64>>,
    ba: Vec<Option<f64>>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Ends<T> {
    a: Vec<Option<T>>,
    b: Vec<Option<T>>,
}

/// One end of a link: its reading and what it makes.
type End<'a> = Option<(&'a Reading, Rates)>;

impl Load {
    /// Puts readings in the order of the topology's links.
    pub fn new(
        subnet: &str,
        topology: &Topology,
        window: &Window,
        round: Option<&Round>,
        readings: &[Reading],
        thresholds: OfFabric,
    ) -> Load {
        let by_port: HashMap<i64, &Reading> =
            readings.iter().map(|reading| (reading.port_id, reading)).collect();
        let end = |port: i64| -> End<'_> {
            by_port.get(&port).map(|reading| (*reading, reading.rates(window, round)))
        };
        let mut load = Load {
            subnet: subnet.to_owned(),
            topology: topology.version.clone(),
            at_ms: window.at,
            window_seconds: window.seconds,
            thresholds,
            round: round.map(|round| RoundResponse {
                time_ms: round.time,
                expected: round.expected,
                read: round.read,
                failed: round.failed,
            }),
            utilisation: Directions::default(),
            waiting: Directions::default(),
            errors: Ends::default(),
            age_seconds: Ends::default(),
        };
        for (ports, speed) in topology.ends.iter().zip(&topology.speeds) {
            let (a, b) = (end(ports[0].id), end(ports[1].id));
            load.utilisation.ab.push(utilisation(&a, &b, *speed));
            load.utilisation.ba.push(utilisation(&b, &a, *speed));
            load.waiting.ab.push(waiting(&a, *speed));
            load.waiting.ba.push(waiting(&b, *speed));
            load.errors.a.push(a.and_then(|(_, rates)| rates.errors));
            load.errors.b.push(b.and_then(|(_, rates)| rates.errors));
            let age = |end: &End<'_>| end.map(|(reading, _)| (reading.age.max(0.0) * 10.0).round() / 10.0);
            load.age_seconds.a.push(age(&a));
            load.age_seconds.b.push(age(&b));
        }
        load
    }

    /// About how many bytes the answer has.
    pub fn size_hint(&self) -> usize {
        self.utilisation.ab.len() * 40
    }
}

/// By the sender's word, or where nobody reads that by the receiver's.
fn utilisation(sender: &End<'_>, receiver: &End<'_>, speed: i64) -> Option<f64> {
    let sent = sender.and_then(|(reading, rates)| Some((rates.transmit?, reading.bytes_per_second)));
    let received = || receiver.and_then(|(reading, rates)| Some((rates.receive?, reading.bytes_per_second)));
    let (rate, own_speed) = sent.or_else(received)?;
    share(rate, own_speed, speed)
}

fn waiting(sender: &End<'_>, speed: i64) -> Option<f64> {
    let (reading, rates) = (*sender)?;
    #[allow(clippy::cast_precision_loss)] // tens of bytes
    let bytes = rates.wait? * reading.tick_bytes? as f64;
    share(bytes, reading.bytes_per_second, speed)
}

/// A share of the speed that the port had when it was read, or else of the one that the link is said to have. At most
/// 1: readings are not all of one moment.
pub fn share(rate: f64, own_speed: Option<i64>, speed: i64) -> Option<f64> {
    let speed = own_speed.filter(|speed| *speed > 0).unwrap_or(speed);
    #[allow(clippy::cast_precision_loss)] // below 2^53
    (speed > 0).then(|| rounded((rate / speed as f64).min(1.0)))
}
