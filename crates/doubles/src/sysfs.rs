//! A `/sys` tree with InfiniBand adapters, for tests and the demo. Nothing of the source itself uses it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use throughline_sample::Guid;

/// The counters that Linux shows for a port, all 0 in a new tree. Data counters are in 4-byte words.
pub const COUNTERS: [&str; 21] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
];

/// An adapter with one port in a tree.
#[derive(Clone, Debug)]
pub struct AdapterDouble {
    folder: PathBuf,
}

impl AdapterDouble {
    /// Makes an adapter under `root` (which stands for `/sys`) with one active EDR port.
    pub fn create(root: &Path, device: &str, node_guid: Guid) -> io::Result<Self> {
        let double = Self { folder: root.join("class/infiniband").join(device) };
        fs::create_dir_all(double.folder.join("ports/1/counters"))?;
        fs::create_dir_all(double.folder.join("ports/1/hw_counters"))?;
        // A link to the PCI device in Linux.
        fs::create_dir_all(double.folder.join("device"))?;
        for (name, text) in [
            ("node_guid", guid_text(node_guid).as_str()),
            ("sys_image_guid", &guid_text(node_guid)),
            ("node_type", "1: CA"),
            ("board_id", "MT_0000000008"),
            ("fw_ver", "16.28.2006"),
            ("hca_type", "MT4119"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/phys_state", "5: LinkUp"),
            ("ports/1/rate", "100 Gb/sec (4X EDR)"),
            ("ports/1/link_layer", "InfiniBand"),
            ("ports/1/lid", "0x1"),
            ("device/current_link_speed", "16.0 GT/s PCIe"),
            ("device/current_link_width", "16"),
        ] {
            double.set(name, text)?;
        }
        for counter in COUNTERS {
            double.set_counter(counter, 0)?;
        }
        Ok(double)
    }

    /// Sets a counter of the port, in the unit that Linux shows it in. A reader sees the old or the new value.
    pub fn set_counter(&self, name: &str, value: u64) -> io::Result<()> {
        self.set(&format!("ports/1/counters/{name}"), &value.to_string())
    }

    /// Sets any file of the adapter by its path below the adapter's folder.
    pub fn set(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join(file);
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        fs::write(&beside, format!("{text}\n"))?;
        fs::rename(beside, path)
    }

    /// Takes a file away, as an adapter that lacks it.
    pub fn remove(&self, file: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(file))
    }

    /// Takes the adapter away, as when its driver is unloaded.
    pub fn unplug(self) -> io::Result<()> {
        fs::remove_dir_all(self.folder)
    }
}

/// A GUID as sysfs prints it.
fn guid_text(guid: Guid) -> String {
    let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (guid.0 >> shift) & 0xffff);
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_host::sysfs;
    use throughline_sample::catalogue::Table;

    #[test]
    fn what_it_writes_is_read_whole() {
        let root = tempfile::tempdir().unwrap();
        let guid = Guid(0x506b_4b03_005c_2740);
        let double = AdapterDouble::create(root.path(), "mlx5_0", guid).unwrap();
        double.set_counter("port_xmit_data", 12).unwrap();
        let tree = sysfs::read(root.path()).unwrap();
        let [adapter] = &tree.adapters[..] else { panic!("one adapter: {tree:?}") };
        assert_eq!((adapter.node_guid, adapter.ports.len()), (Some(guid), 1));
        assert_eq!(adapter.board_id.as_deref(), Ok("MT_0000000008"));
        let metrics = &adapter.ports[0].metrics;
        assert_eq!(metrics.len(), Table::HostPortCounters.metrics().len());
        for (metric, text) in metrics {
            assert!(text.is_ok(), "{}: {text:?}", metric.name);
        }
        assert_eq!(metrics[0].1.as_deref(), Ok("12"));
    }
}
