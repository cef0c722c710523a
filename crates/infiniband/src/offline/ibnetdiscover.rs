//! What `ibnetdiscover` prints, with its options -g, -f and -s: the format that ibsim takes as a net, too.
//!
//! Facts from ibnetdiscover(8) and its output. Each cable stands there twice, once at each end; where one of
//! them is missing, the file is cut short, and that is an error.

use super::OfflineError;
use super::facts::{Facts, NodeFact, PortFact};
use super::lines::{Lines, description, hexadecimal, number};
use super::links;
use crate::mad::NodeKind;
use throughline_sample::Guid;

/// What stands above a node's own line.
#[derive(Default)]
struct Heading {
    is_begun: bool,
    vendor_id: u32,
    device_id: u16,
    system_guid: Option<Guid>,
    guid: Option<Guid>,
    port_guid: Option<Guid>,
}

/// A cable as one end has it.
struct Cable {
    here: (Guid, u8),
    there: (Guid, u8),
    line: u64,
}

/// Reads a file into `facts`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have, a cable with one end only.
pub fn read(lines: &mut Lines<'_>, facts: &mut Facts) -> Result<(), OfflineError> {
    let mut heading = Heading::default();
    let mut current: Option<Guid> = None;
    let mut cables = Vec::new();
    let mut kinds = 0usize;
    while lines.advance()? {
        let line = lines.text().trim();
        if let Some(comment) = line.strip_prefix('#') {
            if let Some((_, port)) = initiated_from(comment) {
                facts.local_port_guid = Some(port);
            }
        } else if line.is_empty() || is_chassis(line) {
            // Groups of -g are recognised by the nodes' names, too.
        } else if line.starts_with('[') {
            let guid = current.ok_or_else(|| lines.expected("a node before its ports"))?;
            let (cable, port) = port_line(lines, guid)?;
            facts.port(guid, cable.here.1, port).map_err(|reason| lines.file_error(reason))?;
            cables.push(cable);
        } else if let Some((key, value)) = key_and_value(line) {
            current = None;
            heading.is_begun = true;
            key_value(&mut heading, key, value).ok_or_else(|| lines.expected("`key=0x…`"))?;
        } else {
            let node = node_line(lines, &heading)?;
            current = Some(node.guid);
            facts.node(node).map_err(|reason| lines.file_error(reason))?;
            heading = Heading::default();
            kinds += 1;
        }
    }
    if kinds == 0 || heading.is_begun {
        return Err(
            lines.file_error("it ends within a node: the file is cut short; save it again".to_owned())
        );
    }
    both_ends(lines, cables)
}

/// `# Initiated from node 0002c90300000010 port 0002c90300000011`
fn initiated_from(comment: &str) -> Option<(Guid, Guid)> {
    let mut words = comment.trim().strip_prefix("Initiated from node ")?.split_whitespace();
    let node = hexadecimal(words.next()?)?;
    (words.next()? == "port").then_some(())?;
    Some((Guid(node), Guid(hexadecimal(words.next()?)?)))
}

fn is_chassis(line: &str) -> bool {
    ["Chassis ", "Non-Chassis", "Hostname"].iter().any(|word| line.starts_with(word))
}

/// `vendid=0x2c9`. A node's line may hold `=`, too: in its name.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    key.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some((key, value))
}

fn key_value(heading: &mut Heading, key: &str, value: &str) -> Option<()> {
    // -g adds a comment.
    let value = value.split('#').next()?.trim();
    match key {
        "vendid" => heading.vendor_id = number(value)?,
        "devid" => heading.device_id = number(value)?,
        "sysimgguid" => heading.system_guid = Some(Guid(number(value)?)),
        "switchguid" | "caguid" | "rtguid" => {
            // switchguid=0x1010(1011): the second one is port 0's.
            let (node, port) = match value.split_once('(') {
                Some((node, port)) => (node, Some(hexadecimal(port.strip_suffix(')')?)?)),
                None => (value, None),
            };
            heading.guid = Some(Guid(number(node)?));
            heading.port_guid = port.map(Guid);
        }
        _ => return None,
    }
    Some(())
}

