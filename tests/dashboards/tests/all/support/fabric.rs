//! Two spines, two leaves, eight hosts: ports 1 to 4 of a leaf go to hosts, 5 and 6 to the spines.

use super::{SECOND, TICK_SECONDS, TICKS, tick_time};
use throughline_sample::catalogue as c;
use throughline_sample::wire::{
    Batch, Coverage, IbNodeInfo, IbPortInfo, IbPortSample, IbTopologyMark, SelfStat, Values,
};

const PREFIX: u64 = 0xfe80_0000_0000_0000;
/// EDR x4 after coding, in bytes per second.
const EDR: u64 = 12_121_212_121;
/// HDR x4 after coding.
const HDR: u64 = 24_242_424_242;
const LEAVES: [u64; 2] = [0xa1, 0xa2];
const SPINES: [u64; 2] = [0xb1, 0xb2];
const HOSTS_PER_LEAF: u64 = 4;

/// The sending ports that are over 90 % of their own rate for the whole time, and none else.
pub const DRIVEN_PORTS: [(u64, u32); 3] = [(0xa1, 5), (0xb2, 1), (0xc3, 1)];

/// One sending port: its other end and how busy it is.
struct Port {
    guid: u64,
    port: u32,
    remote: (u64, u32),
    rate: u64,
}

fn host(leaf: usize, number: u64) -> u64 {
    0xc0 + leaf as u64 * HOSTS_PER_LEAF + number
}

fn ports() -> Vec<Port> {
    let mut ports = Vec::new();
    let mut cable = |a: (u64, u32), b: (u64, u32), rate| {
        for ((guid, port), remote) in [(a, b), (b, a)] {
            ports.push(Port { guid, port, remote, rate });
        }
    };
    for (leaf, guid) in LEAVES.into_iter().enumerate() {
        for number in 0..HOSTS_PER_LEAF {
            // One host has a faster link: as many bytes as a driven one, half of its speed.
            let rate = if host(leaf, number) == 0xc6 { HDR } else { EDR };
            cable((guid, 1 + u32::try_from(number).unwrap()), (host(leaf, number), 1), rate);
        }
        for (spine, other) in SPINES.into_iter().enumerate() {
            let (up, down) = (5 + u32::try_from(spine).unwrap(), 1 + u32::try_from(leaf).unwrap());
            cable((guid, up), (other, down), EDR);
        }
    }
    ports
}

/// Share of EDR's rate that a port (node GUID, number) sends in one tick.
pub type Load = fn((u64, u32), i64) -> f64;

/// The load of [`super::Seed::make`].
pub fn usual_load(at: (u64, u32), tick: i64) -> f64 {
    match at {
        _ if DRIVEN_PORTS.contains(&at) => 0.95,
        // In the hysteresis band, without having been above it.
        (0xa2, 6) | (0xb1, 2) => 0.85,
        // As many bytes as a driven port, on a link of twice the speed.
        (0xc6, 1) => 0.95,
        // Over the threshold, but only for the last three minutes.
        (0xc1, 1) if tick >= TICKS - 18 => 0.97,
        // Over the threshold until five minutes ago.
        (0xc2, 1) if tick < TICKS - 30 => 0.97,
        (guid, number) => 0.05 + ((guid + u64::from(number)) % 5) as f64 * 0.05,
    }
}

fn is_switch(guid: u64) -> bool {
    guid < 0xc0
}

pub fn batches(end: i64, load: Load) -> Vec<Batch> {
    let ports = ports();
    let mut sent = vec![0_u64; ports.len()];
    let mut batches = vec![topology(end, &ports)];
    for tick in 0..TICKS {
        for (bytes, port) in sent.iter_mut().zip(&ports).filter(|_| tick > 0) {
            // Whole 4-byte words, as the hardware counts.
            *bytes += (load((port.guid, port.port), tick) * EDR as f64) as u64 * TICK_SECONDS.cast_unsigned()
                / 4
                * 4;
        }
        let sample = |(at, port): (usize, &Port)| {
            let remote = ports.iter().position(|other| (other.guid, other.port) == port.remote).unwrap();
            sample(end, tick, port, sent[at], sent[remote])
        };
        let samples: Vec<IbPortSample> = ports.iter().enumerate().map(sample).collect();
        batches.push(round(end, tick, samples));
    }
    batches
}

fn sample(end: i64, tick: i64, port: &Port, sent: u64, received: u64) -> IbPortSample {
    let mut values = Values::default();
    // One counter begins shortly before the end of its 63 bits and starts again at 0.
    let offset = if (port.guid, port.port) == (0xa1, 1) { (1 << 63) - 4_000_000_000 } else { 0 };
    values.put(&c::TRANSMIT_DATA_BYTES, sent + offset);
    values.put(&c::RECEIVE_DATA_BYTES, received);
    values.put(&c::TRANSMIT_PACKETS, sent / 4096);
    values.put(&c::RECEIVE_PACKETS, received / 4096);
    let mut saturated = Vec::new();
    if (port.guid, port.port) == (0xa2, 3) {
        saturated.push(c::TRANSMIT_WAIT.id);
    } else {
        values.put(&c::TRANSMIT_WAIT, sent / 100_000);
    }
    values.put(&c::FEC_UNCORRECTED_BLOCKS, 0);
    values.put(&c::FEC_CORRECTED_SYMBOLS, 0);
    let errors = if (port.guid, port.port) == (0xa1, 2) { tick.cast_unsigned() } else { 0 };
    for metric in c::Table::IbPortCounters.metrics().iter().filter(|metric| (10..=22).contains(&metric.id)) {
        values.put(metric, if metric.id == c::SYMBOL_ERROR.id { errors } else { 0 });
    }
    values.put(&c::PORT_RATE_BYTES_PER_SECOND, port.rate);
    values.put(&c::TRANSMIT_WAIT_TICK_BYTES, 64);
    IbPortSample {
        time: tick_time(end, tick),
        epoch: end - 3600 * SECOND,
        node_guid: port.guid,
        port: port.port,
        values: Some(values),
        saturated,
        source: String::from("mad"),
    }
}

