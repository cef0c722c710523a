//! What is reported about this node itself: name, boot, adapters.

use std::path::PathBuf;
use std::time::Duration;
use throughline_daemon::{Clock, boot_id};
use throughline_host::sysfs::{self, Tree};
use throughline_sample::Guid;
use throughline_sample::wire::NodeInfo;

/// How long sysfs may take: a read queries the adapter's firmware, which can hang.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// Reads what adapters there are, at most for [`READ_LIMIT`]; none where that fails, which the source reports.
pub async fn adapters(root: PathBuf) -> Tree {
    let reading = tokio::task::spawn_blocking(move || sysfs::read(&root));
    match tokio::time::timeout(READ_LIMIT, reading).await {
        Ok(Ok(Ok(tree))) => tree,
        _ => Tree::default(),
    }
}

/// The record of this node. `configured` GUIDs win over those of the adapters.
pub fn info(name: &str, clock: &Clock, configured: &[Guid], adapters: &Tree) -> NodeInfo {
    let mut guids: Vec<u64> = if configured.is_empty() {
        adapters.adapters.iter().filter_map(|adapter| adapter.node_guid).map(|guid| guid.0).collect()
    } else {
        configured.iter().map(|guid| guid.0).collect()
    };
    guids.retain(|guid| *guid != 0);
    guids.sort_unstable();
    guids.dedup();
    NodeInfo {
        name: name.to_owned(),
        boot_id: boot_id(),
        // Where CLOCK_BOOTTIME is faked to be the time of day, both are read at a time.
        boot_time: (clock.now() - since_boot()).max(0),
        hca_guids: guids,
    }
}

fn since_boot() -> i64 {
    // Linux always has this clock; 0 would show at once.
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
        .map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_doubles::sysfs::AdapterDouble;

    #[tokio::test]
    async fn adapters_come_from_sysfs_unless_configured() {
        let sys = tempfile::tempdir().unwrap();
        AdapterDouble::create(sys.path(), "mlx5_1", Guid(0x41)).unwrap();
        AdapterDouble::create(sys.path(), "mlx5_0", Guid(0x40)).unwrap();
        let clock = Clock::new();
        let tree = adapters(sys.path().to_owned()).await;
        let node = info("n1", &clock, &[], &tree);
        assert_eq!(node.hca_guids, [0x40, 0x41]);
        assert!(node.boot_time > 0 && node.boot_time < clock.now() && !node.boot_id.is_empty());
        assert_eq!(info("n1", &clock, &[Guid(7)], &tree).hca_guids, [7]);
        let none = adapters(PathBuf::from("/nonexistent")).await;
        assert!(info("n1", &clock, &[], &none).hca_guids.is_empty());
    }
}
