//! The performance management agent of a node: attributes written from the tables of IBTA volume 1, 16.1
//! (offsets also held against opensm's ib_types.h and libibmad's fields.c).

use crate::bits::{get, put, put_sticky};
use crate::counters::{Counter as C, Counters, View};
use crate::model::{
    ALL_PORT_SELECT, ERRORS_64, EXTENDED_WIDTH, EXTENDED_WITHOUT_CASTS, Fabric, Node, Pma, QP1_DROP, Speed,
    XMIT_WAIT,
};
use crate::smp::{STATUS_BAD_ATTRIBUTE, STATUS_BAD_METHOD, STATUS_BAD_VALUE};

/// Methods (13.4.5).
pub(crate) const GET: u8 = 1;
pub(crate) const SET: u8 = 2;
/// Attributes (16.1.2 and 16.1.4).
pub(crate) const CLASS_PORT_INFO: u16 = 0x0001;
const PORT_COUNTERS: u16 = 0x0012;
const PORT_COUNTERS_EXTENDED: u16 = 0x001D;
/// PortSelect that means all ports.
const ALL_PORTS: u8 = 0xFF;
/// Queue key of queue pair 1 (10.2.5).
const QP1_KEY: u64 = 0x8001_0000;

/// A field that shows a counter: where, how wide, what.
type Field = (usize, usize, C);

/// PortCounters (16.1.3.5), in the order of CounterSelect's bits.
const CLASSIC: [Field; 16] = [
    (32, 16, C::SymbolErrors),
    (48, 8, C::LinkErrorRecovery),
    (56, 8, C::LinkDowned),
    (64, 16, C::RcvErrors),
    (80, 16, C::RcvRemotePhysicalErrors),
    (96, 16, C::RcvSwitchRelayErrors),
    (112, 16, C::XmitDiscards),
    (128, 8, C::XmitConstraintErrors),
    (136, 8, C::RcvConstraintErrors),
    (152, 4, C::LocalLinkIntegrityErrors),
    (156, 4, C::ExcessiveBufferOverrunErrors),
    (176, 16, C::Vl15Dropped),
    (192, 32, C::XmitData),
    (224, 32, C::RcvData),
    (256, 32, C::XmitPackets),
    (288, 32, C::RcvPackets),
];
const CLASSIC_WAIT: Field = (320, 32, C::XmitWait);
const CLASSIC_QP1: Field = (160, 16, C::Qp1Dropped);

/// PortCountersExtended (16.1.4.11), in the order of CounterSelect's bits; the last four are there only with
/// unicast and multicast packets.
const EXTENDED: [Field; 8] = [
    (64, 64, C::XmitData),
    (128, 64, C::RcvData),
    (192, 64, C::XmitPackets),
    (256, 64, C::RcvPackets),
    (320, 64, C::UnicastXmitPackets),
    (384, 64, C::UnicastRcvPackets),
    (448, 64, C::MulticastXmitPackets),
    (512, 64, C::MulticastRcvPackets),
];
/// Its further counters where CapabilityMask2 has them, in the order of CounterSelect2's bits.
const EXTENDED_ERRORS: [Field; 14] = [
    (576, 64, C::SymbolErrors),
    (640, 64, C::LinkErrorRecovery),
    (704, 64, C::LinkDowned),
    (768, 64, C::RcvErrors),
    (832, 64, C::RcvRemotePhysicalErrors),
    (896, 64, C::RcvSwitchRelayErrors),
    (960, 64, C::XmitDiscards),
    (1024, 64, C::XmitConstraintErrors),
    (1088, 64, C::RcvConstraintErrors),
    (1152, 64, C::LocalLinkIntegrityErrors),
    (1216, 64, C::ExcessiveBufferOverrunErrors),
    (1280, 64, C::Vl15Dropped),
    (1344, 64, C::XmitWait),
    (1408, 64, C::Qp1Dropped),
];
/// PortRcvErrorDetails (0x15), PortXmitDiscardDetails (0x16), PortOpRcvCounters (0x17), PortFlowCtlCounters
/// (0x18): bits of CounterSelect in this order.
const RCV_ERROR_DETAILS: [Field; 6] = [
    (32, 16, C::LocalPhysicalErrors),
    (48, 16, C::MalformedPacketErrors),
    (64, 16, C::BufferOverrunErrors),
    (80, 16, C::DlidMappingErrors),
    (96, 16, C::VlMappingErrors),
    (112, 16, C::LoopingErrors),
];
const XMIT_DISCARD_DETAILS: [Field; 4] = [
    (32, 16, C::InactiveDiscards),
    (48, 16, C::NeighborMtuDiscards),
    (64, 16, C::SwLifetimeLimitDiscards),
    (80, 16, C::SwHoqLifetimeLimitDiscards),
];
const OP_RCV: [Field; 2] = [(32, 32, C::OpRcvPackets), (64, 32, C::OpRcvData)];
const FLOW_CONTROL: [Field; 2] = [(32, 32, C::XmitFlowPackets), (64, 32, C::RcvFlowPackets)];

