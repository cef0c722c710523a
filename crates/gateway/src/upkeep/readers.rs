//! Those who read the database by SQL of their own, beside the rest of upkeep: what their roles set for themselves is reset, and
//! what they do without end is ended.

use std::time::Duration;

use anyhow::Context;
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{
    COMMIT_FAILURES, READER_ROLES_MISSING, READER_SESSIONS_ENDED, READER_SETTINGS_RESET,
};
use throughline_store::{Database, ReadBounds, check_readers, end_long_reads};
use tokio::time::Instant;

/// The part of the process in metrics.
pub(super) const SOURCE: &str = "readers";

/// How often it is looked for what lasts too long: so much longer than its bound may it last.
const INTERVAL: Duration = Duration::from_secs(10);

/// How often roles and rights are looked at. What a role sets holds from its next session on; each reset makes an event.
const ROLES_INTERVAL: Duration = Duration::from_secs(30);

/// Longest time for a round.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// After a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Runs for as long as it is polled. An absent database is waited for; a failure stops nothing else.
pub async fn run(database: &Database, metrics: &SelfMetrics) {
    metrics.add(SOURCE, &READER_SETTINGS_RESET, 0);
    metrics.add(SOURCE, &COMMIT_FAILURES, 0);
    for reason in [BUSY, IDLE] {
        metrics.add((SOURCE, reason), &READER_SESSIONS_ENDED, 0);
    }
    let mut is_failing = false;
    loop {
        if let Err(error) = hold(database, metrics, &mut is_failing).await {
            metrics.add(SOURCE, &COMMIT_FAILURES, 1);
            if !is_failing {
                tracing::warn!(error = format!("{error:#}"), "bounds of readers: trying again");
            }
            is_failing = true;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Why a session is ended.
const BUSY: &str = "busy";
const IDLE: &str = "idle";

/// Looks on one connection, until something fails.
async fn hold(database: &Database, metrics: &SelfMetrics, is_failing: &mut bool) -> anyhow::Result<()> {
    let admin = database.connect_admin().await?;
    let mut roles_due = Instant::now();
    loop {
        let begun = Instant::now();
        let round = async {
            if begun >= roles_due {
                let found = check_readers(database, &admin).await?;
                metrics.add(SOURCE, &READER_SETTINGS_RESET, found.reset.len() as u64);
                #[allow(clippy::cast_precision_loss)] // Two at most.
                metrics.set(SOURCE, &READER_ROLES_MISSING, found.missing.len() as f64);
                roles_due = begun + ROLES_INTERVAL;
            }
            end_long_reads(&admin, ReadBounds::default()).await
        };
        let ended = tokio::time::timeout(ROUND_LIMIT, round).await.context("no answer in 30 s")??;
        for one in &ended {
            let reason = if one.is_idle { IDLE } else { BUSY };
            metrics.add((SOURCE, reason), &READER_SESSIONS_ENDED, 1);
        }
        if let Some(longest) = ended.iter().max_by_key(|one| one.seconds) {
            let (sessions, role, seconds) = (ended.len(), &longest.role, longest.seconds);
            tracing::warn!(sessions, role, seconds, "sessions of readers lasted too long and are ended");
        }
        if *is_failing {
            tracing::info!("bounds of readers hold again");
        }
        *is_failing = false;
        tokio::time::sleep_until(begun + INTERVAL).await;
    }
}
