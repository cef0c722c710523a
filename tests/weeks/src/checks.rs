//! Checks: what is known by formula against what the database, the command line and PromQL have. One line each.

use crate::jobs::Rows;
use crate::prometheus::{Prometheus, label};
use crate::truth::{DAY, HOUR, LATE_HOST, Link, Reader};
use std::fmt::Display;
use tokio_postgres::Client;

/// Readings are kept for so long, and minutes; and how much longer a chunk of them may be there.
const READINGS: i64 = 7 * DAY;
const MINUTES: i64 = 365 * DAY;
const CHUNK: i64 = DAY + HOUR;

/// Checks so far.
#[derive(Default)]
pub struct Checks {
    pub passed: u32,
    pub failed: u32,
    /// Prints those that passed, too.
    pub is_quiet: bool,
}

impl Checks {
    /// One check.
    pub fn check(&mut self, name: &str, wanted: impl Display, got: impl Display, is_met: bool) {
        if is_met {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
        if !is_met || !self.is_quiet {
            let verdict = if is_met { "PASS" } else { "FAIL" };
            println!("{verdict}  {name}: wanted {wanted}, got {got}");
        }
    }

    /// Numbers that agree within a share of the wanted one.
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    pub fn near(&mut self, name: &str, wanted: f64, got: f64, share: f64) {
        let off = (got - wanted).abs();
        self.check(
            name,
            format!("{wanted:.0}"),
            format!("{got:.0} ({:+.4} %)", 100.0 * (got / wanted - 1.0)),
            off <= wanted * share + 0.5,
        );
    }

    /// Rows that are equal: how many, and the first that differs.
    pub fn rows(&mut self, name: &str, wanted: &Rows, got: &Rows) {
        let sum = |rows: &Rows| rows.values().map(|row| row.0).sum::<i64>();
        let differs = wanted.iter().find(|(key, row)| got.get(*key) != Some(row));
        let beyond = got.iter().find(|(key, _)| !wanted.contains_key(*key));
        let first = differs.map(|(key, row)| format!("; {key}: wanted {row:?}, got {:?}", got.get(key)));
        let first = first
            .or_else(|| beyond.map(|(key, row)| format!("; {key} is beyond: {row:?}")))
            .unwrap_or_default();
        let text = |rows: &Rows| format!("{} rows, {} in all", rows.len(), sum(rows));
        self.check(name, text(wanted), text(got) + &first, wanted == got);
    }
}

/// Where and when a link is looked at.
pub struct Window<'a> {
    pub links: &'a [Link],
    /// When the world began, seconds since 1970.
    pub began: i64,
    /// In seconds of the world.
    pub from: i64,
    pub to: i64,
    pub now: i64,
    pub spans: &'a [(i64, i64)],
    /// Readings of the late host that are still on their way.
    pub late: &'a [(i64, i64)],
}

impl Window<'_> {
    /// Whether what is known of a link is in the database, from the first second until the second.
    fn is_there(&self, link: &Link, from: i64, to: i64) -> bool {
        let is_late = link.reader == Reader::Host && link.number == LATE_HOST;
        !is_late || self.late.iter().all(|late| late.1 <= from || late.0 >= to)
    }

    fn is_fed(&self, second: i64) -> bool {
        self.spans.iter().any(|(from, to)| (*from..*to).contains(&second))
    }
}

