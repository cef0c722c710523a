//! What all readers need for a poll: its time, and comparing it with the one before.
//!
//! Runs in the sampler. Raw values only; see `convert` for their meaning.

use nix::time::{ClockId, clock_gettime};

use crate::code::Code;
use crate::field;
use crate::frame::{GpuPoll, Poll};

/// The code of a field that a library did not set; no code of NVML.
pub const NOT_ANSWERED: u32 = u32::MAX;

/// Whether a counter of any GPU answered. One that has nothing to count answers, too: a GPU without links whose PCIe counters are
/// too narrow says so of each field. The state of a link is no counter: it can have a call of its own, which answers where
/// nothing else does.
#[must_use]
pub fn is_answered(poll: &Poll) -> bool {
    const ANSWERS: [Code; 3] = [Code::SUCCESS, Code::NOT_SUPPORTED, Code::PCIE_COUNTER_TOO_NARROW];
    let fields = poll.gpus.iter().flat_map(|gpu| gpu.link_fields.iter().chain(&gpu.pcie_fields));
    fields
        .into_iter()
        .filter(|value| value.field != field::LINK_STATE)
        .any(|value| ANSWERS.contains(&Code(value.code)))
}

/// The states of all links as of one poll, to see that one changed.
#[derive(Default)]
pub struct LinkStates {
    known: Option<Vec<Vec<u64>>>,
}

impl LinkStates {
    /// Takes a poll in; true if a link's state is another than in the one before. Allocates only when there are more
    /// GPUs or links than before.
    pub fn changed(&mut self, poll: &Poll) -> bool {
        let is_first = self.known.is_none();
        let known = self.known.get_or_insert_default();
        let differs = known.len() != poll.gpus.len()
            || poll.gpus.iter().zip(&*known).any(|(gpu, before)| !states(gpu).eq(before.iter().copied()));
        if differs {
            known.resize_with(poll.gpus.len(), Vec::new);
            for (last, gpu) in known.iter_mut().zip(&poll.gpus) {
                last.clear();
                last.extend(states(gpu));
            }
        }
        differs && !is_first
    }
}

/// The states of one GPU's links.
fn states(gpu: &GpuPoll) -> impl Iterator<Item = u64> + '_ {
    let states = gpu.link_fields.iter().filter(|value| value.field == field::LINK_STATE);
    states.map(|value| value.unsigned().unwrap_or(u64::MAX))
}

/// Runs a reading and gives the monotonic time in its middle.
pub fn timed<T>(reading: impl FnOnce() -> T) -> (T, i64) {
    let begin = monotonic_nanoseconds();
    let result = reading();
    (result, begin + (monotonic_nanoseconds() - begin) / 2)
}

/// `CLOCK_MONOTONIC`, which all processes of a machine share.
#[must_use]
pub fn monotonic_nanoseconds() -> i64 {
    // Can't fail on Linux: the clock exists since 2.6 and the pointer is nix's own.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}
