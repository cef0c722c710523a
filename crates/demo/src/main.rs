//! `throughline-demo`: the program of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    throughline_demo::main()
}
