//! The child process that calls CUPTI. As every sampler it may hang or crash at any call, and dies with its parent.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cupti_sys::OpenError;
use nix::poll::{PollFd, PollFlags, PollTimeout};

use super::api::{Device, Library};
use super::chosen::{Chosen, Selection};
use super::code::{
    CuptiError, FUNCTION_NOT_FOUND, HARDWARE_BUSY, INSUFFICIENT_PRIVILEGES, NOT_SUPPORTED, is_final,
};
use super::links::{self, LinksGpu};
use super::metrics::Plan;
use super::planned::{of_links_alone, planned};
use super::pm::{PmGpu, PmPlan};
use super::wanted::MetricGroup;
use crate::bounds;
use crate::cupti_frame::{CuptiBye, CuptiGpu, CuptiHello, CuptiMetrics, CuptiPoll, LinkBytes, QuantitySum};
use crate::frame::{Body, Frame, FrameWriter, Problem, ProblemKind};
use crate::poll::monotonic_nanoseconds;
use crate::privileges;
use crate::sampler::{BadArguments, die_with_parent, take_standard_output};

/// The hidden subcommand under which a program runs the sampler of CUPTI.
pub const CUPTI_SUBCOMMAND: &str = "gpu-cupti-sampler";
/// The hidden subcommand that reports which chips a libcupti can sample.
pub const CHIPS_SUBCOMMAND: &str = "gpu-cupti-chips";

/// The order to give every GPU back and end: one byte on standard input. So is its end.
pub(crate) const QUIT: u8 = b'q';

/// From one decoding to the next, where the interval is longer: what is decoded late may be lost on the GPU.
const DECODE_INTERVAL: Duration = Duration::from_millis(100);
/// Until a GPU that another profiler has, or that failed, is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// Highest rate of samples: what the present metrics were meant for.
const SAMPLE_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// What the sampler gets on its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuptiSamplerOptions {
    /// Path or name of libcuda.
    pub cuda: PathBuf,
    /// Path or name of libcupti.
    pub cupti: PathBuf,
    /// From one reading to the next.
    pub interval: Duration,
    /// From one sample on the GPU to the next, a millisecond at least.
    pub sample_interval: Duration,
    /// The parent: without it the sampler ends.
    pub parent: u32,
    /// The metrics that the site chose.
    pub groups: Vec<MetricGroup>,
}

impl CuptiSamplerOptions {
    /// The arguments after [`CUPTI_SUBCOMMAND`].
    #[must_use]
    pub fn to_arguments(&self) -> Vec<OsString> {
        let numbers = [self.interval.as_nanos(), self.sample_interval.as_nanos(), u128::from(self.parent)];
        let paths = [self.cuda.clone().into(), self.cupti.clone().into()];
        let numbers = numbers.map(|number| number.to_string().into());
        let groups = self.groups.iter().map(MetricGroup::to_argument);
        paths.into_iter().chain(numbers).chain(groups).collect()
    }

    /// Reads what [`CuptiSamplerOptions::to_arguments`] wrote.
    ///
    /// # Errors
    /// Naming what is missing or no number.
    pub fn from_arguments(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, BadArguments> {
        let mut arguments = arguments.into_iter();
        let mut next =
            |what: &str| arguments.next().ok_or_else(|| BadArguments(format!("{what} is missing")));
        let (cuda, cupti) = (next("libcuda")?.into(), next("libcupti")?.into());
        let mut number = |what: &str| {
            let text = next(what)?.to_string_lossy().into_owned();
            text.parse::<u64>().map_err(|_| BadArguments(format!("{what} {text} is no number")))
        };
        let interval = Duration::from_nanos(number("interval")?.max(1_000_000));
        let sample_interval = Duration::from_nanos(number("sample interval")?).max(SAMPLE_INTERVAL_MIN);
        let parent = u32::try_from(number("parent")?).map_err(|_| BadArguments("parent".into()))?;
        let groups: Option<Vec<MetricGroup>> =
            arguments.map(|group| MetricGroup::from_argument(&group)).collect();
        let groups = groups.ok_or_else(|| BadArguments("a group of metrics is wrong".into()))?;
        Ok(Self { cuda, cupti, interval, sample_interval, parent, groups })
    }
}

/// Runs the sampler until it is ordered to end, its parent is gone or nothing can be read.
///
/// Frames go to standard output. Exit status: 0 ordered to end, 1 CUPTI failed (a frame says how), 64 wrong arguments.
pub fn cupti_sampler_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match CuptiSamplerOptions::from_arguments(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(64);
        }
    };
    if !die_with_parent(options.parent) {
        return ExitCode::SUCCESS;
    }
    // CUDA reserves memory in its own way: what this sampler occupies is watched by its parent alone.
    bounds::set(None);
    // The driver demands these two of a profiler; what it runs beside itself needs no more.
    let _ = rustix::thread::set_no_new_privs(true);
    privileges::keep(privileges::OF_PROFILERS);
    let Ok(out) = take_standard_output() else { return ExitCode::FAILURE };
    match run(&options, &mut FrameWriter::new(out)) {
        // The parent closed the pipe, or ordered it to end.
        Err(_) | Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
    }
}

