//! `throughline check-config` of the client: what `job`, `link` and `status` would use.

use crate::{Connection, Server, Settings};
use std::io::Write;

/// Prints what `job` and `status` would use, with every file of it read.
///
/// # Errors
/// 64, 69 or 77 for a setting or file that is wrong.
pub fn run() -> anyhow::Result<std::process::ExitCode> {
    let settings = Settings::find(&Connection::default())?;
    let text = settings.described();
    Server::new(settings)?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(std::process::ExitCode::SUCCESS)
}
