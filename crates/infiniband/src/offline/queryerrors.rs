//! What `ibqueryerrors` prints, with --data, --counters and --report-port. Without --counters it names only counters
//! above their thresholds: the others are absent here, not zero.
//!
//! Facts from ibqueryerrors(8) and its output. Its summary stands at the end; a file without it is cut short.

use super::OfflineError;
use super::counters::{Origin, PortKey, Snapshot};
use super::lines::{Lines, number};
use throughline_sample::Guid;

/// Reads a file into `snapshot`.
///
/// # Errors
/// [`OfflineError`]: a line that the format does not have, no summary.
pub fn read(lines: &mut Lines<'_>, snapshot: &mut Snapshot) -> Result<(), OfflineError> {
    let mut is_whole = false;
    while lines.advance()? {
        let line = lines.text().trim();
        if let Some(rest) = line.strip_prefix("GUID 0x") {
            is_whole = false;
            let (guid, port, rest) = port_of(rest).ok_or_else(|| lines.expected("`GUID 0x… port N: […]`"))?;
            let Some(port) = port else { continue };
            let values =
                snapshot.port(PortKey::Guid(guid, port)).map_err(|reason| lines.file_error(reason))?;
            for part in rest.split('[').skip(1) {
                // `SymbolErrorCounter == 700`, `PortXmitData == 6120 (23.906KB)`.
                let pair = part.split_once(']').and_then(|(inner, _)| inner.split_once(" == "));
                let (name, value) = pair.ok_or_else(|| lines.expected("`[Name == value]`"))?;
                let value = value.split_whitespace().next().and_then(number::<u64>);
                values.set(name, value.ok_or_else(|| lines.expected("`[Name == value]`"))?, Origin::Either);
            }
        } else if line.starts_with("## Summary:") {
            is_whole = true;
        } else if !is_other(line) {
            return Err(lines.expected("a line of ibqueryerrors"));
        }
    }
    if is_whole {
        return Ok(());
    }
    Err(lines.file_error("it has no summary at its end, so it is cut short; save it again".to_owned()))
}

/// Lines without counters.
fn is_other(line: &str) -> bool {
    const BEGINNINGS: [&str; 6] = ["Errors for ", "Data Counters for ", "Link info:", "##", "Port", "#"];
    line.is_empty() || BEGINNINGS.iter().any(|words| line.starts_with(words))
}

/// `1000 port 3: …`; the port is `None` for totals over all ports.
fn port_of(text: &str) -> Option<(Guid, Option<u8>, &str)> {
    let (guid, rest) = text.split_once(" port ")?;
    let (port, rest) = rest.split_once(':')?;
    let port = if port == "ALL" { None } else { Some(number(port)?) };
    Some((Guid(super::lines::hexadecimal(guid)?), port, rest))
}
