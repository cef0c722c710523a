//! The sender's end of the exchange by which a collector measures its clock, and what the collector reports of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use throughline_daemon::{ClockSpans, Condition};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::authorization::{Authorization, authorized};
use crate::wire::collect_client::CollectClient;
use crate::wire::{ClockAnswer, ClockReport, ClockRequest, ClockSpan};

/// Answers that wait to be sent: the requests of one round.
const ANSWERS_MAX: usize = 16;
/// From one attempt to open the exchange to the next, while entries are delivered.
const PAUSE: Duration = Duration::from_secs(5);
/// A report is shown for so long: the collector sends one each 10 s.
const REPORT_SHOWN: Duration = Duration::from_secs(60);

/// A daemon's clock as it is measured. Clones are the same.
#[derive(Clone, Debug)]
pub struct ClockExchange(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    spans: Arc<ClockSpans>,
    node: String,
    report: Mutex<Option<(ClockReport, Instant)>>,
}

impl ClockExchange {
    /// The clock of these spans, of a node as in its batches; empty for a crawler.
    #[must_use]
    pub fn new(spans: Arc<ClockSpans>, node: String) -> Self {
        Self(Arc::new(Parts { spans, node, report: Mutex::default() }))
    }

    /// The spans.
    #[must_use]
    pub fn spans(&self) -> &Arc<ClockSpans> {
        &self.0.spans
    }

    /// How far the clock is ahead of the collector's, as that measured it lately.
    #[must_use]
    pub fn offset_seconds(&self) -> Option<f64> {
        self.report().map(|report| report.offset_seconds)
    }

    /// What `/healthz` reports.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        let fault = self.report().map(|report| report.fault).filter(|fault| !fault.is_empty());
        fault.map(|fault| Condition::degraded(format!("clock: {fault}"))).into_iter().collect()
    }

    fn report(&self) -> Option<ClockReport> {
        let report = self.0.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.as_ref().filter(|(_, at)| at.elapsed() < REPORT_SHOWN).map(|(report, _)| report.clone())
    }

    fn note(&self, report: ClockReport) {
        if report.begin_span {
            self.0.spans.begin();
        }
        let mut noted = self.0.report.lock().unwrap_or_else(PoisonError::into_inner);
        let before = noted.replace((report.clone(), Instant::now()));
        if !report.fault.is_empty() && before.is_none_or(|(before, _)| before.fault.is_empty()) {
            tracing::warn!(offset_seconds = report.offset_seconds, "{}", report.fault);
        }
    }

    /// Answers over this connection for as long as it is not dropped.
    pub(crate) async fn answer(self, mut client: CollectClient<Channel>, authorization: Authorization) {
        loop {
            let (answers, queue) = mpsc::channel(ANSWERS_MAX);
            // Opens the stream; a full queue can't be, as it is new.
            let _ = answers.try_send(self.time(0, 0));
            let request = authorized(ReceiverStream::new(queue), authorization.as_ref());
            match client.clock(request).await {
                Ok(requests) => {
                    let mut requests = requests.into_inner();
                    while let Ok(Some(request)) = requests.message().await {
                        if answers.send(self.take(request)).await.is_err() {
                            break;
                        }
                    }
                }
                Err(status) => tracing::debug!(%status, "the collector does not measure this clock"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn take(&self, request: ClockRequest) -> ClockAnswer {
        let received = self.0.spans.clock().now();
        if let Some(report) = request.report {
            self.note(report);
        }
        self.time(request.number, received)
    }

    fn time(&self, number: u64, received: i64) -> ClockAnswer {
        let spans = self.0.spans.spans().into_iter().map(|span| ClockSpan {
            id: span.id,
            from: span.from,
            to: span.to.unwrap_or(0),
            utc_less_boot: span.utc_less_boot,
        });
        let spans = spans.collect();
        ClockAnswer { number, received, node: self.0.node.clone(), spans, sent: self.0.spans.clock().now() }
    }
}
