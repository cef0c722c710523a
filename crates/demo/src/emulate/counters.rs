//! From the kernel's counters of a device to those of a port. Pure.
//!
//! A TCP segment stands for a packet of InfiniBand. The kernel counts it with the headers of Ethernet, IP and TCP; a port
//! counts it with LRH, BTH and ICRC. So a port's data are the device's bytes, with the ones in place of the others.

use super::plan::{FRAME_HEADER_BYTES, port_of};
use crate::counters::{PortCounters, WORD_BYTES};
use serde::Deserialize;
use std::fmt::Write;
use std::time::Duration;
use throughline_sample::Guid;

/// Headers of a packet that a port counts: LRH (8), BTH (12) and ICRC (4), IBTA volume 1, table 212 and chapter 9.
pub const PACKET_HEADER_BYTES: u64 = 24;

/// Bytes that a link could have carried in one tick of PortXmitWait: at 20 Mbit/s the 32 bits of the counter last 30 hours of
/// waiting.
pub const TICK_BYTES: u32 = 64;

/// What the kernel counted on a device that stands for a port, since it was made. A virtual device counts what has left its
/// queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// With all headers.
    pub bytes: u64,
    /// Frames.
    pub packets: u64,
}

/// The queue of a device that stands for a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Bytes that wait in it now.
    pub backlog: u64,
    /// Packets that it lost: none, or the emulation is no fabric.
    pub drops: u64,
}

impl DeviceCounters {
    /// As a port of InfiniBand counts them: octets of PortXmitData.
    #[must_use]
    pub fn port_bytes(self) -> u64 {
        port_bytes(self.bytes, self.packets, FRAME_HEADER_BYTES)
    }
}

/// What a port counts for `bytes` in `packets` with so many bytes of headers each.
#[must_use]
pub fn port_bytes(bytes: u64, packets: u64, header_bytes: u64) -> u64 {
    (bytes + packets * PACKET_HEADER_BYTES).saturating_sub(packets * header_bytes)
}

/// Reads `/proc/PID/net/dev`: what each port of the namespace of that process sent. Devices with other names are left out.
#[must_use]
pub fn read_devices(text: &str) -> Vec<(u8, DeviceCounters)> {
    let device = |line: &str| {
        let (name, values) = line.split_once(':')?;
        // Eight values of what came in are before those of what went out (net/core/net-procfs.c).
        let mut values = values.split_whitespace().skip(8).map_while(|value| value.parse().ok());
        let sent = DeviceCounters { bytes: values.next()?, packets: values.next()? };
        Some((port_of(name.trim())?, sent))
    };
    text.lines().filter_map(device).collect()
}

/// Reads one line of `tc -s -j qdisc show`: the queue of each limited port.
///
/// # Errors
/// The line is not what tc prints.
pub fn read_queues(line: &str) -> Result<Vec<(u8, Queue)>, serde_json::Error> {
    #[derive(Deserialize)]
    struct PrintedQueue {
        kind: String,
        dev: String,
        #[serde(default)]
        backlog: u64,
        #[serde(default)]
        drops: u64,
    }
    let queues: Vec<PrintedQueue> = serde_json::from_str(line)?;
    let limited = queues.into_iter().filter(|queue| queue.kind == "tbf");
    Ok(limited
        .filter_map(|queue| {
            Some((port_of(&queue.dev)?, Queue { backlog: queue.backlog, drops: queue.drops }))
        })
        .collect())
}

/// Time in which a port had data and could not send it, in ticks of [`TICK_BYTES`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    ticks: f64,
}

impl Waiting {
    /// Counts a stretch at whose end `queue` was read.
    pub fn pass(&mut self, queue: Queue, elapsed: Duration, bytes_per_second: u64) {
        if queue.backlog > 0 {
            self.ticks += elapsed.as_secs_f64() * bytes_per_second as f64 / f64::from(TICK_BYTES);
        }
    }

    /// The counter, which sticks at its end.
    #[must_use]
    pub fn ticks(self) -> u32 {
        self.ticks.min(f64::from(u32::MAX)) as u32
    }
}

