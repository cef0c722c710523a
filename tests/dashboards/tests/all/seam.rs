//! A Prometheus that has scraped samples of its own and reads the others from the database: where both meet no counter falls.
//!
//! What was scraped is made as blocks: a page shows a reading until the next one is published, here [`LATE_SECONDS`] after it was
//! read, as with a slow crawler. The long form, with daemons and hours: `benches/seam.sh`.

use crate::support::server::{self, Server};
use crate::support::{SECOND, Seed};
use std::fmt::Write;
use std::time::Duration;
use throughline_daemon::SelfMetrics;
use throughline_dashboard_check::{Prometheus, Window};
use throughline_gateway::access::Access;
use throughline_gateway::query;
use throughline_gateway::read::{Limits, OwnHistory};
use throughline_store::Database;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// From a reading until the page shows it.
const LATE_SECONDS: i64 = 15;

/// From the first scrape to the end of the ten minutes.
const OWN_SECONDS: i64 = 240;

/// The history as scrapes of late pages have it, from the first scrape on.
fn scraped(open_metrics: &str, first: i64) -> String {
    let mut text = String::new();
    for line in open_metrics.lines() {
        let sample = (!line.starts_with('#')).then(|| line.rsplit_once(' ')).flatten();
        let Some((rest, time)) = sample else {
            writeln!(text, "{line}").unwrap();
            continue;
        };
        let time = time.parse::<i64>().unwrap() + LATE_SECONDS;
        if time >= first {
            writeln!(text, "{rest} {time}").unwrap();
        }
    }
    text
}

struct Site {
    prometheus: Server,
    stop: CancellationToken,
}

impl Site {
    /// A Prometheus with these samples, and the server that it reads from and that knows of it or does not.
    async fn start(database: &Database, own: &str, read_recent: bool, knows: bool) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let configuration =
            format!("remote_read: [{{ url: 'http://{address}/api/v1/read', read_recent: {read_recent} }}]\n");
        let prometheus = server::with_history_and(own, &configuration).await;
        let (metrics, access) = (SelfMetrics::default(), Access::default());
        let urls = if knows { vec![prometheus.url.clone()] } else { Vec::new() };
        let own = OwnHistory::new(&urls, Duration::from_secs(4 * 3600)).unwrap();
        let server =
            query::Server::reading(&metrics, database.clone(), (Limits::default(), own), &access).unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(server.run(listener, stop.clone()));
        Site { prometheus, stop }
    }

    /// Series of these counters that fall within the ten minutes, and how many there are.
    async fn resets(&self, names: &[String], end: i64) -> (Vec<String>, usize) {
        let (mut fallen, mut all) = (Vec::new(), 0);
        for name in names {
            let series = at(&self.prometheus.api, &format!("resets({name}[11m])"), end).await;
            all += series.len();
            let falls = series.into_iter().filter(|(_, resets)| *resets > 0.0);
            fallen.extend(falls.map(|(labels, _)| format!("{name} {labels}")));
        }
        (fallen, all)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Labels and values of an instant query.
async fn at(api: &Prometheus, expression: &str, time: i64) -> Vec<(String, f64)> {
    let mut window = Window::new(time, time);
    window.step = Duration::from_secs(1);
    let series = api.query_range(expression, &window).await;
    let series = series.unwrap_or_else(|error| panic!("{expression}: {error}"));
    let last = |values: &[(f64, String)]| values.last().and_then(|(_, value)| value.parse().ok());
    series.iter().map(|one| (format!("{:?}", one.metric), last(&one.values).unwrap_or(f64::NAN))).collect()
}

/// Names of all counters of a server.
async fn counters(api: &Prometheus, time: i64) -> Vec<String> {
    let all = "group by (__name__) ({__name__=~\"(infiniband|node|throughline)_.+_total\"})";
    let named = at(api, all, time).await;
    named.iter().filter_map(|(labels, _)| labels.split('"').nth(3).map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_counter_falls_where_scraped_and_stored_samples_meet() {
    let seed = Seed::hours_ago(5);
    let (begin, end) = (seed.window().from, seed.end);
    let first = end - OWN_SECONDS * SECOND;
    let all = seed.open_metrics();
    let own = scraped(&all, first / SECOND);
    let database = seed.store().await;

    // Counters that began anew in the seed did so for everybody.
    let truth = Site { prometheus: server::with_history(&all).await, stop: CancellationToken::new() };
    let names = counters(&truth.prometheus.api, end).await;
    let (true_falls, series) = truth.resets(&names, end).await;
    assert!(names.len() > 50 && series > 200, "{names:?}: {series}");

    // Without knowing of it they fall: this is what the test is for.
    let mixed = Site::start(&database, &own, true, false).await;
    let sent = ["infiniband_switch_port_transmit_data_bytes_total", "throughline_pcie_transmit_bytes_total"];
    let (falls, found) = mixed.resets(&sent.map(str::to_owned), end).await;
    assert!(falls.len() > 5, "{falls:?} of {found}");

    for read_recent in [false, true] {
        let site = Site::start(&database, &own, read_recent, true).await;
        let (falls, found) = site.resets(&names, end).await;
        let new: Vec<_> = falls.iter().filter(|one| !true_falls.contains(one)).collect();
        assert!(new.is_empty(), "read_recent: {read_recent}: {new:?}");
        assert!(found >= series, "read_recent: {read_recent}: {found} of {series}");
        // Both are there: stored samples before, scraped ones behind.
        for (name, time) in [("stored", begin + 50 * SECOND), ("scraped", end)] {
            let recent = "count_over_time(infiniband_switch_port_transmit_data_bytes_total[40s])";
            assert!(!at(&site.prometheus.api, recent, time).await.is_empty(), "{name}, {read_recent}");
        }
    }
}
