//! What `ibnetdiscover --ports` prints: one line a port with both ends of its cable.
//!
//! Facts from ibnetdiscover(8) and its output. Adapters are named by port GUID only; where no other file has the
//! port, its GUID stands for the node's, and that is warned of.

use super::OfflineError;
use super::facts::{Facts, LoosePort, PortFact};
use super::lines::{Lines, description, number};
use super::links::{LinkBits, SpeedBits, width_bits};
use crate::mad::NodeKind;
use throughline_sample::Guid;

/// Reads a file into `facts`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have.
pub fn read(lines: &mut Lines<'_>, facts: &mut Facts) -> Result<(), OfflineError> {
    while lines.advance()? {
        let line = lines.text().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (port, name) = port_line(line).ok_or_else(|| lines.expected("`SW LID PORT 0x… 4x EDR - …`"))?;
        facts.loose_named(port, name).map_err(|reason| lines.file_error(reason))?;
    }
    Ok(())
}

/// One end: kind, LID, port, GUID.
fn end<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<(NodeKind, u16, u8, Guid)> {
    let kind = match words.next()? {
        "CA" => NodeKind::Ca,
        "SW" => NodeKind::Switch,
        "RT" => NodeKind::Router,
        _ => return None,
    };
    Some((kind, number(words.next()?)?, number(words.next()?)?, super::facts::guid(words.next()?)?))
}

/// `CA     3  2 0x…2002 4x QDR - SW     4  1 0x…1010 ( 'alpha' - 'core B' )`,
/// `SW     4 12 0x…1010 4x SDR                          'core B'`.
fn port_line(line: &str) -> Option<(LoosePort, String)> {
    let quote = line.find('\'')?;
    let (head, names) = line.split_at(quote);
    let mut words = head.split_whitespace();
    let (kind, lid, number, guid) = end(&mut words)?;
    let width = words.next()?.strip_suffix('x').and_then(width_bits)?;
    let speed = SpeedBits::of_name(words.next()?)?;
    let mut fact = PortFact { lid: Some(lid), ..PortFact::default() };
    let name = match words.next() {
        Some("-") => {
            let (_, _, far_port, far) = end(&mut words)?;
            (words.next()? == "(").then_some(())?;
            fact.is_linked = Some(true);
            fact.link = Some(LinkBits { width, speed });
            fact.remote = Some((far, far_port));
            // ' - ' may be part of a name; the first half is right where it does not.
            names.strip_suffix(')')?.trim().strip_prefix('\'')?.split_once("' - '")?.0
        }
        // Width and speed of a port without a link mean nothing.
        None => names.strip_prefix('\'')?.strip_suffix('\'')?,
        Some(_) => return None,
    };
    Some((LoosePort { guid, kind: Some(kind), number, fact }, description(name)))
}
