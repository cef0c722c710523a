//! What is swept of a topology, and which ports have readings: those of every node that answers, and of some that never
//! did. Sends nothing.

use super::silence::{Silence, TargetKey, UNANSWERED_READINGS_MAX};
use super::sweeper::{NodeClassifier, Sweeper};
use super::target::{History, OptionalAttributes, PlannedPort, Target};
use crate::engine::{Engine, NodeId, Route};
use std::collections::{BTreeMap, HashMap};
use throughline_infiniband::link::rate_bytes_per_second;
use throughline_infiniband::mad::{Counters, NodeKind};
use throughline_infiniband::reading::{PortReading, Selection};
use throughline_infiniband::topology::{Node, NodeIndex, Port, Topology};
use throughline_sample::Guid;

/// Ports retained beyond those of the present topology: as many as LIDs there can be. A port that is gone may
/// come back with its counters.
const FORMER_PORTS_MAX: usize = 1 << 16;

impl Sweeper {
    /// Plans the sweep of all linked ports of a topology whose nodes have LIDs; nodes of the engine are
    /// replaced. A former sweeper hands its memory of epochs on.
    #[must_use]
    pub fn new(
        engine: &mut Engine,
        topology: &Topology,
        service_level: u8,
        selection: Selection,
        former: Option<Sweeper>,
    ) -> Sweeper {
        Sweeper::choosing(engine, topology, service_level, selection, &|_| Some(0), former)
    }

    /// The same for chosen nodes.
    #[must_use]
    pub fn choosing(
        engine: &mut Engine,
        topology: &Topology,
        service_level: u8,
        selection: Selection,
        chosen: NodeClassifier<'_>,
        former: Option<Sweeper>,
    ) -> Sweeper {
        engine.clear_nodes();
        let silences = former.as_ref().map(Sweeper::silences).unwrap_or_default();
        let mut sweeper = Sweeper::empty(former.map(Sweeper::into_history).unwrap_or_default());
        sweeper.assumed_tick_bytes = selection.assumed_tick_bytes;
        let manager_lid = manager_lid(topology);
        for (index, node) in topology.nodes.iter().enumerate() {
            let Some(class) = chosen(node) else { continue };
            let mut of_switch = None;
            for port in node.physical_ports() {
                let is_linked = port.info.is_some_and(|info| info.is_linked());
                let lid = node.lid_of(port);
                let end = if node.kind == NodeKind::Switch { 0 } else { port.number };
                if topology.disputed.contains(&(node.guid, end)) {
                    continue;
                }
                if !(is_linked || selection.unlinked && node.kind == NodeKind::Switch) || lid == 0 {
                    continue;
                }
                let target = of_switch.unwrap_or_else(|| {
                    let id = engine.queue().add_node(Route::Lid { lid, service_level });
                    let mut target = Target::new(id, class, index, node, end, lid);
                    if lid == manager_lid {
                        target.optional = OptionalAttributes::of_manager();
                    }
                    target.silence = silences.get(&target.key()).copied().unwrap_or_default();
                    sweeper.targets.push(target);
                    sweeper.targets.len() - 1
                });
                of_switch = (node.kind == NodeKind::Switch).then_some(target);
                sweeper.targets[target].plan(topology, node, port);
            }
        }
        sweeper.allot();
        sweeper.place();
        if sweeper.former.len() > FORMER_PORTS_MAX {
            sweeper.former.clear();
        }
        sweeper
    }

    /// After the first sweep: who answered needs no place among the others, so that more of those that did not are listed.
    pub(super) fn list_failed(&mut self, missing: &mut BTreeMap<&'static str, usize>) {
        let is_unlisted = |target: &Target| target.ports.is_empty() && !target.has_answered;
        let unlisted: Vec<usize> =
            (0..self.targets.len()).filter(|index| is_unlisted(&self.targets[*index])).collect();
        self.allot();
        self.place();
        for index in unlisted {
            let target = &self.targets[index];
            let Some((reason, count)) =
                target.failure.and_then(|reason| Some((reason, missing.get_mut(reason)?)))
            else {
                continue;
            };
            *count = count.saturating_sub(target.ports.len());
            for reading in &mut self.readings[target.ports.clone()] {
                (reading.was_requested, reading.failure) = (true, Some(reason));
            }
        }
    }

    /// Decides who has readings though nothing is known of an answer: those with the fewest ports first, so that a switch
    /// that makes up ports takes them from nobody.
    fn allot(&mut self) {
        self.note_former();
        let mut unanswered: Vec<usize> =
            (0..self.targets.len()).filter(|index| !self.targets[*index].has_answered).collect();
        unanswered.sort_by_key(|index| self.targets[*index].port_count);
        let mut free = UNANSWERED_READINGS_MAX;
        for index in unanswered {
            let target = &mut self.targets[index];
            let Some(rest) = free.checked_sub(target.port_count) else { return };
            (free, target.is_listed) = (rest, true);
        }
    }

