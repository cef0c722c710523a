//! What agents report beside GPUs and MPI: adapter ports, events, internal metrics.

use super::{SECOND, TICK_SECONDS, TICKS, tick_time};
use throughline_sample::catalogue::{self as c, Metric};
use throughline_sample::wire::{Batch, Coverage, Event, HostPortSample, SelfStat, Values};

/// EDR x4 after coding, in bytes per second.
const EDR: u64 = 12_121_212_121;
/// Node GUID of the first node's adapter; each other node has the next.
const FIRST_GUID: u64 = 0xc0;

/// The batches of one node.
pub fn batches(end: i64, node: u32, name: &str) -> Vec<Batch> {
    let mut batches: Vec<Batch> = (0..TICKS).map(|tick| round(end, tick, node, name)).collect();
    let event = |tick: i64, kind: &str, severity: &str, text: &str| Event {
        time: tick_time(end, tick) + SECOND,
        source: String::from("mpi"),
        kind: kind.to_owned(),
        severity: severity.to_owned(),
        text: format!("{name}: {text}"),
        job_key: super::node::JOB.to_owned(),
        ..Event::default()
    };
    batches.push(Batch {
        node: name.to_owned(),
        events: vec![
            event(20, "job.started", "info", "the first rank of the job"),
            event(30, "source.down", "warning", "dcgm can't be read"),
        ],
        ..Batch::default()
    });
    batches
}

/// Events that the crawler reports of the first leaf: a cable to its first host, and one to the first spine.
pub fn events_of_fabric(end: i64) -> Vec<Event> {
    let event = |tick: i64, kind: &str, severity: &str, port: u32, remote: (u64, u32)| Event {
        time: tick_time(end, tick) + 2 * SECOND,
        source: String::from("mad"),
        kind: kind.to_owned(),
        severity: severity.to_owned(),
        text: format!("leaf 1 port {port}"),
        ib_guid: 0xa1,
        ib_port: port,
        remote_ib_guid: remote.0,
        remote_ib_port: remote.1,
        before: String::from("Active"),
        after: String::from("Down"),
        ..Event::default()
    };
    vec![event(15, "link.down", "error", 1, (0xc0, 1)), event(16, "link.width", "warning", 5, (0xb1, 1))]
}

fn round(end: i64, tick: i64, node: u32, name: &str) -> Batch {
    let time = tick_time(end, tick);
    let since = (60 + tick * TICK_SECONDS).cast_unsigned();
    let mut values = Values::default();
    values.put(&c::PORT_DATA_TRANSMITTED_BYTES, since * EDR / 2);
    values.put(&c::PORT_DATA_RECEIVED_BYTES, since * EDR / 4);
    values.put(&c::PORT_TRANSMIT_WAIT, since * 1000);
    for metric in [&c::HOST_SYMBOL_ERROR, &c::HOST_LINK_DOWNED, &c::PORT_ERRORS_RECEIVED] {
        values.put(metric, 0);
    }
    values.put(&c::RATE_BYTES_PER_SECOND, EDR);
    let port = HostPortSample {
        time,
        epoch: end - 3600 * SECOND,
        device: String::from("mlx5_0"),
        port: 1,
        node_guid: FIRST_GUID + u64::from(node),
        port_guid: 0,
        values: Some(values),
        source: String::from("sysfs"),
    };
    let coverage = Coverage {
        time,
        source: String::from("sysfs"),
        expected: 1,
        read: 1,
        elapsed_seconds: 0.001,
        ..Coverage::default()
    };
    let stat = |source: &str, metric: &Metric, value: f64| SelfStat {
        time,
        source: source.to_owned(),
        name: metric.name.to_owned(),
        value,
        ..SelfStat::default()
    };
    let ticks = (tick + 1) as f64;
    Batch {
        node: name.to_owned(),
        host_ports: vec![port],
        coverage: vec![coverage],
        self_stats: vec![
            stat("sysfs", &c::SOURCE_UP, 1.0),
            stat("sysfs", &c::RECORDS, ticks),
            SelfStat { label: "disk_full".into(), ..stat("spool", &c::ENTRIES_DISCARDED, 0.0) },
            stat("spool", &c::SPOOL_BYTES, 4096.0 * f64::from(node + 1)),
            stat("delivery", &c::DELIVERY_LAG_SECONDS, 0.4),
            stat("clock", &c::CLOCK_ERROR_SECONDS, 1e-5),
            stat("collect", &c::ROWS_WRITTEN, 1000.0 * ticks),
            SelfStat { label: "quarantined".into(), ..stat("collect", &c::ENTRIES_REJECTED, 0.0) },
            stat("collect", &c::LAST_COMMIT_SECONDS, 0.02),
            stat("upkeep", &c::DATABASE_BYTES, 1e9 + ticks),
            stat("upkeep", &c::ROLLUP_LAG_SECONDS, 170.0),
            stat("link_shares", &c::LINK_SHARE_LAG_SECONDS, 25.0),
        ],
        ..Batch::default()
    }
}
