//! The subnet management agent of a node: attributes written from the tables of IBTA volume 1, 14.2.5 (offsets
//! also held against libibmad's fields.c). It knows one node and no time.

use crate::bits::{get, put};
use crate::model::{ACTIVE, DOWN, End, Fabric, Kind, Link, Node, Port, Speed};
use crate::multicast;

/// Status codes (13.4.7): bits 2 to 4, in place.
pub(crate) const STATUS_BAD_VERSION: u16 = 1 << 2;
pub(crate) const STATUS_BAD_METHOD: u16 = 2 << 2;
pub(crate) const STATUS_BAD_ATTRIBUTE: u16 = 3 << 2;
pub(crate) const STATUS_BAD_VALUE: u16 = 7 << 2;
/// The agent is busy, query again.
pub(crate) const STATUS_BUSY: u16 = 1;
/// Another port answers.
pub(crate) const STATUS_REDIRECT: u16 = 2;

/// CapabilityMask (14.2.5.6).
const IS_SM: u32 = 1 << 1;
const IS_TRAP: u32 = 1 << 3;
const IS_SL_MAPPING: u32 = 1 << 6;
const IS_SYSTEM_IMAGE_GUID: u32 = 1 << 11;
const IS_EXTENDED_SPEEDS: u32 = 1 << 14;
const IS_CAPABILITY_2: u32 = 1 << 15;
/// CapabilityMask2: as in opensm's and libibmad's headers.
const IS_PORT_INFO_EXTENDED: u16 = 1 << 1;
const IS_WIDTH_2X: u16 = 1 << 4;
const IS_HDR: u16 = 1 << 5;
const IS_NDR: u16 = 1 << 10;
const IS_XDR: u16 = 1 << 12;

/// LIDs that a simulated switch's linear table can hold: all unicast LIDs.
const LINEAR_CAPACITY: u64 = 0xC000;
/// The default partition with full membership.
const DEFAULT_PKEY: u64 = 0xFFFF;

/// What is requested.
pub(crate) struct Request {
    pub attribute: u16,
    pub modifier: u32,
    /// The M_Key of the request.
    pub key: u64,
}

/// Whether the M_Key check lets a Get pass, and whether the M_Key may be shown (14.2.4.1): protect bits 2 and 3
/// let Gets without the key pass nowhere, 1 hides it.
pub(crate) fn check_key(node: &mut Node, key: u64) -> (bool, bool) {
    let manners = &mut node.manners;
    if manners.m_key == 0 || manners.m_key == key {
        return (true, true);
    }
    if manners.m_key_protect >= 2 {
        manners.m_key_violations = manners.m_key_violations.saturating_add(1);
        return (false, false);
    }
    (true, manners.m_key_protect == 0)
}

/// Answers a Get that arrived at `at`: fills the 64 bytes of data.
///
/// # Errors
/// The status of a refusal.
pub(crate) fn get_attribute(
    fabric: &Fabric,
    at: End,
    request: &Request,
    shows_key: bool,
    data: &mut [u8],
) -> Result<(), u16> {
    let node = &fabric.nodes[at.node];
    let modifier = request.modifier;
    match request.attribute {
        0x0010 => {
            let text = node.description.as_bytes();
            let length = text.len().min(64);
            data[..length].copy_from_slice(&text[..length]);
        }
        0x0011 => node_info(node, at.port, data),
        0x0012 if node.is_switch() => switch_info(fabric, node, data),
        0x0014 => guid_info(fabric, node, at, modifier, data),
        0x0015 => {
            let number = port_number(node, at.port, modifier)?;
            port_info(fabric, End { node: at.node, port: number }, at.port, shows_key, data);
        }
        0x0016 => {
            port_number(node, at.port, modifier >> 16)?;
            if modifier & 0xFFFF == 0 {
                put(data, 0, 16, DEFAULT_PKEY);
            }
        }
        0x0017 => (0..16).for_each(|level| put(data, level * 4, 4, (level % 8) as u64)),
        0x0018 => {} // VL arbitration: empty tables, every VL alike.
        0x0019 if node.is_switch() => linear_block(node, modifier, data)?,
        0x001B if node.is_switch() => multicast_block(node, modifier, data)?,
        0x0020 => sm_info(fabric, at, data)?,
        0x0033 => {
            let number = port_number(node, at.port, modifier & 0xFF)?;
            port_info_extended(node.port(number).map_or(Link::DEFAULT, |port| port.link), data);
        }
        // AdaptiveRoutingInfo, a vendor's: only whether it is switched on (bit 0 of the first 32).
        0xFF20 => {
            let is_on = node.manners.adaptive_routing.filter(|_| node.is_switch());
            put(data, 31, 1, u64::from(is_on.ok_or(STATUS_BAD_ATTRIBUTE)?));
        }
        _ => return Err(STATUS_BAD_ATTRIBUTE),
    }
    Ok(())
}

