//! Lists of CPUs as the kernel writes them, and the NUMA nodes of CPUs and of InfiniBand adapters. Reads `/sys` once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// Most ranges of a list that are read: more than the CPUs of any node.
const RANGES_MAX: usize = 4096;
/// Most NUMA nodes of a machine that are read; Linux has at most 1,024.
const NODES_MAX: usize = 1024;
/// Most adapters of a machine that are read: more than a machine has slots.
const ADAPTERS_MAX: usize = 256;

/// The NUMA nodes of a machine, their CPUs and adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    nodes: Vec<(u32, Vec<RangeInclusive<u32>>)>,
    /// By name of the device (`mlx5_0`); those without a NUMA node in sysfs are left out.
    adapters: BTreeMap<String, u32>,
}

impl Topology {
    /// Reads `devices/system/node` and `class/infiniband` below `sys`; none where these are not there.
    pub(crate) fn read(sys: &Path) -> Self {
        let adapters = adapters(sys);
        let Ok(entries) = std::fs::read_dir(sys.join("devices/system/node")) else {
            return Self { adapters, ..Self::default() };
        };
        let nodes = entries.flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
            Some((number, parse_list(list.trim())))
        });
        let mut nodes: Vec<_> = nodes.take(NODES_MAX).collect();
        nodes.sort_by_key(|(number, _)| *number);
        Self { nodes, adapters }
    }

    /// The nodes that one of these CPUs belongs to.
    pub(crate) fn nodes_of(&self, cpus: &[RangeInclusive<u32>]) -> Vec<u32> {
        let overlap =
            |a: &RangeInclusive<u32>, b: &RangeInclusive<u32>| a.start() <= b.end() && b.start() <= a.end();
        let has =
            |of_node: &Vec<RangeInclusive<u32>>| cpus.iter().any(|a| of_node.iter().any(|b| overlap(a, b)));
        self.nodes.iter().filter(|(_, of_node)| has(of_node)).map(|(number, _)| *number).collect()
    }

    /// The nodes of the adapters of these ports (`mlx5_0/1`); of all adapters where the ports are not known.
    pub(crate) fn nodes_of_ports(&self, ports: Option<&[String]>) -> Vec<u32> {
        let device = |port: &String| port.split('/').next().unwrap_or_default().to_owned();
        let mut nodes: Vec<u32> = match ports {
            Some(ports) => {
                ports.iter().filter_map(|port| self.adapters.get(&device(port)).copied()).collect()
            }
            None => self.adapters.values().copied().collect(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// Adapters and their NUMA nodes. A virtual machine's has -1, which says nothing.
fn adapters(sys: &Path) -> BTreeMap<String, u32> {
    let Ok(entries) = std::fs::read_dir(sys.join("class/infiniband")) else { return BTreeMap::new() };
    let adapters = entries.flatten().take(ADAPTERS_MAX).filter_map(|entry| {
        let node = std::fs::read_to_string(entry.path().join("device/numa_node")).ok()?;
        Some((entry.file_name().to_str()?.to_owned(), node.trim().parse().ok()?))
    });
    adapters.collect()
}

/// `0-3,8` as ranges; what is no number is left out.
pub(crate) fn parse_list(text: &str) -> Vec<RangeInclusive<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').take(RANGES_MAX).filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_cpus() {
        let sys = tempfile::tempdir().unwrap();
        for (node, list) in [(0, "0-15,32-47\n"), (1, "16-31,48-63\n"), (2, "\n")] {
            let folder = sys.path().join(format!("devices/system/node/node{node}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cpulist"), list).unwrap();
        }
        std::fs::create_dir_all(sys.path().join("devices/system/node/power")).unwrap();
        let topology = Topology::read(sys.path());
        let nodes = |list: &str| topology.nodes_of(&parse_list(list));
        assert_eq!(nodes("3"), [0]);
        assert_eq!(nodes("40-47"), [0]);
        assert_eq!(nodes("0-63"), [0, 1]);
        assert_eq!(nodes("15,16"), [0, 1]);
        assert_eq!(nodes(""), [0; 0]);
        assert_eq!(nodes("x,99"), [0; 0]);
        assert_eq!(Topology::read(Path::new("/nowhere")), Topology::default());
    }

    #[test]
    fn nodes_of_adapters() {
        let sys = tempfile::tempdir().unwrap();
        for (adapter, node) in [("mlx5_0", "0\n"), ("mlx5_1", "1\n"), ("mlx5_2", "-1\n")] {
            let folder = sys.path().join(format!("class/infiniband/{adapter}/device"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("numa_node"), node).unwrap();
        }
        let topology = Topology::read(sys.path());
        let of = |ports: &[&str]| {
            topology.nodes_of_ports(Some(&ports.iter().map(|port| (*port).to_owned()).collect::<Vec<_>>()))
        };
        assert_eq!(of(&["mlx5_1/1"]), [1]);
        assert_eq!(of(&["mlx5_1/2", "mlx5_0/1", "mlx5_1/1"]), [0, 1]);
        assert_eq!(of(&["mlx5_2/1", "other/1"]), [0; 0], "not known");
        assert_eq!(topology.nodes_of_ports(None), [0, 1], "any of the host");
        assert_eq!(Topology::read(Path::new("/nowhere")).nodes_of_ports(None), [0; 0]);
    }
}
