//! `cargo xtask prefix [fabric|postgres|browser|netfilter|pooler|faketime|all]`: makes the prefix that simulations and tests run from.

use clap::{Args, ValueEnum};
use throughline_prefix::{Prefix, Set};

/// Which sets to make.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum SetSelection {
    /// ibsim, libumad2sim, opensm, infiniband-diags, prometheus.
    Fabric,
    /// PostgreSQL 17 with TimescaleDB.
    Postgres,
    /// Chromium without a window, for tests of the pages.
    Browser,
    /// nftables' command line, for a bench.
    Netfilter,
    /// PgBouncer, for tests of several servers.
    Pooler,
    /// libfaketime, for a bench.
    Faketime,
    /// Every set.
    All,
}

/// The task's arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The set to make; a set that is there already is left alone.
    #[arg(value_enum, default_value = "all")]
    which: SetSelection,
}

/// Makes the sets requested, with a line per step on standard error, and prints the prefix's folder.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let prefix = Prefix::locate()?;
    let sets: &[Set] = match arguments.which {
        SetSelection::Fabric => &[Set::Fabric],
        SetSelection::Postgres => &[Set::Postgres],
        SetSelection::Browser => &[Set::Browser],
        SetSelection::Netfilter => &[Set::Netfilter],
        SetSelection::Pooler => &[Set::Pooler],
        SetSelection::Faketime => &[Set::Faketime],
        SetSelection::All => &Set::ALL,
    };
    for &set in sets {
        prefix.ensure(set, &mut |line| eprintln!("{line}"))?;
    }
    println!("{}", prefix.root().display());
    Ok(())
}
