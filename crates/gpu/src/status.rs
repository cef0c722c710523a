//! What a source can say about itself: its state, why it ended before, and counts of all that was lost.
//!
//! Numbers only; the agent puts them into `/metrics` and `self_stats`.

use std::collections::BTreeMap;

use crate::frame::{ProblemKind, Refusal};

/// What the source is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The sampler has been started and has not yet read anything.
    #[default]
    Starting,
    /// Readings arrive.
    Running,
    /// There is no such library: a node without that software. Looked for again now and then.
    LibraryMissing,
    /// The library is too old or another one.
    LibraryUnusable,
    /// The driver refuses: not loaded, of another version, no permission.
    DriverUnavailable,
    /// The library works and there is no GPU.
    NoGpu,
    /// The sampler ended badly and is started anew after a pause.
    BackingOff,
    /// Another profiler has every GPU; they are tried again.
    Busy,
    /// It gives way to somebody's profiler.
    Paused,
    /// The driver refuses this user.
    NotPermitted,
    /// No GPU of this node can be read in this way.
    NotSupported,
    /// The sampler was killed and does not go away: the driver holds it. No second one is started.
    Wedged,
}

impl State {
    /// Name for people and labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::LibraryMissing => "library_missing",
            State::LibraryUnusable => "library_unusable",
            State::DriverUnavailable => "driver_unavailable",
            State::NoGpu => "no_gpu",
            State::BackingOff => "backing_off",
            State::Busy => "busy",
            State::Paused => "paused",
            State::NotPermitted => "not_permitted",
            State::NotSupported => "not_supported",
            State::Wedged => "wedged",
        }
    }
}

/// How one sampler's life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It could not be started.
    SpawnFailed,
    /// It died of a signal, or ended without a reason.
    Crashed,
    /// Somebody else killed it: the kernel for want of memory, or a person.
    Killed,
    /// It said nothing for longer than the deadline and was killed.
    Silent,
    /// It used too much processor time without a reading and was killed.
    ProcessorTime,
    /// It occupied too much memory and was killed.
    Memory,
    /// It sent what is no frame and was killed.
    BadFrame,
    /// No library.
    LibraryMissing,
    /// Library too old or another one.
    LibraryUnusable,
    /// The driver refused.
    DriverUnavailable,
    /// No GPU.
    NoGpu,
    /// Nothing could be read any more.
    Unreadable,
    /// The driver refuses this user.
    NotPermitted,
    /// No GPU can be read in this way.
    NotSupported,
    /// The source was dropped.
    Stopped,
}

impl End {
    /// Name for people and labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            End::SpawnFailed => "spawn_failed",
            End::Crashed => "crashed",
            End::Killed => "killed",
            End::Silent => "silent",
            End::ProcessorTime => "processor_time",
            End::Memory => "memory",
            End::BadFrame => "bad_frame",
            End::LibraryMissing => "library_missing",
            End::LibraryUnusable => "library_unusable",
            End::DriverUnavailable => "driver_unavailable",
            End::NoGpu => "no_gpu",
            End::Unreadable => "unreadable",
            End::NotPermitted => "not_permitted",
            End::NotSupported => "not_supported",
            End::Stopped => "stopped",
        }
    }

    /// The state to show until the next sampler starts.
    pub(crate) fn state_after(self) -> State {
        match self {
            End::LibraryMissing => State::LibraryMissing,
            End::LibraryUnusable => State::LibraryUnusable,
            End::DriverUnavailable => State::DriverUnavailable,
            End::NoGpu => State::NoGpu,
            End::NotPermitted => State::NotPermitted,
            End::NotSupported => State::NotSupported,
            End::SpawnFailed
            | End::Crashed
            | End::Killed
            | End::Silent
            | End::ProcessorTime
            | End::Memory
            | End::BadFrame
            | End::Unreadable
            | End::Stopped => State::BackingOff,
        }
    }

    /// Whether the node simply has nothing to read: no fault, and looked at again at a slow pace.
    pub(crate) fn is_nothing_to_read(self) -> bool {
        matches!(
            self,
            End::LibraryMissing
                | End::LibraryUnusable
                | End::DriverUnavailable
                | End::NoGpu
                | End::NotPermitted
                | End::NotSupported
        )
    }
}