/// Prints a line for each chip that a libcupti knows: its name, and the metrics that are sampled or why it has none. Arguments behind
/// the library's path are metrics to be sampled, too: a line with `!` for each that a chip refuses. Needs neither driver nor GPU.
/// A process of its own: a wrong library crashes.
pub fn chips_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let Some(path) = arguments.next() else {
        eprintln!("{CHIPS_SUBCOMMAND}: the path of libcupti is missing");
        return ExitCode::from(64);
    };
    let metrics: Vec<String> = arguments.map(|name| name.to_string_lossy().into_owned()).collect();
    let chosen = Chosen::new(vec![MetricGroup { metrics, interval: Duration::from_secs(1) }]);
    let library = match Library::without_driver(path.as_ref()) {
        Ok(library) => library,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(69);
        }
    };
    let chips = match library.chips() {
        Ok(chips) => chips,
        Err(failed) => {
            eprintln!("{failed}; {}", failed.remedy());
            return ExitCode::FAILURE;
        }
    };
    for chip in chips {
        let name = chip.to_string_lossy();
        match Plan::new(&library, &chip, None, &chosen) {
            Ok(plan) => {
                let metrics: Vec<_> = plan.names.iter().map(|name| name.to_string_lossy()).collect();
                println!("{name} {}", metrics.join(" "));
                plan.selection.refused.iter().for_each(|refused| println!("{name} ! {}", refused.text));
            }
            Err(failed) => println!("{name} - {failed}"),
        }
    }
    ExitCode::SUCCESS
}

/// How a GPU is read.
enum Reading<'l> {
    Pm(Box<PmGpu<'l>>),
    Links(Box<LinksGpu<'l>>),
    /// Not at all, since when, and why.
    Failed(i64, CuptiError),
}

/// One GPU of this node.
struct Gpu<'l> {
    device: Device,
    chip: String,
    begun: i64,
    reading: Reading<'l>,
    /// What is sampled of chosen metrics, and whether the parent has it.
    selection: (Selection, bool),
}

impl<'l> Gpu<'l> {
    fn new(library: &'l Library, device: Device, options: &CuptiSamplerOptions, chosen: &Chosen) -> Self {
        let chip = library
            .chip(device.index)
            .map_or_else(|_| String::new(), |chip| chip.to_string_lossy().into_owned());
        let nothing = Reading::Failed(0, CuptiError { call: "cuptiPmSamplingEnable", code: NOT_SUPPORTED });
        let mut gpu =
            Self { device, chip, begun: 0, reading: nothing, selection: (Selection::default(), true) };
        gpu.begin(library, options, chosen);
        gpu
    }

    fn begin(&mut self, library: &'l Library, options: &CuptiSamplerOptions, chosen: &Chosen) {
        self.begun = monotonic_nanoseconds();
        let begun = if links::is_of_this_kind(self.chip.as_bytes()) {
            self.select(chosen.refused(&of_links_alone(&self.chip)));
            LinksGpu::start(library, &self.device, self.begun).map(|gpu| Reading::Links(Box::new(gpu)))
        } else {
            PmPlan::new(library, &self.device, chosen).and_then(|plan| {
                self.select(plan.selection().clone());
                let nanoseconds = |of: Duration| u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
                let intervals = (nanoseconds(options.sample_interval), nanoseconds(options.interval));
                PmGpu::start(library, &self.device, plan, intervals).map(|gpu| Reading::Pm(Box::new(gpu)))
            })
        };
        self.reading = begun.unwrap_or_else(|failed| Reading::Failed(self.begun, failed));
    }

    fn select(&mut self, selection: Selection) {
        if self.selection.0 != selection {
            self.selection = (selection, false);
        }
    }

    /// What is sampled of chosen metrics, where the parent does not have it.
    fn unreported(&mut self) -> Option<CuptiMetrics> {
        if std::mem::replace(&mut self.selection.1, true) {
            return None;
        }
        Some(planned(&self.device, &self.chip, self.selection.0.clone()))
    }

