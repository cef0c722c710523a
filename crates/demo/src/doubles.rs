//! Each agent's simulated hardware: a `/sys` tree with one adapter, and the scenario of an NVML test double.
//!
//! The adapter is the one of a simulated host, and its port counts what that host's port in the fabric counts.

use super::counters::PortCounters;
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use throughline_doubles::nvml::{Traffic, write_traffic};
use throughline_doubles::sysfs::AdapterDouble;
use throughline_sample::Guid;

/// The node of the NVLink paper: 4 GPUs, each with 3 links to its socket and 3 to its neighbour.
const SCENARIO: &str = include_str!("../../gpu/scenarios/power9-v100.scenario");

/// Part of the UUIDs in [`SCENARIO`] that is made different on each node.
const SCENARIO_UUID: &str = "8a52-0000000000xx";

/// The file that [`SCENARIO`] includes.
const TRAFFIC_FILE: &str = "traffic.txt";

/// Links of a GPU in [`SCENARIO`]: first to the socket, then to the neighbour.
const LINKS_TO_SOCKET: std::ops::Range<u32> = 0..3;
const LINKS_TO_NEIGHBOUR: std::ops::Range<u32> = 3..6;

/// Share of a node's MPI traffic that each of its GPUs has. Neighbours (0, 1) and (2, 3) see the same between
/// them.
const GPU_SHARES: [f64; 4] = [0.4, 0.3, 0.2, 0.1];

/// Name of the adapter; what `throughline_infiniband`'s fat tree calls it too.
const DEVICE: &str = "mlx5_0";

