//! The port counters that the demo writes: cumulative, monotonic, the same at both ends of every cable.
//!
//! Pure bookkeeping: what to write where is decided here, writing is done elsewhere.

use super::flows::{Link, Load, PortId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes in the unit of PortXmitData and PortRcvData (IBTA volume 1, 16.1.3.5: 32-bit words).
pub const WORD_BYTES: u64 = 4;

/// Payload of a full packet at the usual 4 KiB MTU, to make packet counts of byte counts.
const PACKET_BYTES: f64 = 4096.0;

/// Bytes that a link could have carried in one tick of PortXmitWait. Ibsim does not report it, so the crawler's
/// configuration has it. Real switches count far faster (8 bytes); the counter has 32 bits and sticks at its
/// end, which a port of 100 Gb/s reaches in 6 hours of waiting.
pub const WAIT_TICK_BYTES: u32 = 65_536;

/// Where cumulative data begins, in words and packets. The simulator counts its own MADs (72 words a hop) on
/// every port until the demo takes the port over; from there on, counters must not step back, or the crawler
/// rightly sees a clear by others. Far above what discovery leaves behind on a port, and 16 MiB only: the step
/// up to it is a tenth of a link's speed for a second.
const FIRST_WORDS: u64 = 1 << 22;
const FIRST_PACKETS: u64 = 1 << 16;

/// What every advance adds to each direction beside the traffic, in words and packets: the simulator adds its
/// MADs to a port between two writes, and a write that added less would step back. One sweep and discovery of
/// the nodes behind a port is at most a few hundred MADs of 72 words. At 20 writes a second these are 2.6 MB/s,
/// 2 % of what a link of the demo carries; shares of links show them as somebody unmonitored.
const MANAGEMENT_WORDS: u64 = 32_768;
const MANAGEMENT_PACKETS: u64 = 512;

/// [`MANAGEMENT_WORDS`] in bytes per second.
pub const MANAGEMENT_BYTES_PER_SECOND: u32 = 32_768 * 4 * 20;

/// Counters of one port as a PMA reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// PortXmitData, in words.
    pub transmit_words: u64,
    /// PortRcvData, in words.
    pub receive_words: u64,
    /// PortXmitPkts and PortUnicastXmitPkts.
    pub transmit_packets: u64,
    /// PortRcvPkts and PortUnicastRcvPkts.
    pub receive_packets: u64,
    /// PortXmitWait, at most 2^32 - 1, where it sticks.
    pub transmit_wait: u32,
}

/// The ports at both ends of a set of links.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    ports: BTreeMap<PortId, PortCounters>,
    /// What did not fill a word, packet or tick yet, per link.
    rest: Vec<CounterRemainder>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CounterRemainder {
    words: f64,
    packets: f64,
    ticks: f64,
}

impl Counters {
    /// Ports of these links at their first values.
    pub fn new(links: &[Link]) -> Self {
        let first = PortCounters {
            transmit_words: FIRST_WORDS,
            receive_words: FIRST_WORDS,
            transmit_packets: FIRST_PACKETS,
            receive_packets: FIRST_PACKETS,
            transmit_wait: 0,
        };
        let ports = links.iter().flat_map(|link| [(link.id.from, first), (link.id.to, first)]).collect();
        Self { ports, rest: vec![CounterRemainder::default(); links.len()] }
    }

    /// Lets `elapsed` pass under these loads (one for each of the links that [`Counters::new`] got).
    pub fn advance(&mut self, links: &[Link], loads: &[Load], elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        // Both directions of every cable, also of one that carries traffic in one direction only.
        for port in self.ports.values_mut() {
            port.transmit_words += MANAGEMENT_WORDS;
            port.receive_words += MANAGEMENT_WORDS;
            port.transmit_packets += MANAGEMENT_PACKETS;
            port.receive_packets += MANAGEMENT_PACKETS;
        }
        for ((link, load), rest) in links.iter().zip(loads).zip(&mut self.rest) {
            let bytes = load.carried * seconds;
            let words = whole(&mut rest.words, bytes / WORD_BYTES as f64);
            let packets = whole(&mut rest.packets, bytes / PACKET_BYTES);
            let ticks = whole(
                &mut rest.ticks,
                load.waiting * seconds * link.bytes_per_second / f64::from(WAIT_TICK_BYTES),
            );
            let from = self.ports.entry(link.id.from).or_default();
            from.transmit_words += words;
            from.transmit_packets += packets;
            from.transmit_wait = from.transmit_wait.saturating_add(u32::try_from(ticks).unwrap_or(u32::MAX));
            let to = self.ports.entry(link.id.to).or_default();
            to.receive_words += words;
            to.receive_packets += packets;
        }
    }