/// The port that a modifier means: 0 is an adapter's port that was queried through.
fn port_number(node: &Node, entered: u8, modifier: u32) -> Result<u8, u16> {
    let number = u8::try_from(modifier & 0x7FFF_FFFF).map_err(|_| STATUS_BAD_VALUE)?;
    let number = if number == 0 && !node.is_switch() { entered } else { number };
    if node.port(number).is_none() { Err(STATUS_BAD_VALUE) } else { Ok(number) }
}

/// NodeInfo (14.2.5.3).
pub(crate) fn node_info(node: &Node, entered: u8, data: &mut [u8]) {
    let end = if node.is_switch() { 0 } else { entered };
    put(data, 0, 8, 1);
    put(data, 8, 8, 1);
    put(data, 16, 8, node.kind as u64);
    put(data, 24, 8, u64::from(node.port_count()));
    put(data, 32, 64, node.system_guid);
    put(data, 96, 64, node.guid);
    put(data, 160, 64, node.port(end).map_or(0, |port| port.guid));
    put(data, 224, 16, 128);
    put(data, 240, 16, u64::from(node.device));
    put(data, 256, 32, 0xA0);
    put(data, 288, 8, u64::from(entered));
    put(data, 296, 24, u64::from(node.vendor));
}

/// SwitchInfo (14.2.5.4).
pub(crate) fn switch_info(fabric: &Fabric, node: &Node, data: &mut [u8]) {
    let top = node.forwarding.len().saturating_sub(1);
    put(data, 0, 16, LINEAR_CAPACITY);
    put(data, 32, 16, u64::from(multicast::CAPACITY));
    put(data, 48, 16, top as u64);
    put(data, 88, 5, 18);
    put(data, 93, 1, u64::from(node.is_changed));
    put(data, 112, 16, 32);
    put(data, 132, 1, 1); // Enhanced port 0: it has counters.
    let last = fabric.groups.iter().map(|group| group.mlid).max();
    put(data, 144, 16, u64::from(last.unwrap_or(0)));
}

fn guid_info(fabric: &Fabric, node: &Node, at: End, block: u32, data: &mut [u8]) {
    let end = End { node: at.node, port: if node.is_switch() { 0 } else { at.port } };
    if let (0, Some(port)) = (block, fabric.port(end)) {
        put(data, 0, 64, port.guid);
    }
}

/// Widths up to the widest, as bits.
fn widths(link: Link) -> u64 {
    let all = [(1, 1), (2, 16), (4, 2), (8, 4), (12, 8)];
    all.iter()
        .filter(|(lanes, _)| *lanes <= link.lanes && (*lanes != 2 || link.speed >= Speed::Hdr))
        .map(|w| w.1)
        .sum()
}

/// Extended speeds up to the fastest, as bits.
fn extended_speeds(speed: Speed) -> u64 {
    let all = [(Speed::Fdr, 1), (Speed::Edr, 2), (Speed::Hdr, 4), (Speed::Ndr, 8)];
    all.iter().filter(|(known, _)| *known <= speed).map(|(_, bit)| bit).sum()
}

