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
    /// What PM Sampling gave of chosen metrics, as far as they are due in this reading.
    #[prost(message, repeated, tag = "14")]
    pub metrics: Vec<MetricReading>,
}

/// What one GPU samples of the metrics that its site chose; after each beginning.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CuptiMetrics {
    /// Its UUID.
    #[prost(string, tag = "1")]
    pub uuid: String,
    /// CUDA's index.
    #[prost(uint32, tag = "2")]
    pub index: u32,
    /// Its chip, empty if unknown.
    #[prost(string, tag = "3")]
    pub chip: String,
    /// The groups, in the order of the configuration.
    #[prost(message, repeated, tag = "4")]
    pub groups: Vec<PlannedGroup>,
    /// What is not sampled.
    #[prost(message, repeated, tag = "5")]
    pub refused: Vec<RefusedMetric>,
    /// Why nothing could be found out, empty where it could.
    #[prost(string, tag = "6")]
    pub problem: String,
}

/// Metrics that are reported at the same times.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PlannedGroup {
    /// From one report to the next.
    #[prost(uint64, tag = "1")]
    pub interval_nanoseconds: u64,
    /// Those that are sampled.
    #[prost(string, repeated, tag = "2")]
    pub metrics: Vec<String>,
    /// Passes that all of the group that the chip has would take with what is sampled before it.
    #[prost(uint32, tag = "3")]
    pub passes: u32,
}

/// A chosen metric that is not sampled.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RefusedMetric {
    /// Its name.
    #[prost(string, tag = "1")]
    pub metric: String,
    /// Why, for people.
    #[prost(string, tag = "2")]
    pub text: String,
}

/// A chosen metric as of one reading; neither sum nor value where no sample held a number.
#[derive(Clone, PartialEq, Message)]
pub struct MetricReading {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Of a metric that ends in `.sum`: since the sums began.
    #[prost(uint64, optional, tag = "2")]
    pub sum: Option<u64>,
    /// Of any other: since its last report.
    #[prost(double, optional, tag = "3")]
    pub value: Option<f64>,
    /// Samples since its last report that held no number.
    #[prost(uint64, tag = "4")]
    pub void_samples: u64,
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