    /// All ports with their values.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, PortCounters)> {
        self.ports.iter().map(|(port, counters)| (*port, *counters))
    }

    /// One port's values.
    pub fn port(&self, port: PortId) -> Option<PortCounters> {
        self.ports.get(&port).copied()
    }
}

/// Takes the whole part of `rest + more` and keeps the fraction.
fn whole(rest: &mut f64, more: f64) -> u64 {
    let sum = *rest + more;
    let whole = sum.floor();
    *rest = sum - whole;
    whole as u64 // Never negative: loads and durations are not.
}

/// Lines for ibsim's console that set a port: data always, the slower-moving rest only when `all`.
///
/// `node` is the node's identifier in the net file, without quotes.
pub fn console_lines(node: &str, port: u8, values: &PortCounters, all: bool, out: &mut String) {
    let mut set = |field: &str, value: u64| {
        out.push_str(&format!("PerformanceSet \"{node}\"[{port}] {field}={value}\n"));
    };
    set("PortCountersExtended.PortXmitData", values.transmit_words);
    set("PortCountersExtended.PortRcvData", values.receive_words);
    if all {
        set("PortCountersExtended.PortXmitPkts", values.transmit_packets);
        set("PortCountersExtended.PortRcvPkts", values.receive_packets);
        set("PortCountersExtended.PortUnicastXmitPkts", values.transmit_packets);
        set("PortCountersExtended.PortUnicastRcvPkts", values.receive_packets);
        set("PortCounters.PortXmitWait", values.transmit_wait.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::tests::{SPEED, two_leaves};

    #[test]
    fn both_ends_of_every_cable_count_the_same() {
        let network = two_leaves();
        let mut counters = Counters::new(network.links());
        let mut demand = vec![vec![0.0; 4]; 4];
        demand[0][1] = 3.0 * SPEED;
        demand[2][3] = 0.3 * SPEED;
        demand[3][0] = 0.07 * SPEED;
        let loads = network.load(&demand);
        for _ in 0..100 {
            counters.advance(network.links(), &loads, Duration::from_millis(13));
        }
        for (link, load) in network.links().iter().zip(&loads) {
            let from = counters.port(link.id.from).unwrap();
            let to = counters.port(link.id.to).unwrap();
            assert_eq!(from.transmit_words, to.receive_words);
            assert_eq!(from.transmit_packets, to.receive_packets);
            let traffic = from.transmit_words - FIRST_WORDS - 100 * MANAGEMENT_WORDS;
            let expected = load.carried * 1.3 / WORD_BYTES as f64;
            assert!((traffic as f64 - expected).abs() <= 1.0, "{traffic} words, expected {expected}");
        }
    }

    #[test]
    fn counters_never_step_back_and_a_full_wait_counter_sticks() {
        let network = two_leaves();
        let mut counters = Counters::new(network.links());
        let mut demand = vec![vec![0.0; 4]; 4];
        demand[0][1] = 2.0 * SPEED;
        let mut before: Vec<_> = counters.ports().collect();
        for step in 0..5 {
            let factor = if step % 2 == 0 { 0.0 } else { 1.0 };
            let loads = network.load(&crate::flows::scaled(&demand, factor));
            counters.advance(network.links(), &loads, Duration::from_secs(2000));
            let after: Vec<_> = counters.ports().collect();
            for ((_, old), (_, new)) in before.iter().zip(&after) {
                assert!(new.transmit_words > old.transmit_words && new.receive_words > old.receive_words);
                assert!(new.transmit_wait >= old.transmit_wait);
            }
            before = after;
        }
        counters.advance(network.links(), &network.load(&demand), Duration::from_secs(1_000_000_000_000));
        assert!(counters.ports().any(|(_, values)| values.transmit_wait == u32::MAX));
    }

    #[test]
    fn console_lines_name_node_port_and_field() {
        let values =
            PortCounters { transmit_words: 5, receive_words: 6, transmit_wait: 7, ..Default::default() };
        let mut text = String::new();
        console_lines("S-1", 3, &values, false, &mut text);
        assert_eq!(
            text,
            "PerformanceSet \"S-1\"[3] PortCountersExtended.PortXmitData=5\n\
             PerformanceSet \"S-1\"[3] PortCountersExtended.PortRcvData=6\n"
        );
        console_lines("S-1", 3, &values, true, &mut text);
        assert!(text.ends_with("PortCounters.PortXmitWait=7\n"));
    }
}
