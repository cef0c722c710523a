//! `throughline-fabric`: the fabric crawler as one-shot commands and as a daemon. Wiring only.

mod cli;
mod run;

use clap::Parser;
use std::process::ExitCode;
use throughline_daemon::{ExitStatus, finish};

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no errors. A closed output changes nothing.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(ExitStatus::Usage as u8)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    finish("throughline-fabric", cli.run())
}
