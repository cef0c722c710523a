//! Health: whether everything is read, delivered and stored, and what that costs.

use crate::dashboard::Dashboard;
use crate::link::{self, HEALTH, NODE, OVERVIEW, field, to};
use crate::overview::event_panel;
use crate::panel::{BYTES, COUNT, FieldDisplay, Panel, SECONDS, SHARE};
use crate::site::Site;
use crate::sql::events;

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    let dashboard = Dashboard::new(
        site,
        HEALTH,
        "Throughline: health of the monitoring",
        "Is everything read, delivered and stored? What is missing in the other dashboards has its \
             reason here.",
    )
    .time("now-1h", "30s")
    .events(
        "Sources and counters",
        "orange",
        true,
        &events("e.severity IN ('warning', 'error') AND e.ib_port IS NULL"),
    )
    .link(to(OVERVIEW, "Overview", &[]))
    .row(1, "Now");
    let dashboard = now(dashboard, site);
    let dashboard = sources(dashboard.row(10, "Sources"));
    let dashboard = delivery(dashboard.row(20, "Delivery and database"));
    crawler(dashboard.row(30, "Crawler")).row(40, "Events").panel(event_panel(
        41,
        "e.severity <> 'debug'",
        24,
    ))
}

/// The newest value of an internal metric of each daemon within the time range, as a common table expression.
fn newest(name: &str) -> String {
    format!(
        "newest AS (
  SELECT DISTINCT ON (source, label, instance) source, label, instance, time, value
  FROM public.self_stats
  WHERE $__timeFilter(time) AND name = '{name}'
  ORDER BY source, label, instance, time DESC
)"
    )
}

/// How much a counter of each daemon rises a second; a restarted daemon counts from 0.
fn rate_of(name: &str, by: &str) -> String {
    format!(
        "WITH steps AS (
  SELECT time, {by} AS metric,
         CASE WHEN value >= lag(value) OVER w THEN value - lag(value) OVER w
              WHEN lag(value) OVER w IS NOT NULL THEN value END AS risen
  FROM public.self_stats
  WHERE $__timeFilter(time) AND name = '{name}'
  WINDOW w AS (PARTITION BY source, label, instance ORDER BY time)
)
SELECT $__timeGroupAlias(time, $__interval), metric, sum(risen) / ($__interval_ms / 1000.0) AS value
FROM steps
WHERE risen IS NOT NULL
GROUP BY 1, 2
ORDER BY 1, 2"
    )
}

/// The highest value of an internal metric over time.
fn gauge(name: &str, by: &str) -> String {
    format!(
        "SELECT $__timeGroupAlias(time, $__interval), {by} AS metric, max(value) AS value
FROM public.self_stats
WHERE $__timeFilter(time) AND name = '{name}'
GROUP BY 1, 2
ORDER BY 1, 2"
    )
}

/// Daemons that sent internal metrics in the time range and no more at its end.
const WITHOUT_REPORTS: &str =
    "SELECT count(*) FILTER (WHERE last < $__timeTo()::timestamptz - internal.default_gap()) AS silent
FROM (
  SELECT instance, max(time) AS last
  FROM internal.self_stat_rows WHERE $__timeFilter(time)
  GROUP BY 1) daemons";
/// Records and entries discarded in the time range. Evicted entries cost detail only.
const DISCARDED: &str = "SELECT coalesce(sum(risen), 0) AS discarded
FROM (
  SELECT max(value) - min(value) AS risen
  FROM public.self_stats
  WHERE $__timeFilter(time) AND name IN ('records_discarded', 'entries_discarded') AND label <> 'evicted'
  GROUP BY name, source, label, instance
) daemons";

