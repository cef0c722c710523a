//! ibdiagnet's `.lst`: one line a cable, with both ends in braces.
//!
//! Facts from ibutils' reader of these files (all numbers are hexadecimal without 0x) and public examples.

use super::OfflineError;
use super::facts::{Facts, NodeFact, PortFact};
use super::lines::{Lines, description, hexadecimal};
use super::links::{LinkBits, SpeedBits, width_bits};
use crate::mad::{NodeKind, PortState};
use throughline_sample::Guid;

/// Reads a file into `facts`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have.
pub fn read(lines: &mut Lines<'_>, facts: &mut Facts) -> Result<(), OfflineError> {
    while lines.advance()? {
        let line = lines.text().trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("File version") {
            continue;
        }
        let ends = cable(line).ok_or_else(|| lines.expected("`{ SW Ports:… } { … } PHY=… LOG=… SPD=…`"))?;
        for node in ends {
            facts.node(node).map_err(|reason| lines.file_error(reason))?;
        }
    }
    Ok(())
}

fn cable(line: &str) -> Option<[NodeFact; 2]> {
    // A name may hold braces: ends are distinguished by what begins them.
    let begins = [" { CA ", " { SW ", " { RT ", " { Rt "];
    let second = begins.iter().filter_map(|begin| line.find(begin)).min()?;
    let (first, rest) = (line.get(..second)?, line.get(second..)?);
    let phy = rest.rfind(" PHY=")?;
    let (second, tail) = (rest.get(..phy)?, rest.get(phy..)?);
    let value = |key: &str| tail.split_whitespace().find_map(|word| word.strip_prefix(key));
    let state = PortState::by_name(value("LOG=")?)?;
    let width = width_bits(value("PHY=")?.strip_suffix('x')?);
    let speed = SpeedBits::of_gigabits(value("SPD=")?);
    let link = width.zip(speed).map(|(width, speed)| LinkBits { width, speed });
    let ((mut here, here_port), (mut there, there_port)) = (end(first)?, end(second)?);
    let connect = |node: &mut NodeFact, port: u8, far: (Guid, u8)| {
        let fact = node.ports.entry(port).or_default();
        fact.is_linked = Some(state != PortState::Down);
        (fact.state, fact.link, fact.remote) = (Some(state), link, Some(far));
    };
    let (here_guid, there_guid) = (here.guid, there.guid);
    connect(&mut here, here_port, (there_guid, there_port));
    connect(&mut there, there_port, (here_guid, here_port));
    Some([here, there])
}

/// `{ CA Ports:02 SystemGUID:… NodeGUID:… PortGUID:… VenID:… DevID:… Rev:… {name} LID:0005 PN:01 }`.
fn end(text: &str) -> Option<(NodeFact, u8)> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let (head, rest) =
        inner.split_once('{').map_or((inner, None), |(head, rest)| (head, rest.rsplit_once('}')));
    let (name, tail) = rest.unwrap_or(("", inner));
    let kind = match head.split_whitespace().next()? {
        "CA" => NodeKind::Ca,
        "SW" => NodeKind::Switch,
        "RT" | "Rt" => NodeKind::Router,
        _ => return None,
    };
    let value = |text: &str, key: &str| {
        let word = text.split_whitespace().find_map(|word| word.strip_prefix(key).map(str::to_owned))?;
        hexadecimal(&word).filter(|_| !word.is_empty())
    };
    let port = u8::try_from(value(tail, "PN:")?).ok()?;
    let lid = u16::try_from(value(tail, "LID:")?).ok()?;
    let mut node = NodeFact {
        kind: Some(kind),
        port_count: Some(u8::try_from(value(head, "Ports:")?).ok()?),
        system_guid: value(head, "SystemGUID:").map(Guid),
        vendor_id: value(head, "VenID:").and_then(|id| u32::try_from(id).ok()),
        device_id: value(head, "DevID:").and_then(|id| u16::try_from(id).ok()),
        description: (!name.is_empty()).then(|| description(name)),
        ..NodeFact::new(Guid(value(head, "NodeGUID:")?))
    };
    let own = PortFact { guid: value(head, "PortGUID:").map(Guid), lid: Some(lid), ..PortFact::default() };
    // A switch has its LID at port 0.
    node.ports.insert(if kind == NodeKind::Switch { 0 } else { port }, own);
    Some((node, port))
}