/// `Switch 36 "S-0002c9030000aaaa"  # "leaf 1" enhanced port 0 lid 3 lmc 0`, `Ca 2 "H-…"  # "name"`.
fn node_line(lines: &Lines<'_>, heading: &Heading) -> Result<NodeFact, OfflineError> {
    let expected = || lines.expected("`Switch`, `Ca` or `Rt`, a number of ports and a quoted identifier");
    let (kind, rest) = lines.text().trim().split_once(char::is_whitespace).ok_or_else(expected)?;
    let kind = match kind {
        "Switch" => NodeKind::Switch,
        "Ca" | "Hca" => NodeKind::Ca,
        "Rt" | "Router" => NodeKind::Router,
        _ => return Err(expected()),
    };
    let (count, rest) = rest.trim_start().split_once(char::is_whitespace).ok_or_else(expected)?;
    let (id, rest) = quoted_id(rest.trim_start()).ok_or_else(expected)?;
    let port_count: u8 = number(count).ok_or_else(expected)?;
    let guid = heading.guid.or(id).ok_or_else(expected)?;
    let mut node = NodeFact {
        kind: Some(kind),
        system_guid: heading.system_guid,
        vendor_id: Some(heading.vendor_id),
        device_id: Some(heading.device_id),
        port_count: Some(port_count),
        ..NodeFact::new(guid)
    };
    let Some(comment) = rest.trim().strip_prefix('#') else { return Ok(node) };
    let Some(quoted) = comment.trim().strip_prefix('"') else { return Ok(node) };
    // A name may hold quotes: the last one ends it.
    let (name, tail) = quoted.rsplit_once('"').ok_or_else(expected)?;
    node.description = Some(description(name));
    if kind == NodeKind::Switch {
        let words: Vec<&str> = tail.split_whitespace().collect();
        let port = PortFact {
            guid: heading.port_guid,
            lid: after(&words, "lid"),
            lmc: after(&words, "lmc"),
            ..PortFact::default()
        };
        node.enhanced_port_0 = words.first().map(|word| *word == "enhanced");
        node.ports.insert(0, port);
    }
    Ok(node)
}

/// `"S-0002c9030000aaaa"` and what follows. The identifier is a GUID in files of the tools, any text in nets
/// written by hand.
fn quoted_id(text: &str) -> Option<(Option<Guid>, &str)> {
    let (id, rest) = text.strip_prefix('"')?.split_once('"')?;
    let digits = id.split_once('-').map_or(id, |(_, digits)| digits);
    Some((hexadecimal(digits).filter(|_| !digits.is_empty()).map(Guid), rest))
}

/// The number that follows a word.
fn after<T: TryFrom<u64>>(words: &[&str], name: &str) -> Option<T> {
    let at = words.iter().position(|word| *word == name)?;
    number(words.get(at + 1)?)
}

/// `[12]` or `[12][ext 3]`, and what follows.
fn bracket(text: &str) -> Option<(u8, &str)> {
    let (inner, mut rest) = text.strip_prefix('[')?.split_once(']')?;
    if let Some(label) = rest.strip_prefix("[ext ") {
        rest = label.split_once(']')?.1;
    }
    Some((number(inner)?, rest))
}

/// `(2c9030000aaab)` if there is one, and what follows.
fn parenthesis(text: &str) -> Option<(Option<Guid>, &str)> {
    match text.strip_prefix('(') {
        Some(inner) => {
            let (guid, rest) = inner.split_once(')')?;
            Some((Some(Guid(hexadecimal(guid)?)), rest))
        }
        None => Some((None, text)),
    }
}

/// Of a switch `[1] "H-…"[2](2c9…)   # "name" lid 3 4xQDR`, of others
/// `[1](2c9…)  "S-…"[1]  # lid 2 lmc 0 "name" lid 1 4xQDR`; -f adds ` s=4 w=2 v=4`.
fn port_line(lines: &Lines<'_>, guid: Guid) -> Result<(Cable, PortFact), OfflineError> {
    let expected = || lines.expected("`[port] \"neighbour\"[port] # … lid … 4xEDR`");
    let parse = || {
        let (here, rest) = bracket(lines.text().trim())?;
        let (port_guid, rest) = parenthesis(rest)?;
        let (there, rest) = quoted_id(rest.trim_start())?;
        let (there_port, rest) = bracket(rest)?;
        // Between two adapters the far port's GUID stands after a blank.
        let (_, rest) = parenthesis(rest.trim_start())?;
        let comment = rest.trim().strip_prefix('#')?.trim();
        let mut port = PortFact { guid: port_guid, is_linked: Some(true), ..PortFact::default() };
        let before_name = comment.split('"').next().unwrap_or_default();
        let words: Vec<&str> = before_name.split_whitespace().collect();
        port.lid = after(&words, "lid");
        port.lmc = after(&words, "lmc");
        let link = comment.rsplit_once('"').map_or(comment, |(_, tail)| tail);
        let link = link.split_whitespace().find_map(links::parse)?;
        port.link = Some(link);
        port.remote = Some((there?, there_port));
        let cable = Cable { here: (guid, here), there: (there?, there_port), line: lines.number() };
        Some((cable, port))
    };
    parse().ok_or_else(expected)
}

/// Each cable must stand at both of its ends.
fn both_ends(lines: &Lines<'_>, mut cables: Vec<Cable>) -> Result<(), OfflineError> {
    cables.sort_by_key(|cable| cable.here);
    for cable in &cables {
        let other = cables.binary_search_by_key(&cable.there, |other| other.here);
        if other.ok().map(|at| cables[at].there) != Some(cable.here) {
            let ((guid, port), (far, far_port)) = (cable.here, cable.there);
            return Err(lines.file_error(format!(
                "line {}: port {port} of {guid} leads to port {far_port} of {far}, which does not lead back: the \
                 file is cut short or was changed; save it again",
                cable.line
            )));
        }
    }
    Ok(())
}
