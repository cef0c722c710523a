//! What an encoded batch takes when it is decoded, found without decoding it: one pass over its bytes, no memory.
//!
//! The smallest message has two bytes on the wire and some hundred in memory, so that the encoded size says little.

use std::mem::size_of;

use throughline_sample::wire::*;

use super::{DECODED_BYTES_MAX, ELEMENTS_MAX};

/// A kind of message: its size in memory, and those of its fields that hold messages or numbers.
struct Shape {
    bytes: usize,
    fields: &'static [(u32, Field)],
}

/// What a length-delimited field holds. Any other one is taken for text.
#[derive(Clone, Copy)]
enum Field {
    Message(&'static Shape),
    /// Texts in a list.
    Texts,
    /// Packed numbers: each may have one byte on the wire and so many in memory.
    Numbers(usize),
}

/// What an entry takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Messages and numbers in lists.
    pub elements: usize,
    /// Memory, when decoded; more than it is rather than less.
    pub bytes: usize,
}

impl Measure {
    /// Whether it is decoded.
    pub fn fits(&self) -> bool {
        self.elements <= ELEMENTS_MAX && self.bytes <= DECODED_BYTES_MAX
    }
}

/// Lists grow by doubling: at the end up to half is free, and while they grow the old one is there too.
const GROWTH: usize = 2;
/// The allocator's part of a text.
const TEXT_BYTES: usize = 16;
/// Messages within messages: a batch has four levels.
const DEPTH: usize = 8;

/// Measures an encoded batch; `None` for bytes that are none. Those must not be decoded: it would go on where this ended.
pub(crate) fn measure(bytes: &[u8]) -> Option<Measure> {
    let mut sum = Measure { elements: 0, bytes: size_of::<Batch>() };
    walk(bytes, &BATCH, &mut sum, 0)?;
    Some(sum)
}

fn walk(mut bytes: &[u8], shape: &'static Shape, sum: &mut Measure, depth: usize) -> Option<()> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let field = u32::try_from(key >> 3).ok()?;
        match key & 7 {
            0 => {
                varint(&mut bytes)?;
                // A list of numbers need not be packed.
                if let Some(Field::Numbers(size)) = find(shape, field) {
                    sum.elements += 1;
                    sum.bytes += size * GROWTH;
                }
            }
            1 => skip(&mut bytes, 8)?,
            5 => skip(&mut bytes, 4)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let content = bytes.get(..length)?;
                bytes = &bytes[length..];
                match find(shape, field) {
                    Some(Field::Message(inner)) => {
                        sum.elements += 1;
                        sum.bytes += inner.bytes * GROWTH;
                        if depth == DEPTH {
                            return None;
                        }
                        walk(content, inner, sum, depth + 1)?;
                    }
                    Some(Field::Texts) => {
                        sum.elements += 1;
                        sum.bytes += size_of::<String>() * GROWTH + length + TEXT_BYTES;
                    }
                    Some(Field::Numbers(size)) => {
                        // A varint ends with a byte below 128; of fixed numbers this counts too many.
                        let numbers = content.iter().filter(|byte| **byte < 0x80).count();
                        sum.elements += numbers;
                        sum.bytes += numbers * size * GROWTH;
                    }
                    None => sum.bytes += length + TEXT_BYTES,
                }
            }
            // Groups are not of this schema: decoding skips or refuses them.
            _ => return None,
        }
    }
    Some(())
}

fn find(shape: &'static Shape, field: u32) -> Option<Field> {
    shape.fields.iter().find(|(number, _)| *number == field).map(|(_, field)| *field)
}

fn skip(bytes: &mut &[u8], count: usize) -> Option<()> {
    *bytes = bytes.get(count..)?;
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}

use Field::{Message, Numbers, Texts};

const fn plain<T>() -> Shape {
    Shape { bytes: size_of::<T>(), fields: &[] }
}

