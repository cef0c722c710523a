//! What there is: GPUs, their links and the other ends, and which fields answer on each GPU.
//!
//! Runs in the sampler. Reads only; what it found becomes a `Survey` for the parent and a plan for polling.

use super::plan::GpuPlan;
use super::refusals::{Refusals, chosen, where_any_answers};
use super::{Gpu, NVLINK_VERSION_5_0, Session, fabric};
use crate::code::Code;
use crate::field::{self, C2C_FIRST_LINK, Family, FieldValue};
use crate::frame::{GpuSurvey, LinkSurvey, PartSurvey, Refusal, Survey};
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
/// The call for a link's state.
const LINK_STATE: &str = "nvmlDeviceGetNvLinkState";
/// `nvmlIntNvLinkDeviceType_t` of a CPU.
const REMOTE_CPU: u32 = 1;

/// Links whose error counters have numbers of their own in the older fields.
const NUMBERED_LINKS: u32 = 12;

/// Reads what there is and plans how to poll it. Where the driver refuses a call for a reason that leaves it open what there
/// is, what the survey before had of that GPU stays.
///
/// # Errors
/// NVML's code when not even the GPUs can be counted.
pub fn survey<'l, 's>(
    session: &'s Session<'l>,
    last: &Survey,
    plans_before: &[GpuPlan<'l, 's>],
) -> Result<(Survey, Vec<GpuPlan<'l, 's>>), Code> {
    let count = session.gpu_count()?.min(MAX_GPUS);
    let mut found = Survey::default();
    let mut read = Vec::new();
    for index in 0..count {
        let mut refusals = Refusals::new(index, None);
        let handle = session.gpu(index).map_err(|code| ("nvmlDeviceGetHandleByIndex_v2", code));
        let identified =
            handle.and_then(|gpu| Ok((gpu, gpu.uuid().map_err(|code| ("nvmlDeviceGetUUID", code))?)));
        let is_known = |uuid: &String| read.iter().any(|(known, _): &(GpuSurvey, _)| known.uuid == *uuid);
        let identified = match identified {
            Ok((_, uuid)) if is_known(&uuid) => Err(("nvmlDeviceGetUUID", Code::DUPLICATE_UUID)),
            identified => identified,
        };
        match identified {
            Ok((gpu, uuid)) => {
                let before = plans_before.iter().find(|known| known.uuid == uuid);
                refusals.before = last.gpus.iter().find(|known| known.uuid == uuid);
                let described = describe(&gpu, index, uuid, &mut refusals);
                let plan = plan(gpu, &described, before);
                read.push((described, plan));
            }
            Err((call, code)) => refusals.note(call, code, 0),
        }
        found.refusals.extend(refusals.into_list());
    }
    let kept = kept(&found.refusals, last, plans_before, &read);
    let known = u32::try_from(read.len() + kept.len()).unwrap_or(count) + duplicates(&found.refusals);
    found.unreadable = count.saturating_sub(known);
    read.extend(kept);
    read.sort_by_key(|(described, _)| described.index);
    let (gpus, plans) = read.into_iter().unzip();
    found.gpus = gpus;
    Ok((found, plans))
}

/// GPUs that the driver refuses to hand out for a reason which leaves it open whether they are there: read on by the handles
/// of before. A GPU that is lost, or was moved to another index, is none of them.
fn kept<'l, 's>(
    refusals: &[Refusal],
    last: &Survey,
    plans_before: &[GpuPlan<'l, 's>],
    read: &[(GpuSurvey, GpuPlan<'l, 's>)],
) -> Vec<(GpuSurvey, GpuPlan<'l, 's>)> {
    const GONE: [Code; 4] =
        [Code::GPU_IS_LOST, Code::GPU_NOT_FOUND, Code::INVALID_ARGUMENT, Code::DUPLICATE_UUID];
    let is_open = |one: &&Refusal| is_of_identity(one) && !GONE.contains(&Code(one.code));
    let known = refusals.iter().filter(is_open).filter_map(|one| {
        let described = last.gpus.iter().find(|known| known.index == one.index)?;
        let before = plans_before.iter().find(|known| known.uuid == described.uuid)?;
        let is_elsewhere = read.iter().any(|(found, _)| found.uuid == described.uuid);
        (!is_elsewhere).then(|| (described.clone(), plan(before.gpu, described, Some(before))))
    });
    known.collect()
}

/// GPUs that report another's UUID. None of them is missing.
pub(super) fn duplicates(refusals: &[Refusal]) -> u32 {
    refusals.iter().map(|one| u32::from(Code(one.code) == Code::DUPLICATE_UUID)).sum()
}

