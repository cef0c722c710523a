//! A small site that goes on: four leaf switches under two spines, sixteen hosts, GPUs on the first one, jobs, and what
//! all of it did from ten minutes ago until now.

use crate::detail::Answers;
use crate::multicast;
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_sample::catalogue::*;
use throughline_sample::wire::*;
use throughline_store::{Content, Database, Entry, Sender, Writer};

pub const SECOND: i64 = 1_000_000_000;
pub const PREFIX: u64 = 0xfe80_0000_0000_0000;
pub const LEAVES: u64 = 4;
const SPINES: u64 = 2;
const HOSTS: u64 = 16;
/// Hosts on a leaf, on ports 1, 2 …; spines are on the ports behind them.
pub const PER_LEAF: u64 = HOSTS / LEAVES;
/// HDR: 200 Gbit/s.
const SPEED: u64 = 25_000_000_000;
/// Hosts with an agent: all but the last.
const AGENTS: u64 = HOSTS - 1;
/// Of one NVLink.
const NVLINK_SPEED: u64 = 25_000_000_000;
/// How far back rows go, seconds, and how far apart they are there.
const HISTORY_SECONDS: i64 = 600;
const STEP_SECONDS: i64 = 2;

pub const fn leaf(i: u64) -> u64 {
    0x100 + i
}
pub const fn spine(i: u64) -> u64 {
    0x200 + i
}
pub const fn host(i: u64) -> u64 {
    0x1000 + i
}
/// LIDs: leaves, spines, hosts, each in order from 1.
fn lid(guid: u64) -> u32 {
    let place = match guid {
        0x100..0x200 => guid - 0x100,
        0x200..0x1000 => LEAVES + guid - 0x200,
        _ => LEAVES + SPINES + guid - 0x1000,
    };
    u32::try_from(place + 1).unwrap()
}

/// Cables by GUID and port of both ends.
fn cables() -> Vec<(u64, u32, u64, u32)> {
    let port = |n: u64| u32::try_from(n).unwrap();
    let down = (0..HOSTS).map(|h| (host(h), 1, leaf(h / PER_LEAF), port(h % PER_LEAF + 1)));
    let up = (0..LEAVES * SPINES).map(|i| {
        let (l, s) = (i / SPINES, i % SPINES);
        (leaf(l), port(PER_LEAF + s + 1), spine(s), port(l + 1))
    });
    down.chain(up).collect()
}

/// Entry i is the port for LID i: down to what is below, up by the spine of the LID's parity.
fn forwarding_table(guid: u64) -> Vec<u8> {
    let mut table = vec![255_u8; usize::try_from(LEAVES + SPINES + HOSTS + 1).unwrap()];
    for h in 0..HOSTS {
        let (l, port) = (h / PER_LEAF, h % PER_LEAF + 1);
        let out = match guid {
            0x100..0x200 if leaf(l) == guid => port,
            0x100..0x200 => PER_LEAF + 1 + h % SPINES,
            _ => l + 1,
        };
        table[lid(host(h)) as usize] = u8::try_from(out).unwrap();
    }
    table
}

fn node(guid: u64, kind: &str, description: &str, generation: i64) -> IbNodeInfo {
    let ends = cables().into_iter().flat_map(|(a, p, b, q)| [(a, p, b, q), (b, q, a, p)]);
    let ports: Vec<IbPortInfo> = ends
        .filter(|(own, ..)| *own == guid)
        .map(|(_, port, other, other_port)| IbPortInfo {
            port,
            port_guid: guid + 0x10_0000,
            lid: lid(guid),
            state: "Active".into(),
            width: "4x".into(),
            speed: "50.0 Gbps".into(),
            rate_bytes_per_second: SPEED,
            remote_guid: Some(other),
            remote_port: Some(other_port),
            physical_state: "LinkUp".into(),
            ..IbPortInfo::default()
        })
        .collect();
    IbNodeInfo {
        generation,
        guid,
        r#type: kind.into(),
        description: description.into(),
        lid: lid(guid),
        device_id: 0x1017,
        vendor_id: 0x15b3,
        system_guid: guid,
        port_count: u32::try_from(ports.len()).unwrap(),
        ports,
        linear_forwarding_table: if kind == "switch" { forwarding_table(guid) } else { Vec::new() },
        // The others do not report it.
        routing: (guid == leaf(0)).then(|| "static".to_owned()),
    }
}

