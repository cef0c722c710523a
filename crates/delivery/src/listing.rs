//! The command `rejected-batches` of the daemons: what is in the quarantine, for people, while the daemon runs.

use std::io::{Error, Write};
use std::path::Path;

use throughline_daemon::Failure;
use throughline_sample::admission::is_deceptive;
use throughline_sample::to_rfc3339;

use crate::quarantine::{RefusedEntry, refused_entries};

/// Writes a line for each refused batch in this folder, the oldest first: text, or one JSON document each. A folder that
/// isn't there holds none.
///
/// # Errors
/// The folder can't be read (77 where this user may not), or `out` can't be written.
pub fn print_refused(folder: &Path, as_json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let (mut count, mut failed) = (0_u64, None);
    let listed = refused_entries(folder, |entry| {
        count += 1;
        if failed.is_none() {
            failed = print(&entry, as_json, out).err();
        }
    });
    let remedy = "run this command as root or as the daemon's user, with its --state-dir";
    listed.map_err(|error| Failure::from_io("refused batches", &error, remedy))?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if !as_json {
        writeln!(out, "{count} batches wait in {}", folder.display())?;
    }
    Ok(())
}

fn print(entry: &RefusedEntry, as_json: bool, out: &mut impl Write) -> Result<(), Error> {
    let (time, bytes) = (to_rfc3339(entry.refused_ns), entry.payload.len());
    if as_json {
        let document = serde_json::json!({
            "time": time,
            "spool": entry.spool_id.to_string(),
            "sequence": entry.sequence,
            "bytes": bytes,
            "reason": entry.reason,
        });
        return writeln!(out, "{document}");
    }
    // It quotes what a collector said.
    let reason: String = entry.reason.chars().map(|c| if is_deceptive(c) { '\u{fffd}' } else { c }).collect();
    writeln!(out, "{time}  {}/{}  {bytes} bytes: {reason}", entry.spool_id, entry.sequence)
}
