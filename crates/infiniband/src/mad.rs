//! Management datagrams as bytes: building requests, decoding replies. Pure: no I/O, no clock, no state.
//!
//! References are to the InfiniBand Architecture Specification (IBTA), volume 1, release 1.x: MAD format 13.4,
//! SMPs 14.2, performance management 16.1. All fields are big-endian. Decoders take any bytes and never panic
//! or read beyond them: what is too short is [`TooShort`].

mod plausible;
mod pma;
pub mod sa;
mod smp;

pub use plausible::{REASONS, Reason, implausible};
pub use pma::{
    CLEARABLE, ClassPortInfo, CounterSelection, CounterUpdate, Counters, LANES, LaneCounters, PortCounterSet,
    Redirection, SamplesControl, counter_index, counter_metrics, lane_metrics,
};
pub use smp::{
    LFT_BLOCK_LIDS, LFT_NO_PORT, LinkMasks, MAX_MULTICAST_LID, MAX_UNICAST_LID, MFT_BLOCK_LIDS,
    MFT_POSITION_PORTS, MIN_MULTICAST_LID, MlnxExtPortInfo, NO_MULTICAST, NodeInfo, NodeKind, PhysicalState,
    PortInfo, PortState, SmInfo, SmState, SwitchInfo, node_description,
};

/// One MAD: always 256 bytes (13.4.2).
pub type Mad = [u8; MAD_BYTES];
/// Bytes of a MAD.
pub const MAD_BYTES: usize = 256;
/// Where the attribute's data begin, in SMPs (14.2.1) and performance MADs (16.1.1) alike.
pub const DATA_OFFSET: usize = 64;
/// Bytes of attribute data in an SMP (14.2.1.1).
pub const SMP_DATA_BYTES: usize = 64;
/// Bytes of attribute data in a performance MAD (16.1.1).
pub const PMA_DATA_BYTES: usize = 192;

/// Class of directed-route SMPs (13.4.4).
pub const CLASS_SMP_DIRECTED: u8 = 0x81;
/// Class of performance management (13.4.4).
pub const CLASS_PERFORMANCE: u8 = 0x04;
/// Version of both classes (14.2.1, 16.1.1).
pub const CLASS_VERSION: u8 = 1;
/// Base version of all MADs (13.4.3).
const BASE_VERSION: u8 = 1;
/// Method Get (13.4.5).
pub const METHOD_GET: u8 = 0x01;
/// Method Set (13.4.5).
const METHOD_SET: u8 = 0x02;
/// Method GetResp (13.4.5).
const METHOD_GET_RESP: u8 = 0x81;
/// "No LID" and the permissive LID of directed routes (14.2.1.2).
pub const PERMISSIVE_LID: u16 = 0xFFFF;
/// Status bit 15 of a directed-route SMP is its direction, not part of the status (14.2.1.2).
const DIRECTION_BIT: u16 = 0x8000;

/// Attribute numbers: 13.4.8 and 14.2.5.
pub mod attribute {
    /// NodeDescription.
    pub const NODE_DESCRIPTION: u16 = 0x0010;
    /// NodeInfo.
    pub const NODE_INFO: u16 = 0x0011;
    /// SMInfo.
    pub const SM_INFO: u16 = 0x0020;
    /// SwitchInfo.
    pub const SWITCH_INFO: u16 = 0x0012;
    /// PortInfo; the modifier is the port.
    pub const PORT_INFO: u16 = 0x0015;
    /// MlnxExtPortInfo, of one vendor; the modifier is the port.
    pub const MLNX_EXT_PORT_INFO: u16 = 0xFF90;
    /// SLtoVLMappingTable; the modifier is the input port in bits 8 to 15 and the output port in bits 0 to 7.
    pub const SL_TO_VL_MAPPING: u16 = 0x0017;
    /// LinearForwardingTable; the modifier is the block of 64 LIDs.
    pub const LINEAR_FORWARDING_TABLE: u16 = 0x0019;
    /// MulticastForwardingTable; the modifier is the block of 32 LIDs, and in its highest four bits the position
    /// of 16 ports.
    pub const MULTICAST_FORWARDING_TABLE: u16 = 0x001B;
    /// AdaptiveRoutingInfo, of NVIDIA's (Mellanox's) switches only (number and layout from the headers of
    /// ibutils2's ibis, which ibdiagnet is made of).
    pub const ADAPTIVE_ROUTING_INFO: u16 = 0xFF20;
    /// ClassPortInfo of the performance class.
    pub const CLASS_PORT_INFO: u16 = 0x0001;
    /// PortSamplesControl (16.1.3.2).
    pub const PORT_SAMPLES_CONTROL: u16 = 0x0010;
    /// PortCounters (16.1.3.5).
    pub const PORT_COUNTERS: u16 = 0x0012;
    /// PortCountersExtended (16.1.4.11).
    pub const PORT_COUNTERS_EXTENDED: u16 = 0x001D;
}

