//! What `perfquery` prints, with -x, and with -l for several ports. Totals over all ports (-a) are no port's counters
//! and are left out.
//!
//! Facts from perfquery(8) and its output.

use super::OfflineError;
use super::counters::{Origin, PortKey, Snapshot};
use super::lines::{Lines, number};

/// Port number of totals (IBTA volume 1, 16.1.3.5, PortSelect).
const ALL_PORTS: u8 = 255;

/// Reads a file into `snapshot`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have, a last port with nothing.
pub fn read(lines: &mut Lines<'_>, snapshot: &mut Snapshot) -> Result<(), OfflineError> {
    let mut current = None;
    let mut origin = Origin::Classic;
    let mut count = 0;
    while lines.advance()? {
        let line = lines.text().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(heading) = line.strip_prefix('#') {
            if current.is_some() && count == 0 {
                return Err(lines.expected("counters of the port before"));
            }
            let (kind, key) = title(heading).ok_or_else(|| lines.expected("`# … counters: Lid N port N`"))?;
            origin = if kind == "Port" { Origin::Classic } else { Origin::Extended };
            // Details have counters of other names, which are left out one by one.
            current = Some(key.filter(|key| !matches!(key, PortKey::Lid(_, ALL_PORTS))));
            count = 0;
            continue;
        }
        let Some(key) = current else { return Err(lines.expected("`# Port counters: Lid N port N`")) };
        let (name, value) = field(line).ok_or_else(|| lines.expected("`Name:....value`"))?;
        count += 1;
        let Some(key) = key else { continue };
        let (Some(name), Some(value)) = (Some(name), number::<u64>(value)) else { continue };
        let values = snapshot.port(key).map_err(|reason| lines.file_error(reason))?;
        values.set(name, value, origin);
    }
    if current.is_some() && count == 0 {
        return Err(lines
            .file_error("the last port has no counters: the file is cut short; save it again".to_owned()));
    }
    Ok(())
}

/// `Port extended counters: Lid 1 port 3 (CapMask: …)`: the kind of counters, and which port; `None` for one that is named
/// by a directed route.
fn title(text: &str) -> Option<(&str, Option<PortKey>)> {
    let (kind, rest) = text.trim().split_once(" counters: ")?;
    let mut words = rest.split_whitespace();
    let is_lid = words.next()? == "Lid";
    let lid = number::<u16>(words.next()?);
    let port = words.skip_while(|word| *word != "port").nth(1).and_then(number::<u8>);
    Some((kind, lid.zip(port).filter(|_| is_lid).map(|(lid, port)| PortKey::Lid(lid, port))))
}

/// `SymbolErrorCounter:..............700`.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim(), value.trim_start_matches('.').trim()))
}
