//! The whole way from the test double of libnvidia-ml through the sampler's process to records.

use crate::bench::Bench;
use std::collections::BTreeMap;
use throughline_doubles::nvml::Traffic;
use throughline_gpu::State;
use throughline_sample::catalogue::{self, Metric};
use throughline_sample::wire::{Batch, GpuLinksSample};

/// Number of a link at one end and at the other.
type Physical = (u32, Option<u32>);

fn value(sample: &GpuLinksSample, link: u32, metric: &Metric) -> Option<u64> {
    let link = sample.links.iter().find(|values| values.link == link)?;
    link.values.as_ref()?.get(metric)
}

fn links_of<'b>(batch: &'b Batch, bench: &Bench, gpu: usize) -> &'b GpuLinksSample {
    let uuid = &bench.gpus()[gpu].uuid;
    batch.gpu_links.iter().find(|sample| sample.gpu_uuid == *uuid).unwrap()
}

#[test]
fn the_papers_node_has_its_topology() {
    let mut bench = Bench::scenario("power9-v100", "").start();
    let first = bench.next_batch();
    assert_eq!((first.gpus.len(), first.gpu_link_infos.len()), (4, 24));
    assert!(first.gpus.iter().all(|gpu| gpu.name == "Tesla V100-SXM2-16GB" && gpu.link_count == 6));
    assert_eq!(first.gpus[2].pci_bus_id, "00000035:03:00.0");
    let mut ends: BTreeMap<(u32, String), Vec<Physical>> = BTreeMap::new();
    for link in &first.gpu_link_infos {
        assert_eq!(link.speed_bytes_per_second, Some(25_781_000_000));
        assert!(link.active && link.version == Some(2));
        let from = first.gpus.iter().find(|gpu| gpu.uuid == link.gpu_uuid).unwrap().index;
        let peer = first.gpus.iter().find(|gpu| gpu.uuid == link.remote_gpu_uuid);
        let to = match (link.remote_type.as_str(), peer) {
            ("gpu", Some(peer)) => format!("gpu {}", peer.index),
            (kind, _) => format!("{kind} {}", link.remote_pci_bus_id),
        };
        ends.entry((from, to)).or_default().push((link.link, link.remote_link));
    }
    let links = |first: u32, remote: u32| -> Vec<Physical> {
        (0..3).map(|at| (first + at, Some(remote + at))).collect()
    };
    let (socket_0, socket_1) = ("cpu 00000006:00:00.0", "cpu 00000007:00:00.0");
    let expected = [
        ((0, socket_0.to_owned()), links(0, 0)),
        ((0, "gpu 1".to_owned()), links(3, 3)),
        ((1, socket_0.to_owned()), links(0, 3)),
        ((1, "gpu 0".to_owned()), links(3, 3)),
        ((2, socket_1.to_owned()), links(0, 0)),
        ((2, "gpu 3".to_owned()), links(3, 3)),
        ((3, socket_1.to_owned()), links(0, 3)),
        ((3, "gpu 2".to_owned()), links(3, 3)),
    ];
    assert_eq!(ends, BTreeMap::from(expected));
    assert_eq!(bench.status().driver_version.as_deref(), Some("440.33.01"));
}

#[test]
fn utilisation_is_exact_on_every_link_of_a_hgx_node() {
    let steps = "traffic * * tx_step=1048576 rx_step=3145728\ntraffic 3 17 tx_step=5242880\n";
    let mut bench = Bench::scenario("hgx-h200", steps).start();
    let before = bench.next_batch();
    let after = bench.next_batch();
    assert_eq!((before.gpu_links.len(), after.gpu_links.len()), (8, 8));
    assert!(before.gpu_link_infos.iter().all(|link| link.remote_type == "switch" && link.version == Some(6)));
    assert!(after.gpus.is_empty() && after.gpu_link_infos.is_empty(), "what is there is reported once");
    for gpu in 0..8 {
        let (old, new) = (links_of(&before, &bench, gpu), links_of(&after, &bench, gpu));
        assert_eq!((old.epoch, new.links.len()), (new.epoch, 18));
        assert!(new.time > old.time);
        for link in 0..18 {
            let grown = |metric| value(new, link, metric).unwrap() - value(old, link, metric).unwrap();
            let sent = if (gpu, link) == (3, 17) { 5_242_880 } else { 1_048_576 };
            assert_eq!(grown(&catalogue::NVLINK_TRANSMIT_BYTES), sent);
            assert_eq!(grown(&catalogue::NVLINK_RECEIVE_BYTES), 3_145_728);
            let speed = value(new, link, &catalogue::NVLINK_SPEED_BYTES_PER_SECOND);
            assert_eq!(speed, Some(26_562_000_000));
            assert_eq!(value(new, link, &catalogue::NVLINK_UP), Some(1));
            assert_eq!(value(new, link, &catalogue::NVLINK_REPLAY_ERRORS), Some(0));
        }
    }
    let coverage = &after.coverage[0];
    assert_eq!((coverage.expected, coverage.read, coverage.failed), (8 * (18 * 6 + 2), 8 * (18 * 6 + 2), 0));
    assert!(bench.status().absent.is_empty());
}

