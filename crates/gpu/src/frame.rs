//! What the sampler sends to its parent: raw readings, as length-prefixed messages on a pipe.
//!
//! A frame is 4 bytes of length, little-endian, and one [`Frame`]. Both ends are the same program, so the
//! format may change with any version. Nothing is interpreted here: that is `convert`'s work.

use std::io::{self, Write};

use prost::Message;

use crate::code::Code;
use crate::cupti_frame::{CuptiBye, CuptiHello, CuptiMetrics, CuptiPoll};
use crate::field::FieldValue;

/// Largest frame accepted. A poll of 64 GPUs with 36 links and 6 fields each, and 30 of health in a first poll, stays below.
pub const MAX_FRAME_BYTES: usize = 1 << 22;

/// One message of the sampler.
#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    /// What it says.
    #[prost(oneof = "Body", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9")]
    pub body: Option<Body>,
}

/// The kinds of message.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    /// First message: the library is open and initialised.
    #[prost(message, tag = "1")]
    Hello(Hello),
    /// What there is; at the start and whenever it may have changed.
    #[prost(message, tag = "2")]
    Survey(Survey),
    /// One reading of all counters.
    #[prost(message, tag = "3")]
    Poll(Poll),
    /// Why the sampler is about to end.
    #[prost(message, tag = "4")]
    Problem(Problem),
    /// Which processes use which GPU, when that was requested.
    #[prost(message, tag = "5")]
    Processes(Processes),
    /// First message of a sampler of CUPTI.
    #[prost(message, tag = "6")]
    CuptiHello(CuptiHello),
    /// One reading of all GPUs through CUPTI.
    #[prost(message, tag = "7")]
    CuptiPoll(CuptiPoll),
    /// Last message of a sampler of CUPTI that was ordered to end.
    #[prost(message, tag = "8")]
    CuptiBye(CuptiBye),
    /// What a GPU samples of the metrics that its site chose.
    #[prost(message, tag = "9")]
    CuptiMetrics(CuptiMetrics),
}

/// The processes of all GPUs.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Processes {
    /// In NVML's order.
    #[prost(message, repeated, tag = "1")]
    pub gpus: Vec<GpuProcesses>,
}

/// The processes of one GPU.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GpuProcesses {
    /// Its UUID.
    #[prost(string, tag = "1")]
    pub uuid: String,
    /// Ids of processes with a compute context on it.
    #[prost(uint32, repeated, tag = "2")]
    pub pids: Vec<u32>,
    /// NVML's code: 0 where the list holds.
    #[prost(uint32, tag = "3")]
    pub code: u32,
    /// UUID of the GPU that this is a partition of; empty for a GPU.
    #[prost(string, tag = "4")]
    pub parent_uuid: String,
    /// N of its device file `/dev/nvidiaN`, of a partition that of its GPU; absent where the library does not say.
    #[prost(uint32, optional, tag = "5")]
    pub minor: Option<u32>,
    /// Its place on the PCI bus, of a partition that of its GPU; empty where the library does not say.
    #[prost(string, tag = "6")]
    pub pci_bus_id: String,
}

/// The library in use.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Hello {
    /// Version of the kernel driver, empty if unknown.
    #[prost(string, tag = "1")]
    pub driver_version: String,
    /// Version of the vendor's library, empty if unknown.
    #[prost(string, tag = "2")]
    pub library_version: String,
    /// Functions that newer versions of the library have and this one lacks.
    #[prost(string, repeated, tag = "10")]
    pub missing_functions: Vec<String>,
}

/// All GPUs with their links.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Survey {
    /// In NVML's order; a GPU that can't be identified is not listed but counted in `unreadable`.
    #[prost(message, repeated, tag = "1")]
    pub gpus: Vec<GpuSurvey>,
    /// GPUs without a handle or UUID: lost or forbidden.
    #[prost(uint32, tag = "2")]
    pub unreadable: u32,
    /// What the driver refused to answer, where that leaves it open what there is.
    #[prost(message, repeated, tag = "10")]
    pub refusals: Vec<Refusal>,
}

