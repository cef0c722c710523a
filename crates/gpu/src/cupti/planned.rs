//! What the GPUs of this node would sample of chosen metrics, for a person: found out in a child process, without taking a
//! performance monitor.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::api::{Device, Library};
use super::chosen::{Chosen, Selection};
use super::links;
use super::pm::PmPlan;
use super::wanted::MetricGroup;
use crate::bounds;
use crate::cupti_frame::CuptiMetrics;
use crate::frame::{Body, Frame, FrameReader, FrameWriter, Problem, ProblemKind};
use crate::privileges;
use crate::sampler::take_standard_output;

/// The hidden subcommand that reports what of chosen metrics each GPU has.
pub const METRICS_SUBCOMMAND: &str = "gpu-cupti-metrics";

/// From one look whether the child has ended to the next.
const LOOK: Duration = Duration::from_millis(20);

/// What a GPU samples of chosen metrics.
pub(super) fn planned(device: &Device, chip: &str, selection: Selection) -> CuptiMetrics {
    let Selection { groups, refused } = selection;
    let (uuid, index, chip) = (device.uuid.clone(), device.index, chip.to_owned());
    CuptiMetrics { uuid, index, chip, groups, refused, problem: String::new() }
}

/// Why a chip that is read by CUPTI's Metric API has none of them.
pub(super) fn of_links_alone(chip: &str) -> String {
    format!("chip {chip} has values of links alone: CUPTI's Metric API")
}

/// The child: libcuda, libcupti and groups are its arguments. Frames go to standard output.
pub fn metrics_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let (Some(cuda), Some(cupti)) = (arguments.next(), arguments.next()) else { return ExitCode::from(64) };
    let groups: Option<Vec<MetricGroup>> =
        arguments.map(|group| MetricGroup::from_argument(&group)).collect();
    let Some(groups) = groups else { return ExitCode::from(64) };
    bounds::set(None);
    let _ = rustix::thread::set_no_new_privs(true);
    privileges::keep(privileges::OF_PROFILERS);
    let Ok(out) = take_standard_output() else { return ExitCode::FAILURE };
    let mut out = FrameWriter::<File>::new(out);
    let bodies = match of_node(Path::new(&cuda), Path::new(&cupti), groups) {
        Ok(all) => all.into_iter().map(Body::CuptiMetrics).collect(),
        Err(text) => vec![Body::Problem(Problem { kind: ProblemKind::Other.into(), text })],
    };
    let written = bodies.into_iter().try_for_each(|body| out.write(&Frame { body: Some(body) }));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn of_node(cuda: &Path, cupti: &Path, groups: Vec<MetricGroup>) -> Result<Vec<CuptiMetrics>, String> {
    let library = Library::open(cuda, cupti).map_err(|error| error.to_string())?;
    let devices = library.start().map_err(|failed| format!("{failed}; {}", failed.remedy()))?;
    let chosen = Chosen::new(groups);
    Ok(devices.iter().map(|device| of_gpu(&library, device, &chosen)).collect())
}

fn of_gpu(library: &Library, device: &Device, chosen: &Chosen) -> CuptiMetrics {
    let chip = library.chip(device.index).map(|chip| chip.to_string_lossy().into_owned());
    let chip = chip.unwrap_or_default();
    if links::is_of_this_kind(chip.as_bytes()) {
        return planned(device, &chip, chosen.refused(&of_links_alone(&chip)));
    }
    match PmPlan::new(library, device, chosen) {
        Ok(plan) => planned(device, &chip, plan.selection().clone()),
        Err(failed) => CuptiMetrics {
            problem: format!("{failed}; {}", failed.remedy()),
            ..planned(device, &chip, Selection::default())
        },
    }
}

/// What the GPUs of this node would sample. The program is one that runs [`metrics_main`]; it is killed where it takes longer
/// than `patience`, as with a driver that hangs.
///
/// # Errors
/// Why nothing could be found out, for people.
pub fn plan_of_node(
    program: &Path,
    (cuda, cupti): (&Path, &Path),
    groups: &[MetricGroup],
    patience: Duration,
) -> Result<Vec<CuptiMetrics>, String> {
    let libraries: [PathBuf; 2] = [cuda.to_owned(), cupti.to_owned()];
    privileges::hand_on(privileges::OF_PROFILERS);
    let child = Command::new(program)
        .arg(METRICS_SUBCOMMAND)
        .args(libraries)
        .args(groups.iter().map(MetricGroup::to_argument))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| format!("no child process: {error}"))?;
    let mut out = child.stdout.take().ok_or("the child has no output")?;
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let deadline = Instant::now() + patience;
    let ended = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::sleep(LOOK),
            None => {
                // It can only fail because the process has ended already.
                let _ = child.kill();
                return Err(format!("CUPTI gave no answer in {} s", patience.as_secs()));
            }
        }
    };
    if !ended.success() {
        return Err(format!("the process that calls CUPTI ended with {ended}"));
    }
    let bytes = reading.join().map_err(|_| "its output was not read")?.map_err(|error| error.to_string())?;
    let mut frames = FrameReader::default();
    frames.push(&bytes);
    let mut all = Vec::new();
    while let Some(body) = frames.next_frame().map_err(|error| error.to_string())? {
        match body {
            Body::CuptiMetrics(planned) => all.push(planned),
            Body::Problem(problem) => return Err(problem.text),
            _ => {}
        }
    }
    Ok(all)
}