/// How traffic is divided among service levels; the SL2VL tables map level n to VL n mod 8.
pub(crate) type Levels = [f64; 16];

/// What is requested.
pub(crate) struct Request {
    pub method: u8,
    pub attribute: u16,
    pub port: u8,
}

/// Answers a Get or Set: fills the 192 bytes of data, in which a Set's stand before.
///
/// # Errors
/// The status of a refusal.
pub(crate) fn answer(
    node: &mut Node,
    levels: &Levels,
    request: &Request,
    now: u64,
    data: &mut [u8],
) -> Result<(), u16> {
    if request.attribute == CLASS_PORT_INFO {
        if request.method != GET || node.pma.is_without_info {
            return Err(if request.method == GET { STATUS_BAD_ATTRIBUTE } else { STATUS_BAD_METHOD });
        }
        class_port_info(&node.pma, data);
        return Ok(());
    }
    if !supports(node, request.attribute) {
        return Err(STATUS_BAD_ATTRIBUTE);
    }
    let is_all = request.port == ALL_PORTS && node.pma.capabilities & ALL_PORT_SELECT != 0;
    if !is_all && node.port(request.port).is_none() {
        return Err(STATUS_BAD_VALUE);
    }
    match request.method {
        GET if is_all => Err(STATUS_BAD_VALUE), // A sum over ports is not simulated.
        GET => {
            show(node, levels, request, now, data);
            Ok(())
        }
        SET => {
            let ports = if is_all {
                0..node.ports.len()
            } else {
                usize::from(request.port)..usize::from(request.port) + 1
            };
            let pma = node.pma.clone();
            for port in &mut node.ports[ports] {
                set(&mut port.counters, &pma, request.attribute, now, data);
            }
            Ok(())
        }
        _ => Err(STATUS_BAD_METHOD),
    }
}

fn supports(node: &Node, attribute: u16) -> bool {
    let pma = &node.pma;
    match attribute {
        PORT_COUNTERS => true,
        PORT_COUNTERS_EXTENDED => pma.capabilities & (EXTENDED_WIDTH | EXTENDED_WITHOUT_CASTS) != 0,
        0x15 | 0x16 => pma.has_details,
        0x17 | 0x18 => pma.has_flow,
        0x19 | 0x1A | 0x1C | 0x36 | 0x37 => pma.has_levels,
        0x1F => pma.has_speeds,
        _ => false,
    }
}

/// ClassPortInfo (13.4.8.1).
fn class_port_info(pma: &Pma, data: &mut [u8]) {
    put(data, 0, 8, 1);
    put(data, 8, 8, 1);
    put(data, 16, 16, u64::from(pma.capabilities));
    put(data, 32, 27, u64::from(pma.capabilities_2));
    put(data, 59, 5, 18);
}

/// The redirection in ClassPortInfo: LID, P_Key, queue pair 1 and its key.
pub(crate) fn put_redirect(fabric: &Fabric, node: usize, data: &mut [u8]) {
    let target = &fabric.nodes[node];
    let guid = target.ports[target.end_ports()].first().map_or(0, |port| port.guid);
    put(data, 64, 64, fabric.prefix);
    put(data, 128, 64, guid);
    put(data, 224, 16, u64::from(target.lid()));
    put(data, 240, 16, 0xFFFF);
    put(data, 264, 24, 1);
    put(data, 288, 32, QP1_KEY);
}

/// The data of ClassPortInfo that comes with the status for redirection (13.5.2).
pub(crate) fn redirection(fabric: &Fabric, request: usize, node: usize, data: &mut [u8]) {
    data.fill(0);
    class_port_info(&fabric.nodes[request].pma, data);
    put_redirect(fabric, node, data);
}

fn show(node: &Node, levels: &Levels, request: &Request, now: u64, data: &mut [u8]) {
    data.fill(0);
    put(data, 8, 8, u64::from(request.port));
    let Some(port) = node.port(request.port) else { return };
    let (counters, pma) = (&port.counters, &node.pma);
    let mut classic = |fields: &[Field]| {
        for (bit, bits, counter) in fields {
            put_sticky(data, *bit, *bits, counters.value(View::Classic, *counter, now));
        }
    };
    match request.attribute {
        PORT_COUNTERS => {
            classic(&CLASSIC);
            if pma.capabilities & XMIT_WAIT != 0 {
                classic(&[CLASSIC_WAIT]);
            }
            if pma.capabilities & QP1_DROP != 0 {
                classic(&[CLASSIC_QP1]);
            }
        }
        PORT_COUNTERS_EXTENDED => extended(counters, pma, now, data),
        0x15 => classic(&RCV_ERROR_DETAILS),
        0x16 => classic(&XMIT_DISCARD_DETAILS),
        0x17 => classic(&OP_RCV),
        0x18 => classic(&FLOW_CONTROL),
        0x1F => extended_speeds(counters, port.link.speed, port.link.lanes, now, data),
        attribute => by_level(counters, levels, attribute, now, data),
    }
}

