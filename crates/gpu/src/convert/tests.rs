//! Conversion of recorded readings: values, reasons, epochs, events.

use super::*;
use crate::code::Code;
use crate::field::value_type::UNSIGNED_LONG_LONG;
use crate::frame::{FabricSurvey, PartSurvey};

const UUID: &str = "GPU-1";

fn raw(field: u32, scope: u32, bits: u64) -> RawField {
    RawField { field, scope, code: 0, value_type: UNSIGNED_LONG_LONG, bits }
}

fn refused(field: u32, scope: u32, code: Code) -> RawField {
    RawField { code: code.0, ..raw(field, scope, 0) }
}

fn link(link: u32) -> LinkSurvey {
    LinkSurvey { link, active: true, speed_megabytes_per_second: Some(25_000), ..LinkSurvey::default() }
}

fn converter() -> Converter {
    let gpu = GpuSurvey { uuid: UUID.into(), links: vec![link(0), link(1)], ..GpuSurvey::default() };
    let mut converter = Converter::default();
    assert!(converter.survey(&Survey { gpus: vec![gpu], ..Survey::default() }));
    converter
}

fn poll_at(monotonic: i64, link_fields: Vec<RawField>, pcie_fields: Vec<RawField>) -> Poll {
    let gpu = GpuPoll {
        links_monotonic_nanoseconds: monotonic,
        pcie_monotonic_nanoseconds: monotonic,
        link_fields,
        pcie_fields,
        pcie_restarts: 0,
        pcie_by_gpm: false,
        slowed_fields: Vec::new(),
    };
    Poll { gpus: vec![gpu], elapsed_nanoseconds: 1_500_000, ..Poll::default() }
}

fn utc(monotonic: i64) -> i64 {
    monotonic + 1_000_000
}

fn link_values(converted: &ConvertedPoll, link: u32) -> &wire::Values {
    let found = converted.batch.gpu_links[0].links.iter().find(|values| values.link == link);
    found.and_then(|found| found.values.as_ref()).expect("the link is listed")
}

#[test]
fn kib_become_bytes_and_nvlink_5_counts_bytes_itself() {
    let fields = vec![raw(138, 0, 3), raw(139, 0, 4), raw(202, 1, 5), raw(204, 1, 6)];
    let converted = converter().poll(&poll_at(7, fields, vec![]), &utc);
    let first = link_values(&converted, 0);
    assert_eq!(first.get(&catalogue::NVLINK_TRANSMIT_BYTES), Some(3072));
    assert_eq!(first.get(&catalogue::NVLINK_RECEIVE_BYTES), Some(4096));
    let second = link_values(&converted, 1);
    assert_eq!(second.get(&catalogue::NVLINK_TRANSMIT_BYTES), Some(5));
    assert_eq!(second.get(&catalogue::NVLINK_RECEIVE_BYTES), Some(6));
    let sample = &converted.batch.gpu_links[0];
    assert_eq!((sample.time, sample.epoch, sample.source.as_str()), (1_000_007, 1_000_007, "nvml"));
}

#[test]
fn every_error_field_finds_its_link_and_metric() {
    let place =
        |field, scope| link_metric(&raw(field, scope, 0)).map(|(link, metric, _)| (link, metric.name));
    assert_eq!(place(161, 17), Some((17, "replay_errors")));
    assert_eq!(place(215, 3), Some((3, "recovery_errors")));
    assert_eq!(place(163, 2), Some((2, "crc_errors")));
    assert_eq!(place(46, 0), Some((0, "replay_errors")));
    assert_eq!(place(51, 0), Some((5, "replay_errors")));
    assert_eq!(place(113, 0), Some((11, "replay_errors")));
    assert_eq!(place(53, 0), Some((0, "recovery_errors")));
    assert_eq!(place(114, 0), Some((6, "recovery_errors")));
    assert_eq!(place(37, 0), Some((5, "crc_errors")));
    assert_eq!(place(101, 0), Some((11, "crc_errors")));
    // A total over all links, and data CRC, are other things.
    assert_eq!((place(38, 0), place(39, 0), place(52, 0)), (None, None, None));
}

