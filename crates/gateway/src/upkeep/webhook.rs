//! Reports of jobs that have ended, posted to an address of the site: `[report] webhook`.
//!
//! Upkeep hands reports over without waiting. A report that is not taken is sent again with growing pauses, and given up after
//! [`ATTEMPTS`]; while one waits, [`QUEUE`] more do, and those beyond are dropped and counted. The queue is in memory: reports that
//! wait when the server ends are not sent, and stay in the database.

use crate::outbound::{PostError, Receiver};
use std::time::Duration;
use throughline_api::verdicts::JobReport;
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::WEBHOOK_REPORTS;
use tokio::sync::mpsc;

/// Reports that wait: some minutes of a busy site, a megabyte.
const QUEUE: usize = 1000;

/// How often one report is tried: for 11 minutes, as long as a restart of the receiver takes.
const ATTEMPTS: u32 = 16;

/// Pause after the first failure; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Longest pause.
const PAUSE_LONGEST: Duration = Duration::from_secs(60);

/// What becomes of a report, in the place of the source in metrics.
const SENT: &str = "sent";
const FAILED: &str = "failed";
const DROPPED: &str = "dropped";

/// The end that upkeep holds.
#[derive(Clone, Debug)]
pub struct Webhook {
    queue: mpsc::Sender<JobReport>,
    metrics: SelfMetrics,
}

impl Webhook {
    /// Takes a report to be sent; never waits.
    pub fn send(&self, report: JobReport) {
        if let Err(error) = self.queue.try_send(report) {
            self.metrics.add(DROPPED, &WEBHOOK_REPORTS, 1);
            tracing::debug!(%error, "report of a job is not sent");
        }
    }
}

/// A queue, and the task that empties it for as long as it is polled.
pub fn start(receiver: Receiver, metrics: SelfMetrics) -> (Webhook, impl Future<Output = ()>) {
    for outcome in [SENT, FAILED, DROPPED] {
        metrics.add(outcome, &WEBHOOK_REPORTS, 0);
    }
    let (queue, waiting) = mpsc::channel(QUEUE);
    (Webhook { queue, metrics: metrics.clone() }, run(receiver, waiting, metrics, PAUSE_FIRST))
}

async fn run(
    receiver: Receiver,
    mut waiting: mpsc::Receiver<JobReport>,
    metrics: SelfMetrics,
    first_pause: Duration,
) {
    let mut is_failing = false;
    while let Some(report) = waiting.recv().await {
        let Ok(body) = serde_json::to_vec(&report) else { continue };
        let outcome = match deliver(&receiver, &body, first_pause).await {
            Ok(()) => SENT,
            Err(error) => {
                // Once for a series of failures.
                if !is_failing {
                    tracing::warn!(receiver = receiver.name(), job = report.job_key, %error, "report of a job is not taken");
                }
                FAILED
            }
        };
        is_failing = outcome == FAILED;
        metrics.add(outcome, &WEBHOOK_REPORTS, 1);
    }
}

async fn deliver(receiver: &Receiver, body: &[u8], first_pause: Duration) -> Result<(), PostError> {
    let mut pause = first_pause;
    for attempt in 1.. {
        match receiver.post(&[("content-type", "application/json")], body.to_vec()).await {
            Err(PostError::Temporary(why)) if attempt < ATTEMPTS => {
                tracing::debug!(receiver = receiver.name(), attempt, why, "report of a job: trying again");
            }
            ended => return ended,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LONGEST);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::Address;
    use axum::Router;
    use axum::http::{HeaderMap, StatusCode};
    use axum::routing::post;
    use std::sync::{Arc, Mutex};

    /// A receiver that answers with these statuses in turn, and what it got.
    async fn receiver(statuses: Vec<u16>) -> (Receiver, Arc<Mutex<Vec<(String, String)>>>) {
        let got = Arc::new(Mutex::new(Vec::new()));
        let (noted, statuses) = (Arc::clone(&got), Arc::new(Mutex::new(statuses.into_iter())));
        let handler = move |headers: HeaderMap, body: String| async move {
            let kind = headers["content-type"].to_str().unwrap().to_owned();
            noted.lock().unwrap().push((kind, body));
            StatusCode::from_u16(statuses.lock().unwrap().next().unwrap_or(200)).unwrap()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks/s3cret", listener.local_addr().unwrap());
        tokio::spawn(async move {
            axum::serve(listener, Router::new().route("/hooks/s3cret", post(handler))).await
        });
        let address = Address { url, ..Address::default() };
        (address.receiver("report", "webhook").unwrap(), got)
    }

    fn report(key: &str) -> JobReport {
        JobReport { job_key: key.into(), is_final: true, report: "Job 1, 4 ranks\n".into() }
    }

    async fn counted(
        statuses: Vec<u16>,
        reports: Vec<JobReport>,
    ) -> (Vec<(String, String)>, [Option<f64>; 2]) {
        let (receiver, got) = receiver(statuses).await;
        let (metrics, (queue, waiting)) = (SelfMetrics::default(), mpsc::channel(QUEUE));
        for report in reports {
            queue.send(report).await.unwrap();
        }
        drop(queue);
        run(receiver, waiting, metrics.clone(), Duration::from_millis(1)).await;
        let outcomes = [SENT, FAILED].map(|outcome| metrics.get(outcome, &WEBHOOK_REPORTS));
        (
            Arc::try_unwrap(got)
                .unwrap_or_else(|got| Mutex::new(got.lock().unwrap().clone()))
                .into_inner()
                .unwrap(),
            outcomes,
        )
    }

    #[tokio::test]
    async fn a_report_is_what_the_command_prints_as_json() {
        let (got, outcomes) = counted(vec![204], vec![report("slurm:1@1")]).await;
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].0, "application/json");
        assert_eq!(serde_json::from_str::<JobReport>(&got[0].1).unwrap(), report("slurm:1@1"));
        assert_eq!(outcomes, [Some(1.0), None]);
    }

    #[tokio::test]
    async fn what_is_away_is_tried_again_and_what_is_refused_is_not() {
        let (got, outcomes) =
            counted(vec![503, 429, 200, 404], vec![report("a"), report("b"), report("c")]).await;
        let keys: Vec<String> =
            got.iter().map(|(_, body)| serde_json::from_str::<JobReport>(body).unwrap().job_key).collect();
        assert_eq!(keys, ["a", "a", "a", "b", "c"]);
        assert_eq!(outcomes, [Some(2.0), Some(1.0)]);
    }

    #[tokio::test]
    async fn a_full_queue_drops_and_counts() {
        let (receiver, _) = receiver(Vec::new()).await;
        let metrics = SelfMetrics::default();
        // Nobody empties it.
        let (webhook, _task) = start(receiver, metrics.clone());
        (0..QUEUE + 2).for_each(|number| webhook.send(report(&number.to_string())));
        assert_eq!(metrics.get(DROPPED, &WEBHOOK_REPORTS), Some(2.0));
    }
}
