//! What there is: GPUs, their links and the other ends, and which fields answer on each GPU.
//!
//! Runs in the sampler. Reads only; what it found becomes a `Survey` for the parent and a plan for polling.

use super::plan::GpuPlan;
use super::{Gpu, NVLINK_VERSION_5_0, Session};
use crate::code::Code;
use crate::field::{self, C2C_FIRST_LINK, Family, FieldValue};
use crate::frame::{GpuSurvey, LinkSurvey, PartSurvey, Survey};
use crate::poll::NOT_ANSWERED;
use crate::slowed::CAUSES;

/// More GPUs than any node has (16 in an HGX-2); a larger count is not believed.
pub const MAX_GPUS: u32 = 64;
/// More links than any GPU has (18 from Hopper on).
pub const MAX_LINKS: u32 = 36;

/// More C2C links than any GPU has (10 on Grace Hopper).
const MAX_C2C_LINKS: u32 = 16;
/// More partitions than any GPU has (7).
const MAX_PARTITIONS: u32 = 16;
/// `nvmlIntNvLinkDeviceType_t` of a CPU.
const REMOTE_CPU: u32 = 1;

/// Links whose error counters have numbers of their own in the older fields.
const NUMBERED_LINKS: u32 = 12;

/// Reads what there is and plans how to poll it.
///
/// # Errors
/// NVML's code when not even the GPUs can be counted.
pub fn survey<'l, 's>(session: &'s Session<'l>) -> Result<(Survey, Vec<GpuPlan<'l, 's>>), Code> {
    let count = session.gpu_count()?.min(MAX_GPUS);
    let mut found = Survey::default();
    let mut plans = Vec::new();
    for index in 0..count {
        let identified = session.gpu(index).and_then(|gpu| Ok((gpu, gpu.uuid()?)));
        let Ok((gpu, uuid)) = identified else {
            found.unreadable += 1;
            continue;
        };
        let described = describe(&gpu, index, uuid);
        plans.push(plan(gpu, &described));
        found.gpus.push(described);
    }
    Ok((found, plans))
}

fn describe(gpu: &Gpu<'_, '_>, index: u32, uuid: String) -> GpuSurvey {
    GpuSurvey {
        index,
        uuid,
        name: gpu.name().unwrap_or_default(),
        pci_bus_id: gpu.pci_bus_id().unwrap_or_default(),
        pcie_bytes_per_second: gpu
            .pcie_generation_and_width()
            .ok()
            .and_then(|(generation, width)| pcie_bytes_per_second(generation, width)),
        links: describe_links(gpu).into_iter().chain(describe_c2c(gpu)).collect(),
        parts: describe_parts(gpu),
    }
}

/// The C2C links to the CPU of a superchip. They count no bytes.
fn describe_c2c(gpu: &Gpu<'_, '_>) -> Vec<LinkSurvey> {
    let mut count = [request(field::C2C_COUNT, 0)];
    let count = gpu.read_fields(&mut count).ok().and_then(|()| count[0].unsigned()).unwrap_or(0);
    let count = u32::try_from(count).unwrap_or(0).min(MAX_C2C_LINKS);
    let read = |field| {
        let mut fields: Vec<_> = (0..count).map(|link| request(field, link)).collect();
        let read = gpu.read_fields(&mut fields);
        fields.into_iter().map(move |value| value.unsigned().filter(|_| read.is_ok()))
    };
    let ends = read(field::C2C_STATUS).zip(read(field::C2C_SPEED));
    let links = (0..).zip(ends).filter_map(|(link, (status, speed))| {
        let active = status? != 0;
        Some(LinkSurvey {
            link: C2C_FIRST_LINK + link,
            active,
            speed_megabytes_per_second: speed.filter(|speed| active && *speed > 0),
            remote_type: active.then_some(REMOTE_CPU),
            ..LinkSurvey::default()
        })
    });
    links.collect()
}

