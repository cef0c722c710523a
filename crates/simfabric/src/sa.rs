//! The subnet administrator: records made from the fabric, written from the tables of IBTA volume 1, 15.2.5
//! (offsets also held against opensm's ib_types.h). Pure; subscriptions and Reports are `notices`.

use crate::bits::{get, put};
use crate::model::{ACTIVE, End, Fabric};
use crate::{forwarding, smp};

/// Class of subnet administration and its version (13.4.4, 15.2.1).
pub(crate) const CLASS: u8 = 0x03;
pub(crate) const VERSION: u8 = 2;
/// Bytes before the data (15.2.1.1).
pub(crate) const HEADER_BYTES: usize = 56;
/// Methods (15.2.2).
pub(crate) const GET: u8 = 0x01;
pub(crate) const SET: u8 = 0x02;
pub(crate) const GET_TABLE: u8 = 0x12;
const RESPONSE: u8 = 0x80;
/// Status, in the upper byte (15.2.3).
pub(crate) const INVALID: u16 = 2 << 8;
const NO_RECORDS: u16 = 3 << 8;
const TOO_MANY_RECORDS: u16 = 4 << 8;
/// Attributes (15.2.5).
pub(crate) const INFORM_INFO: u16 = 0x0003;
const CLASS_PORT_INFO: u16 = 0x0001;
const NODE: u16 = 0x0011;
const PORT_INFO: u16 = 0x0012;
const SWITCH_INFO: u16 = 0x0014;
const LINEAR: u16 = 0x0015;
const MULTICAST: u16 = 0x0017;
const SM_INFO: u16 = 0x0018;
const LINK: u16 = 0x0020;
const PATH: u16 = 0x0035;
const MC_MEMBER: u16 = 0x0038;

/// A component of a record that can be requested: number, bit offset, bits.
type Component = (u32, usize, usize);

/// How long a record is and what of it can be requested.
fn layout(attribute: u16) -> Option<(usize, &'static [Component])> {
    const LID: Component = (0, 0, 16);
    Some(match attribute {
        NODE => (112, &[LID, (4, 48, 8), (5, 56, 8), (6, 64, 64), (7, 128, 64), (8, 192, 64), (10, 272, 16)]),
        PORT_INFO => (72, &[LID, (1, 16, 8)]),
        SWITCH_INFO => (24, &[LID]),
        LINEAR => (72, &[LID, (1, 16, 16)]),
        MULTICAST => (72, &[LID, (1, 16, 4), (3, 23, 9)]),
        SM_INFO => (32, &[LID]),
        LINK => (8, &[LID, (1, 16, 8), (2, 24, 8), (3, 32, 16)]),
        PATH => (
            64,
            &[
                (2, 64, 128),
                (3, 192, 128),
                (4, 320, 16),
                (5, 336, 16),
                (11, 392, 1),
                (12, 393, 7),
                (13, 400, 16),
            ],
        ),
        MC_MEMBER => (56, &[(0, 0, 128), (1, 128, 128), (3, 288, 16)]),
        _ => return None,
    })
}

/// What is requested.
struct RecordQuery<'a> {
    components: u64,
    template: &'a [u8],
    /// The asker's end port: a path without a source begins there.
    from: End,
    is_trusted: bool,
}

impl RecordQuery<'_> {
    /// A LID in component 0 narrows the search to its end port.
    fn lid(&self) -> Option<u16> {
        (self.components & 1 == 1).then(|| get(self.template, 0, 16) as u16)
    }

    fn fits(&self, components: &[Component], record: &[u8]) -> bool {
        components.iter().filter(|(number, ..)| self.components >> number & 1 == 1).all(|(_, bit, bits)| {
            (*bit..bit + bits).step_by(8).all(|at| {
                let count = (bit + bits - at).min(8);
                get(self.template, at, count) == get(record, at, count)
            })
        })
    }
}

/// Answers a Get or GetTable; the whole message. `None` where an administrator says nothing: a wrong SM_Key.
pub(crate) fn answer(fabric: &Fabric, from: End, key: u64, request: &[u8; 256]) -> Option<Vec<u8>> {
    let given = get(request, 288, 64);
    if given != 0 && given != key {
        return None;
    }
    let method = request[3];
    let attribute = get(request, 128, 16) as u16;
    let query = RecordQuery {
        components: get(request, 384, 64),
        template: &request[HEADER_BYTES..],
        from,
        is_trusted: given != 0,
    };
    let mut message = request[..HEADER_BYTES].to_vec();
    message[3] = method | RESPONSE;
    if attribute == CLASS_PORT_INFO && method == GET {
        message.resize(256, 0);
        put(&mut message[HEADER_BYTES..], 0, 8, 1);
        put(&mut message[HEADER_BYTES..], 8, 8, u64::from(VERSION));
        return Some(message);
    }
    let (status, records) = match (layout(attribute), method) {
        (None, _) => (smp::STATUS_BAD_ATTRIBUTE, Vec::new()),
        (Some(layout), GET | GET_TABLE) => {
            let records = records(fabric, attribute, &query, layout);
            match (records, method) {
                (Err(status), _) => (status, Vec::new()),
                (Ok(records), GET) if records.is_empty() => (NO_RECORDS, records),
                (Ok(records), GET) if records.len() > layout.0 => (TOO_MANY_RECORDS, Vec::new()),
                (Ok(records), _) => (0, records),
            }
        }
        _ => (smp::STATUS_BAD_METHOD, Vec::new()),
    };
    put(&mut message, 32, 16, u64::from(status));
    put(&mut message, 352, 16, layout(attribute).map_or(0, |(bytes, _)| bytes as u64 / 8));
    if method == GET_TABLE && status == 0 {
        put_rmpp(&mut message, records.len());
        message.extend_from_slice(&records);
    } else {
        message.extend_from_slice(&records);
        message.resize(256, 0);
    }
    Some(message)
}

