//! Forwarding tables as opensm and ibdiagnet dump them: `.fdbs` (unicast) and `.mcfdbs` (multicast).
//!
//! Facts from opensm's `osm_dump.c` and from ibutils' writer of these files. A table has no end of its own there: a
//! file that was cut between two lines is found out only by switches without a table, which is said.

use super::OfflineError;
use super::facts::Facts;
use super::lines::{Lines, number};
use throughline_sample::Guid;

/// Which table the lines are of.
enum Part {
    /// Of another plane of private tables (adaptive routing), which is not the one that static routes take.
    None,
    Unicast(Guid),
    Multicast(Guid),
}

/// Reads a file into `facts`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have.
pub fn read(lines: &mut Lines<'_>, facts: &mut Facts) -> Result<(), OfflineError> {
    let mut switch = None;
    let mut part = Part::None;
    while lines.advance()? {
        let line = lines.text().trim();
        let (first, rest) =
            line.split_once(':').map_or((line, ""), |(first, rest)| (first.trim(), rest.trim()));
        if line.is_empty() || line.starts_with('#') || line.starts_with("File version") {
            continue;
        }
        if let Some((_, guid)) = line.split_once("Switch 0x") {
            let digits = guid.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default();
            let guid = super::lines::hexadecimal(digits).filter(|_| !digits.is_empty());
            switch = Some(Guid(guid.ok_or_else(|| lines.expected("`Switch 0x…`"))?));
            part = Part::None;
        } else if first == "LID" {
            let guid = switch.ok_or_else(|| lines.expected("`Switch 0x…` before its table"))?;
            if rest.starts_with("Out Port") {
                facts.begin_multicast(guid).map_err(|reason| lines.file_error(reason))?;
                part = Part::Multicast(guid);
            } else {
                facts.begin_table(guid).map_err(|reason| lines.file_error(reason))?;
                part = Part::Unicast(guid);
            }
        } else if first == "PLFT_NUM" {
            if number::<u64>(rest) != Some(0) {
                (switch, part) = (None, Part::None);
            }
        } else if first.starts_with("0x") {
            let done =
                entry(facts, &part, first, rest).ok_or_else(|| lines.expected("`0xLID : PORT : …`"))?;
            done.map_err(|reason| lines.file_error(reason))?;
        } else if switch.is_some() {
            return Err(lines.expected("a line of a forwarding table"));
        }
    }
    Ok(())
}

/// `0x0002 : 003  : 00   : yes`, `0x0001 : UNREACHABLE`, `0xC000 : 0x001 0x00a`.
fn entry(facts: &mut Facts, part: &Part, lid: &str, rest: &str) -> Option<Result<(), String>> {
    let lid = number(lid)?;
    match part {
        Part::None => Some(Ok(())),
        Part::Unicast(_) if rest.starts_with("UNREACHABLE") || rest.starts_with("No ") => Some(Ok(())),
        Part::Unicast(guid) => {
            let port = rest.split([':', ' ']).next()?;
            let is_decimal = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            Some(facts.table_entry(*guid, lid, port.parse().ok().filter(|_| is_decimal)?))
        }
        Part::Multicast(guid) => {
            let ports: Option<Vec<u8>> = rest.split_whitespace().map(number).collect();
            Some(ports?.into_iter().try_for_each(|port| facts.multicast_entry(*guid, lid, port)))
        }
    }
}
