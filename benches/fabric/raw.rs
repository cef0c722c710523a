//! The least that a sweep can cost: a single-threaded pipeline that sends, receives and throws away.
//!
//! No deadlines, no repetitions, no decoding, no records: the yardstick for what the crawler's engine adds.

use anyhow::Context;
use std::time::Duration;
use throughline_crawler::transport::{Arrival, Destination, Transport};
use throughline_infiniband::mad::{self, MAD_BYTES, NodeKind, Query, attribute};
use throughline_infiniband::topology::Topology;

/// Longest time without any reply: nothing is repeated, so a lost MAD ends the measurement.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything that one sweep asks for, in an order that goes round the nodes.
pub struct Raw {
    transport: Box<dyn Transport>,
    asks: Vec<(u16, u8, u16)>,
    window: usize,
}

impl Raw {
    /// PortCounters and PortCountersExtended of every port with a link and a LID.
    pub fn new(transport: Box<dyn Transport>, topology: &Topology, window: usize) -> Raw {
        let sets = [attribute::PORT_COUNTERS, attribute::PORT_COUNTERS_EXTENDED];
        let mut turns: Vec<(usize, (u16, u8, u16))> = Vec::new();
        for node in &topology.nodes {
            let mut of_switch = 0;
            for port in node.physical_ports() {
                let lid = node.lid_of(port);
                if port.info.is_none_or(|info| !info.is_linked()) || lid == 0 {
                    continue;
                }
                let first = if node.kind == NodeKind::Switch { of_switch } else { 0 };
                turns.extend(
                    sets.iter().enumerate().map(|(turn, set)| (first + turn, (lid, port.number, *set))),
                );
                of_switch += sets.len();
            }
        }
        turns.sort_by_key(|(turn, _)| *turn);
        Raw { transport, asks: turns.into_iter().map(|(_, ask)| ask).collect(), window }
    }

    /// MADs of a sweep.
    pub fn len(&self) -> usize {
        self.asks.len()
    }

    /// One sweep.
    pub fn sweep(&mut self) -> anyhow::Result<()> {
        let (mut sent, mut answered) = (0, 0);
        let mut mad = [0; MAD_BYTES];
        while answered < self.asks.len() {
            while sent < self.asks.len() && sent - answered < self.window {
                let (lid, port_select, attribute) = self.asks[sent];
                mad::build_performance_get(
                    &mut mad,
                    &Query { attribute, modifier: 0, port_select },
                    sent as u32,
                );
                self.transport.send(&mad, Destination::Lid { lid, service_level: 0 }, PATIENCE)?;
                sent += 1;
            }
            let mut arrival = self.transport.receive(&mut mad, Duration::ZERO)?;
            if arrival == Arrival::Nothing {
                self.transport.flush()?;
                arrival = self.transport.receive(&mut mad, PATIENCE)?;
            }
            anyhow::ensure!(arrival == Arrival::Reply, "{} of {} replies came", answered, self.asks.len());
            answered += 1;
        }
        mad::performance_data(&mad).first().context("a reply has data")?;
        Ok(())
    }
}
