//! `throughline demo`: executes `throughline-demo`, which stands beside this program where `make demo` built it.
//!
//! The demo contains simulators and test doubles, so it is no part of this program and of no installation.

use crate::Site;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use throughline_daemon::{Failure, LogOptions};

/// The program.
const PROGRAM: &str = "throughline-demo";

/// Options of `demo`: handed on as they are.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Pass options to throughline-demo; `throughline demo --help` prints them
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
}

/// Replaces this process by the demo; returns only where that fails.
///
/// # Errors
/// The demo is not beside this program (69), or can't be executed.
pub fn run(arguments: Arguments, site: &Site, log: &LogOptions) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe()?;
    let program = own.parent().unwrap_or(Path::new("/")).join(PROGRAM);
    if !program.is_file() {
        let message = format!(
            "{PROGRAM} is not beside {}: the demo is not installed; `make demo` in the source tree builds and starts it",
            own.display()
        );
        return Err(Failure::unavailable(message).into());
    }
    let error = Command::new(&program).args(site.as_arguments(log)).args(arguments.options).exec();
    Err(Failure::unavailable(format!("{}: {error}", program.display())).into())
}
