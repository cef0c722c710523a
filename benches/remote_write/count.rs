//! Samples of a receiver against the database: each reading's time and value, by series, out of the tables themselves and not
//! by what the export reads; and how many samples there are in all.

use crate::receiver::{Receiver, Series};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use throughline_benches::load::{HOST_PORT_METRICS, NVLINK_METRICS, PORT_METRICS};
use throughline_benches::psql::Psql;
use throughline_sample::catalogue::{Metric, PCIE_RECEIVE_BYTES, PCIE_TRANSMIT_BYTES, Table};

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Readings of the database.
    pub expected: u64,
    /// Of them those that the receiver lacks.
    pub lost: u64,
    /// Samples of the receiver that the database has not.
    pub unknown: u64,
    /// Times that a reader gets more than once.
    pub doubled: u64,
    /// Times with another value.
    pub different: u64,
}

impl Counts {
    pub fn is_exact(&self) -> bool {
        self.lost + self.unknown + self.doubled + self.different == 0
    }
}

/// What is stored besides, where the receiver shows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    /// Samples that a reader gets.
    pub read: u64,
    /// Samples as they are stored.
    pub copies: u64,
    /// Most copies of one sample.
    pub most: u64,
    /// Times at which copies differ in their value.
    pub conflicts: u64,
    /// Exports of copies that had other times than the one for readers, and were requested again.
    pub mixed: u64,
}

/// VictoriaMetrics' export of blocks as they are stored at times puts one of a series under the labels of another, while its export for
/// readers has all in their places: it is requested again so many times.
const RAW_TRIES: u32 = 5;

/// Conflicts that are printed.
const PRINTED: u64 = 5;

/// A name with the rows that it is made of.
struct Family {
    name: String,
    /// Labels in the order of the columns.
    labels: &'static [&'static str],
    sql: String,
}

fn families() -> Vec<Family> {
    let mut all = Vec::new();
    let of_port = |metric: &Metric, is_switch: bool, name: String| {
        let (kind, guid) = if is_switch { ("=", "k.guid") } else { ("<>", "p.port_guid") };
        let sql = format!(
            "SELECT {guid}, s.name, q.port, floor(extract(epoch FROM c.time) * 1000)::bigint, c.{} FROM internal.ib_port_counters c
             JOIN internal.ib_port_key q ON q.id = c.port_id JOIN internal.ib_node_key k ON k.id = q.ib_node_id JOIN internal.fabric s ON s.id = k.fabric_id
             JOIN internal.ib_node n ON n.ib_node_id = k.id AND n.valid_to IS NULL AND n.type {kind} 'switch'
             JOIN internal.ib_port p ON p.port_id = q.id AND p.valid_to IS NULL WHERE c.{0} IS NOT NULL",
            metric.name
        );
        Family { name, labels: &["guid", "instance", "port"], sql }
    };
    for metric in PORT_METRICS {
        for (prefix, is_switch) in Table::IbPortCounters.prometheus_prefixes().iter().zip([true, false]) {
            all.push(of_port(metric, is_switch, metric.prometheus_name(prefix)));
        }
    }
    let first = |table: Table| table.prometheus_prefixes().first().copied().unwrap_or_default();
    for metric in HOST_PORT_METRICS {
        let sql = format!(
            "SELECT h.device, n.name, h.port, floor(extract(epoch FROM c.time) * 1000)::bigint, c.{} FROM internal.host_port_counters c
             JOIN internal.host_port_key h ON h.id = c.host_port_id JOIN internal.node_key n ON n.id = h.node_id WHERE c.{0} IS NOT NULL",
            metric.name
        );
        let name = metric.prometheus_name(first(Table::HostPortCounters));
        all.push(Family { name, labels: &["device", "instance", "port"], sql });
    }
    let of_gpu = "JOIN internal.gpu_key g ON g.id = c.gpu_id JOIN internal.node_key n ON n.id = g.node_id";
    for metric in NVLINK_METRICS {
        let sql = format!(
            "SELECT g.uuid, n.name, e.place - 1, floor(extract(epoch FROM c.time) * 1000)::bigint, e.value
             FROM internal.nvlink_counters c CROSS JOIN LATERAL unnest(c.{}) WITH ORDINALITY AS e (value, place) {of_gpu}
             WHERE e.value IS NOT NULL",
            metric.name
        );
        let name = metric.prometheus_name(first(Table::NvlinkCounters));
        all.push(Family { name, labels: &["gpu", "instance", "link"], sql });
    }
    for metric in [&PCIE_TRANSMIT_BYTES, &PCIE_RECEIVE_BYTES] {
        let sql = format!(
            "SELECT g.uuid, n.name, floor(extract(epoch FROM c.time) * 1000)::bigint, c.{} FROM internal.gpu_pcie_counters c {of_gpu}
             WHERE c.{0} IS NOT NULL",
            metric.name
        );
        let name = metric.prometheus_name(first(Table::GpuPcieCounters));
        all.push(Family { name, labels: &["gpu", "instance"], sql });
    }
    all
}

