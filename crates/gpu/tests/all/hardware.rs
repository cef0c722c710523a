//! Checks on a real NVIDIA GPU. Each needs the driver and at least one GPU, and `hardware/gpu.sh` runs them.
//!
//! What they find is printed, not only passed: figures of real hardware go into docs/GPU.md. The last test here runs them
//! on the test double, so that they are known to run.

use crate::bench::checks::{Copies, on_doubles};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use throughline_gpu::Reader;
use throughline_gpu::code::Code;
use throughline_gpu::convert::Converter;
use throughline_gpu::field::{
    self, C2C_FIRST_LINK, DATA_RX_KIB, DATA_TX_KIB, FieldValue, LINK_SPEED, LINK_STATE, PCIE_RX_BYTES,
    PCIE_TX_BYTES, REMOTE_LINK,
};
use throughline_gpu::frame::{Poll, Survey};
use throughline_gpu::nvml::{GpmPcie, Gpu, Library, NvmlOptions, NvmlReader};
use throughline_sample::catalogue::{NVLINK_RECEIVE_BYTES, NVLINK_TRANSMIT_BYTES};

const LIBRARY: &str = "libnvidia-ml.so.1";
/// Polls of the latency check.
const POLLS: u32 = 10_000;

/// Fields that are requested one by one, each in a call of its own: those of the poll, raw bytes (140, 141) and what a link is.
const FIELDS: [u32; 11] = [
    DATA_TX_KIB,
    DATA_RX_KIB,
    140,
    141,
    LINK_SPEED,
    LINK_STATE,
    REMOTE_LINK,
    field::XMIT_BYTES,
    field::RCV_BYTES,
    PCIE_TX_BYTES,
    PCIE_RX_BYTES,
];

