//! Detail that is requested without a person, beside the rest of upkeep: of jobs that ended badly, and where a verdict is better
//! understood with it, in the turns in which they were judged. As the user `server`, within quotas of the jobs' owners and nodes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::REQUESTS_REJECTED;
use throughline_store::{
    Database, DetailLimits, DetailReason, DetailRefusal, DetailSubject, DetailTrigger, NewDetail,
    detail_triggers, end_detail_turn, request_detail,
};
use tokio::time::Instant;
use tokio_postgres::Client;

/// How often it is looked for such jobs: soon enough that the ring of each node still has them.
const INTERVAL: Duration = Duration::from_secs(15);

/// Jobs of one round.
const JOBS_MAX: i64 = 100;

/// How often it is logged what was refused.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(60);

/// Longest time for a round.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// Who requests.
const USER: &str = "server";

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

/// What was refused since it was logged last: one user's jobs may be hundreds a minute.
#[derive(Debug, Default)]
struct RefusedJobs {
    jobs: u64,
    logged: Option<Instant>,
}

impl RefusedJobs {
    /// How many jobs a line is due for.
    fn due(&mut self, now: Instant) -> Option<u64> {
        let is_recent = self.logged.is_some_and(|at| now.duration_since(at) < REFUSALS_INTERVAL);
        if self.jobs == 0 || is_recent {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.jobs))
    }
}

/// Runs for as long as it is polled. A database that is away is waited for.
pub async fn run(database: &Database, triggers: Triggers, metrics: &SelfMetrics) {
    if !triggers.limits.is_enabled || !(triggers.on_bad_end || triggers.on_verdict) {
        return std::future::pending().await;
    }
    let mut refused = RefusedJobs::default();
    let mut is_failing = false;
    loop {
        tokio::time::sleep(INTERVAL).await;
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
    refused: &mut RefusedJobs,
) -> Result<(), throughline_store::Error> {
    let mut client = database.connect().await?;
    let last = request_in_turns(&mut client, triggers, metrics, refused).await?;
    if let Some((refusal, jobs)) = last.zip(refused.due(Instant::now())) {
        tracing::info!(jobs, %refusal, "detail of jobs is not requested");
    }
    Ok(())
}

/// Requests detail of the jobs that want it; returns why the last one was refused that was.
async fn request_in_turns(
    client: &mut Client,
    triggers: Triggers,
    metrics: &SelfMetrics,
    refused: &mut RefusedJobs,
) -> Result<Option<DetailRefusal>, throughline_store::Error> {
    let mut last = None;
    for one in detail_triggers(client, JOBS_MAX).await? {
        let is_taken = triggers.takes(one.reason);
        if is_taken {
            match request_detail(client, &triggers.request(&one), &triggers.limits).await? {
                Ok(id) => {
                    tracing::info!(
                        request = id,
                        job = one.job,
                        reason = one.reason.name(),
                        "detail is requested"
                    );
                }
                Err(refusal) => {
                    metrics.add((crate::refusals::DETAIL, refusal.reason), &REQUESTS_REJECTED, 1);
                    refused.jobs += 1;
                    last = Some(refusal);
                    end_detail_turn(client, one.job, false).await?;
                    continue;
                }
            }
        }
        end_detail_turn(client, one.job, true).await?;
    }
    Ok(last)
}

impl Triggers {
    /// Whether the server requests detail for this reason by itself.
    pub(super) fn takes(&self, reason: DetailReason) -> bool {
        match reason {
            _ if !self.limits.is_enabled => false,
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
        let turn = Some(one.turn);
        NewDetail { requested_by, turn, reason: one.reason, subject, from, to, resolution: 0.0 }
    }
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_29_refusals_are_a_line_a_minute_with_their_count() {
        let (begin, mut refused) = (Instant::now(), RefusedJobs::default());
        let mut lines = Vec::new();
        // Two jobs each second, a round each 15 s, for three minutes: there was a line for each of them.
        for second in 0..180 {
            refused.jobs += 2;
            if second % INTERVAL.as_secs() == 0 {
                lines.extend(refused.due(begin + Duration::from_secs(second)));
            }
        }
        assert_eq!(lines, [2, 120, 120]);
        assert_eq!(refused.due(begin + Duration::from_secs(180)), Some(118));
        assert_eq!(refused.due(begin + Duration::from_secs(600)), None, "nothing was refused since");
    }
}
