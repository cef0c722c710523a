//! The thread of discovery: walks the subnet at start and at an interval, looks at what can have changed in
//! between and when somebody has a reason, and publishes what it found.
//!
//! A whole walk queries everything, forwarding tables as well. A light one ([`discover::walk`]) costs one SMP for
//! each port of a switch, two more for each switch and up to three for its share of the other nodes, and comes
//! each `light_interval_seconds`, or as seldom as [`LIGHT_MADS_PER_SECOND`] needs. Tables are read again after
//! each change, until they stay the same.

use super::config::Config;
use super::group_reading::GroupsRequest;
use super::identity::PublishDecision;
use super::leader::Role;
use super::publish::{Publication, TopologyChange};
use super::sa_thread::SaThread;
use super::shared::SharedState;
use super::thread_names::{ADMINISTRATION, DISCOVERY};
use super::topology_cache::TopologyCache;
use super::topology_source::TopologySource;
use super::trigger::{DiscoveryRequest, Trigger};
use super::trust::Trust;
use crate::adaptive_routing;
use crate::discover::{self, Discovery, WalkOptions};
use crate::engine::{Engine, EngineError};
use crate::events::{FABRIC_CUT_OFF, FABRIC_SEEN, FabricEvent};
use crate::multicast_tables;
use crate::port::FabricPort;
use crate::stop::Stop;
use crate::transport::{Class, Transport};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use throughline_infiniband::mad::LFT_BLOCK_LIDS;
use throughline_infiniband::names::NameFile;
use throughline_infiniband::records;
use throughline_infiniband::topology::{NodeIndex, Topology};
use throughline_sample::Guid;
use throughline_sample::catalogue::{
    FAILED_READS, LAST_DISCOVERY_MADS, LIGHT_DISCOVERIES, SOURCE_UP, UNREAD_MULTICAST_GROUPS,
};

/// Shortest time from one whole walk to the next where somebody requests it, unless the configured interval is
/// shorter: a walk costs each switch some 100 SMPs.
const SHORTEST_GAP: Duration = Duration::from_secs(5);
/// Shortest time from one light walk to the next, whatever is requested and however often.
const SHORTEST_LIGHT_GAP: Duration = Duration::from_millis(200);
/// Longest time from one walk to the next while it isn't clear which fabric is seen: several within the time of agreement.
const WAITING_INTERVAL: Duration = Duration::from_secs(10);
/// SMPs that light walks send in a second on average, at most, and again as many for tables after a change. VL15
/// has hardly any buffers: a large subnet is looked at less often instead. It is less than half of what one
/// `ibnetdiscover` sends while it runs.
const LIGHT_MADS_PER_SECOND: f64 = 10_000.0;
/// SMPs for multicast tables in a second on average, at most: a switch that does not say how much of its table is in use
/// costs a hundred of them.
const MULTICAST_MADS_PER_SECOND: f64 = 500.0;
/// How many times that rate looks may have while something requests each of them: a storm of traps.
const REQUESTED_FACTOR: u32 = 4;
/// Every node's neighbours are queried for who they are within this time, or within one sweep if that is shorter.
const ALL_QUERIED_WITHIN: Duration = Duration::from_secs(5);
/// Light walks over which the nodes of a subnet are spread, at most.
const TURNS_MAX: u64 = 8;
/// Light walks that read all forwarding tables after a change, unless the tables are still changing then. They are
/// as far apart as [`LIGHT_MADS_PER_SECOND`] needs for the tables alone.
const TABLE_LOOKS: u32 = 3;

/// What the thread needs besides its transport.
pub struct Parts {
    pub config: Config,
    pub port: Arc<FabricPort>,
    pub shared: Arc<SharedState>,
    pub stop: Stop,
    pub state_dir: PathBuf,
    pub names: NameFile,
    pub administration: SaThread,
}

