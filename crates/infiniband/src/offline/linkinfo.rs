//! What `iblinkinfo` prints, with -l and -p, too: the states of all ports of switches, those without a link as well.
//!
//! Facts from iblinkinfo(8) and its output. It names adapters by port GUID only, so it adds to a topology and is
//! none by itself.

use super::OfflineError;
use super::facts::{Facts, LoosePort, PortFact};
use super::lines::{Lines, number};
use super::links::{LinkBits, SpeedBits, width_bits};
use crate::mad::{NodeKind, PhysicalState, PortState};
use throughline_sample::Guid;

/// Reads a file into `facts`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have.
pub fn read(lines: &mut Lines<'_>, facts: &mut Facts) -> Result<(), OfflineError> {
    let mut switch = None;
    while lines.advance()? {
        let line = lines.text().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.contains("==(") {
            let port = port_line(line, switch).ok_or_else(|| lines.expected("`LID PORT[] ==( … )==> …`"))?;
            facts.loose(port).map_err(|reason| lines.file_error(reason))?;
        } else if let Some(rest) = line.strip_prefix("Switch: ") {
            let guid = rest.split_whitespace().next().and_then(super::facts::guid);
            switch = Some(guid.ok_or_else(|| lines.expected("`Switch: 0x… name:`"))?);
        } else if ["CA: ", "RT: ", "Router: "].iter().any(|kind| line.starts_with(kind)) {
            switch = None;
        } else {
            return Err(lines.expected("`Switch: `, `CA: ` or a port"));
        }
    }
    Ok(())
}

/// `0x…2001      2    1[  ] ==( 4X          10.0 Gbps Active/  LinkUp)==>       1    1[  ] "core A" ( )`.
fn port_line(line: &str, switch: Option<Guid>) -> Option<LoosePort> {
    let (left, right) = line.split_once("==(")?;
    let (inner, right) = right.split_once(')')?;
    // -p puts more in parentheses before the arrow.
    right.split_once("==>")?;
    let (left, _) = left.rsplit_once('[')?;
    let (mut words, mut rest) = (left.split_whitespace(), left);
    let mut guid = switch;
    if let Some(own) = words.next().filter(|word| word.starts_with("0x")) {
        guid = Some(super::facts::guid(own)?);
        // -l has the name between.
        rest = left.rsplit_once('"').map_or(left, |(_, rest)| rest);
    }
    let mut words = rest.split_whitespace().rev();
    let port: u8 = number(words.next()?)?;
    let lid: u16 = number(words.next()?)?;
    Some(LoosePort {
        guid: guid?,
        kind: switch.map(|_| NodeKind::Switch),
        number: port,
        fact: states(inner, lid)?,
    })
}

/// ` 4X          10.0 Gbps Active/  LinkUp`, `                Down/ Polling`.
fn states(text: &str, lid: u16) -> Option<PortFact> {
    let (logical, physical) = text.rsplit_once('/')?;
    let (link, logical) = logical.trim_end().rsplit_once(char::is_whitespace).unwrap_or(("", logical));
    let state = PortState::by_name(logical.trim())?;
    let physical_state = PhysicalState::by_name(physical.trim());
    let mut words = link.split_whitespace();
    let width = words.next().and_then(|word| word.strip_suffix(['X', 'x'])).and_then(width_bits);
    let speed = words.next().and_then(SpeedBits::of_gigabits);
    let link = match (width, speed) {
        (Some(width), Some(speed)) => Some(LinkBits { width, speed }),
        _ => None,
    };
    Some(PortFact {
        lid: Some(lid),
        is_linked: Some(state != PortState::Down),
        state: Some(state),
        physical_state,
        link: link.filter(|_| state != PortState::Down),
        ..PortFact::default()
    })
}
