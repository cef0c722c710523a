//! `throughline node bar|unbar|list`: which nodes and certificates the collector refuses.
//!
//! The list is in the database, and each server reads it every few seconds. Only who may write there bars: the database's user, or
//! root, on the server's machine.

use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use throughline_daemon::{ExitStatus, Failure, paths};
use throughline_sample::admission::NAME_BYTES_MAX;
use throughline_store::{
    BarSubject, Database, NodeCertificate, bar_node, node_certificates, serial_number, unbar_node,
};

use crate::Site;
use crate::serve::config::ServerConfig;
use crate::user::{is_plain, user};

/// Longest reason, in bytes: it is a line of a log and of an event.
const REASON_BYTES_MAX: usize = 200;

/// Shown below the options.
const HELP: &str = "\
A barred node's streams end within ten seconds, on every server of the database, and new ones are refused;
what it claimed of jobs and devices counts no more. Its records stay, and `unbar` takes all of it back.

Examples:
  throughline node list                     which certificates sent records, with their serial numbers
  throughline node bar n17 --reason stolen  each certificate with the DNS name n17
  throughline node bar --serial 0A:1B:C0    one certificate; a new one for the same node is accepted
  throughline node unbar n17";

/// Options of `node`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Use this operated database [default: the private one in the state folder]
    #[arg(long, global = true, value_name = "URL")]
    database_url: Option<String>,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Action {
    /// Refuse a node's certificates, or one certificate, and end its streams
    Bar {
        #[command(flatten)]
        subject: Subject,
        /// Give the reason: the log of the node and an event have it
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Accept a barred node or certificate again
    Unbar {
        #[command(flatten)]
        subject: Subject,
    },
    /// List the certificates that sent records and those that are barred
    List {
        /// List only what is barred
        #[arg(long)]
        barred: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

/// A node or a certificate.
#[derive(clap::Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct Subject {
    /// Choose certificates by a DNS name: the node, or the crawler
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Choose one certificate by its serial number, in hexadecimal
    #[arg(long, value_name = "N")]
    serial: Option<String>,
}

impl Subject {
    fn subject(self) -> Result<BarSubject, Failure> {
        match (self.name, self.serial) {
            (_, Some(text)) => serial_number(&text).map(BarSubject::Serial).ok_or_else(|| {
                let expected =
                    "expected hexadecimal digits, as `openssl x509 -noout -serial -in FILE` prints";
                Failure::usage(format!("--serial {}: {expected}", text.escape_debug()))
            }),
            (Some(name), None) if !name.is_empty() && name.len() <= NAME_BYTES_MAX && is_plain(&name) => {
                Ok(BarSubject::Node(name))
            }
            (name, None) => {
                let name = name.unwrap_or_default();
                Err(Failure::usage(format!("{}: expected a DNS name of a certificate", name.escape_debug())))
            }
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// 64 for a wrong name or configuration, 69 when the database is not there, 77 without permission.
pub async fn run(arguments: Arguments, site: &Site) -> anyhow::Result<ExitCode> {
    let config: ServerConfig = throughline_daemon::config::load("server", site.config.as_deref())?;
    // Before this process becomes the database's user.
    let by = user();
    let url = arguments.database_url.or_else(|| config.database.session_url().map(str::to_owned));
    let operated = url.as_deref().map(Database::from_url).transpose().map_err(Failure::from)?;
    let database = crate::db::open(operated, &paths::state_dir(site.state_dir.as_deref())?)?;
    match arguments.action {
        Action::Bar { subject, reason } => bar(&database, &subject.subject()?, &by, &reason).await,
        Action::Unbar { subject } => unbar(&database, &subject.subject()?, &by).await,
        Action::List { barred, json } => list(&database, barred, json).await,
    }
}

async fn bar(database: &Database, subject: &BarSubject, by: &str, reason: &str) -> anyhow::Result<ExitCode> {
    if reason.len() > REASON_BYTES_MAX || !is_plain(reason) {
        let why = format!("expected one line of at most {REASON_BYTES_MAX} bytes");
        return Err(Failure::usage(format!("--reason: {why}")).into());
    }
    let mut client = database.connect().await.map_err(Failure::from)?;
    let is_new = bar_node(&mut client, subject, by, reason).await.map_err(Failure::from)?;
    let text = if is_new { "is barred: all servers refuse it within 10 s" } else { "is barred already" };
    writeln!(std::io::stdout(), "{subject} {text}")?;
    let known = node_certificates(&client).await.map_err(Failure::from)?;
    let is_it = |one: &NodeCertificate| match subject {
        BarSubject::Node(name) => one.node == *name,
        BarSubject::Serial(serial) => one.serial == *serial,
    };
    if !known.iter().any(|one| one.seen.is_some() && is_it(one)) {
        let remark =
            "no such certificate has sent records so far; `throughline node list` shows those that have";
        writeln!(std::io::stderr(), "{remark}")?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn unbar(database: &Database, subject: &BarSubject, by: &str) -> anyhow::Result<ExitCode> {
    let mut client = database.connect().await.map_err(Failure::from)?;
    if unbar_node(&mut client, subject, by).await.map_err(Failure::from)? {
        writeln!(std::io::stdout(), "{subject} is accepted again within 10 s")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(std::io::stderr(), "{subject} is not barred; `throughline node list --barred` lists what is")?;
    Ok(ExitCode::from(ExitStatus::Failed as u8))
}

async fn list(database: &Database, only_barred: bool, json: bool) -> anyhow::Result<ExitCode> {
    let client = database.connect().await.map_err(Failure::from)?;
    let mut all = node_certificates(&client).await.map_err(Failure::from)?;
    all.retain(|one| !only_barred || one.bar.is_some());
    let mut out = std::io::stdout();
    if json {
        let all: Vec<_> = all.iter().map(document).collect();
        writeln!(out, "{}", serde_json::Value::from(all))?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        let what = if only_barred { "No node is barred." } else { "No certificate has sent records." };
        writeln!(out, "{what}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{:<32}{:<42}{:<26}BARRED", "NODE", "SERIAL", "LAST SEEN")?;
    for one in &all {
        let seen = one.seen.map_or_else(String::new, |(_, last)| time(last));
        writeln!(out, "{:<32}{:<42}{seen:<26}{}", or_any(&one.node), or_any(&one.serial), barred(one))?;
    }
    out.flush().context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn or_any(text: &str) -> &str {
    if text.is_empty() { "any" } else { text }
}

fn time(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    throughline_sample::to_rfc3339(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

fn barred(one: &NodeCertificate) -> String {
    let Some(bar) = &one.bar else { return String::new() };
    let how = match &bar.subject {
        BarSubject::Node(_) => "by name",
        BarSubject::Serial(_) => "by serial number",
    };
    let because = if bar.reason.is_empty() { String::new() } else { format!(": {}", bar.reason) };
    format!("{how} since {}, {}{because}", time(bar.since), bar.barred_by)
}

fn document(one: &NodeCertificate) -> serde_json::Value {
    let bar = one.bar.as_ref().map(|bar| {
        let (node, serial) = match &bar.subject {
            BarSubject::Node(name) => (Some(name), None),
            BarSubject::Serial(serial) => (None, Some(serial)),
        };
        serde_json::json!({
            "node": node, "serial": serial, "since": time(bar.since), "barred_by": bar.barred_by, "reason": bar.reason,
        })
    });
    serde_json::json!({
        "node": one.node, "serial": one.serial, "first_seen": one.seen.map(|(first, _)| time(first)),
        "last_seen": one.seen.map(|(_, last)| time(last)), "bar": bar,
    })
}