/// Fewer bytes than the attribute has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{attribute}: {bytes} bytes are too few")]
pub struct TooShort {
    /// Name of the attribute.
    pub attribute: &'static str,
    /// Bytes given.
    pub bytes: usize,
}

/// Most hops of a directed route (14.2.2.2: the path arrays have 64 entries, entry 0 is not used).
pub const MAX_HOPS: usize = 63;

/// A directed route: the ports to leave by, one per hop, from the local node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DirectedPath {
    hops: u8,
    /// Entry 0 is not used, as in the MAD.
    ports: [u8; MAX_HOPS + 1],
}

impl std::fmt::Debug for DirectedPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.ports()).finish()
    }
}

impl DirectedPath {
    /// The local node.
    #[must_use]
    pub const fn local() -> DirectedPath {
        DirectedPath { hops: 0, ports: [0; MAX_HOPS + 1] }
    }

    /// The node one hop further through `port`; `None` at the most hops possible.
    #[must_use]
    pub fn through(&self, port: u8) -> Option<DirectedPath> {
        let hops = usize::from(self.hops) + 1;
        let mut further = *self;
        *further.ports.get_mut(hops)? = port;
        further.hops = hops as u8;
        Some(further)
    }

    /// The ports to leave by.
    #[must_use]
    pub fn ports(&self) -> &[u8] {
        &self.ports[1..=usize::from(self.hops)]
    }
}

/// What to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Attribute number.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// PortSelect of performance attributes; not used in SMPs.
    pub port_select: u8,
}

/// Writes a directed-route SubnGet (14.2.1.2) into `mad`.
pub fn build_smp_get(mad: &mut Mad, path: &DirectedPath, query: &Query, transaction: u32) {
    header(mad, CLASS_SMP_DIRECTED, query, transaction);
    // Hop pointer 0 and hop count, in place of "class specific".
    mad[7] = path.hops;
    mad[32..34].copy_from_slice(&PERMISSIVE_LID.to_be_bytes()); // DrSLID
    mad[34..36].copy_from_slice(&PERMISSIVE_LID.to_be_bytes()); // DrDLID
    mad[128..192].copy_from_slice(&path.ports);
}

/// Puts the M_Key into an SMP (14.2.1): a node that is protected by one answers, or not, by it (14.2.4).
pub fn set_m_key(mad: &mut Mad, key: u64) {
    mad[24..32].copy_from_slice(&key.to_be_bytes());
}

/// Writes a PerformanceGet (16.1.1) into `mad`.
pub fn build_performance_get(mad: &mut Mad, query: &Query, transaction: u32) {
    header(mad, CLASS_PERFORMANCE, query, transaction);
    mad[DATA_OFFSET + 1] = query.port_select;
}

/// Writes a PerformanceSet that clears the selected counters of PortCounters (16.1.3.5) or PortCountersExtended
/// (16.1.4.11): all values are 0.
pub fn build_counter_clear(
    mad: &mut Mad,
    set: PortCounterSet,
    port: u8,
    select: u16,
    select_2: u32,
    transaction: u32,
) {
    let query = Query { attribute: set.attribute(), modifier: 0, port_select: port };
    header(mad, CLASS_PERFORMANCE, &query, transaction);
    mad[3] = METHOD_SET;
    let data = &mut mad[DATA_OFFSET..];
    data[1] = port;
    data[2..4].copy_from_slice(&select.to_be_bytes());
    match set {
        // CounterSelect2 of PortCounters: PortXmitWait and QP1Dropped.
        PortCounterSet::Classic => data[18] = select_2 as u8,
        _ => data[4..8].copy_from_slice(&select_2.to_be_bytes()),
    }
}

