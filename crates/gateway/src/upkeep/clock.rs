//! The database's clock, beside the rest of upkeep: every few seconds its witnesses are looked at, and the permission to drop rows is renewed
//! or ends.

use std::time::Duration;

use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{COMMIT_FAILURES, DATABASE_CLOCK_OFF_SECONDS, EXPIRY_STOPPED};
use throughline_store::{ClockChecker, ClockState, Database, Error, MachineClock, PERMISSION};
use tokio::time::Instant;
use tokio_postgres::Client;

/// The part of the process in metrics.
pub(super) const SOURCE: &str = "clock";

/// How often. So long a clock that jumps may go unnoticed, which costs nothing: rows go by the time of the last check.
const INTERVAL: Duration = Duration::from_secs(5);

/// And while it is not believed: senders report every ten seconds, and everything waits for them.
const INTERVAL_OF_DOUBT: Duration = Duration::from_secs(1);

/// Longest time for a check: a later one says little about one moment. A permission is not renewed by then.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// Runs for as long as it is polled. An absent database is waited for; a failure stops nothing else, but a permission ends without checks.
pub(super) async fn run(database: &Database, metrics: &SelfMetrics) {
    metrics.add(SOURCE, &COMMIT_FAILURES, 0);
    let mut is_failing = false;
    // What is known of senders is of this machine's clock and outlives a connection.
    let mut checker = ClockChecker::default();
    loop {
        if let Err(error) = hold(database, metrics, &mut checker, &mut is_failing).await {
            metrics.add(SOURCE, &COMMIT_FAILURES, 1);
            if !is_failing {
                tracing::warn!(%error, permission_seconds = PERMISSION.as_secs(), "the database's clock is not checked: trying again");
            }
            is_failing = true;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Checks on one connection, until something fails.
async fn hold(
    database: &Database,
    metrics: &SelfMetrics,
    checker: &mut ClockChecker,
    is_failing: &mut bool,
) -> Result<(), Error> {
    let mut client = database.connect().await?;
    let mut last = ClockState::Unchecked;
    loop {
        let begun = Instant::now();
        let check = round(&mut client, metrics, checker, &mut last);
        tokio::time::timeout(ROUND_LIMIT, check)
            .await
            .map_err(|_| Error::late("checking the database's clock", ROUND_LIMIT.as_secs()))??;
        *is_failing = false;
        let interval = if last == ClockState::Trusted { INTERVAL } else { INTERVAL_OF_DOUBT };
        tokio::time::sleep_until(begun + interval).await;
    }
}

async fn round(
    client: &mut Client,
    metrics: &SelfMetrics,
    checker: &mut ClockChecker,
    last: &mut ClockState,
) -> Result<(), Error> {
    let check = checker.check(client, MachineClock::read).await?;
    let state = check.state;
    metrics.set(SOURCE, &EXPIRY_STOPPED, if state.is_doubted() { 1.0 } else { 0.0 });
    metrics.set(SOURCE, &DATABASE_CLOCK_OFF_SECONDS, check.off_seconds.unwrap_or_default());
    if check.put_back > 0 {
        tracing::warn!(
            rows = check.put_back,
            "marks of time that lay ahead of the database's clock are put back"
        );
    }
    let before = std::mem::replace(last, state);
    if state == before {
        return Ok(());
    }
    let reason = check.reason.as_deref().unwrap_or_default();
    if state.is_doubted() {
        tracing::warn!(
            state = state.name(),
            reason,
            remedy =
                "set the clock of the database's machine right; if it is right, throughline db clock accept",
            "nothing is dropped, thinned or packed: the database's clock is not believed"
        );
    } else if state == ClockState::Trusted {
        tracing::info!("the database's clock is believed: rows are dropped, thinned and packed by it");
    }
    Ok(())
}
