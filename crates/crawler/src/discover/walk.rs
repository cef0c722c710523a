//! One walk: each reply queues what it makes known (ports of a new node, neighbours behind linked ports, table
//! blocks of a switch), within the bounds of a discovery. It keeps no clock and sends nothing itself.

mod neighbour;

use super::frontier::Frontier;
use super::limits::{DiscoveryUsage, Limits};
use super::walked::{Purpose, WalkedNode};
use super::{Discovery, WalkOptions, keep};
use crate::engine::{Ended, NodeId, Outcome, Queue, Request, Route, Work};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;
use throughline_infiniband::mad::{
    self, DirectedPath, LFT_BLOCK_LIDS, LFT_NO_PORT, Mad, MlnxExtPortInfo, NodeKind, PortInfo, Query,
    SwitchInfo, attribute,
};
use throughline_infiniband::topology::{Failure, Limit, NEIGHBOUR};
use throughline_infiniband::topology::{Node, NodeIndex, Port, PortEnd, Topology};
use throughline_sample::Guid;

/// LinkSpeedActive of QDR (IBTA volume 1, 14.2.5.6).
const QDR: u8 = 4;

/// Places behind which a neighbour is requested at once: as many as an engine has outstanding requests. What waits
/// beyond takes its turn by [`Frontier`].
const PROBES_MAX: usize = 256;
/// Failures of one discovery that are listed; further ones only hide what these show.
pub(super) const FAILURES_MAX: usize = 65_536;

/// What a light walk does about a linked port.
enum Trust {
    /// Request NodeInfo of who is there.
    Request,
    /// The node that is known to be there is, at this port of its.
    Known(Guid, u8),
    /// Who is known to be there does not answer, and it is not its turn.
    Leave,
}

pub(super) struct Walk<'a> {
    how: &'a WalkOptions<'a>,
    nodes: Vec<WalkedNode>,
    by_guid: HashMap<Guid, NodeIndex>,
    local: Option<PortEnd>,
    purposes: Vec<Purpose>,
    /// Positions of it that are free again.
    free: Vec<u32>,
    limits: Limits,
    taken: DiscoveryUsage,
    truncated: Option<Limit>,
    began: Option<Instant>,
    frontier: Frontier,
    /// Outstanding requests who is behind a port.
    probes: usize,
    failures: Vec<Failure>,
    /// Replies that were not believed, by reason.
    rejected: BTreeMap<&'static str, u64>,
    /// End ports whose PortInfo was requested in this walk.
    ports_requested: HashSet<PortEnd>,
    /// Known switches whose NodeInfo is being requested.
    awaited: HashSet<Guid>,
    /// Further cables to such, each from here to a port of theirs.
    cables: Vec<(PortEnd, Guid, u8)>,
    /// Ends behind which nobody answered.
    unanswered: HashSet<PortEnd>,
    /// Switches whose table was not read completely.
    torn_tables: HashSet<NodeIndex>,
}

