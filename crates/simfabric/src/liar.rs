//! Switches that lie: what stands behind one of their ports is made up while it is requested.
//!
//! It shows what a crawler does about a fabric that a person, or a fault, has made endless, and about an adapter
//! that shows another one's GUID. Nothing of it is in the model: made-up nodes carry no traffic and have no counters.

use crate::bits::{get, put};
use crate::forwarding;
use crate::model::{End, Fabric};
use crate::smp::{self, Request};

/// Physical ports of a made-up switch: the most that there can be (port 255 means all of them).
const PORTS: u8 = 254;
/// Port by which a made-up node is entered.
const UPLINK: u8 = 1;
/// LinearFDBTop of a made-up switch: all unicast LIDs, so that its table costs 768 requests.
const LINEAR_TOP: u64 = 0xBFFF;
/// Upper bits of the GUIDs of made-up switches.
const GUID_BASE: u64 = 0x11A5_0000_0000_0000;
/// PortState and PortPhysicalState of a made-up link (14.2.5.6).
const ACTIVE: u64 = 4;
const LINK_UP: u64 = 5;
/// LIDs that one in eight made-up switches claims: those that real nodes have, too. The others have any unicast LID.
const CLAIMED_LIDS: u64 = 256;

/// What is behind a fake port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FakeNeighbour {
    /// A switch of 254 ports, and behind each of its ports another one.
    Endless,
    /// An adapter that shows the GUID of this node.
    Claim(usize),
}

/// A port that leads to what is made up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FakePort {
    pub end: End,
    pub lie: FakeNeighbour,
}

/// The liar through whose port a route goes, and the ports of the route behind it.
pub(crate) fn behind<'a>(
    fabric: &Fabric,
    liars: &[FakePort],
    from: End,
    ports: &'a [u8],
) -> Option<(FakePort, &'a [u8])> {
    let is_own = |liar: &&FakePort, hop: usize| {
        ports[hop] == liar.end.port
            && forwarding::directed(fabric, from, &ports[..hop])
                .is_some_and(|(at, _)| at.node == liar.end.node)
    };
    (0..ports.len()).find_map(|hop| Some((*liars.iter().find(|liar| is_own(liar, hop))?, &ports[hop + 1..])))
}

/// A number that depends on a route only (FNV-1a, 48 bits).
fn hash(end: End, ports: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ (end.node as u64) << 8 ^ u64::from(end.port);
    let mixed =
        ports.iter().fold(start, |hash, port| (hash ^ u64::from(*port)).wrapping_mul(0x0100_0000_01b3));
    (mixed ^ mixed >> 17) & 0xFFFF_FFFF_FFFF
}

/// Answers a Get for a made-up node.
///
/// # Errors
/// The status of a refusal.
pub(crate) fn answer(
    fabric: &Fabric,
    liar: FakePort,
    ports: &[u8],
    request: &Request,
    data: &mut [u8],
) -> Result<(), u16> {
    if let FakeNeighbour::Claim(node) = liar.lie {
        let (at, kind) = (End { node, port: fabric.nodes[node].end_ports().start as u8 }, request.attribute);
        let is_reported = ports.is_empty() && matches!(kind, 0x0010 | 0x0011 | 0x0015);
        return if is_reported {
            smp::get_attribute(fabric, at, request, false, data)
        } else {
            Err(smp::STATUS_BAD_ATTRIBUTE)
        };
    }
    let number = hash(liar.end, ports);
    match request.attribute {
        0x0010 => data[..6].copy_from_slice(b"liar\x1b["),
        0x0011 => {
            put(data, 0, 8, 1);
            put(data, 8, 8, 1);
            put(data, 16, 8, 2);
            put(data, 24, 8, u64::from(PORTS));
            for bit in [32, 96, 160] {
                put(data, bit, 64, GUID_BASE | number);
            }
            put(data, 240, 16, 1);
            put(data, 288, 8, u64::from(UPLINK));
        }
        0x0012 => {
            put(data, 0, 16, LINEAR_TOP + 1);
            put(data, 48, 16, LINEAR_TOP);
        }
        0x0015 => {
            put(data, 64, 64, fabric.prefix);
            if request.modifier == 0 {
                let lids = if number.is_multiple_of(8) { CLAIMED_LIDS } else { LINEAR_TOP };
                put(data, 128, 16, 1 + (number >> 3) % lids);
            }
            linked(data);
        }
        0x0019 => data.fill(1),
        _ => return Err(smp::STATUS_BAD_ATTRIBUTE),
    }
    Ok(())
}

/// What a real node shows of a port behind which something is made up: a link.
pub(crate) fn shown(liars: &[FakePort], at: End, request: &Request, data: &mut [u8]) {
    let is_it =
        |liar: &FakePort| liar.end.node == at.node && u64::from(liar.end.port) == u64::from(request.modifier);
    if request.attribute == 0x0015 && liars.iter().any(is_it) {
        linked(data);
    }
}

/// PortInfo of a 4x EDR link that is up.
fn linked(data: &mut [u8]) {
    if get(data, 260, 4) != ACTIVE {
        put(data, 248, 8, 2);
        put(data, 280, 4, 4);
        put(data, 496, 4, 2);
    }
    put(data, 260, 4, ACTIVE);
    put(data, 264, 4, LINK_UP);
}
