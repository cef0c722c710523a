//! CUPTI: bytes over NVLink and PCIe, sampled up to a thousand times a second.
//!
//! ```text
//!  child (sampler)                                          parent (agent)
//!  PM Sampling ── decode, sum ──┐
//!  Metric API ── links, sum ────┴─ frame ──▶ pipe ──▶ supervise ── convert ──▶ wire::Batch ──▶ channel
//! ```
//!
//! PM Sampling (Turing and later) takes a GPU's performance monitor for itself: Nsight, DCGM's profiling and CUPTI
//! exclude one another. So this source is off unless a site switches it on, and gives way: to error 26 (busy), to
//! `throughline-agent gpu pause`, to a file in its folder of leases, and to whom [`Profiling`] names. It has no values of single links. The Metric API
//! (Pascal and Volta, CUDA 12) has them, and needs a context on each GPU.

pub mod api;
pub mod chosen;
pub mod code;
pub mod convert;
pub mod links;
pub mod metrics;
pub mod pm;
pub mod sums;
pub mod wanted;

mod gathered;
mod lease;
mod nearest;
mod planned;
mod profiling;
mod refusals;
mod sampler;
mod source;

pub use crate::cupti_frame::{CuptiMetrics as PlannedMetrics, PlannedGroup, RefusedMetric};
pub use lease::Leases;
pub use planned::{METRICS_SUBCOMMAND, metrics_main, plan_of_node};
pub use profiling::Profiling;
pub use refusals::METRIC_REFUSED;
pub use sampler::{CHIPS_SUBCOMMAND, CUPTI_SUBCOMMAND, CuptiSamplerOptions, chips_main, cupti_sampler_main};
pub use source::{CuptiConfig, CuptiSource};
