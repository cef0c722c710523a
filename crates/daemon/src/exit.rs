//! Exit statuses, the same for every program, and the one place where a failed program says why.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use throughline_sample::admission::is_deceptive;

/// Longest message of an error, characters.
const MESSAGE_CHARACTERS_MAX: usize = 8192;

/// What a program's exit status says; the numbers 64, 69 and 77 are those of BSD's sysexits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Something went wrong that no other status names.
    Failed = 1,
    /// A check ran and found something.
    Found = 2,
    /// Wrong usage or configuration.
    Usage = 64,
    /// Something needed is not there: device, library, database, port.
    Unavailable = 69,
    /// No permission.
    Permission = 77,
}

/// An error that ends a program with a status of its own. Wrap it in [`anyhow::Error`]; [`finish`] finds it
/// anywhere in the chain. The message names the thing, the cause and the remedy.
#[derive(Debug)]
pub struct Failure {
    /// How the program ends.
    pub status: ExitStatus,
    message: String,
}

impl Failure {
    /// A failure with this status.
    pub fn new(status: ExitStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// Wrong usage or configuration (64).
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Usage, message)
    }

    /// Something needed is not there (69).
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Unavailable, message)
    }

    /// No permission (77).
    pub fn permission(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Permission, message)
    }

    /// The failure that an I/O error means: permission denied is 77, everything else 69.
    pub fn from_io(what: impl fmt::Display, error: &std::io::Error, remedy: &str) -> Self {
        let status = match error.kind() {
            std::io::ErrorKind::PermissionDenied => ExitStatus::Permission,
            _ => ExitStatus::Unavailable,
        };
        Self::new(status, format!("{what}: {error}; {remedy}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Prints what clap has to say of a command line: help and version, which are no errors, or what is wrong with
/// it: then 64, not clap's 2, which means a finding here. A closed output changes nothing.
pub fn usage(said: &clap::Error) -> ExitCode {
    let _ = said.print();
    if said.use_stderr() { ExitCode::from(ExitStatus::Usage as u8) } else { ExitCode::SUCCESS }
}

/// Turns the result of a program's `main` into its exit status; an error is printed once, on standard error,
/// as `PROGRAM: message: cause`.
pub fn finish(program: &str, result: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    if is_broken_pipe(&error) {
        return ExitCode::SUCCESS; // The reader of our output (head, less) had enough.
    }
    // A standard error that is closed or full must not turn the status into that of a panic.
    let _ = writeln!(std::io::stderr(), "{program}: {}", clean_message(&format!("{error:#}")));
    let status = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Failure>())
        .map_or(ExitStatus::Failed, |failure| failure.status);
    ExitCode::from(status as u8)
}

/// A message may quote what other people's programs are called: nothing in it controls the terminal.
fn clean_message(message: &str) -> String {
    let plain = |c: char| if c != '\n' && is_deceptive(c) { '\u{fffd}' } else { c };
    message.chars().take(MESSAGE_CHARACTERS_MAX).map(plain).collect()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_status_is_found_below_context() {
        let error = anyhow::Error::from(Failure::usage("agent.toml, line 3: unknown key 'colour'"));
        let result = Err(error).context("reading the configuration");
        assert_eq!(finish("test", result), ExitCode::from(64));
        assert_eq!(finish("test", Err(anyhow::anyhow!("no"))), ExitCode::from(1));
        assert_eq!(finish("test", Ok(ExitCode::SUCCESS)), ExitCode::SUCCESS);
    }
}