fn classic_speeds(speed: Speed) -> u64 {
    match speed {
        Speed::Sdr => 1,
        Speed::Ddr => 3,
        _ => 7,
    }
}

/// PortInfo (14.2.5.6) of a port, queried through the port `entered`.
pub(crate) fn port_info(fabric: &Fabric, of: End, entered: u8, shows_key: bool, data: &mut [u8]) {
    let node = &fabric.nodes[of.node];
    let Some(port) = fabric.port(of) else { return };
    let is_switch_0 = node.is_switch() && of.port == 0;
    let is_end = is_switch_0 || !node.is_switch();
    let is_linked = is_switch_0 || fabric.across(of).is_some();
    if is_end {
        end_port_fields(fabric, of, node, port, shows_key, data);
    }
    put(data, 224, 8, u64::from(entered));
    put(data, 232, 8, widths(port.supported));
    put(data, 240, 8, widths(port.supported));
    put(data, 248, 8, u64::from(port.link.width_code()));
    put(data, 256, 4, classic_speeds(port.supported.speed));
    let state = match (is_linked, port.state) {
        (false, _) => DOWN,
        (true, DOWN) => crate::model::INITIALIZE,
        (true, state) => state,
    };
    put(data, 260, 4, u64::from(state));
    put(data, 264, 4, if is_linked { LINK_UP } else { POLLING });
    put(data, 268, 4, POLLING);
    let active = if is_linked { u64::from(port.link.speed_code()) } else { 1 };
    put(data, 280, 4, active);
    put(data, 284, 4, classic_speeds(port.supported.speed));
    put(data, 288, 4, MTU_4096);
    put(data, 296, 4, VL_0_TO_7);
    put(data, 332, 4, MTU_4096);
    put(data, 339, 5, 16);
    put(data, 344, 4, VL_0_TO_7);
    put(data, 400, 8, u64::from(is_end) * 8);
    put(data, 411, 5, 18);
    put(data, 419, 5, 16);
    if is_linked {
        put(data, 449, 2, u64::from(port.link.extended_2_code()));
        put(data, 496, 4, u64::from(port.link.extended_code()));
    }
    put(data, 451, 2, u64::from(port.supported.speed == Speed::Xdr));
    put(data, 453, 3, u64::from(port.supported.speed == Speed::Xdr));
    put(data, 500, 4, extended_speeds(port.supported.speed));
    put(data, 507, 5, extended_speeds(port.supported.speed));
}

/// PortPhysicalState (14.2.5.6).
const POLLING: u64 = 2;
const LINK_UP: u64 = 5;
/// Codes of NeighborMTU and MTUCap, of VLCap and OperationalVLs.
const MTU_4096: u64 = 5;
const VL_0_TO_7: u64 = 4;

/// What a port, or of a switch any of its ports, could do.
fn fastest(node: &Node, port: &Port) -> Link {
    let fastest = node.ports.iter().map(|port| port.supported).max_by_key(|link| link.speed);
    if node.is_switch() { fastest.unwrap_or(port.supported) } else { port.supported }
}

/// CapabilityMask of an end port.
pub(crate) fn capability_mask(fabric: &Fabric, of: End) -> u32 {
    let Some(port) = fabric.port(of) else { return 0 };
    let mut mask = IS_TRAP | IS_SL_MAPPING | IS_SYSTEM_IMAGE_GUID;
    if fastest(&fabric.nodes[of.node], port).speed >= Speed::Fdr {
        mask |= IS_EXTENDED_SPEEDS | IS_CAPABILITY_2;
    }
    if fabric.manager == Some(of) {
        mask |= IS_SM;
    }
    mask
}