fn now(dashboard: Dashboard, site: &Site) -> Dashboard {
    let small = |id, title: &str, description: &str, sql: &str| {
        Panel::stat(id, title, description, (4, 4)).rows(sql).link(link::to_alerts())
    };
    let of_newest =
        |metric: &str, value: &str| format!("WITH {}\nSELECT {value} FROM newest", newest(metric));
    let down = of_newest("source_up", "count(*) FILTER (WHERE value = 0) AS down");
    let lag = of_newest("delivery_lag_seconds", "max(value) AS lag");
    let aside = of_newest(
        "entries_rejected",
        "sum(value) FILTER (WHERE label IN ('quarantined', 'collector')) AS batches",
    );
    let size = of_newest("database_bytes", "max(value) AS bytes");
    let about = "Sources that are down by the newest internal metric of their daemon.";
    let dashboard = dashboard.panel(small(2, "Sources that can't be read", about, &down).scale(&site.errors));
    let about = "Daemons that sent internal metrics in the time range and none any more at its end.";
    let dashboard =
        dashboard.panel(small(3, "Daemons without reports", about, WITHOUT_REPORTS).scale(&site.errors));
    let about = "Age of the oldest entry in any spool that waits for the acknowledgement of its commit.";
    let dashboard = dashboard.panel(small(4, "Oldest undelivered entry", about, &lag).unit(SECONDS));
    let about = "Records and entries that daemons discarded in the time range because a limit was reached.";
    let dashboard = dashboard.panel(small(5, "Discarded records", about, DISCARDED).scale(&site.errors));
    let about = "Batches that could not be stored since the collectors began.";
    let dashboard = dashboard.panel(small(6, "Batches in quarantine", about, &aside).scale(&site.errors));
    let about = "Size on disk by the newest metric.";
    dashboard.panel(small(7, "Size of the database", about, &size).unit(BYTES))
}

/// Each source of each daemon with its last round.
const SOURCES: &str = "WITH up AS (
  SELECT DISTINCT ON (source, instance) source, instance, time, value
  FROM public.self_stats
  WHERE $__timeFilter(time) AND name = 'source_up'
  ORDER BY source, instance, time DESC
), covered AS (
  SELECT DISTINCT ON (source, instance) source, internal.instance_name(instance) AS instance, expected, read, failed, elapsed_seconds, reasons
  FROM internal.coverage
  WHERE $__timeFilter(time)
  ORDER BY source, instance, time DESC
)
SELECT u.instance AS \"Daemon\", u.source AS \"Source\", CASE WHEN u.value > 0 THEN 'up' ELSE 'down' END AS \"State\",
       extract(epoch FROM $__timeTo()::timestamptz - u.time)::float8 AS \"Age\",
       c.read::float8 / nullif(c.expected, 0) AS \"Read\", c.failed AS \"Failed\", c.elapsed_seconds AS \"Round\",
       c.reasons::text AS \"Reasons\"
FROM up u
LEFT JOIN covered c ON c.source = u.source AND c.instance = u.instance
ORDER BY u.value, 4 DESC, 1, 2
LIMIT 500";

/// A row stands for several equal rounds, of an old time for those of some minutes: it counts in each minute that it spans.
macro_rules! of_minutes {
    ($value:literal) => {
        concat!(
            "SELECT $__timeGroupAlias(time, $__interval), source AS metric, ",
            $value,
            " AS value
FROM (
  SELECT c.time - n.back * INTERVAL '1 minute' AS time, source, expected, read, elapsed_seconds,
         rounds::float8 / (1 + extract(epoch FROM c.time - coalesce(c.first_time, c.time))::integer / 60) AS rounds
  FROM internal.coverage c
  CROSS JOIN LATERAL generate_series(0, extract(epoch FROM c.time - coalesce(c.first_time, c.time))::integer / 60) n (back)
  WHERE $__timeFilter(c.time)
) c
GROUP BY 1, 2
ORDER BY 1, 2"
        )
    };
}

/// The share of the expected readings that each source made.
const READ: &str = of_minutes!("sum(read * rounds) / nullif(sum(expected * rounds), 0)");

/// The slowest round of each source.
const ROUND: &str = of_minutes!("max(elapsed_seconds)");

fn sources(dashboard: Dashboard) -> Dashboard {
    let to_node = || to(NODE, "Node", &[]);
    dashboard
        .panel(
            Panel::table(
                11,
                "Sources",
                "Each source of each daemon, those that can't be read first: how old its last report is, the share \
                 of its last round that it could read, and why not the rest.",
                (24, 9),
            )
            .rows(SOURCES)
            .field("Daemon", &[FieldDisplay::Links(vec![to(NODE, "This node", &[("node", &field("Daemon"))])])])
            .fields_like("/^(Age|Round)$/", &[FieldDisplay::Unit(SECONDS)])
            .field("Read", &[FieldDisplay::Unit(SHARE)])
            .link(link::to_alerts()),
        )
        .panel(
            Panel::series(
                12,
                "Share that was read",
                "Share of the expected readings that each source made, over all daemons.",
                (12, 8),
            )
            .over_time(READ)
            .unit(SHARE)
            .link(to_node()),
        )
        .panel(
            Panel::series(13, "Longest round", "How long the slowest round of each source took.", (12, 8))
                .over_time(ROUND)
                .unit(SECONDS)
                .link(to_node()),
        )
        .panel(
            Panel::series(
                14,
                "Records by source",
                "Records per second that sources hand on, over all daemons.",
                (12, 8),
            )
            .over_time(&rate_of("records", "source"))
            .unit("cps")
            .link(to_node()),
        )
        .panel(
            Panel::series(15, "Records by source (Prometheus)", "The same from Prometheus.", (12, 8))
                .promql("sum by (source) (rate(throughline_records_total[$__rate_interval]))", "{{source}}")
                .unit("cps")
                .link(link::to_alerts()),
        )
}