    /// Who was read before has answered.
    fn note_former(&mut self) {
        for target in &mut self.targets {
            let mut ports = target.planned.iter();
            target.has_answered |= ports.any(|port| self.former.contains_key(&(target.guid, port.number)))
                || self.readings[target.ports.clone()].iter().any(|reading| reading.epoch != 0);
        }
    }

    /// Gives readings to the ports of all targets that are to have some, in the order of the targets.
    pub(super) fn place(&mut self) {
        let mut before = std::mem::take(&mut self.readings).into_iter();
        let mut lanes = std::mem::take(&mut self.lanes).into_iter();
        self.target_of_port.clear();
        for index in 0..self.targets.len() {
            let target = &mut self.targets[index];
            let start = self.readings.len();
            if !target.ports.is_empty() {
                self.readings.extend(before.by_ref().take(target.port_count));
                self.lanes.extend(lanes.by_ref().take(target.port_count));
            } else if target.has_answered || target.is_listed {
                for port in std::mem::take(&mut target.planned) {
                    let former = self.former.remove(&(target.guid, port.number));
                    self.readings.push(target.reading(port, former, self.assumed_tick_bytes));
                    self.lanes.push(None);
                }
            }
            target.ports = start..self.readings.len();
            self.target_of_port.resize(self.readings.len(), index as u32);
        }
    }

    /// How long those have not answered that never did.
    fn silences(&self) -> HashMap<TargetKey, Silence> {
        let never = self.targets.iter().filter(|target| !target.has_answered);
        never.map(|target| (target.key(), target.silence)).collect()
    }

    fn into_history(self) -> History {
        let mut history = self.former;
        for mut reading in self.readings.into_iter().filter(|reading| reading.epoch != 0) {
            reading.counters.discard_all();
            history.insert((reading.guid, reading.port), (reading.epoch, reading.counters));
        }
        history
    }

    /// What is retained of each port: its epoch and what the next reading is held against.
    pub(super) fn history(&self) -> impl Iterator<Item = ((Guid, u8), i64, &Counters)> {
        let known = self.readings.iter().filter(|reading| reading.epoch != 0);
        let present = known.map(|reading| ((reading.guid, reading.port), reading.epoch, &reading.counters));
        present.chain(self.former.iter().map(|(key, (epoch, counters))| (*key, *epoch, counters)))
    }

    /// Takes over what another process retained; what was read since counts more.
    pub(super) fn restore(&mut self, history: History) {
        self.former = history;
        for reading in &mut self.readings {
            let found = self.former.remove(&(reading.guid, reading.port));
            if let Some((epoch, counters)) = found.filter(|_| reading.epoch == 0) {
                (reading.epoch, reading.counters) = (epoch, counters);
            }
        }
        self.note_former();
        self.place();
    }
}

impl Target {
    fn new(engine: NodeId, class: u8, node: NodeIndex, of: &Node, end: u8, lid: u16) -> Target {
        Target {
            engine,
            node,
            guid: of.guid,
            kind: of.kind,
            end,
            lid,
            port_count: 0,
            planned: Vec::new(),
            has_answered: false,
            is_listed: false,
            silence: Silence::default(),
            failure: None,
            class,
            capabilities: None,
            ports: 0..0,
            optional: OptionalAttributes::default(),
            later: 0,
        }
    }

    fn key(&self) -> TargetKey {
        (self.guid, self.end, self.lid)
    }

    fn plan(&mut self, topology: &Topology, node: &Node, port: &Port) {
        let link = node.link_of(port);
        let own = link.map(|(width, speed)| rate_bytes_per_second(width, speed));
        self.port_count += 1;
        self.planned.push(PlannedPort {
            number: port.number,
            rate_bytes_per_second: own.map(|own| topology.assumed_bytes_per_second.unwrap_or(own)),
            link_lanes: link.map(|(width, _)| width.lanes()),
        });
    }

    /// A reading with nothing read yet but what is known of former ones.
    fn reading(
        &self,
        port: PlannedPort,
        former: Option<(i64, Counters)>,
        assumed_tick_bytes: Option<u64>,
    ) -> PortReading {
        let (epoch, counters) = former.unwrap_or_default();
        PortReading {
            rate_bytes_per_second: port.rate_bytes_per_second,
            link_lanes: port.link_lanes,
            // The manager's port, which is not queried.
            tick_bytes: self.optional.is_requested.then_some(assumed_tick_bytes).flatten(),
            epoch,
            counters,
            ..PortReading::new(self.node, self.guid, self.kind, port.number, self.lid)
        }
    }
}

/// LID of the master subnet manager, as all ports have it in their PortInfo; 0 when there is none.
fn manager_lid(topology: &Topology) -> u16 {
    let infos = topology.nodes.iter().flat_map(|node| &node.ports).filter_map(|port| port.info);
    infos.map(|info| info.sm_lid).find(|lid| *lid != 0).unwrap_or(0)
}
