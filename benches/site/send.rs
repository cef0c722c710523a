//! A spool in memory and a connection for each node and for the crawler.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use throughline_delivery::wire::DetailRequest;
use throughline_delivery::{GrpcSink, Outbox, Quarantine, ShipStats, ship};
use throughline_sample::Message;
use throughline_sample::wire::Batch;
use throughline_spool::{Class, Config, Spool};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What waits in all spools.
pub struct Waiting {
    /// Entries that are not acknowledged.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Left out or dropped since the beginning, in entries.
    pub lost: u64,
    /// Age of the oldest one, seconds.
    pub oldest: f64,
}

/// Requests that wait for a node.
const REQUESTS_MAX: usize = 32;

/// Nothing is refused.
const KEPT: Duration = Duration::from_secs(60);

/// All spools.
pub struct Outgoing {
    crawler: Spool,
    nodes: HashMap<String, Spool>,
    /// What delivers, of agents that take requests.
    agents: Vec<Outbox>,
}

impl Outgoing {
    /// Starts to ship to a collector, within the runtime. Nodes are named n0 and so on.
    ///
    /// # Errors
    /// The address is none.
    pub fn start(url: &str, nodes: u64, stop: &CancellationToken) -> anyhow::Result<Self> {
        let spool = |memory_bytes_max, sink: GrpcSink| -> anyhow::Result<Spool> {
            let spool = Spool::in_memory(Config { memory_bytes_max, ..Config::default() })?;
            let (stop, ships) = (stop.clone(), spool.clone());
            tokio::spawn(async move { ship(&ships, &sink, stop, &Arc::new(ShipStats::default())).await });
            Ok(spool)
        };
        let mut all = Self {
            crawler: spool(512 << 20, GrpcSink::new(url)?)?,
            nodes: HashMap::new(),
            agents: Vec::new(),
        };
        for node in 0..nodes {
            all.nodes.insert(format!("n{node}"), spool(16 << 20, GrpcSink::new(url)?)?);
        }
        Ok(all)
    }

    /// As [`Outgoing::start`], for nodes alone, as agents do that take requests; and what the collector requests of each, by their numbers.
    ///
    /// # Errors
    /// The address is none.
    pub fn start_agents(url: &str, nodes: u64) -> anyhow::Result<(Self, Vec<mpsc::Receiver<DetailRequest>>)> {
        let spool = |memory_bytes_max| Spool::in_memory(Config { memory_bytes_max, ..Config::default() });
        let mut all = Self { crawler: spool(4 << 20)?, nodes: HashMap::new(), agents: Vec::new() };
        let mut requested = Vec::new();
        for node in 0..nodes {
            let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
            let (spool, refused) = (spool(16 << 20)?, spool(4 << 20)?);
            let quarantine = Quarantine::new(refused, None, KEPT, &spool)?;
            all.agents.push(Outbox::start(
                spool.clone(),
                quarantine,
                GrpcSink::new(url)?.with_detail(requests),
            ));
            all.nodes.insert(format!("n{node}"), spool);
            requested.push(receiver);
        }
        Ok((all, requested))
    }

    /// Appends what the crawler sends.
    ///
    /// # Errors
    /// A batch is larger than an entry may be, or the node is none.
    pub fn crawled(&self, batches: Vec<Batch>) -> anyhow::Result<()> {
        for batch in batches {
            let class = if batch.ib_nodes.is_empty() { Class::Cumulative(0) } else { Class::Precious };
            self.crawler.append(batch.encode_to_vec(), class)?;
        }
        Ok(())
    }

    /// Appends what a node is.
    ///
    /// # Errors
    /// A batch is larger than an entry may be, or the node is none.
    pub fn inventory(&self, node: &str, batch: &Batch) -> anyhow::Result<()> {
        self.append(node, batch, Class::Precious)
    }

    /// Appends what a node sends of its readings.
    ///
    /// # Errors
    /// A batch is larger than an entry may be, or the node is none.
    pub fn samples(&self, node: &str, batch: &Batch) -> anyhow::Result<()> {
        self.append(node, batch, Class::Cumulative(0))
    }

    fn append(&self, node: &str, batch: &Batch, class: Class) -> anyhow::Result<()> {
        let Some(spool) = self.nodes.get(node) else { anyhow::bail!("{node} has no spool") };
        spool.append(batch.encode_to_vec(), class)?;
        Ok(())
    }

    /// What waits now.
    pub fn waiting(&self) -> Waiting {
        let now = super::now().unwrap_or(0);
        let mut all = Waiting { entries: 0, bytes: 0, lost: 0, oldest: 0.0 };
        for spool in self.nodes.values().chain([&self.crawler]) {
            let stats = spool.stats();
            all.entries += stats.backlog_entries;
            all.bytes += stats.memory_bytes;
            all.lost += stats.thinned_memory_entries + stats.dropped_memory_entries + stats.refused_entries;
            let age = stats.oldest_ns.map_or(0.0, |oldest| (now - oldest) as f64 / 1e9);
            all.oldest = all.oldest.max(age);
        }
        all
    }
}