fn discovery(generation: i64) -> Batch {
    let switches = (0..LEAVES).map(|i| node(leaf(i), "switch", &format!("leaf{}", i + 1), generation));
    let spines = (0..SPINES).map(|i| node(spine(i), "switch", &format!("spine{}", i + 1), generation));
    let hosts = (0..HOSTS).map(|i| node(host(i), "ca", &format!("n{} mlx5_0", i + 1), generation));
    let ib_nodes: Vec<IbNodeInfo> = switches.chain(spines).chain(hosts).collect();
    let (nodes, links) = (u32::try_from(ib_nodes.len()).unwrap(), u32::try_from(cables().len()).unwrap());
    let mark = IbTopologyMark { generation, time: generation, nodes, links };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_nodes,
        ib_topology_marks: vec![mark],
        ..Batch::default()
    }
}

fn gpu(index: u32) -> GpuInfo {
    GpuInfo {
        uuid: format!("GPU-{index}"),
        index,
        name: "NVIDIA H200".into(),
        pci_bus_id: format!("0000:{index}8:00.0"),
        source: "nvml".into(),
        link_count: 4,
        numa_node: Some(index / 2),
        nearest_hcas: vec!["mlx5_0".into()],
        fabric_cluster_uuid: "5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e".into(),
        fabric_clique_id: Some(7),
        fabric_state: "completed".into(),
        ..GpuInfo::default()
    }
}

/// GPUs of the second host, in the NVLink domain of the first one's.
fn neighbour(time: i64) -> Batch {
    let gpu = |index: u32| GpuInfo { uuid: format!("GPU-n2-{index}"), ..gpu(index) };
    Batch {
        node: "n2".into(),
        gpus: (0..2).map(gpu).collect(),
        coverage: vec![round("nvml", time, 1)],
        ..Batch::default()
    }
}

/// What is known of a rank that uses a GPU.
fn used_gpu(index: u32, since: i64) -> RankGpu {
    RankGpu {
        gpu_uuid: format!("GPU-{index}"),
        evidence: "driver".into(),
        minor: Some(index),
        first_seen: since + 2 * SECOND,
        nearest_distance: "switch".into(),
        ..RankGpu::default()
    }
}

/// Links 0 and 1 of GPU pairs lead to each other, 2 and 3 to a switch.
fn gpu_links() -> Vec<GpuLinkInfo> {
    let link = |gpu: u32, link: u32| GpuLinkInfo {
        gpu_uuid: format!("GPU-{gpu}"),
        link,
        active: true,
        version: Some(4),
        speed_bytes_per_second: Some(NVLINK_SPEED),
        remote_type: if link < 2 { "gpu" } else { "switch" }.into(),
        remote_pci_bus_id: if link < 2 { String::new() } else { "0000:c0:00.0".into() },
        remote_gpu_uuid: if link < 2 { format!("GPU-{}", gpu ^ 1) } else { String::new() },
        remote_link: (link < 2).then_some(link),
    };
    (0..4).flat_map(|g| (0..4).map(move |l| link(g, l))).collect()
}

fn round(source: &str, time: i64, ports: u64) -> Coverage {
    Coverage {
        time,
        source: source.into(),
        expected: ports,
        read: ports,
        elapsed_seconds: 0.1,
        ..Coverage::default()
    }
}

/// All hosts with an agent, as known at `time`.
fn hosts(time: i64) -> Batch {
    let boot_time = time - 3600 * SECOND;
    let nodes = (0..AGENTS).map(|i| NodeInfo {
        name: format!("n{}", i + 1),
        boot_id: "b".into(),
        boot_time,
        hca_guids: vec![host(i)],
    });
    Batch {
        node: "n1".into(),
        nodes: nodes.collect(),
        gpus: (0..4).map(gpu).collect(),
        gpu_link_infos: gpu_links(),
        coverage: vec![round("sysfs", time, 1)],
        ..Batch::default()
    }
}