/// What only end ports and port 0 have.
fn end_port_fields(fabric: &Fabric, of: End, node: &Node, port: &Port, shows_key: bool, data: &mut [u8]) {
    if shows_key {
        put(data, 0, 64, node.manners.m_key);
    }
    put(data, 64, 64, fabric.prefix);
    put(data, 128, 16, u64::from(port.lid));
    let manager = fabric.manager.and_then(|end| fabric.port(end)).map_or(0, |port| port.lid);
    put(data, 144, 16, u64::from(if port.state == ACTIVE { manager } else { 0 }));
    put(data, 160, 32, u64::from(capability_mask(fabric, of)));
    let fastest = fastest(node, port);
    let levels = [(Speed::Hdr, IS_WIDTH_2X | IS_HDR), (Speed::Ndr, IS_NDR), (Speed::Xdr, IS_XDR)];
    let known = levels.iter().filter(|(speed, _)| fastest.speed >= *speed);
    let mask_2 = known.fold(IS_PORT_INFO_EXTENDED, |mask, (_, bits)| mask | bits);
    put(data, 480, 16, if fastest.speed >= Speed::Fdr { u64::from(mask_2) } else { 0 });
    put(data, 272, 2, u64::from(node.manners.m_key_protect));
    put(data, 277, 3, if node.kind == Kind::Ca { u64::from(fabric.lmc) } else { 0 });
    put(data, 352, 16, u64::from(node.manners.m_key_violations));
}

/// PortInfoExtended: FECModeActive (opensm's ib_types.h): 0 none, 1 Fire code, 2 RS-FEC.
pub(crate) fn port_info_extended(link: Link, data: &mut [u8]) {
    put(data, 0, 32, 1);
    let mode = match link.speed {
        Speed::Hdr | Speed::Ndr | Speed::Xdr => 2,
        Speed::Fdr => 1,
        _ => 0,
    };
    put(data, 32, 16, mode);
}

/// LinearForwardingTable (14.2.5.10): a block of 64 LIDs.
pub(crate) fn linear_block(node: &Node, block: u32, data: &mut [u8]) -> Result<(), u16> {
    let first = block as usize * 64;
    if first >= LINEAR_CAPACITY as usize {
        return Err(STATUS_BAD_VALUE);
    }
    for (offset, byte) in data[..64].iter_mut().enumerate() {
        *byte = node.forwarding.get(first + offset).copied().unwrap_or(crate::plan::NO_PORT);
    }
    Ok(())
}

/// MulticastForwardingTable (14.2.5.12): a block of 32 MLIDs for the 16 ports of a position; the position is in
/// the modifier's top 4 bits, the block in its low 9.
pub(crate) fn multicast_block(node: &Node, modifier: u32, data: &mut [u8]) -> Result<(), u16> {
    let (position, block) = ((modifier >> 28) as usize, (modifier & 0x1FF) as usize);
    if block * 32 >= usize::from(multicast::CAPACITY) {
        return Err(STATUS_BAD_VALUE);
    }
    for entry in 0..32 {
        let masks = node.multicast.get(block * 32 + entry);
        put(data, entry * 16, 16, u64::from(masks.map_or(0, |masks| masks[position])));
    }
    Ok(())
}

/// SMInfo (14.2.5.13) at the manager's port; elsewhere there is no subnet manager to query.
pub(crate) fn sm_info(fabric: &Fabric, at: End, data: &mut [u8]) -> Result<(), u16> {
    let port = fabric.manager.filter(|manager| *manager == at).and_then(|end| fabric.port(end));
    put(data, 0, 64, port.ok_or(STATUS_BAD_ATTRIBUTE)?.guid);
    put(data, 128, 32, u64::from(fabric.activity));
    put(data, 160, 4, u64::from(fabric.manager_priority));
    put(data, 164, 4, 3); // Master.
    Ok(())
}

/// What a directed-route SMP queries, from its header (14.2.1.2).
pub(crate) fn read_header(mad: &[u8]) -> Request {
    Request {
        attribute: get(mad, 128, 16) as u16,
        modifier: get(mad, 160, 32) as u32,
        key: get(mad, 192, 64),
    }
}
