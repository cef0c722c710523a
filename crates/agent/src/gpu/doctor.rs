//! `gpu doctor`: what can be read here, by which source, and how to allow the rest.

use super::read::{Readings, why};
use crate::config::{Config, Places as Folders};
use crate::profilers;
use crate::sources::gpu_sources;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use throughline_daemon::ExitStatus;
use throughline_gpu::{GpuConfig, SourceStatus, State, Vendor};

mod metrics;
mod nvml;

/// From one reading to the next.
const INTERVAL: Duration = Duration::from_millis(200);

/// Where distributions and vendors put libraries; a library in another place is set by its path.
const LIBRARY_FOLDERS: [&str; 10] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/extras/CUPTI/lib64",
    "/opt/rocm/lib",
    "/usr/local/lib64",
    "/usr/lib/wsl/lib",
];

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    /// It can be read.
    Good,
    /// It is not on this node, or is switched off: no fault.
    Absent,
    /// It is there and can't be read, or only in part.
    Bad,
}

impl Grade {
    fn name(self) -> &'static str {
        match self {
            Grade::Good => "ok",
            Grade::Absent => "absent",
            Grade::Bad => "problem",
        }
    }
}

/// One check.
struct Finding {
    what: &'static str,
    source: &'static str,
    grade: Grade,
    text: String,
    remedy: String,
}

fn finding(what: &'static str, source: &'static str, grade: Grade, text: impl Into<String>) -> Finding {
    Finding { what, source, grade, text: text.into(), remedy: String::new() }
}

