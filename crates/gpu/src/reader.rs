//! What a sampler reads: one face for every vendor's library.
//!
//! A reader lives in the sampler's process, the only place where a vendor's library is called. It gives raw values;
//! their meaning is `convert`'s work. Field numbers are NVML's (see `field`), to which other vendors' are mapped.

use std::time::Duration;

use crate::code::Code;
use crate::frame::{GpuProcesses, Hello, Poll, ProblemKind, Processes, Survey};

/// What ends the sampler: its kind, and words for people with the remedy.
pub type GivenUp = (ProblemKind, String);

/// A vendor's library, open and initialised.
pub trait Reader {
    /// What the library says about itself.
    fn hello(&self) -> Hello;

    /// Looks at what there is; polls follow it from now on.
    ///
    /// # Errors
    /// Where nothing can be read at all.
    fn survey(&mut self) -> Result<Survey, GivenUp>;

    /// Reads all counters, in the order of the last survey. In the steady state, while the survey stays the same,
    /// it allocates nothing.
    fn poll(&mut self, poll: &mut Poll);

    /// Whether another survey would find more or fewer GPUs: one answers that the last one could not read, or the library lists
    /// another number. Looked at after each poll.
    fn has_changed(&mut self) -> bool {
        false
    }

    /// How soon something must be read before the next tick.
    fn between(&self) -> Option<Duration> {
        None
    }

    /// Reads what [`Reader::between`] is about.
    fn read_between(&mut self) {}

    /// The processes on each GPU.
    fn processes(&mut self) -> Processes;
}

/// The answer of a library that does not report which processes are on its GPUs.
pub(crate) fn not_reported<'u>(uuids: impl Iterator<Item = &'u String>) -> Processes {
    let unreported = |uuid: &String| GpuProcesses {
        uuid: uuid.clone(),
        code: Code::FUNCTION_NOT_FOUND.0,
        ..GpuProcesses::default()
    };
    Processes { gpus: uuids.map(unreported).collect() }
}