#[test]
fn nvlink_5_is_read_in_bytes_from_fields_of_its_own() {
    let traffic = "traffic 0 4 tx=1000001 rx=7 recovery=3\n";
    let mut bench = Bench::scenario("b200-nvlink5", traffic).start();
    let batch = bench.next_batch();
    let sample = links_of(&batch, &bench, 0);
    assert_eq!(value(sample, 4, &catalogue::NVLINK_TRANSMIT_BYTES), Some(1_000_001));
    assert_eq!(value(sample, 4, &catalogue::NVLINK_RECEIVE_BYTES), Some(7));
    assert_eq!(value(sample, 4, &catalogue::NVLINK_RECOVERY_ERRORS), Some(3));
    assert_eq!(value(sample, 4, &catalogue::NVLINK_REPLAY_ERRORS), None);
}

#[test]
fn errors_with_a_number_per_link_are_read_on_older_gpus() {
    let traffic = "traffic 2 5 replay=11 recovery=12 crc=13\n";
    let mut bench = Bench::scenario("power9-v100", traffic).start();
    let batch = bench.next_batch();
    let sample = links_of(&batch, &bench, 2);
    let read = |link| {
        let metrics = [
            &catalogue::NVLINK_REPLAY_ERRORS,
            &catalogue::NVLINK_RECOVERY_ERRORS,
            &catalogue::NVLINK_CRC_ERRORS,
        ];
        metrics.map(|metric| value(sample, link, metric))
    };
    assert_eq!(read(5), [Some(11), Some(12), Some(13)]);
    assert_eq!(read(4), [Some(0); 3]);
}

#[test]
fn a_node_without_nvlink_has_pcie_and_a_32_bit_counter_is_unfolded() {
    // A slow slot, which leaves a reading on a busy machine 17 s before it is too late to unfold.
    let pcie = "gpu 0-3 pcie=1x1\npcie 0-3 tx=4294965000 rx=0 tx_step=1000 rx_step=1\n";
    let mut bench = Bench::scenario("pcie-only", pcie).start();
    let batches: Vec<Batch> = (0..3).map(|_| bench.next_batch()).collect();
    assert!(batches.iter().all(|batch| batch.gpu_links.is_empty() && batch.gpu_pcie.len() == 4));
    let read = |batch: &Batch, metric| batch.gpu_pcie[1].values.as_ref().unwrap().get(metric).unwrap();
    for pair in batches.windows(2) {
        let [old, new] = pair else { unreachable!() };
        let received = read(new, &catalogue::PCIE_RECEIVE_BYTES) - read(old, &catalogue::PCIE_RECEIVE_BYTES);
        let sent = read(new, &catalogue::PCIE_TRANSMIT_BYTES) - read(old, &catalogue::PCIE_TRANSMIT_BYTES);
        // Between two ticks it may be read more often; each reading adds one step.
        assert!(received > 0);
        assert_eq!(sent, received * 1000);
        assert_eq!(old.gpu_pcie[1].epoch, new.gpu_pcie[1].epoch);
    }
    assert!(read(&batches[2], &catalogue::PCIE_TRANSMIT_BYTES) > 1 << 32, "the counter has wrapped");
    assert!(bench.status().absent.is_empty());
}

#[test]
fn a_32_bit_counter_that_may_not_be_read_often_is_absent_with_its_reason() {
    let mut bench = Bench::scenario("pcie-only", "").with(|config| config.unfold_pcie = false).start();
    let batch = bench.next_batch();
    assert!(batch.gpu_pcie.is_empty());
    assert_eq!(batch.coverage[0].reasons["pcie_counter_too_narrow"], 8);
}

