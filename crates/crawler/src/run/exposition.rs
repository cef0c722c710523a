//! `/metrics`: the last sweep, with the names that infiniband_exporter's users query. Reads no device.
//!
//! A page is made once a sweep for each way of asking (shard, counters, format), kept compressed and shared by
//! all who query the same way. A sweep that is too old is not shown at all: absent is not old.

mod text;

use super::shared::{LastSweep, SharedState};
use crate::scrape::{CounterChoice, PageRequest};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use text::SweepInfo;
use throughline_daemon::{LargeMetrics, Piece, Scrape};
use throughline_infiniband::records::SOURCE;
use throughline_sample::catalogue::{LAST_ROUND_TIMESTAMP_SECONDS, RENDERED_PAGES, REQUESTS_REJECTED};

/// Sweeps that may be missed before nothing is shown any more: two or three are lost to a slow fabric.
const MISSED_SWEEPS: u32 = 5;
/// Shortest time in which nothing is called old, whatever the interval: a scraper comes each 15 s.
const SHORTEST_STALE: Duration = Duration::from_secs(15);
/// Ways of asking whose pages are kept: 64 shards, or eight in some choices. More are made for each scrape.
const CACHED_PAGES_MAX: usize = 64;

/// A page in the making or made.
type Slot = Arc<OnceLock<Arc<Piece>>>;

/// The last sweep on the page.
pub struct Exposition {
    shared: Arc<SharedState>,
    configured: CounterChoice,
    stale_after: Duration,
    cache: Mutex<PageCache>,
}

#[derive(Default)]
struct PageCache {
    /// The sweep that the pages are of: when it ended.
    of: Option<Instant>,
    pages: HashMap<PageRequest, Slot>,
}

impl Exposition {
    /// Shows what `shared` holds; `interval` is that of sweeps.
    pub fn new(shared: Arc<SharedState>, configured: CounterChoice, interval: Duration) -> Exposition {
        let stale_after = interval.saturating_mul(MISSED_SWEEPS).max(SHORTEST_STALE);
        Exposition { shared, configured, stale_after, cache: Mutex::default() }
    }

    /// The place of a page of this sweep; `None` where too many are kept.
    fn slot(&self, last: &LastSweep, request: &PageRequest) -> Option<Slot> {
        // A panic elsewhere leaves complete entries.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.of != Some(last.at) {
            *cache = PageCache { of: Some(last.at), pages: HashMap::new() };
        }
        let has_room = cache.pages.len() < CACHED_PAGES_MAX;
        match cache.pages.get(request) {
            Some(slot) => Some(slot.clone()),
            None if has_room => Some(cache.pages.entry(request.clone()).or_default().clone()),
            None => None,
        }
    }

    fn make(&self, last: &LastSweep, request: &PageRequest) -> Arc<Piece> {
        let metrics = &self.shared.publisher.metrics;
        metrics.add(SOURCE, &RENDERED_PAGES, 1);
        Arc::new(text::render(&last.topology, &last.readings, SweepInfo::of(last), request))
    }
}

/// When a sweep ended, seconds since 1970 to the millisecond.
fn ended(last: &LastSweep) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ended = now.saturating_sub(last.at.elapsed());
    ended.as_millis() as f64 / 1000.0
}

impl SweepInfo {
    fn of(last: &LastSweep) -> SweepInfo {
        SweepInfo {
            began_nanoseconds: last.began_nanoseconds,
            seconds: last.elapsed.as_secs_f64(),
            ended: ended(last),
        }
    }
}

impl LargeMetrics for Exposition {
    fn render(&self, scrape: &Scrape) -> Result<(Arc<Piece>, bool), String> {
        let metrics = &self.shared.publisher.metrics;
        let request = PageRequest::parse(scrape, &self.configured)
            .inspect_err(|_| metrics.add((SOURCE, "query"), &REQUESTS_REJECTED, 1))?;
        let is_first = request.shard.is_first();
        let Some(last) = self.shared.last() else { return Ok((Arc::new(Piece::default()), is_first)) };
        // Reported as long as there was a sweep: its age is how a blocked crawler is seen.
        metrics.set(SOURCE, &LAST_ROUND_TIMESTAMP_SECONDS, ended(&last));
        if last.at.elapsed() > self.stale_after {
            return Ok((Arc::new(Piece::default()), is_first));
        }
        let page = match self.slot(&last, &request) {
            // A query that comes while another one makes the same page waits for it.
            Some(slot) => slot.get_or_init(|| self.make(&last, &request)).clone(),
            None => self.make(&last, &request),
        };
        Ok((page, is_first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrape::Shard;
    use throughline_daemon::Format;
    use throughline_infiniband::mad::NodeKind;
    use throughline_infiniband::reading::PortReading;
    use throughline_infiniband::records;
    use throughline_sample::Guid;
    use throughline_sample::wire::{Batch, IbNodeInfo};

    #[test]
    fn how_long_devices_took_does_not_depend_on_when_the_sweep_is_shown() {
        const BEGAN: i64 = 1_700_000_000_000_000_000;
        let mut reading = PortReading::new(0, Guid(7), NodeKind::Ca, 1, 1);
        (reading.was_requested, reading.time) = (true, BEGAN + 2_000_000);
        let host = IbNodeInfo { guid: 7, r#type: "ca".to_owned(), port_count: 1, ..IbNodeInfo::default() };
        let last = LastSweep {
            topology: Arc::new(records::topology(&Batch { ib_nodes: vec![host], ..Batch::default() })),
            readings: Arc::new(Vec::new()),
            began_nanoseconds: BEGAN,
            elapsed: Duration::from_millis(3),
            // Whatever was done with its readings took longer than the sweep itself.
            at: Instant::now(),
        };
        let request = PageRequest {
            shard: Shard::WHOLE,
            choice: CounterChoice::parse("fast").unwrap(),
            format: Format::Text,
        };
        let mut page = Vec::new();
        text::render(&last.topology, &[reading], SweepInfo::of(&last), &request).append_text(&mut page);
        let page = String::from_utf8(page).unwrap();
        let series = page.lines().find(|line| line.starts_with("infiniband_hca_collect_duration_seconds{"));
        assert!(series.is_some_and(|series| series.ends_with(" 0.002")), "{page}");
    }
}
