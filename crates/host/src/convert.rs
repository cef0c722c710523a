//! Texts of sysfs to records. Pure: no I/O, no clock.
//!
//! Counters become base units (a word is 4 bytes), a value that can't be known is absent with a counted reason,
//! and counters that went backwards, or an adapter that came back as another object, begin a new epoch.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use throughline_sample::catalogue::{self, Kind, Metric};
use throughline_sample::wire;

use crate::pcie;
use crate::rate;
use crate::sysfs::{Adapter, Port, Tree, file_and_factor};

/// The name of this source in records.
pub const SOURCE: &str = "sysfs";

/// Logical state of a port that carries data (IBTA PortInfo.PortState).
const ACTIVE: u64 = 4;

/// Width in bits of the counters that the performance management agent keeps small (IBTA 16.1.3.5,
/// PortCounters). They stick at their largest value, so that value means "this or more". All others have 32
/// bits, or 64 where the adapter has extended counters.
const NARROW_BITS: [(&str, u32); 12] = [
    ("symbol_error", 16),
    ("link_error_recovery", 8),
    ("link_downed", 8),
    ("port_errors_received", 16),
    ("port_receive_remote_physical_errors", 16),
    ("port_receive_switch_relay_errors", 16),
    ("port_discards_transmitted", 16),
    ("port_constraint_errors_transmitted", 8),
    ("port_constraint_errors_received", 8),
    ("local_link_integrity_errors", 4),
    ("excessive_buffer_overrun_errors", 4),
    ("vl15_dropped", 16),
];

/// Stores what is needed to distinguish a reset from traffic.
#[derive(Default)]
pub struct Converter {
    ports: HashMap<(String, u32), PortMemory>,
    /// Ports that were there and are gone.
    gone: BTreeSet<(String, u32)>,
}

/// Ports that are gone, whose return is an event: more than any host has.
const GONE_MAX: usize = 1024;

#[derive(Default)]
struct PortMemory {
    epoch: i64,
    instance: u64,
    last: HashMap<u32, u64>,
    active: Option<bool>,
    node_guid: u64,
}

/// What one look at the tree became.
#[derive(Debug, Default, PartialEq)]
pub struct ConvertedTree {
    /// The records.
    pub batch: wire::Batch,
    /// Values that are absent, by reason.
    pub absent: BTreeMap<&'static str, u64>,
}

impl Converter {
    /// Makes records of a tree that was read at `time` (UTC nanoseconds) in `elapsed_seconds`.
    pub fn convert(&mut self, tree: &Tree, time: i64, elapsed_seconds: f64) -> ConvertedTree {
        let mut converted = ConvertedTree::default();
        let mut read = 0;
        if tree.left_out > 0 {
            converted.absent.insert("too_many_ports", tree.left_out);
        }
        for adapter in &tree.adapters {
            for port in &adapter.ports {
                read += self.port(adapter, port, time, &mut converted);
            }
        }
        let there = |device: &str, port: u32| {
            let adapter = tree.adapters.iter().find(|adapter| adapter.device == device);
            adapter.is_some_and(|adapter| adapter.ports.iter().any(|found| found.port == port))
        };
        let mut gone: Vec<_> = self.ports.extract_if(|(device, port), _| !there(device, *port)).collect();
        gone.sort_by(|(a, _), (b, _)| a.cmp(b));
        for ((device, port), memory) in gone {
            let text =
                "the port is gone: its adapter has left the bus, or its driver was unloaded; see dmesg";
            let names = (device.as_str(), port, memory.node_guid);
            converted.batch.events.push(event(names, time, "port.gone", "warning", text));
            if self.gone.len() < GONE_MAX {
                self.gone.insert((device, port));
            }
        }
        let failed: u64 = converted.absent.values().sum();
        converted.batch.coverage.push(wire::Coverage {
            time,
            source: SOURCE.to_owned(),
            expected: read + failed,
            read,
            failed,
            elapsed_seconds,
            reasons: converted.absent.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
            ..wire::Coverage::default()
        });
        converted
    }