#[test]
fn what_was_not_read_is_absent_with_a_reason_and_never_zero() {
    let fields = vec![
        raw(165, 0, 1),
        raw(165, 1, 0),
        refused(138, 0, Code::NOT_SUPPORTED),
        raw(139, 0, 1),
        refused(138, 1, Code::NOT_SUPPORTED),
        RawField { value_type: 0, ..raw(161, 0, 1.5f64.to_bits()) },
    ];
    let pcie = vec![refused(197, 0, Code::NO_PERMISSION), refused(198, 0, Code(u32::MAX))];
    let converted = converter().poll(&poll_at(0, fields, pcie), &utc);
    let first = link_values(&converted, 0);
    assert_eq!(first.get(&catalogue::NVLINK_TRANSMIT_BYTES), None);
    assert_eq!(first.get(&catalogue::NVLINK_UP), Some(1));
    assert_eq!(first.get(&catalogue::NVLINK_SPEED_BYTES_PER_SECOND), Some(25_000_000_000));
    // A link that is down has a state and nothing else: also no speed.
    let second: Vec<u32> = link_values(&converted, 1).iter().map(|(metric, _)| metric).collect();
    assert_eq!(second, [catalogue::NVLINK_UP.id]);
    assert!(converted.batch.gpu_pcie.is_empty());
    let reasons = [
        ("link_inactive", 1),
        ("no_permission", 1),
        ("not_a_number", 1),
        ("not_answered", 1),
        ("not_supported", 1),
    ];
    assert_eq!(converted.absent, BTreeMap::from(reasons));
    let coverage = &converted.batch.coverage[0];
    assert_eq!((coverage.expected, coverage.read, coverage.failed), (8, 3, 5));
    assert_eq!(coverage.reasons["no_permission"], 1);
}

#[test]
fn a_counter_that_goes_backwards_begins_an_epoch_for_its_gpu_and_kind_only() {
    let mut converter = converter();
    let links = |value| vec![raw(138, 0, value), raw(138, 1, 50)];
    let pcie = || vec![raw(197, 0, 10), raw(198, 0, 10)];
    let mut epochs = |time, value| {
        let converted = converter.poll(&poll_at(time, links(value), pcie()), &utc);
        let kinds: Vec<_> = converted.batch.events.iter().map(|event| event.kind.clone()).collect();
        (converted.batch.gpu_links[0].epoch, converted.batch.gpu_pcie[0].epoch, kinds)
    };
    assert_eq!(epochs(1, 100), (utc(1), utc(1), vec![]));
    assert_eq!(epochs(2, 100), (utc(1), utc(1), vec![]));
    assert_eq!(epochs(3, 7), (utc(3), utc(1), vec!["counter.cleared".to_owned()]));
    assert_eq!(epochs(4, 8), (utc(3), utc(1), vec![]));
}

#[test]
fn a_value_that_was_absent_for_a_while_is_still_compared_with_the_last_one() {
    let mut converter = converter();
    let mut epoch = |time, field| {
        let converted = converter.poll(&poll_at(time, vec![field, raw(138, 1, 1)], vec![]), &utc);
        converted.batch.gpu_links[0].epoch
    };
    assert_eq!(epoch(1, raw(138, 0, 100)), utc(1));
    assert_eq!(epoch(2, refused(138, 0, Code::NOT_SUPPORTED)), utc(1));
    assert_eq!(epoch(3, raw(138, 0, 99)), utc(3));
}

#[test]
fn sums_of_another_sampler_or_after_a_late_reading_are_another_epoch() {
    let mut converter = converter();
    let poll = |time, restarts, value| {
        let mut poll = poll_at(time, vec![], vec![raw(197, 0, value), raw(198, 0, value)]);
        poll.gpus[0].pcie_restarts = restarts;
        poll
    };
    let epoch = |converted: ConvertedPoll| converted.batch.gpu_pcie[0].epoch;
    assert_eq!(epoch(converter.poll(&poll(1, 0, 5), &utc)), utc(1));
    assert_eq!(epoch(converter.poll(&poll(2, 1, 6), &utc)), utc(2));
    converter.new_sampler();
    assert_eq!(epoch(converter.poll(&poll(3, 1, 7), &utc)), utc(3));
    assert_eq!(epoch(converter.poll(&poll(4, 1, 8), &utc)), utc(3));
}