#[test]
fn each_fault_ends_in_its_reason_and_costs_no_other_gpu_a_value() {
    let mut bench = Bench::scenario("faults", "").start();
    let first = bench.next_batch();
    let well = links_of(&first, &bench, 0);
    assert!((0..4).all(|link| value(well, link, &catalogue::NVLINK_TRANSMIT_BYTES).is_some()));
    // GPU 1: one counter and all errors are not there.
    let second = links_of(&first, &bench, 1);
    let sent: Vec<bool> =
        (0..4).map(|link| value(second, link, &catalogue::NVLINK_TRANSMIT_BYTES).is_some()).collect();
    assert_eq!(sent, [true, true, false, true]);
    assert!((0..4).all(|link| value(second, link, &catalogue::NVLINK_CRC_ERRORS).is_none()));
    assert!((0..4).all(|link| value(second, link, &catalogue::NVLINK_RECEIVE_BYTES).is_some()));
    // GPU 2: a link that is down has its state only.
    let third = links_of(&first, &bench, 2);
    assert_eq!(value(third, 1, &catalogue::NVLINK_UP), Some(0));
    assert_eq!(value(third, 1, &catalogue::NVLINK_TRANSMIT_BYTES), None);
    assert_eq!(value(third, 1, &catalogue::NVLINK_SPEED_BYTES_PER_SECOND), None);
    // GPU 3 is lost: neither listed nor zero. Of the GPUs read, the fourth is GPU 4, the fifth GPU 5.
    assert_eq!((first.gpus.len(), bench.status().unreadable_gpus), (5, 1));
    assert!(first.gpus.iter().all(|gpu| gpu.index != 3));
    // GPU 5: no PCIe for this user, for the others yes.
    assert_eq!(first.gpu_pcie.len(), 4);
    let reasons = &first.coverage[0].reasons;
    let expected = [("not_supported", 1 + 12), ("link_inactive", 5), ("no_permission", 2)];
    assert_eq!(
        *reasons,
        expected
            .map(|(reason, count)| (reason.to_owned(), count))
            .into_iter()
            .collect::<std::collections::HashMap<_, _>>()
    );
}

#[test]
fn with_ecc_off_errors_are_absent_and_bytes_stay_exact() {
    let traffic = "traffic * * tx_step=1048576 rx_step=2097152 replay=5 recovery=6 crc=7\n";
    let mut bench = Bench::scenario("ecc-off", traffic).start();
    let (before, after) = (bench.next_batch(), bench.next_batch());
    let errors =
        [&catalogue::NVLINK_REPLAY_ERRORS, &catalogue::NVLINK_RECOVERY_ERRORS, &catalogue::NVLINK_CRC_ERRORS];
    for gpu in 0..4 {
        let (old, new) = (links_of(&before, &bench, gpu), links_of(&after, &bench, gpu));
        for link in 0..12 {
            let grown = |metric| value(new, link, metric).unwrap() - value(old, link, metric).unwrap();
            assert_eq!(grown(&catalogue::NVLINK_TRANSMIT_BYTES), 1_048_576, "GPU {gpu} link {link}");
            assert_eq!(grown(&catalogue::NVLINK_RECEIVE_BYTES), 2_097_152, "GPU {gpu} link {link}");
            let expected = if gpu < 2 { [5, 6, 7].map(Some) } else { [None; 3] };
            assert_eq!(errors.map(|metric| value(new, link, metric)), expected, "GPU {gpu} link {link}");
        }
    }
    assert_eq!(after.coverage[0].reasons, [("not_supported".to_owned(), 2 * 12 * 3)].into());
    assert_eq!(bench.status().state, State::Running);
}

#[test]
fn each_code_of_a_field_is_a_reason_of_its_own() {
    let codes = [(3, "not_supported"), (4, "no_permission"), (15, "gpu_is_lost"), (999, "unknown")];
    let lines: String =
        codes.iter().zip(0..).map(|((code, _), link)| format!("na 0 {link} 138 {code}\n")).collect();
    let mut bench = Bench::scenario("hgx-h200", &lines).start();
    let batch = bench.next_batch();
    let sample = links_of(&batch, &bench, 0);
    for link in 0..18 {
        let sent = value(sample, link, &catalogue::NVLINK_TRANSMIT_BYTES);
        assert_eq!(sent, (link >= 4).then_some(0), "link {link}: absent is not 0");
        assert_eq!(value(sample, link, &catalogue::NVLINK_RECEIVE_BYTES), Some(0));
    }
    assert_eq!(batch.coverage[0].reasons, codes.map(|(_, reason)| (reason.to_owned(), 1)).into());
    let counted = bench.status().absent;
    assert!(codes.iter().all(|(_, reason)| counted[reason] > 0), "{counted:?}");
}