/// Every reading of ports and GPUs, one name after the other.
pub fn readings(psql: &Psql, receivers: &[Receiver], span: (i64, i64)) -> anyhow::Result<Vec<Counts>> {
    let mut all = vec![Counts::default(); receivers.len()];
    for family in families() {
        let mut expected: BTreeMap<BTreeMap<String, String>, HashMap<i64, f64>> = BTreeMap::new();
        for row in psql.query(&family.sql)? {
            let labels =
                family.labels.iter().zip(&row).map(|(name, text)| ((*name).to_owned(), text.clone()));
            let place = family.labels.len();
            let time = row.get(place).context("a time")?.parse()?;
            let value = row.get(place + 1).context("a value")?.parse()?;
            expected.entry(labels.collect()).or_default().insert(time, value);
        }
        for (counts, receiver) in all.iter_mut().zip(receivers) {
            let found = receiver.samples(&family.name, span, false)?;
            add(counts, &expected, found);
        }
    }
    Ok(all)
}

fn add(
    counts: &mut Counts,
    expected: &BTreeMap<BTreeMap<String, String>, HashMap<i64, f64>>,
    mut found: Series,
) {
    for (labels, readings) in expected {
        let mut left = readings.clone();
        counts.expected += readings.len() as u64;
        for (time, value) in found.remove(labels).unwrap_or_default() {
            match (left.remove(&time), readings.get(&time)) {
                (Some(wanted), _) => counts.different += u64::from((wanted - value).abs() > 0.0),
                (None, Some(_)) => counts.doubled += 1,
                (None, None) => counts.unknown += 1,
            }
        }
        counts.lost += left.len() as u64;
    }
    counts.unknown += found.values().map(|samples| samples.len() as u64).sum::<u64>();
}

/// All samples of all names.
pub fn stored(receiver: &Receiver, span: (i64, i64)) -> anyhow::Result<Stored> {
    let mut all = Stored::default();
    for name in receiver.names(span)? {
        let of = |series: &Series| series.values().map(|samples| samples.len() as u64).sum::<u64>();
        let read = receiver.samples(&name, span, false)?;
        all.read += of(&read);
        let mut raw = receiver.samples(&name, span, true)?;
        for _ in 0..RAW_TRIES {
            if has_same_times(&read, &raw) {
                break;
            }
            all.mixed += 1;
            raw = receiver.samples(&name, span, true)?;
        }
        all.copies += of(&raw);
        for (labels, mut samples) in raw {
            samples.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            for copies in samples.chunk_by(|a, b| a.0 == b.0) {
                all.most = all.most.max(copies.len() as u64);
                let (first, last) = (copies.first(), copies.last());
                if first.map(|one| one.1) == last.map(|one| one.1) {
                    continue;
                }
                all.conflicts += 1;
                if all.conflicts <= PRINTED {
                    println!("{}: one time with several values: {name} {labels:?} {copies:?}", receiver.name);
                }
            }
        }
    }
    Ok(all)
}

/// Whether each series has the same times in both, once or more often.
fn has_same_times(read: &Series, raw: &Series) -> bool {
    let times = |samples: &Vec<(i64, f64)>| samples.iter().map(|one| one.0).collect::<BTreeSet<i64>>();
    read.len() == raw.len()
        && read
            .iter()
            .all(|(labels, samples)| raw.get(labels).is_some_and(|raw| times(raw) == times(samples)))
}
