//! Logical links: all physical links between one pair of devices, as an inventory reports them.
//!
//! Pure. The paper's figure 5 draws these; a person opens one to see its physical links.

use std::collections::BTreeMap;

use throughline_sample::wire::{GpuInfo, GpuLinkInfo};

use crate::field::C2C_FIRST_LINK;

/// A device that links end at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    /// A GPU of this node, by NVML's index.
    Gpu(u32),
    /// The CPU's side, by PCI place where known.
    Cpu(String),
    /// A switch, by PCI place.
    Switch(String),
    /// Something else: a GPU of another partition, or a type that this version does not know.
    Unknown(String),
}

/// One physical link of a logical one, observed from the first device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhysicalLink {
    /// Its number on the first device.
    pub link: u32,
    /// Its number on the second, where that is known.
    pub remote_link: Option<u32>,
}

/// The active physical links between two devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogicalLink {
    /// The GPU with the lower index.
    pub from: Device,
    /// The other end.
    pub to: Device,
    /// Whether they are C2C links, to the CPU of a superchip, and not NVLinks.
    pub c2c: bool,
    /// The links, by number on `from`.
    pub links: Vec<PhysicalLink>,
    /// Sum of their speeds in one direction; `None` if one is not known.
    pub bytes_per_second: Option<u64>,
}

/// Groups the active links of an inventory. A link between two GPUs of the node appears once.
#[must_use]
pub fn logical_links(gpus: &[GpuInfo], links: &[GpuLinkInfo]) -> Vec<LogicalLink> {
    let index_of =
        |uuid: &str| gpus.iter().find(|gpu| !uuid.is_empty() && gpu.uuid == uuid).map(|gpu| gpu.index);
    let mut found: BTreeMap<(Device, Device, bool), LogicalLink> = BTreeMap::new();
    for link in links.iter().filter(|link| link.active) {
        let Some(from) = index_of(&link.gpu_uuid).map(Device::Gpu) else { continue };
        let place = link.remote_pci_bus_id.clone();
        let to = match (link.remote_type.as_str(), index_of(&link.remote_gpu_uuid)) {
            ("gpu", Some(peer)) => Device::Gpu(peer),
            ("cpu", _) => Device::Cpu(place),
            ("switch", _) => Device::Switch(place),
            _ => Device::Unknown(place),
        };
        // Both ends report the link: that of the lower index counts.
        if matches!(to, Device::Gpu(_)) && to < from {
            continue;
        }
        let c2c = link.link >= C2C_FIRST_LINK;
        let entry = found.entry((from.clone(), to.clone(), c2c)).or_insert_with(|| LogicalLink {
            from,
            to,
            c2c,
            links: Vec::new(),
            bytes_per_second: Some(0),
        });
        entry.links.push(PhysicalLink { link: link.link, remote_link: link.remote_link });
        entry.bytes_per_second = entry
            .bytes_per_second
            .zip(link.speed_bytes_per_second)
            .map(|(sum, speed)| sum.saturating_add(speed));
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus() -> Vec<GpuInfo> {
        (0..2).map(|index| GpuInfo { uuid: format!("GPU-{index}"), index, ..GpuInfo::default() }).collect()
    }

    fn link(gpu: u32, link: u32, remote_type: &str, remote: &str, remote_link: u32) -> GpuLinkInfo {
        GpuLinkInfo {
            gpu_uuid: format!("GPU-{gpu}"),
            link,
            active: true,
            speed_bytes_per_second: Some(25_000_000_000),
            remote_type: remote_type.to_owned(),
            remote_gpu_uuid: if remote_type == "gpu" { remote.to_owned() } else { String::new() },
            remote_pci_bus_id: if remote_type == "gpu" { String::new() } else { remote.to_owned() },
            remote_link: Some(remote_link),
            version: None,
        }
    }

    #[test]
    fn pairs_of_gpus_appear_once_and_speeds_add_up() {
        let links = [
            link(0, 0, "cpu", "npu", 0),
            link(0, 1, "gpu", "GPU-1", 4),
            link(0, 2, "gpu", "GPU-1", 5),
            link(1, 4, "gpu", "GPU-0", 1),
            link(1, 5, "gpu", "GPU-0", 2),
            link(1, C2C_FIRST_LINK, "cpu", "", 0),
        ];
        let logical = logical_links(&gpus(), &links);
        assert_eq!(logical.len(), 3);
        let (pair, cpu, c2c) = (&logical[0], &logical[1], &logical[2]);
        assert_eq!((&pair.from, &pair.to), (&Device::Gpu(0), &Device::Gpu(1)));
        assert_eq!(pair.bytes_per_second, Some(50_000_000_000));
        let numbers: Vec<_> = pair.links.iter().map(|link| (link.link, link.remote_link)).collect();
        assert_eq!(numbers, [(1, Some(4)), (2, Some(5))]);
        assert_eq!(cpu.to, Device::Cpu("npu".to_owned()));
        assert!(c2c.c2c && c2c.from == Device::Gpu(1));
    }

    #[test]
    fn a_link_that_is_down_or_leads_elsewhere_is_not_taken_for_one_to_a_gpu() {
        let mut down = link(0, 0, "gpu", "GPU-1", 0);
        down.active = false;
        let mut unknown_speed = link(0, 1, "gpu", "GPU-of-another-node", 0);
        unknown_speed.speed_bytes_per_second = None;
        let logical = logical_links(&gpus(), &[down, unknown_speed]);
        assert_eq!(logical.len(), 1);
        assert_eq!(logical[0].to, Device::Unknown(String::new()));
        assert_eq!(logical[0].bytes_per_second, None);
    }
}
