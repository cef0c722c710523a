//! One reading of all counters, in buffers that are used again: no allocation in the steady state.
//!
//! Runs in the sampler. Raw values only; see `convert` for their meaning.

use nix::time::{ClockId, clock_gettime};

use crate::code::Code;
use crate::field::{self, FieldValue, value_type};
use crate::frame::{GpuPoll, Poll, RawField};
use crate::nvml::Gpu;
use crate::unfold::{PcieUnfold, read_interval_nanoseconds};

/// Stands in for the code of a field that NVML left alone; no code of NVML.
pub const NOT_ANSWERED: u32 = u32::MAX;

/// The rate assumed for a slot that does not tell its own: Gen5 x16.
const PCIE_BYTES_PER_SECOND_IF_UNKNOWN: u64 = 63_008_000_000;

/// How one GPU is polled.
pub struct GpuPlan<'l, 's> {
    /// Which GPU.
    pub gpu: Gpu<'l, 's>,
    /// Its UUID, to carry sums over a new survey.
    pub uuid: String,
    /// State of each link.
    pub states: Vec<FieldValue>,
    /// Whether states come as fields; else by a call for each link.
    pub states_by_field: bool,
    /// Byte counters of all links.
    pub bytes: Vec<FieldValue>,
    /// Error counters of all links.
    pub errors: Vec<FieldValue>,
    /// PCIe, transmit and receive.
    pub pcie: [FieldValue; 2],
    /// Rate of the slot.
    pub pcie_bytes_per_second: Option<u64>,
    /// Sums of a PCIe counter of 32 bits.
    pub unfold: PcieUnfold,
    /// Whether the PCIe counter has 32 bits and must be read more often.
    pub pcie_is_narrow: bool,
}

impl<'l, 's> GpuPlan<'l, 's> {
    /// A plan that reads nothing.
    pub fn new(gpu: Gpu<'l, 's>) -> Self {
        Self {
            gpu,
            uuid: String::new(),
            states: Vec::new(),
            states_by_field: false,
            bytes: Vec::new(),
            errors: Vec::new(),
            pcie: [FieldValue::default(); 2],
            pcie_bytes_per_second: None,
            unfold: PcieUnfold::default(),
            pcie_is_narrow: false,
        }
    }

    /// How often PCIe must be read between ticks; `None` when once a tick is enough.
    pub fn pcie_interval_nanoseconds(&self) -> Option<u64> {
        self.pcie_is_narrow.then(|| read_interval_nanoseconds(self.slot_rate()))
    }

    fn slot_rate(&self) -> u64 {
        self.pcie_bytes_per_second.unwrap_or(PCIE_BYTES_PER_SECOND_IF_UNKNOWN)
    }

    /// Reads PCIe, unfolding a 32-bit counter in place. Gives the time of the reading.
    pub fn read_pcie(&mut self, unfolds: bool) -> i64 {
        let ((), at) = timed(|| read(&self.gpu, &mut self.pcie));
        let [transmitted, received] = &mut self.pcie;
        self.pcie_is_narrow = false;
        let narrow = |value: &FieldValue| value.value_type == value_type::UNSIGNED_INT;
        let (Some(sent), Some(got)) = (transmitted.unsigned(), received.unsigned()) else { return at };
        if !(narrow(transmitted) && narrow(received)) {
            return at;
        }
        if !unfolds {
            transmitted.code = Code::PCIE_COUNTER_TOO_NARROW.0;
            received.code = Code::PCIE_COUNTER_TOO_NARROW.0;
            return at;
        }
        self.pcie_is_narrow = true;
        let rate = self.pcie_bytes_per_second.unwrap_or(PCIE_BYTES_PER_SECOND_IF_UNKNOWN);
        // Both fit: their type has 32 bits.
        let (sent, got) = self.unfold.read(at, sent as u32, got as u32, rate);
        for (value, sum) in [(transmitted, sent), (received, got)] {
            value.value_type = value_type::UNSIGNED_LONG_LONG;
            value.bits = sum;
        }
        at
    }

    fn read_states(&mut self) {
        if self.states_by_field {
            return read(&self.gpu, &mut self.states);
        }
        for value in &mut self.states {
            value.value_type = value_type::UNSIGNED_LONG_LONG;
            (value.code, value.bits) = match self.gpu.link_state(value.scope) {
                Ok(state) => (Code::SUCCESS.0, u64::from(state)),
                Err(code) => (code.0, 0),
            };
        }
    }

    fn poll(&mut self, into: &mut GpuPoll, unfolds: bool) {
        let ((), at) = timed(|| read(&self.gpu, &mut self.bytes));
        into.links_monotonic_nanoseconds = at;
        read(&self.gpu, &mut self.errors);
        self.read_states();
        let links = self.states.iter().chain(&self.bytes).chain(&self.errors);
        into.link_fields.clear();
        into.link_fields.extend(links.map(|value| RawField::from(*value)));
        into.pcie_monotonic_nanoseconds = self.read_pcie(unfolds);
        into.pcie_fields.clear();
        into.pcie_fields.extend(self.pcie.iter().map(|value| RawField::from(*value)));
        into.pcie_restarts = self.unfold.restarts();
    }
}

/// Reads all GPUs into `poll`.
pub fn poll_all(plans: &mut [GpuPlan<'_, '_>], poll: &mut Poll, unfolds: bool) {
    let begin = monotonic_nanoseconds();
    poll.gpus.resize_with(plans.len(), GpuPoll::default);
    for (plan, into) in plans.iter_mut().zip(&mut poll.gpus) {
        plan.poll(into, unfolds);
    }
    poll.elapsed_nanoseconds = u64::try_from(monotonic_nanoseconds() - begin).unwrap_or(0);
}

/// Whether a poll read anything at all.
pub fn read_something(poll: &Poll) -> bool {
    let fields = poll.gpus.iter().flat_map(|gpu| gpu.link_fields.iter().chain(&gpu.pcie_fields));
    fields.into_iter().any(|value| Code(value.code) == Code::SUCCESS)
}

/// Whether the links that are up are others than in the poll before.
pub fn states_differ(before: &[Vec<u64>], poll: &Poll) -> bool {
    before.len() != poll.gpus.len()
        || poll.gpus.iter().zip(before).any(|(gpu, before)| !states(gpu).eq(before.iter().copied()))
}

/// The states of one GPU's links, for [`states_differ`].
pub fn states(gpu: &GpuPoll) -> impl Iterator<Item = u64> + '_ {
    let states = gpu.link_fields.iter().filter(|value| value.field == field::LINK_STATE);
    states.map(|value| value.unsigned().unwrap_or(u64::MAX))
}

/// Reads a family; where the call as a whole fails, every field carries its code.
fn read(gpu: &Gpu<'_, '_>, fields: &mut [FieldValue]) {
    for value in fields.iter_mut() {
        // NVML leaves a field it does not know alone: what the last reading left there must not pass for new.
        (value.code, value.bits) = (NOT_ANSWERED, 0);
    }
    if let Err(code) = gpu.read_fields(fields) {
        for value in fields {
            value.code = code.0;
        }
    }
}

/// Runs a reading and gives the monotonic time in its middle.
fn timed<T>(reading: impl FnOnce() -> T) -> (T, i64) {
    let begin = monotonic_nanoseconds();
    let result = reading();
    (result, begin + (monotonic_nanoseconds() - begin) / 2)
}

/// `CLOCK_MONOTONIC`, which all processes of a machine share.
pub fn monotonic_nanoseconds() -> i64 {
    // Can't fail on Linux: the clock exists since 2.6 and the pointer is nix's own.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}