    fn failed(&self) -> Option<CuptiError> {
        match self.reading {
            Reading::Failed(_, failed) => Some(failed),
            Reading::Pm(_) | Reading::Links(_) => None,
        }
    }

    /// Whether it may be readable later: another has it, or it was readable before.
    fn may_come(&self) -> bool {
        !self.failed().is_some_and(|failed| is_final(failed.code))
    }

    fn is_due(&self, now: i64) -> bool {
        let pause = i64::try_from(RETRY.as_nanos()).unwrap_or(i64::MAX);
        matches!(self.reading, Reading::Failed(since, _) if now - since >= pause) && self.may_come()
    }

    /// Takes what was sampled into the sums. A failure gives the GPU back.
    fn decode(&mut self) {
        let decoded = match &mut self.reading {
            Reading::Pm(gpu) => gpu.decode(),
            Reading::Links(_) | Reading::Failed(..) => Ok(()),
        };
        self.give_back_if_failed(decoded);
    }

    fn give_back_if_failed(&mut self, result: Result<(), CuptiError>) {
        if let Err(failed) = result {
            self.reading = Reading::Failed(monotonic_nanoseconds(), failed);
        }
    }

    fn poll(&mut self) -> CuptiGpu {
        self.decode();
        let now = monotonic_nanoseconds();
        let read = match &mut self.reading {
            Reading::Links(gpu) => gpu.read(now),
            Reading::Pm(_) | Reading::Failed(..) => Ok(()),
        };
        self.give_back_if_failed(read);
        let mut reported = CuptiGpu {
            uuid: self.device.uuid.clone(),
            index: self.device.index,
            chip: self.chip.clone(),
            monotonic_nanoseconds: now,
            begun_nanoseconds: self.begun,
            ..CuptiGpu::default()
        };
        match &mut self.reading {
            Reading::Failed(_, failed) => {
                reported.code = failed.code;
                reported.problem = format!("{failed}; {}", failed.remedy());
            }
            Reading::Links(gpu) => {
                let links = gpu.sums.iter().zip(0..);
                reported.links = links
                    .map(|([transmit, receive], link)| LinkBytes {
                        link,
                        transmit: *transmit,
                        receive: *receive,
                    })
                    .collect();
                reported.by_links = true;
            }
            Reading::Pm(gpu) => {
                // Rates are far below 2^63, and whole bytes are reported.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let whole = |value: f64| value as u64;
                let sums = gpu.sums.of.iter().zip(0..).filter_map(|(sum, quantity)| {
                    sum.map(|sum| QuantitySum { quantity, bytes: sum.bytes, peak: whole(sum.peak) })
                });
                reported.sums = sums.collect();
                reported.samples = gpu.sums.samples;
                reported.void_samples = gpu.sums.void;
                reported.overflows = gpu.sums.overflows;
                reported.metrics = gpu.gathering.report();
                gpu.sums.begin_peaks();
            }
        }
        reported
    }
}