static VALUES: Shape = Shape { bytes: size_of::<Values>(), fields: &[(1, Numbers(4)), (2, Numbers(8))] };
static LINK_VALUES: Shape = Shape { bytes: size_of::<LinkValues>(), fields: &[(2, Message(&VALUES))] };
static IB_PORT: Shape =
    Shape { bytes: size_of::<IbPortSample>(), fields: &[(5, Message(&VALUES)), (6, Numbers(4))] };
static HOST_PORT: Shape = Shape { bytes: size_of::<HostPortSample>(), fields: &[(5, Message(&VALUES))] };
static GPU_LINKS: Shape = Shape { bytes: size_of::<GpuLinksSample>(), fields: &[(5, Message(&LINK_VALUES))] };
static GPU_PCIE: Shape = Shape { bytes: size_of::<GpuPcieSample>(), fields: &[(5, Message(&VALUES))] };
static GPU_PM: Shape = Shape { bytes: size_of::<GpuPmSample>(), fields: &[(5, Message(&VALUES))] };
static GPU_METRIC: Shape = plain::<GpuMetricValue>();
static GPU_METRICS: Shape =
    Shape { bytes: size_of::<GpuMetricsSample>(), fields: &[(5, Message(&GPU_METRIC))] };
static OP_CELL: Shape = plain::<MpiOpCell>();
static OPS: Shape = Shape { bytes: size_of::<MpiRankBin>(), fields: &[(6, Message(&OP_CELL))] };
static NODE_CELL: Shape = Shape { bytes: size_of::<MpiNodeCell>(), fields: &[(1, Message(&OP_CELL))] };
static ACCOUNT_SUMS: Shape = plain::<MpiAccountSums>();
static NODE_ACCOUNT: Shape = Shape {
    bytes: size_of::<MpiNodeAccount>(),
    fields: &[(2, Message(&ACCOUNT_SUMS)), (3, Message(&ACCOUNT_SUMS))],
};
static NODE_CELLS: Shape = Shape {
    bytes: size_of::<MpiNodeCells>(),
    fields: &[(6, Message(&NODE_CELL)), (8, Message(&NODE_ACCOUNT))],
};
static PEER_CELL: Shape = plain::<MpiPeerCell>();
static PEERS: Shape = Shape { bytes: size_of::<MpiRankPeers>(), fields: &[(7, Message(&PEER_CELL))] };
static TRAFFIC: Shape = Shape { bytes: size_of::<MpiNodeTraffic>(), fields: &[(9, Message(&PEER_CELL))] };
static PVAR: Shape = plain::<MpiPvarSample>();
static REGION_CELL: Shape = plain::<MpiRegionCell>();
static REGIONS: Shape = Shape {
    bytes: size_of::<MpiRankRegions>(),
    fields: &[(6, Message(&REGION_CELL)), (7, Message(&PATH_CELL))],
};
static PATH_CELL: Shape = plain::<MpiPathCell>();
static EVENT: Shape = plain::<Event>();
// A map's entry: a text and a number, in a table with some free places.
static REASON: Shape = Shape { bytes: 96, fields: &[] };
static COVERAGE: Shape = Shape { bytes: size_of::<Coverage>(), fields: &[(7, Message(&REASON))] };
static STAT: Shape = plain::<SelfStat>();
static LANES: Shape = Shape { bytes: size_of::<IbPortLanesSample>(), fields: &[(6, Message(&LINK_VALUES))] };
static OPEN_CALL: Shape = plain::<MpiOpenCall>();
static SCHEDULING: Shape = plain::<MpiRankScheduling>();
static SAMPLED_CALL: Shape = plain::<MpiSampledCall>();
static SAMPLED_CALLS: Shape =
    Shape { bytes: size_of::<MpiSampledCalls>(), fields: &[(9, Message(&SAMPLED_CALL))] };