/// Starts the thread. It ends with its engine, to be closed once no other thread speaks MADs: libumad2sim is not
/// made for a close beside other calls.
///
/// # Errors
/// It can't be started.
pub fn spawn(parts: Parts, transport: Box<dyn Transport>) -> std::io::Result<JoinHandle<Option<Engine>>> {
    std::thread::Builder::new()
        .name("mad-discovery".to_owned())
        .spawn(move || DiscoveryThread::new(parts).run(transport))
}

struct DiscoveryThread {
    parts: Parts,
    publication: Publication,
    last_whole: Option<Instant>,
    /// Whether a whole walk was requested.
    wants_whole: bool,
    /// MADs of the last walk, without what tables and a whole walk need more; 0 before the first.
    light_mads: u64,
    /// From when on a light walk may read tables again.
    tables_after: Instant,
    /// From when on multicast tables may be read again.
    multicast_after: Instant,
    turn: u64,
    /// Light walks that still read all tables.
    table_looks: u32,
    /// Nodes that did not answer once.
    doubted: BTreeSet<Guid>,
    /// Switches that were queried for how they route since the last whole walk.
    queried_for_routing: BTreeSet<Guid>,
    is_from_sa: bool,
    is_cut_off: bool,
    source: TopologySource,
    trust: Trust,
}

impl DiscoveryThread {
    fn new(parts: Parts) -> DiscoveryThread {
        let cache = TopologyCache::new(&parts.state_dir);
        let publication = Publication::new(parts.shared.clone(), cache, parts.config.events.settings());
        let source = TopologySource::new(parts.administration.clone(), parts.config.discovery.source);
        DiscoveryThread {
            parts,
            publication,
            last_whole: None,
            wants_whole: true,
            light_mads: 0,
            tables_after: Instant::now(),
            multicast_after: Instant::now(),
            turn: 0,
            table_looks: 0,
            doubted: BTreeSet::new(),
            queried_for_routing: BTreeSet::new(),
            is_from_sa: false,
            is_cut_off: false,
            source,
            trust: Trust::default(),
        }
    }

    fn run(mut self, transport: Box<dyn Transport>) -> Option<Engine> {
        let settings = self.parts.config.mad.settings().for_class(Class::Management);
        let mut engine = Engine::new(transport, settings);
        let mut wanted = DiscoveryRequest::default();
        loop {
            if self.parts.shared.leader.is_passive() {
                // What the active crawler reports meanwhile is not reported again. Walks go on: they show which fabric it is.
                self.publication.discard();
                self.last_whole = None;
            }
            self.parts.shared.heavy_sweep.wait(&self.parts.shared.publisher.metrics, &self.parts.stop);
            engine.follow(self.parts.shared.heavy_sweep.hint.clone());
            let start = Instant::now();
            match self.walk(&mut engine, wanted) {
                Ok(()) => {}
                Err(EngineError::Stopped) => return Some(engine),
                Err(EngineError::Transport(error)) => {
                    tracing::warn!(%error, "discovery broke off");
                    self.parts.shared.publisher.sender.identity.lose();
                    let Parts { config, port, shared, stop, .. } = &self.parts;
                    let broken = (engine, &error);
                    match shared.device.reopen(
                        (DISCOVERY, Class::Management),
                        broken,
                        port,
                        config,
                        (shared, stop),
                    ) {
                        Ok(opened) => engine = opened,
                        Err(broken) => return broken.map(|engine| *engine),
                    }
                }
            }
            super::self_metrics::report_stats(
                DISCOVERY,
                &engine.stats(),
                &self.parts.shared.publisher.metrics,
            );
            let pause = self.pause();
            let stop = &self.parts.stop;
            let allowed = SHORTEST_LIGHT_GAP.max(time_for(self.light_mads) / REQUESTED_FACTOR);
            let least = if self.source.is_from_sa() { SHORTEST_GAP } else { allowed };
            if stop.sleep(least.min(pause).saturating_sub(start.elapsed())) {
                return Some(engine);
            }
            wanted = self.parts.shared.wait_for_discovery(pause.saturating_sub(start.elapsed()), stop);
            if stop.is_set() {
                return Some(engine);
            }
        }
    }

