//! The last topology on disk, so that what changed while the crawler was down is an event after its start.
//!
//! One file in the state folder, in the wire schema, without forwarding tables; replaced as a whole. A file that
//! is damaged or of another fabric is no memory: the crawler begins anew.

use std::io::Write;
use std::path::{Path, PathBuf};
use throughline_infiniband::records;
use throughline_infiniband::topology::Topology;

/// Name in the state folder.
const FILE: &str = "fabric-topology";
/// Largest file that is read: 65,536 nodes take about 30 MB.
const BYTES_MAX: u64 = 64 << 20;

/// The file.
pub struct TopologyCache {
    path: PathBuf,
    /// Signature of what is in it.
    stored: Option<u64>,
    is_failing: bool,
}

impl TopologyCache {
    pub fn new(state_dir: &Path) -> TopologyCache {
        TopologyCache { path: state_dir.join(FILE), stored: None, is_failing: false }
    }

    /// The topology as of the last run.
    pub fn load(&self) -> Option<Topology> {
        match std::fs::metadata(&self.path) {
            Ok(data) if data.len() <= BYTES_MAX => {}
            Ok(_) => {
                tracing::warn!(path = %self.path.display(), "larger than any memory of a topology; left out");
                return None;
            }
            Err(_) => return None,
        }
        let read = std::fs::read(&self.path).map_err(|error| error.to_string());
        match read.and_then(|bytes| records::read_snapshot(&bytes)) {
            Ok(topology) => Some(topology).filter(|topology| !topology.nodes.is_empty()),
            Err(error) => {
                tracing::warn!(%error, path = %self.path.display(), "the last topology is lost; beginning anew");
                None
            }
        }
    }

    /// Keeps a topology, if it is not the one that is kept. Whether that failed for the first time in a row.
    pub fn store(&mut self, topology: &Topology, signature: u64) -> bool {
        if self.stored == Some(signature) {
            return false;
        }
        match self.write(&records::snapshot(topology)) {
            Ok(()) => {
                self.stored = Some(signature);
                self.is_failing = false;
                false
            }
            Err(error) => {
                let first = !std::mem::replace(&mut self.is_failing, true);
                if first {
                    let path = self.path.display();
                    tracing::warn!(%error, %path, "the topology is not kept for the next start; trying on");
                }
                first
            }
        }
    }

    fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = std::fs::File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        std::fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{Batch, FabricFingerprint, IbNodeInfo, IbPortInfo};

    /// A switch and a host with a cable between them.
    fn small() -> Topology {
        let port = |number, remote_guid, remote_port, lid| IbPortInfo {
            port: number,
            port_guid: 0x10,
            lid,
            state: "Active".to_owned(),
            physical_state: "LinkUp".to_owned(),
            width: "4x".to_owned(),
            speed: "EDR".to_owned(),
            remote_guid: Some(remote_guid),
            remote_port: Some(remote_port),
            ..IbPortInfo::default()
        };
        let node = |guid, kind: &str, lid, port_count, port| IbNodeInfo {
            guid,
            r#type: kind.to_owned(),
            description: format!("node {guid}"),
            lid,
            ports: vec![port],
            port_count,
            ..IbNodeInfo::default()
        };
        let ib_nodes =
            vec![node(1, "switch", 3, 36, port(7, 2, 1, 3)), node(2, "ca", 4, 1, port(1, 1, 7, 4))];
        let fabric = FabricFingerprint { subnet_prefix: 5, ..FabricFingerprint::default() };
        records::topology(&Batch { ib_nodes, fabric: Some(fabric), ..Batch::default() })
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut memory = TopologyCache::new(folder.path());
        assert!(memory.load().is_none());
        let topology = small();
        assert_eq!(topology.cables().count(), 1);
        assert!(!memory.store(&topology, 1));
        let again = memory.load().unwrap();
        assert_eq!(again.signature(), topology.signature());
        assert_eq!((again.subnet_prefix, again.nodes.len(), again.cables().count()), (5, 2, 1));
        assert_eq!(again.nodes[0].ports.len(), 37, "a switch has all its ports");
        std::fs::write(folder.path().join(FILE), b"\xFFnonsense").unwrap();
        assert!(memory.load().is_none());
    }

    #[test]
    fn a_folder_that_is_gone_is_reported_once() {
        let mut memory = TopologyCache::new(Path::new("/nonexistent/folder"));
        assert!(memory.store(&small(), 1));
        assert!(!memory.store(&small(), 1));
    }
}