fn header(mad: &mut Mad, class: u8, query: &Query, transaction: u32) {
    mad.fill(0);
    mad[0] = BASE_VERSION;
    mad[1] = class;
    mad[2] = CLASS_VERSION;
    mad[3] = METHOD_GET;
    // The upper half of the transaction ID is the kernel's.
    mad[12..16].copy_from_slice(&transaction.to_be_bytes());
    mad[16..18].copy_from_slice(&query.attribute.to_be_bytes());
    mad[20..24].copy_from_slice(&query.modifier.to_be_bytes());
}

/// The common header of a reply (13.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// Management class.
    pub class: u8,
    /// Whether the versions of MAD and class are those of a request.
    pub has_version: bool,
    /// Whether the method is GetResp.
    pub is_response: bool,
    /// Status without the direction bit; 0 is success.
    pub status: u16,
    /// The lower half of the transaction ID: ours.
    pub transaction: u32,
    /// Attribute number.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
}

/// Status bit: the request is to be sent elsewhere; ClassPortInfo in place of the attribute says where (13.4.7,
/// 13.5.2).
pub const STATUS_REDIRECT: u16 = 0x0002;
/// Status bit: the agent is busy, query again (13.4.7).
pub const STATUS_BUSY: u16 = 0x0001;

/// Reads the common header.
#[must_use]
pub fn reply_header(mad: &Mad) -> ReplyHeader {
    let status = be16(mad, 4);
    ReplyHeader {
        class: mad[1],
        has_version: mad[0] == BASE_VERSION && mad[2] == CLASS_VERSION,
        is_response: mad[3] == METHOD_GET_RESP,
        status: if mad[1] == CLASS_SMP_DIRECTED { status & !DIRECTION_BIT } else { status },
        transaction: be32(mad, 12),
        attribute: be16(mad, 16),
        modifier: be32(mad, 20),
    }
}

/// The attribute data of an SMP.
#[must_use]
pub fn smp_data(mad: &Mad) -> &[u8] {
    &mad[DATA_OFFSET..DATA_OFFSET + SMP_DATA_BYTES]
}

/// The attribute data of a performance MAD.
#[must_use]
pub fn performance_data(mad: &Mad) -> &[u8] {
    &mad[DATA_OFFSET..DATA_OFFSET + PMA_DATA_BYTES]
}

/// Big-endian 16 bits at a byte offset; bytes beyond the end read as 0.
fn be16(data: &[u8], at: usize) -> u16 {
    field(data, at * 8, 16) as u16
}

/// Big-endian 32 bits at a byte offset; bytes beyond the end read as 0.
fn be32(data: &[u8], at: usize) -> u32 {
    field(data, at * 8, 32) as u32
}

/// Big-endian 64 bits at a byte offset; bytes beyond the end read as 0.
fn be64(data: &[u8], at: usize) -> u64 {
    field(data, at * 8, 64)
}

/// `bits` bits (at most 64) at a bit offset counted from the most significant bit of byte 0, as the
/// specification's tables count. The field lies within 8 bytes from the byte it begins in; bytes beyond the
/// end read as 0.
fn field(data: &[u8], bit: usize, bits: usize) -> u64 {
    let first = bit / 8;
    let mut window = [0; 8];
    if let Some(rest) = data.get(first..) {
        let count = rest.len().min(8);
        window[..count].copy_from_slice(&rest[..count]);
    }
    let whole = u64::from_be_bytes(window) << (bit % 8);
    if bits == 0 { 0 } else { whole >> (64 - bits.min(64)) }
}

/// `Err` unless there are at least `needed` bytes.
fn expect(data: &[u8], attribute: &'static str, needed: usize) -> Result<(), TooShort> {
    if data.len() < needed { Err(TooShort { attribute, bytes: data.len() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
