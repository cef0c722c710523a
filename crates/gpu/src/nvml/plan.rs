//! One reading of all counters, in buffers that are used again: no allocation in the steady state.
//!
//! Runs in the sampler. Raw values only; see `convert` for their meaning.

use super::Gpu;
use super::gpm::GpmPcie;
use super::unfold::{PcieUnfold, read_interval_nanoseconds};
use crate::code::Code;
use crate::field::{FieldValue, value_type};
use crate::frame::{GpuPoll, PartSurvey, RawField};
use crate::poll::{NOT_ANSWERED, timed};

/// Families that report a link's health change slowly and are many fields: each is read in one poll of so many.
const HEALTH_EVERY: u64 = 10;
/// From one health family to the next, so that no poll reads all of them.
const HEALTH_STEP: u64 = 3;

/// The rate assumed for a slot that does not report its own: Gen5 x16.
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
    /// Families of a link's health: further errors, bit error ratios, forward error correction, C2C.
    pub health: Vec<Vec<FieldValue>>,
    /// Times in which the GPU was slowed down; none where it does not say.
    pub slowed: Vec<FieldValue>,
    /// Polls so far; the first one reads every family.
    pub turn: u64,
    /// PCIe, transmit and receive.
    pub pcie: [FieldValue; 2],
    /// PCIe by GPM, in the place of narrow counters.
    pub gpm: Option<GpmPcie>,
    /// The partitions, to know which one a process runs on.
    pub parts: Vec<PartSurvey>,
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
            health: Vec::new(),
            slowed: Vec::new(),
            turn: 0,
            gpm: None,
            parts: Vec::new(),
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

    /// Puts what GPM counts in the place of counters that are too narrow, where the GPU and the site allow it.
    fn read_gpm(&mut self, into: &mut GpuPoll) {
        let rate = self.slot_rate();
        let Some(gpm) = &mut self.gpm else { return };
        let (sums, at) = timed(|| gpm.read(&self.gpu, rate));
        into.pcie_monotonic_nanoseconds = at;
        into.pcie_by_gpm = true;
        let answers = match sums {
            Ok(sums) => sums.map(|sum| (Code::SUCCESS.0, sum)),
            Err(code) => [(code.0, 0); 2],
        };
        for (value, (code, bits)) in self.pcie.iter_mut().zip(answers) {
            (value.code, value.bits, value.value_type) = (code, bits, value_type::UNSIGNED_LONG_LONG);
        }
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

    /// Reads everything that is due into `into`.
    pub fn poll(&mut self, into: &mut GpuPoll, unfolds: bool) {
        let ((), at) = timed(|| read(&self.gpu, &mut self.bytes));
        into.links_monotonic_nanoseconds = at;
        read(&self.gpu, &mut self.errors);
        self.read_states();
        let links = self.states.iter().chain(&self.bytes).chain(&self.errors);
        into.link_fields.clear();
        into.link_fields.extend(links.map(|value| RawField::from(*value)));
        for (place, family) in (0..).zip(&mut self.health) {
            if self.turn == 0 || (self.turn + place * HEALTH_STEP).is_multiple_of(HEALTH_EVERY) {
                read(&self.gpu, family);
                into.link_fields.extend(family.iter().map(|value| RawField::from(*value)));
            }
        }
        into.slowed_fields.clear();
        if self.turn.is_multiple_of(HEALTH_EVERY) {
            read(&self.gpu, &mut self.slowed);
            into.slowed_fields.extend(self.slowed.iter().map(|value| RawField::from(*value)));
        }
        self.turn += 1;
        into.pcie_monotonic_nanoseconds = self.read_pcie(unfolds);
        into.pcie_by_gpm = false;
        if Code(self.pcie[0].code) == Code::PCIE_COUNTER_TOO_NARROW {
            self.read_gpm(into);
        }
        into.pcie_fields.clear();
        into.pcie_fields.extend(self.pcie.iter().map(|value| RawField::from(*value)));
        into.pcie_restarts = self.unfold.restarts();
    }
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