impl From<ProblemKind> for End {
    fn from(kind: ProblemKind) -> Self {
        match kind {
            ProblemKind::LibraryMissing => End::LibraryMissing,
            ProblemKind::LibraryUnusable => End::LibraryUnusable,
            ProblemKind::DriverUnavailable => End::DriverUnavailable,
            ProblemKind::NoGpu => End::NoGpu,
            ProblemKind::NotPermitted => End::NotPermitted,
            ProblemKind::NotSupported => End::NotSupported,
            ProblemKind::Other | ProblemKind::Unreadable => End::Unreadable,
        }
    }
}

/// A snapshot of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceStatus {
    /// Its state.
    pub state: State,
    /// What the last problem was or why it gives way, for people, with the remedy.
    pub detail: Option<String>,
    /// Version of the kernel driver, once known.
    pub driver_version: Option<String>,
    /// Version of the vendor's library, once known; of CUPTI what `cuptiGetVersion` says.
    pub library_version: Option<String>,
    /// Functions that newer versions of the library have and this one lacks.
    pub missing_functions: Vec<String>,
    /// What the driver refused to answer in the last survey.
    pub refusals: Vec<Refusal>,
    /// Whether GPM answers, by NVML's code, with the number of GPUs; empty where it is not to be used.
    pub gpm: BTreeMap<u32, u32>,
    /// Whether the driver reports Xids, by NVML's code, with the number of GPUs.
    pub xids: BTreeMap<u32, u32>,
    /// GPUs found.
    pub gpus: u32,
    /// GPUs of the node that could not be read when it was last looked: not even identified, or refused by CUPTI.
    pub unreadable_gpus: u32,
    /// The sampler's process, while there is one.
    pub pid: Option<u32>,
    /// Samplers started.
    pub starts: u64,
    /// How samplers ended, by reason. Giving way is none.
    pub ends: BTreeMap<End, u64>,
    /// Times that it gave way to a pause, a lease or a profiler.
    pub gave_way: u64,
    /// Samplers in a row that ended without a reading; 0 while one reads.
    pub fruitless: u32,
    /// Since when it is paused or busy, UTC nanoseconds.
    pub since: Option<i64>,
    /// When that ends by itself, UTC nanoseconds, where that is known.
    pub until: Option<i64>,
    /// Readings taken over.
    pub polls: u64,
    /// Batches that found the channel full and were dropped.
    pub dropped_batches: u64,
    /// Memory that the sampler occupied when it was last looked at.
    pub memory_bytes: u64,
    /// Bytes that samplers printed and that were neither logged nor stored.
    pub dropped_output_bytes: u64,
    /// Ticks missed because a reading took too long.
    pub overruns: u64,
    /// What could not be read, by reason, summed up over readings: values, or whole GPUs with CUPTI.
    pub absent: BTreeMap<&'static str, u64>,
    /// How long the last reading of all GPUs took.
    pub last_poll_seconds: f64,
    /// Of CUPTI: from opening the libraries until all GPUs were sampled, at the last start.
    pub start_seconds: Option<f64>,
    /// Of CUPTI: how long giving the GPUs back took, the last time that it was waited for.
    pub end_seconds: Option<f64>,
}

impl SourceStatus {
    /// Notes a reading.
    pub(crate) fn read(&mut self, overruns: u64, nanoseconds: u64, absent: &BTreeMap<&'static str, u64>) {
        self.polls += 1;
        self.overruns = overruns;
        self.last_poll_seconds = nanoseconds as f64 / 1e9;
        for (reason, count) in absent {
            *self.absent.entry(*reason).or_default() += count;
        }
    }
}