fn round(end: i64, tick: i64, ib_ports: Vec<IbPortSample>) -> Batch {
    let time = tick_time(end, tick);
    let read = ib_ports.len() as u64;
    let coverage = Coverage {
        time,
        source: String::from("mad"),
        expected: read,
        read,
        elapsed_seconds: 0.01,
        ..Coverage::default()
    };
    let stat = |source: &str, metric: &c::Metric, value: f64| SelfStat {
        time,
        source: source.to_owned(),
        name: metric.name.to_owned(),
        value,
        ..SelfStat::default()
    };
    let records = (tick + 1) as f64 * read as f64;
    let ended = (time / SECOND) as f64;
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_ports,
        coverage: vec![coverage],
        self_stats: vec![
            stat("mad", &c::SOURCE_UP, 1.0),
            stat("mad", &c::RECORDS, records),
            stat("mad", &c::LAST_ROUND_TIMESTAMP_SECONDS, ended),
            stat("mad", &c::LARGEST_GAP_SECONDS, 75.0),
            stat("spool", &c::RECORDS, (tick + 1) as f64),
            SelfStat { label: "disk_full".into(), ..stat("spool", &c::ENTRIES_DISCARDED, 0.0) },
            stat("mad", &c::MADS_SENT, records),
            stat("mad", &c::MAD_TIMEOUTS, 0.0),
        ],
        ..Batch::default()
    }
}

fn topology(end: i64, ports: &[Port]) -> Batch {
    let generation = tick_time(end, 0) - 60 * SECOND;
    let mut guids: Vec<u64> = ports.iter().map(|port| port.guid).collect();
    guids.sort_unstable();
    guids.dedup();
    let node = |guid: &u64| IbNodeInfo {
        generation,
        guid: *guid,
        r#type: if is_switch(*guid) { "switch" } else { "ca" }.to_owned(),
        description: name(*guid),
        lid: u32::try_from(*guid).unwrap(),
        system_guid: *guid,
        ports: ports.iter().filter(|port| port.guid == *guid).map(port_info).collect(),
        linear_forwarding_table: forwarding_table(*guid),
        ..IbNodeInfo::default()
    };
    let ib_nodes: Vec<IbNodeInfo> = guids.iter().map(node).collect();
    let mark = IbTopologyMark {
        generation,
        time: generation,
        nodes: u32::try_from(ib_nodes.len()).unwrap(),
        links: u32::try_from(ports.len() / 2).unwrap(),
    };
    let events = super::host::events_of_fabric(end);
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_nodes,
        ib_topology_marks: vec![mark],
        events,
        ..Batch::default()
    }
}

/// The output port for each LID, which is the GUID of the fabric's nodes: hosts of the other leaf by the spine of their
/// number, even or odd.
fn forwarding_table(guid: u64) -> Vec<u8> {
    let hosts = HOSTS_PER_LEAF * LEAVES.len() as u64;
    let out = |lid: u64| {
        let Some(number) = lid.checked_sub(0xc0).filter(|number| *number < hosts) else { return 255 };
        let leaf = number / HOSTS_PER_LEAF;
        let port = match guid {
            0xb0..0xc0 => 1 + leaf,
            own if own == 0xa1 + leaf => 1 + number % HOSTS_PER_LEAF,
            _ => 5 + number % 2,
        };
        u8::try_from(port).unwrap()
    };
    if is_switch(guid) { (0..0xc0 + hosts).map(out).collect() } else { Vec::new() }
}

fn port_info(port: &Port) -> IbPortInfo {
    IbPortInfo {
        port: port.port,
        port_guid: port.guid + u64::from(port.port),
        lid: u32::try_from(port.guid).unwrap(),
        state: String::from("Active"),
        width: if (port.guid, port.port) == (0xa2, 2) { "2X" } else { "4X" }.to_owned(),
        speed: if port.rate == HDR { "50.0 Gbps" } else { "25.78125 Gbps" }.to_owned(),
        rate_bytes_per_second: port.rate,
        remote_guid: Some(port.remote.0),
        remote_port: Some(port.remote.1),
        physical_state: String::from("LinkUp"),
        ..IbPortInfo::default()
    }
}

/// Node description.
fn name(guid: u64) -> String {
    match guid {
        0xa0..0xb0 => format!("leaf {}", guid - 0xa0),
        0xb0..0xc0 => format!("spine {}", guid - 0xb0),
        _ => format!("n{} mlx5_0", guid - 0xc0),
    }
}