/// Returns true after an order to end, false after a problem was reported, an error when nobody listens any more.
fn run(options: &CuptiSamplerOptions, out: &mut FrameWriter<File>) -> io::Result<bool> {
    let begin = monotonic_nanoseconds();
    let library = match Library::open(&options.cuda, &options.cupti) {
        Ok(library) => library,
        Err(error) => {
            let kind = match error {
                OpenError::Missing { .. } => ProblemKind::LibraryMissing,
                _ => ProblemKind::LibraryUnusable,
            };
            return problem(out, kind, error.to_string());
        }
    };
    let devices = match library.start() {
        Ok(devices) => devices,
        Err(failed) => {
            return problem(
                out,
                kind_of(failed),
                format!("CUPTI does not start: {failed}; {}", failed.remedy()),
            );
        }
    };
    let chosen = Chosen::new(options.groups.clone());
    let mut gpus: Vec<Gpu<'_>> =
        devices.into_iter().map(|device| Gpu::new(&library, device, options, &chosen)).collect();
    let hello = CuptiHello {
        cupti_version: library.version(),
        cuda_version: library.driver_version(),
        start_nanoseconds: u64::try_from(monotonic_nanoseconds() - begin).unwrap_or(0),
    };
    out.write(&Frame { body: Some(Body::CuptiHello(hello)) })?;
    if gpus.is_empty() {
        return problem(out, ProblemKind::NoGpu, "CUDA works and there is no GPU".to_owned());
    }
    let mut overruns = 0;
    let (step, interval) = (options.interval.min(DECODE_INTERVAL), nanoseconds(options.interval));
    let mut next = monotonic_nanoseconds() + interval;
    loop {
        for planned in gpus.iter_mut().filter_map(Gpu::unreported) {
            out.write(&Frame { body: Some(Body::CuptiMetrics(planned)) })?;
        }
        if !gpus.iter().any(Gpu::may_come) {
            let failed = gpus.iter().find_map(Gpu::failed).unwrap_or(CuptiError { call: "cuInit", code: 0 });
            return problem(
                out,
                kind_of(failed),
                format!("no GPU can be sampled: {failed}; {}", failed.remedy()),
            );
        }
        let now = monotonic_nanoseconds();
        if signalled_to_end(Duration::from_nanos(u64::try_from(next - now).unwrap_or(0)).min(step)) {
            let begin = monotonic_nanoseconds();
            drop(gpus);
            let end_nanoseconds = u64::try_from(monotonic_nanoseconds() - begin).unwrap_or(0);
            out.write(&Frame { body: Some(Body::CuptiBye(CuptiBye { end_nanoseconds })) })?;
            return Ok(true);
        }
        let now = monotonic_nanoseconds();
        gpus.iter_mut().filter(|gpu| gpu.is_due(now)).for_each(|gpu| gpu.begin(&library, options, &chosen));
        if now < next {
            gpus.iter_mut().for_each(Gpu::decode);
            continue;
        }
        let mut poll = CuptiPoll { gpus: gpus.iter_mut().map(Gpu::poll).collect(), ..CuptiPoll::default() };
        poll.elapsed_nanoseconds = u64::try_from(monotonic_nanoseconds() - now).unwrap_or(0);
        poll.overruns = overruns;
        out.write(&Frame { body: Some(Body::CuptiPoll(poll)) })?;
        let missed = (monotonic_nanoseconds() - next) / interval;
        overruns += missed.unsigned_abs();
        next += (missed + 1) * interval;
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX / 4)
}

fn kind_of(failed: CuptiError) -> ProblemKind {
    match failed.code {
        INSUFFICIENT_PRIVILEGES => ProblemKind::NotPermitted,
        FUNCTION_NOT_FOUND => ProblemKind::LibraryUnusable,
        code if is_final(code) => ProblemKind::NotSupported,
        HARDWARE_BUSY => ProblemKind::Unreadable,
        _ => ProblemKind::DriverUnavailable,
    }
}

fn problem(out: &mut FrameWriter<File>, kind: ProblemKind, text: String) -> io::Result<bool> {
    out.write(&Frame { body: Some(Body::Problem(Problem { kind: kind.into(), text })) })?;
    Ok(false)
}

/// Waits, but not longer than until the parent says the end or has closed standard input.
fn signalled_to_end(wait: Duration) -> bool {
    let input = io::stdin();
    let mut watched = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    let milliseconds = u16::try_from(wait.as_millis() + 1).unwrap_or(u16::MAX);
    if !matches!(nix::poll::poll(&mut watched, PollTimeout::from(milliseconds)), Ok(1..)) {
        return false;
    }
    let mut byte = [0];
    match nix::unistd::read(&input, &mut byte) {
        Ok(1) => byte[0] == QUIT,
        Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => false,
        _ => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_the_way_to_the_child_and_wrong_ones_are_named() {
        let options = CuptiSamplerOptions {
            cuda: "libcuda.so.1".into(),
            cupti: "/opt/libcupti.so.13".into(),
            interval: Duration::from_millis(250),
            sample_interval: Duration::from_millis(2),
            parent: 42,
            groups: vec![MetricGroup {
                metrics: vec!["sm__cycles_active.avg".into()],
                interval: Duration::from_secs(1),
            }],
        };
        assert_eq!(CuptiSamplerOptions::from_arguments(options.to_arguments()), Ok(options.clone()));
        let mut arguments = options.to_arguments();
        arguments[5] = "soon".into();
        let wrong = CuptiSamplerOptions::from_arguments(arguments.clone()).unwrap_err();
        assert!(wrong.to_string().contains("group of metrics"));
        arguments.truncate(4);
        let missing = CuptiSamplerOptions::from_arguments(arguments.clone()).unwrap_err();
        assert!(missing.to_string().contains("parent is missing"));
        arguments[2] = "soon".into();
        let wrong = CuptiSamplerOptions::from_arguments(arguments).unwrap_err();
        assert!(wrong.to_string().contains("interval soon is no number"));
    }
}
