//! Forwarding tables as `dump_lfts`, `dump_mfts`, `dump_fts` and `ibroute` print them, with -a, -n and -M.
//!
//! Facts from dump_fts(8), ibroute(8) and their output: a heading for each switch, one line a LID, and a count at
//! the end, by which a file that was cut short is found out.

use super::OfflineError;
use super::facts::Facts;
use super::lines::{Lines, number};
use throughline_sample::Guid;

/// The table that is being read.
struct Open {
    switch: Guid,
    is_multicast: bool,
    entries: u64,
}

/// Reads tables into `facts`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have, a table without its end.
pub fn read(lines: &mut Lines<'_>, facts: &mut Facts) -> Result<(), OfflineError> {
    let mut current: Option<Open> = None;
    while lines.advance()? {
        let line = lines.text().trim();
        let first = line.split_whitespace().next().unwrap_or_default();
        let is_multicast = line.starts_with("Multicast mlids [");
        if is_multicast || line.starts_with("Unicast lids [") {
            if current.is_some() {
                return Err(lines.expected("the end of the table before (`… lids dumped`)"));
            }
            let switch = heading(line).ok_or_else(|| lines.expected("`… guid 0x… (name):`"))?;
            let begun = if is_multicast { facts.begin_multicast(switch) } else { facts.begin_table(switch) };
            begun.map_err(|reason| lines.file_error(reason))?;
            current = Some(Open { switch, is_multicast, entries: 0 });
        } else if first.starts_with("0x") {
            let open = current.as_mut().ok_or_else(|| lines.expected("`… lids [` before the first entry"))?;
            open.entries += 1;
            let added = match open.is_multicast {
                true => multicast_entry(facts, open.switch, lines.text()),
                false => entry(line).map(|(lid, port)| facts.table_entry(open.switch, lid, port)),
            };
            let added = added.ok_or_else(|| lines.expected("`0xLID PORT : (destination)`, or ports as x"))?;
            added.map_err(|reason| lines.file_error(reason))?;
        } else if line.ends_with("lids dumped") {
            let open = current.take().ok_or_else(|| lines.expected("a table before its end"))?;
            if number(first) != Some(open.entries) {
                return Err(lines.expected("as many entries as the end of the table says"));
            }
        } else if !is_heading(line) && !current.as_ref().is_some_and(|open| open.is_multicast) {
            return Err(lines.expected("a line of a forwarding table"));
        }
    }
    match current {
        Some(open) => {
            let switch = open.switch;
            let reason = format!("the table of {switch} has no end, so the file is cut short; save it again");
            Err(lines.file_error(reason))
        }
        None => Ok(()),
    }
}

/// Column of port 0 in a line of a multicast table; each port takes two.
const FIRST_PORT_COLUMN: usize = 12;

/// `0xc000       x   x`.
fn multicast_entry(facts: &mut Facts, switch: Guid, line: &str) -> Option<Result<(), String>> {
    let mlid = number(line.split_whitespace().next()?)?;
    for (at, byte) in line.bytes().enumerate().skip(6) {
        match byte {
            b'x' => {
                let port = at.checked_sub(FIRST_PORT_COLUMN).filter(|columns| columns % 2 == 0)? / 2;
                if let Err(reason) = facts.multicast_entry(switch, mlid, u8::try_from(port).ok()?) {
                    return Some(Err(reason));
                }
            }
            b' ' => {}
            _ => return None,
        }
    }
    Some(Ok(()))
}

/// Lines that say nothing: column titles, blanks, the warning of the old scripts.
fn is_heading(line: &str) -> bool {
    line.is_empty()
        || line.starts_with("Lid ")
        || line.starts_with("Port ")
        || line.starts_with("*** WARNING ***")
}

/// The GUID in `… guid 0x0002c9030000aaaa (name):`.
fn heading(line: &str) -> Option<Guid> {
    // The name comes last and may hold anything.
    let (_, rest) = line.split_once(" guid ")?;
    super::facts::guid(rest.split_once(' ').map_or(rest, |(guid, _)| guid))
}

/// `0x0002 003 : (Channel Adapter portguid 0x…: 'name')`, `0x0000 255 : (path #0 - illegal port)`.
fn entry(line: &str) -> Option<(u16, u8)> {
    let mut words = line.split_whitespace();
    let lid = number(words.next()?)?;
    let port = words.next()?;
    // Three digits, so not octal.
    Some((lid, port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??))
}
