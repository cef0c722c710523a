//! Jobs by formula: what each of their ranks has done at each second is known.

use crate::frames::{CALL_BYTES, Rank, Sums};
use crate::truth::HOUR;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Ranks of a job: half of them on each of the two agents.
pub const RANKS: u32 = 4;
/// The agents' nodes.
pub const NODES: [&str; 2] = ["a0", "a1"];
/// Seconds for one call of each rank.
const CALL_SECONDS: i64 = 10;
/// Calls that are made in the first region.
const INIT_CALLS: u64 = 60;

/// What is planned of a job, in seconds of the world.
#[derive(Clone, Debug)]
pub struct JobPlan {
    pub name: String,
    pub number: u32,
    pub starts: i64,
    /// It calls MPI until here.
    pub quiet_from: i64,
    /// It calls MPI_Finalize.
    pub ends: i64,
}

/// Numbers by text keys: two of each row.
pub type Rows = BTreeMap<String, (i64, i64)>;

impl JobPlan {
    /// Calls that each rank has made by this second.
    fn calls(&self, second: i64) -> u64 {
        let until = second.min(self.quiet_from).min(self.ends);
        ((until - self.starts) / CALL_SECONDS).max(0).unsigned_abs()
    }

    fn sums(&self, rank: u32, second: i64) -> Sums {
        let calls = self.calls(second);
        let init = calls.min(INIT_CALLS);
        let others = (0..RANKS).filter(|peer| *peer != rank);
        // Neighbours are sent to in the first hour only, so that lines exist that change no more.
        let until = |peer: u32| {
            if peer == (rank + 1) % RANKS {
                calls.min(HOUR.unsigned_abs() / CALL_SECONDS.unsigned_abs())
            } else {
                calls
            }
        };
        let peers = others.map(|peer| {
            let messages = until(peer);
            (peer, messages * u64::from(1000 * (rank * RANKS + peer + 1)), messages)
        });
        Sums { calls: [init, calls - init], peers: peers.collect() }
    }

    /// What the database is to have at this second: calls and bytes by rank and region.
    pub fn operations(&self, second: i64) -> Rows {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let one = |rank| {
            let calls = self.sums(rank, second).calls.iter().sum::<u64>();
            (format!("rank {rank} allreduce"), (number(calls), number(calls * CALL_BYTES)))
        };
        (0..RANKS).map(one).filter(|(_, (calls, _))| *calls > 0).collect()
    }

    /// Visits and calls of MPI by rank and region.
    pub fn regions(&self, second: i64) -> Rows {
        let mut rows = Rows::new();
        for rank in 0..RANKS {
            for (name, calls) in crate::frames::REGIONS.iter().zip(self.sums(rank, second).calls) {
                let calls = i64::try_from(calls).unwrap_or(i64::MAX);
                if calls > 0 {
                    rows.insert(format!("rank {rank} {name}"), (calls, calls));
                }
            }
        }
        rows
    }

    /// Bytes and messages by rank and peer.
    pub fn peers(&self, second: i64) -> Rows {
        self.traffic(second, |rank| format!("rank {rank}"), |peer| format!("rank {peer}"))
    }

    /// The same by node and peer.
    pub fn node_peers(&self, second: i64) -> Rows {
        self.traffic(second, |rank| node_of(rank).to_owned(), |peer| format!("rank {peer}"))
    }

    /// The same by pair of nodes.
    pub fn node_pairs(&self, second: i64) -> Rows {
        self.traffic(second, |rank| node_of(rank).to_owned(), |peer| node_of(peer).to_owned())
    }

    fn traffic(&self, second: i64, from: impl Fn(u32) -> String, to: impl Fn(u32) -> String) -> Rows {
        let mut rows = Rows::new();
        for rank in 0..RANKS {
            for (peer, bytes, messages) in self.sums(rank, second).peers {
                let row = rows.entry(format!("{} to {}", from(rank), to(peer))).or_default();
                row.0 += i64::try_from(bytes).unwrap_or(0);
                row.1 += i64::try_from(messages).unwrap_or(0);
            }
        }
        rows
    }
}

/// The node of a rank.
pub fn node_of(rank: u32) -> &'static str {
    NODES[usize::from(rank >= RANKS / 2)]
}

/// A job with the connections of its ranks.
pub struct Job {
    pub plan: JobPlan,
    ranks: Vec<Rank>,
    pushed: Option<u64>,
    pub is_over: bool,
}

impl Job {
    /// With the sockets of the agents.
    pub fn start(plan: JobPlan, sockets: &[PathBuf; 2]) -> Self {
        let socket = |rank| sockets[usize::from(rank >= RANKS / 2)].clone();
        let ranks = (0..RANKS).map(|rank| Rank::new(socket(rank), rank, RANKS, plan.number)).collect();
        Self { plan, ranks, pushed: None, is_over: false }
    }

    /// Pushes what is new at this second, and ends where it is time.
    pub fn go_on(&mut self, second: i64) -> anyhow::Result<()> {
        let calls = self.plan.calls(second);
        let is_new = self.pushed != Some(calls) || self.ranks.iter().any(|rank| !rank.is_connected());
        if !self.is_over && is_new {
            for (number, rank) in (0..).zip(&mut self.ranks) {
                rank.push(&self.plan.sums(number, second))?;
            }
            self.pushed = Some(calls);
        }
        if !self.is_over && second >= self.plan.ends {
            self.is_over = true;
            for rank in self.ranks.drain(..) {
                rank.finish()?;
            }
        }
        Ok(())
    }
}