/// Whether a refusal leaves a GPU without a handle or UUID.
fn is_of_identity(refusal: &Refusal) -> bool {
    ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"].contains(&refusal.call.as_str())
}

fn describe(gpu: &Gpu<'_, '_>, index: u32, uuid: String, refusals: &mut Refusals<'_>) -> GpuSurvey {
    let name = refusals.or_before("nvmlDeviceGetName", gpu.name(), |known| Some(known.name.clone()));
    let place = refusals
        .or_before("nvmlDeviceGetPciInfo_v3", gpu.pci_bus_id(), |known| Some(known.pci_bus_id.clone()));
    let slot =
        gpu.pcie_generation_and_width().map(|(generation, width)| pcie_bytes_per_second(generation, width));
    let slot = refusals.or_before("nvmlDeviceGetMaxPcieLinkGeneration or …Width", slot, |known| {
        Some(known.pcie_bytes_per_second)
    });
    let links = describe_links(gpu, refusals);
    let (parts, has_unread_parts) = describe_parts(gpu, refusals);
    let fabric = refusals.or_before(fabric::CALL, gpu.fabric(), |known| known.fabric.clone());
    GpuSurvey {
        index,
        uuid,
        name: name.unwrap_or_default(),
        pci_bus_id: place.unwrap_or_default(),
        pcie_bytes_per_second: slot.flatten(),
        links: links.into_iter().chain(describe_c2c(gpu, refusals)).collect(),
        parts,
        has_unread_parts,
        fabric,
        gpm: None,
        xids: None,
    }
}

