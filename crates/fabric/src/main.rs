//! `throughline-fabric`: the fabric crawler as one-shot commands and as a daemon. Wiring only.

mod cli;

use clap::Parser;
use std::process::ExitCode;
use throughline_daemon::{finish, usage};

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return usage(&said),
    };
    finish("throughline-fabric", cli.run())
}