/// A job with two ranks a host, on hosts `first` to `last`. Seconds count back from the start of the test.
struct Run {
    number: u32,
    user: &'static str,
    started: i64,
    ended: Option<i64>,
    hosts: std::ops::Range<u64>,
}
const RUNS: [Run; 3] = [
    Run { number: 41, user: "ada", started: 500, ended: None, hosts: 0..6 },
    Run { number: 42, user: "grace", started: 120, ended: None, hosts: 8..10 },
    Run { number: 40, user: "ada", started: 580, ended: Some(300), hosts: 3..5 },
];

/// The job that broadcasts.
const BROADCASTS: u32 = 42;

impl Run {
    fn key(&self) -> String {
        format!("slurm:{}.0@1000", self.number)
    }

    fn ranks(&self) -> u32 {
        u32::try_from((self.hosts.end - self.hosts.start) * 2).unwrap()
    }

    fn report(&self, now: i64) -> Batch {
        let (start, end) = (now - self.started * SECOND, self.ended.map_or(0, |ago| now - ago * SECOND));
        let job = Job {
            key: self.key(),
            scheduler: "slurm".into(),
            native_id: self.number.to_string(),
            step: "0".into(),
            uid: 1000,
            user: self.user.into(),
            command: "./solve".into(),
            start,
            end,
            world_size: self.ranks(),
            name: format!("name{}", self.number),
            seen: if end == 0 { now } else { end },
            ..Job::default()
        };
        let rank = |rank: u32| JobRank {
            job_key: self.key(),
            rank,
            pid: 100 + rank,
            world_size: self.ranks(),
            mpi_library: "Open MPI 4.1.4".into(),
            start,
            end,
            ending: if end == 0 { "" } else { "clean" }.into(),
            host: format!("n{}", self.hosts.start + u64::from(rank) / 2 + 1),
            hca_ports: Some(Names { name: vec!["mlx5_0/1".into()] }),
            // Each rank of the first host has a GPU, and the others none.
            gpu_evidence: "driver".into(),
            gpus: (self.hosts.start == 0 && rank < 2).then(|| used_gpu(rank, start)).into_iter().collect(),
            ..JobRank::default()
        };
        let node = format!("n{}", self.hosts.start + 1);
        Batch { node, jobs: vec![job], job_ranks: (0..self.ranks()).map(rank).collect(), ..Batch::default() }
    }

    /// What each of its hosts has sent to ranks of the others until `time`: an alltoall to all, messages to the next.
    fn traffic(&self, now: i64, time: i64) -> Vec<Batch> {
        let epoch = now - self.started * SECOND;
        if time <= epoch || self.ended.is_some_and(|ago| time > now - ago * SECOND) {
            return Vec::new();
        }
        let seconds = u64::try_from((time - epoch) / SECOND).unwrap();
        let places = self.hosts.end - self.hosts.start;
        // The first rank of a host stands for both.
        let cell = |place: u64, megabytes: u64| MpiPeerCell {
            peer: u32::try_from(place * 2).unwrap(),
            bytes: (seconds * megabytes) << 20,
            messages: seconds * megabytes,
        };
        let of = |own: u64| {
            let row = |operation: &str, kind: &str, cells: Vec<MpiPeerCell>| MpiNodeTraffic {
                time,
                epoch,
                since: (time - STEP_SECONDS * SECOND).max(epoch),
                job_key: self.key(),
                operation: operation.into(),
                kind: kind.into(),
                direction: "transmit".into(),
                source: "pmpi".into(),
                cells,
                is_whole: true,
            };
            let others = (0..places).filter(|place| *place != own).map(|place| cell(place, 400));
            let mpi_traffic = vec![
                row("alltoall", "modelled", others.collect()),
                row("isend", "measured", vec![cell((own + 1) % places, 300)]),
            ];
            Batch { node: format!("n{}", self.hosts.start + own + 1), mpi_traffic, ..Batch::default() }
        };
        (0..places).map(of).collect()
    }

    /// Broadcasts of a megabyte by rank 0 of one of the jobs; the higher the rank, the longer they take.
    fn broadcasts(&self, rank: u32, cell: &dyn Fn(&str, u64, u64, u64) -> MpiOpCell) -> Option<MpiOpCell> {
        let bytes = if rank == 0 { 20 << 20 } else { 0 };
        (self.number == BROADCASTS).then(|| cell("bcast", 20, bytes, 1 + u64::from(rank)))
    }

