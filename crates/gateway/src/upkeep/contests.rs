//! Contested claims, beside the rest of upkeep: every few seconds it is settled which node runs a rank, where that is known.

use std::time::Duration;

use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{COMMIT_FAILURES, LAST_ROUND_SECONDS, SOURCE_UP};
use throughline_store::{ContestRounds, ContestsSettled, Database, Error, settle_contests};
use tokio::time::Instant;

/// The part of the process in metrics.
pub(super) const SOURCE: &str = "contests";

/// How often. Traffic of nodes comes every ten seconds, and nobody's ranks should be out of all sums for longer than thirty.
const INTERVAL: Duration = Duration::from_secs(5);

/// Longest time for a round.
const ROUND_LIMIT: Duration = Duration::from_secs(60);

/// Runs for as long as it is polled. An absent database is waited for; a failure stops nothing else.
pub(super) async fn run(database: &Database, metrics: &SelfMetrics) {
    metrics.add(SOURCE, &COMMIT_FAILURES, 0);
    let mut is_failing = false;
    loop {
        if let Err(error) = rounds(database, metrics, &mut is_failing).await {
            metrics.add(SOURCE, &COMMIT_FAILURES, 1);
            metrics.set(SOURCE, &SOURCE_UP, 0.0);
            if !is_failing {
                tracing::warn!(%error, "contested claims: trying again");
            }
            is_failing = true;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Rounds on one connection, until one fails.
async fn rounds(database: &Database, metrics: &SelfMetrics, is_failing: &mut bool) -> Result<(), Error> {
    let mut client = database.connect().await?;
    let mut known = ContestRounds::default();
    loop {
        let started = Instant::now();
        let round = tokio::time::timeout(ROUND_LIMIT, settle_contests(&mut client, &mut known)).await;
        let settled: ContestsSettled =
            round.map_err(|_| Error::late("settling contested claims", ROUND_LIMIT.as_secs()))??;
        if settled.overruled > 0 || settled.released > 0 {
            tracing::info!(
                jobs = settled.jobs,
                overruled = settled.overruled,
                released = settled.released,
                "contested claims were settled; the view contested_ranks has them"
            );
        }
        metrics.set(SOURCE, &LAST_ROUND_SECONDS, started.elapsed().as_secs_f64());
        metrics.set(SOURCE, &SOURCE_UP, 1.0);
        *is_failing = false;
        // Many that can't be settled hold up no others.
        if !known.has_more() {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}
