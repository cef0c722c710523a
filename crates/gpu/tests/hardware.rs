//! Checks on a real NVIDIA GPU. Each needs the driver and at least one GPU, and `hardware/gpu.sh` runs them.
//!
//! What they find is printed, not only passed: figures of real hardware go into docs/GPU.md.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use throughline_gpu::Reader;
use throughline_gpu::code::Code;
use throughline_gpu::field::{C2C_FIRST_LINK, LINK_STATE, PCIE_RX_BYTES, PCIE_TX_BYTES};
use throughline_gpu::frame::{Poll, Survey};
use throughline_gpu::nvml::{Library, NvmlOptions, NvmlReader};

const LIBRARY: &str = "libnvidia-ml.so.1";
/// Polls of the latency check, as the issue asks.
const POLLS: u32 = 10_000;

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
fn each_field_answers_with_a_code_and_what_is_absent_is_told() {
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
            // A link that is down has no counter, and is absent and not 0.
            for link in gpu.links.iter().filter(|link| !link.active && link.link < C2C_FIRST_LINK) {
                let answered = read
                    .link_fields
                    .iter()
                    .filter(|value| value.scope == link.link && value.field != LINK_STATE);
                let counted =
                    answered.filter(|value| value.unsigned().is_ok_and(|number| number > 0)).count();
                println!("  link {} is down; {counted} of its counters have a value", link.link);
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
    });
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

/// PCIe bytes of the first GPU now, by whatever the options read: sent, received.
fn pcie(reader: &mut NvmlReader<'_>) -> Option<(u64, u64)> {
    let mut poll = Poll::default();
    reader.poll(&mut poll);
    let read =
        |field| poll.gpus.first()?.pcie_fields.iter().find(|value| value.field == field)?.unsigned().ok();
    Some((read(PCIE_TX_BYTES)?, read(PCIE_RX_BYTES)?))
}

#[test]
#[ignore = "needs an NVIDIA GPU, and a copy of THROUGHLINE_COPY_BYTES bytes that hardware/gpu.sh starts while it waits"]
fn a_copy_shows_in_pcie_bytes() {
    let expected: f64 = std::env::var("THROUGHLINE_COPY_BYTES").unwrap().parse().unwrap();
    let (ready, done) =
        (std::env::var("THROUGHLINE_COPY_READY").unwrap(), std::env::var("THROUGHLINE_COPY_DONE").unwrap());
    for (name, options) in [
        ("field 197/198, unfolded", NvmlOptions { unfold_pcie: true, gpm: false }),
        ("GPM", NvmlOptions { unfold_pcie: false, gpm: true }),
    ] {
        with_reader(options, |reader, _| {
            let Some(before) = pcie(reader) else {
                println!("{name}: not to be had on this GPU");
                return;
            };
            std::fs::write(&ready, name).unwrap();
            while !Path::new(&done).exists() {
                std::thread::sleep(reader.between().unwrap_or(Duration::from_millis(200)));
                reader.read_between();
            }
            std::fs::remove_file(&done).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            let after = pcie(reader).unwrap();
            let (sent, received) = ((after.0 - before.0) as f64, (after.1 - before.1) as f64);
            println!(
                "{name}: copied {expected:.3e} bytes each way; sent {sent:.3e} ({:.3}), received {received:.3e} ({:.3})",
                sent / expected,
                received / expected
            );
        });
    }
}