/// RMPP's header of a message as the layer below hands it over (13.6.2): version 1, DATA, active, first and
/// last, segment 1, PayLoadLength of everything after the RMPP header.
fn put_rmpp(message: &mut [u8], records: usize) {
    message[24] = 1;
    message[25] = 1;
    message[26] = 0x07;
    put(message, 224, 32, 1);
    put(message, 256, 32, (records + 20) as u64);
}

fn records(
    fabric: &Fabric,
    attribute: u16,
    query: &RecordQuery<'_>,
    (bytes, components): (usize, &[Component]),
) -> Result<Vec<u8>, u16> {
    let known = components.iter().fold(0, |mask, (number, ..)| mask | 1u64 << number);
    if query.components & !known != 0 {
        return Err(INVALID);
    }
    let mut found = Vec::new();
    let mut record = vec![0; bytes];
    let mut take = |fill: &mut dyn FnMut(&mut [u8])| {
        record.fill(0);
        fill(&mut record);
        if query.fits(components, &record) {
            found.extend_from_slice(&record);
        }
    };
    match attribute {
        PATH => path_record(fabric, query, &mut take),
        MC_MEMBER => member_records(fabric, query, &mut take),
        SM_INFO => {
            if let Some(end) = fabric.manager {
                take(&mut |record| {
                    put(record, 0, 16, u64::from(fabric.port(end).map_or(0, |port| port.lid)));
                    // It is queried at the manager's port, so it can't fail.
                    let _ = smp::sm_info(fabric, end, &mut record[4..]);
                });
            }
        }
        _ => {
            for node in chosen(fabric, query) {
                node_records(fabric, attribute, node, &mut take);
            }
        }
    }
    Ok(found)
}

type RecordSink<'a> = dyn FnMut(&mut dyn FnMut(&mut [u8])) + 'a;

/// Nodes that a request can mean: those in the subnet, narrowed by a LID.
fn chosen(fabric: &Fabric, query: &RecordQuery<'_>) -> Vec<usize> {
    match query.lid() {
        Some(lid) => fabric.by_lid(lid).map(|end| end.node).into_iter().collect(),
        None => (0..fabric.nodes.len()).collect(),
    }
}

/// Records of one node: of those of its end ports that are in the subnet.
fn node_records(fabric: &Fabric, attribute: u16, index: usize, take: &mut RecordSink<'_>) {
    let node = &fabric.nodes[index];
    if node.is_removed {
        return;
    }
    let is_known = |end: &End| fabric.port(*end).is_some_and(|port| port.state == ACTIVE && port.lid != 0);
    let ends = node.end_ports().map(|port| End { node: index, port: port as u8 });
    for end in ends.filter(is_known) {
        let lid = u64::from(fabric.port(end).map_or(0, |port| port.lid));
        let ports = if node.is_switch() { 0..=node.port_count() } else { end.port..=end.port };
        match attribute {
            NODE => take(&mut |record| {
                put(record, 0, 16, lid);
                smp::node_info(node, end.port, &mut record[4..]);
                let text = &node.description.as_bytes()[..node.description.len().min(64)];
                record[44..44 + text.len()].copy_from_slice(text);
            }),
            PORT_INFO => {
                for port in ports {
                    take(&mut |record| {
                        put(record, 0, 16, lid);
                        put(record, 16, 8, u64::from(port));
                        smp::port_info(fabric, End { node: index, port }, port, false, &mut record[4..68]);
                    });
                }
            }
            LINK => {
                for port in ports {
                    link_record(fabric, End { node: index, port }, lid, take);
                }
            }
            SWITCH_INFO if node.is_switch() => take(&mut |record| {
                put(record, 0, 16, lid);
                smp::switch_info(fabric, node, &mut record[4..]);
            }),
            LINEAR if node.is_switch() => {
                for block in 0..node.forwarding.len().div_ceil(64) {
                    take(&mut |record| {
                        put(record, 0, 16, lid);
                        put(record, 16, 16, block as u64);
                        // Blocks within the table can't fail.
                        let _ = smp::linear_block(node, block as u32, &mut record[8..]);
                    });
                }
            }
            MULTICAST if node.is_switch() => multicast_records(fabric, index, lid, take),
            _ => {}
        }
    }
}

