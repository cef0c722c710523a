//! What the checks on real hardware share: copies that another program makes, and a way to run them on the doubles.
#![allow(clippy::unwrap_used, dead_code)] // each test binary uses its part

use super::{Bench, PATIENCE, double};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use throughline_doubles::nvml::SCENARIO_VARIABLE;

/// Bytes of a copy; where a check requests one, and where its completion is reported.
const BYTES: &str = "THROUGHLINE_COPY_BYTES";
const READY: &str = "THROUGHLINE_COPY_READY";
const DONE: &str = "THROUGHLINE_COPY_DONE";

/// Copies of a known size between the host and the first GPU, which `hardware/gpu.sh` makes on request.
pub struct Copies {
    bytes: f64,
    ready: PathBuf,
    done: PathBuf,
}

impl Copies {
    /// As the script says.
    pub fn from_environment() -> Self {
        let path = |name| PathBuf::from(std::env::var_os(name).unwrap());
        Self { bytes: std::env::var(BYTES).unwrap().parse().unwrap(), ready: path(READY), done: path(DONE) }
    }

    /// Has one made, `to` the GPU or `from` it, and does something again and again meanwhile.
    pub fn make(&self, direction: &str, mut meanwhile: impl FnMut()) {
        let beside = self.ready.with_extension("new");
        std::fs::write(&beside, direction).unwrap();
        std::fs::rename(beside, &self.ready).unwrap();
        let begin = Instant::now();
        while !self.done.exists() {
            assert!(begin.elapsed() < PATIENCE, "no copy was made");
            meanwhile();
        }
        std::fs::remove_file(&self.done).unwrap();
        // What the GPU's counters lag behind.
        let begin = Instant::now();
        while begin.elapsed() < std::time::Duration::from_millis(100) {
            meanwhile();
        }
    }

    /// Prints what was counted of it: what the GPU sent, and what it received.
    pub fn report(&self, what: &str, direction: &str, sent: u64, received: u64) {
        let (expected, other) = if direction == "to" { (received, sent) } else { (sent, received) };
        let share = |bytes: u64| bytes as f64 / self.bytes;
        let agrees = (share(expected) - 1.0).abs() < 0.1 && share(other) < 0.2;
        println!(
            "  {what}, copied {direction} the GPU {:.3e} bytes: received {received} ({:.3}), sent {sent} ({:.3}): {}",
            self.bytes,
            share(received),
            share(sent),
            if agrees { "agrees" } else { "DIFFERS" }
        );
    }
}

/// Runs a check of this test binary that is for real hardware on the doubles, which the loader finds in place of the real
/// libraries, and gives what it printed. Copies that it requests are reported as made.
pub fn on_doubles(check: &str, scenario: &str, more: &str) -> String {
    let bench = Bench::scenario(scenario, more);
    let (ready, done) = (bench.folder().join("ready"), bench.folder().join("done"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact", check])
        .env("LD_LIBRARY_PATH", double())
        .env("THROUGHLINE_CUPTI_LIBRARY", double().join("libcupti.so"))
        .env("PATH", path_with_nvidia_smi(bench.folder()))
        .env(SCENARIO_VARIABLE, bench.scenario_path())
        .envs([(BYTES, "1048576".as_ref()), (READY, ready.as_os_str()), (DONE, done.as_os_str())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its output is read while it runs: a pipe that is full would hold it up.
    let reader = |mut pipe: Box<dyn std::io::Read + Send>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            pipe.read_to_string(&mut text).unwrap();
            text
        })
    };
    let out = reader(Box::new(child.stdout.take().unwrap()));
    let errors = reader(Box::new(child.stderr.take().unwrap()));
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > 2 * PATIENCE {
            let _ = child.kill();
        }
        if std::fs::remove_file(&ready).is_ok() {
            std::fs::write(&done, "").unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let (said, errors) = (out.join().unwrap(), errors.join().unwrap());
    assert!(status.success(), "{check}: {said}{errors}");
    said
}

/// A folder with a program that answers as nvidia-smi does, before all others.
fn path_with_nvidia_smi(folder: &Path) -> std::ffi::OsString {
    let programs = folder.join("programs");
    std::fs::create_dir(&programs).unwrap();
    super::write_program(&programs.join("nvidia-smi"), "#!/bin/sh\necho '1980 MHz, 2619 MHz, 119.00 W'\n");
    let old = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&old))).unwrap()
}
