//! Which time a Prometheus has samples of its own of: those of the database end before it.
//!
//! A page shows a reading until the next one is published, so a scraped sample is older than its time, by a sweep and more. Where scraped
//! and stored samples of a counter alternate, it falls where it never fell, and `rate` takes that for a beginning from 0. Other
//! times on stored samples would not mend it: each machine has a clock of its own, and a scrape takes a while. So a series is
//! the database's until [`GUARD`] before the oldest sample of the Prometheus itself, and its own from there on.
//!
//! Prometheus does not send that time, with `read_recent: false` neither: it requests four hours more than it lacks, and all
//! where it has no block yet. So it is queried, at most each [`ASKED_EACH`] and only where somebody reads.

use super::plan::Plan;
use crate::outbound::{self, Limits};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throughline_daemon::Failure;
use tokio::sync::Mutex;
use ureq::Agent;

/// Longest time from a reading until a page shows it: a sweep of the slowest crawler, what clocks may differ, and a scrape. As long
/// as an instant query looks back, so that nothing is missing from its graph there.
const GUARD: Duration = Duration::from_secs(300);

/// How long it is believed what a Prometheus has.
const ASKED_EACH: Duration = Duration::from_secs(15);

/// For a connection: who reads waits for it.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// For a whole answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(3);

/// Largest page of a Prometheus' own metrics.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// The oldest sample of a Prometheus, in seconds.
const OLDEST: &str = "prometheus_tsdb_lowest_timestamp_seconds ";

/// From this number of seconds on it means that there is no sample yet: the year 2255.
const NO_SAMPLE_SECONDS: f64 = 9e9;

/// By how much Prometheus requests more than it lacks with `read_recent: false`: two of its smallest blocks.
const MARGIN_MS: i64 = 4 * 3600 * 1000;

/// What the Prometheus servers that scrape and read have of their own.
#[derive(Clone, Default)]
pub struct OwnHistory {
    servers: Arc<[PrometheusServer]>,
    recent: Duration,
}

/// One of them.
struct PrometheusServer {
    agent: Agent,
    url: String,
    name: String,
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Default)]
struct Known {
    requested: Option<Instant>,
    /// From when on it may have samples, milliseconds since 1970.
    from: Option<i64>,
}

impl OwnHistory {
    /// Of servers at these addresses. While one of them never answered, samples that are younger than `recent` are its own.
    ///
    /// # Errors
    /// An address can't be used (64), or the system has no certificates (69).
    pub fn new(urls: &[String], recent: Duration) -> Result<OwnHistory, Failure> {
        let servers = urls.iter().map(|url| PrometheusServer::new(url)).collect::<Result<_, _>>()?;
        Ok(OwnHistory { servers, recent })
    }

    /// Refuses addresses that can't be used. Reads no file.
    ///
    /// # Errors
    /// An address can't be used (64).
    pub fn check(urls: &[String]) -> Result<(), Failure> {
        urls.iter().try_for_each(|url| check(url))
    }

    /// Leaves out of these queries what the servers have themselves.
    pub(super) async fn leave_out(&self, plans: &mut [Plan]) {
        if self.servers.is_empty() {
            return;
        }
        let known = futures::future::join_all(self.servers.iter().map(PrometheusServer::own_from)).await;
        let now = milliseconds(SystemTime::now());
        for plan in plans {
            let from = known.iter().map(|known| known.unwrap_or_else(|| self.unknown(plan, now))).min();
            plan.end_before(from.unwrap_or(now).saturating_sub(span(GUARD)));
        }
    }

    /// Where the samples of a server begin that never answered. The end of a request that was shortened is four hours behind it.
    fn unknown(&self, plan: &Plan, now: i64) -> i64 {
        let recent = now.saturating_sub(span(self.recent));
        plan.shortened_to.map_or(recent, |end| recent.min(end - MARGIN_MS))
    }
}

impl std::fmt::Debug for OwnHistory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.servers.iter().map(|server| &server.name)).finish()
    }
}

fn check(url: &str) -> Result<(), Failure> {
    let key = "query.prometheus_urls";
    let Some(origin) = outbound::origin(url) else {
        let why = "expected http://HOST:PORT/PATH or https://…, as http://127.0.0.1:9090";
        return Err(Failure::usage(format!("{key}: \"{url}\": {why}")));
    };
    if url.split('/').nth(2).is_some_and(|authority| authority.contains('@')) || url.contains(['?', '#']) {
        let why = "give what stands before /metrics, without password and parameters";
        return Err(Failure::usage(format!("{key} ({origin}): {why}")));
    }
    Ok(())
}

impl PrometheusServer {
    fn new(url: &str) -> Result<PrometheusServer, Failure> {
        check(url)?;
        let limits = Limits { connect: CONNECT_LIMIT, request: REQUEST_LIMIT };
        let agent = outbound::agent(url, None, "query.prometheus_urls", limits)?;
        let name = outbound::origin(url).unwrap_or_default();
        let url = format!("{}/metrics", url.trim_end_matches('/'));
        Ok(PrometheusServer { agent, url, name, known: Mutex::default() })
    }

    /// From when on it may have samples of its own; `None` while that is not known.
    async fn own_from(&self) -> Option<i64> {
        let mut known = self.known.lock().await;
        if known.requested.is_some_and(|at| at.elapsed() < ASKED_EACH) {
            return known.from;
        }
        let is_first = known.requested.is_none();
        // What is scraped from now on is its own, whatever it has.
        let now = milliseconds(SystemTime::now());
        let (agent, url) = (self.agent.clone(), self.url.clone());
        let answer = tokio::task::spawn_blocking(move || oldest(&agent, &url)).await;
        known.requested = Some(Instant::now());
        match answer.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(oldest) => known.from = Some(oldest.unwrap_or(now).min(now)),
            Err(why) if known.from.is_none() && is_first => tracing::warn!(
                prometheus = self.name,
                why,
                "not known which time this Prometheus has itself: remote-read leaves out what is younger than \
                 query.recent_seconds; query.prometheus_urls names who scrapes"
            ),
            Err(why) => tracing::debug!(prometheus = self.name, why, "a Prometheus does not answer"),
        }
        known.from
    }
}