fn link_record(fabric: &Fabric, here: End, lid: u64, take: &mut RecordSink<'_>) {
    let Some(there) = fabric.across(here) else { return };
    let far = &fabric.nodes[there.node];
    let end = if far.is_switch() { End { port: 0, ..there } } else { there };
    let to = fabric.port(end).map_or(0, |port| port.lid);
    take(&mut |record| {
        put(record, 0, 16, lid);
        put(record, 16, 8, u64::from(here.port));
        put(record, 24, 8, u64::from(there.port));
        put(record, 32, 16, u64::from(to));
    });
}

/// Blocks and positions in which any port is set.
fn multicast_records(fabric: &Fabric, index: usize, lid: u64, take: &mut RecordSink<'_>) {
    let node = &fabric.nodes[index];
    for block in 0..node.multicast.len().div_ceil(32) {
        for position in 0..16 {
            let entries = node.multicast.iter().skip(block * 32).take(32);
            if entries.map(|masks| masks[position]).all(|mask| mask == 0) {
                continue;
            }
            take(&mut |record| {
                put(record, 0, 16, lid);
                put(record, 16, 4, position as u64);
                put(record, 23, 9, block as u64);
                let modifier = (position as u32) << 28 | block as u32;
                // Blocks within the table can't fail.
                let _ = smp::multicast_block(node, modifier, &mut record[8..]);
            });
        }
    }
}

fn gid(fabric: &Fabric, end: End) -> (u64, u64) {
    (fabric.prefix, fabric.port(end).map_or(0, |port| port.guid))
}

/// The end port that a GID or a LID of the template means; `otherwise` where neither is requested.
fn path_end(
    fabric: &Fabric,
    query: &RecordQuery<'_>,
    gid: Component,
    lid: Component,
    otherwise: Option<End>,
) -> Option<End> {
    if query.components >> lid.0 & 1 == 1 {
        return fabric.by_lid(get(query.template, lid.1, 16) as u16);
    }
    if query.components >> gid.0 & 1 == 1 {
        let guid = get(query.template, gid.1 + 64, 64);
        let has = |end: &End| fabric.port(*end).is_some_and(|port| port.guid == guid);
        return fabric.lids.iter().flatten().copied().find(has);
    }
    otherwise
}

/// PathRecord (15.2.5.16): the one path between two end ports.
fn path_record(fabric: &Fabric, query: &RecordQuery<'_>, take: &mut RecordSink<'_>) {
    let from = path_end(fabric, query, (3, 192, 128), (5, 336, 16), Some(query.from));
    let to = path_end(fabric, query, (2, 64, 128), (4, 320, 16), None);
    let (Some(from), Some(to)) = (from, to) else { return };
    let wanted = (query.components >> 4 & 1 == 1).then(|| get(query.template, 320, 16) as u16);
    let base = |end| fabric.port(end).map_or(0, |port| port.lid);
    let lid = wanted.unwrap_or(base(to));
    if forwarding::by_lid(fabric, from, lid) != Some(to) {
        return;
    }
    take(&mut |record| {
        let ((prefix, to_guid), (_, from_guid)) = (gid(fabric, to), gid(fabric, from));
        put(record, 64, 64, prefix);
        put(record, 128, 64, to_guid);
        put(record, 192, 64, prefix);
        put(record, 256, 64, from_guid);
        put(record, 320, 16, u64::from(lid));
        put(record, 336, 16, u64::from(base(from)));
        put(record, 392, 1, 1);
        // What was queried, so that it fits; one path is reported.
        put(record, 393, 7, get(query.template, 393, 7));
        put(record, 400, 16, 0xFFFF);
        put(record, 432, 8, 2 << 6 | 5);
        put(record, 440, 8, 2 << 6 | 16);
        put(record, 448, 8, 2 << 6 | 18);
    });
}

/// MCMemberRecord (15.2.5.17): members to the trusted, else groups with the port left out.
fn member_records(fabric: &Fabric, query: &RecordQuery<'_>, take: &mut RecordSink<'_>) {
    for group in &fabric.groups {
        let ends = group.ends(fabric);
        let shown = if query.is_trusted { ends.len() } else { ends.len().min(1) };
        for end in &ends[..shown] {
            take(&mut |record| {
                put(record, 0, 64, (group.mgid >> 64) as u64);
                put(record, 64, 64, group.mgid as u64);
                if query.is_trusted {
                    let (prefix, guid) = gid(fabric, *end);
                    put(record, 128, 64, prefix);
                    put(record, 192, 64, guid);
                }
                put(record, 256, 32, 0x0B1B);
                put(record, 288, 16, u64::from(group.mlid));
                put(record, 304, 8, 2 << 6 | 5);
                put(record, 320, 16, 0xFFFF);
                put(record, 336, 8, 2 << 6 | 3);
                put(record, 344, 8, 2 << 6 | 18);
                put(record, 384, 4, 2);
                put(record, 388, 4, u64::from(query.is_trusted));
            });
        }
    }
}
