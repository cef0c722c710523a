//! Detail that is requested without a person, beside the rest of upkeep: of jobs that ended badly, and where a verdict is better
//! understood with it. Within the same quotas, as the user `server`.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::REQUESTS_REJECTED;
use throughline_store::{
    Database, DetailLimits, DetailReason, DetailSubject, DetailTrigger, NewDetail, detail_triggers,
    request_detail,
};
use tokio::time::Instant;

/// How often it is looked for such jobs: soon enough that the ring of each node still has them.
const INTERVAL: Duration = Duration::from_secs(15);

/// What was refused is requested again after this time.
const AGAIN: Duration = Duration::from_secs(120);

/// Longest time for a round.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// Who requests.
const USER: &str = "server";

/// Verdicts that the full resolution explains: who is late, and what happened before nothing went on.
const VERDICTS: [&str; 2] = ["hung", "slow_rank"];

/// What is requested by itself.
#[derive(Clone, Copy, Debug)]
pub struct Triggers {
    /// The site's quotas.
    pub limits: DetailLimits,
    /// Of jobs that had a rank end without MPI_Finalize.
    pub on_bad_end: bool,
    /// Of jobs that hang or wait for a slow rank.
    pub on_verdict: bool,
    /// Of what alerts name that are posted to the API.
    pub on_alert: bool,
    /// How much before the end, or before now.
    pub last: Duration,
}

impl Default for Triggers {
    fn default() -> Self {
        let limits = DetailLimits::default();
        Self { limits, on_bad_end: true, on_verdict: true, on_alert: true, last: Duration::from_secs(300) }
    }
}

/// Refused lately, since then.
type RecentRefusals = HashMap<(i64, DetailReason), Instant>;

/// Runs for as long as it is polled. A database that is away is waited for.
pub async fn run(database: &Database, triggers: Triggers, metrics: &SelfMetrics) {
    if !triggers.limits.is_enabled || !(triggers.on_bad_end || triggers.on_verdict) {
        return std::future::pending().await;
    }
    let mut refused = RecentRefusals::new();
    let mut is_failing = false;
    loop {
        tokio::time::sleep(INTERVAL).await;
        refused.retain(|_, since| since.elapsed() < AGAIN);
        let work = round(database, triggers, metrics, &mut refused);
        let failure = match tokio::time::timeout(ROUND_LIMIT, work).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in 30 s".to_owned()),
        };
        let was_failing = std::mem::replace(&mut is_failing, failure.is_some());
        if let Some(why) = failure.filter(|_| !was_failing) {
            tracing::warn!(why, "detail of jobs that need it: trying again");
        }
    }
}

async fn round(
    database: &Database,
    triggers: Triggers,
    metrics: &SelfMetrics,
    refused: &mut RecentRefusals,
) -> Result<(), throughline_store::Error> {
    let mut client = database.connect().await?;
    let wanted = detail_triggers(&client, &VERDICTS).await?;
    for one in wanted.into_iter().filter(|one| triggers.takes(one.reason)) {
        let (job, reason) = (one.job, one.reason.name());
        if refused.contains_key(&(job, one.reason)) {
            continue;
        }
        match request_detail(&mut client, &triggers.request(&one), &triggers.limits).await? {
            Ok(id) => tracing::info!(request = id, job, reason, "detail is requested"),
            Err(refusal) => {
                metrics.add((crate::refusals::DETAIL, refusal.reason), &REQUESTS_REJECTED, 1);
                tracing::info!(job, reason, %refusal, "detail is not requested");
                refused.insert((job, one.reason), Instant::now());
            }
        }
    }
    Ok(())
}

impl Triggers {
    fn takes(&self, reason: DetailReason) -> bool {
        match reason {
            DetailReason::JobEnd => self.on_bad_end,
            DetailReason::Verdict => self.on_verdict,
            DetailReason::Person | DetailReason::Alert => false,
        }
    }

    fn request(&self, one: &DetailTrigger) -> NewDetail {
        let to = milliseconds(one.end.unwrap_or_else(SystemTime::now));
        // What ranks report after their end still is the job's.
        let to = if one.end.is_some() { to.saturating_add(2000) } else { to };
        let last = i64::try_from(self.last.as_millis()).unwrap_or(i64::MAX);
        // A job that ran for less is in it whole.
        let from = one.start.map_or(i64::MIN, milliseconds).max(to.saturating_sub(last));
        let (requested_by, subject) = (USER.to_owned(), DetailSubject::Job(one.job));
        NewDetail { requested_by, reason: one.reason, subject, from, to, resolution: 0.0 }
    }
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
