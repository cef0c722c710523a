//! Other libraries than NVML behind the same source: AMD SMI, Level Zero and DCGM, each by its test double.

use crate::bench::Bench;
use std::collections::BTreeMap;
use throughline_gpu::{End, Vendor};
use throughline_sample::catalogue::{self, Metric};
use throughline_sample::increase;
use throughline_sample::wire::Batch;

fn bench(vendor: Vendor, scenario: &str, more: &str) -> Bench {
    Bench::scenario(scenario, more).with(|config| config.vendor = vendor).with_library(vendor.library())
}

fn value(batch: &Batch, gpu: &str, link: u32, metric: &Metric) -> Option<u64> {
    let sample = batch.gpu_links.iter().find(|sample| sample.gpu_uuid == gpu)?;
    sample.links.iter().find(|values| values.link == link)?.values.as_ref()?.get(metric)
}

/// How many links lead from each GPU to each other, by their indices.
fn pairs(batch: &Batch) -> BTreeMap<(u32, u32), u32> {
    let index = |uuid: &str| batch.gpus.iter().find(|gpu| gpu.uuid == uuid).map(|gpu| gpu.index);
    let mut pairs = BTreeMap::new();
    for link in &batch.gpu_link_infos {
        if let (Some(from), Some(to)) = (index(&link.gpu_uuid), index(&link.remote_gpu_uuid)) {
            *pairs.entry((from, to)).or_default() += 1;
        }
    }
    pairs
}

/// All ordered pairs of so many GPUs, with this many links each.
fn everybody_with_everybody(gpus: u32, links: u32) -> BTreeMap<(u32, u32), u32> {
    let pairs = (0..gpus).flat_map(|from| (0..gpus).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to).map(|pair| (pair, links)).collect()
}

#[test]
fn xgmi_links_of_amd_are_exact() {
    let traffic = "traffic * * tx_step=1048576 rx_step=2097152\ntraffic 5 6 tx_step=7340032\n";
    let mut bench = bench(Vendor::AmdSmi, "mi300x", traffic).start();
    let first = bench.next_batch();
    let second = bench.next_batch();
    assert_eq!((first.gpus.len(), first.gpus[3].name.as_str()), (8, "AMD Instinct MI300X"));
    assert_eq!(first.gpus[3].pci_bus_id, "00000000:65:00.0");
    assert_eq!(pairs(&first), everybody_with_everybody(8, 1));
    assert!(first.gpu_link_infos.iter().all(|link| link.speed_bytes_per_second == Some(64_000_000_000)));
    assert!(
        second.gpu_links.iter().all(|sample| sample.source == "amd_smi")
            && second.coverage[0].source == "amd_smi"
    );
    for (at, gpu) in first.gpus.iter().enumerate() {
        for link in 0..7 {
            let grown = |metric| {
                let read = |batch| value(batch, &gpu.uuid, link, metric).unwrap();
                increase(read(&first), read(&second))
            };
            let sent = if (at, link) == (5, 6) { 7_340_032 } else { 1_048_576 };
            assert_eq!(grown(&catalogue::NVLINK_TRANSMIT_BYTES), sent, "GPU {at} link {link}");
            assert_eq!(grown(&catalogue::NVLINK_RECEIVE_BYTES), 2_097_152, "GPU {at} link {link}");
        }
    }
}

#[test]
fn what_amd_does_not_count_is_absent_and_a_link_that_is_down_says_so() {
    let mut bench = bench(Vendor::AmdSmi, "mi300x", "na 2 4 138 3\nlink 1 0 state=down\n").start();
    let batch = bench.next_batch();
    let uuid = |at: usize| batch.gpus[at].uuid.as_str();
    assert_eq!(value(&batch, uuid(2), 4, &catalogue::NVLINK_TRANSMIT_BYTES), None);
    assert_eq!(value(&batch, uuid(2), 4, &catalogue::NVLINK_RECEIVE_BYTES), Some(0));
    assert_eq!(batch.coverage[0].reasons["not_supported"], 1);
    assert_eq!(value(&batch, uuid(1), 0, &catalogue::NVLINK_UP), Some(0));
    let down = batch.gpu_link_infos.iter().find(|link| link.gpu_uuid == uuid(1) && link.link == 0).unwrap();
    assert!(!down.active && down.speed_bytes_per_second.is_none());
}