#[test]
fn a_change_of_state_is_an_event_and_a_first_sight_is_none() {
    let mut converter = converter();
    let mut kinds = |state| {
        let converted = converter.poll(&poll_at(1, vec![raw(165, 0, state)], vec![]), &utc);
        converted.batch.events.into_iter().map(|event| event.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(1), Vec::<String>::new());
    assert_eq!(kinds(0), ["link.down"]);
    assert_eq!(kinds(0), Vec::<String>::new());
    assert_eq!(kinds(2), ["link.up"]);
}

#[test]
fn a_gpu_that_is_lost_is_an_event_in_that_reading_and_one_when_it_returns() {
    let mut converter = converter();
    let links = |code: Code| vec![refused(165, 0, code), refused(138, 0, code), refused(138, 1, code)];
    let lost = || (links(Code::GPU_IS_LOST), vec![refused(197, 0, Code::GPU_IS_LOST)]);
    let kinds = |converted: &ConvertedPoll| {
        converted.batch.events.iter().map(|event| event.kind.clone()).collect::<Vec<_>>()
    };
    let mut poll = |time, (links, pcie)| converter.poll(&poll_at(time, links, pcie), &utc);
    assert!(kinds(&poll(1, (vec![raw(165, 0, 1), raw(138, 0, 5)], vec![]))).is_empty());
    let converted = poll(2, lost());
    assert_eq!(kinds(&converted), [GPU_LOST]);
    let event = &converted.batch.events[0];
    assert_eq!((event.gpu_uuid.as_str(), event.time), (UUID, utc(2)));
    assert!(event.text.contains("Xid") && event.severity == "error", "{}", event.text);
    assert!(converted.batch.gpu_links.is_empty() && converted.batch.gpu_pcie.is_empty());
    assert!(kinds(&poll(3, lost())).is_empty(), "once");
    // One that only refuses is not lost.
    assert_eq!(kinds(&poll(4, (links(Code::NO_PERMISSION), vec![]))), [GPU_RETURNED]);
    assert!(kinds(&poll(5, (links(Code(10)), vec![]))).is_empty());
}

/// What a converter makes of surveys that find these GPUs, and so many that give no identity: events and, of the mark, the GPUs
/// that are there, those that are lost, and how many are unidentified.
fn surveyed(surveys: &[(&[&str], u32)]) -> Vec<(Vec<String>, String)> {
    let gpu = |uuid: &&str| GpuSurvey { uuid: (*uuid).into(), links: vec![link(0)], ..GpuSurvey::default() };
    let mut converter = Converter::default();
    let mut then = |(uuids, unreadable): &(&[&str], u32)| {
        let gpus = uuids.iter().map(gpu).collect();
        converter.survey(&Survey { gpus, unreadable: *unreadable, ..Survey::default() });
        let mut poll = poll_at(1, vec![raw(138, 0, 1)], vec![]);
        poll.gpus = vec![poll.gpus[0].clone(); uuids.len()];
        let converted = converter.poll(&poll, &utc);
        let events =
            converted.batch.events.into_iter().map(|event| format!("{} {}", event.kind, event.gpu_uuid));
        let mark = converter.inventory(7).mark.unwrap();
        let here: Vec<_> = mark.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        (
            events.collect(),
            format!("{} lost {} and {}", here.join(","), mark.lost.join(","), mark.unidentified),
        )
    };
    surveys.iter().map(&mut then).collect()
}

#[test]
fn a_gpu_that_a_whole_survey_lacks_is_gone_and_no_event_of_the_agents() {
    let found = surveyed(&[(&["a", "b"], 0), (&["a"], 0), (&["c"], 0), (&["c", "b"], 0)]);
    let marks: Vec<_> = found.iter().map(|(_, mark)| mark.as_str()).collect();
    assert_eq!(marks, ["a,b lost  and 0", "a lost  and 0", "c lost  and 0", "c,b lost  and 0"]);
    assert!(found.iter().all(|(events, _)| events.is_empty()), "{found:?}");
}

#[test]
fn a_gpu_that_gives_no_identity_is_lost_and_not_gone() {
    let found =
        surveyed(&[(&["a", "b"], 0), (&["a"], 1), (&["a"], 2), (&["a", "b"], 0), (&["b"], 1), (&["b"], 0)]);
    let expected = [
        (vec![], "a,b lost  and 0"),
        (vec!["gpu.lost b".to_owned()], "a lost b and 0"),
        (vec![], "a lost b and 1"),
        (vec!["gpu.returned b".to_owned()], "a,b lost  and 0"),
        (vec!["gpu.lost a".to_owned()], "b lost a and 0"),
        // The driver lists it no more.
        (vec![], "b lost  and 0"),
    ];
    assert_eq!(found, expected.map(|(events, mark)| (events, mark.to_owned())));
}

#[test]
fn partitions_that_could_not_be_read_stay() {
    let part = |uuid: &str| PartSurvey { uuid: uuid.into(), ..PartSurvey::default() };
    let gpu = |parts: &[&str], has_unread_parts| GpuSurvey {
        uuid: UUID.into(),
        parts: parts.iter().map(|uuid| part(uuid)).collect(),
        has_unread_parts,
        ..GpuSurvey::default()
    };
    let mut converter = Converter::default();
    let mut then = |gpu| {
        converter.survey(&Survey { gpus: vec![gpu], ..Survey::default() });
        let inventory = converter.inventory(7);
        let mark = inventory.mark.unwrap();
        assert_eq!(mark.gpus.len(), inventory.gpus.len());
        (inventory.gpus.len() - 1, mark.gpus[0].has_unread_parts)
    };
    assert_eq!(then(gpu(&["m1", "m2"], false)), (2, false));
    assert_eq!(then(gpu(&["m2"], true)), (2, true));
    assert_eq!(then(gpu(&["m3"], false)), (1, false));
}

#[test]
fn the_other_end_is_resolved_to_a_gpu_of_the_node() {
    let mut first = GpuSurvey { uuid: "GPU-a".into(), pci_bus_id: "1".into(), ..GpuSurvey::default() };
    let to = |link, place: &str, kind| LinkSurvey {
        link,
        active: true,
        remote_type: Some(kind),
        remote_pci_bus_id: Some(place.to_owned()),
        ..LinkSurvey::default()
    };
    first.links = vec![to(0, "2", 0), to(1, "3", 2), to(2, "4", 9)];
    let second = GpuSurvey { uuid: "GPU-b".into(), pci_bus_id: "2".into(), index: 1, ..GpuSurvey::default() };
    let mut converter = Converter::default();
    let survey = Survey { gpus: vec![first, second], ..Survey::default() };
    assert!(converter.survey(&survey));
    assert!(!converter.survey(&survey), "the same survey is no change");
    let Inventory { gpus, links, .. } = converter.inventory(0);
    assert_eq!(gpus.iter().map(|gpu| gpu.link_count).collect::<Vec<_>>(), [3, 0]);
    let ends: Vec<_> =
        links.iter().map(|link| (link.remote_type.as_str(), link.remote_gpu_uuid.as_str())).collect();
    assert_eq!(ends, [("gpu", "GPU-b"), ("switch", ""), ("unknown", "")]);
}

/// Random growth, wraps at any width, resets and gaps: within an epoch nothing ever decreases.
#[test]
fn no_epoch_holds_a_decrease() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut converter = converter();
    let mut before: Option<(i64, u64)> = None;
    let mut value = 0_u64;
    let mut epochs = 0;
    for time in 0..20_000 {
        let bits = 8 + next() % 56;
        value = match next() % 50 {
            0 => 0,
            1 => value & ((1 << bits) - 1),
            _ => value.wrapping_add(next() >> (next() % 64)) & (u64::MAX >> 12),
        };
        let field = if next() % 10 == 0 { refused(202, 0, Code::NOT_SUPPORTED) } else { raw(202, 0, value) };
        let converted = converter.poll(&poll_at(time, vec![field, raw(165, 0, 1)], vec![]), &utc);
        let Some(sent) = link_values(&converted, 0).get(&catalogue::NVLINK_TRANSMIT_BYTES) else { continue };
        let epoch = converted.batch.gpu_links[0].epoch;
        if let Some((last_epoch, last)) = before {
            epochs += u32::from(epoch != last_epoch);
            assert!(epoch != last_epoch || sent >= last, "{last} then {sent} in one epoch");
        }
        before = Some((epoch, sent));
    }
    assert!(epochs > 100, "the sequence holds resets: {epochs}");
}

