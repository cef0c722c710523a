//! The child process: opens a vendor's library, surveys, polls at an interval and writes frames to its parent.
//!
//! It may hang or crash at any call, so nothing else may run in this process. It keeps no state worth saving
//! and dies with its parent.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::{prctl, signal::Signal};
use nix::unistd;

use crate::bounds;
use crate::frame::{Body, Frame, FrameWriter, Poll, Problem, ProblemKind, Survey};
use crate::nvml::NvmlOptions;
use crate::poll::{LinkStates, is_answered, monotonic_nanoseconds};
use crate::privileges;
use crate::reader::Reader;
use crate::vendor::Vendor;

/// The hidden subcommand under which a program runs the sampler.
pub const SUBCOMMAND: &str = "gpu-sampler";

/// Consecutive readings without a single value after which the sampler gives up and is started anew.
const EMPTY_POLLS_BEFORE_GIVING_UP: u32 = 3;

/// What the sampler gets on its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerOptions {
    /// Whose library it is.
    pub vendor: Vendor,
    /// Path or name of the library.
    pub library: PathBuf,
    /// From one reading to the next.
    pub interval: Duration,
    /// From one look at what there is to the next.
    pub survey_interval: Duration,
    /// Whether a 32-bit PCIe counter is read often enough to unfold it.
    pub unfold_pcie: bool,
    /// Whether PCIe is read by GPM where its counter is too narrow.
    pub gpm: bool,
    /// The parent: without it the sampler ends.
    pub parent: u32,
}

/// A command line that is not the sampler's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{SUBCOMMAND}: {0}; this subcommand is for the agent's own use")]
pub struct BadArguments(pub(crate) String);

impl SamplerOptions {
    /// The arguments after [`SUBCOMMAND`].
    #[must_use]
    pub fn to_arguments(&self) -> Vec<OsString> {
        vec![
            "--vendor".into(),
            self.vendor.name().into(),
            "--library".into(),
            self.library.clone().into(),
            "--interval-nanoseconds".into(),
            self.interval.as_nanos().to_string().into(),
            "--survey-nanoseconds".into(),
            self.survey_interval.as_nanos().to_string().into(),
            "--unfold-pcie".into(),
            self.unfold_pcie.to_string().into(),
            "--gpm".into(),
            self.gpm.to_string().into(),
            "--parent".into(),
            self.parent.to_string().into(),
        ]
    }

    /// Reads what [`SamplerOptions::to_arguments`] wrote.
    ///
    /// # Errors
    /// Naming the argument that is missing, unknown or no number.
    pub fn from_arguments(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, BadArguments> {
        let mut given = std::collections::BTreeMap::new();
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let name = name.to_string_lossy().into_owned();
            let value = arguments.next().ok_or_else(|| BadArguments(format!("{name} has no value")))?;
            given.insert(name, value);
        }
        let mut take =
            |name: &str| given.remove(name).ok_or_else(|| BadArguments(format!("{name} is missing")));
        let named = take("--vendor")?;
        let vendor = Vendor::ALL.into_iter().find(|vendor| named == vendor.name());
        let vendor =
            vendor.ok_or_else(|| BadArguments(format!("--vendor {} is not known", named.display())))?;
        let library = PathBuf::from(take("--library")?);
        let mut number = |name: &str| {
            let value = take(name)?;
            let value = value.to_string_lossy();
            value.parse::<u64>().map_err(|_| BadArguments(format!("{name} {value} is no number")))
        };
        let interval = Duration::from_nanos(number("--interval-nanoseconds")?.max(1_000_000));
        let survey_interval = Duration::from_nanos(number("--survey-nanoseconds")?);
        let parent = u32::try_from(number("--parent")?).map_err(|_| BadArguments("--parent".into()))?;
        let unfold_pcie = take("--unfold-pcie")? == "true";
        let gpm = take("--gpm")? == "true";
        match given.into_keys().next() {
            Some(unknown) => Err(BadArguments(format!("{unknown} is not known"))),
            None => Ok(Self { vendor, library, interval, survey_interval, unfold_pcie, gpm, parent }),
        }
    }
}