/// The time of a server's oldest sample; `None` where it has none.
fn oldest(agent: &Agent, url: &str) -> Result<Option<i64>, String> {
    let mut response = agent.get(url).call().map_err(|error| outbound::cause(&error))?;
    if !response.status().is_success() {
        return Err(format!("it answers {}", response.status()));
    }
    let page = response.body_mut().with_config().limit(PAGE_BYTES_MAX).read_to_string();
    parse(&page.map_err(|error| format!("its page can't be read: {error}"))?)
}

fn parse(page: &str) -> Result<Option<i64>, String> {
    let value = page.lines().find_map(|line| line.strip_prefix(OLDEST));
    let seconds = value.and_then(|value| value.trim().parse::<f64>().ok()).filter(|value| !value.is_nan());
    let seconds = seconds.ok_or_else(|| format!("no {}on its page", OLDEST))?;
    // Within the years that are looked at, where milliseconds are exact.
    #[allow(clippy::cast_possible_truncation)]
    let milliseconds = |seconds: f64| (seconds.max(0.0) * 1000.0) as i64;
    Ok((seconds < NO_SAMPLE_SECONDS).then(|| milliseconds(seconds)))
}

fn milliseconds(time: SystemTime) -> i64 {
    span(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn span(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::matchers::Budget;
    use super::super::message::{LabelMatcher, Query, ReadHints};
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const HOUR: i64 = 3_600_000;

    fn plan(end: i64, hinted_end: i64) -> Plan {
        let name =
            LabelMatcher { kind: 0, name: "__name__".into(), value: "throughline_records_total".into() };
        let hints = ReadHints { start_ms: 0, end_ms: hinted_end, ..ReadHints::default() };
        let query =
            Query { start_timestamp_ms: 0, end_timestamp_ms: end, matchers: vec![name], hints: Some(hints) };
        Plan::new(&query, &mut Budget::default()).unwrap()
    }

    /// The last time that is answered of a request until now.
    async fn answered(own: &OwnHistory, mut plan: Plan) -> Option<i64> {
        own.leave_out(std::slice::from_mut(&mut plan)).await;
        (!plan.families.is_empty()).then_some(plan.range.to)
    }

    /// A server whose page is this, as often as it is requested.
    fn serving(page: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (mut stream, mut request) = (stream, [0; 4096]);
                let _ = stream.read(&mut request);
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
                let _ = write!(stream, "{head} {}\r\n\r\n{page}", page.len());
            }
        });
        url
    }

    #[tokio::test]
    async fn a_series_is_the_databases_until_the_own_samples_begin() {
        let now = milliseconds(SystemTime::now());
        let recent = Duration::from_secs(4 * 3600);
        let of = |urls: &[String]| OwnHistory::new(urls, recent).unwrap();
        assert_eq!(answered(&OwnHistory::default(), plan(now, now)).await, Some(now));
        let old = serving("# HELP x y\nprometheus_tsdb_lowest_timestamp_seconds 1.7672256e+09\n");
        let guard = span(GUARD);
        assert_eq!(
            answered(&of(std::slice::from_ref(&old)), plan(now, now)).await,
            Some(1_767_225_600_000 - guard)
        );
        // Nothing lies before it.
        let mut late = plan(now, now);
        late.range.from = 1_767_225_600_000;
        assert_eq!(answered(&of(std::slice::from_ref(&old)), late).await, None);
        // Of two the one that has more.
        let new = serving("prometheus_tsdb_lowest_timestamp_seconds 9.223372036854776e+15\n");
        let both = of(&[new.clone(), old]);
        assert_eq!(answered(&both, plan(now, now)).await, Some(1_767_225_600_000 - guard));
        // Without any sample it may have one from now on.
        let end = answered(&of(&[new]), plan(now, now)).await.unwrap();
        assert!((0..=60_000).contains(&(end - (now - guard))), "{end} {now}");
    }

    #[tokio::test]
    async fn of_a_server_that_never_answered_recent_samples_are_its_own() {
        let now = milliseconds(SystemTime::now());
        let other = serving("<html>");
        let own = OwnHistory::new(&[other], Duration::from_secs(4 * 3600)).unwrap();
        let end = answered(&own, plan(now, now)).await.unwrap();
        let expected = now - 4 * HOUR - span(GUARD);
        assert!((0..=60_000).contains(&(end - expected)), "{end} {expected}");
        // It requests what it lacks and four hours more.
        let shortened = answered(&own, plan(now - 10 * HOUR, now)).await;
        assert_eq!(shortened, Some(now - 14 * HOUR - span(GUARD)));
        // What lies longer back is answered as it is.
        assert_eq!(answered(&own, plan(now - 10 * HOUR, now - 10 * HOUR)).await, Some(now - 10 * HOUR));
    }

    #[test]
    fn addresses_that_cannot_be_used_are_refused_with_the_key() {
        for url in ["127.0.0.1:9090", "ftp://h", "http://a:b@h/", "http://h/?x"] {
            let why = OwnHistory::new(&[url.to_owned()], GUARD).unwrap_err().to_string();
            assert!(why.contains("query.prometheus_urls") && !why.contains("a:b"), "{why}");
        }
        assert!(OwnHistory::check(&["http://h:9090/prometheus".to_owned()]).is_ok());
    }
}