impl<'a> Walk<'a> {
    pub fn new(how: &'a WalkOptions<'a>) -> Walk<'a> {
        Walk {
            how,
            nodes: Vec::new(),
            by_guid: HashMap::new(),
            local: None,
            purposes: Vec::new(),
            free: Vec::new(),
            limits: how.limits,
            taken: DiscoveryUsage::default(),
            truncated: None,
            began: None,
            frontier: Frontier::default(),
            probes: 0,
            failures: Vec::new(),
            rejected: BTreeMap::new(),
            ports_requested: HashSet::new(),
            awaited: HashSet::new(),
            cables: Vec::new(),
            unanswered: HashSet::new(),
            torn_tables: HashSet::new(),
        }
    }

    /// What is known, in a light walk.
    fn trusted(&self) -> Option<&'a Topology> {
        self.how.known.filter(|_| !self.how.whole)
    }

    fn trusted_node(&self, guid: Guid) -> Option<&'a Node> {
        let known = self.trusted()?;
        known.node_by_guid(guid).map(|index| &known.nodes[index])
    }

    /// Whether a known node is to be queried in this walk.
    fn is_due(&self, node: &Node) -> bool {
        self.how.nodes.contains(&node.guid)
            || node.ports.iter().any(|port| port.info.is_some_and(|info| self.how.lids.contains(&info.lid)))
            || keep::turn_of(node.guid, self.how.turns) == self.how.turn % self.how.turns.max(1)
    }

    fn request(&mut self, queue: &mut Queue, node: NodeId, attribute: u16, modifier: u32, purpose: Purpose) {
        if self.truncated == Some(Limit::Time) {
            return;
        }
        if self.taken.mads >= self.limits.mads {
            return self.truncate(Limit::Mads);
        }
        self.taken.mads += 1;
        let tag = match self.free.pop() {
            Some(tag) => {
                self.purposes[tag as usize] = purpose;
                u64::from(tag)
            }
            None => {
                self.purposes.push(purpose);
                self.purposes.len() as u64 - 1
            }
        };
        queue.push(node, Request::new(Query { attribute, modifier, port_select: 0 }, tag));
    }

    /// A bound was reached: the walk goes no further. Longer routes than allowed are left out, and the rest goes on.
    fn truncate(&mut self, limit: Limit) {
        if self.goes_on() {
            self.truncated = Some(limit);
        }
        if limit != Limit::Hops {
            self.frontier.clear();
        }
    }

    /// Whether the walk may still go on to further nodes.
    fn goes_on(&self) -> bool {
        self.truncated.is_none_or(|limit| limit == Limit::Hops)
    }

    /// Requests who is behind the next places, as many as may be outstanding.
    fn advance(&mut self, queue: &mut Queue) {
        while self.probes < PROBES_MAX {
            let Some(end) = self.frontier.pop() else { return };
            let path = self.nodes[end.node].found.path.through(end.port);
            match path.filter(|path| path.ports().len() <= self.limits.hops) {
                Some(path) => self.probe(queue, path, Some(end)),
                None => {
                    self.fail(queue, Purpose::Neighbour(Some(end)), "more hops away than a route may have");
                    self.truncate(Limit::Hops);
                }
            }
        }
    }

    /// Queries who is at the end of a path.
    pub fn probe(&mut self, queue: &mut Queue, path: DirectedPath, behind: Option<PortEnd>) {
        let node = queue.add_node(Route::Directed(path));
        self.probes += 1;
        self.request(queue, node, attribute::NODE_INFO, 0, Purpose::Neighbour(behind));
    }

    fn probe_behind(&mut self, end: PortEnd) {
        if self.goes_on() {
            self.frontier.push(end);
        }
    }

    /// Queries who is behind cables to switches that did not turn up. Whether there were any.
    pub fn request_missing(&mut self, queue: &mut Queue) -> bool {
        let mut any = false;
        for (here, guid, port) in std::mem::take(&mut self.cables) {
            if self.port(here).is_none_or(|port| port.remote.is_some()) {
                continue;
            }
            match self.by_guid.get(&guid) {
                Some(node) => self.connect(here, PortEnd { node: *node, port }),
                None => {
                    self.probe_behind(here);
                    any = true;
                }
            }
        }
        self.advance(queue);
        any
    }

    fn request_switch_ports(&mut self, queue: &mut Queue, index: NodeIndex) {
        let Some(id) = self.nodes[index].engine else { return };
        for port in 0..=self.nodes[index].found.port_count {
            let end = PortEnd { node: index, port };
            self.request(queue, id, attribute::PORT_INFO, u32::from(port), Purpose::Port(end));
        }
    }

    fn port(&self, end: PortEnd) -> Option<&Port> {
        self.nodes[end.node].found.port(end.port)
    }

    fn port_mut(&mut self, end: PortEnd) -> Option<&mut Port> {
        self.nodes[end.node].found.port_mut(end.port)
    }

    fn port_info(&mut self, queue: &mut Queue, end: PortEnd, data: &[u8]) {
        let Ok(info) = PortInfo::decode(data) else { return };
        let Some(port) = self.port_mut(end) else { return };
        let before = port.info.replace(info);
        self.request_fdr10(queue, end, before);
        self.go_on(end);
    }

    /// A QDR link of a device that may do FDR10: the vendor's attribute says which of them it is.
    fn request_fdr10(&mut self, queue: &mut Queue, end: PortEnd, before: Option<PortInfo>) {
        let WalkedNode { found, engine, .. } = &mut self.nodes[end.node];
        let (vendor, device, id) = (found.vendor_id, found.device_id, *engine);
        let Some(info) = found.port_mut(end.port).and_then(|port| port.info.as_mut()) else { return };
        let is_qdr = info.is_linked() && info.speed_active == QDR && info.extended_speed_active == 0;
        if end.port == 0 || !is_qdr || !MlnxExtPortInfo::is_known_of(vendor, device) {
            return;
        }
        match before.filter(|before| before.is_linked() && before.speed_active == info.speed_active) {
            // The link did not change, so neither did this.
            Some(before) => info.is_fdr10 = before.is_fdr10,
            None => {
                let Some(id) = id else { return };
                self.request(
                    queue,
                    id,
                    attribute::MLNX_EXT_PORT_INFO,
                    u32::from(end.port),
                    Purpose::Fdr10(end),
                );
            }
        }
    }

    fn fdr10(&mut self, end: PortEnd, data: &[u8]) {
        let Ok(reported) = MlnxExtPortInfo::decode(data) else { return };
        if let Some(info) = self.port_mut(end).and_then(|port| port.info.as_mut()) {
            info.is_fdr10 = reported.is_fdr10();
        }
    }

    /// Goes on behind a port, if its link is up.
    fn go_on(&mut self, end: PortEnd) {
        let Some(info) = self.port(end).filter(|port| port.remote.is_none()).and_then(|port| port.info)
        else {
            return;
        };
        if end.port == 0 || !info.is_linked() {
            return;
        }
        // Only switches pass directed routes on; the local node is where they begin.
        if self.nodes[end.node].found.kind != NodeKind::Switch && self.local != Some(end) {
            return;
        }
        match self.trust(end, &info) {
            Trust::Request => self.probe_behind(end),
            Trust::Leave => {}
            Trust::Known(guid, port) => self.follow(end, guid, port),
        }
    }

    /// What is known of a linked port's neighbour and still holds.
    fn trust(&self, end: PortEnd, info: &PortInfo) -> Trust {
        let walked = &self.nodes[end.node];
        let Some(known) = self.trusted() else { return Trust::Request };
        let before = self.trusted_node(walked.found.guid).and_then(|node| node.port(end.port));
        let Some((port, remote)) = before.and_then(|port| Some((port, port.remote?))) else {
            return Trust::Request;
        };
        let same = |old: &PortInfo| {
            (old.state, old.physical_state, old.width_active)
                == (info.state, info.physical_state, info.width_active)
                && (old.speed_active, old.extended_speed_active)
                    == (info.speed_active, info.extended_speed_active)
        };
        if walked.is_suspect || !port.info.as_ref().is_some_and(same) {
            return Trust::Request;
        }
        let node = &known.nodes[remote.node];
        match (self.is_due(node), known.unanswered.contains_key(&node.guid)) {
            (false, true) => Trust::Leave,
            (true, _) if node.kind != NodeKind::Switch => Trust::Request,
            _ => Trust::Known(node.guid, remote.port),
        }
    }

    /// Goes on to a neighbour that is known. Switches say who they are, once; end nodes are taken as they are.
    fn follow(&mut self, end: PortEnd, guid: Guid, port: u8) {
        let is_switch = self.trusted_node(guid).is_some_and(|node| node.kind == NodeKind::Switch);
        let reached = self.by_guid.get(&guid).copied();
        match reached.or_else(|| if is_switch { None } else { self.take(guid, end) }) {
            Some(node) => self.connect(end, PortEnd { node, port }),
            // Beyond the bounds: it stays as it is known.
            None if !self.goes_on() => {}
            None if is_switch && !self.awaited.insert(guid) => self.cables.push((end, guid, port)),
            None => self.probe_behind(end),
        }
    }

    fn switch_info(&mut self, queue: &mut Queue, index: NodeIndex, data: &[u8]) {
        let Ok(info) = SwitchInfo::decode(data) else { return };
        let walked = &mut self.nodes[index];
        let before = walked.found.switch.replace(info);
        let is_known = before.is_some();
        walked.is_suspect |= info.port_state_change;
        let has_table = !walked.found.forwarding.is_empty();
        let moved = before.is_some_and(|before| has_table && before.linear_top != info.linear_top);
        if self.how.tables || moved {
            self.request_table(queue, index, &info);
        }
        if is_known {
            // What it says of its ports decides whom to trust behind them.
            self.request_switch_ports(queue, index);
        }
    }

    fn request_table(&mut self, queue: &mut Queue, index: NodeIndex, info: &SwitchInfo) {
        let Some(id) = self.nodes[index].engine else { return };
        let blocks = info.linear_blocks();
        let bytes = usize::from(blocks) * LFT_BLOCK_LIDS;
        if let Err(limit) = self.taken.check_table(&self.limits, bytes) {
            return self.truncate(limit);
        }
        self.taken.table_bytes += bytes;
        self.nodes[index].found.forwarding = vec![LFT_NO_PORT; usize::from(blocks) * LFT_BLOCK_LIDS];
        for block in 0..blocks {
            let purpose = Purpose::Table(index, block);
            self.request(queue, id, attribute::LINEAR_FORWARDING_TABLE, u32::from(block), purpose);
        }
    }

    fn table_block(&mut self, index: NodeIndex, block: u16, data: &[u8]) {
        let node = &mut self.nodes[index].found;
        let top = node.switch.map_or(0, |switch| usize::from(switch.linear_top));
        let first = usize::from(block) * LFT_BLOCK_LIDS;
        for (offset, port) in data.iter().take(LFT_BLOCK_LIDS).enumerate() {
            // What a switch keeps beyond its top is left over from before.
            if let Some(entry) = node.forwarding.get_mut(first + offset).filter(|_| first + offset <= top) {
                *entry = *port;
            }
        }
    }

    fn fail(&mut self, queue: &mut Queue, purpose: Purpose, reason: &'static str) {
        let (what, node, port) = match purpose {
            Purpose::Neighbour(behind) => (NEIGHBOUR, behind.map(|end| end.node), behind.map(|end| end.port)),
            Purpose::Description(node) => ("NodeDescription", Some(node), None),
            Purpose::Switch(node) => ("SwitchInfo", Some(node), None),
            Purpose::Port(end) => ("PortInfo", Some(end.node), Some(end.port)),
            Purpose::Fdr10(end) => ("MlnxExtPortInfo", Some(end.node), Some(end.port)),
            Purpose::Table(node, _) => ("LinearForwardingTable", Some(node), None),
        };
        let guid = node.map(|node| self.nodes[node].found.guid);
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(Failure { guid, port, what, reason });
        }
        match purpose {
            Purpose::Neighbour(Some(end)) => {
                self.unanswered.insert(end);
            }
            // With what is known of the port, or of the switch, the walk goes on.
            Purpose::Port(end) => self.go_on(end),
            Purpose::Switch(node) if self.nodes[node].found.switch.is_some() => {
                self.nodes[node].is_suspect = true;
                self.request_switch_ports(queue, node);
            }
            Purpose::Table(node, _) => {
                self.torn_tables.insert(node);
            }
            _ => {}
        }
    }

    fn reply(&mut self, queue: &mut Queue, id: NodeId, purpose: Purpose, mad: &Mad) {
        let data = mad::smp_data(mad);
        match purpose {
            Purpose::Neighbour(behind) => self.neighbour(queue, id, behind, data),
            Purpose::Description(index) => self.nodes[index].found.description = mad::node_description(data),
            Purpose::Switch(index) => self.switch_info(queue, index, data),
            Purpose::Port(end) => self.port_info(queue, end, data),
            Purpose::Fdr10(end) => self.fdr10(end, data),
            Purpose::Table(index, block) => self.table_block(index, block, data),
        }
    }

    /// The result, with what is kept of `known`.
    pub fn finish(self, known: Option<&Topology>) -> Discovery {
        let prefix_of = |end: PortEnd| {
            let node = &self.nodes[end.node].found;
            // A switch has its prefix in port 0.
            let number = if node.kind == NodeKind::Switch { 0 } else { end.port };
            node.port(number)?.info.map(|info| info.gid_prefix)
        };
        let subnet_prefix = self.local.and_then(prefix_of).unwrap_or(0);
        let is_cut_off =
            known.is_some_and(|known| keep::is_cut_off(known, self.local.and_then(|end| self.port(end))));
        let mut found = keep::WalkFindings {
            nodes: self.nodes.into_iter().map(|node| node.found).collect(),
            by_guid: self.by_guid,
            unanswered: self.unanswered,
            torn_tables: self.torn_tables,
        };
        let standing = match known.filter(|_| !is_cut_off && !found.nodes.is_empty()) {
            Some(known) => found.keep(known, self.truncated.is_some()),
            None => keep::UnansweredNodes::new(),
        };
        let (disputed, mut rejected) = (keep::disputed(&found.nodes, known, &standing), self.rejected);
        if !disputed.is_empty() {
            rejected.insert("duplicate_lid", disputed.len() as u64);
        }
        let mut topology = Topology::new(found.nodes, self.local, subnet_prefix);
        topology.unanswered = standing;
        topology.disputed = disputed;
        topology.truncated = self.truncated;
        Discovery { topology, failures: self.failures, is_cut_off, rejected, ..Discovery::default() }
    }
}

