//! Which links carry most: both directions of each cable from two readings of its ports, sorted. Pure; what was
//! not read is absent and comes last.

use crate::reading::PortReading;
use crate::topology::{PortEnd, Topology};
use crate::{reading::rates::PortRates, reading::rates::pairs, reading::rates::rates};
use std::cmp::Ordering;
use std::collections::HashMap;

/// What sorts links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Share of the link's speed in its busier direction.
    #[default]
    Utilisation,
    /// Bytes in both directions.
    Bytes,
    /// Packets in both directions.
    Packets,
    /// Waiting in its worse direction.
    Wait,
}

impl Order {
    /// All, in the order in which a key press goes through them.
    pub const ALL: [Order; 4] = [Order::Utilisation, Order::Bytes, Order::Packets, Order::Wait];

    /// The word on the command line and in headings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Order::Utilisation => "utilisation",
            Order::Bytes => "bytes",
            Order::Packets => "packets",
            Order::Wait => "wait",
        }
    }
}

/// One direction of a link, reported by its sender or, where that was not read, by its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direction {
    /// Data.
    pub bytes_per_second: Option<f64>,
    /// Share of the link's speed, 0 to 1.
    pub utilisation: Option<f64>,
    /// Packets.
    pub packets_per_second: Option<f64>,
    /// Share of the time in which the sender had data and could not send, where its tick is known.
    pub wait_ratio: Option<f64>,
    /// The same in the sender's ticks.
    pub wait_ticks_per_second: Option<f64>,
}

impl Direction {
    fn of(sender: Option<&PortRates>, receiver: Option<&PortRates>) -> Direction {
        let sent = |take: fn(&PortRates) -> Option<f64>| sender.and_then(take);
        let received = |take: fn(&PortRates) -> Option<f64>| receiver.and_then(take);
        Direction {
            bytes_per_second: sent(|rates| rates.transmit_bytes_per_second)
                .or_else(|| received(|rates| rates.receive_bytes_per_second)),
            utilisation: sent(|rates| rates.transmit_utilisation)
                .or_else(|| received(|rates| rates.receive_utilisation)),
            packets_per_second: sent(|rates| rates.transmit_packets_per_second)
                .or_else(|| received(|rates| rates.receive_packets_per_second)),
            // Only the sender knows that it waited.
            wait_ratio: sent(|rates| rates.wait_ratio),
            wait_ticks_per_second: sent(|rates| rates.wait_ticks_per_second),
        }
    }
}

/// A link and what went over it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkLoad {
    /// One end: the switch's, where there is one.
    pub a: PortEnd,
    /// The other end; `None` where it is not known.
    pub b: Option<PortEnd>,
    /// Its speed in one direction.
    pub rate_bytes_per_second: Option<u64>,
    /// From `a` to `b`.
    pub out: Direction,
    /// From `b` to `a`.
    pub back: Direction,
}

impl LinkLoad {
    /// The value that it is sorted by; `None` where nothing of it was read.
    fn key(&self, order: Order) -> Option<f64> {
        let of = |take: fn(&Direction) -> Option<f64>| [take(&self.out), take(&self.back)];
        let most = |values: [Option<f64>; 2]| values.into_iter().flatten().max_by(f64::total_cmp);
        let sum = |values: [Option<f64>; 2]| values.into_iter().flatten().reduce(|a, b| a + b);
        match order {
            Order::Utilisation => most(of(|direction| direction.utilisation)),
            Order::Bytes => sum(of(|direction| direction.bytes_per_second)),
            Order::Packets => sum(of(|direction| direction.packets_per_second)),
            Order::Wait => most(of(|direction| direction.wait_ratio))
                .or_else(|| most(of(|direction| direction.wait_ticks_per_second))),
        }
    }
}

/// The load of all links between two sweeps, the most loaded first.
#[must_use]
pub fn loads(
    topology: &Topology,
    before: &[PortReading],
    after: &[PortReading],
    order: Order,
) -> Vec<LinkLoad> {
    let mut of_port: HashMap<(usize, u8), PortRates> = HashMap::with_capacity(after.len());
    for (before, after) in pairs(before, after) {
        if let Some(rates) = rates(before, after) {
            of_port.insert((after.node, after.port), rates);
        }
    }
    let mut loads = Vec::with_capacity(after.len() / 2);
    for reading in after {
        let node = &topology.nodes[reading.node];
        let here = PortEnd { node: reading.node, port: reading.port };
        let there = node.port(reading.port).and_then(|port| port.remote);
        if there.is_some_and(|there| !topology.begins_at(here, there)) && is_swept(after, there) {
            continue;
        }
        let (own, other) =
            (of_port.get(&(here.node, here.port)), there.and_then(|end| of_port.get(&(end.node, end.port))));
        loads.push(LinkLoad {
            a: here,
            b: there,
            rate_bytes_per_second: reading.rate_bytes_per_second,
            out: Direction::of(own, other),
            back: Direction::of(other, own),
        });
    }
    sort(&mut loads, order);
    loads
}

/// Whether the sweep reads a port, so that its cable is reported from there.
fn is_swept(readings: &[PortReading], end: Option<PortEnd>) -> bool {
    // Readings are ordered by node and port.
    end.is_some_and(|end| {
        readings.binary_search_by_key(&(end.node, end.port), |reading| (reading.node, reading.port)).is_ok()
    })
}

/// Sorts by an order, the most loaded first; what was not read comes last, equal ones by their place.
pub fn sort(loads: &mut [LinkLoad], order: Order) {
    loads.sort_by(|a, b| {
        let by_key = match (a.key(order), b.key(order)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        by_key.then((a.a.node, a.a.port).cmp(&(b.a.node, b.a.port)))
    });
}
