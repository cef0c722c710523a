//! `gpu topo`: the node drawn in a terminal.

use super::draw::{Leaf, rate, tree};
use super::read::Readings;
use crate::config::{Config, Places as Folders};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use throughline_gpu::convert::link_name;
use throughline_gpu::place::{Places, places};
use throughline_gpu::topology::{Device, LogicalLink, logical_links};
use throughline_sample::wire::{Batch, GpuInfo, GpuLinkInfo};

/// Prints it.
pub async fn run(
    config: &Config,
    folders: &Folders,
    physical: bool,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let batch = match Readings::first(config, Duration::from_secs(1)).await? {
        Ok((readings, batch)) => {
            readings.stop().await;
            batch
        }
        Err(nothing) => return nothing.report(),
    };
    let here = places(&config.sysfs.root, batch.gpus.iter().map(|gpu| gpu.pci_bus_id.as_str()));
    let text = if as_json {
        format!("{:#}\n", document(&folders.node, &batch, &here))
    } else {
        drawing(&folders.node, &batch, &here, physical)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The device's name in a line.
fn name(device: &Device) -> String {
    let at = |kind: &str, place: &String| {
        if place.is_empty() { kind.to_owned() } else { format!("{kind} {place}") }
    };
    match device {
        Device::Gpu(index) => format!("GPU {index}"),
        Device::Cpu(place) => at("CPU", place),
        Device::Switch(place) => at("switch", place),
        // Only what has a place is known not to be here.
        Device::Unknown(place) if place.is_empty() => "unknown".to_owned(),
        Device::Unknown(place) => at("elsewhere", place),
    }
}

fn kind(link: &LogicalLink) -> &'static str {
    if link.c2c { "c2c" } else { "nvlink" }
}

fn whole_gpus(batch: &Batch) -> Vec<GpuInfo> {
    batch.gpus.iter().filter(|gpu| gpu.parent_uuid.is_empty()).cloned().collect()
}

/// What is known of a physical link of a logical one.
fn info<'b>(batch: &'b Batch, gpus: &[GpuInfo], from: &Device, link: u32) -> Option<&'b GpuLinkInfo> {
    let Device::Gpu(index) = from else { return None };
    let gpu = gpus.iter().find(|gpu| gpu.index == *index)?;
    batch.gpu_link_infos.iter().find(|info| info.gpu_uuid == gpu.uuid && info.link == link)
}

