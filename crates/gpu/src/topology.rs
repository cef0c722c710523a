//! Logical links: all physical links between one pair of devices, as a survey found them.
//!
//! Pure. The paper's figure 5 draws these; a person opens one to see its physical links.

use std::collections::BTreeMap;

use crate::convert::remote_type_name;
use crate::frame::Survey;

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

/// One physical link of a logical one, seen from the first device.
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
    /// The links, by number on `from`.
    pub links: Vec<PhysicalLink>,
    /// Sum of their speeds in one direction; `None` if one is not known.
    pub bytes_per_second: Option<u64>,
}

/// Groups the active links of a survey. A link between two GPUs of the node appears once.
#[must_use]
pub fn logical_links(survey: &Survey) -> Vec<LogicalLink> {
    let mut found: BTreeMap<(Device, Device), LogicalLink> = BTreeMap::new();
    for gpu in &survey.gpus {
        for link in gpu.links.iter().filter(|link| link.active) {
            let place = link.remote_pci_bus_id.clone().unwrap_or_default();
            let peer = survey.gpus.iter().find(|other| !place.is_empty() && other.pci_bus_id == place);
            let to = match (remote_type_name(link.remote_type), peer) {
                ("gpu", Some(peer)) => Device::Gpu(peer.index),
                ("cpu", _) => Device::Cpu(place),
                ("switch", _) => Device::Switch(place),
                _ => Device::Unknown(place),
            };
            let from = Device::Gpu(gpu.index);
            // Both ends report the link: the one with the lower index is kept.
            if matches!(to, Device::Gpu(_)) && to < from {
                continue;
            }
            let speed = link.speed_megabytes_per_second.map(|speed| speed.saturating_mul(1_000_000));
            let entry = found.entry((from.clone(), to.clone())).or_insert_with(|| LogicalLink {
                from,
                to,
                links: Vec::new(),
                bytes_per_second: Some(0),
            });
            entry.links.push(PhysicalLink { link: link.link, remote_link: link.remote_link });
            entry.bytes_per_second =
                entry.bytes_per_second.zip(speed).map(|(sum, speed)| sum.saturating_add(speed));
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{GpuSurvey, LinkSurvey};

    fn gpu(index: u32, links: Vec<LinkSurvey>) -> GpuSurvey {
        GpuSurvey { index, pci_bus_id: format!("0000000{index}:01:00.0"), links, ..GpuSurvey::default() }
    }

    fn link(link: u32, remote_type: u32, place: &str, remote_link: u32) -> LinkSurvey {
        LinkSurvey {
            link,
            active: true,
            speed_megabytes_per_second: Some(25_000),
            remote_type: Some(remote_type),
            remote_pci_bus_id: Some(place.to_owned()),
            remote_link: Some(remote_link),
            ..LinkSurvey::default()
        }
    }

    #[test]
    fn pairs_of_gpus_appear_once_and_speeds_add_up() {
        let first = gpu(
            0,
            vec![link(0, 1, "npu", 0), link(1, 0, "00000001:01:00.0", 4), link(2, 0, "00000001:01:00.0", 5)],
        );
        let second = gpu(1, vec![link(4, 0, "00000000:01:00.0", 1), link(5, 0, "00000000:01:00.0", 2)]);
        let logical = logical_links(&Survey { gpus: vec![first, second], unreadable: 0 });
        assert_eq!(logical.len(), 2);
        let (pair, cpu) = (&logical[0], &logical[1]);
        assert_eq!((&pair.from, &pair.to), (&Device::Gpu(0), &Device::Gpu(1)));
        assert_eq!(pair.bytes_per_second, Some(50_000_000_000));
        let numbers: Vec<_> = pair.links.iter().map(|link| (link.link, link.remote_link)).collect();
        assert_eq!(numbers, [(1, Some(4)), (2, Some(5))]);
        assert_eq!(cpu.to, Device::Cpu("npu".to_owned()));
    }

    #[test]
    fn a_link_that_is_down_or_leads_elsewhere_is_not_taken_for_one_to_a_gpu() {
        let mut down = link(0, 0, "00000001:01:00.0", 0);
        down.active = false;
        let mut unknown_speed = link(1, 0, "00000009:01:00.0", 0);
        unknown_speed.speed_megabytes_per_second = None;
        let survey = Survey { gpus: vec![gpu(0, vec![down, unknown_speed]), gpu(1, vec![])], unreadable: 0 };
        let logical = logical_links(&survey);
        assert_eq!(logical.len(), 1);
        assert_eq!(logical[0].to, Device::Unknown("00000009:01:00.0".to_owned()));
        assert_eq!(logical[0].bytes_per_second, None);
    }
}