/// The C2C links to the CPU of a superchip. They count no bytes.
fn describe_c2c(gpu: &Gpu<'_, '_>, refusals: &mut Refusals<'_>) -> Vec<LinkSurvey> {
    const CALL: &str = "nvmlDeviceGetFieldValues";
    let mut count = [request(field::C2C_COUNT, 0)];
    if let Err(code) = gpu.read_fields(&mut count) {
        let known = refusals.or_before(CALL, Err(code), |known| {
            Some(known.links.iter().filter(|link| link.link >= C2C_FIRST_LINK).cloned().collect())
        });
        return known.unwrap_or_default();
    }
    let count = count[0].unsigned().unwrap_or(0);
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

/// The partitions (MIG devices) of a GPU, and whether there may be more that could not be read.
fn describe_parts(gpu: &Gpu<'_, '_>, refusals: &mut Refusals<'_>) -> (Vec<PartSurvey>, bool) {
    let most = match gpu.partitions_max() {
        Ok(most) => most.min(MAX_PARTITIONS),
        Err(code) => {
            let call = "nvmlDeviceGetMigMode or …MaxMigDeviceCount";
            let known = refusals.or_before(call, Err(code), |known| Some(known.parts.clone()));
            return (known.unwrap_or_default(), !code.is_absence());
        }
    };
    let (mut parts, mut has_unread) = (Vec::new(), false);
    for index in 0..most {
        let of_index = |known: &GpuSurvey| known.parts.iter().find(|part| part.index == index).cloned();
        // No partition has this index, nor any higher one.
        let answer = describe_part(gpu, index, refusals)
            .map_err(|code| if code == Code::INVALID_ARGUMENT { Code::NOT_FOUND } else { code });
        has_unread |= answer.as_ref().is_err_and(|code| !code.is_absence());
        parts.extend(refusals.or_before("nvmlDeviceGetMigDeviceHandleByIndex", answer, of_index));
    }
    (parts, has_unread)
}

fn describe_part(gpu: &Gpu<'_, '_>, index: u32, refusals: &mut Refusals<'_>) -> Result<PartSurvey, Code> {
    let part = gpu.partition(index)?;
    let (gpu_instance, compute_instance) = part.instances()?;
    let uuid = part.uuid()?;
    let of_index =
        |known: &GpuSurvey| Some(known.parts.iter().find(|part| part.index == index)?.name.clone());
    let name = refusals.or_before("nvmlDeviceGetName", part.name(), of_index).unwrap_or_default();
    Ok(PartSurvey { index, uuid, name, gpu_instance, compute_instance })
}

/// The links that are there. NVML knows no count on all generations: a link is there when its state can be read. Only "not
/// supported" and "invalid argument" mean that there is none.
fn describe_links(gpu: &Gpu<'_, '_>, refusals: &mut Refusals<'_>) -> Vec<LinkSurvey> {
    let mut links = Vec::new();
    let mut refused = Vec::new();
    for link in 0..MAX_LINKS {
        match gpu.link_state(link) {
            Ok(state) => links.push(LinkSurvey { link, active: state != 0, ..LinkSurvey::default() }),
            // No link has this number, nor any higher one.
            Err(Code::INVALID_ARGUMENT) => break,
            Err(Code::NOT_SUPPORTED) => {}
            Err(code) => refused.push((link, code)),
        }
    }
    links.extend(of_refused(gpu, &refused, refusals));
    links.sort_by_key(|link| link.link);
    // Speed and remote number are fields: one call for each of the two.
    let speeds = read_each(gpu, &links, field::LINK_SPEED);
    let remotes = read_each(gpu, &links, field::REMOTE_LINK);
    for ((link, speed), remote) in links.iter_mut().zip(speeds).zip(remotes) {
        let number = link.link;
        let version = gpu.link_version(number);
        link.version =
            refusals.of_link_or_before("nvmlDeviceGetNvLinkVersion", number, version, |known| known.version);
        // A link that is down has no other end, whatever the driver still has of it.
        if !link.active {
            continue;
        }
        let field = "nvmlDeviceGetFieldValues";
        let speed =
            refusals.of_field_or_before(field, number, speed, |known| known.speed_megabytes_per_second);
        link.speed_megabytes_per_second = speed.filter(|speed| *speed > 0);
        let far =
            refusals.of_field_or_before(field, number, remote, |known| known.remote_link.map(u64::from));
        link.remote_link = far.and_then(|far| u32::try_from(far).ok());
        let call = "nvmlDeviceGetNvLinkRemoteDeviceType";
        let kind = gpu.remote_type(number);
        link.remote_type = refusals.of_link_or_before(call, number, kind, |known| known.remote_type);
        let call = "nvmlDeviceGetNvLinkRemotePciInfo_v2";
        let place = gpu.remote_pci_bus_id(number);
        let place = refusals.of_link_or_before(call, number, place, |known| known.remote_pci_bus_id.clone());
        link.remote_pci_bus_id = place.filter(|id| !id.is_empty());
    }
    links
}

/// What is known of links whose state the driver refuses: by the field of that name, which is another call, or by the survey before.
fn of_refused(gpu: &Gpu<'_, '_>, refused: &[(u32, Code)], refusals: &mut Refusals<'_>) -> Vec<LinkSurvey> {
    let requested: Vec<_> =
        refused.iter().map(|(link, _)| LinkSurvey { link: *link, ..LinkSurvey::default() }).collect();
    let states = read_each(gpu, &requested, field::LINK_STATE);
    let (mut links, mut open) = (Vec::new(), None);
    for ((link, code), state) in refused.iter().zip(states) {
        let known = refusals.before.and_then(|known| known.links.iter().find(|one| one.link == *link));
        match (state, known) {
            (Ok(state), _) => {
                links.push(LinkSurvey { link: *link, active: state != 0, ..LinkSurvey::default() })
            }
            (Err(_), Some(known)) => {
                links.push(known.clone());
                refusals.note(LINK_STATE, *code, 1);
            }
            (Err(_), None) => open = open.or(Some(*code)),
        }
    }
    // Nobody knows how many links these are: they are reported once.
    if let (Some(code), true) = (open, links.is_empty()) {
        refusals.note(LINK_STATE, code, 1);
    }
    links
}

/// One field of each link, each with the code of its own or of the call.
fn read_each(gpu: &Gpu<'_, '_>, links: &[LinkSurvey], field: u32) -> Vec<Result<u64, Code>> {
    let mut fields: Vec<_> = links.iter().map(|link| request(field, link.link)).collect();
    let read = gpu.read_fields(&mut fields);
    let one = |value: &FieldValue| {
        read?;
        match Code(value.code) {
            Code::SUCCESS => value.unsigned().ok_or(Code::NOT_SUPPORTED),
            // A field that the library does not know is left alone; there is no such link.
            Code(NOT_ANSWERED) | Code::INVALID_ARGUMENT => Err(Code::NOT_SUPPORTED),
            code => Err(code),
        }
    };
    fields.iter().map(one).collect()
}

/// Chooses the fields to poll: one family a call, because NVML may refuse all fields of a mixed call.
fn plan<'l, 's>(
    gpu: Gpu<'l, 's>,
    described: &GpuSurvey,
    before: Option<&GpuPlan<'l, 's>>,
) -> GpuPlan<'l, 's> {
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
    let any = |family: &[FieldValue]| answers(&gpu, family) > 0;
    GpuPlan {
        uuid: described.uuid.clone(),
        gpu,
        states_by_field: answers(&gpu, &states) == states.len() && !states.is_empty(),
        states,
        bytes: chosen(byte_families, any, before.map(|plan| &plan.bytes)),
        errors: chosen(error_families, any, before.map(|plan| &plan.errors)),
        health: health(modern, &links, &c2c),
        slowed: where_any_answers(slowed(), any, before.map(|plan| &plan.slowed)),
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
