//! What is known of the clocks of senders. Pure but for the time that has passed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use throughline_delivery::wire::ClockSpan;
use throughline_sample::clock_times::SpanMove;
use throughline_store::SpanOffset;
use tokio::sync::Notify;

use super::Moves;
use super::verdict::DRIFT_NANOSECONDS;

/// One exchange, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exchange {
    /// First, so that the least is the best.
    pub round_trip: i64,
    /// Sender less server.
    pub offset: i64,
    pub server_time: i64,
    pub sender_time: i64,
}

/// The clock at the other end of one exchange.
#[derive(Debug)]
pub(super) struct StreamClock {
    /// The present span is the last.
    pub spans: Vec<ClockSpan>,
    pub listed: Instant,
    pub measured: Option<(Exchange, Instant)>,
}

impl StreamClock {
    pub fn present(&self) -> Option<u64> {
        self.spans.last().map(|span| span.id)
    }
}

/// A sender: its clock may be measured over several streams, of its daemons.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub certificate: String,
    pub streams: BTreeMap<u64, StreamClock>,
    pub offsets: HashMap<u64, SpanMove>,
    /// Spans whose ends are stored.
    pub ended: HashSet<u64>,
    pub newest: Option<i64>,
    pub written: Option<(Instant, f64)>,
    pub wake: Arc<Notify>,
}

impl Known {
    pub fn measured(&self) -> Option<(Exchange, Instant)> {
        self.streams.values().filter_map(|stream| stream.measured).max_by_key(|(_, at)| *at)
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub senders: HashMap<Arc<str>, Known>,
    /// When the first sender was measured since the start, or since this server's clock was set.
    pub since: Option<Instant>,
    /// Grows when this server's clock was set: what was begun before counts for nothing.
    pub generation: u64,
    /// Most senders are right by this server's clock.
    pub is_confirmed: bool,
}

impl State {
    /// One number for each certificate.
    pub fn offsets(&self) -> Vec<i64> {
        let mut of: HashMap<&str, i64> = HashMap::new();
        for (sender, known) in &self.senders {
            let by = if known.certificate.is_empty() { sender } else { known.certificate.as_str() };
            if let Some((exchange, _)) = known.measured() {
                of.insert(by, exchange.offset);
            }
        }
        of.into_values().collect()
    }
}

/// The offset of a span that has none yet, behind the span before it with that one's.
#[allow(clippy::cast_precision_loss)] // Seconds.
pub(super) fn new_offset(span: &ClockSpan, offset: i64, before: Option<(&ClockSpan, i64)>) -> SpanOffset {
    let began = span.from.saturating_sub(offset);
    let end_before = before.map_or(began, |(before, offset)| before.to.saturating_sub(offset));
    SpanOffset {
        span: span.id,
        began,
        ended: (span.to != 0).then(|| span.to.saturating_sub(offset)),
        offset_seconds: Some(offset as f64 / 1e9),
        slew_seconds: end_before.saturating_sub(began).max(0) as f64 / 1e9,
    }
}

#[allow(clippy::cast_possible_truncation)] // Seconds, of a day at most.
pub(super) fn span_move(span: &SpanOffset) -> SpanMove {
    let offset = (span.offset_seconds.unwrap_or(0.0) * 1e9) as i64;
    let slew = (span.slew_seconds * 1e9) as i64;
    SpanMove { offset, from: span.began.saturating_add(offset), slew }
}

/// What is known of the clock of a batch.
pub(super) enum Look {
    Known(Moves),
    /// Offsets of these spans may be in the store.
    Read(Vec<u64>),
    /// The sender does not have these spans any more.
    Unknown(Vec<u64>),
    Wait,
}

/// Whether the offset of the present span is what was measured last: else its clock or this server's was set, and which one is
/// not known yet.
pub(super) fn is_trusted(known: &Known, stream: &StreamClock) -> bool {
    let fixed = stream.present().and_then(|present| known.offsets.get(&present));
    let measured = stream.measured.map(|(exchange, _)| exchange.offset);
    fixed.zip(measured).is_some_and(|(fixed, measured)| {
        measured.saturating_sub(fixed.offset).saturating_abs() <= DRIFT_NANOSECONDS
    })
}
