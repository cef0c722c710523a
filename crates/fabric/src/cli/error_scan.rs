//! A scan of the error counters of a whole fabric: the walk, then one sweep, or two with time between them. What
//! `errors` and `check` build on.

use super::FabricOptions;
use super::nodes::SelectedNodes;
use super::source::DiscoveryNeeds;
use std::collections::BTreeMap;
use std::time::Duration;
use throughline_daemon::Failure;
use throughline_infiniband::check::{ManagerAnswer, UnreadPorts};
use throughline_infiniband::errors::{self, CounterExcess, Thresholds};
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::reading::{PortReading, Selection, Sets};
use throughline_infiniband::topology;
use throughline_infiniband::topology::{NodeIndex, PortEnd, Topology};
use throughline_sample::catalogue::Metric;

/// Reason for a port without a LID, by which counters are requested.
const NO_LID: &str = "no LID";

/// What was seen.
pub struct ErrorScan {
    pub topology: Topology,
    /// What the walk could not read.
    pub failures: Vec<topology::Failure>,
    /// What the subnet manager answered; `None` where it was not queried.
    pub manager: Option<ManagerAnswer>,
    /// Readings of the first of two sweeps; empty where there was one.
    before: Vec<PortReading>,
    after: Vec<PortReading>,
}

/// Looks: with an interval twice, else once. Of a saved fabric the first and the last reading are taken. `None`
/// when it was stopped before the end.
///
/// # Errors
/// No device, no permission, no answer, files without counters or with one reading where two are needed (69).
pub fn scan(
    fabric: &FabricOptions,
    interval: Option<Duration>,
    sets: Sets,
) -> anyhow::Result<Option<ErrorScan>> {
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let found = source.discover(DiscoveryNeeds::default(), &stop)?;
    let (topology, mut failures) = (found.topology, found.failures);
    // Nodes answer in any order; a report has one.
    failures.sort_by_key(|failure| (failure.guid, failure.port, failure.what));
    let manager = source.manager(&topology, &stop)?;
    // A port without a link keeps its errors: LinkDownedCounter above all.
    let mut counting = source.counters(&topology, Selection { unlinked: true, ..Selection::default() })?;
    counting.read(sets);
    let mut before = Vec::new();
    // Of nothing there is nothing to wait for.
    if let Some(interval) = interval.filter(|_| !counting.is_empty()) {
        counting.sweep(&stop)?;
        before = counting.readings().to_vec();
        match counting.left() {
            None if stop.sleep(interval) => return Ok(None),
            None => {}
            Some(0) => {
                let message = "rates need two readings and the files hold one; use --totals";
                return Err(Failure::unavailable(message).into());
            }
            Some(more) => (1..more).try_for_each(|_| counting.sweep(&stop).map(drop))?,
        }
    }
    counting.sweep(&stop)?;
    let after = counting.readings().to_vec();
    Ok(Some(ErrorScan { topology, failures, manager, before, after }))
}

impl ErrorScan {
    /// Ports that were to be read.
    pub fn expected(&self, nodes: &SelectedNodes) -> usize {
        self.after.iter().filter(|reading| nodes.has(reading.node)).count() + self.without_lid(nodes).count()
    }

    /// Whether no port's counters could be requested: none has a LID.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// The reading of a port.
    pub fn reading(&self, end: PortEnd) -> Option<&PortReading> {
        self.after.get(self.position(end)?)
    }

    /// What a counter of a port consists of, where details were read.
    pub fn details(&self, end: PortEnd, metric: &Metric) -> Vec<CounterExcess> {
        let parts = self.position(end).and_then(|position| {
            let before = (!self.before.is_empty()).then(|| self.before.get(position));
            Some(errors::details(metric, before.flatten(), self.after.get(position)?))
        });
        parts.unwrap_or_default()
    }

    fn position(&self, end: PortEnd) -> Option<usize> {
        // Readings are ordered by node and port.
        self.after.binary_search_by_key(&(end.node, end.port), |reading| (reading.node, reading.port)).ok()
    }

    /// Ports with errors above their thresholds, ordered by node and port.
    pub fn errors(
        &self,
        nodes: &SelectedNodes,
        thresholds: &Thresholds,
    ) -> Vec<(PortEnd, Vec<CounterExcess>)> {
        let readings = self.after.iter().enumerate().filter(|(_, reading)| nodes.has(reading.node));
        let judged = readings.map(|(index, reading)| {
            let excesses = match self.before.get(index) {
                Some(before) => errors::increases(before, reading, thresholds),
                None => errors::totals(&reading.counters, thresholds),
            };
            (PortEnd { node: reading.node, port: reading.port }, excesses)
        });
        judged.filter(|(_, excesses)| !excesses.is_empty()).collect()
    }

    /// Ports with counters missing in one of the sweeps, by node and reason.
    pub fn unread(&self, nodes: &SelectedNodes) -> Vec<UnreadPorts> {
        let mut unread: BTreeMap<(NodeIndex, &'static str), Vec<u8>> = BTreeMap::new();
        for (index, reading) in self.after.iter().enumerate().filter(|(_, reading)| nodes.has(reading.node)) {
            let before = self.before.get(index).and_then(|before| before.failure);
            if let Some(reason) = reading.failure.or(before) {
                unread.entry((reading.node, reason)).or_default().push(reading.port);
            }
        }
        for end in self.without_lid(nodes) {
            unread.entry((end.node, NO_LID)).or_default().push(end.port);
        }
        unread.into_iter().map(|((node, reason), ports)| UnreadPorts { node, ports, reason }).collect()
    }

    /// Ports that no sweep queries: without a LID nobody can.
    fn without_lid(&self, nodes: &SelectedNodes) -> impl Iterator<Item = PortEnd> {
        let all = self.topology.nodes.iter().enumerate().filter(|(index, _)| nodes.has(*index));
        all.flat_map(|(index, node)| {
            node.physical_ports()
                .filter(|port| node.lid_of(port) == 0)
                .filter(|port| {
                    node.kind == NodeKind::Switch || port.info.is_some_and(|info| info.is_linked())
                })
                .map(move |port| PortEnd { node: index, port: port.number })
        })
    }
}