    /// From the beginning of one walk to that of the next, unless somebody queries.
    fn pause(&self) -> Duration {
        let discovery = &self.parts.config.discovery;
        let whole = discovery.interval_seconds.duration();
        match self.parts.shared.leader.role() {
            Role::Standby => return whole,
            Role::Waiting => return whole.min(WAITING_INTERVAL),
            Role::Unknown | Role::Active => {}
        }
        if self.publication.topology().is_none() {
            return whole.min(SHORTEST_GAP);
        }
        if self.source.is_from_sa() {
            // Tables of the whole subnet: the administrator's Reports say when to request them again.
            return whole;
        }
        let light = discovery.light_interval_seconds.duration();
        light.max(time_for(self.light_mads)).min(whole)
    }

    fn turns(&self) -> u64 {
        let within = ALL_QUERIED_WITHIN.min(self.parts.config.sweep.interval_seconds.duration());
        let walks = within.as_secs_f64() / self.pause().as_secs_f64().max(0.001);
        (walks as u64).clamp(1, TURNS_MAX)
    }

    fn walk(&mut self, engine: &mut Engine, wanted: DiscoveryRequest) -> Result<(), EngineError> {
        if !wanted.is_nothing() {
            tracing::debug!(reasons = ?wanted.reasons, nodes = wanted.nodes.len(), "a look before its time");
        }
        self.wants_whole |= wanted.whole;
        if wanted.tables {
            self.table_looks = TABLE_LOOKS;
        }
        let interval = self.parts.config.discovery.interval_seconds.duration();
        let least = if self.wants_whole { interval.min(SHORTEST_GAP) } else { interval };
        let known = self.publication.topology();
        let is_passive = self.parts.shared.leader.is_passive();
        let is_whole = known.is_none() || self.last_whole.is_none_or(|last| last.elapsed() >= least);
        let mut nodes = wanted.nodes;
        nodes.append(&mut self.doubted);
        self.turn += 1;
        let how = WalkOptions {
            known: known.as_deref(),
            whole: is_whole,
            tables: !is_passive && (is_whole || self.table_looks > 0 && Instant::now() >= self.tables_after),
            nodes: &nodes,
            lids: &wanted.lids,
            turn: self.turn,
            turns: self.turns(),
            limits: self.parts.config.discovery.limits(),
        };
        let began = self.parts.shared.publisher.clock.now();
        let start = Instant::now();
        let stop = &self.parts.stop;
        let walk = || discover::walk(engine, &how, stop.flag());
        let found = self.source.discover(&self.parts.shared, stop, walk)?;
        let metrics = &self.parts.shared.publisher.metrics;
        // Below 2^53.
        #[allow(clippy::cast_precision_loss)]
        metrics.set(
            (DISCOVERY, if is_whole { "whole" } else { "light" }),
            &LAST_DISCOVERY_MADS,
            found.mads as f64,
        );
        if is_whole {
            self.last_whole = Some(start);
            self.wants_whole = false;
        } else {
            metrics.add(DISCOVERY, &LIGHT_DISCOVERIES, 1);
        }
        let tables_cost = if how.tables { table_mads(&found.topology) } else { 0 };
        if !is_whole || self.light_mads == 0 {
            self.light_mads = found.mads.saturating_sub(tables_cost);
        }
        if how.tables {
            self.tables_after = start + time_for(tables_cost);
        }
        let tables = how.tables;
        if !self.take(found, began, is_whole, tables, known.as_deref()) {
            return Ok(());
        }
        // What the walk found is published: the rest may take its time.
        self.read_routing(engine, is_whole)?;
        if is_whole { self.read_multicast(engine, began) } else { Ok(()) }
    }

