//! Lists of CPUs as the kernel writes them, and the NUMA nodes of CPUs. Reads `/sys` once.

use std::ops::RangeInclusive;
use std::path::Path;

/// Most ranges of a list that are read: more than the CPUs of any node.
const RANGES_MAX: usize = 4096;
/// Most NUMA nodes of a machine that are read; Linux has at most 1,024.
const NODES_MAX: usize = 1024;

/// The NUMA nodes of a machine and their CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    nodes: Vec<(u32, Vec<RangeInclusive<u32>>)>,
}

impl Topology {
    /// Reads `devices/system/node` below `sys`; none where that is not there.
    pub(crate) fn read(sys: &Path) -> Self {
        let Ok(entries) = std::fs::read_dir(sys.join("devices/system/node")) else { return Self::default() };
        let nodes = entries.flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
            Some((number, parse_list(list.trim())))
        });
        let mut nodes: Vec<_> = nodes.take(NODES_MAX).collect();
        nodes.sort_by_key(|(number, _)| *number);
        Self { nodes }
    }

    /// The nodes that one of these CPUs belongs to.
    pub(crate) fn nodes_of(&self, cpus: &[RangeInclusive<u32>]) -> Vec<u32> {
        let overlap =
            |a: &RangeInclusive<u32>, b: &RangeInclusive<u32>| a.start() <= b.end() && b.start() <= a.end();
        let has =
            |of_node: &Vec<RangeInclusive<u32>>| cpus.iter().any(|a| of_node.iter().any(|b| overlap(a, b)));
        self.nodes.iter().filter(|(_, of_node)| has(of_node)).map(|(number, _)| *number).collect()
    }
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
}
