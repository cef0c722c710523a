//! What tests of this crate run on: the test double, built once, and a source that reads it.
#![allow(clippy::unwrap_used, dead_code)] // each test binary uses its part

pub mod checks;
pub mod cupti;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use throughline_doubles::nvml::{SCENARIO_VARIABLE, Traffic, write_traffic};
use throughline_gpu::{GpuConfig, GpuSource, SourceStatus, default_clock};
use throughline_sample::wire::{Batch, GpuInfo};
use tokio::sync::mpsc;

/// Environment variable that names the file of faults (`testdouble/faults.c`).
pub const FAULTS_VARIABLE: &str = "THROUGHLINE_NVML_FAULTS";

/// Far longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The sampler as a program.
pub fn sampler() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_throughline-gpu-sampler"))
}

/// The folder of the test double, built on first use.
pub fn double() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvml-double");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdouble");
        let made = Command::new("make")
            .arg("-s")
            .arg("-C")
            .arg(source)
            .arg(format!("OUT={}", out.display()))
            .output()
            .expect("make is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        out
    })
}

/// A source on a scenario of its own.
pub struct Bench {
    // First, so that the source ends before its folder goes.
    running: Option<(GpuSource, mpsc::Receiver<Batch>)>,
    folder: tempfile::TempDir,
    config: GpuConfig,
    gpus: Vec<GpuInfo>,
}

impl Bench {
    /// A copy of one of the crate's scenarios with lines added.
    pub fn scenario(name: &str, more: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{name}.scenario"));
        Self::text(&format!("{}\n{more}", std::fs::read_to_string(path).unwrap()))
    }

    /// A scenario of this text.
    pub fn text(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scenario"), text).unwrap();
        let mut bench = Self { folder, config: GpuConfig::default(), running: None, gpus: Vec::new() };
        bench.config.interval = Duration::from_millis(50);
        bench.config.unfold_pcie = true;
        bench.config.pace.first_pause = Duration::from_millis(10);
        bench.config.pace.longest_pause = Duration::from_millis(40);
        bench.config.pace.recheck = Duration::from_millis(10);
        bench.config.pace.silence = Duration::from_secs(20);
        bench.with_library("libnvidia-ml.so.1")
    }

    /// Changes the configuration.
    pub fn with(mut self, change: impl FnOnce(&mut GpuConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Another shape of the double, or a path of its own.
    pub fn with_library(self, name: &str) -> Self {
        let library = double().join(name);
        self.with(|config| config.library = library)
    }

    /// The folder of this bench.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The scenario file.
    pub fn scenario_path(&self) -> PathBuf {
        self.folder.path().join("scenario")
    }

    /// Starts the source. The scenario goes to the child alone, through a small script: an environment
    /// variable of this process would be every test's.
    pub fn start(mut self) -> Self {
        let program = self.folder.path().join("sampler");
        let script = format!(
            "#!/bin/sh\n{SCENARIO_VARIABLE}='{}' {FAULTS_VARIABLE}='{}' exec '{}' \"$@\"\n",
            self.scenario_path().display(),
            self.folder.path().join("faults").display(),
            sampler().display()
        );
        write_program(&program, &script);
        self.config.program = program;
        let (records, receiver) = mpsc::channel(1024);
        let source = GpuSource::start(self.config.clone(), default_clock(), records).unwrap();
        self.running = Some((source, receiver));
        self
    }

    /// The next batch that holds a reading.
    pub fn next_batch(&mut self) -> Batch {
        self.until(|batch| !batch.coverage.is_empty())
    }

    /// The first batch from now on for which `wanted` holds.
    pub fn until(&mut self, wanted: impl Fn(&Batch) -> bool) -> Batch {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let receiver = &mut self.running.as_mut().unwrap().1;
            match receiver.try_recv() {
                Ok(batch) => {
                    if !batch.gpus.is_empty() {
                        self.gpus.clone_from(&batch.gpus);
                    }
                    if wanted(&batch) {
                        return batch;
                    }
                }
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
            assert!(Instant::now() < deadline, "no such batch; {:?}", self.status());
        }
    }

    /// Waits until the status is as wanted.
    pub fn until_status(&self, wanted: impl Fn(&SourceStatus) -> bool) -> SourceStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{status:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The GPUs of the last inventory that came by.
    pub fn gpus(&self) -> &[GpuInfo] {
        &self.gpus
    }

    /// The source's status.
    pub fn status(&self) -> SourceStatus {
        self.running.as_ref().unwrap().0.status()
    }

    /// The source.
    pub fn source(&self) -> &GpuSource {
        &self.running.as_ref().unwrap().0
    }

    /// Replaces the traffic file that the scenario includes.
    pub fn drive(&self, traffic: &[Traffic]) {
        write_traffic(&self.folder.path().join("traffic.txt"), traffic).unwrap();
    }

    /// Stops the source; the folder stays until the bench is dropped.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Replaces the scenario's text whole.
    pub fn rewrite(&self, text: &str) {
        replace(&self.scenario_path(), text);
    }

    /// Has calls fail from now on; the library is that of `faults/`.
    pub fn fail(&self, faults: &str) {
        replace(&self.folder.path().join("faults"), faults);
    }
}

/// Replaces a file whole.
pub fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

/// Writes an executable file. Another test's fork may hold a file open for writing that was just created
/// here, and it could not be executed then: so the shell of a child writes it.
pub fn write_program(path: &Path, text: &str) {
    let written = Command::new("sh")
        .args(["-c", "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", text])
        .arg(path)
        .status()
        .unwrap();
    assert!(written.success());
}

/// Counts by reason name, for comparing.
pub fn ends(status: &SourceStatus) -> BTreeMap<&'static str, u64> {
    status.ends.iter().map(|(end, count)| (end.name(), *count)).collect()
}