    /// Reads how switches route: of all after a whole walk, then of those that came since; one SMP each. The subnet
    /// administrator does not know it.
    fn read_routing(&mut self, engine: &mut Engine, is_whole: bool) -> Result<(), EngineError> {
        let topology = self.publication.topology().filter(|topology| topology.truncated.is_none());
        let Some(topology) = topology.filter(|_| !self.is_cut_off && !self.source.is_from_sa()) else {
            return Ok(());
        };
        let queried = &mut self.queried_for_routing;
        queried.retain(|guid| !is_whole && topology.node_by_guid(*guid).is_some());
        let new: Vec<NodeIndex> = adaptive_routing::reporting(&topology)
            .filter(|at| queried.insert(topology.nodes[*at].guid))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let stop = self.parts.stop.flag();
        let found = adaptive_routing::read_routing(engine, &topology, new.into_iter(), stop)?;
        self.publication.publish_routing(found, self.parts.shared.publisher.clock.now());
        Ok(())
    }

    /// Reads multicast tables after a whole walk, unless it is the administrator who reports: that one keeps none. Then
    /// requests that groups are read. What was found stays while the fabric is not to be seen.
    fn read_multicast(&mut self, engine: &mut Engine, began: i64) -> Result<(), EngineError> {
        if self.is_cut_off {
            return Ok(());
        }
        if self.source.is_from_sa() {
            self.request_groups(began, BTreeSet::new());
            return Ok(());
        }
        let is_due = Instant::now() >= self.multicast_after;
        // Of a truncated one they would be those of switches that may not be real.
        let topology = self.publication.topology().filter(|topology| is_due && topology.truncated.is_none());
        let Some(topology) = topology else { return Ok(()) };
        // Below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let pause = multicast_tables::cost(&topology) as f64 / MULTICAST_MADS_PER_SECOND;
        self.multicast_after = Instant::now() + Duration::from_secs_f64(pause);
        let (tables, failures) = multicast_tables::read(engine, &topology, self.parts.stop.flag())?;
        self.publication.publish_multicast(&tables, &failures, began);
        self.request_groups(began, tables.mlids());
        Ok(())
    }

    /// Has multicast groups read by the thread of the administrator.
    fn request_groups(&self, began: i64, mlids: BTreeSet<u16>) {
        if !self.parts.administration.read_groups(GroupsRequest { began, mlids }) {
            self.parts.shared.publisher.metrics.add((ADMINISTRATION, "busy"), &UNREAD_MULTICAST_GROUPS, 1);
        }
    }

    /// Publishes what was found, if it can be believed and this crawler is the one of its fabric. Whether it did.
    fn take(
        &mut self,
        mut found: Discovery,
        began: i64,
        is_whole: bool,
        tables: bool,
        known: Option<&Topology>,
    ) -> bool {
        let shared = self.parts.shared.clone();
        if found.topology.nodes.is_empty() {
            shared.publisher.metrics.set(DISCOVERY, &SOURCE_UP, 0.0);
            self.trust.failed(&shared, known);
            if !std::mem::replace(&mut self.is_from_sa, true) {
                tracing::warn!("the local node does not answer subnet management requests; trying on");
            }
            shared.publisher.sender.identity.lose();
            return false;
        }
        self.is_from_sa = false;
        shared.device.works(&shared, DISCOVERY);
        if self.report_cut_off(&found) {
            shared.publisher.sender.identity.lose();
            return false;
        }
        if !self.trust.accepts(&shared, &found, known) {
            return false;
        }
        found.topology = self.publication.believable(found.topology);
        if !self.is_ours(&found.topology) {
            return false;
        }
        found.topology.assumed_bytes_per_second = self.parts.config.sweep.assumed_speed();
        self.name(&mut found.topology);
        let is_new = |guid: &Guid| {
            known.is_none_or(|known| known.unanswered.get(guid).is_none_or(|node| node.looks == 0))
        };
        let unanswered = found.topology.unanswered.iter();
        self.doubted = unanswered
            .filter(|(guid, node)| node.looks == 1 && is_new(guid))
            .map(|(guid, _)| *guid)
            .collect();
        if !self.doubted.is_empty() {
            // Queried twice before it is believed.
            shared.want_discovery(&Trigger::Doubt);
        }
        let published = self.publication.publish(found, began, is_whole);
        self.table_looks = match (published, tables) {
            (TopologyChange::Changed, _) => TABLE_LOOKS,
            (TopologyChange::TablesOnly, true) => TABLE_LOOKS.max(self.table_looks),
            (_, true) => self.table_looks.saturating_sub(1),
            (_, false) => self.table_looks,
        };
        true
    }