/// A call that the driver refused.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Refusal {
    /// NVML's index of the GPU.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// The function.
    #[prost(string, tag = "2")]
    pub call: String,
    /// Its code.
    #[prost(uint32, tag = "3")]
    pub code: u32,
    /// How many values are absent for it: links, or one.
    #[prost(uint64, tag = "4")]
    pub values: u64,
}

impl Refusal {
    /// For people, with the remedy.
    #[must_use]
    pub fn text(&self) -> String {
        let code = Code(self.code);
        format!("{} of GPU {} answers {code}; {}", self.call, self.index, code.remedy())
    }
}

/// One GPU.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GpuSurvey {
    /// NVML's index.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// `GPU-` and a UUID.
    #[prost(string, tag = "2")]
    pub uuid: String,
    /// Product name, empty if unknown.
    #[prost(string, tag = "3")]
    pub name: String,
    /// `dddddddd:bb:dd.f`, empty if unknown.
    #[prost(string, tag = "4")]
    pub pci_bus_id: String,
    /// Largest rate of its PCIe slot in one direction, bytes per second.
    #[prost(uint64, optional, tag = "5")]
    pub pcie_bytes_per_second: Option<u64>,
    /// The links that are there, active or not.
    #[prost(message, repeated, tag = "6")]
    pub links: Vec<LinkSurvey>,
    /// Its partitions (MIG devices).
    #[prost(message, repeated, tag = "7")]
    pub parts: Vec<PartSurvey>,
    /// Whether the driver reports its Xids, as NVML's code.
    #[prost(uint32, optional, tag = "11")]
    pub xids: Option<u32>,
    /// Whether GPM answers, as NVML's code; absent where it was not to be used.
    #[prost(uint32, optional, tag = "10")]
    pub gpm: Option<u32>,
    /// Whether there may be more partitions, which could not be read.
    #[prost(bool, tag = "8")]
    pub has_unread_parts: bool,
    /// Its registration in a fabric of NVLinks; absent where it takes part in none.
    #[prost(message, optional, tag = "9")]
    pub fabric: Option<FabricSurvey>,
}

/// How far a GPU's registration in a fabric of NVLinks is.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FabricSurvey {
    /// `nvmlGpuFabricState_t`: 1 not started, 2 in progress, 3 completed.
    #[prost(uint32, tag = "1")]
    pub state: u32,
    /// NVML's code for the registration; it counts once that is completed.
    #[prost(uint32, tag = "2")]
    pub status: u32,
    /// UUID of the cluster, 16 bytes; all 0 where the fabric is the node's own.
    #[prost(bytes = "vec", tag = "3")]
    pub cluster_uuid: Vec<u8>,
    /// The clique in the cluster: GPUs of one clique reach one another over NVLink.
    #[prost(uint32, tag = "4")]
    pub clique_id: u32,
}

/// One partition of a GPU: NVIDIA's MIG.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartSurvey {
    /// Its index on its GPU.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// `MIG-` and a UUID.
    #[prost(string, tag = "2")]
    pub uuid: String,
    /// Its name, empty if unknown.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Its GPU instance.
    #[prost(uint32, tag = "4")]
    pub gpu_instance: u32,
    /// Its compute instance.
    #[prost(uint32, tag = "5")]
    pub compute_instance: u32,
}

/// One physical link of a GPU.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LinkSurvey {
    /// Its number on this GPU.
    #[prost(uint32, tag = "1")]
    pub link: u32,
    /// Whether it is up.
    #[prost(bool, tag = "2")]
    pub active: bool,
    /// `nvmlNvlinkVersion_t`.
    #[prost(uint32, optional, tag = "3")]
    pub version: Option<u32>,
    /// One direction, MB/s.
    #[prost(uint64, optional, tag = "4")]
    pub speed_megabytes_per_second: Option<u64>,
    /// `nvmlIntNvLinkDeviceType_t` of the other end.
    #[prost(uint32, optional, tag = "5")]
    pub remote_type: Option<u32>,
    /// PCI place of the other end.
    #[prost(string, optional, tag = "6")]
    pub remote_pci_bus_id: Option<String>,
    /// Number of this link at the other end.
    #[prost(uint32, optional, tag = "7")]
    pub remote_link: Option<u32>,
}

