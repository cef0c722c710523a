//! Counters of busy ports and links, as benches send and store them: half of the time bursts of 23 s at 20 to 94 % of the
//! link with 8 % noise, packets of 2 KiB give or take 2 %, waiting within bursts; else a little traffic of services. The same
//! as `benches/minutes.sh` makes in SQL. Deterministic for a number.

use throughline_sample::catalogue::*;
use throughline_sample::wire::Values;

/// Length of a burst or a pause.
const BURST_SECONDS: f64 = 23.0;

/// Bytes of a packet.
const PACKET_BYTES: u64 = 2048;

/// Metrics of a port of the fabric, as a crawler reads them from a switch with extended counters.
pub const PORT_METRICS: [&Metric; 23] = [
    &TRANSMIT_DATA_BYTES,
    &RECEIVE_DATA_BYTES,
    &TRANSMIT_PACKETS,
    &RECEIVE_PACKETS,
    &UNICAST_TRANSMIT_PACKETS,
    &UNICAST_RECEIVE_PACKETS,
    &TRANSMIT_WAIT,
    &TRANSMIT_WAIT_TICK_BYTES,
    &PORT_RATE_BYTES_PER_SECOND,
    &MULTICAST_TRANSMIT_PACKETS,
    &MULTICAST_RECEIVE_PACKETS,
    &SYMBOL_ERROR,
    &LINK_ERROR_RECOVERY,
    &LINK_DOWNED,
    &RECEIVE_ERRORS,
    &RECEIVE_REMOTE_PHYSICAL_ERRORS,
    &RECEIVE_SWITCH_RELAY_ERRORS,
    &TRANSMIT_DISCARDS,
    &TRANSMIT_CONSTRAINT_ERRORS,
    &RECEIVE_CONSTRAINT_ERRORS,
    &LOCAL_LINK_INTEGRITY_ERRORS,
    &EXCESSIVE_BUFFER_OVERRUN_ERRORS,
    &VL15_DROPPED,
];

/// The same of a host's own port.
pub const HOST_PORT_METRICS: [&Metric; 22] = [
    &PORT_DATA_TRANSMITTED_BYTES,
    &PORT_DATA_RECEIVED_BYTES,
    &PORT_PACKETS_TRANSMITTED,
    &PORT_PACKETS_RECEIVED,
    &UNICAST_PACKETS_TRANSMITTED,
    &UNICAST_PACKETS_RECEIVED,
    &PORT_TRANSMIT_WAIT,
    &STATE_ID,
    &RATE_BYTES_PER_SECOND,
    &MULTICAST_PACKETS_TRANSMITTED,
    &MULTICAST_PACKETS_RECEIVED,
    &HOST_SYMBOL_ERROR,
    &HOST_LINK_ERROR_RECOVERY,
    &HOST_LINK_DOWNED,
    &PORT_ERRORS_RECEIVED,
    &PORT_RECEIVE_REMOTE_PHYSICAL_ERRORS,
    &PORT_RECEIVE_SWITCH_RELAY_ERRORS,
    &PORT_DISCARDS_TRANSMITTED,
    &PORT_CONSTRAINT_ERRORS_TRANSMITTED,
    &PORT_CONSTRAINT_ERRORS_RECEIVED,
    &HOST_LOCAL_LINK_INTEGRITY_ERRORS,
    &HOST_VL15_DROPPED,
];

/// Metrics of an NVLink.
pub const NVLINK_METRICS: [&Metric; 7] = [
    &NVLINK_TRANSMIT_BYTES,
    &NVLINK_RECEIVE_BYTES,
    &NVLINK_SPEED_BYTES_PER_SECOND,
    &NVLINK_UP,
    &NVLINK_REPLAY_ERRORS,
    &NVLINK_RECOVERY_ERRORS,
    &NVLINK_CRC_ERRORS,
];

/// Counters of one port or link.
pub struct Load {
    number: u64,
    random: fastrand::Rng,
    rate: u64,
    sent: u64,
    received: u64,
    packets: [u64; 2],
    wait: u64,
}

impl Load {
    /// The one with this number, on a link of so many bytes a second.
    pub fn new(number: u64, rate: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(number + 1);
        let mut start = || random.u64(1 << 44..1 << 48);
        let (sent, received) = (start(), start());
        let packets = [sent / PACKET_BYTES, received / PACKET_BYTES];
        Self { number, random, rate, sent, received, packets, wait: 0 }
    }

    /// `seconds` pass until `time` (seconds since 1970).
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, below 2^53
    pub fn pass(&mut self, time: f64, seconds: f64) {
        let burst = (time / BURST_SECONDS) as u64;
        let chance = mix(self.number ^ burst << 32);
        let is_on = chance & 1 == 0;
        let level = (20 + (chance >> 8) % 75) as f64 / 100.0;
        let mut moved = [0; 2];
        for (moved, share) in moved.iter_mut().zip([1.0, 0.8]) {
            let noise = 0.92 + 0.16 * self.random.f64();
            let bytes = if is_on {
                self.rate as f64 * share * seconds * level * noise
            } else {
                2000.0 * seconds * self.random.f64()
            };
            // Counters of data count words of 4 bytes.
            *moved = bytes as u64 / 4 * 4;
        }
        for (packets, moved) in self.packets.iter_mut().zip(moved) {
            let share = 0.98 + 0.04 * self.random.f64();
            *packets += ((moved / PACKET_BYTES) as f64 * share) as u64 + 1;
        }
        if is_on {
            self.wait += (moved[0] as f64 * self.random.f64() / 80.0) as u64;
        }
        self.sent += moved[0];
        self.received += moved[1];
    }

    /// Values of [`PORT_METRICS`], or of [`HOST_PORT_METRICS`], in their order.
    pub fn port_values(&self) -> [u64; 23] {
        let mut values = [0; 23];
        let [sent, received] = self.packets;
        let wait = self.wait & u64::from(u32::MAX);
        let own = [self.sent, self.received, sent, received, sent, received, wait, 8, self.rate, 7, 11];
        values[..own.len()].copy_from_slice(&own);
        values
    }

    /// Values of [`NVLINK_METRICS`].
    pub fn link_values(&self) -> [u64; 7] {
        [self.sent, self.received, self.rate, 1, 0, 0, 0]
    }

    /// Bytes sent and received.
    pub fn bytes(&self) -> [u64; 2] {
        [self.sent, self.received]
    }
}

/// A record's values of these metrics.
pub fn record(metrics: &[&'static Metric], values: &[u64]) -> Option<Values> {
    let mut all = Values::default();
    metrics.iter().zip(values).for_each(|(metric, value)| all.put(metric, *value));
    Some(all)
}

/// A number that looks random: the finaliser of SplitMix64.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
