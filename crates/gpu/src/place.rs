//! Where GPUs and InfiniBand adapters stand on a node, by sysfs: the way over PCIe from the root complex, the NUMA node.
//!
//! Reads links and small files under a `/sys` root, which tests bring themselves. A GPU is found by its place on the PCI
//! bus; what sysfs does not report is absent. A device whose driver is wedged still has its entries: nothing waits here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use throughline_sample::wire::GpuInfo;

/// Most adapters looked at; a node has a few, and up to some hundred virtual functions.
const MAX_ADAPTERS: usize = 256;
/// Most devices on the way to one; real trees have below ten.
const MAX_STEPS: usize = 32;

/// A device's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The way to it: host bridge (`pci0000:15`), bridges, and the device itself (`0000:1b:00.0`).
    pub path: Vec<String>,
    /// Its NUMA node; absent on machines with one, where the kernel reports -1.
    pub numa_node: Option<u32>,
}

/// How far two devices are from each other, nearest first; in brackets what `nvidia-smi topo` calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// Over one PCIe switch (PIX), or on one card.
    Switch,
    /// Over several PCIe switches below one root port (PXB).
    Switches,
    /// Over one host bridge (PHB).
    HostBridge,
    /// Over host bridges of one NUMA node (NODE).
    NumaNode,
    /// Over the link between NUMA nodes (SYS).
    System,
}

impl Distance {
    /// Name for people and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Distance::Switch => "switch",
            Distance::Switches => "switches",
            Distance::HostBridge => "host_bridge",
            Distance::NumaNode => "numa_node",
            Distance::System => "system",
        }
    }
}

/// An InfiniBand adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Name of the device, for instance `mlx5_0`.
    pub device: String,
    /// Where it stands.
    pub place: Place,
}

/// What sysfs reports the places of GPUs and adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// By place on the PCI bus, as inventories have it.
    pub gpus: BTreeMap<String, Place>,
    /// By name.
    pub adapters: Vec<Adapter>,
}

/// Reads the places of GPUs, by `pci_bus_id`, and of all adapters.
#[must_use]
pub fn places<'g>(root: &Path, gpus: impl IntoIterator<Item = &'g str>) -> Places {
    let gpus = gpus.into_iter().filter_map(|gpu| Some((gpu.to_owned(), of_bus_id(root, gpu)?)));
    Places { gpus: gpus.collect(), adapters: adapters(root) }
}

/// The place of the device at a place on the PCI bus, `dddddddd:bb:dd.f` as NVML writes it or `dddd:bb:dd.f`.
#[must_use]
pub fn of_bus_id(root: &Path, bus_id: &str) -> Option<Place> {
    // Sysfs writes four digits of the domain, and more only where they are needed.
    let (domain, rest) = bus_id.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    of_folder(&root.join("bus/pci/devices").join(format!("{domain:04x}:{}", rest.to_ascii_lowercase())))
}

fn of_folder(folder: &Path) -> Option<Place> {
    let real = fs::canonicalize(folder).ok()?;
    let steps = real.iter().map(|step| step.to_string_lossy().into_owned());
    let path: Vec<String> = steps.filter(|step| is_step(step)).take(MAX_STEPS).collect();
    let numa = fs::read_to_string(real.join("numa_node")).ok();
    let numa_node =
        numa.and_then(|text| text.trim().parse::<i64>().ok()).and_then(|node| u32::try_from(node).ok());
    (!path.is_empty()).then_some(Place { path, numa_node })
}

/// Whether a folder's name is a host bridge or a device on a PCI bus.
fn is_step(name: &str) -> bool {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(bridge) = name.strip_prefix("pci") {
        return bridge.split_once(':').is_some_and(|(domain, bus)| is_hex(domain) && is_hex(bus));
    }
    let parts: Vec<&str> = name.split([':', '.']).collect();
    parts.len() == 4 && parts.into_iter().all(is_hex)
}

fn adapters(root: &Path) -> Vec<Adapter> {
    let entries = fs::read_dir(root.join("class/infiniband")).into_iter().flatten().flatten();
    let mut found: Vec<Adapter> = entries
        .take(MAX_ADAPTERS)
        .filter_map(|entry| {
            let place = of_folder(&entry.path().join("device"))?;
            Some(Adapter { device: entry.file_name().to_string_lossy().into_owned(), place })
        })
        .collect();
    found.sort_by(|a, b| a.device.cmp(&b.device));
    found
}

/// How far two devices are from each other.
#[must_use]
pub fn distance(a: &Place, b: &Place) -> Distance {
    let common = a.path.iter().zip(&b.path).take_while(|(a, b)| a == b).count();
    // The path begins with the host bridge, then the root port.
    match common {
        0 => match (a.numa_node, b.numa_node) {
            (Some(a), Some(b)) if a == b => Distance::NumaNode,
            _ => Distance::System,
        },
        1 => Distance::HostBridge,
        _ => {
            // Bridges between the last common one and each device: a switch is an upstream and a downstream port.
            let apart = (a.path.len() - common).max(b.path.len() - common);
            if apart <= 2 { Distance::Switch } else { Distance::Switches }
        }
    }
}

impl Places {
    /// The adapters nearest to a GPU, and how far they are; none where one of the two is not known.
    #[must_use]
    pub fn nearest(&self, pci_bus_id: &str) -> Option<(Distance, Vec<&str>)> {
        let gpu = self.gpus.get(pci_bus_id)?;
        let far = |adapter: &Adapter| distance(gpu, &adapter.place);
        let nearest = self.adapters.iter().map(far).min()?;
        let there = self.adapters.iter().filter(|adapter| far(adapter) == nearest);
        Some((nearest, there.map(|adapter| adapter.device.as_str()).collect()))
    }

    /// Notes in an inventory where its GPUs stand.
    pub fn note(&self, gpus: &mut [GpuInfo]) {
        for gpu in gpus {
            gpu.numa_node = self.gpus.get(&gpu.pci_bus_id).and_then(|place| place.numa_node);
            gpu.nearest_hcas = self
                .nearest(&gpu.pci_bus_id)
                .into_iter()
                .flat_map(|(_, names)| names)
                .map(str::to_owned)
                .collect();
        }
    }
}

#[cfg(test)]
mod tests;