    /// Whether the topology is to be published: the collector says which fabric it is, and whether this crawler sweeps it.
    fn is_ours(&mut self, topology: &Topology) -> bool {
        let shared = &self.parts.shared;
        let was_passive = shared.leader.is_passive();
        let identity = &shared.publisher.sender.identity;
        let Some(mut fingerprint) = records::fingerprint(topology) else {
            identity.lose();
            return false;
        };
        fingerprint.name = self.parts.config.fabric.name.clone().map_or_else(String::new, |name| name.0);
        match identity.decide(fingerprint, &shared.leader, &self.parts.stop) {
            PublishDecision::Hold => return false,
            PublishDecision::Publish => {}
            PublishDecision::PublishAnew => self.publication.discard(),
        }
        if was_passive {
            // It begins with a whole walk that reads tables, too.
            shared.want_discovery(&Trigger::Request);
        }
        !was_passive
    }

    /// Reports when the local port lost its link and when it has it again. Whether it has none.
    fn report_cut_off(&mut self, found: &Discovery) -> bool {
        let was = std::mem::replace(&mut self.is_cut_off, found.is_cut_off);
        if was != found.is_cut_off {
            let local = found.topology.local.map(|end| (found.topology.nodes[end.node].guid, end.port));
            let state = |is_off| if is_off { "no link" } else { "linked" }.to_owned();
            let (kind, text) = match found.is_cut_off {
                true => (
                    &FABRIC_CUT_OFF,
                    "the crawler's own port has no link; what is known of the fabric is old",
                ),
                false => (&FABRIC_SEEN, "the crawler's own port has its link again"),
            };
            let end = local.unwrap_or((Guid(0), 0));
            let (before, after) = (state(was), state(found.is_cut_off));
            let event = FabricEvent { kind, end, remote: None, before, after, text: text.to_owned() };
            self.parts.shared.publisher.emit(&[event]);
        }
        if found.is_cut_off {
            self.parts.shared.publisher.metrics.set(DISCOVERY, &SOURCE_UP, 0.0);
        }
        found.is_cut_off
    }

    fn name(&mut self, topology: &mut Topology) {
        match self.parts.names.refresh() {
            Ok(true) => tracing::info!(names = self.parts.names.map().len(), "node-name map"),
            Ok(false) => {}
            Err(error) => {
                self.parts.shared.publisher.metrics.add(DISCOVERY, &FAILED_READS, 1);
                tracing::warn!(%error, "the names before stay");
            }
        }
        self.parts.names.map().apply(&mut topology.nodes);
    }
}

/// How long so many SMPs take at the rate of light walks.
fn time_for(mads: u64) -> Duration {
    // Below 2^53.
    #[allow(clippy::cast_precision_loss)]
    Duration::from_secs_f64(mads as f64 / LIGHT_MADS_PER_SECOND)
}

/// SMPs that all forwarding tables of a subnet cost.
fn table_mads(topology: &Topology) -> u64 {
    let tops = topology.nodes.iter().filter_map(|node| node.switch).map(|switch| switch.linear_top);
    tops.map(|top| u64::from(top) / LFT_BLOCK_LIDS as u64 + 1).sum()
}