/// One reading of all GPUs.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Poll {
    /// In the order of the last survey.
    #[prost(message, repeated, tag = "1")]
    pub gpus: Vec<GpuPoll>,
    /// How long the whole reading took.
    #[prost(uint64, tag = "2")]
    pub elapsed_nanoseconds: u64,
    /// Ticks missed since the sampler's start because a reading took longer than the interval.
    #[prost(uint64, tag = "3")]
    pub overruns: u64,
    /// Faults that the driver has reported since the last reading.
    #[prost(message, repeated, tag = "4")]
    pub xids: Vec<Xid>,
}

/// A fault of a GPU, by the driver's number.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Xid {
    /// The GPU's index when it was last found.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// The number.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// The GPU's UUID.
    #[prost(string, tag = "3")]
    pub uuid: String,
    /// Its place on the PCI bus.
    #[prost(string, tag = "4")]
    pub pci_bus_id: String,
    /// The partition's GPU instance, where it is of one.
    #[prost(uint32, optional, tag = "5")]
    pub gpu_instance: Option<u32>,
    /// The partition's compute instance.
    #[prost(uint32, optional, tag = "6")]
    pub compute_instance: Option<u32>,
}

/// One reading of one GPU.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GpuPoll {
    /// `CLOCK_MONOTONIC` in the middle of the reading of its links.
    #[prost(int64, tag = "1")]
    pub links_monotonic_nanoseconds: i64,
    /// `CLOCK_MONOTONIC` in the middle of the reading of PCIe.
    #[prost(int64, tag = "2")]
    pub pcie_monotonic_nanoseconds: i64,
    /// States, byte and error counters of links.
    #[prost(message, repeated, tag = "3")]
    pub link_fields: Vec<RawField>,
    /// PCIe counters; a 32-bit counter is already unfolded to 64.
    #[prost(message, repeated, tag = "4")]
    pub pcie_fields: Vec<RawField>,
    /// How often the unfolding of PCIe had to start anew: earlier values must not be compared.
    #[prost(uint64, tag = "5")]
    pub pcie_restarts: u64,
    /// Whether PCIe was read by GPM.
    #[prost(bool, tag = "6")]
    pub pcie_by_gpm: bool,
    /// How long causes slowed the GPU down, in those readings in which that was read.
    #[prost(message, repeated, tag = "7")]
    pub slowed_fields: Vec<RawField>,
}

/// One field as NVML answered it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RawField {
    /// See `field`.
    #[prost(uint32, tag = "1")]
    pub field: u32,
    /// The link.
    #[prost(uint32, tag = "2")]
    pub scope: u32,
    /// NVML's code.
    #[prost(uint32, tag = "3")]
    pub code: u32,
    /// See `field::value_type`.
    #[prost(uint32, tag = "4")]
    pub value_type: u32,
    /// The value's bytes.
    #[prost(uint64, tag = "5")]
    pub bits: u64,
}

impl From<FieldValue> for RawField {
    fn from(read: FieldValue) -> Self {
        let FieldValue { field, scope, code, value_type, bits, .. } = read;
        Self { field, scope, code, value_type, bits }
    }
}

impl RawField {
    /// The value as an unsigned number, or the reason why there is none.
    ///
    /// # Errors
    /// The reason under which the absent value is counted.
    pub fn unsigned(&self) -> Result<u64, &'static str> {
        if Code(self.code) != Code::SUCCESS {
            return Err(Code(self.code).reason());
        }
        let Self { field, scope, code, value_type, bits } = *self;
        FieldValue { field, scope, code, value_type, bits, ..FieldValue::default() }
            .unsigned()
            .ok_or("not_a_number")
    }
}