    /// What its ranks have done until `time`, counted since their start.
    fn done(&self, now: i64, time: i64) -> Option<Batch> {
        let epoch = now - self.started * SECOND;
        if time <= epoch || self.ended.is_some_and(|ago| time > now - ago * SECOND) {
            return None;
        }
        let seconds = u64::try_from((time - epoch) / SECOND).unwrap();
        let cell = |operation: &str, calls: u64, bytes: u64, share: u64| MpiOpCell {
            operation: operation.into(),
            size_class_bytes: 1 << 20,
            calls: calls * seconds,
            bytes: bytes * seconds,
            elapsed_nanoseconds: share * seconds * 10_000_000,
            longest_nanoseconds: 5_000_000,
            ..MpiOpCell::default()
        };
        let bin = |rank: u32| MpiRankBin {
            time,
            epoch,
            job_key: self.key(),
            rank,
            source: "pmpi".into(),
            cells: [cell("allreduce", 10, 8 << 20, 10 + u64::from(rank)), cell("isend", 40, 64 << 20, 4)]
                .into_iter()
                .chain(self.broadcasts(rank, &cell))
                .collect(),
        };
        let peers = |rank: u32| MpiRankPeers {
            time,
            epoch,
            job_key: self.key(),
            rank,
            kind: "logical".into(),
            source: "pmpi".into(),
            cells: vec![MpiPeerCell {
                peer: (rank + 1) % self.ranks(),
                bytes: seconds * (1 << 20) * u64::from(rank + 1),
                messages: seconds * 40,
            }],
            is_whole: true,
        };
        Some(Batch {
            node: format!("n{}", self.hosts.start + 1),
            mpi_ops: (0..self.ranks()).map(bin).collect(),
            mpi_peers: (0..self.ranks()).map(peers).collect(),
            ..Batch::default()
        })
    }
}