impl Work for Walk<'_> {
    fn done(&mut self, queue: &mut Queue, node: NodeId, tag: u64, outcome: Outcome<'_>, ended: Ended) {
        let Some(purpose) = usize::try_from(tag).ok().and_then(|tag| self.purposes.get(tag)).copied() else {
            return;
        };
        // There are fewer than 2^32 outstanding.
        self.free.push(tag as u32);
        if let Purpose::Neighbour(_) = purpose {
            self.probes -= 1;
        }
        if ended.at.duration_since(*self.began.get_or_insert(ended.at)) > self.limits.time && self.goes_on() {
            self.truncate(Limit::Time);
            queue.drop_pending();
        }
        match outcome {
            Outcome::Reply(mad) => self.reply(queue, node, purpose, mad),
            // Without the attribute there is no FDR10: the link is what PortInfo says.
            Outcome::Refused(_) if matches!(purpose, Purpose::Fdr10(_)) => {}
            Outcome::Refused(_) => self.fail(queue, purpose, "refused"),
            Outcome::Timeout => self.fail(queue, purpose, "timeout"),
            Outcome::Silent => self.fail(queue, purpose, "silent"),
            Outcome::NotSent => self.fail(queue, purpose, "not_sent"),
        }
        self.advance(queue);
    }
}
