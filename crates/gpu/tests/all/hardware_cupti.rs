//! Checks of CUPTI on a real NVIDIA GPU, as root; `hardware/gpu.sh` runs them. Each needs the driver, a GPU, and a libcupti
//! of CUDA 12.6 to 13.1: `THROUGHLINE_CUPTI_LIBRARY`, else NVIDIA's package from the Python Package Index.
//!
//! What they find is printed, not only passed: figures of real hardware go into docs/CUPTI.md. The last test here runs
//! them on the test doubles, so that they are known to run.

use crate::bench::checks::{Copies, on_doubles};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use throughline_gpu::cupti::api::Library;
use throughline_gpu::cupti::{CuptiConfig, CuptiSource, Leases};
use throughline_gpu::{SourceStatus, State, default_clock};
use throughline_sample::catalogue::{PM_PCIE_READ_BYTES, PM_PCIE_WRITE_BYTES, by_id};
use throughline_sample::increase;
use throughline_sample::wire::Batch;
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(60);

fn library() -> PathBuf {
    if let Some(library) = std::env::var_os("THROUGHLINE_CUPTI_LIBRARY") {
        return library.into();
    }
    let prefix = throughline_prefix::Prefix::locate().unwrap();
    let wheel = prefix.wheel("nvidia-cuda-cupti", "13.0.85");
    wheel.map_or_else(|_| "libcupti.so".into(), |wheel| wheel.join("nvidia/cu13/lib/libcupti.so.13"))
}

/// A source at a thousand samples a second.
fn source(user: Option<(u32, u32)>) -> (CuptiSource, mpsc::Receiver<Batch>) {
    let (sender, records) = mpsc::channel(1024);
    let config = CuptiConfig {
        cupti: library(),
        sample_interval: Duration::from_millis(1),
        user,
        leases: Leases { folder: "/nowhere".into(), longest: Duration::ZERO },
        program: env!("CARGO_BIN_EXE_throughline-gpu-sampler").into(),
        ..CuptiConfig::default()
    };
    (CuptiSource::start(config, default_clock(), sender).unwrap(), records)
}

