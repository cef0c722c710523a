//! The collector's end of the exchange: requests for the time over a stream of a sender, a few at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use throughline_delivery::wire::{ClockAnswer, ClockReport, ClockRequest};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{Clocks, Exchange};

/// Exchanges of a round. The one with the shortest round trip is believed (RFC 5905, 10): others waited somewhere.
const ROUND: usize = 4;
/// An exchange that took longer says nothing: its offset may be wrong by half of it.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(2);
/// Rounds without any exchange after which the stream ends; its sender opens another.
const FAILED_MAX: usize = 3;
/// From one round to the next, also where one is awaited.
const PAUSE: Duration = Duration::from_secs(1);
/// Spans that a sender lists: it stores no more.
const SPANS_MAX: usize = 2 * throughline_daemon::SPANS_MAX;

/// A stream by which a sender's clock is measured.
pub(crate) struct ClockStream {
    pub clocks: Clocks,
    /// Of this process.
    pub number: u64,
    /// As in `sender_clock`.
    pub sender: Arc<str>,
    /// Name of the certificate; empty for a sender of this machine.
    pub certificate: String,
    pub requests: mpsc::Sender<Result<ClockRequest, Status>>,
    pub answers: Streaming<ClockAnswer>,
}

/// Measures until the stream ends. `first` is what the sender opened it with; `is_barred` ends it.
pub(crate) async fn answer_clock(mut stream: ClockStream, first: ClockAnswer, is_barred: impl Fn() -> bool) {
    if stream.note(first) {
        let wake = stream.clocks.wake_of(&stream.sender);
        let mut failed = 0;
        while failed < FAILED_MAX && !is_barred() {
            let interval = stream.clocks.0.plan.interval;
            let begin = Instant::now();
            match stream.round().await {
                Some(true) => failed = 0,
                Some(false) => failed += 1,
                None => break,
            }
            let pause = PAUSE.min(interval).saturating_sub(begin.elapsed());
            tokio::time::sleep(pause).await;
            tokio::select! {
                () = tokio::time::sleep(interval.saturating_sub(begin.elapsed())) => {}
                () = wake.notified() => {}
                () = stream.requests.closed() => break,
            }
        }
    }
    stream.clocks.leave(stream.number, &stream.sender);
}

impl ClockStream {
    /// Takes over the spans of an answer. False where the stream is of no use.
    fn note(&self, answer: ClockAnswer) -> bool {
        answer.spans.len() <= SPANS_MAX
            && self.clocks.list(self.number, (&self.sender, &self.certificate), answer.spans)
    }

    /// One round: some exchanges, and what was found. Whether any came through; `None` at the end of the stream.
    async fn round(&mut self) -> Option<bool> {
        let generation = self.clocks.generation();
        let mut best: Option<Exchange> = None;
        for number in 1..=ROUND as u64 {
            let Ok(done) = tokio::time::timeout(ROUND_TRIP_MAX, self.exchange(number)).await else {
                continue;
            };
            let done = done?;
            best = Some(best.map_or(done, |best| best.min(done)));
        }
        let Some(best) = best else { return Some(false) };
        let measured = self.clocks.measured(self.number, &self.sender, best, generation).await;
        let Some(report) = measured else { return Some(true) };
        let begins = report.begin_span;
        self.report(report).await?;
        if begins {
            self.clocks.wake_of(&self.sender).notify_one();
        }
        Some(true)
    }

    async fn exchange(&mut self, number: u64) -> Option<Exchange> {
        let sent = self.clocks.now();
        self.requests.send(Ok(ClockRequest { number, report: None })).await.ok()?;
        loop {
            let answer = self.answers.message().await.ok()??;
            let came = self.clocks.now();
            // An answer to a request that was given up.
            if answer.number != number {
                continue;
            }
            let held = answer.sent.saturating_sub(answer.received).max(0);
            let exchange = Exchange {
                round_trip: came.saturating_sub(sent).saturating_sub(held).max(0),
                offset: offset([sent, answer.received, answer.sent, came]),
                server_time: came,
                sender_time: answer.sent,
            };
            return self.note(answer).then_some(exchange);
        }
    }

    /// Sends what was found; its answer has the spans as they are then.
    async fn report(&mut self, report: ClockReport) -> Option<()> {
        self.requests.send(Ok(ClockRequest { number: 0, report: Some(report) })).await.ok()?;
        loop {
            let answered = tokio::time::timeout(ROUND_TRIP_MAX, self.answers.message()).await;
            let Ok(answer) = answered else { return Some(()) };
            let answer = answer.ok()??;
            let is_it = answer.number == 0;
            if !self.note(answer) {
                return None;
            }
            if is_it {
                return Some(());
            }
        }
    }
}

/// How far a sender is ahead, by when a request left and came there, and when the answer left there and came (RFC 5905, 8).
fn offset([sent, received, answered, came]: [i64; 4]) -> i64 {
    let there = i128::from(received) - i128::from(sent);
    let back = i128::from(answered) - i128::from(came);
    // The mean of two differences of 64 bits; a sender that makes it larger is as far off as can be.
    i64::try_from((there + back) / 2).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_there_and_back_cancels_out() {
        assert_eq!(offset([1000, 5010, 5030, 1040]), 4000);
        assert_eq!(offset([1000, 510, 530, 1040]), -500);
        assert_eq!(offset([0, i64::MIN, i64::MIN, 0]), i64::MIN);
    }
}