/// Files that change with traffic, and their contents.
type Counter = (&'static str, fn(&PortCounters) -> u64);
const DATA_COUNTERS: [Counter; 2] =
    [("port_xmit_data", |values| values.transmit_words), ("port_rcv_data", |values| values.receive_words)];
const OTHER_COUNTERS: [Counter; 5] = [
    ("port_xmit_packets", |values| values.transmit_packets),
    ("port_rcv_packets", |values| values.receive_packets),
    ("unicast_xmit_packets", |values| values.transmit_packets),
    ("unicast_rcv_packets", |values| values.receive_packets),
    ("port_xmit_wait", |values| values.transmit_wait.into()),
];

/// A `/sys` with one InfiniBand adapter.
pub struct Sysfs {
    root: PathBuf,
    adapter: AdapterDouble,
}

impl Sysfs {
    /// Makes the tree in `root` for the adapter with this node GUID, whose link carries so many bytes per second.
    ///
    /// # Errors
    /// A file can't be written.
    pub fn make(root: &Path, guid: Guid, bytes_per_second: u64) -> anyhow::Result<Self> {
        let adapter = AdapterDouble::create(root, DEVICE, guid)
            .with_context(|| format!("making an adapter in {}", root.display()))?;
        // A kind of link that nobody knows has no line code.
        let gigabits = bytes_per_second as f64 * 8.0 / 1e9;
        adapter.set("ports/1/rate", &format!("{gigabits} Gb/sec (1X DEMO)"))?;
        Ok(Self { root: root.to_owned(), adapter })
    }

    /// The tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Shows these values: data always, the slower-moving rest only when `all`.
    ///
    /// # Errors
    /// A file can't be written.
    pub fn show(&self, values: &PortCounters, all: bool) -> std::io::Result<()> {
        let others: &[Counter] = if all { &OTHER_COUNTERS } else { &[] };
        DATA_COUNTERS
            .iter()
            .chain(others)
            .try_for_each(|(name, value)| self.adapter.set_counter(name, value(values)))
    }
}

/// The scenario of one node's GPUs.
pub struct Gpus {
    scenario: PathBuf,
    traffic: PathBuf,
}

impl Gpus {
    /// Writes the scenario of the GPUs of node `node` (its number makes their UUIDs) to `folder`.
    ///
    /// # Errors
    /// A file can't be written.
    pub fn make(folder: &Path, node: usize) -> anyhow::Result<Self> {
        let scenario = folder.join("gpus.scenario");
        let text = SCENARIO.replace(SCENARIO_UUID, &format!("8a52-{:010x}xx", node + 1));
        fs::write(&scenario, text).with_context(|| format!("writing {}", scenario.display()))?;
        let gpus = Self { scenario, traffic: folder.join(TRAFFIC_FILE) };
        gpus.show(0.0, 0.0)?;
        Ok(gpus)
    }

    /// The scenario file.
    pub fn scenario(&self) -> &Path {
        &self.scenario
    }

    /// Lets the links move as a node does that sends and receives so many bytes per second.
    ///
    /// # Errors
    /// The file can't be replaced.
    pub fn show(&self, sent: f64, received: f64) -> anyhow::Result<()> {
        write_traffic(&self.traffic, &link_traffic(sent, received))
            .with_context(|| format!("writing {}", self.traffic.display()))
    }
}

/// What a node's MPI traffic is on its GPUs' links: each GPU's share goes over its links to the socket, and as
/// much is exchanged with its neighbour; both ends of a link agree.
fn link_traffic(sent: f64, received: f64) -> Vec<Traffic> {
    let mut traffic = Vec::new();
    for (gpu, share) in (0_u32..).zip(GPU_SHARES) {
        let part = |bytes: f64, links: &std::ops::Range<u32>| (bytes / links.len() as f64) as u64;
        for link in LINKS_TO_SOCKET {
            traffic.push(Traffic {
                gpu,
                link: Some(link),
                transmit_bytes_per_second: part(sent * share, &LINKS_TO_SOCKET),
                receive_bytes_per_second: part(received * share, &LINKS_TO_SOCKET),
            });
        }
        let neighbour = GPU_SHARES[(gpu ^ 1) as usize];
        let (out, back) = (sent * share + received * neighbour, sent * neighbour + received * share);
        for link in LINKS_TO_NEIGHBOUR {
            traffic.push(Traffic {
                gpu,
                link: Some(link),
                transmit_bytes_per_second: part(out, &LINKS_TO_NEIGHBOUR),
                receive_bytes_per_second: part(back, &LINKS_TO_NEIGHBOUR),
            });
        }
    }
    traffic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysfs_shows_the_guid_and_growing_counters() {
        let folder = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::make(folder.path(), Guid(0x0002_c903_0000_0010), 150_000_000).unwrap();
        let device = folder.path().join("class/infiniband/mlx5_0");
        let read = |name: &str| fs::read_to_string(device.join(name)).unwrap();
        assert_eq!(read("node_guid"), "0002:c903:0000:0010\n");
        let values = PortCounters { transmit_words: 9, transmit_packets: 3, ..Default::default() };
        sysfs.show(&values, false).unwrap();
        assert_eq!(read("ports/1/counters/port_xmit_data"), "9\n");
        assert_eq!(read("ports/1/counters/port_xmit_packets"), "0\n");
        sysfs.show(&values, true).unwrap();
        assert_eq!(read("ports/1/counters/port_xmit_packets"), "3\n");
    }

    #[test]
    fn both_ends_of_a_link_between_gpus_agree() {
        let traffic = link_traffic(9.0e9, 3.0e9);
        for one in traffic.iter().filter(|one| one.link >= Some(LINKS_TO_NEIGHBOUR.start)) {
            let other = traffic.iter().find(|t| t.gpu == one.gpu ^ 1 && t.link == one.link).unwrap();
            assert_eq!(one.transmit_bytes_per_second, other.receive_bytes_per_second);
        }
        let to_sockets: u64 = traffic
            .iter()
            .filter(|one| one.link < Some(LINKS_TO_NEIGHBOUR.start))
            .map(|one| one.transmit_bytes_per_second)
            .sum();
        assert!(to_sockets.abs_diff(9_000_000_000) < 100);
    }

    #[test]
    fn each_node_has_gpus_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let gpus = Gpus::make(folder.path(), 6).unwrap();
        let text = fs::read_to_string(gpus.scenario()).unwrap();
        assert!(text.contains("uuid=GPU-5f1a7c30-9b1e-4f7e-8a52-0000000007xx"), "{text}");
        assert!(text.contains("include traffic.txt"));
    }
}
