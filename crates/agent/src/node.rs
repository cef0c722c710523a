//! What is told about this node itself: name, boot, adapters.

use std::path::Path;
use throughline_daemon::{Clock, boot_id};
use throughline_sample::Guid;
use throughline_sample::wire::NodeInfo;

/// Most adapters looked at; a node has fewer than ten.
const ADAPTERS_MAX: usize = 64;

/// The record of this node. `configured` GUIDs win over what sysfs shows.
pub fn info(name: &str, clock: &Clock, configured: &[Guid], sys: &Path) -> NodeInfo {
    let guids = if configured.is_empty() { adapters(sys) } else { configured.to_vec() };
    NodeInfo {
        name: name.to_owned(),
        boot_id: boot_id(),
        boot_time: clock.now() - since_boot(),
        hca_guids: guids.into_iter().map(|guid| guid.0).collect(),
    }
}

fn since_boot() -> i64 {
    // Linux always has this clock; 0 would show at once.
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
        .map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

/// Node GUIDs under `class/infiniband/*/node_guid`, each once, in order. An adapter without one is left out.
fn adapters(sys: &Path) -> Vec<Guid> {
    let Ok(devices) = std::fs::read_dir(sys.join("class/infiniband")) else { return Vec::new() };
    let guid = |device: std::fs::DirEntry| {
        std::fs::read_to_string(device.path().join("node_guid")).ok()?.parse::<Guid>().ok()
    };
    let mut guids: Vec<Guid> = devices.flatten().take(ADAPTERS_MAX).filter_map(guid).collect();
    guids.retain(|guid| guid.0 != 0);
    guids.sort_unstable();
    guids.dedup();
    guids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_come_from_sysfs_unless_configured() {
        let sys = tempfile::tempdir().unwrap();
        for (device, guid) in
            [("mlx5_1", "506b:4b03:005c:2741\n"), ("mlx5_0", "506b:4b03:005c:2740\n"), ("x", "?")]
        {
            let device = sys.path().join("class/infiniband").join(device);
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("node_guid"), guid).unwrap();
        }
        let clock = Clock::new();
        let node = info("n1", &clock, &[], sys.path());
        assert_eq!(node.hca_guids, [0x506b_4b03_005c_2740, 0x506b_4b03_005c_2741]);
        assert!(node.boot_time > 0 && node.boot_time < clock.now() && !node.boot_id.is_empty());
        assert_eq!(info("n1", &clock, &[Guid(7)], sys.path()).hca_guids, [7]);
        assert!(info("n1", &clock, &[], Path::new("/nonexistent")).hca_guids.is_empty());
    }
}
