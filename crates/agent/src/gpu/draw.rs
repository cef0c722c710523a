//! The PCIe tree of a node as lines for a terminal. Pure: places in, lines out.

use std::collections::BTreeMap;
use throughline_gpu::place::Place;

/// A device at its place, and what is written there.
pub struct Leaf<'p> {
    /// Where.
    pub place: &'p Place,
    /// What.
    pub label: String,
}

/// A bridge, or the root; devices below it.
#[derive(Default)]
struct Branch {
    label: Option<String>,
    below: BTreeMap<String, Branch>,
}

/// Lines for all devices, one tree for each NUMA node. Bridges with nothing but one device below stand on one line.
pub fn tree(leaves: &[Leaf<'_>]) -> Vec<String> {
    let mut nodes: BTreeMap<Option<u32>, Branch> = BTreeMap::new();
    for leaf in leaves {
        let mut at = nodes.entry(leaf.place.numa_node).or_default();
        for step in &leaf.place.path {
            at = at.below.entry(step.clone()).or_default();
        }
        // Two adapters of one device, its ports, share a line.
        at.label = Some(match at.label.take() {
            Some(before) => format!("{before}, {}", leaf.label),
            None => leaf.label.clone(),
        });
    }
    let mut lines = Vec::new();
    for (numa, branch) in &nodes {
        lines.push(numa.map_or_else(|| "NUMA node not known".to_owned(), |numa| format!("NUMA node {numa}")));
        below(branch, "", &mut lines);
    }
    lines
}

fn below(branch: &Branch, indent: &str, lines: &mut Vec<String>) {
    let last = branch.below.len().saturating_sub(1);
    for (at, (name, child)) in branch.below.iter().enumerate() {
        let (mut text, mut child) = (name.clone(), child);
        while let (None, Some((name, only)), 1) = (&child.label, child.below.iter().next(), child.below.len())
        {
            text = format!("{text} ─ {name}");
            child = only;
        }
        if let Some(label) = &child.label {
            text = format!("{text}  {label}");
        }
        let (joint, further) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push(format!("{indent}{joint}{text}"));
        below(child, &format!("{indent}{further}"), lines);
    }
}

/// Bytes per second with three digits, for people; absent is a dash.
pub fn rate(bytes_per_second: Option<f64>) -> String {
    const UNITS: [&str; 5] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
    let Some(mut value) = bytes_per_second else { return "-".to_owned() };
    let mut unit = 0;
    while value >= 999.5 && unit < UNITS.len() - 1 {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A share in percent, for people.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str, numa_node: Option<u32>) -> Place {
        Place { path: path.split('/').map(str::to_owned).collect(), numa_node }
    }

    #[test]
    fn a_tree_has_a_line_for_each_fork_and_device() {
        let places = [
            place("pci0000:15/0000:15:01.0/0000:16:00.0/0000:1b:00.0", Some(0)),
            place("pci0000:15/0000:15:01.0/0000:17:00.0/0000:18:00.0", Some(0)),
            place("pci0000:95/0000:9d:00.0", Some(1)),
        ];
        let labels = ["GPU 0", "mlx5_0", "GPU 1"];
        let leaves: Vec<Leaf<'_>> =
            places.iter().zip(labels).map(|(place, label)| Leaf { place, label: label.to_owned() }).collect();
        let expected = [
            "NUMA node 0",
            "└─ pci0000:15 ─ 0000:15:01.0",
            "   ├─ 0000:16:00.0 ─ 0000:1b:00.0  GPU 0",
            "   └─ 0000:17:00.0 ─ 0000:18:00.0  mlx5_0",
            "NUMA node 1",
            "└─ pci0000:95 ─ 0000:9d:00.0  GPU 1",
        ];
        assert_eq!(tree(&leaves), expected);
    }

    #[test]
    fn rates_have_three_digits_and_absent_is_not_zero() {
        assert_eq!(rate(Some(26_562_000_000.0)), "26.6 GB/s");
        assert_eq!(rate(Some(999_600.0)), "1.00 MB/s");
        assert_eq!((rate(Some(0.0)), rate(None)), ("0 B/s".to_owned(), "-".to_owned()));
        assert_eq!((percent(Some(0.9876)), percent(None)), ("98.8 %".to_owned(), "-".to_owned()));
    }
}