/// Runs the sampler until its parent is gone or NVML can't be used; the agent's `main` calls it for
/// [`SUBCOMMAND`] with the arguments after that word, before it starts anything of its own.
///
/// Frames go to standard output. Exit status: 0 the parent is gone, 1 NVML failed (a frame says how),
/// 64 wrong arguments.
pub fn sampler_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match SamplerOptions::from_arguments(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(64);
        }
    };
    privileges::keep_for_links();
    // Level Zero is left out: what its runtime reserves is not known here.
    bounds::set((options.vendor != Vendor::LevelZero).then_some(bounds::DATA_BYTES_MAX));
    if !die_with_parent(options.parent) {
        return ExitCode::SUCCESS;
    }
    let Ok(out) = take_standard_output() else { return ExitCode::FAILURE };
    match run(&options, &mut FrameWriter::new(out)) {
        // The parent closed the pipe.
        Err(_) => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
    }
}

/// Requests a signal from the kernel at the parent's end; false when it has ended already.
pub(crate) fn die_with_parent(parent: u32) -> bool {
    let requested = prctl::set_pdeathsig(Signal::SIGKILL).is_ok();
    // A parent that ended before the call sends no signal.
    requested && u32::try_from(unistd::getppid().as_raw()) == Ok(parent)
}

/// Moves standard output to a descriptor of its own: a library that prints must not damage the frames.
pub(crate) fn take_standard_output() -> io::Result<File> {
    let frames = unistd::dup(io::stdout())?;
    unistd::dup2_stdout(io::stderr())?;
    debug_assert_ne!(frames.as_raw_fd(), 1);
    Ok(File::from(frames))
}

/// Returns `Ok` after a problem was reported, an error when nobody listens any more.
fn run(options: &SamplerOptions, out: &mut FrameWriter<File>) -> io::Result<()> {
    let choices = NvmlOptions { unfold_pcie: options.unfold_pcie, gpm: options.gpm };
    match options.vendor.with_reader(&options.library, choices, &mut |reader| sample(options, reader, out)) {
        Ok(ended) => ended,
        Err((kind, text)) => problem(out, kind, text),
    }
}

fn problem(out: &mut FrameWriter<File>, kind: ProblemKind, text: String) -> io::Result<()> {
    out.write(&Frame { body: Some(Body::Problem(Problem { kind: kind.into(), text })) })
}

/// What a survey has found that ended in such a problem; `None` where that is not known.
fn nothing_found(kind: ProblemKind) -> Option<Survey> {
    match kind {
        ProblemKind::NoGpu => Some(Survey::default()),
        // GPUs are listed, and none of them can be identified.
        ProblemKind::Unreadable => Some(Survey { unreadable: 1, ..Survey::default() }),
        _ => None,
    }
}

/// The loop of surveys and polls.
fn sample(options: &SamplerOptions, reader: &mut dyn Reader, out: &mut FrameWriter<File>) -> io::Result<()> {
    out.write(&Frame { body: Some(Body::Hello(reader.hello())) })?;
    let mut schedule = Schedule::new(options);
    let mut frame = Frame { body: Some(Body::Poll(Poll::default())) };
    let mut states = LinkStates::default();
    let mut survey_due = true;
    let mut empty_polls = 0;
    let mut orders = Orders { open: true };
    let mut is_tick = true;
    loop {
        if survey_due || schedule.survey_is_due() {
            match reader.survey() {
                Ok(found) => out.write(&Frame { body: Some(Body::Survey(found)) })?,
                Err((kind, text)) => {
                    if let Some(found) = nothing_found(kind) {
                        out.write(&Frame { body: Some(Body::Survey(found)) })?;
                    }
                    return problem(out, kind, text);
                }
            }
            schedule.surveyed();
        }
        let Some(Body::Poll(poll)) = &mut frame.body else { return Ok(()) };
        reader.poll(poll);
        poll.overruns = schedule.overruns;
        survey_due = states.changed(poll) || reader.has_changed();
        empty_polls = if is_answered(poll) { 0 } else { empty_polls + 1 };
        out.write(&frame)?;
        if empty_polls >= EMPTY_POLLS_BEFORE_GIVING_UP {
            let text = format!(
                "no value could be read {empty_polls} times running; see the vendor's own tool on this node"
            );
            return problem(out, ProblemKind::Unreadable, text);
        }
        if is_tick {
            schedule.advance();
        }
        is_tick = loop {
            match schedule.wait(reader, &mut orders) {
                None => break true,
                Some(Order::Sample) => break false,
                Some(Order::Processes) => {
                    out.write(&Frame { body: Some(Body::Processes(reader.processes())) })?;
                }
            }
        };
    }
}

/// What the parent requests beside the ticks: one byte each on standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// A reading now.
    Sample = b's',
    /// The processes on each GPU now.
    Processes = b'p',
}