    /// Converts one port; gives the number of values read.
    fn port(&mut self, adapter: &Adapter, port: &Port, time: i64, into: &mut ConvertedTree) -> u64 {
        let mut values = wire::Values::default();
        let mut counters = Vec::new();
        let mut active = None;
        for (metric, text) in &port.metrics {
            match text.as_deref().map_err(|reason| *reason).and_then(|text| value(metric, text)) {
                Ok(number) => {
                    values.put(metric, number);
                    if metric.kind == Kind::Counter {
                        counters.push((metric.id, number));
                    }
                    if **metric == catalogue::STATE_ID {
                        active = Some(number == ACTIVE);
                    }
                }
                Err(reason) => *into.absent.entry(reason).or_default() += 1,
            }
        }
        let read = values.metric.len() as u64;
        // A port without anything that could be read has no sample: the coverage record says why.
        if read == 0 {
            return 0;
        }
        let key = (adapter.device.clone(), port.port);
        let node_guid = adapter.node_guid.map_or(0, |guid| guid.0);
        let names = (adapter.device.as_str(), port.port, node_guid);
        if self.gone.remove(&key) {
            into.batch.events.push(event(names, time, "port.back", "info", "the port is there again"));
        }
        let memory = self.ports.entry(key).or_default();
        memory.node_guid = node_guid;
        if let Some(text) = memory.advance(adapter.instance, time, &counters) {
            into.batch.events.push(event(names, time, "counter.cleared", "info", text));
        }
        if let Some((kind, severity, text)) = memory.state(active) {
            into.batch.events.push(event(names, time, kind, severity, text));
        }
        into.batch.host_ports.push(wire::HostPortSample {
            time,
            epoch: memory.epoch,
            device: adapter.device.clone(),
            port: port.port,
            values: Some(values),
            node_guid,
            source: SOURCE.to_owned(),
            port_guid: port.guid.map_or(0, |guid| guid.0),
        });
        read
    }
}

impl PortMemory {
    /// Takes counters in; gives a text if they began anew after having been read before.
    fn advance(&mut self, instance: u64, time: i64, counters: &[(u32, u64)]) -> Option<&'static str> {
        let known = self.epoch != 0;
        let replaced = known && self.instance != instance;
        let backwards =
            counters.iter().any(|(metric, value)| self.last.get(metric).is_some_and(|last| value < last));
        if !known || replaced || backwards {
            self.last.clear();
            self.epoch = time;
        }
        self.instance = instance;
        self.last.extend(counters.iter().copied());
        match (replaced, backwards) {
            (true, _) => Some("the adapter came back as another object: its driver was reloaded"),
            (false, true) => Some("a counter went backwards: somebody cleared it"),
            (false, false) => None,
        }
    }

    /// Takes the state in; gives an event if it changed.
    fn state(&mut self, active: Option<bool>) -> Option<(&'static str, &'static str, &'static str)> {
        let active = active?;
        let before = self.active.replace(active);
        match (before, active) {
            (Some(true), false) => Some(("link.down", "warning", "the port is not active any more")),
            (Some(false), true) => Some(("link.up", "info", "the port is active again")),
            _ => None,
        }
    }
}

/// The number in a file, in base units, or the reason why there is none.
///
/// # Errors
/// The reason under which the absent value is counted.
pub fn value(metric: &Metric, text: &str) -> Result<u64, &'static str> {
    // What the kernel prints for an adapter without a performance management agent: "N/A (no PMA)".
    if text.starts_with("N/A") {
        return Err("no_pma");
    }
    if *metric == catalogue::RATE_BYTES_PER_SECOND {
        return rate::bytes_per_second(text).ok_or("not_a_rate");
    }
    if *metric == catalogue::PCIE_BYTES_PER_SECOND {
        return pcie::bytes_per_second(text).ok_or("not_a_rate");
    }
    // State files hold "4: ACTIVE".
    let number = if metric.kind == Kind::Gauge { text.split(':').next().unwrap_or(text) } else { text };
    let number: u64 = number.trim().parse().map_err(|_| "not_a_number")?;
    if metric.kind == Kind::Counter && is_saturated(metric, number) {
        return Err("saturated");
    }
    Ok(number.wrapping_mul(file_and_factor(metric).1))
}