/// Why the sampler ends.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Problem {
    /// What went wrong, see [`ProblemKind`].
    #[prost(enumeration = "ProblemKind", tag = "1")]
    pub kind: i32,
    /// For people, with the remedy.
    #[prost(string, tag = "2")]
    pub text: String,
}

/// Kinds of [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ProblemKind {
    /// Not known to this version.
    Other = 0,
    /// There is no such library, or it can't be loaded.
    LibraryMissing = 1,
    /// The library lacks a function that is needed.
    LibraryUnusable = 2,
    /// The library opens but the driver refuses: not loaded, other version, no permission.
    DriverUnavailable = 3,
    /// All is well but there is no GPU.
    NoGpu = 4,
    /// No GPU could be read any more.
    Unreadable = 5,
    /// The driver refuses this user.
    NotPermitted = 6,
    /// No GPU of this node can be read in this way.
    NotSupported = 7,
}

/// Writes frames with one buffer that is used again.
pub struct FrameWriter<W> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> FrameWriter<W> {
    /// Frames go to `out`.
    pub fn new(out: W) -> Self {
        Self { out, buffer: Vec::new() }
    }

    /// Writes one frame whole.
    ///
    /// # Errors
    /// When the parent is gone.
    pub fn write(&mut self, frame: &Frame) -> io::Result<()> {
        let length = frame.encoded_len();
        let prefix = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?;
        if length > MAX_FRAME_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(&prefix.to_le_bytes());
        frame.encode(&mut self.buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.out.write_all(&self.buffer)
    }
}

/// Takes frames out of a stream of bytes that arrive in any pieces.
#[derive(Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
}

/// A stream that holds no frames.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The length can't be right.
    #[error("a frame of {0} bytes is longer than the {MAX_FRAME_BYTES} that any reading needs")]
    TooLong(usize),
    /// The bytes are not a frame.
    #[error("a frame cannot be decoded: {0}")]
    Undecodable(String),
}

impl FrameReader {
    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame; `None` until more bytes arrive.
    ///
    /// # Errors
    /// When the stream is damaged; nothing more can be read from it.
    pub fn next_frame(&mut self) -> Result<Option<Body>, FrameError> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(FrameError::TooLong(length));
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let frame = Frame::decode(bytes).map_err(|error| FrameError::Undecodable(error.to_string()))?;
        self.buffer.drain(..4 + length);
        frame.body.map(Some).ok_or_else(|| FrameError::Undecodable("it is empty".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Body {
        Body::Hello(Hello {
            driver_version: "580.65.06".into(),
            library_version: "12".into(),
            ..Hello::default()
        })
    }

    #[test]
    fn frames_survive_any_cutting() {
        let mut writer = FrameWriter::new(Vec::new());
        let poll = Body::Poll(Poll { overruns: 3, ..Poll::default() });
        for body in [hello(), poll.clone()] {
            writer.write(&Frame { body: Some(body) }).unwrap();
        }
        let mut reader = FrameReader::default();
        let mut read = Vec::new();
        for byte in writer.out {
            reader.push(&[byte]);
            read.extend(reader.next_frame().unwrap());
        }
        assert_eq!(read, [hello(), poll]);
    }

    #[test]
    fn a_length_out_of_range_is_refused_before_memory_is_taken() {
        let mut reader = FrameReader::default();
        reader.push(&u32::MAX.to_le_bytes());
        assert_eq!(reader.next_frame(), Err(FrameError::TooLong(u32::MAX as usize)));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let mut reader = FrameReader::default();
        reader.push(&[3, 0, 0, 0, 0xff, 0xff, 0xff]);
        assert!(matches!(reader.next_frame(), Err(FrameError::Undecodable(_))));
        let mut empty = FrameReader::default();
        empty.push(&[0, 0, 0, 0]);
        assert!(matches!(empty.next_frame(), Err(FrameError::Undecodable(_))));
    }
}