/// The partitions (MIG devices) of a GPU.
fn describe_parts(gpu: &Gpu<'_, '_>) -> Vec<PartSurvey> {
    let most = gpu.partitions_max().unwrap_or(0).min(MAX_PARTITIONS);
    let parts = (0..most).filter_map(|index| {
        let part = gpu.partition(index).ok()?;
        let (gpu_instance, compute_instance) = part.instances().ok()?;
        let name = part.name().unwrap_or_default();
        Some(PartSurvey { index, uuid: part.uuid().ok()?, name, gpu_instance, compute_instance })
    });
    parts.collect()
}

/// The links that are there. NVML knows no count on all generations: a link is there when its state can be read.
fn describe_links(gpu: &Gpu<'_, '_>) -> Vec<LinkSurvey> {
    let mut links = Vec::new();
    for link in 0..MAX_LINKS {
        match gpu.link_state(link) {
            Ok(state) => links.push(LinkSurvey { link, active: state != 0, ..LinkSurvey::default() }),
            // No link has this number, nor any higher one.
            Err(Code::INVALID_ARGUMENT) => break,
            Err(_) => {}
        }
    }
    // Speed and remote number are fields: one call for each of the two.
    let speeds = read_each(gpu, &links, field::LINK_SPEED);
    let remotes = read_each(gpu, &links, field::REMOTE_LINK);
    for ((link, speed), remote) in links.iter_mut().zip(speeds).zip(remotes) {
        link.version = gpu.link_version(link.link).ok();
        // A link that is down has no other end, whatever the driver still has of it.
        if link.active {
            link.speed_megabytes_per_second = speed.filter(|speed| *speed > 0);
            link.remote_link = remote.and_then(|remote| u32::try_from(remote).ok());
            link.remote_type = gpu.remote_type(link.link).ok();
            link.remote_pci_bus_id = gpu.remote_pci_bus_id(link.link).ok().filter(|id| !id.is_empty());
        }
    }
    links
}

fn read_each(gpu: &Gpu<'_, '_>, links: &[LinkSurvey], field: u32) -> Vec<Option<u64>> {
    let mut fields: Vec<_> = links.iter().map(|link| request(field, link.link)).collect();
    match gpu.read_fields(&mut fields) {
        Ok(()) => fields.iter().map(FieldValue::unsigned).collect(),
        Err(_) => vec![None; links.len()],
    }
}

/// Chooses the fields to poll: one family a call, because NVML may refuse all fields of a mixed call.
fn plan<'l, 's>(gpu: Gpu<'l, 's>, described: &GpuSurvey) -> GpuPlan<'l, 's> {
    let numbers = described.links.iter().map(|link| link.link);
    let (links, c2c): (Vec<u32>, Vec<u32>) = numbers.partition(|link| *link < C2C_FIRST_LINK);
    let c2c: Vec<u32> = c2c.into_iter().map(|link| link - C2C_FIRST_LINK).collect();
    let modern = described.links.iter().any(|link| link.version >= Some(NVLINK_VERSION_5_0));
    let counters = |of| family(&links, &field::fields_of(of).collect::<Vec<_>>());
    let (kib, bytes) = (counters(Family::Kib), counters(Family::Bytes));
    let (per_link, recoveries) = (counters(Family::Errors), counters(Family::Recoveries));
    let (byte_families, error_families) = if modern {
        (vec![bytes, kib], vec![recoveries, per_link, numbered_errors(&links)])
    } else {
        (vec![kib, bytes], vec![per_link, numbered_errors(&links), recoveries])
    };
    let states = family(&links, &[field::LINK_STATE]);
    GpuPlan {
        uuid: described.uuid.clone(),
        gpu,
        states_by_field: answers(&gpu, &states) == states.len() && !states.is_empty(),
        states,
        bytes: first_that_answers(&gpu, byte_families),
        errors: first_that_answers(&gpu, error_families),
        health: health(modern, &links, &c2c),
        slowed: Some(slowed()).filter(|fields| answers(&gpu, fields) > 0).unwrap_or_default(),
        parts: described.parts.clone(),
        pcie: [request(field::PCIE_TX_BYTES, 0), request(field::PCIE_RX_BYTES, 0)],
        pcie_bytes_per_second: described.pcie_bytes_per_second,
        ..GpuPlan::new(gpu)
    }
}

