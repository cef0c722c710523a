//! Raw read of `class/infiniband` under a `/sys` root: texts of files, nothing else.
//!
//! A file that is not there, or can't be read, is a reason and never an error: adapters differ in what they
//! have, and an adapter can go away between two reads.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use throughline_sample::Guid;
use throughline_sample::catalogue::{Metric, PCIE_BYTES_PER_SECOND, Table};

/// Most adapters read; a node has a few, and up to some hundred virtual functions.
pub const MAX_ADAPTERS: usize = 256;
/// Most ports of one adapter; there are 1 or 2.
pub const MAX_PORTS: usize = 16;
/// Lanes of the PCIe link of a port's adapter, below the port's folder.
const PCIE_WIDTH: &str = "../../device/current_link_width";
/// Longest file read; sysfs gives at most a page.
const MAX_FILE_BYTES: u64 = 4096;

/// The text of a file without the blanks around it, or the reason why there is none.
pub type Text = Result<String, &'static str>;

/// One adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Name of the device, for instance `mlx5_0`.
    pub device: String,
    /// Which kernel object it is: another number after a reload of the driver.
    pub instance: u64,
    /// Node GUID; `None` where it can't be read.
    pub node_guid: Option<Guid>,
    /// Board, for instance `MT_0000000223`.
    pub board_id: Text,
    /// Firmware.
    pub firmware: Text,
    /// Model.
    pub adapter_type: Text,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// One port of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number, from 1.
    pub port: u32,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Text,
    /// `0x…`.
    pub lid: Text,
    /// GUID of the port: the end of its first GID. `None` where it can't be read, and on Ethernet.
    pub guid: Option<Guid>,
    /// Each metric of the catalogue's table of host ports, with its file's text.
    pub metrics: Vec<(&'static Metric, Text)>,
}

/// What a look at the tree gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The adapters by name.
    pub adapters: Vec<Adapter>,
    /// Adapters and ports left out because there are too many.
    pub left_out: u64,
}

/// Reads all adapters with all their ports.
///
/// # Errors
/// Why `class/infiniband` itself can't be listed; it is not there on a host without adapters.
pub fn read(root: &Path) -> io::Result<Tree> {
    let class = root.join("class/infiniband");
    let mut tree = Tree::default();
    let mut names = Vec::new();
    for entry in fs::read_dir(&class)? {
        let name = entry?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    tree.left_out += names.len().saturating_sub(MAX_ADAPTERS) as u64;
    for device in names.into_iter().take(MAX_ADAPTERS) {
        let folder = class.join(&device);
        let (ports, left_out) = read_ports(&folder);
        tree.left_out += left_out;
        tree.adapters.push(Adapter {
            device,
            instance: fs::metadata(&folder).map_or(0, |about| about.ino()),
            node_guid: text(&folder.join("node_guid")).ok().and_then(|guid| guid.parse().ok()),
            board_id: text(&folder.join("board_id")),
            firmware: text(&folder.join("fw_ver")),
            adapter_type: text(&folder.join("hca_type")),
            ports,
        });
    }
    Ok(tree)
}

fn read_ports(adapter: &Path) -> (Vec<Port>, u64) {
    // An adapter that is just going away has no ports.
    let Ok(entries) = fs::read_dir(adapter.join("ports")) else { return (Vec::new(), 0) };
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let left_out = numbers.len().saturating_sub(MAX_PORTS) as u64;
    let ports = numbers.into_iter().take(MAX_PORTS).map(|port| read_port(adapter, port)).collect();
    (ports, left_out)
}

fn read_port(adapter: &Path, port: u32) -> Port {
    let folder = adapter.join("ports").join(port.to_string());
    let metrics = Table::HostPortCounters.metrics().iter();
    let link_layer = text(&folder.join("link_layer"));
    let is_fabric = link_layer.as_deref() == Ok("InfiniBand");
    let gid = text(&folder.join("gids/0")).ok().filter(|_| is_fabric);
    Port {
        port,
        link_layer,
        lid: text(&folder.join("lid")),
        guid: gid.as_deref().and_then(guid_of_gid),
        metrics: metrics.map(|metric| (*metric, metric_text(&folder, metric))).collect(),
    }
}

/// The port's GUID of a GID as sysfs has it: eight groups, the first four the subnet prefix (IBTA volume 1, 4.1.1).
fn guid_of_gid(gid: &str) -> Option<Guid> {
    let groups: Vec<&str> = gid.split(':').collect();
    let guid: Guid = groups.get(4..8)?.join(":").parse().ok()?;
    Some(guid).filter(|guid| groups.len() == 8 && guid.0 != 0)
}

/// A metric's text. The speed of a PCIe link is one with its width: `16.0 GT/s PCIe x16`.
fn metric_text(port: &Path, metric: &Metric) -> Text {
    let own = text(&port.join(file_and_factor(metric).0))?;
    if *metric == PCIE_BYTES_PER_SECOND {
        return Ok(format!("{own} x{}", text(&port.join(PCIE_WIDTH))?));
    }
    Ok(own)
}

/// The file under a port's folder that a metric of the catalogue comes from, and what its number is to be
/// multiplied with: the catalogue's origin is `FILE` or `FILE x FACTOR`.
#[must_use]
pub fn file_and_factor(metric: &Metric) -> (&'static str, u64) {
    match metric.origin.split_once(" x ") {
        Some((file, factor)) => (file, factor.parse().unwrap_or(1)),
        None => (metric.origin, 1),
    }
}

fn text(path: &Path) -> Text {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(reason(&error)),
    }
}