fn drawing(node: &str, batch: &Batch, here: &Places, physical: bool) -> String {
    let gpus = whole_gpus(batch);
    let logical = logical_links(&gpus, &batch.gpu_link_infos);
    // Writing to a String can't fail.
    let mut text = String::new();
    let all = batch.gpu_link_infos.len();
    let down = batch.gpu_link_infos.iter().filter(|link| !link.active).count();
    let state = match (all, down) {
        (0, _) => String::new(),
        (all, 0) => format!(", all {all} physical ones up"),
        (all, down) => format!(", {down} OF {all} PHYSICAL ONES DOWN"),
    };
    let _ = writeln!(text, "{node}: {} GPUs, {} logical links{state}\n", gpus.len(), logical.len());
    for gpu in &gpus {
        let numa = gpu.numa_node.map_or_else(|| "NUMA ?".to_owned(), |numa| format!("NUMA {numa}"));
        let nearest = match here.nearest(&gpu.pci_bus_id) {
            Some((distance, names)) => format!("nearest {} ({})", names.join(", "), distance.name()),
            None => "no adapter known".to_owned(),
        };
        // Where sysfs shows no GPU nothing is known of any: that is said once, below.
        let place = if here.gpus.is_empty() { String::new() } else { format!("  {numa}  {nearest}") };
        let _ = writeln!(text, "GPU {:<2} {}  {}{place}", gpu.index, gpu.name, gpu.pci_bus_id);
        for part in batch.gpus.iter().filter(|part| part.parent_uuid == gpu.uuid) {
            let _ = writeln!(text, "       partition {} {}  {}", part.index, part.name, part.uuid);
        }
    }
    for line in domains(&gpus) {
        let _ = writeln!(text, "{line}");
    }
    let adapters =
        here.adapters.iter().map(|adapter| Leaf { place: &adapter.place, label: adapter.device.clone() });
    let placed = gpus.iter().filter_map(|gpu| {
        Some(Leaf { place: here.gpus.get(&gpu.pci_bus_id)?, label: format!("GPU {}", gpu.index) })
    });
    let leaves: Vec<Leaf<'_>> = placed.chain(adapters).collect();
    if leaves.is_empty() {
        let _ = writeln!(text, "\nPCIe: sysfs does not show these GPUs");
    } else {
        let _ = writeln!(text, "\nPCIe");
        tree(&leaves).iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    let heading = match (logical.is_empty(), down) {
        (true, 0) => "links: none".to_owned(),
        (_, 0) => "links".to_owned(),
        (_, down) => format!("links, {down} down"),
    };
    let _ = writeln!(text, "\n{heading}");
    if physical {
        each_link(&mut text, batch, &gpus, &logical);
    } else {
        together(&logical).iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    text
}

/// A line for each NVLink domain over several nodes, and for each state of a registration that has not come to one.
fn domains(gpus: &[GpuInfo]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<u32>)> = Vec::new();
    for gpu in gpus {
        let what = match (gpu.nvlink_domain(), gpu.fabric_state.as_str()) {
            (Some(domain), _) => format!("NVLink domain {domain}"),
            // One without a domain is the node's own.
            (None, "" | "completed") => continue,
            (None, state) => format!("NVLink domain: registration {}", state.replace('_', " ")),
        };
        match lines.iter_mut().find(|(known, _)| *known == what) {
            Some((_, indices)) => indices.push(gpu.index),
            None => lines.push((what, vec![gpu.index])),
        }
    }
    lines.into_iter().map(|(what, indices)| format!("{what}: GPU {}", ranges(&indices))).collect()
}

/// One logical link, from whatever is written at its beginning.
fn line(from: &str, link: &LogicalLink) -> String {
    let speed = rate(link.bytes_per_second.map(|speed| speed as f64));
    let what = if link.c2c { " C2C" } else { "" };
    format!("{from} ══{}{what}══ {}  {speed}", link.links.len(), name(&link.to))
}

/// Logical links as lines. GPUs that reach the same switch alike share one: 16 GPUs with 6 switches each would be 96.
fn together(logical: &[LogicalLink]) -> Vec<String> {
    let mut lines: Vec<(Vec<u32>, &LogicalLink)> = Vec::new();
    for link in logical {
        let Device::Gpu(from) = link.from else { continue };
        let alike = |other: &LogicalLink| {
            matches!(link.to, Device::Switch(_))
                && (&other.to, other.links.len(), other.bytes_per_second, other.c2c)
                    == (&link.to, link.links.len(), link.bytes_per_second, link.c2c)
        };
        match lines.iter_mut().find(|(_, other)| alike(other)) {
            Some((gpus, _)) => gpus.push(from),
            None => lines.push((vec![from], link)),
        }
    }
    let written = lines.into_iter().map(|(gpus, link)| match gpus.as_slice() {
        [_] => line(&name(&link.from), link),
        gpus => format!("{} each", line(&format!("GPU {}", ranges(gpus)), link)),
    });
    written.collect()
}

/// Numbers in their order, as `0-3, 5`.
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let written = runs.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// Every logical link with its physical ones, and those that are down.
fn each_link(text: &mut String, batch: &Batch, gpus: &[GpuInfo], logical: &[LogicalLink]) {
    let source = gpus.first().map_or("", |gpu| gpu.source.as_str());
    for link in logical {
        let _ = writeln!(text, "{}", line(&name(&link.from), link));
        for one in &link.links {
            let far = one.remote_link.map_or_else(String::new, |far| format!(" to its link {far}"));
            let speed = info(batch, gpus, &link.from, one.link).and_then(|info| info.speed_bytes_per_second);
            let speed = rate(speed.map(|speed| speed as f64));
            let _ = writeln!(text, "       {}{far}  {speed}", link_name(source, one.link));
        }
    }
    for link in batch.gpu_link_infos.iter().filter(|link| !link.active) {
        let gpu = gpus.iter().find(|gpu| gpu.uuid == link.gpu_uuid);
        let gpu = gpu.map_or_else(String::new, |gpu| gpu.index.to_string());
        let _ = writeln!(text, "GPU {gpu}  {} down", link_name(source, link.link));
    }
}

fn document(node: &str, batch: &Batch, here: &Places) -> Value {
    let gpus = whole_gpus(batch);
    let listed: Vec<Value> = gpus
        .iter()
        .map(|gpu| {
            let place = here.gpus.get(&gpu.pci_bus_id);
            let nearest = here.nearest(&gpu.pci_bus_id);
            let parts: Vec<Value> = batch
                .gpus
                .iter()
                .filter(|part| part.parent_uuid == gpu.uuid)
                .map(|part| json!({ "index": part.index, "uuid": part.uuid, "name": part.name }))
                .collect();
            json!({
                "index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "pci_bus_id": gpu.pci_bus_id,
                "numa_node": place.and_then(|place| place.numa_node),
                "pcie_path": place.map(|place| &place.path),
                "nearest_hcas": nearest.as_ref().map(|(_, names)| names),
                "nvlink_domain": gpu.nvlink_domain(),
                "fabric_state": (!gpu.fabric_state.is_empty()).then_some(&gpu.fabric_state),
                "nearest_hcas_distance": nearest.as_ref().map(|(distance, _)| distance.name()),
                "partitions": parts,
            })
        })
        .collect();
    let adapters = here.adapters.iter().map(|adapter| {
        json!({ "device": adapter.device, "numa_node": adapter.place.numa_node, "pcie_path": adapter.place.path })
    });
    let logical = logical_links(&gpus, &batch.gpu_link_infos);
    let links: Vec<Value> = logical
        .iter()
        .map(|link| {
            let physical = link.links.iter().map(|one| {
                let info = info(batch, &gpus, &link.from, one.link);
                json!({
                    "link": one.link, "remote_link": one.remote_link,
                    "version": info.and_then(|info| info.version),
                    "speed_bytes_per_second": info.and_then(|info| info.speed_bytes_per_second),
                })
            });
            json!({
                "from": name(&link.from), "to": name(&link.to), "kind": kind(link), "count": link.links.len(),
                "bytes_per_second": link.bytes_per_second, "links": physical.collect::<Vec<_>>(),
            })
        })
        .collect();
    let down = batch.gpu_link_infos.iter().filter(|link| !link.active);
    let down: Vec<Value> = down.map(|link| json!({ "gpu": link.gpu_uuid, "link": link.link })).collect();
    json!({
        "node": node, "gpus": listed, "adapters": adapters.collect::<Vec<_>>(), "logical_links": links,
        "links_down": down,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_one_another_are_written_as_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 3, 5, 8, 9]), "0-3, 5, 8, 9");
        assert_eq!(ranges(&[7]), "7");
    }

    #[test]
    fn each_nvlink_domain_and_each_registration_that_goes_on_is_a_line() {
        let gpu = |index, clique: Option<u32>, state: &str| GpuInfo {
            index,
            fabric_cluster_uuid: clique
                .map_or_else(String::new, |_| "5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e".into()),
            fabric_clique_id: clique,
            fabric_state: state.into(),
            ..GpuInfo::default()
        };
        let gpus = [
            gpu(0, Some(7), "completed"),
            gpu(1, Some(7), "completed"),
            gpu(2, None, "in_progress"),
            gpu(3, None, "completed"),
            gpu(4, None, ""),
        ];
        let said = [
            "NVLink domain 5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e.7: GPU 0, 1",
            "NVLink domain: registration in progress: GPU 2",
        ];
        assert_eq!(domains(&gpus), said);
    }

    #[test]
    fn an_end_that_nobody_knows_is_not_said_to_be_elsewhere() {
        assert_eq!(name(&Device::Unknown(String::new())), "unknown");
        assert_eq!(name(&Device::Unknown("00000000:07:00.0".into())), "elsewhere 00000000:07:00.0");
    }
}