/// Integrals of all links in a window, by readings and by minutes, as far as they are to be there.
pub async fn integrals(checks: &mut Checks, client: &Client, window: &Window<'_>) -> anyhow::Result<()> {
    let age = window.now - window.to;
    let of = |what: &str, link: &Link| {
        format!(
            "{what} of {} from {} to {}, {} old",
            link.name,
            span(window.from),
            span(window.to),
            span(age)
        )
    };
    for (what, keep, exact, queries) in [
        ("readings", READINGS, 1e-9, [RATES, HOST_RATES]),
        ("minutes", MINUTES, 1e-5, [IB_MINUTES, HOST_MINUTES]),
    ] {
        let (since, until) = (window.began + window.from, window.began + window.to);
        let mut found = std::collections::BTreeMap::new();
        if age + window.to - window.from > keep && age <= keep + CHUNK {
            continue; // a chunk may be there or not
        }
        for query in queries {
            for row in client
                .query(&query.replace("$1", &since.to_string()).replace("$2", &until.to_string()), &[])
                .await?
            {
                found.insert(row.get::<_, String>(0), row.get::<_, f64>(1));
            }
        }
        for link in window.links.iter().filter(|link| window.is_there(link, window.from, window.to)) {
            let got = found.get(&label(link)).copied();
            let (wanted, pairs) = link.counted(window.from, window.to, |second| window.is_fed(second));
            if age > keep || pairs == 0 {
                let text = got.map_or("none".to_owned(), |got| format!("{got:.0}"));
                checks.check(&of(what, link), "none", &text, got.is_none_or(|got| got == 0.0));
            } else {
                #[allow(clippy::cast_precision_loss)] // compared within a share
                checks.near(&of(what, link), wanted as f64, got.unwrap_or(0.0), exact);
            }
        }
    }
    Ok(())
}

const RATES: &str = "
    SELECT n.port_guid, sum(r.transmit_bytes_per_second * r.interval_seconds)::float8
    FROM public.ib_port_rates(to_timestamp($1), to_timestamp($2)) r
    JOIN (SELECT k.id, '0x' || lpad(to_hex(('x' || substr(n.guid, 3))::bit(64)::bigint + 1), 16, '0') AS port_guid
          FROM internal.ib_port_key k JOIN internal.ib_node_key n ON n.id = k.ib_node_id) n ON n.id = r.port_id
    GROUP BY 1 HAVING sum(r.transmit_bytes_per_second) IS NOT NULL";
const HOST_RATES: &str = "
    SELECT node_name, sum(transmit_bytes_per_second * interval_seconds)::float8
    FROM public.host_port_rates(to_timestamp($1), to_timestamp($2)) GROUP BY 1 HAVING sum(transmit_bytes_per_second) IS NOT NULL";
const IB_MINUTES: &str = "
    SELECT '0x' || lpad(to_hex(('x' || substr(n.guid, 3))::bit(64)::bigint + 1), 16, '0'),
           sum(m.transmit_bytes_per_second::float8 * m.seconds::float8)
    FROM internal.ib_port_minutes m JOIN internal.ib_port_key k ON k.id = m.port_id JOIN internal.ib_node_key n ON n.id = k.ib_node_id
    WHERE m.time >= to_timestamp($1) AND m.time < to_timestamp($2) GROUP BY 1 HAVING sum(m.transmit_bytes_per_second) IS NOT NULL";
const HOST_MINUTES: &str = "
    SELECT n.name, sum(m.transmit_bytes_per_second::float8 * m.seconds::float8)
    FROM internal.host_port_minutes m JOIN internal.host_port_key k ON k.id = m.host_port_id JOIN internal.node_key n ON n.id = k.node_id
    WHERE m.time >= to_timestamp($1) AND m.time < to_timestamp($2) GROUP BY 1 HAVING sum(m.transmit_bytes_per_second) IS NOT NULL";

/// Ranges of `increase`.
pub const RANGES: [(&str, i64); 9] = [
    ("1h", HOUR),
    ("2h", 2 * HOUR),
    ("6h", 6 * HOUR),
    ("12h", 12 * HOUR),
    ("1d", DAY),
    ("2d", 2 * DAY),
    ("3d", 3 * DAY),
    ("8d", 8 * DAY),
    ("30d", 30 * DAY),
];

