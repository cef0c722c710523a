//! Forwarding tables as `dump_lfts`, `dump_fts` and `ibroute` print them, with their options -a and -n.
//!
//! Facts from dump_fts(8), ibroute(8) and their output: a heading for each switch, one line a LID, and a count at
//! the end, by which a file that was cut short is found out.

use super::OfflineError;
use super::facts::Facts;
use super::lines::{Lines, description, number};
use throughline_sample::Guid;

/// Reads unicast tables into `facts`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have, a table without its end.
pub fn read(lines: &mut Lines<'_>, facts: &mut Facts) -> Result<(), OfflineError> {
    let mut current: Option<(Guid, usize)> = None;
    while lines.advance()? {
        let line = lines.text().trim();
        let first = line.split_whitespace().next().unwrap_or_default();
        if line.starts_with("Unicast lids [") {
            if current.is_some() {
                return Err(lines.expected("the end of the table before (`… lids dumped`)"));
            }
            let (guid, name) = heading(line).ok_or_else(|| lines.expected("`… guid 0x… (name):`"))?;
            let _ = name;
            facts.begin_table(guid).map_err(|reason| lines.file_error(reason))?;
            current = Some((guid, 0));
        } else if first.starts_with("0x") {
            let Some((guid, count)) = &mut current else {
                return Err(lines.expected("`Unicast lids [` before the first entry"));
            };
            let (lid, port) = entry(line).ok_or_else(|| lines.expected("`0xLID PORT : (destination)`"))?;
            facts.table_entry(*guid, lid, port).map_err(|reason| lines.file_error(reason))?;
            *count += 1;
        } else if line.contains("lids dumped") {
            let (_, count) = current.take().ok_or_else(|| lines.expected("a table before its end"))?;
            if number(first) != Some(count as u64) {
                return Err(lines.expected("as many entries as the end of the table says"));
            }
        } else if !is_heading(line) {
            return Err(lines.expected("a line of a forwarding table"));
        }
    }
    match current {
        Some((guid, _)) => {
            let reason = format!("the table of {guid} has no end, so the file is cut short; save it again");
            Err(lines.file_error(reason))
        }
        None => Ok(()),
    }
}

/// Lines that say nothing: column titles, blanks, the warning of the old scripts.
fn is_heading(line: &str) -> bool {
    line.is_empty()
        || line.starts_with("Lid ")
        || line.starts_with("Port ")
        || line.starts_with("*** WARNING ***")
}

/// GUID and name from `… guid 0x0002c9030000aaaa (name):`.
pub fn heading(line: &str) -> Option<(Guid, String)> {
    // The name comes last and may hold anything.
    let (_, rest) = line.split_once(" guid ")?;
    let (guid, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let name = rest.trim().trim_start_matches('(').trim_end_matches(':');
    let name = name.strip_suffix(')').unwrap_or(name);
    Some((super::facts::guid(guid)?, description(name)))
}

/// `0x0002 003 : (Channel Adapter portguid 0x…: 'name')`, `0x0000 255 : (path #0 - illegal port)`.
fn entry(line: &str) -> Option<(u16, u8)> {
    let mut words = line.split_whitespace();
    let lid = number(words.next()?)?;
    let port = words.next()?;
    // Three digits, so not octal.
    Some((lid, port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??))
}
