//! `throughline db clock`: whether the database's clock is believed, and `accept`, by which an administrator vouches for it.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throughline_daemon::{ExitStatus, Failure};
use throughline_store::{ClockStanding, Database, accept_clock, clock_standing};

/// How long a check of the server that does upkeep is waited for: it checks every few seconds.
const WAIT: Duration = Duration::from_secs(20);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Options of `db clock`.
#[derive(clap::Args, Clone, Debug)]
pub struct ClockArguments {
    #[command(subcommand)]
    action: Option<ClockAction>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand, Clone, Copy, Debug)]
enum ClockAction {
    /// Take the database's clock as right, whatever its witnesses say: rows are dropped, thinned and packed by it again
    Accept,
}

/// Runs the subcommand; `by` is who does.
///
/// # Errors
/// 69 when the database is not there, 77 without permission.
pub async fn run(database: &Database, arguments: &ClockArguments, by: &str) -> anyhow::Result<ExitCode> {
    let client = match arguments.action {
        None => database.connect_reader().await,
        Some(ClockAction::Accept) => database.connect().await,
    };
    let client = client.map_err(Failure::from)?;
    let read = async || clock_standing(&client).await.map_err(Failure::from);
    let mut clock = read().await?;
    if arguments.action.is_some() {
        accept_clock(&client, by).await.map_err(Failure::from)?;
        let until = Instant::now() + WAIT;
        loop {
            clock = read().await?;
            if clock.accept_requested_at.is_none() || Instant::now() > until {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    let mut out = std::io::stdout();
    if arguments.json {
        writeln!(out, "{}", document(&clock))?;
    } else {
        out.write_all(text(&clock).as_bytes())?;
    }
    let is_well = clock.warning().is_none() && clock.accept_requested_at.is_none();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(ExitStatus::Found as u8) })
}

/// The same for people.
fn text(clock: &ClockStanding) -> String {
    let (reporting, agreeing) = clock.senders;
    let mut text = format!("{} since {}", clock.state.name(), time(clock.since));
    text += &format!("; {agreeing} of {reporting} senders that were measured lately agree\n");
    if let Some((reason, remedy)) = clock.warning() {
        text += &format!("Nothing is dropped, thinned or packed: {reason}; {remedy}.\n");
    }
    if clock.accept_requested_at.is_some() {
        text += "Accepted, and no server with the role upkeep has taken note of it so far: it holds for ten minutes.\n";
    }
    text
}

fn document(clock: &ClockStanding) -> serde_json::Value {
    let warning = clock.warning();
    serde_json::json!({
        "state": clock.state.name(),
        "warning": warning.as_ref().map(|(reason, _)| reason),
        "remedy": warning.as_ref().map(|(_, remedy)| remedy),
        "off_seconds": clock.off_seconds,
        "since": time(clock.since),
        "trusted_at": clock.trusted_at.map(time),
        "reporting": clock.senders.0,
        "agreeing": clock.senders.1,
        "accept_requested_at": clock.accept_requested_at.map(time),
    })
}

fn time(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    throughline_sample::to_rfc3339(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
