//! The file that `ibnetdiscover --cache` writes and `--load-cache` of infiniband-diags reads.
//!
//! It holds NodeInfo, PortInfo and SwitchInfo as they came from the fabric, so nothing is missing but the tables.
//! Layout, all integers little-endian (found out from files of infiniband-diags 44; ibnetdiscover(8) only names
//! the option): a header of 28 bytes (magic, version, numbers of nodes and ports, GUID of the first node, most
//! hops), the nodes, the ports. Counts in the header are held against the file's size before anything is read.

use super::facts::{Facts, NodeFact, PortFact};
use crate::mad::{NodeInfo, NodeKind, PhysicalState, PortInfo, SMP_DATA_BYTES, SwitchInfo, node_description};
use std::collections::HashMap;
use throughline_sample::Guid;

/// First four bytes.
pub const MAGIC: u32 = 0x8FE7_832B;
/// The only version there is.
pub const VERSION: u32 = 1;
/// Bytes of a node without its list of ports: LID, LMC, enhanced port 0, SwitchInfo, GUID, type, number of ports,
/// NodeInfo, NodeDescription, length of the list.
pub const NODE_BYTES: usize = 4 + SMP_DATA_BYTES + 10 + 2 * SMP_DATA_BYTES + 1;
/// Bytes of an entry of that list: port GUID and number.
pub const PORT_KEY_BYTES: usize = 9;
/// Bytes of a port: GUID, number, label, LID, LMC, PortInfo, node's GUID, and the other end.
pub const PORT_BYTES: usize = 13 + SMP_DATA_BYTES + 8 + 1 + PORT_KEY_BYTES;
/// Most bytes of a file: every LID a node, and 256 ports for each hundredth.
pub const MAX_BYTES: usize = 256 << 20;

/// Takes bytes from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it is cut short; save it again")?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, String> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }
}

/// A port's end: port GUID and number. All ports of a switch have the GUID of its port 0.
type End = (u64, u8);

/// Reads a file into `facts`.
///
/// # Errors
/// What is wrong, without the file's name.
pub fn read(bytes: &[u8], facts: &mut Facts) -> Result<(), String> {
    let mut cursor = Cursor(bytes);
    if cursor.number(4)? != u64::from(MAGIC) {
        return Err("it is no cache of ibnetdiscover".to_owned());
    }
    let version = cursor.number(4)?;
    if version != u64::from(VERSION) {
        return Err(format!("a cache of version {version}, and only version {VERSION} is known"));
    }
    let (nodes, ports) = (cursor.number(4)?, cursor.number(4)?);
    let first = Guid(cursor.number(8)?);
    cursor.number(4)?;
    let least = nodes as usize * NODE_BYTES + ports as usize * PORT_BYTES;
    if least > cursor.0.len() {
        return Err(format!(
            "{nodes} nodes and {ports} ports do not fit in it: it is cut short; save it again"
        ));
    }
    for _ in 0..nodes {
        let node = node(&mut cursor)?;
        facts.node(node)?;
    }
    let ports = (0..ports).map(|_| port(&mut cursor)).collect::<Result<Vec<CachedPort>, String>>()?;
    if !cursor.0.is_empty() {
        return Err(format!("{} bytes are left over", cursor.0.len()));
    }
    let owners: HashMap<End, (Guid, u8)> =
        ports.iter().map(|port| (port.end, (port.node, port.end.1))).collect();
    for port in ports {
        let mut fact = port.fact;
        if let Some(far) = port.remote {
            let far = owners.get(&far).ok_or("a cable leads to a port that is not in it")?;
            fact.remote = Some(*far);
        }
        if port.node == first && facts.local_port_guid.is_none() {
            facts.local_port_guid = fact.guid;
        }
        facts.port(port.node, port.end.1, fact)?;
    }
    Ok(())
}

fn node(cursor: &mut Cursor<'_>) -> Result<NodeFact, String> {
    cursor.take(3)?;
    let enhanced = cursor.byte()? != 0;
    let switch = SwitchInfo::decode(cursor.take(SMP_DATA_BYTES)?).map_err(|error| error.to_string())?;
    let guid = Guid(cursor.number(8)?);
    cursor.take(2)?;
    let info = NodeInfo::decode(cursor.take(SMP_DATA_BYTES)?).map_err(|error| error.to_string())?;
    let description = node_description(cursor.take(SMP_DATA_BYTES)?);
    let listed = usize::from(cursor.byte()?);
    cursor.take(listed * PORT_KEY_BYTES)?;
    let is_switch = info.kind == NodeKind::Switch;
    Ok(NodeFact {
        kind: Some(info.kind),
        description: Some(description),
        system_guid: Some(info.system_guid),
        vendor_id: Some(info.vendor_id),
        device_id: Some(info.device_id),
        port_count: Some(info.port_count),
        enhanced_port_0: is_switch.then_some(enhanced),
        switch: is_switch.then_some(switch),
        ..NodeFact::new(guid)
    })
}

/// A port as the file has it.
struct CachedPort {
    end: End,
    node: Guid,
    remote: Option<End>,
    fact: PortFact,
}

fn port(cursor: &mut Cursor<'_>) -> Result<CachedPort, String> {
    let end = (cursor.number(8)?, cursor.byte()?);
    cursor.take(4)?;
    let info = PortInfo::decode(cursor.take(SMP_DATA_BYTES)?).map_err(|error| error.to_string())?;
    let node = Guid(cursor.number(8)?);
    let has_remote = cursor.byte()? != 0;
    let far = (cursor.number(8)?, cursor.byte()?);
    // ibnetdiscover lists ports of a switch that did not answer with an empty PortInfo.
    let is_read = info.state.is_some() || info.physical_state != PhysicalState(0) || info.lid != 0;
    let fact = PortFact {
        guid: Some(Guid(end.0)),
        is_linked: has_remote.then_some(true),
        info: is_read.then_some(info),
        ..PortFact::default()
    };
    Ok(CachedPort { end, node, remote: has_remote.then_some(far), fact })
}
