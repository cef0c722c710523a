//! Each scenario's topology and utilisation, from the test double through the sampler's process to records.

use crate::bench::Bench;
use std::collections::BTreeMap;
use std::fmt::Write;
use throughline_gpu::field::C2C_FIRST_LINK;
use throughline_sample::catalogue::{self, Metric};
use throughline_sample::increase;
use throughline_sample::wire::{Batch, GpuLinkInfo};

/// Physical links between pairs of GPUs of a DGX-1 with V100 (NVIDIA's `nvidia-smi topo -m`).
const DGX1: [[usize; 8]; 8] = [
    [0, 1, 1, 2, 2, 0, 0, 0],
    [1, 0, 2, 1, 0, 2, 0, 0],
    [1, 2, 0, 2, 0, 0, 1, 0],
    [2, 1, 2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 1, 1, 2],
    [0, 2, 0, 0, 1, 0, 2, 1],
    [0, 0, 1, 0, 1, 2, 0, 2],
    [0, 0, 0, 1, 2, 1, 2, 0],
];

fn index_of(batch: &Batch, uuid: &str) -> Option<usize> {
    batch.gpus.iter().find(|gpu| gpu.uuid == uuid).map(|gpu| gpu.index as usize)
}

/// Links of a kind by (GPU, place of the other end).
fn ends<'b>(batch: &'b Batch, kind: &str) -> BTreeMap<(usize, &'b str), Vec<&'b GpuLinkInfo>> {
    let mut ends: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for link in batch.gpu_link_infos.iter().filter(|link| link.remote_type == kind) {
        let gpu = index_of(batch, &link.gpu_uuid).unwrap();
        ends.entry((gpu, link.remote_pci_bus_id.as_str())).or_default().push(link);
    }
    ends
}

fn value(batch: &Batch, gpu: &str, link: u32, metric: &Metric) -> Option<u64> {
    let sample = batch.gpu_links.iter().find(|sample| sample.gpu_uuid == gpu)?;
    sample.links.iter().find(|values| values.link == link)?.values.as_ref()?.get(metric)
}

/// What a link of a GPU sends in each reading of a test: no two have the same, all are whole KiB.
fn step(gpu: usize, link: u32) -> u64 {
    1024 * (1 + (gpu as u64) * 64 + u64::from(link))
}

/// A scenario whose links all carry different traffic; checks every one of them between two readings.
fn utilisation_is_exact(scenario: &str, gpus: usize, links: u32) -> Batch {
    let mut traffic = String::new();
    for (gpu, link) in (0..gpus).flat_map(|gpu| (0..links).map(move |link| (gpu, link))) {
        let step = step(gpu, link);
        writeln!(traffic, "traffic {gpu} {link} tx_step={step} rx_step={}", step * 3).unwrap();
    }
    let mut bench = Bench::scenario(scenario, &traffic).start();
    let first = bench.next_batch();
    let second = bench.next_batch();
    assert_eq!(
        (first.gpus.len(), first.gpu_link_infos.iter().filter(|link| link.link < C2C_FIRST_LINK).count()),
        (gpus, gpus * links as usize)
    );
    for gpu in &first.gpus {
        for link in 0..links {
            let grown = |metric| {
                let read = |batch| value(batch, &gpu.uuid, link, metric).unwrap();
                increase(read(&first), read(&second))
            };
            let step = step(gpu.index as usize, link);
            assert_eq!(grown(&catalogue::NVLINK_TRANSMIT_BYTES), step, "GPU {} link {link}", gpu.index);
            assert_eq!(grown(&catalogue::NVLINK_RECEIVE_BYTES), step * 3, "GPU {} link {link}", gpu.index);
            let speed = value(&second, &gpu.uuid, link, &catalogue::NVLINK_SPEED_BYTES_PER_SECOND);
            let infos = first.gpu_link_infos.iter();
            let reported = infos
                .filter(|info| info.gpu_uuid == gpu.uuid && info.link == link)
                .map(|info| info.speed_bytes_per_second);
            assert_eq!(reported.collect::<Vec<_>>(), [speed], "GPU {} link {link}", gpu.index);
            assert!(speed > Some(0));
        }
    }
    first
}

#[test]
fn a_dgx_1_is_a_hybrid_cube_mesh() {
    let batch = utilisation_is_exact("dgx1-v100", 8, 6);
    let mut counts = [[0; 8]; 8];
    for link in &batch.gpu_link_infos {
        let (from, to) =
            (index_of(&batch, &link.gpu_uuid).unwrap(), index_of(&batch, &link.remote_gpu_uuid).unwrap());
        counts[from][to] += 1;
        // The other end says the same of itself.
        let far = batch
            .gpu_link_infos
            .iter()
            .find(|other| other.gpu_uuid == link.remote_gpu_uuid && Some(other.link) == link.remote_link);
        let far = far.unwrap();
        assert_eq!((&far.remote_gpu_uuid, far.remote_link), (&link.gpu_uuid, Some(link.link)));
    }
    assert_eq!(counts, DGX1);
}

#[test]
fn a_dgx_2_has_six_switches_on_each_of_two_boards() {
    let batch = utilisation_is_exact("dgx2-v100", 16, 6);
    let ends = ends(&batch, "switch");
    assert_eq!(ends.len(), 16 * 6, "each link of a GPU leads to another switch");
    let switches = |gpus: std::ops::Range<usize>| {
        let mut places: Vec<_> =
            ends.keys().filter(|(gpu, _)| gpus.contains(gpu)).map(|(_, place)| *place).collect();
        places.sort_unstable();
        places.dedup();
        places
    };
    let (first, second) = (switches(0..8), switches(8..16));
    assert_eq!((first.len(), second.len()), (6, 6));
    assert!(first.iter().all(|place| !second.contains(place)), "no GPU reaches a switch of the other board");
    assert!(batch.gpu_link_infos.iter().all(|link| link.remote_gpu_uuid.is_empty()), "a switch is no GPU");
}

#[test]
fn an_hgx_h200_shares_its_links_among_four_switches() {
    let batch = utilisation_is_exact("hgx-h200", 8, 18);
    let counts: Vec<usize> = ends(&batch, "switch").values().map(Vec::len).collect();
    assert_eq!(counts, [5, 4, 4, 5].repeat(8));
}

#[test]
fn a_tray_of_gb200_nvl_leads_to_switches_elsewhere_and_to_its_cpus() {
    let batch = utilisation_is_exact("gb200-nvl", 4, 18);
    assert_eq!(ends(&batch, "switch").values().map(Vec::len).collect::<Vec<_>>(), [18; 4]);
    let cpus = ends(&batch, "cpu");
    assert_eq!(cpus.len(), 4);
    for links in cpus.values() {
        let numbers: Vec<u32> = links.iter().map(|link| link.link).collect();
        assert_eq!(numbers, (C2C_FIRST_LINK..C2C_FIRST_LINK + 10).collect::<Vec<_>>());
        assert!(links.iter().all(|link| link.active && link.speed_bytes_per_second == Some(44_712_000_000)));
    }
    let domains: Vec<_> = batch.gpus.iter().map(throughline_sample::wire::GpuInfo::nvlink_domain).collect();
    assert_eq!(domains, vec![Some("5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e.32766".to_owned()); 4]);
    // C2C links have a state, and no bytes that anybody counts.
    let gpu = &batch.gpus[0].uuid;
    assert_eq!(value(&batch, gpu, C2C_FIRST_LINK, &catalogue::NVLINK_UP), Some(1));
    assert_eq!(value(&batch, gpu, C2C_FIRST_LINK, &catalogue::NVLINK_TRANSMIT_BYTES), None);
}

#[test]
fn links_of_the_papers_node_are_exact() {
    utilisation_is_exact("power9-v100", 4, 6);
}

#[test]
fn a_node_of_l40s_has_no_link() {
    let mut bench = Bench::scenario("pcie-only", "").start();
    let batch = bench.next_batch();
    assert_eq!((batch.gpus.len(), batch.gpu_link_infos.len(), batch.gpu_links.len()), (4, 0, 0));
    assert!(batch.gpus.iter().all(|gpu| gpu.name == "NVIDIA L40S" && gpu.link_count == 0));
}

#[test]
fn errors_of_nvlink_5_and_its_error_correction() {
    let fields = [
        (206, 11),
        (207, 12),
        (208, 13),
        (209, 14),
        (210, 15),
        (211, 16),
        (212, 17),
        (214, 18),
        (219, 19),
        (221, 20),
    ];
    let mut more: String =
        fields.iter().map(|(field, value)| format!("field 1 7 {field} {value}\n")).collect();
    more +=
        "field 1 7 220 1292\nfield * * 222 4095\nfield 1 7 235 1000000\nfield 1 7 236 40\nfield 1 7 239 2\n";
    let mut bench = Bench::scenario("b200-nvlink5", &more).start();
    let batch = bench.next_batch();
    let gpu = batch.gpus[1].uuid.clone();
    let read = |metric| value(&batch, &gpu, 7, metric);
    let errors = [
        &catalogue::NVLINK_MALFORMED_PACKET_ERRORS,
        &catalogue::NVLINK_BUFFER_OVERRUN_ERRORS,
        &catalogue::NVLINK_RECEIVE_ERRORS,
        &catalogue::NVLINK_REMOTE_ERRORS,
        &catalogue::NVLINK_GENERAL_ERRORS,
        &catalogue::NVLINK_LINK_INTEGRITY_ERRORS,
        &catalogue::NVLINK_TRANSMIT_DISCARDS,
        &catalogue::NVLINK_RECOVERY_FAILURES,
        &catalogue::NVLINK_EFFECTIVE_ERRORS,
        &catalogue::NVLINK_SYMBOL_ERRORS,
    ];
    assert_eq!(errors.map(read), [11, 12, 13, 14, 15, 16, 17, 18, 19, 20].map(Some));
    assert_eq!(read(&catalogue::NVLINK_EFFECTIVE_BER), Some(5_000_000), "5e-12");
    assert_eq!(read(&catalogue::NVLINK_SYMBOL_BER), Some(0), "15e-255");
    assert_eq!(read(&catalogue::NVLINK_FEC_CORRECTED_BLOCKS), Some(42));
    assert_eq!(read(&catalogue::NVLINK_FEC_MOST_SYMBOLS), Some(4));
    assert_eq!(value(&batch, &gpu, 6, &catalogue::NVLINK_FEC_MOST_SYMBOLS), Some(0));
    // They are not in every reading, and a reading without them says so by leaving them out.
    let without = bench.until(|batch| value(batch, &gpu, 7, &catalogue::NVLINK_SYMBOL_ERRORS).is_none());
    assert!(value(&without, &gpu, 7, &catalogue::NVLINK_TRANSMIT_BYTES).is_some());
    bench.until(|batch| value(batch, &gpu, 7, &catalogue::NVLINK_SYMBOL_ERRORS) == Some(20));
}

#[test]
fn one_number_of_error_correction_that_is_missing_leaves_out_its_sums() {
    let mut bench = Bench::scenario("b200-nvlink5", "na 0 3 240 3\n").start();
    let batch = bench.next_batch();
    let gpu = &batch.gpus[0].uuid;
    assert_eq!(value(&batch, gpu, 3, &catalogue::NVLINK_FEC_CORRECTED_BLOCKS), None);
    assert_eq!(value(&batch, gpu, 4, &catalogue::NVLINK_FEC_CORRECTED_BLOCKS), Some(0));
    assert_eq!(batch.coverage[0].reasons["not_supported"], 1);
}

#[test]
fn partitions_are_devices_of_their_gpu_and_processes_are_found_on_them() {
    let parts = "link 0 0-17 state=down\n\
                 part 0 0 uuid=MIG-a name=H200_MIG_3g.71gb gi=1 ci=0\npart 0 1 uuid=MIG-b name=H200_MIG_3g.71gb gi=2 ci=0\n\
                 process 0 100 1 0\nprocess 0 200 2 0\nprocess 1 300\n";
    let mut bench = Bench::scenario("hgx-h200", parts).start();
    let batch = bench.next_batch();
    let reported: Vec<_> = batch.gpus.iter().filter(|gpu| !gpu.parent_uuid.is_empty()).collect();
    let gpu = batch.gpus[0].uuid.clone();
    assert_eq!((batch.gpus.len(), reported.len()), (10, 2));
    assert!(
        reported
            .iter()
            .all(|part| part.parent_uuid == gpu && part.name == "H200 MIG 3g.71gb" && part.link_count == 0)
    );
    assert_eq!(value(&batch, &gpu, 0, &catalogue::NVLINK_UP), Some(0));
    assert_eq!(value(&batch, &gpu, 0, &catalogue::NVLINK_TRANSMIT_BYTES), None);
    let deadline = std::time::Instant::now() + crate::bench::PATIENCE;
    let known = loop {
        bench.source().query_processes();
        match bench.source().processes() {
            Ok(known) => break known,
            Err(why) => assert!(std::time::Instant::now() < deadline, "{why}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let on = |pid: u32| -> Vec<_> {
        let of = known.iter().filter(|gpu| gpu.processes.as_ref().unwrap().contains(&pid));
        of.map(|gpu| (gpu.gpu_uuid.as_str(), gpu.partition_uuid.as_str(), gpu.minor)).collect()
    };
    assert_eq!(on(100), [(gpu.as_str(), "MIG-a", Some(0))]);
    assert_eq!(on(200), [(gpu.as_str(), "MIG-b", Some(0))]);
    let second = batch.gpus.iter().find(|gpu| gpu.index == 1 && gpu.parent_uuid.is_empty()).unwrap();
    assert_eq!(on(300), [(second.uuid.as_str(), "", Some(1))]);
}

#[test]
fn pcie_comes_by_gpm_where_the_counter_is_too_narrow_and_the_site_allows_it() {
    let bench =
        Bench::scenario("hgx-h200", "gpu 0-3 gpm=yes\npcie 0-7 tx_rate=1000000000 rx_rate=2000000000\n");
    let mut bench = bench
        .with(|config| {
            (config.unfold_pcie, config.gpm, config.interval) =
                (false, true, std::time::Duration::from_millis(100))
        })
        .start();
    let first = bench.until(|batch| batch.gpu_pcie.len() == 4);
    let second = bench.until(|batch| batch.gpu_pcie.len() == 4);
    let (old, new) = (&first.gpu_pcie[2], &second.gpu_pcie[2]);
    assert_eq!((new.source.as_str(), new.epoch), ("nvml_gpm", old.epoch));
    let seconds = (new.time - old.time) as f64 / 1e9;
    for (metric, expected) in [(&catalogue::PCIE_TRANSMIT_BYTES, 1e9), (&catalogue::PCIE_RECEIVE_BYTES, 2e9)]
    {
        let read = |sample: &throughline_sample::wire::GpuPcieSample| {
            sample.values.as_ref().unwrap().get(metric).unwrap()
        };
        let rate = increase(read(old), read(new)) as f64 / seconds;
        // The double takes its time of a sample within ours, which a busy machine makes a millisecond or two apart.
        assert!((rate / expected - 1.0).abs() < 0.2, "{rate}");
    }
    assert_eq!(second.coverage[0].reasons["pcie_counter_too_narrow"], 8, "the other GPUs have no GPM");
}