fn delivery(dashboard: Dashboard) -> Dashboard {
    let panel = |id, title: &str, description: &str, sql: &str, unit| {
        Panel::series(id, title, description, (8, 7)).over_time(sql).unit(unit).link(link::to_alerts())
    };
    let spools = "SELECT $__timeGroupAlias(time, $__interval), instance AS metric, max(value) AS value
FROM public.self_stats
WHERE $__timeFilter(time) AND name = 'spool_bytes' AND instance IN (
  SELECT instance FROM public.self_stats WHERE $__timeFilter(time) AND name = 'spool_bytes'
  GROUP BY 1 ORDER BY max(value) DESC LIMIT 20)
GROUP BY 1, 2
ORDER BY 1, 2";
    dashboard
        .panel(panel(
            21,
            "Rows written",
            "Rows per second that the collectors commit.",
            &rate_of("rows_written", "instance"),
            "cps",
        ))
        .panel(panel(
            22,
            "Waiting in spools",
            "Bytes in the spools of the 20 daemons with most.",
            spools,
            BYTES,
        ))
        .panel(panel(
            23,
            "Oldest undelivered entry",
            "Highest age of an entry that waits for the acknowledgement of its commit.",
            &gauge("delivery_lag_seconds", "'oldest'::text"),
            SECONDS,
        ))
        .panel(panel(
            24,
            "Time of a transaction",
            "How long the last transaction of each collector took.",
            &gauge("last_commit_seconds", "instance"),
            SECONDS,
        ))
        .panel(panel(
            25,
            "Size of the database",
            "Bytes on disk.",
            &gauge("database_bytes", "'database'::text"),
            BYTES,
        ))
        .panel(panel(
            27,
            "Rollups by the minute",
            "How long ago the last minute ended that has rollups: some three minutes unless many are to be made.",
            &gauge("rollup_lag_seconds", "'behind'::text"),
            SECONDS,
        ))
        .panel(panel(
            28,
            "Shares of links",
            "How long ago the last window of 10 s ended whose contributors of links are known: less than a minute unless many are \
             to be made.",
            &gauge("link_share_lag_seconds", "'behind'::text"),
            SECONDS,
        ))
        .panel(panel(
            26,
            "Error of clocks",
            "Highest estimated error of a node's clock: rows of different nodes are as far apart. Only where NTP or PTP controls the clocks.",
            &gauge("clock_error_seconds", "'highest'::text"),
            SECONDS,
        ))
}

fn crawler(dashboard: Dashboard) -> Dashboard {
    let panel = |id, title: &str, description: &str, sql: &str, unit| {
        Panel::series(id, title, description, (12, 8)).over_time(sql).unit(unit).link(link::to_alerts())
    };
    let terms = "SELECT s.name AS \"Fabric\", t.name AS \"Crawler\", t.began_at AS \"Since\", t.ended_at AS \"Until\",
       t.covered_to AS \"Newest reading\"
FROM internal.crawler_term t
JOIN internal.fabric s ON s.id = t.fabric_id
WHERE coalesce(t.ended_at, 'infinity') >= $__timeFrom() AND t.began_at <= $__timeTo()
ORDER BY t.began_at DESC
LIMIT 50";
    dashboard
        .panel(panel(
            31,
            "Management datagrams",
            "MADs per second that each crawler sends.",
            &rate_of("mads_sent", "instance"),
            "cps",
        ))
        .panel(
            panel(
                32,
                "Unanswered datagrams",
                "MADs per second that got no answer in time.",
                &rate_of("mad_timeouts", "instance"),
                "cps",
            )
            .field("value", &[FieldDisplay::Unit(COUNT)]),
        )
        .panel(
            Panel::table(
                33,
                "Which crawler sweeps",
                "Crawlers that had a fabric in the time range, newest first; at most one has it at any time.",
                (24, 5),
            )
            .rows(terms)
            .link(link::to_alerts()),
        )
}