/// Runs `check` on a reader that has looked at what there is.
fn with_reader(options: NvmlOptions, check: impl FnOnce(&mut NvmlReader<'_>, &Survey)) {
    let library = Library::open(Path::new(LIBRARY)).unwrap();
    let session = library.start().unwrap_or_else(|code| panic!("{code}; {}", code.remedy()));
    let mut reader = NvmlReader::new(&session, options);
    let found = reader.survey().unwrap();
    check(&mut reader, &found);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn each_field_answers_with_a_code_and_what_is_absent_is_reported() {
    let begin = Instant::now();
    with_reader(NvmlOptions::default(), |reader, found| {
        let hello = reader.hello();
        println!(
            "driver {}, NVML {}, start and survey {:.1} ms",
            hello.driver_version,
            hello.library_version,
            begin.elapsed().as_secs_f64() * 1e3
        );
        let mut poll = Poll::default();
        reader.poll(&mut poll);
        for (gpu, read) in found.gpus.iter().zip(&poll.gpus) {
            println!(
                "GPU {} {} {} {}: {} links, {} of them up",
                gpu.index,
                gpu.name,
                gpu.uuid,
                gpu.pci_bus_id,
                gpu.links.len(),
                gpu.links.iter().filter(|link| link.active).count()
            );
            let mut codes: BTreeMap<(u32, &str), u32> = BTreeMap::new();
            for value in read.link_fields.iter().chain(&read.pcie_fields) {
                *codes.entry((value.field, Code(value.code).reason())).or_default() += 1;
            }
            for ((field, reason), count) in codes {
                println!("  field {field:<4} {reason:<26} {count:>3} times");
            }
            for link in gpu.links.iter().filter(|link| !link.active && link.link < C2C_FIRST_LINK) {
                let answered = read
                    .link_fields
                    .iter()
                    .filter(|value| value.scope == link.link && value.field != LINK_STATE);
                let answered = answered.filter(|value| value.unsigned().is_ok()).count();
                println!("  link {} is down; {answered} of its counters answer", link.link);
            }
            for link in gpu.links.iter().filter(|link| link.active) {
                println!(
                    "  link {}: version {:?}, {:?} MB/s, to type {:?} at {:?}, its link {:?}",
                    link.link,
                    link.version,
                    link.speed_megabytes_per_second,
                    link.remote_type,
                    link.remote_pci_bus_id,
                    link.remote_link
                );
            }
        }
        inactive_links_are_absent(found, &poll);
    });
    each_field_alone();
}

/// A link that is down has no bytes in records: absent, and not 0.
fn inactive_links_are_absent(found: &Survey, poll: &Poll) {
    let mut converter = Converter::default();
    converter.survey(found);
    let batch = converter.poll(poll, &|time| time).batch;
    for (gpu, link) in found.gpus.iter().flat_map(|gpu| gpu.links.iter().map(move |link| (gpu, link))) {
        let sample = batch.gpu_links.iter().find(|sample| sample.gpu_uuid == gpu.uuid);
        let read = sample.and_then(|sample| sample.links.iter().find(|read| read.link == link.link));
        let has = |metric| read.and_then(|read| read.values.as_ref()?.get(metric)).is_some();
        let has_bytes = has(&NVLINK_TRANSMIT_BYTES) || has(&NVLINK_RECEIVE_BYTES);
        assert!(link.active || !has_bytes, "GPU {} link {} is down and has bytes", gpu.index, link.link);
    }
    println!("  links that are down have no bytes in records");
}

/// Each field of each link in a call of its own, with the code that it answers.
fn each_field_alone() {
    let library = Library::open(Path::new(LIBRARY)).unwrap();
    let session = library.start().unwrap();
    for index in 0..session.gpu_count().unwrap() {
        let Ok(gpu) = session.gpu(index) else { continue };
        for number in FIELDS {
            let mut answers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
            for link in 0..18 {
                let mut requested = [FieldValue { field: number, scope: link, ..FieldValue::default() }];
                let code = gpu.read_fields(&mut requested).err().unwrap_or(Code(requested[0].code));
                let kind = if code == Code::SUCCESS {
                    format!("type {}", requested[0].value_type)
                } else {
                    String::new()
                };
                answers.entry(format!("{} {kind}", code.reason())).or_default().push(link);
            }
            let reported: Vec<String> =
                answers.iter().map(|(answer, links)| format!("{answer}: {links:?}")).collect();
            println!("  GPU {index} field {number} alone, by scope: {}", reported.join("; "));
        }
    }
}

/// Two samples of GPM, far enough apart.
fn gpm(gpu: &Gpu<'_, '_>, read: impl Fn(&mut GpmPcie) -> Result<[u64; 2], Code>) -> String {
    let read = GpmPcie::new(gpu).and_then(|mut pcie| {
        read(&mut pcie)?;
        std::thread::sleep(Duration::from_millis(100));
        read(&mut pcie)
    });
    match read {
        Ok([sent, received]) => format!("answers, sent {sent} bytes in 0.1 s, received {received}"),
        Err(code) => format!("{code}"),
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn what_gpm_and_the_fabric_answer() {
    // Far above any slot: only what can't be right is refused.
    const SLOT: u64 = 1 << 40;
    let library = Library::open(Path::new(LIBRARY)).unwrap();
    let session = library.start().unwrap();
    for index in 0..session.gpu_count().unwrap() {
        let Ok(gpu) = session.gpu(index) else { continue };
        match gpu.fabric() {
            Ok(fabric) => println!("  GPU {index} fabric of NVLinks: {fabric:?}"),
            Err(code) => println!("  GPU {index} fabric of NVLinks: {code}"),
        }
        println!("  GPU {index} GPM: {}", gpm(&gpu, |pcie| pcie.read(&gpu, SLOT)));
        // Partitions are looked at where there are some: MIG's mode is left as it is.
        let partitions = gpu.partitions_max().unwrap_or(0);
        println!("  GPU {index} may have {partitions} partitions now");
        for part in (0..partitions).filter_map(|number| gpu.partition(number).ok()) {
            let Ok((instance, _)) = part.instances() else { continue };
            let by_call = gpm(&gpu, |pcie| pcie.read_instance(&gpu, instance, SLOT));
            println!("  GPU {index} instance {instance} GPM by nvmlGpmMigSampleGet: {by_call}");
            println!(
                "  GPU {index} instance {instance} GPM by its handle: {}",
                gpm(&part, |pcie| pcie.read(&part, SLOT))
            );
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_poll_takes_so_long() {
    with_reader(NvmlOptions::default(), |reader, found| {
        let mut poll = Poll::default();
        (0..20).for_each(|_| reader.poll(&mut poll));
        let mut times: Vec<f64> = (0..POLLS)
            .map(|_| {
                let begin = Instant::now();
                reader.poll(&mut poll);
                begin.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times[times.len() * share / 100];
        println!(
            "{POLLS} polls of {} GPUs: median {:.1} us, 90 % {:.1} us, 99 % {:.1} us, longest {:.1} us",
            found.gpus.len(),
            at(50),
            at(90),
            at(99),
            times[times.len() - 1]
        );
    });
}

/// PCIe bytes of the first GPU now, by whatever the options read.
struct Pcie {
    sent: u64,
    received: u64,
    /// How often the sums began anew so far.
    restarts: u64,
}

fn pcie(reader: &mut NvmlReader<'_>) -> Option<Pcie> {
    let mut poll = Poll::default();
    reader.poll(&mut poll);
    let gpu = poll.gpus.first()?;
    let read = |field| gpu.pcie_fields.iter().find(|value| value.field == field)?.unsigned().ok();
    Some(Pcie { sent: read(PCIE_TX_BYTES)?, received: read(PCIE_RX_BYTES)?, restarts: gpu.pcie_restarts })
}

/// As long as a reader may wait, and what it reads then.
fn between(reader: &mut NvmlReader<'_>) {
    std::thread::sleep(reader.between().unwrap_or(Duration::from_millis(50)));
    reader.read_between();
}

/// Longer than GPM takes from one sample to the next.
fn rest(reader: &mut NvmlReader<'_>) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        between(reader);
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU, and copies that hardware/gpu.sh makes while it waits"]
fn a_copy_shows_in_pcie_bytes() {
    let copies = Copies::from_environment();
    for (name, options) in [
        ("field 197/198, unfolded", NvmlOptions { unfold_pcie: true, gpm: false }),
        ("GPM 20/21", NvmlOptions { unfold_pcie: false, gpm: true }),
    ] {
        with_reader(options, |reader, _| {
            for direction in ["to", "from"] {
                rest(reader);
                let Some(before) = pcie(reader) else {
                    println!("  {name}: not to be had on this GPU");
                    return;
                };
                copies.make(direction, || between(reader));
                rest(reader);
                let after = pcie(reader).unwrap();
                if after.restarts > before.restarts {
                    let times = after.restarts - before.restarts;
                    println!(
                        "  {name}, {direction}: readings came too late, the sums began anew {times} times"
                    );
                    continue;
                }
                copies.report(name, direction, after.sent - before.sent, after.received - before.received);
            }
        });
    }
}

#[test]
fn the_checks_run_on_the_double() {
    let said =
        on_doubles("hardware::each_field_answers_with_a_code_and_what_is_absent_is_reported", "faults", "");
    for line in [
        "GPU 2 NVIDIA A100-SXM4-40GB",
        "  link 1 is down; 0 of its counters answer",
        "  links that are down have no bytes in records",
        "  GPU 5 field 197 alone, by scope: no_permission",
        "  GPU 0 field 139 alone, by scope: invalid_argument : [4, 5,",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let more = "gpu 0-3 gpm=yes\npart 0 0 uuid=MIG-0 name=1g gi=7 ci=0\nfail fabric 15\n";
    let said = on_doubles("hardware::what_gpm_and_the_fabric_answer", "gb200-nvl", more);
    for line in [
        "GPU 0 fabric of NVLinks: NVML error 15",
        "GPU 0 GPM: answers, sent 0 bytes",
        "GPU 0 may have 8 partitions now",
        "GPU 0 instance 7 GPM by nvmlGpmMigSampleGet: answers, sent 0 bytes",
        "GPU 0 instance 7 GPM by its handle: NVML error",
        "GPU 3 may have 0 partitions now",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let said = on_doubles("hardware::what_gpm_and_the_fabric_answer", "gb200-nvl", "");
    assert!(
        said.contains("GPU 3 fabric of NVLinks: FabricSurvey { state: 3, status: 0, cluster_uuid: [93, 43,"),
        "{said}"
    );
    let said = on_doubles("hardware::a_poll_takes_so_long", "hgx-h200", "");
    assert!(said.contains("10000 polls of 8 GPUs: median"), "{said}");
    let said = on_doubles(
        "hardware::a_copy_shows_in_pcie_bytes",
        "hgx-h200",
        "gpu 0-7 gpm=yes\npcie 0 tx_rate=1000 rx_rate=2000",
    );
    for line in ["field 197/198, unfolded, copied to the GPU", "GPM 20/21, copied from the GPU"] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
}