/// `increase` at a time of the world by the server's samples against Prometheus' own storage of the same readings; where readings have
/// gone, of the last one of each minute.
pub fn increases(checks: &mut Checks, prometheus: &Prometheus, window: &Window<'_>) -> anyhow::Result<()> {
    let at = window.began + window.to;
    for (range, seconds) in RANGES {
        let oldest = window.now - (window.to - seconds);
        if oldest > MINUTES && window.now - window.to <= MINUTES + CHUNK {
            continue;
        }
        let got = prometheus.remote(at, range, "increase")?;
        let readings = prometheus.own(at, range, "increase", "readings")?;
        let minutes = prometheus.own(at, range, "increase", "minutes")?;
        for link in window.links.iter().filter(|link| window.is_there(link, window.to - seconds, window.to)) {
            let key = label(link);
            let name = format!(
                "increase[{range}] of {} at {}, {} old",
                link.name,
                span(window.to),
                span(window.now - window.to)
            );
            let (got, full) = (got.get(&key).copied(), readings.get(&key).copied());
            // Where only minutes are left, and some readings beside them.
            let coarse = minutes.get(&key).copied().filter(|_| oldest > READINGS);
            let is_gone = window.now - window.to > MINUTES + CHUNK;
            let text = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.0}"));
            let is_near = |other: Option<f64>| match (got, other) {
                (Some(got), Some(other)) => (got - other).abs() <= 0.01 * other,
                (got, other) => got.is_none() && other.is_none(),
            };
            let wanted = if is_gone { None } else { full };
            let is_met =
                if is_gone { got.is_none() } else { is_near(full) || coarse.is_some() && is_near(coarse) };
            let also =
                coarse.filter(|_| !is_gone).map_or(String::new(), |coarse| format!(" (minutes {coarse:.0})"));
            checks.check(&name, text(wanted) + &also, text(got), is_met);
        }
    }
    Ok(())
}

/// The last value of each link's minutes at a time when readings have gone.
pub fn last_values(checks: &mut Checks, prometheus: &Prometheus, window: &Window<'_>) -> anyhow::Result<()> {
    let at = window.began + window.to;
    let (got, wanted) = (
        prometheus.remote(at, "10m", "last_over_time")?,
        prometheus.own(at, "10m", "last_over_time", "minutes")?,
    );
    for link in window.links {
        let key = label(link);
        let text = |value: Option<&f64>| value.map_or("none".to_owned(), |value| format!("{value:.0}"));
        let name = format!(
            "last value of {} at {}, {} old",
            link.name,
            span(window.to),
            span(window.now - window.to)
        );
        checks.check(&name, text(wanted.get(&key)), text(got.get(&key)), wanted.get(&key) == got.get(&key));
    }
    Ok(())
}

/// Rows of a query with a text and two numbers.
pub async fn rows(client: &Client, query: &str, job: &str) -> anyhow::Result<Rows> {
    let rows = client.query(query, &[&job]).await?;
    Ok(rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect())
}

pub const OPERATIONS: &str =
    "SELECT 'rank ' || rank || ' ' || operation, calls::bigint, bytes::bigint FROM public.mpi_op_totals
    WHERE job_key = $1 AND operation = 'allreduce'";
pub const REGIONS: &str = "SELECT 'rank ' || rank || ' ' || region, visits::bigint, mpi_calls::bigint FROM internal.mpi_region_totals
    WHERE job_key = $1 AND region <> ''";
pub const PEERS: &str = "SELECT 'rank ' || rank || ' to rank ' || peer, bytes::bigint, messages::bigint FROM public.mpi_peer_totals WHERE job_key = $1";
pub const TRAFFIC: &str = "SELECT node_name || ' to rank ' || peer, sum(bytes)::bigint, sum(messages)::bigint FROM internal.mpi_traffic_totals
    WHERE job_key = $1 AND direction = 'transmit' GROUP BY 1";

pub const PAIRS: &str = "SELECT p.from_host || ' to ' || p.to_host, p.bytes, p.messages
    FROM internal.run r CROSS JOIN LATERAL internal.job_final_pairs(r.id) p WHERE r.key = $1 AND p.kind = 'logical'";

/// A time for people: days, hours and minutes.
pub fn span(seconds: i64) -> String {
    let (days, rest) = (seconds / DAY, seconds % DAY);
    format!("{days}d{:02}:{:02}", rest / HOUR, rest % HOUR / 60)
}