impl Finding {
    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

/// Prints all checks.
pub async fn run(config: &Config, folders: &Folders, as_json: bool) -> anyhow::Result<ExitCode> {
    let mut findings = Vec::new();
    if !config.nvml.enabled {
        let text = "switched off in the configuration: [nvml] enabled = false";
        findings.push(finding("library", Vendor::Nvml.name(), Grade::Absent, text));
    }
    for settings in gpu_sources(config) {
        findings.extend(tried(config, settings).await?);
    }
    findings.push(profiling(&config.proc.root));
    findings.push(cupti(config));
    if config.cupti.enabled {
        findings.push(profilers_seen(&config.proc.root));
    }
    findings.extend(metrics::findings(config).await?);
    findings.extend(others(config));
    if is_running(&config.proc.root, "nv-hostengine") {
        let text = "nv-hostengine runs: where it profiles, it holds the performance monitor";
        findings.push(finding("DCGM's daemon", "dcgm", Grade::Good, text));
    }
    let text = if as_json { document(&folders.node, &findings) } else { sheet(&folders.node, &findings) };
    std::io::stdout().write_all(text.as_bytes())?;
    let bad = findings.iter().any(|finding| finding.grade == Grade::Bad);
    Ok(if bad { ExitCode::from(ExitStatus::Found as u8) } else { ExitCode::SUCCESS })
}

/// What one of the libraries that are switched on gives, by reading once.
async fn tried(config: &Config, settings: GpuConfig) -> anyhow::Result<Vec<Finding>> {
    let vendor = settings.vendor;
    let mut readings = Readings::start(settings, INTERVAL)?;
    let read = readings.next().await;
    let mut findings = match read {
        Ok(batch) if vendor == Vendor::Nvml => {
            // As the agent reads: a rate of GPM needs two samples that are not too close together, as the first two may be.
            let mut newest = batch.clone();
            for _ in 0..2 {
                newest = readings.next().await.unwrap_or(newest);
            }
            let mut findings = nvml::findings(config, &readings.status(), &batch, &newest);
            findings.push(nvml::processes(readings.processes().await));
            findings
        }
        Ok(batch) => {
            let text = format!("{} GPUs", batch.gpus.len());
            let links = nvml::links(vendor.name(), &batch, &[]);
            vec![finding("library", vendor.name(), Grade::Good, text)].into_iter().chain(links).collect()
        }
        Err(status) => vec![unread(vendor, &status)],
    };
    readings.stop().await;
    findings.sort_by_key(|finding| finding.what != "library");
    Ok(findings)
}

/// Why a library gives nothing.
fn unread(vendor: Vendor, status: &SourceStatus) -> Finding {
    let grade = match status.state {
        State::NoGpu => Grade::Absent,
        // NVML is looked for on every node; the others where somebody switched them on.
        State::LibraryMissing if vendor == Vendor::Nvml => Grade::Absent,
        _ => Grade::Bad,
    };
    // The reason ends in the remedy already.
    finding("library", vendor.name(), grade, why(status))
}

/// Whether users other than root may use the GPU's performance monitor: CUPTI and GPM need that.
fn profiling(proc: &Path) -> Finding {
    let what = "performance monitor";
    let Ok(text) = std::fs::read_to_string(proc.join("driver/nvidia/params")) else {
        return finding(what, "cupti", Grade::Absent, "no NVIDIA kernel driver reports who may use it");
    };
    let setting = text.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"));
    match setting.map(str::trim) {
        Some("0") => finding(what, "cupti", Grade::Good, "open to every user"),
        Some(_) => finding(what, "cupti", Grade::Good, "root only (CAP_SYS_ADMIN)").remedy(
            "an agent of another user needs the module option NVreg_RestrictProfilingToAdminUsers=0 and a reboot",
        ),
        None => finding(what, "cupti", Grade::Absent, "this driver does not report who may use it"),
    }
}

/// Whether CUPTI could be sampled. It is not: that would take the performance monitor from its present user, even the agent.
fn cupti(config: &Config) -> Finding {
    let wanted = &config.cupti.library;
    let found = if wanted.components().count() > 1 {
        wanted.exists().then(|| wanted.clone())
    } else {
        library(&wanted.to_string_lossy())
    };
    match (config.cupti.enabled, found) {
        (true, Some(path)) => {
            let text = format!("switched on, {} is here", path.display());
            finding("CUPTI", "cupti", Grade::Good, text)
                .remedy("while no agent runs, `throughline-agent once` shows whether it may sample here")
        }
        (true, None) => {
            let text = format!("switched on, and {} is not here", wanted.display());
            finding("CUPTI", "cupti", Grade::Bad, text)
                .remedy("set cupti.library to the path of libcupti.so of CUDA 12.6 to 13.1")
        }
        (false, Some(path)) => finding(
            "CUPTI",
            "cupti",
            Grade::Good,
            format!("{} is here, switched off", path.display()),
        )
        .remedy(
            "cupti.enabled = true samples bursts on links; it takes the performance monitor from profilers",
        ),
        (false, None) => {
            let text = format!("no {} in the usual folders, switched off", wanted.display());
            finding("CUPTI", "cupti", Grade::Absent, text)
        }
    }
}

/// Whether the agent would notice users' profilers, to which CUPTI's source gives way. By this process's permissions.
fn profilers_seen(proc: &Path) -> Finding {
    let what = "users' profilers";
    match profilers::once(proc) {
        Ok((look, gaps)) if gaps.is_empty() => {
            let now = look.profilers.first().map_or_else(
                || "none now".to_owned(),
                |first| format!("process {} ({}) now", first.pid, first.command),
            );
            let text = format!("noticed in each of {} processes; {now}", look.processes);
            finding(what, "cupti", Grade::Good, text)
        }
        Ok((_, gaps)) => finding(what, "cupti", Grade::Bad, gaps.join("; ")),
        Err(error) => finding(what, "cupti", Grade::Bad, format!("the processes can't be listed: {error}")),
    }
}

/// What else is on the node that GPUs could be read by, of what is switched off.
fn others(config: &Config) -> impl Iterator<Item = Finding> {
    let libraries = [
        ("DCGM", "dcgm", "libdcgm.so", config.dcgm.enabled),
        ("AMD SMI", "amd_smi", "libamd_smi.so", config.amd_smi.enabled),
        ("Level Zero", "level_zero", "libze_loader.so", config.level_zero.enabled),
    ];
    libraries.into_iter().filter(|(.., is_on)| !is_on).map(|(what, source, name, _)| match library(name) {
        Some(path) => finding(what, source, Grade::Good, format!("{} is here, switched off", path.display()))
            .remedy(format!("{source}.enabled = true reads GPUs by it")),
        None => finding(what, source, Grade::Absent, format!("no {name} in the usual folders")),
    })
}

/// The file of a library, whatever its version.
fn library(name: &str) -> Option<PathBuf> {
    LIBRARY_FOLDERS.iter().find_map(|folder| {
        let files = std::fs::read_dir(folder).ok()?.flatten();
        files.map(|file| file.path()).find(|path| {
            path.file_name().and_then(|file| file.to_str()).is_some_and(|file| {
                file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        })
    })
}

fn is_running(proc: &Path, name: &str) -> bool {
    // The kernel keeps 15 characters of a program's name.
    let stored = &name[..name.len().min(15)];
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path().join("comm"))
        .any(|comm| std::fs::read_to_string(comm).is_ok_and(|text| text.trim_end() == stored))
}

fn sheet(node: &str, findings: &[Finding]) -> String {
    let of = |wanted: Grade| findings.iter().filter(move |one| one.grade == wanted);
    let problems: Vec<&str> = of(Grade::Bad).map(|one| one.what).collect();
    let mut text = match (problems.as_slice(), of(Grade::Good).count()) {
        ([], 0) => format!("{node}: nothing is read of GPUs here, and nothing is wrong\n"),
        ([], good) => format!("{node}: nothing is wrong, {good} of {} are read or here\n", findings.len()),
        (some, _) => {
            format!("{node}: {} of {} are problems: {}\n", some.len(), findings.len(), some.join(", "))
        }
    };
    for Finding { what, source, grade, text: said, remedy } in findings {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{:<8} {what:<20} {source:<11} {said}", grade.name());
        if !remedy.is_empty() {
            let _ = writeln!(text, "{:<42}{remedy}", "");
        }
    }
    text
}

fn document(node: &str, findings: &[Finding]) -> String {
    let checks: Vec<Value> = findings
        .iter()
        .map(|Finding { what, source, grade, text, remedy }| {
            json!({ "what": what, "source": source, "grade": grade.name(), "text": text, "remedy": remedy })
        })
        .collect();
    format!("{:#}\n", json!({ "node": node, "checks": checks }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_profile_is_known_from_the_driver() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(profiling(proc.path()).grade, Grade::Absent);
        let folder = proc.path().join("driver/nvidia");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("params"), "ResmanDebugLevel: 1\nRmProfilingAdminOnly: 1\n").unwrap();
        let reported = profiling(proc.path());
        assert!(
            reported.text.contains("root only") && reported.remedy.contains("NVreg_RestrictProfiling"),
            "{}",
            reported.text
        );
        std::fs::write(folder.join("params"), "RmProfilingAdminOnly: 0\n").unwrap();
        assert!(profiling(proc.path()).text.contains("every user"));
    }

    #[test]
    fn a_daemon_is_known_by_its_name() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(proc.path().join("42")).unwrap();
        std::fs::write(proc.path().join("42/comm"), "nv-hostengine\n").unwrap();
        assert!(is_running(proc.path(), "nv-hostengine") && !is_running(proc.path(), "other"));
    }
}