static TRACE_RECORD: Shape = plain::<MpiTraceRecord>();
static TRACE: Shape = Shape { bytes: size_of::<MpiRankTrace>(), fields: &[(6, Message(&TRACE_RECORD))] };
static POINT: Shape = plain::<MpiClockPoint>();
static CLOCK: Shape = Shape { bytes: size_of::<MpiRankClock>(), fields: &[(6, Message(&POINT))] };
static NODE: Shape = Shape { bytes: size_of::<NodeInfo>(), fields: &[(4, Numbers(8))] };
static GPU: Shape = Shape { bytes: size_of::<GpuInfo>(), fields: &[(9, Texts)] };
static GPU_LINK: Shape = plain::<GpuLinkInfo>();
static SURVEYED_GPU: Shape = Shape { bytes: size_of::<SurveyedGpu>(), fields: &[(2, Numbers(4))] };
static GPU_SURVEY: Shape =
    Shape { bytes: size_of::<GpuSurveyMark>(), fields: &[(3, Message(&SURVEYED_GPU)), (4, Texts)] };
static JOB: Shape = plain::<Job>();
static NAMES: Shape = Shape { bytes: size_of::<Names>(), fields: &[(1, Texts)] };
static RANK: Shape = Shape {
    bytes: size_of::<JobRank>(),
    fields: &[(10, Message(&NAMES)), (11, Message(&NAMES)), (13, Numbers(4)), (14, Numbers(4))],
};
static COMM: Shape = plain::<JobComm>();
static SETTING: Shape = plain::<JobSetting>();
static IB_PORT_INFO: Shape = plain::<IbPortInfo>();
static IB_NODE: Shape = Shape { bytes: size_of::<IbNodeInfo>(), fields: &[(9, Message(&IB_PORT_INFO))] };
static MARK: Shape = plain::<IbTopologyMark>();
static MULTICAST_ENTRY: Shape = plain::<IbMulticastEntry>();
static MULTICAST: Shape =
    Shape { bytes: size_of::<IbMulticastTable>(), fields: &[(3, Message(&MULTICAST_ENTRY))] };
static MULTICAST_MEMBER: Shape = plain::<IbMulticastMember>();
static MULTICAST_GROUP: Shape =
    Shape { bytes: size_of::<IbMulticastGroup>(), fields: &[(10, Message(&MULTICAST_MEMBER))] };
static MULTICAST_MARK: Shape = plain::<IbMulticastMark>();
static EARLIER: Shape = Shape { bytes: size_of::<EarlierTimes>(), fields: &[(2, Numbers(8))] };
static BATCH_CLOCK: Shape = Shape { bytes: size_of::<BatchClock>(), fields: &[(2, Message(&EARLIER))] };
static BATCH: Shape = Shape {
    bytes: size_of::<Batch>(),
    fields: &[
        (6, Message(&BATCH_CLOCK)),
        (10, Message(&IB_PORT)),
        (11, Message(&HOST_PORT)),
        (12, Message(&GPU_LINKS)),
        (13, Message(&GPU_PCIE)),
        (14, Message(&OPS)),
        (15, Message(&PEERS)),
        (16, Message(&PVAR)),
        (17, Message(&REGIONS)),
        (18, Message(&EVENT)),
        (19, Message(&COVERAGE)),
        (20, Message(&STAT)),
        (21, Message(&LANES)),
        (22, Message(&TRACE)),
        (23, Message(&CLOCK)),
        (24, Message(&GPU_PM)),
        (25, Message(&TRAFFIC)),
        (26, Message(&OPEN_CALL)),
        (29, Message(&SCHEDULING)),
        (28, Message(&SAMPLED_CALLS)),
        (30, Message(&NODE)),
        (31, Message(&GPU)),
        (32, Message(&GPU_LINK)),
        (33, Message(&JOB)),
        (34, Message(&RANK)),
        (35, Message(&IB_NODE)),
        (36, Message(&MARK)),
        (37, Message(&COMM)),
        (38, Message(&SETTING)),
        (39, Message(&MULTICAST)),
        (40, Message(&MULTICAST_GROUP)),
        (41, Message(&MULTICAST_MARK)),
        (42, Message(&OPS)),
        (43, Message(&NODE_CELLS)),
        (45, Message(&GPU_SURVEY)),
        (46, Message(&GPU_METRICS)),
    ],
};
