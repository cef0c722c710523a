//! What the sampler of CUPTI sends to its parent, beside what every sampler sends.

use prost::Message;

/// The libraries in use, and what the start cost.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CuptiHello {
    /// `cuptiGetVersion`.
    #[prost(uint32, tag = "1")]
    pub cupti_version: u32,
    /// CUDA's version by the driver, for instance 13000.
    #[prost(int32, optional, tag = "2")]
    pub cuda_version: Option<i32>,
    /// From opening the libraries until every GPU that can be read was.
    #[prost(uint64, tag = "3")]
    pub start_nanoseconds: u64,
}

/// The sampler ends by an order, and has given every GPU back.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CuptiBye {
    /// What giving them back took.
    #[prost(uint64, tag = "1")]
    pub end_nanoseconds: u64,
}

/// One reading of all GPUs.
#[derive(Clone, PartialEq, Message)]
pub struct CuptiPoll {
    /// In CUDA's order.
    #[prost(message, repeated, tag = "1")]
    pub gpus: Vec<CuptiGpu>,
    /// How long the reading took; without what was decoded between the ticks.
    #[prost(uint64, tag = "2")]
    pub elapsed_nanoseconds: u64,
    /// Ticks missed since the sampler's start because a reading took longer than the interval.
    #[prost(uint64, tag = "3")]
    pub overruns: u64,
}

/// One GPU.
#[derive(Clone, PartialEq, Message)]
pub struct CuptiGpu {
    /// `GPU-` and a UUID.
    #[prost(string, tag = "1")]
    pub uuid: String,
    /// CUDA's index.
    #[prost(uint32, tag = "2")]
    pub index: u32,
    /// Its chip, empty if unknown.
    #[prost(string, tag = "3")]
    pub chip: String,
    /// 0 while it is read, else the code of the call that failed.
    #[prost(uint32, tag = "4")]
    pub code: u32,
    /// That call, for people, with the remedy.
    #[prost(string, tag = "5")]
    pub problem: String,
    /// `CLOCK_MONOTONIC` of this reading.
    #[prost(int64, tag = "6")]
    pub monotonic_nanoseconds: i64,
    /// `CLOCK_MONOTONIC` at which its sums began.
    #[prost(int64, tag = "7")]
    pub begun_nanoseconds: i64,
    /// What PM Sampling gave.
    #[prost(message, repeated, tag = "8")]
    pub sums: Vec<QuantitySum>,
    /// Samples in the sums.
    #[prost(uint64, tag = "9")]
    pub samples: u64,
    /// Samples that held no number.
    #[prost(uint64, tag = "10")]
    pub void_samples: u64,
    /// Times that the GPU's buffer was full.
    #[prost(uint64, tag = "11")]
    pub overflows: u64,
    /// What the Metric API gave.
    #[prost(message, repeated, tag = "12")]
    pub links: Vec<LinkBytes>,
    /// Whether this is the Metric API.
    #[prost(bool, tag = "13")]
    pub by_links: bool,
}

/// The sum of one quantity.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct QuantitySum {
    /// Place in `Quantity::ALL`.
    #[prost(uint32, tag = "1")]
    pub quantity: u32,
    /// Bytes since the sums began.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Highest rate in one sample since the last reading, bytes per second.
    #[prost(uint64, tag = "3")]
    pub peak: u64,
}

/// Bytes over one link since the sums began.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LinkBytes {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub link: u32,
    /// Sent.
    #[prost(uint64, tag = "2")]
    pub transmit: u64,
    /// Received.
    #[prost(uint64, tag = "3")]
    pub receive: u64,
}