#[test]
fn a_link_that_goes_down_is_an_event_and_a_new_inventory() {
    let mut bench = Bench::scenario("faults", "").start();
    let down = bench.until(|batch| batch.events.iter().any(|event| event.kind == "link.down"));
    let event = down.events.iter().find(|event| event.kind == "link.down").unwrap();
    assert_eq!(event.gpu_uuid, bench.gpus()[2].uuid);
    assert!(event.text.contains("NVLink 3 of GPU 2"), "{}", event.text);
    let reported = bench.until(|batch| !batch.gpu_link_infos.is_empty());
    let uuid = bench.gpus()[2].uuid.clone();
    let link = reported.gpu_link_infos.iter().find(|link| link.gpu_uuid == uuid && link.link == 3).unwrap();
    assert!(!link.active && link.speed_bytes_per_second.is_none() && link.remote_type == "unknown");
}

#[test]
fn a_gpu_that_is_lost_is_an_event_in_the_first_reading_without_it_and_one_when_it_returns() {
    let whole = Bench::scenario("hgx-h200", "");
    let text = std::fs::read_to_string(whole.scenario_path()).unwrap();
    let mut bench = whole.start();
    bench.next_batch();
    let uuid = bench.gpus()[3].uuid.clone();
    let has = |batch: &Batch| batch.gpu_links.iter().any(|gpu| gpu.gpu_uuid == uuid);
    bench.rewrite(&format!("{text}\nlost 3\n"));
    let first = bench.until(|batch| !batch.coverage.is_empty() && !has(batch));
    let events = |batch: &Batch| {
        batch.events.iter().map(|event| (event.kind.clone(), event.gpu_uuid.clone())).collect::<Vec<_>>()
    };
    assert_eq!(events(&first), [("gpu.lost".to_owned(), uuid.clone())]);
    assert!(first.gpu_pcie.iter().all(|gpu| gpu.gpu_uuid != uuid));
    // With it comes what is there now.
    assert_eq!(first.gpus.len(), 7);
    assert!(first.gpus.iter().all(|gpu| gpu.uuid != uuid));
    assert!(first.gpu_link_infos.iter().all(|link| link.gpu_uuid != uuid));
    assert_eq!(first.gpu_links.len(), 7, "the others are read on");
    // The survey finds the same: no second event.
    let mut more = Vec::new();
    for _ in 0..5 {
        more.extend(events(&bench.next_batch()));
    }
    assert!(more.is_empty(), "{more:?}");
    bench.rewrite(&text);
    let back = bench.until(has);
    assert_eq!(events(&back), [("gpu.returned".to_owned(), uuid.clone())]);
    assert_eq!(back.gpus.len(), 8);
}

#[test]
fn an_xid_is_an_event_of_the_next_reading_once() {
    let whole = Bench::scenario("hgx-h200", "");
    let text = std::fs::read_to_string(whole.scenario_path()).unwrap();
    let mut bench = whole.start();
    bench.next_batch();
    let uuid = bench.gpus()[5].uuid.clone();
    bench.rewrite(&format!("{text}\nxid 5 94\n"));
    let found = bench.until(|batch| !batch.events.is_empty());
    let event = &found.events[0];
    assert_eq!(
        (event.kind.as_str(), event.gpu_uuid.as_str(), found.events.len()),
        ("gpu.xid", uuid.as_str(), 1)
    );
    assert!(event.text.contains("Xid 94: a contained memory error"), "{}", event.text);
    assert_eq!(found.gpu_links.len(), 8, "it is read on");
    bench.rewrite(&format!("{text}\nxid 5 94\nxid 2 9999\n"));
    let next = bench.until(|batch| !batch.events.is_empty());
    assert_eq!((next.events.len(), next.events[0].gpu_uuid.clone()), (1, bench.gpus()[2].uuid.clone()));
    assert!(next.events[0].text.contains("Xid 9999: not in the catalogue"), "{}", next.events[0].text);
}