fn values(pairs: &[(&'static Metric, u64)]) -> Option<Values> {
    let mut values = Values::default();
    for (metric, value) in pairs {
        values.put(metric, *value);
    }
    Some(values)
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// The site, and the writer that goes on with it.
pub struct Site {
    writers: [(u128, Writer, u64); 2],
    answers: Answers,
    start: i64,
    began: i64,
}

impl Site {
    /// Ten minutes of it in the database.
    pub async fn seed(database: &Database) -> Site {
        let start = now();
        let writer = |spool| (spool, Writer::new(database.clone()), 0);
        let mut site = Site {
            writers: [writer(1), writer(2)],
            answers: Answers::new(database),
            start,
            began: start - HISTORY_SECONDS * SECOND,
        };
        site.write(0, discovery(site.began - SECOND)).await.unwrap();
        site.write(0, multicast::fabric(site.began - SECOND)).await.unwrap();
        site.write(1, hosts(site.began - SECOND)).await.unwrap();
        site.write(1, neighbour(site.began - SECOND)).await.unwrap();
        // A host's ports are known from their first row: where ranks send is found by them.
        for i in 0..AGENTS {
            site.write(1, site.port(i, site.began)).await.unwrap();
        }
        for run in &RUNS {
            site.write(1, run.report(start)).await.unwrap();
        }
        let mut time = site.began;
        while time < start {
            site.tick(time).await.unwrap();
            time += STEP_SECONDS * SECOND;
        }
        // The PCIe link of an adapter is what a row of the last quarter of an hour says, however long the tests take.
        for i in 1..AGENTS {
            site.write(1, site.port(i, start)).await.unwrap();
        }
        site
    }

    /// Writes what happened until now; an error where the database is away.
    pub async fn go_on(&mut self) -> Result<(), String> {
        for answer in self.answers.due().await {
            self.write(1, answer).await?;
        }
        self.tick(now()).await
    }

    async fn tick(&mut self, time: i64) -> Result<(), String> {
        let start = self.start;
        self.write(0, self.sweep(time)).await?;
        self.write(1, self.node(time)).await?;
        for done in RUNS.iter().filter_map(|run| run.done(start, time)) {
            self.write(1, done).await?;
        }
        for batch in RUNS.iter().flat_map(|run| run.traffic(start, time)) {
            self.write(1, batch).await?;
        }
        Ok(())
    }

    async fn write(&mut self, sender: usize, batch: Batch) -> Result<(), String> {
        let (spool, writer, sequence) = &mut self.writers[sender];
        *sequence += 1;
        let entry = Entry {
            spool_id: uuid::Uuid::from_u128(*spool),
            sequence: *sequence,
            content: Content::Batch(batch),
            sender: Sender::default(),
        };
        let outcome = writer.write(&[entry]).await.map_err(|error| error.to_string())?;
        assert_eq!((outcome.quarantined, outcome.unknown_values), (0, 0));
        Ok(())
    }

    /// Seconds since the first row.
    fn seconds(&self, time: i64) -> u64 {
        u64::try_from((time - self.began) / 1_000_000).unwrap() / 1000
    }

    /// All ports: the first end of each cable sends more the later it is in the list, the first link waits and errs.
    fn sweep(&self, time: i64) -> Batch {
        let milliseconds = u64::try_from((time - self.began) / 1_000_000).unwrap();
        let count = cables().len() as u64;
        let sample = |guid: u64, port: u32, share: u64, is_first: bool| IbPortSample {
            time,
            epoch: self.began - SECOND,
            node_guid: guid,
            port,
            values: values(&[
                (&TRANSMIT_DATA_BYTES, milliseconds * (SPEED / 1000) / count * share),
                (&RECEIVE_DATA_BYTES, milliseconds * (SPEED / 1000) / count * (count - share)),
                (&TRANSMIT_WAIT, if is_first { milliseconds * (SPEED / 1000) / 16 } else { 0 }),
                (&TRANSMIT_WAIT_TICK_BYTES, 8),
                (&SYMBOL_ERROR, if is_first { milliseconds / 500 } else { 0 }),
                (&PORT_RATE_BYTES_PER_SECOND, SPEED),
                (&MULTICAST_TRANSMIT_PACKETS, multicast::packets(guid, port, milliseconds)[0]),
                (&MULTICAST_RECEIVE_PACKETS, multicast::packets(guid, port, milliseconds)[1]),
            ]),
            saturated: vec![],
            source: "mad".into(),
        };
        let ib_ports: Vec<IbPortSample> = cables()
            .into_iter()
            .enumerate()
            .flat_map(|(i, (a, p, b, q))| {
                let share = i as u64;
                [sample(a, p, share, i == 0), sample(b, q, count - share, false)]
            })
            .collect();
        let ports = ib_ports.len() as u64;
        Batch {
            fabric: throughline_store::testing::fabric(PREFIX),
            ib_ports,
            coverage: vec![round("mad", time, ports)],
            ..Batch::default()
        }
    }

    fn node(&self, time: i64) -> Batch {
        let seconds = self.seconds(time);
        let epoch = self.began - SECOND;
        let link = |gpu: u32, link: u32| LinkValues {
            link,
            values: values(&[
                (&NVLINK_TRANSMIT_BYTES, seconds * 1_000_000_000 * u64::from(gpu * 4 + link + 1)),
                (&NVLINK_RECEIVE_BYTES, seconds * 500_000_000),
            ]),
        };
        let gpus = (0..4).map(|gpu| GpuLinksSample {
            time,
            epoch,
            gpu_uuid: format!("GPU-{gpu}"),
            source: "nvml".into(),
            links: (0..4).map(|l| link(gpu, l)).collect(),
        });
        Batch { gpu_links: gpus.collect(), coverage: vec![round("sysfs", time, 1)], ..self.port(0, time) }
    }

    /// The adapter's port of a host, by its place.
    fn port(&self, i: u64, time: i64) -> Batch {
        let seconds = self.seconds(time);
        let port = HostPortSample {
            time,
            epoch: self.began - SECOND,
            device: "mlx5_0".into(),
            port: 1,
            node_guid: host(i),
            port_guid: 0,
            source: "sysfs".into(),
            values: values(&[
                (&PORT_DATA_TRANSMITTED_BYTES, seconds * 9_000_000_000),
                (&PORT_DATA_RECEIVED_BYTES, seconds * 2_000_000_000),
                (&RATE_BYTES_PER_SECOND, SPEED),
                // Gen 3 x16 under an HDR port.
                (&PCIE_BYTES_PER_SECOND, 15_753_846_153),
            ]),
        };
        Batch { node: format!("n{}", i + 1), host_ports: vec![port], ..Batch::default() }
    }
}
