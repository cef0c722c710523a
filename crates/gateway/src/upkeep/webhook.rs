//! Reports of jobs that have ended, posted to an address of the site: `[report] webhook`.
//!
//! They wait in the database (`report_post`), where they are written together with the report, so that none is lost with a server. A
//! report is posted again until it is taken: it may arrive twice, with the same [`REPORT_ID`].

use crate::outbound::{PostError, Receiver};
use std::time::Duration;
use throughline_api::verdicts::JobReport;
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{WEBHOOK_REPORTS, WEBHOOK_WAITING_REPORTS};
use throughline_store::{
    Database, PostOutcome, ReportPost, Turn, give_up_report_posts, note_report_post, reports_to_post,
    waiting_report_posts,
};
use tokio_postgres::Client;

/// Header with the report's id.
const REPORT_ID: &str = "throughline-report-id";

/// The part of the process in metrics.
pub(super) const SOURCE: &str = "webhook";

/// What becomes of a report, the label outcome in metrics.
const SENT: &str = "sent";
const FAILED: &str = "failed";

/// How often it is looked which reports are due: jobs are judged every ten seconds.
const INTERVAL: Duration = Duration::from_secs(5);

/// Longest pause while the address takes nothing.
const INTERVAL_LONGEST: Duration = Duration::from_secs(60);

/// Reports that are read at once, in turns: one that comes meanwhile waits for no more than these.
const READ_MAX: i64 = 20;

/// Runs for as long as it is polled. An absent database is waited for.
pub async fn run(database: &Database, receiver: &Receiver, metrics: &SelfMetrics) {
    for outcome in [SENT, FAILED] {
        metrics.add((SOURCE, outcome), &WEBHOOK_REPORTS, 0);
    }
    let mut is_failing = false;
    loop {
        if let Err(error) = hold(database, receiver, metrics).await {
            if !is_failing {
                tracing::warn!(error = format!("{error:#}"), "reports of jobs to be posted: trying again");
            }
            is_failing = true;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Posts on one connection, until something fails but the address.
async fn hold(database: &Database, receiver: &Receiver, metrics: &SelfMetrics) -> anyhow::Result<()> {
    let client = database.connect().await?;
    let mut pause = INTERVAL;
    loop {
        pause = match post_due(&client, receiver, metrics).await? {
            Round::Done => INTERVAL,
            Round::NotTaken(why) => {
                // Once for a series of failures.
                if pause == INTERVAL {
                    tracing::warn!(
                        receiver = receiver.name(),
                        why,
                        "report of a job is not taken: trying again for a day"
                    );
                }
                (pause * 2).min(INTERVAL_LONGEST)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// How a round ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// All that was due was taken or refused.
    Done,
    /// The address does not take any now.
    NotTaken(String),
}

/// Posts all reports that are due, until those of two owners are not taken now: the others wait with them. One owner's may be what
/// the receiver fails at.
pub(crate) async fn post_due(
    client: &Client,
    receiver: &Receiver,
    metrics: &SelfMetrics,
) -> anyhow::Result<Round> {
    metrics.add((SOURCE, FAILED), &WEBHOOK_REPORTS, give_up_report_posts(client).await?);
    let mut round = Round::Done;
    let mut failed: Option<Turn> = None;
    'reports: loop {
        let due = reports_to_post(client, READ_MAX).await?;
        let is_last = due.len() < usize::try_from(READ_MAX).unwrap_or(usize::MAX);
        let mut posted = 0_usize;
        for one in due {
            let turn = one.turn;
            if failed == Some(turn) {
                continue;
            }
            posted += 1;
            if let Err(why) = post(client, receiver, metrics, one).await? {
                round = Round::NotTaken(why);
                if failed.replace(turn).is_some() {
                    break 'reports;
                }
            }
        }
        if is_last || posted == 0 {
            break;
        }
    }
    #[allow(clippy::cast_precision_loss)] // reports
    metrics.set(SOURCE, &WEBHOOK_WAITING_REPORTS, waiting_report_posts(client).await? as f64);
    Ok(round)
}

/// Posts one and notes what became of it; the inner error where the address does not take any now.
async fn post(
    client: &Client,
    receiver: &Receiver,
    metrics: &SelfMetrics,
    one: ReportPost,
) -> anyhow::Result<Result<(), String>> {
    let ReportPost { job_id, id, job_key, report, .. } = one;
    let body =
        serde_json::to_vec(&JobReport { job_key: job_key.clone(), is_final: true, report, as_of: None })?;
    let headers = vec![("content-type", "application/json".to_owned()), (REPORT_ID, id.to_string())];
    match receiver.post(headers, body).await {
        Ok(()) => {
            metrics.add((SOURCE, SENT), &WEBHOOK_REPORTS, 1);
            note_report_post(client, job_id, PostOutcome::Taken).await?;
        }
        Err(PostError::Temporary(why)) => {
            note_report_post(client, job_id, PostOutcome::Later(&why)).await?;
            return Ok(Err(why));
        }
        Err(PostError::Refused(why)) => {
            metrics.add((SOURCE, FAILED), &WEBHOOK_REPORTS, 1);
            tracing::warn!(receiver = receiver.name(), job = job_key, why, "report of a job is refused");
            note_report_post(client, job_id, PostOutcome::Refused(&why)).await?;
        }
    }
    Ok(Ok(()))
}
