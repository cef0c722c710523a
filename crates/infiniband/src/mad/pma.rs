//! Attributes of performance management (IBTA volume 1, 16.1). Pure: bytes in, values out.
//!
//! Field offsets are those of the specification's tables (16.1.3 mandatory, 16.1.4 optional attributes), held
//! against libibmad's field table (`libibmad/src/fields.c` of rdma-core); bits of masks against opensm's
//! `iba/ib_types.h`.

mod capability;
mod clear;
mod counter_index;
mod counters;
mod fields;
mod lanes;

pub use capability::{ClassPortInfo, Redirection, SamplesControl};
pub use clear::{CLEARABLE, CounterSelection};
pub use counter_index::{counter_index, counter_metrics};
pub use counters::{CounterUpdate, Counters};
pub use fields::PortCounterSet;
pub use lanes::{LANES, LaneCounters, lane_metrics};
