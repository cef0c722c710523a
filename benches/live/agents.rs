//! The nodes' agents: each second what their ranks push, and rows of jobs that somebody looks at a moment later.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use throughline_agent::live::LiveJob;
use throughline_benches::site::cluster::Cluster;
use throughline_benches::site::node::{Node, nodes};
use throughline_benches::site::now;
use throughline_benches::site::ranks::SECOND;
use throughline_benches::site::send::Outgoing;
use throughline_delivery::wire::DetailRequest;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// After a whole second: what ranks report at it has come.
const ARRIVED: i64 = SECOND / 10;
/// And rows of what is shown live are made.
const LIVE: i64 = SECOND * 55 / 100;

/// A node and what is requested of it.
struct Agent {
    node: Node,
    requests: mpsc::Receiver<DetailRequest>,
    live: Option<LiveJob>,
}

/// What rows of what is shown live cost.
#[derive(Default)]
struct Costs {
    rows: AtomicU64,
    nanoseconds: AtomicU64,
    longest: AtomicU64,
}

/// All agents.
pub struct Agents {
    agents: Mutex<Vec<Agent>>,
    outgoing: Outgoing,
    turns: u64,
    job_keys: Vec<String>,
    costs: Costs,
    late: AtomicU64,
}

impl Agents {
    /// The nodes of a cluster, announced.
    pub fn new(
        cluster: Cluster,
        outgoing: Outgoing,
        requests: Vec<mpsc::Receiver<DetailRequest>>,
        turns: u64,
    ) -> anyhow::Result<Self> {
        let mut nodes = nodes(&cluster, now()? / SECOND * SECOND);
        let mut job_keys: Vec<String> = Vec::new();
        for node in &mut nodes {
            let batch = node.inventory();
            outgoing.inventory(&node.name, &batch)?;
            if !job_keys.contains(&node.ranks.job_key) {
                job_keys.push(node.ranks.job_key.clone());
            }
        }
        let agent = |(node, requests)| Agent { node, requests, live: None };
        let agents = Mutex::new(nodes.into_iter().zip(requests).map(agent).collect());
        let (costs, late) = (Costs::default(), AtomicU64::new(0));
        Ok(Self { agents, outgoing, turns, job_keys, costs, late })
    }

    /// The jobs, the largest first.
    pub fn job_keys(&self) -> Vec<String> {
        self.job_keys.clone()
    }

    /// Seconds in which this driver was not done in time.
    pub fn late(&self) -> u64 {
        self.late.load(Relaxed)
    }

    /// Counts costs from now on.
    pub fn forget_costs(&self) {
        let costs = &self.costs;
        for count in [&costs.rows, &costs.nanoseconds, &costs.longest, &self.late] {
            count.store(0, Relaxed);
        }
    }

    /// What the rows of a node cost its agent.
    pub fn print_costs(&self) {
        let rows = self.costs.rows.load(Relaxed).max(1);
        let mean = self.costs.nanoseconds.load(Relaxed) as f64 / rows as f64;
        println!(
            "agents: {:.1} µs a second for the rows of a node that is shown live ({:.4} % of a core), at most {:.1} µs",
            mean / 1e3,
            mean / 1e7,
            self.costs.longest.load(Relaxed) as f64 / 1e3
        );
    }

    /// Makes records second by second, at the pace of the clock, until it is stopped.
    pub fn run(&self, stop: &CancellationToken) -> anyhow::Result<()> {
        let mut agents = self.agents.lock().map_err(|_| anyhow::anyhow!("another driver panicked"))?;
        let mut time = now()? / SECOND * SECOND;
        while !stop.is_cancelled() {
            time += SECOND;
            until(time + ARRIVED)?;
            for agent in agents.iter_mut() {
                let batch = agent.node.second_of(self.turns, time, now()?);
                self.outgoing.samples(&agent.node.name, &batch)?;
            }
            until(time + LIVE)?;
            for agent in agents.iter_mut() {
                self.live(agent, time)?;
            }
            if now()? > time + SECOND + ARRIVED {
                self.late.fetch_add(1, Relaxed);
                time = now()? / SECOND * SECOND;
            }
        }
        Ok(())
    }

    fn live(&self, agent: &mut Agent, time: i64) -> anyhow::Result<()> {
        while let Ok(request) = agent.requests.try_recv() {
            if request.is_live {
                let (ranks, is_all_ranks) = (request.ranks.into(), request.is_all_ranks);
                agent.live = Some(LiveJob { until: request.expires, ranks, is_all_ranks });
            }
        }
        let now = now()?;
        let Some(job) = agent.live.clone().filter(|job| job.until > now) else {
            agent.live = None;
            return Ok(());
        };
        let begun = Instant::now();
        let mut batch = agent.node.ranks.live(job, time);
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.costs.rows.fetch_add(1, Relaxed);
        self.costs.nanoseconds.fetch_add(took, Relaxed);
        self.costs.longest.fetch_max(took, Relaxed);
        agent.node.sign(&mut batch);
        self.outgoing.samples(&agent.node.name, &batch)
    }
}

fn until(time: i64) -> anyhow::Result<()> {
    std::thread::sleep(Duration::from_nanos(u64::try_from(time - now()?).unwrap_or(0)));
    Ok(())
}