/// A port's counters: what it sent, and what the port at the other end did.
#[must_use]
pub fn port_counters(sent: DeviceCounters, received: DeviceCounters, waiting: Waiting) -> PortCounters {
    PortCounters {
        transmit_words: sent.port_bytes() / WORD_BYTES,
        receive_words: received.port_bytes() / WORD_BYTES,
        transmit_packets: sent.packets,
        receive_packets: received.packets,
        transmit_wait: waiting.ticks(),
    }
}

/// Commands that make the simulated fabric show these counters.
pub fn fabric_commands(guid: Guid, port: u8, values: &PortCounters, text: &mut String) {
    let counters = [
        ("PortXmitData", values.transmit_words),
        ("PortRcvData", values.receive_words),
        ("PortXmitPkts", values.transmit_packets),
        ("PortRcvPkts", values.receive_packets),
        ("PortUnicastXmitPkts", values.transmit_packets),
        ("PortUnicastRcvPkts", values.receive_packets),
        ("PortXmitWait", values.transmit_wait.into()),
    ];
    for (name, value) in counters {
        // Writing to a String can't fail.
        let _ = writeln!(text, "counter {guid} {port} {name} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As tc of iproute2 6.1 prints it.
    const LINE: &str = r#"[{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"refcnt":2,"options":{},"bytes":0,
        "packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"tbf","handle":"8001:",
        "dev":"p5","root":true,"refcnt":3,"options":{"rate":2500000,"burst":33280,"lat":3355433},"bytes":421400,
        "packets":100,"drops":0,"overlimits":7,"requeues":0,"backlog":8428,"qlen":2}]"#;

    /// As a kernel prints it.
    const DEVICES: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    1000      10    0    0    0     0          0         0     1000      10    0    0    0     0       0          0
    p5: 8000000    2000    0    0    0     0          0         0   421400     100    0    0    0     0       0          0
    m3:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
   p12:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
";

    #[test]
    fn queues_are_read() {
        let read = read_queues(&LINE.replace('\n', "")).unwrap();
        assert_eq!(read, [(5, Queue { backlog: 8428, drops: 0 })]);
        assert!(read_queues("Cannot open netlink socket").is_err());
    }

    #[test]
    fn a_full_packet_counts_as_on_infiniband() {
        let sent = DeviceCounters { bytes: 421_400, packets: 100 };
        assert_eq!(read_devices(DEVICES), [(5, sent), (12, DeviceCounters::default())]);
        let full = DeviceCounters { bytes: 100 * (4096 + FRAME_HEADER_BYTES), packets: 100 };
        assert_eq!(full.port_bytes(), 100 * (4096 + 24));
        // An acknowledgement without payload.
        assert_eq!(DeviceCounters { bytes: FRAME_HEADER_BYTES, packets: 1 }.port_bytes(), 24);
        assert_eq!(DeviceCounters::default().port_bytes(), 0);
        assert_eq!(read_devices("    p5: 1 2 3"), []);
    }

    #[test]
    fn both_ends_of_a_cable_count_the_same() {
        let (here, there) =
            (DeviceCounters { bytes: 4162 * 10, packets: 10 }, DeviceCounters { bytes: 66 * 5, packets: 5 });
        let (a, b) =
            (port_counters(here, there, Waiting::default()), port_counters(there, here, Waiting::default()));
        assert_eq!((a.transmit_words, a.receive_words), (b.receive_words, b.transmit_words));
        assert_eq!((a.transmit_packets, a.receive_packets), (b.receive_packets, b.transmit_packets));
        let mut text = String::new();
        fabric_commands(Guid(0x10), 3, &a, &mut text);
        assert!(text.starts_with("counter 0x0000000000000010 3 PortXmitData 10300\n"), "{text}");
    }

    #[test]
    fn only_time_with_a_queue_is_waiting() {
        let mut waiting = Waiting::default();
        let queued = Queue { backlog: 1, drops: 0 };
        waiting.pass(Queue::default(), Duration::from_secs(1), 2_500_000);
        assert_eq!(waiting.ticks(), 0);
        waiting.pass(queued, Duration::from_secs(2), 2_500_000);
        assert_eq!(waiting.ticks(), 2 * 2_500_000 / 64);
        waiting.pass(queued, Duration::from_secs(1_000_000), 2_500_000);
        assert_eq!(waiting.ticks(), u32::MAX);
    }
}
