//! Records of a hostile node: at random, about jobs, ranks and devices of others, and such as nobody may report.

use fastrand::Rng;
use throughline_sample::wire::*;

const SECOND: i64 = 1_000_000_000;

/// Most records of a kind in a batch.
const RECORDS_MAX: usize = 20;

/// Who is attacked.
pub struct Victims {
    /// Numbers of their jobs.
    pub jobs: Vec<u32>,
    /// Their user.
    pub uid: u32,
    /// Their nodes.
    pub nodes: Vec<String>,
}

/// A batch of claims at this time.
pub struct Claims<'a> {
    pub random: &'a mut Rng,
    pub victims: &'a Victims,
    pub node: &'a str,
    pub now: i64,
}

impl Claims<'_> {
    /// A batch in the name of `sender`, and how many records it has.
    pub fn batch(&mut self, sender: &str) -> (Batch, usize) {
        let mut batch = Batch { node: sender.to_owned(), ..Batch::default() };
        for _ in 0..self.random.usize(1..4) {
            let count = self.random.usize(1..RECORDS_MAX);
            match self.random.u8(..11) {
                0 => batch.jobs.extend((0..count).map(|_| self.job())),
                1 => batch.job_ranks.extend((0..count).map(|_| self.rank())),
                2 => batch.mpi_rank_rows.extend((0..count).map(|_| self.bin())),
                3 => batch.mpi_ops.extend((0..count).map(|_| self.bin())),
                // Nobody said that these are ranks of this node: each is rejected.
                4 => batch.mpi_scheduling.extend((0..count).map(|_| self.scheduling())),
                5 => batch.mpi_traffic.extend((0..count).map(|_| self.traffic())),
                6 => batch.mpi_open_calls.extend((0..count).map(|_| self.open_call())),
                7 => batch.events.extend((0..count).map(|_| self.event())),
                8 => batch.gpus.extend((0..count).map(|_| self.gpu())),
                9 => batch.host_ports.extend((0..count).map(|_| self.host_port())),
                _ => batch.nodes.extend((0..count).map(|_| self.node_info())),
            }
        }
        let records = batch.jobs.len()
            + batch.job_ranks.len()
            + batch.mpi_rank_rows.len()
            + batch.mpi_ops.len()
            + batch.mpi_scheduling.len()
            + batch.mpi_traffic.len()
            + batch.mpi_open_calls.len()
            + batch.events.len()
            + batch.gpus.len()
            + batch.host_ports.len()
            + batch.nodes.len();
        (batch, records)
    }

    /// A victim's job mostly, or an invented one.
    fn number(&mut self) -> u32 {
        if self.random.u8(..3) > 0 {
            self.victims.jobs[self.random.usize(..self.victims.jobs.len())]
        } else {
            self.random.u32(1..1_000_000)
        }
    }

    fn key(&mut self) -> String {
        format!("slurm:{}.0@{}", self.number(), self.victims.uid)
    }

    /// Another node, or its own name.
    fn some_node(&mut self) -> String {
        match self.random.usize(..=self.victims.nodes.len()) {
            at if at < self.victims.nodes.len() => self.victims.nodes[at].clone(),
            _ => self.node.to_owned(),
        }
    }

    /// Now, or up to an hour ago, or of no time that is accepted.
    fn time(&mut self) -> i64 {
        match self.random.u8(..10) {
            0 => self.random.i64(..),
            1..5 => self.now - self.random.i64(0..3600 * SECOND),
            _ => self.now,
        }
    }

    fn job(&mut self) -> Job {
        let number = self.number();
        let start = self.time();
        let has_ended = self.random.u8(..4) == 0;
        Job {
            key: format!("slurm:{number}.0@{}", self.victims.uid),
            scheduler: "slurm".into(),
            native_id: number.to_string(),
            step: "0".into(),
            uid: self.victims.uid,
            user: "forged".into(),
            command: "FORGED".into(),
            start,
            end: if has_ended { self.now } else { 0 },
            seen: self.now,
            world_size: self.random.u32(1..64),
            evidence: ["cgroup", "environment"][self.random.usize(..2)].into(),
            ..Job::default()
        }
    }

    fn rank(&mut self) -> JobRank {
        let has_ended = self.random.u8(..4) == 0;
        JobRank {
            job_key: self.key(),
            rank: self.random.u32(..8),
            pid: self.random.u32(1..1 << 20),
            world_size: 4,
            start: self.time(),
            end: if has_ended { self.now } else { 0 },
            ending: if has_ended { "lost".into() } else { String::new() },
            host: if self.random.bool() { String::new() } else { self.some_node() },
            ..JobRank::default()
        }
    }

    fn bin(&mut self) -> MpiRankBin {
        let calls = self.random.u64(1..1 << 40);
        let cell = MpiOpCell {
            operation: "allreduce".into(),
            size_class_bytes: 8192,
            calls,
            bytes: calls.saturating_mul(8192),
            elapsed_nanoseconds: calls,
            ..MpiOpCell::default()
        };
        MpiRankBin {
            time: self.now,
            epoch: self.time(),
            job_key: self.key(),
            rank: self.random.u32(..8),
            source: "pmpi".into(),
            cells: vec![cell],
        }
    }

    fn scheduling(&mut self) -> MpiRankScheduling {
        MpiRankScheduling {
            time: self.now,
            epoch: self.time(),
            job_key: self.key(),
            rank: self.random.u32(..1 << 20),
            cpu_nanoseconds: Some(self.random.u64(..1 << 40)),
            ..MpiRankScheduling::default()
        }
    }

    fn traffic(&mut self) -> MpiNodeTraffic {
        let cells =
            vec![MpiPeerCell { peer: self.random.u32(..8), bytes: self.random.u64(..1 << 40), messages: 1 }];
        MpiNodeTraffic {
            time: self.now,
            epoch: self.time(),
            job_key: self.key(),
            since: self.now - SECOND,
            operation: "allreduce".into(),
            kind: "wire".into(),
            direction: "transmit".into(),
            source: "pmpi".into(),
            cells,
            is_whole: true,
        }
    }

    fn open_call(&mut self) -> MpiOpenCall {
        MpiOpenCall {
            time: self.now,
            epoch: self.time(),
            job_key: self.key(),
            rank: self.random.u32(..8),
            operation: "barrier".into(),
            start: self.now - 600 * SECOND,
            is_on_world: true,
            ..MpiOpenCall::default()
        }
    }

    /// As the writers' events, which the ledger counts.
    fn event(&mut self) -> Event {
        Event {
            time: self.time(),
            source: format!("{}.{}", self.some_node(), self.random.u8(..4)),
            kind: "test".into(),
            severity: "info".into(),
            text: self.random.u32(..2000).to_string(),
            job_key: if self.random.bool() { String::new() } else { self.key() },
            ib_guid: if self.random.bool() { 0 } else { self.guid() },
            ..Event::default()
        }
    }

    fn guid(&mut self) -> u64 {
        if self.random.bool() { self.random.u64(1..64) } else { self.random.u64(1..) }
    }

    fn gpu(&mut self) -> GpuInfo {
        let uuid = format!("GPU-{}-{}", self.some_node(), self.random.u8(..8));
        GpuInfo { uuid, name: "FORGED".into(), source: "nvml".into(), ..GpuInfo::default() }
    }

    fn host_port(&mut self) -> HostPortSample {
        HostPortSample {
            time: self.now,
            epoch: self.time(),
            device: format!("mlx5_{}", self.random.u8(..4)),
            port: 1,
            node_guid: self.guid(),
            source: "sysfs".into(),
            ..HostPortSample::default()
        }
    }

    fn node_info(&mut self) -> NodeInfo {
        let hca_guids = vec![self.guid(), self.guid()];
        NodeInfo { name: self.some_node(), boot_id: "forged".into(), boot_time: self.time(), hca_guids }
    }
}