#[test]
fn a_gpu_is_in_a_domain_once_its_registration_is_completed_and_of_a_cluster() {
    let cluster: Vec<u8> = (0..16).collect();
    let of = |state, status, cluster_uuid: &[u8]| {
        let fabric = FabricSurvey { state, status, cluster_uuid: cluster_uuid.to_vec(), clique_id: 5 };
        let gpu = GpuSurvey { uuid: UUID.into(), fabric: Some(fabric), ..GpuSurvey::default() };
        let mut converter = Converter::default();
        converter.survey(&Survey { gpus: vec![gpu], ..Survey::default() });
        let info = converter.inventory(1).gpus.remove(0);
        assert!(info.is_fabric_plausible(), "{info:?}");
        (info.fabric_state.clone(), info.nvlink_domain())
    };
    let domain = "00010203-0405-0607-0809-0a0b0c0d0e0f.5".to_owned();
    assert_eq!(of(3, 0, &cluster), ("completed".into(), Some(domain)));
    assert_eq!(of(3, 0, &[0; 16]), ("completed".into(), None), "the node's own fabric");
    assert_eq!(of(3, 999, &cluster), ("failed".into(), None));
    assert_eq!(of(2, 0, &cluster), ("in_progress".into(), None));
    assert_eq!(of(1, 0, &cluster), ("not_started".into(), None));
    assert_eq!(of(9, 0, &cluster), ("unknown".into(), None));
    let info = converter().inventory(1).gpus.remove(0);
    assert_eq!((info.fabric_state.as_str(), info.nvlink_domain()), ("", None));
}