#[test]
fn xe_links_of_intel_are_exact() {
    let traffic = "traffic * * tx_step=1000 rx_step=3000\n";
    let mut bench = bench(Vendor::LevelZero, "max1550", traffic).start();
    let first = bench.next_batch();
    let second = bench.next_batch();
    assert_eq!((first.gpus.len(), first.gpus[0].name.as_str()), (4, "Intel Data Center GPU Max 1550"));
    assert!(first.gpus.iter().all(|gpu| gpu.uuid.starts_with("INTEL-") && gpu.source == "level_zero"));
    assert_eq!(pairs(&first), everybody_with_everybody(4, 2));
    for link in &first.gpu_link_infos {
        assert_eq!(link.speed_bytes_per_second, Some(26_562_000_000));
        let far = first
            .gpu_link_infos
            .iter()
            .find(|far| far.gpu_uuid == link.remote_gpu_uuid && Some(far.link) == link.remote_link);
        assert_eq!(far.unwrap().remote_link, Some(link.link), "both ends say the same");
        let grown = |metric| {
            let read = |batch| value(batch, &link.gpu_uuid, link.link, metric).unwrap();
            increase(read(&first), read(&second))
        };
        assert_eq!(grown(&catalogue::NVLINK_TRANSMIT_BYTES), 1000);
        assert_eq!(grown(&catalogue::NVLINK_RECEIVE_BYTES), 3000);
    }
}

#[test]
fn rates_of_dcgm_become_bytes() {
    let traffic = "traffic 1 3 tx_rate=1000000000 rx_rate=0\npcie 1 tx_rate=500000000 rx_rate=250000000\nna 0 2 1044 3\n";
    let mut bench = bench(Vendor::Dcgm, "hgx-h200", traffic).start();
    let first = bench.next_batch();
    assert_eq!((first.gpus.len(), first.gpu_link_infos.len()), (8, 8 * 18));
    let (idle, gpu) = (first.gpus[0].uuid.clone(), first.gpus[1].uuid.clone());
    let sent = |batch: &Batch| value(batch, &gpu, 3, &catalogue::NVLINK_TRANSMIT_BYTES).unwrap();
    let later = bench.until(|batch| sent(batch) > 50_000_000);
    assert!(later.gpu_links.iter().all(|sample| sample.source == "dcgm"));
    let time = |batch: &Batch| batch.gpu_links.iter().find(|sample| sample.gpu_uuid == gpu).unwrap().time;
    let rate = increase(sent(&first), sent(&later)) as f64 / ((time(&later) - time(&first)) as f64 / 1e9);
    // The double sets the time of a value within the call; a busy machine puts milliseconds around that.
    assert!((rate / 1e9 - 1.0).abs() < 0.25, "{rate}");
    assert_eq!(value(&later, &gpu, 3, &catalogue::NVLINK_RECEIVE_BYTES), Some(0));
    assert!(later.gpu_pcie.iter().any(|sample| sample.gpu_uuid == gpu
        && sample.values.as_ref().unwrap().get(&catalogue::PCIE_TRANSMIT_BYTES) > Some(0)));
    // A field without a value is not requested, and is absent.
    assert_eq!(value(&later, &idle, 2, &catalogue::NVLINK_TRANSMIT_BYTES), None);
    assert_eq!(value(&later, &idle, 2, &catalogue::NVLINK_RECEIVE_BYTES), Some(0));
}

#[test]
fn no_host_engine_is_a_state_with_its_remedy() {
    let bench = bench(Vendor::Dcgm, "hgx-h200", "fail connect 1\n").start();
    let status = bench.until_status(|status| status.ends.contains_key(&End::DriverUnavailable));
    assert!(status.detail.unwrap().contains("nv-hostengine"));
}

#[test]
fn libraries_that_are_missing_wrong_or_crash_are_distinguished_for_every_vendor() {
    for vendor in [Vendor::AmdSmi, Vendor::LevelZero, Vendor::Dcgm] {
        let missing =
            Bench::text("").with(|config| config.vendor = vendor).with_library("none/lib.so").start();
        missing.until_status(|status| status.ends.contains_key(&End::LibraryMissing));
        // NVML is none of these.
        let wrong = Bench::text("").with(|config| config.vendor = vendor).start();
        let status = wrong.until_status(|status| status.ends.contains_key(&End::LibraryUnusable));
        assert!(status.detail.unwrap().contains("has no function"), "{vendor:?}");
        let mut crashing =
            bench(vendor, if vendor == Vendor::LevelZero { "max1550" } else { "mi300x" }, "crash 4\n")
                .start();
        crashing.until_status(|status| status.ends.contains_key(&End::Crashed));
        crashing.stop();
        if vendor != Vendor::Dcgm {
            let refusing = bench(vendor, "max1550", "fail init 5\n").start();
            refusing.until_status(|status| status.ends.contains_key(&End::DriverUnavailable));
        }
    }
}