fn extended(counters: &Counters, pma: &Pma, now: u64, data: &mut [u8]) {
    let casts = if pma.capabilities & EXTENDED_WIDTH != 0 { 8 } else { 4 };
    for (bit, bits, counter) in &EXTENDED[..casts] {
        // 64-bit counters wrap.
        put(data, *bit, *bits, counters.value(View::Extended, *counter, now));
    }
    if pma.capabilities_2 & ERRORS_64 != 0 {
        for (bit, bits, counter) in &EXTENDED_ERRORS {
            put(data, *bit, *bits, counters.value(View::Extended, *counter, now));
        }
    }
}

/// PortXmitDataSL (0x36), PortRcvDataSL (0x37), PortVLOpPackets (0x19), PortVLOpData (0x1A) and
/// PortVLXmitWaitCounters (0x1C): the totals divided by the shares of service levels.
fn by_level(counters: &Counters, levels: &Levels, attribute: u16, now: u64, data: &mut [u8]) {
    let (counter, bits, is_vl) = match attribute {
        0x36 => (C::XmitData, 32, false),
        0x37 => (C::RcvData, 32, false),
        0x19 => (C::OpRcvPackets, 16, true),
        0x1A => (C::OpRcvData, 32, true),
        _ => (C::XmitWait, 16, true),
    };
    let total = counters.value(View::Classic, counter, now);
    for place in 0..16 {
        let share: f64 = if is_vl {
            levels.iter().enumerate().filter(|(level, _)| level % 8 == place).map(|(_, share)| share).sum()
        } else {
            levels[place]
        };
        put_sticky(data, 32 + place * bits, bits, (total as f64 * share) as u64);
    }
}

/// PortExtendedSpeedsCounters (0x1F); with RS-FEC (HDR and faster) its other form. Per-lane fields carry an
/// even part of the total, the first lane the rest.
fn extended_speeds(counters: &Counters, speed: Speed, lanes: u8, now: u64, data: &mut [u8]) {
    let value = |counter| counters.value(View::Classic, counter, now);
    let per_lane = |data: &mut [u8], first: usize, total: u64| {
        let lanes = u64::from(lanes.clamp(1, 12));
        for lane in 0..lanes {
            let rest = if lane == 0 { total % lanes } else { 0 };
            put_sticky(data, first + lane as usize * 32, 32, total / lanes + rest);
        }
    };
    put_sticky(data, 128, 16, value(C::SyncHeaderErrors));
    put_sticky(data, 144, 16, value(C::UnknownBlocks));
    if speed >= Speed::Hdr {
        per_lane(data, 352, value(C::FecCorrectedSymbols));
        put_sticky(data, 1120, 32, value(C::FecCorrectableBlocks));
        put_sticky(data, 1152, 32, value(C::FecUncorrectableBlocks));
        put_sticky(data, 1184, 32, value(C::FecCorrectedSymbols));
    } else {
        per_lane(data, 352, value(C::FecCorrectableBlocks));
        per_lane(data, 736, value(C::FecUncorrectableBlocks));
    }
}

/// A Set: each selected counter takes the value in the MAD (16.1.3.5: writing 0 clears).
fn set(counters: &mut Counters, pma: &Pma, attribute: u16, now: u64, data: &[u8]) {
    let select = get(data, 16, 16);
    let mut write = |view, fields: &[Field], select: u64| {
        for (place, (bit, bits, counter)) in fields.iter().enumerate() {
            if select >> place & 1 == 1 {
                counters.show(view, *counter, get(data, *bit, *bits), now);
            }
        }
    };
    match attribute {
        PORT_COUNTERS => {
            write(View::Classic, &CLASSIC, select);
            // CounterSelect2: bit 0 PortXmitWait, bit 1 QP1Dropped.
            write(View::Classic, &[CLASSIC_WAIT, CLASSIC_QP1], get(data, 144, 8));
        }
        PORT_COUNTERS_EXTENDED => {
            write(View::Extended, &EXTENDED, select);
            if pma.capabilities_2 & ERRORS_64 != 0 {
                write(View::Extended, &EXTENDED_ERRORS, get(data, 32, 32));
            }
        }
        0x15 => write(View::Classic, &RCV_ERROR_DETAILS, select),
        0x16 => write(View::Classic, &XMIT_DISCARD_DETAILS, select),
        0x17 => write(View::Classic, &OP_RCV, select),
        0x18 => write(View::Classic, &FLOW_CONTROL, select),
        _ => {}
    }
}