#[test]
fn the_only_gpu_of_a_node_is_lost_with_an_event() {
    let text =
        "gpu 0 uuid=GPU-only pci=0:1:0.0 pcie_bits=64\nlink 0 0-3 version=5 speed_mbps=25000 state=up\n";
    let mut bench = Bench::text(text).start();
    bench.next_batch();
    bench.rewrite(&format!("{text}lost 0\n"));
    let lost = bench.until(|batch| !batch.events.is_empty());
    let kinds: Vec<_> = lost.events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["gpu.lost"]);
    assert!(lost.gpu_links.is_empty() && lost.gpus.is_empty());
    bench.rewrite(text);
    let back = bench.until(|batch| !batch.gpu_links.is_empty());
    assert!(back.events.iter().any(|event| event.kind == "gpu.returned"), "{:?}", back.events);
    assert_eq!(back.gpus.len(), 1);
}

#[test]
fn a_counter_that_wraps_begins_an_epoch() {
    let mut bench = Bench::scenario("faults", "").start();
    // The survey's own readings may already have crossed the wrap; counting goes on to the next one.
    let read = |batch: &Batch, bench: &Bench| {
        let sample = links_of(batch, bench, 3);
        (sample.epoch, value(sample, 0, &catalogue::NVLINK_TRANSMIT_BYTES).unwrap())
    };
    let mut last = bench.next_batch();
    for _ in 0..6 {
        let next = bench.next_batch();
        let ((old_epoch, old), (new_epoch, new)) = (read(&last, &bench), read(&next, &bench));
        assert!(new < 4096 * 1024);
        assert!(new >= old || new_epoch > old_epoch, "{old} then {new} in one epoch");
        last = next;
    }
}

#[test]
fn traffic_can_be_driven_while_it_runs() {
    let mut bench = Bench::scenario("power9-v100", "").start();
    let sent = |batch: &Batch, bench: &Bench, link| {
        value(links_of(batch, bench, 0), link, &catalogue::NVLINK_TRANSMIT_BYTES).unwrap()
    };
    let still = bench.next_batch();
    assert_eq!(sent(&still, &bench, 3), 0);
    let rate =
        Traffic { gpu: 0, link: Some(3), transmit_bytes_per_second: 20 << 30, receive_bytes_per_second: 0 };
    bench.drive(&[rate]);
    let uuid = bench.gpus()[0].uuid.clone();
    let moving = bench.until(|batch| {
        let sample = batch.gpu_links.iter().find(|sample| sample.gpu_uuid == uuid);
        sample.and_then(|sample| value(sample, 3, &catalogue::NVLINK_TRANSMIT_BYTES)) > Some(0)
    });
    assert_eq!(sent(&moving, &bench, 4), 0, "only the link that is driven moves");
    // Standing still again, the counter keeps what it counted.
    bench.drive(&[]);
    let mut last = sent(&moving, &bench, 3);
    for _ in 0..100 {
        let now = sent(&bench.next_batch(), &bench, 3);
        if now == last {
            return;
        }
        assert!(now > last);
        last = now;
    }
    panic!("the counter does not stand still");
}

#[test]
fn an_old_driver_without_names_and_remote_ends_still_counts() {
    let mut bench = Bench::scenario("hgx-h200", "").with_library("old/libnvidia-ml.so.1").start();
    let batch = bench.next_batch();
    assert_eq!(batch.gpu_links.len(), 8);
    assert!(batch.gpu_link_infos.iter().all(|link| link.remote_type == "unknown" && link.version.is_none()));
    assert!(batch.gpus.iter().all(|gpu| gpu.name.is_empty() && gpu.pci_bus_id.is_empty()));
    assert_eq!(bench.status().state, State::Running);
}

#[test]
fn a_gpu_that_heat_slows_down_is_an_event() {
    let mut bench = Bench::scenario("hgx-h200", "field 3 0 75 1000000\nfield 3 0 77 0\n").start();
    bench.next_batch();
    let scenario = std::fs::read_to_string(bench.scenario_path()).unwrap();
    bench.rewrite(&scenario.replace("75 1000000", "75 2501000000"));
    let slowed = bench.until(|batch| !batch.events.is_empty());
    let event = &slowed.events[0];
    assert_eq!((&*event.kind, &*event.severity), ("gpu.slowed", "warning"));
    assert_eq!(event.gpu_uuid, bench.gpus()[3].uuid);
    assert!(event.text.contains("slowed down by heat: 2.50 of"), "{}", event.text);
    assert!(slowed.coverage[0].reasons.is_empty(), "the fields are read where they answer: {slowed:?}");
}