/// Standard input.
struct Orders {
    /// False once nobody can write there any more.
    open: bool,
}

impl Orders {
    /// Sleeps, but not longer than until something is ordered.
    fn within(&mut self, nanoseconds: i64) -> Option<Order> {
        let pause = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
        if !self.open {
            std::thread::sleep(pause);
            return None;
        }
        let input = io::stdin();
        let mut watched = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        // Up to a millisecond early, never late; the rest is slept.
        let milliseconds = i32::try_from(pause.as_millis()).unwrap_or(i32::MAX);
        let begin = std::time::Instant::now();
        match nix::poll::poll(&mut watched, PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)) {
            Ok(0) => {
                std::thread::sleep(pause.saturating_sub(begin.elapsed()));
                return None;
            }
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut byte = [0];
        match unistd::read(&input, &mut byte) {
            Ok(1) if byte[0] == Order::Sample as u8 => Some(Order::Sample),
            Ok(1) if byte[0] == Order::Processes as u8 => Some(Order::Processes),
            Ok(1) | Err(Errno::EINTR | Errno::EAGAIN) => None,
            _ => {
                self.open = false;
                None
            }
        }
    }
}

/// When to read what, on the monotonic clock.
struct Schedule {
    interval: i64,
    survey_interval: i64,
    next_tick: i64,
    next_survey: i64,
    overruns: u64,
}

impl Schedule {
    fn new(options: &SamplerOptions) -> Self {
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX / 4);
        let now = monotonic_nanoseconds();
        let interval = nanoseconds(options.interval);
        // The first reading is at once; from then on each sampler has a phase of its own, so that a thousand
        // nodes started together do not all read, and send, at the same instant.
        let phase = (now ^ i64::from(std::process::id())).rem_euclid(1009) * interval / 1009;
        Self {
            interval,
            survey_interval: nanoseconds(options.survey_interval),
            next_tick: now + phase - interval,
            next_survey: now,
            overruns: 0,
        }
    }

    fn survey_is_due(&self) -> bool {
        monotonic_nanoseconds() >= self.next_survey
    }

    fn surveyed(&mut self) {
        self.next_survey = monotonic_nanoseconds().saturating_add(self.survey_interval);
    }

    /// Sets the next tick, leaving out those that have passed.
    fn advance(&mut self) {
        let now = monotonic_nanoseconds();
        if now > self.next_tick + self.interval {
            let missed = (now - self.next_tick) / self.interval;
            self.overruns += missed.unsigned_abs();
            self.next_tick += missed * self.interval;
        }
        self.next_tick += self.interval;
    }

    /// Sleeps until the next tick, reading in between what wraps sooner, or until something is ordered.
    fn wait(&self, reader: &mut dyn Reader, orders: &mut Orders) -> Option<Order> {
        loop {
            let now = monotonic_nanoseconds();
            let until = match reader.between().and_then(|step| i64::try_from(step.as_nanos()).ok()) {
                Some(step) => self.next_tick.min(now.saturating_add(step)),
                None => self.next_tick,
            };
            if let Some(order) = orders.within(until - now) {
                return Some(order);
            }
            if monotonic_nanoseconds() >= self.next_tick {
                return None;
            }
            reader.read_between();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SamplerOptions {
        SamplerOptions {
            vendor: Vendor::LevelZero,
            library: "libnvidia-ml.so.1".into(),
            interval: Duration::from_millis(1500),
            survey_interval: Duration::from_secs(60),
            unfold_pcie: true,
            gpm: false,
            parent: 42,
        }
    }

    #[test]
    fn arguments_survive_the_way_to_the_child() {
        let arguments = options().to_arguments();
        assert_eq!(SamplerOptions::from_arguments(arguments), Ok(options()));
    }

    #[test]
    fn wrong_arguments_are_named() {
        let refused = |change: &dyn Fn(&mut Vec<OsString>)| {
            let mut arguments = options().to_arguments();
            change(&mut arguments);
            SamplerOptions::from_arguments(arguments).unwrap_err().to_string()
        };
        assert!(refused(&|list| list.truncate(12)).contains("--parent is missing"));
        assert!(refused(&|list| list.truncate(13)).contains("--parent has no value"));
        assert!(
            refused(&|list| list[5] = "soon".into()).contains("--interval-nanoseconds soon is no number")
        );
        assert!(refused(&|list| list.extend(["--x".into(), "1".into()])).contains("--x is not known"));
    }
}
