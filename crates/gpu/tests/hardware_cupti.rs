//! Checks of CUPTI on a real NVIDIA GPU, as root; `hardware/gpu.sh` runs them. Each needs the driver, a GPU, and a libcupti
//! of CUDA 12.6 to 13.1: `THROUGHLINE_CUPTI_LIBRARY`, else NVIDIA's package from the Python Package Index.
//!
//! What they find is printed, not only passed: figures of real hardware go into docs/CUPTI.md.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use throughline_gpu::cupti::{CuptiConfig, CuptiSource, Leases};
use throughline_gpu::{SourceStatus, State, default_clock};
use throughline_sample::catalogue::by_id;
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
        "  the first gave way in {:.3} s, of which {:?} s in CUPTI",
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