fn until(source: &CuptiSource, wanted: impl Fn(&SourceStatus) -> bool) -> SourceStatus {
    let begin = Instant::now();
    loop {
        let status = source.status();
        if wanted(&status) {
            return status;
        }
        assert!(begin.elapsed() < PATIENCE, "{status:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU and libcupti"]
fn start() {
    let (source, mut records) = source(None);
    let status = until(&source, |status| status.polls >= 5);
    println!("  {status:?}");
    while let Ok(batch) = records.try_recv() {
        for sample in &batch.gpu_pm {
            let values = sample.values.as_ref().unwrap().iter();
            let named: Vec<_> =
                values.filter_map(|(id, value)| Some(format!("{} {value}", by_id(id)?.name))).collect();
            println!("  {} {}", sample.gpu_uuid, named.join(", "));
        }
    }
    assert_eq!(status.state, State::Running);
    println!("  start-up {:?} s", status.start_seconds);
    let query = ["--query-compute-apps=pid,name", "--format=csv,noheader"];
    let contexts = Command::new("nvidia-smi").args(query).output().unwrap().stdout;
    let contexts = String::from_utf8_lossy(&contexts).trim().replace('\n', "; ");
    println!("  processes with a context while sampler {:?} samples: [{contexts}]", status.pid);
    drop(source);
    let library = Library::open(Path::new("libcuda.so.1"), &library()).unwrap();
    for device in library.start().unwrap() {
        println!("  GPU {} {}: chip {:?}", device.index, device.name, library.chip(device.index));
    }
}

/// PCIe bytes of the first GPU that the performance monitor saw last: written by the GPU, and read by it.
fn pcie(records: &mut mpsc::Receiver<Batch>, known: &mut Option<(u64, u64)>) {
    while let Ok(batch) = records.try_recv() {
        let Some(sample) = batch.gpu_pm.first() else { continue };
        let value = |metric| sample.values.as_ref()?.get(metric);
        *known = value(&PM_PCIE_WRITE_BYTES).zip(value(&PM_PCIE_READ_BYTES)).or(*known);
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU, libcupti, and copies that hardware/gpu.sh makes while it waits"]
fn copy() {
    let copies = Copies::from_environment();
    let (source, mut records) = source(None);
    // A reading that began after `polls` holds all that was before it.
    let mut settled = |source: &CuptiSource| {
        let polls = source.status().polls;
        until(source, |status| status.polls > polls + 1);
        let mut known = None;
        pcie(&mut records, &mut known);
        known
    };
    for direction in ["to", "from"] {
        let Some(before) = settled(&source) else {
            println!("  PM sampling has no PCIe on this GPU: {:?}", source.status());
            return;
        };
        copies.make(direction, || std::thread::sleep(Duration::from_millis(50)));
        let after = settled(&source).unwrap();
        copies.report("PM sampling", direction, increase(before.0, after.0), increase(before.1, after.1));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU and libcupti"]
fn busy() {
    let (first, _records) = source(None);
    until(&first, |status| status.state == State::Running);
    let (second, _others) = source(None);
    let busy = until(&second, |status| status.polls > 0);
    println!("  a second one beside the first: {:?}, {:?}", busy.state, busy.detail);
    assert_eq!(busy.state, State::Busy);
    let begin = Instant::now();
    first.pause(Duration::from_secs(600));
    let gone = until(&first, |status| status.state == State::Paused);
    println!(
        "  the first gave way in {:.3} s, {:?} s of them in CUPTI",
        begin.elapsed().as_secs_f64(),
        gone.end_seconds
    );
    assert!(begin.elapsed() < Duration::from_secs(1));
    until(&second, |status| status.state == State::Running);
    println!("  the second has the GPU after {:.3} s", begin.elapsed().as_secs_f64());
}

#[test]
#[ignore = "needs an NVIDIA GPU and libcupti"]
fn user() {
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let (source, _records) = source(Some((nobody.uid.as_raw(), nobody.gid.as_raw())));
    let status = until(&source, |status| status.polls > 0 || !status.ends.is_empty());
    println!("  as nobody: {:?}, {:?}", status.state, status.detail);
}

#[test]
#[ignore = "needs an NVIDIA GPU and libcupti"]
fn clocks() {
    let clocks = || {
        let query = ["--query-gpu=clocks.sm,clocks.mem,power.draw", "--format=csv,noheader"];
        String::from_utf8(Command::new("nvidia-smi").args(query).output().unwrap().stdout).unwrap()
    };
    println!("  clocks before: {}", clocks().trim());
    let (source, _records) = source(None);
    until(&source, |status| status.polls >= 3);
    println!("  clocks with 1,000 samples a second: {}", clocks().trim());
}

#[test]
#[ignore = "needs an NVIDIA GPU and libcupti"]
fn killed() {
    let (source, _records) = source(None);
    let running = until(&source, |status| status.state == State::Running);
    let pid = i32::try_from(running.pid.unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    let begin = Instant::now();
    let again = until(&source, |status| status.starts > 1 && status.state == State::Running);
    println!("  killed, and sampled again after {:.3} s: {:?}", begin.elapsed().as_secs_f64(), again.ends);
}

#[test]
fn the_checks_run_on_the_doubles() {
    let said = on_doubles("hardware_cupti::start", "hgx-h200", "traffic * * tx_step=100 rx_step=50\n");
    for line in ["nvlink_transmit_bytes ", "start-up Some(", "GPU 7 NVIDIA H200: chip Ok(\"GH100\")"] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let said = on_doubles("hardware_cupti::copy", "hgx-h200", "pcie 0 tx_step=70 rx_step=30\n");
    assert!(
        said.contains("PM sampling, copied to the GPU") && said.contains("copied from the GPU"),
        "{said}"
    );
    assert!(
        on_doubles("hardware_cupti::clocks", "hgx-h200", "")
            .contains("with 1,000 samples a second: 1980 MHz")
    );
    assert!(on_doubles("hardware_cupti::killed", "hgx-h200", "").contains("killed, and sampled again after"));
    // Two samplers at the same time: each process's double knows only itself. And another user can't be had by everyone.
}
