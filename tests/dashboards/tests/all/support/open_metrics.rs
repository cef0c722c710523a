//! The seed as the daemons' pages would have shown it, with times: OpenMetrics for
//! `promtool tsdb create-blocks-from openmetrics`. Names and labels come from the catalogue.

use super::Seed;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use throughline_sample::Guid;
use throughline_sample::catalogue::{self as c, Kind, Metric, Table};
use throughline_sample::wire::{Batch, IbNodeInfo, MpiOpCell, MpiRankBin, Values};

/// Lines of each family, and whether it is a counter.
#[derive(Default)]
struct Families(BTreeMap<String, (Kind2, Vec<String>)>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind2 {
    Counter,
    #[default]
    Gauge,
}

impl Families {
    fn metric(&mut self, metric: &Metric, prefix: &str, labels: &str, value: f64, time: i64) {
        let counter = metric.kind == Kind::Counter;
        let family = format!("{prefix}{}", metric.name);
        let suffix = if counter { "_total" } else { "" };
        let kind = if counter { Kind2::Counter } else { Kind2::Gauge };
        let line = format!("{family}{suffix}{{{labels}}} {value} {}", seconds(time));
        self.0.entry(family).or_insert((kind, Vec::new())).1.push(line);
    }

    fn info(&mut self, name: &str, labels: &str, time: i64) {
        let line = format!("{name}{{{labels}}} 1 {}", seconds(time));
        self.0.entry(name.to_owned()).or_default().1.push(line);
    }

    fn gauge(&mut self, name: &str, labels: &str, value: f64, time: i64) {
        let line = format!("{name}{{{labels}}} {value} {}", seconds(time));
        self.0.entry(name.to_owned()).or_default().1.push(line);
    }

    fn values(&mut self, table: Table, prefix: &str, labels: &str, values: &Values, time: i64) {
        for metric in table.metrics() {
            if let Some(value) = values.get(metric) {
                self.metric(metric, prefix, labels, value as f64, time);
            }
        }
    }
}

pub fn text(seed: &Seed) -> String {
    let nodes: BTreeMap<u64, &IbNodeInfo> =
        seed.batches.iter().flat_map(|batch| &batch.ib_nodes).map(|node| (node.guid, node)).collect();
    let mut families = Families::default();
    for batch in &seed.batches {
        fabric(&mut families, batch, &nodes);
        gpus(&mut families, batch);
        gpu_infos(&mut families, seed, batch);
        own(&mut families, batch);
    }
    mpi(&mut families, &seed.batches);
    let mut text = String::new();
    for (family, (kind, lines)) in families.0 {
        in_order(&lines);
        let kind = if kind == Kind2::Counter { "counter" } else { "gauge" };
        writeln!(text, "# TYPE {family} {kind}\n{}", lines.join("\n")).unwrap();
    }
    text + "# EOF\n"
}

/// promtool takes what is out of order where its transactions happen to end, and some of the time only.
fn in_order(lines: &[String]) {
    let mut newest = BTreeMap::new();
    for line in lines {
        let (series, time) = line.split_once("} ").unwrap();
        let time: i64 = time.split_once(' ').unwrap().1.parse().unwrap();
        assert!(newest.insert(series, time).is_none_or(|before| before < time), "out of order: {line}");
    }
}

fn fabric(families: &mut Families, batch: &Batch, nodes: &BTreeMap<u64, &IbNodeInfo>) {
    for sample in &batch.ib_ports {
        let node = nodes[&sample.node_guid];
        let switch = node.r#type == "switch";
        let prefix = if switch { c::SWITCH_PORT_PREFIX } else { c::HCA_PORT_PREFIX };
        let labels = format!(
            "instance=\"{}\",guid=\"{}\",port=\"{}\"",
            fabric_of(batch),
            exported_guid(node, sample.port),
            sample.port
        );
        families.values(Table::IbPortCounters, prefix, &labels, sample.values.as_ref().unwrap(), sample.time);
        let port = node.ports.iter().find(|port| port.port == sample.port).unwrap();
        let remote = nodes[&port.remote_guid.unwrap()];
        let (name, own) =
            if switch { (c::SWITCH_UPLINK_INFO, "switch") } else { (c::HCA_UPLINK_INFO, "hca") };
        let ends = format!(
            "{labels},{own}=\"{}\",uplink=\"{}\",uplink_guid=\"{}\",uplink_lid=\"{}\",uplink_port=\"{}\",uplink_type=\"{}\"",
            node.description,
            remote.description,
            exported_guid(remote, port.remote_port.unwrap()),
            remote.lid,
            port.remote_port.unwrap(),
            if remote.r#type == "switch" { "SW" } else { "CA" },
        );
        let of_adapter = format!(",node_guid=\"{}\"", Guid(node.guid));
        let of_adapter = if switch { "" } else { &of_adapter };
        families.info(name, &format!("{ends}{of_adapter}"), sample.time);
        let name = if switch { c::SWITCH_INFO.name } else { c::HCA_INFO.name };
        let one = format!("{own}=\"{}\",lid=\"{}\"{of_adapter}", node.description, node.lid);
        let guid = exported_guid(node, sample.port);
        let node_labels = format!("instance=\"{}\",guid=\"{guid}\",{one}", fabric_of(batch));
        if sample.port == 1 {
            families.info(name, &node_labels, sample.time);
        }
        if switch && port.width == "2X" {
            let rate = port.rate_bytes_per_second as f64 * 2.0;
            families.gauge(c::SWITCH_POSSIBLE_RATE.name, &labels, rate, sample.time);
        }
    }
}

/// The GUID that series of a port have: of a switch the node's, of an adapter the port's own.
fn exported_guid(node: &IbNodeInfo, port: u32) -> Guid {
    let own = || node.ports.iter().find(|info| info.port == port).unwrap().port_guid;
    Guid(if node.r#type == "switch" { node.guid } else { own() })
}

fn gpus(families: &mut Families, batch: &Batch) {
    for sample in &batch.gpu_links {
        for link in &sample.links {
            let labels =
                format!("instance=\"{}\",gpu=\"{}\",link=\"{}\"", batch.node, sample.gpu_uuid, link.link);
            let values = link.values.as_ref().unwrap();
            families.values(Table::NvlinkCounters, "throughline_nvlink_", &labels, values, sample.time);
        }
    }
    for sample in &batch.gpu_pcie {
        let labels = format!("instance=\"{}\",gpu=\"{}\"", batch.node, sample.gpu_uuid);
        let values = sample.values.as_ref().unwrap();
        families.values(Table::GpuPcieCounters, "throughline_pcie_", &labels, values, sample.time);
    }
    for sample in &batch.gpu_pm {
        let labels = format!("instance=\"{}\",gpu=\"{}\"", batch.node, sample.gpu_uuid);
        let values = sample.values.as_ref().unwrap();
        families.values(Table::GpuPmCounters, "throughline_gpu_pm_", &labels, values, sample.time);
    }
}

/// The inventory comes once, and is on the page at each scrape.
fn gpu_infos(families: &mut Families, seed: &Seed, batch: &Batch) {
    let times = || (0..super::TICKS).map(|tick| super::tick_time(seed.end, tick));
    for gpu in &batch.gpus {
        let labels = format!(
            "instance=\"{}\",gpu=\"{}\",index=\"{}\",name=\"{}\",pci=\"{}\"",
            batch.node, gpu.uuid, gpu.index, gpu.name, gpu.pci_bus_id
        );
        times().for_each(|time| families.info("throughline_gpu_info", &labels, time));
    }
    for link in &batch.gpu_link_infos {
        let labels = format!(
            "instance=\"{}\",gpu=\"{}\",link=\"{}\",remote_type=\"{}\",remote_gpu=\"{}\",remote_link=\"{}\"",
            batch.node,
            link.gpu_uuid,
            link.link,
            link.remote_type,
            link.remote_gpu_uuid,
            link.remote_link.map_or_else(String::new, |link| link.to_string())
        );
        times().for_each(|time| families.info("throughline_nvlink_info", &labels, time));
    }
}

/// What the fabric of a crawler's batch is called.
fn fabric_of(batch: &Batch) -> String {
    batch.fabric.as_ref().map(|fabric| fabric.name.clone()).unwrap_or_default()
}

fn own(families: &mut Families, batch: &Batch) {
    let instance = if batch.node.is_empty() { fabric_of(batch) } else { batch.node.clone() };
    for stat in &batch.self_stats {
        let metric = Table::SelfStats.metrics().iter().find(|metric| metric.name == stat.name).unwrap();
        let own = metric.label.map_or_else(String::new, |name| format!(",{name}=\"{}\"", stat.label));
        let labels = format!("instance=\"{instance}\",source=\"{}\"{own}", stat.source);
        families.metric(metric, "throughline_", &labels, stat.value, stat.time);
    }
}

/// An agent shows the totals of all its ranks by operation, those of ended jobs included.
fn mpi(families: &mut Families, batches: &[Batch]) {
    let mut bins_by_time: BTreeMap<(&str, i64), Vec<&MpiRankBin>> = BTreeMap::new();
    for batch in batches {
        for bin in &batch.mpi_ops {
            bins_by_time.entry((&batch.node, bin.time)).or_default().push(bin);
        }
    }
    let mut latest: BTreeMap<(&str, &str, u32), &[MpiOpCell]> = BTreeMap::new();
    for ((node, time), bins) in bins_by_time {
        latest.extend(bins.iter().map(|bin| ((node, bin.job_key.as_str(), bin.rank), bin.cells.as_slice())));
        let cells =
            || latest.range((node, "", 0)..).take_while(|(of, _)| of.0 == node).flat_map(|(_, cells)| *cells);
        let operations: BTreeSet<&str> = cells().map(|cell| cell.operation.as_str()).collect();
        for operation in operations {
            let labels = format!("instance=\"{node}\",operation=\"{operation}\"");
            let sum = |of: fn(&MpiOpCell) -> u64| {
                cells().filter(|cell| cell.operation == operation).map(of).sum::<u64>() as f64
            };
            families.metric(&c::MPI_CALLS, "throughline_mpi_", &labels, sum(|cell| cell.calls), time);
            families.metric(&c::MPI_BYTES, "throughline_mpi_", &labels, sum(|cell| cell.bytes), time);
            let elapsed = sum(|cell| cell.elapsed_nanoseconds) / 1e9;
            families.metric(&c::MPI_ELAPSED_SECONDS, "throughline_mpi_", &labels, elapsed, time);
        }
    }
}

/// Times in OpenMetrics are seconds; ticks are whole ones.
fn seconds(time: i64) -> i64 {
    time / super::SECOND
}