/// The reason under which a failed read is counted; a fixed set, fit for a label.
pub(crate) fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "missing",
        io::ErrorKind::PermissionDenied => "no_permission",
        io::ErrorKind::InvalidData => "not_text",
        // The driver refuses: a port that is down, a virtual function without counters.
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => "not_supported",
        io::ErrorKind::TimedOut => "timeout",
        _ => "io_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::catalogue;

    #[test]
    fn every_metric_of_the_catalogue_has_a_file() {
        assert_eq!(file_and_factor(&catalogue::PORT_DATA_TRANSMITTED_BYTES), ("counters/port_xmit_data", 4));
        assert_eq!(file_and_factor(&catalogue::HOST_LINK_DOWNED), ("counters/link_downed", 1));
        for metric in Table::HostPortCounters.metrics() {
            let (file, factor) = file_and_factor(metric);
            assert!(!file.contains(' ') && [1, 4].contains(&factor), "{}: {}", metric.name, metric.origin);
        }
    }

    #[test]
    fn a_port_has_a_guid_of_its_own_on_a_fabric_only() {
        let root = tempfile::tempdir().unwrap();
        let port = root.path().join("class/infiniband/mlx5_0/ports/1");
        fs::create_dir_all(port.join("gids")).unwrap();
        let guid = |layer: &str, gid: &str| {
            fs::write(port.join("link_layer"), layer).unwrap();
            fs::write(port.join("gids/0"), gid).unwrap();
            read(root.path()).unwrap().adapters[0].ports[0].guid
        };
        let gid = "fe80:0000:0000:0000:506b:4b03:005c:2741";
        assert_eq!(guid("InfiniBand\n", gid), Some(Guid(0x506b_4b03_005c_2741)));
        assert_eq!(guid("Ethernet\n", gid), None);
        assert_eq!(guid("InfiniBand\n", "0000:0000:0000:0000:0000:0000:0000:0000"), None);
        assert_eq!(guid("InfiniBand\n", "nonsense"), None);
    }

    #[test]
    fn a_host_without_adapters_is_known_by_the_kind_of_error() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(root.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir_all(root.path().join("class/infiniband")).unwrap();
        assert_eq!(read(root.path()).unwrap(), Tree::default());
    }
}
