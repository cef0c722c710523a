//! The fabric: hosts on leaf switches, leaves on spines; what a crawler sends of it.

use super::cluster::Cluster;
use super::node::{adapter_guid, round};
use crate::load::{Load, PORT_METRICS, mix, record};
use throughline_sample::wire::{
    Batch, FabricFingerprint, IbNodeInfo, IbPortInfo, IbPortSample, IbTopologyMark,
};

/// The name of the fabric.
const NAME: &str = "site";
const RATE: u64 = 25_000_000_000;

/// Hosts of a leaf, and spines.
const LEAF_HOSTS: u64 = 21;
const SPINES: u64 = 18;

/// Ports of a batch.
const BATCH_PORTS: usize = 1000;

struct Port {
    node: u64,
    port: u32,
    remote: (u64, u32),
    load: Load,
}

/// All ports with a cable.
pub struct Fabric {
    ports: Vec<Port>,
    begin: i64,
}

impl Fabric {
    /// That of a cluster, which has counted since `begin`, UTC nanoseconds.
    pub fn new(cluster: &Cluster, begin: i64) -> Self {
        let (leaf, spine) = (|n: u64| 0x0002_c903_0000_0000 | n, |n: u64| 0x0002_c903_0100_0000 | n);
        let adapters = cluster.nodes * u64::from(cluster.adapters);
        let mut used = std::collections::HashMap::<u64, u32>::new();
        let mut next = |guid: u64| {
            let port = used.entry(guid).or_insert(0);
            *port += 1;
            *port
        };
        let (mut ports, mut number) = (Vec::new(), 10_000_000);
        let mut cable = |a: (u64, u32), b: (u64, u32)| {
            for (end, other) in [(a, b), (b, a)] {
                number += 1;
                ports.push(Port { node: end.0, port: end.1, remote: other, load: Load::new(number, RATE) });
            }
        };
        for adapter in 0..adapters {
            let of = u64::from(cluster.adapters);
            let guid = adapter_guid(adapter / of, u32::try_from(adapter % of).unwrap_or(0));
            let leaf = leaf(adapter / LEAF_HOSTS);
            cable((guid, 1), (leaf, next(leaf)));
        }
        let leaves = adapters.div_ceil(LEAF_HOSTS);
        for inner in 0..(cluster.ports / 2).saturating_sub(adapters) {
            let (leaf, spine) = (leaf(inner % leaves), spine(inner / leaves % SPINES));
            cable((leaf, next(leaf)), (spine, next(spine)));
        }
        ports.sort_unstable_by_key(|port| (port.node, port.port));
        Self { ports, begin }
    }

    /// By what its crawler knows it: its switches.
    fn fingerprint(&self) -> Option<FabricFingerprint> {
        let switches = self.ports.iter().map(|port| port.node).filter(|guid| guid >> 32 == 0x0002_c903);
        Some(FabricFingerprint { name: NAME.to_owned(), ..FabricFingerprint::of_guids(switches, []) })
    }

    /// All nodes and cables.
    pub fn inventory(&self) -> Vec<Batch> {
        let mut nodes = Vec::new();
        for (number, ports) in (1u32..).zip(self.ports.chunk_by(|a, b| a.node == b.node)) {
            let guid = ports[0].node;
            let is_switch = guid >> 32 == 0x0002_c903;
            let port = |port: &Port| IbPortInfo {
                port: port.port,
                port_guid: if is_switch { 0 } else { guid + 1 },
                lid: if is_switch { 0 } else { number },
                state: "Active".into(),
                width: "4x".into(),
                speed: "50.0 Gbps".into(),
                rate_bytes_per_second: RATE,
                remote_guid: Some(port.remote.0),
                remote_port: Some(port.remote.1),
                physical_state: "LinkUp".into(),
                lmc: None,
            };
            nodes.push(IbNodeInfo {
                generation: self.begin,
                guid,
                r#type: if is_switch { "switch" } else { "ca" }.into(),
                description: if is_switch {
                    format!("switch{:x}", guid & 0xffff_ffff)
                } else {
                    format!("n{} mlx5_{}", guid >> 8 & 0xff_ffff, guid & 0xff)
                },
                lid: number,
                device_id: 1,
                vendor_id: 1,
                system_guid: guid,
                ports: ports.iter().map(port).collect(),
                port_count: u32::try_from(ports.len()).unwrap_or(0),
                ..IbNodeInfo::default()
            });
        }
        let mark = IbTopologyMark {
            generation: self.begin,
            time: self.begin,
            nodes: u32::try_from(nodes.len()).unwrap_or(0),
            links: u32::try_from(self.ports.len() / 2).unwrap_or(0),
        };
        let fabric = self.fingerprint();
        let mut batches: Vec<Batch> = nodes
            .chunks(500)
            .map(|nodes| Batch { fabric: fabric.clone(), ib_nodes: nodes.to_vec(), ..Batch::default() })
            .collect();
        if let Some(last) = batches.last_mut() {
            last.ib_topology_marks.push(mark);
        }
        batches
    }

    /// A sweep that began at this time.
    pub fn sweep(&mut self, time: i64, seconds: f64) -> Vec<Batch> {
        let begin = self.begin;
        let at = time as f64 / 1e9;
        let sample = |port: &mut Port| {
            port.load.pass(at, seconds);
            let jitter = mix(time.unsigned_abs() ^ port.node << 8 ^ u64::from(port.port)) % 4_000_000;
            IbPortSample {
                time: time + i64::try_from(jitter).unwrap_or(0),
                epoch: begin,
                node_guid: port.node,
                port: port.port,
                values: record(&PORT_METRICS, &port.load.port_values()),
                saturated: Vec::new(),
                source: "mad".into(),
            }
        };
        let samples: Vec<IbPortSample> = self.ports.iter_mut().map(sample).collect();
        let all = samples.len();
        let fabric = self.fingerprint();
        let mut batches: Vec<Batch> = samples
            .chunks(BATCH_PORTS)
            .map(|samples| Batch { fabric: fabric.clone(), ib_ports: samples.to_vec(), ..Batch::default() })
            .collect();
        if let Some(last) = batches.last_mut() {
            last.coverage.push(round("mad", time, all));
        }
        batches
    }
}