fn is_saturated(metric: &Metric, number: u64) -> bool {
    let narrow = NARROW_BITS.iter().find(|(name, _)| *name == metric.name);
    let bits = narrow.map_or(32, |(_, bits)| *bits);
    number == (1 << bits) - 1
}

/// An event of a port by its adapter's name, number and node GUID.
fn event(
    (device, port, node_guid): (&str, u32, u64),
    time: i64,
    kind: &str,
    severity: &str,
    text: &str,
) -> wire::Event {
    wire::Event {
        time,
        source: SOURCE.to_owned(),
        kind: kind.to_owned(),
        severity: severity.to_owned(),
        text: format!("{device} port {port}: {text}"),
        ib_guid: node_guid,
        ib_port: port,
        ..wire::Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::Guid;
    use throughline_sample::catalogue::{
        HOST_LINK_DOWNED, HOST_SYMBOL_ERROR, PHYSICAL_STATE_ID, PORT_DATA_TRANSMITTED_BYTES,
        PORT_TRANSMIT_WAIT, RATE_BYTES_PER_SECOND, STATE_ID, Table,
    };

    fn tree(instance: u64, texts: &[(&'static Metric, &str)]) -> Tree {
        let metrics = texts.iter().map(|(metric, text)| (*metric, Ok((*text).to_owned()))).collect();
        let (link_layer, lid) = (Ok("InfiniBand".into()), Ok("0x5".into()));
        let port = Port { port: 1, link_layer, lid, guid: Some(Guid(0x506b_4b03_005c_2741)), metrics };
        let adapter = Adapter {
            device: "mlx5_0".into(),
            instance,
            node_guid: Some(Guid(0x506b_4b03_005c_2740)),
            board_id: Err("missing"),
            firmware: Err("missing"),
            adapter_type: Err("missing"),
            ports: vec![port],
        };
        Tree { adapters: vec![adapter], left_out: 0 }
    }

    fn sent(words: &str) -> Vec<(&'static Metric, &str)> {
        vec![(&PORT_DATA_TRANSMITTED_BYTES, words)]
    }

    #[test]
    fn texts_become_base_units() {
        assert_eq!(value(&PORT_DATA_TRANSMITTED_BYTES, "25"), Ok(100));
        assert_eq!(value(&STATE_ID, "4: ACTIVE"), Ok(4));
        assert_eq!(value(&PHYSICAL_STATE_ID, "5: LinkUp"), Ok(5));
        assert_eq!(value(&RATE_BYTES_PER_SECOND, "100 Gb/sec (4X EDR)"), Ok(12_500_000_000));
        assert_eq!(value(&PORT_TRANSMIT_WAIT, "7"), Ok(7));
    }

    #[test]
    fn what_is_no_number_is_a_reason() {
        assert_eq!(value(&PORT_DATA_TRANSMITTED_BYTES, "N/A (no PMA)"), Err("no_pma"));
        assert_eq!(value(&PORT_DATA_TRANSMITTED_BYTES, ""), Err("not_a_number"));
        assert_eq!(value(&PORT_DATA_TRANSMITTED_BYTES, "-1"), Err("not_a_number"));
        assert_eq!(value(&RATE_BYTES_PER_SECOND, "fast"), Err("not_a_rate"));
    }

    #[test]
    fn a_counter_at_its_largest_value_is_not_known() {
        assert_eq!(value(&HOST_SYMBOL_ERROR, "65535"), Err("saturated"));
        assert_eq!(value(&HOST_LINK_DOWNED, "255"), Err("saturated"));
        assert_eq!(value(&HOST_LINK_DOWNED, "254"), Ok(254));
        assert_eq!(value(&PORT_DATA_TRANSMITTED_BYTES, "4294967295"), Err("saturated"));
        assert_eq!(value(&PORT_DATA_TRANSMITTED_BYTES, "4294967296"), Ok(17_179_869_184));
        // A state is no counter.
        assert_eq!(value(&STATE_ID, "15: ?"), Ok(15));
    }

    #[test]
    fn every_saturating_counter_has_a_width() {
        for metric in Table::HostPortCounters.metrics() {
            let listed = NARROW_BITS.iter().any(|(name, _)| *name == metric.name);
            assert_eq!(listed, matches!(metric.width, catalogue::Width::Saturates(_)), "{}", metric.name);
        }
    }

    #[test]
    fn an_epoch_holds_until_a_counter_goes_backwards_or_the_adapter_is_another() {
        let mut converter = Converter::default();
        let mut epoch = |time, instance, words: &str| {
            let converted = converter.convert(&tree(instance, &sent(words)), time, 0.0);
            (converted.batch.host_ports[0].epoch, converted.batch.events.len())
        };
        assert_eq!(epoch(10, 1, "100"), (10, 0));
        assert_eq!(epoch(20, 1, "100"), (10, 0));
        assert_eq!(epoch(30, 1, "99"), (30, 1));
        assert_eq!(epoch(40, 2, "500"), (40, 1));
        assert_eq!(epoch(50, 2, "501"), (40, 0));
    }

    #[test]
    fn an_adapter_that_was_away_begins_anew() {
        let mut converter = Converter::default();
        converter.convert(&tree(1, &sent("5")), 10, 0.0);
        converter.convert(&Tree::default(), 20, 0.0);
        assert_eq!(converter.convert(&tree(1, &sent("6")), 30, 0.0).batch.host_ports[0].epoch, 30);
    }

    #[test]
    fn one_port_s_faults_are_counted_and_nothing_is_zero() {
        let mut broken = tree(1, &sent("5"));
        broken.adapters[0].ports[0].metrics.push((&HOST_LINK_DOWNED, Err("missing")));
        let mut silent = broken.adapters[0].ports[0].clone();
        (silent.port, silent.metrics) = (2, vec![(&PORT_TRANSMIT_WAIT, Err("io_error"))]);
        broken.adapters[0].ports.push(silent);
        broken.left_out = 3;
        let converted = Converter::default().convert(&broken, 10, 0.25);
        assert_eq!(converted.batch.host_ports.len(), 1);
        let sample = &converted.batch.host_ports[0];
        assert_eq!((sample.node_guid, sample.source.as_str()), (0x506b_4b03_005c_2740, "sysfs"));
        assert_eq!(sample.port_guid, 0x506b_4b03_005c_2741);
        let values = sample.values.as_ref().unwrap();
        assert_eq!(values.get(&PORT_DATA_TRANSMITTED_BYTES), Some(20));
        assert_eq!(values.get(&HOST_LINK_DOWNED), None);
        let coverage = &converted.batch.coverage[0];
        assert_eq!((coverage.expected, coverage.read, coverage.failed), (6, 1, 5));
        assert_eq!(coverage.reasons["too_many_ports"], 3);
    }

    #[test]
    fn a_change_of_state_is_an_event() {
        let mut converter = Converter::default();
        let mut kinds = |state: &str| {
            let converted = converter.convert(&tree(1, &[(&STATE_ID, state)]), 1, 0.0);
            converted.batch.events.into_iter().map(|event| event.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds("1: DOWN"), Vec::<String>::new());
        assert_eq!(kinds("4: ACTIVE"), ["link.up"]);
        assert_eq!(kinds("1: DOWN"), ["link.down"]);
        assert_eq!(kinds("2: INIT"), Vec::<String>::new());
    }

    #[test]
    fn a_port_that_is_gone_is_an_event_and_one_when_it_is_back() {
        let mut converter = Converter::default();
        let here = tree(1, &[(&STATE_ID, "4: ACTIVE")]);
        let mut kinds = |tree: &Tree| {
            let converted = converter.convert(tree, 1, 0.0);
            converted.batch.events.into_iter().map(|event| event.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&here), Vec::<String>::new());
        assert_eq!(kinds(&Tree::default()), ["port.gone"]);
        assert_eq!(kinds(&Tree::default()), Vec::<String>::new());
        assert_eq!(kinds(&here), ["port.back"]);
        assert_eq!(kinds(&here), Vec::<String>::new());
    }
}