/// The families of links' health: requested where the generation has them, so that what is missing is counted.
fn health(modern: bool, links: &[u32], c2c: &[u32]) -> Vec<Vec<FieldValue>> {
    let mut families = Vec::new();
    if modern {
        let errors: Vec<u32> = field::fields_of(Family::Nvlink5Errors).collect();
        let ratios = field::fields_of(Family::Nvlink5Ratios).chain([field::EFFECTIVE_BER, field::SYMBOL_BER]);
        let ratios: Vec<u32> = ratios.collect();
        let corrections: Vec<u32> = (field::FEC_HISTORY_0..=field::FEC_HISTORY_15).collect();
        families = vec![family(links, &errors), family(links, &ratios), family(links, &corrections)];
    }
    families.extend([family(c2c, &[field::C2C_STATUS]), family(c2c, &[field::C2C_REPLAY])]);
    families.retain(|family| !family.is_empty());
    families
}

/// The times of what slows a GPU down.
fn slowed() -> Vec<FieldValue> {
    CAUSES.iter().map(|(field, _)| request(*field, 0)).collect()
}

fn request(field: u32, scope: u32) -> FieldValue {
    FieldValue { field, scope, code: NOT_ANSWERED, ..FieldValue::default() }
}

fn family(links: &[u32], fields: &[u32]) -> Vec<FieldValue> {
    links.iter().flat_map(|link| fields.iter().map(|field| request(*field, *link))).collect()
}

/// The error fields of Pascal to Ampere, which have a number per link instead of a scope.
fn numbered_errors(links: &[u32]) -> Vec<FieldValue> {
    let bases = [
        (field::REPLAY_L0, field::REPLAY_L6),
        (field::RECOVERY_L0, field::RECOVERY_L6),
        (field::CRC_FLIT_L0, field::CRC_FLIT_L6),
    ];
    let numbered = links.iter().filter(|link| **link < NUMBERED_LINKS);
    numbered
        .flat_map(|link| {
            bases.map(|(low, high)| request(if *link < 6 { low + link } else { high + link - 6 }, 0))
        })
        .collect()
}

/// How many fields of a family this GPU answers now.
fn answers(gpu: &Gpu<'_, '_>, family: &[FieldValue]) -> usize {
    let mut trial = family.to_vec();
    match gpu.read_fields(&mut trial) {
        Ok(()) => trial.iter().filter(|value| value.unsigned().is_some()).count(),
        Err(_) => 0,
    }
}

/// The first family with an answer; the first of all when none has one, so that its reasons are counted.
fn first_that_answers(gpu: &Gpu<'_, '_>, families: Vec<Vec<FieldValue>>) -> Vec<FieldValue> {
    let chosen = families.iter().position(|family| answers(gpu, family) > 0).unwrap_or(0);
    families.into_iter().nth(chosen).unwrap_or_default()
}

/// Bytes per second of a PCIe slot in one direction: the raw rate after line coding (8b/10b to generation 2,
/// 128b/130b to 5, 236 of the 256 bytes of a flit in 6).
fn pcie_bytes_per_second(generation: u32, width: u32) -> Option<u64> {
    let megabytes_per_lane = match generation {
        1 => 250,
        2 => 500,
        3 => 985,
        4 => 1_969,
        5 => 3_938,
        6 => 7_375,
        _ => return None,
    };
    (width > 0).then(|| megabytes_per_lane * u64::from(width) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_error_fields_cover_twelve_links() {
        let fields = numbered_errors(&[0, 5, 6, 11, 12]);
        let replays: Vec<u32> = fields.iter().map(|value| value.field).step_by(3).collect();
        assert_eq!(replays, [46, 51, 108, 113]);
    }

    #[test]
    fn slots_have_known_rates() {
        assert_eq!(pcie_bytes_per_second(5, 16), Some(63_008_000_000));
        assert_eq!(pcie_bytes_per_second(3, 16), Some(15_760_000_000));
        assert_eq!(pcie_bytes_per_second(9, 16), None);
        assert_eq!(pcie_bytes_per_second(4, 0), None);
    }
}
