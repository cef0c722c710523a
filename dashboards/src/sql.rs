//! Pieces of queries that several panels share. Rates come from the `*_rates` functions: they know epochs, wraps and rows
//! that were left out.

use crate::site::{OVER_FULL, OVER_FULL_TEXT, Scale};

/// The mean over time of a rate: rows stand for `interval_seconds` each.
pub fn mean(column: &str) -> String {
    format!(
        "sum({column} * interval_seconds) / nullif(sum(interval_seconds) FILTER (WHERE {column} IS NOT \
             NULL), 0)"
    )
}

/// A share as text, for panels without units.
pub fn percent_text(share: &str) -> String {
    format!(
        "CASE WHEN {share} >= {OVER_FULL} THEN '{OVER_FULL_TEXT}' ELSE round(coalesce({share}, 0)::numeric * 100, 1) || ' %' END"
    )
}

/// A query by `$__timeGroup` without the steps that are not wholly in the time range. Readings of the last seconds are still
/// on their way to the database, so a range that ends now ends a little earlier.
pub fn whole_steps(sql: &str) -> String {
    let (inner, order) = sql.trim().rsplit_once("\nORDER BY ").unwrap_or((sql.trim(), "1, 2"));
    if !sql.contains("$__timeGroup") {
        return sql.to_owned();
    }
    format!(
        "SELECT *
FROM (
{inner}
) steps
WHERE \"time\" >= $__timeFrom()::timestamptz
  AND \"time\" < public.time_bucket(make_interval(secs => $__interval_ms / 1000.0), least($__timeTo()::timestamptz, now() - {SETTLED}))
ORDER BY {order}"
    )
}

/// How long a reading takes to the database at most while nothing is wrong: a batch of a second, the spool, a transaction.
const SETTLED: &str = "INTERVAL '10 seconds'";

/// Rates at the end of the time range: of the last `window`, and of what is read more rarely as far back as its sender's largest gap, so
/// that its newest row is among them. `kind` is as in `row_rules_of`, `id` the column that it has.
pub fn newest_rates(function: &str, (kind, id): (&str, &str), window: &str) -> String {
    format!(
        "(
    SELECT r.*
    FROM internal.row_gap('{kind}', $__timeTo(), $__timeTo()) w
    CROSS JOIN LATERAL public.{function}($__timeTo()::timestamptz - greatest(INTERVAL '{window}', w.gap), $__timeTo()) r
    JOIN internal.row_rules_of('{kind}', $__timeTo(), $__timeTo()) g ON g.id = r.{id}
    WHERE r.time > $__timeTo()::timestamptz - greatest(INTERVAL '{window}', make_interval(secs => g.largest_gap_seconds))
  ) r"
    )
}

/// Columns `from` and `to` for links to a job's own time, a minute around it: milliseconds, or `now` while it runs. `job` is
/// the alias of a row with `start_time`, `first_seen` and `end_time`.
pub fn job_range(job: &str) -> String {
    format!(
        "(extract(epoch FROM coalesce({job}.start_time, {job}.first_seen) - INTERVAL '1 minute') * 1000)::bigint::text AS \"from\",
       coalesce((extract(epoch FROM {job}.end_time + INTERVAL '1 minute') * 1000)::bigint::text, 'now') AS \"to\""
    )
}

/// The job that is chosen.
pub const JOB: &str = "(SELECT id FROM internal.run_visible WHERE key = ${job:sqlstring})";

/// Jobs that ran at the end of the time range, as a query of their ids. The function knows what running is, and looks at
/// ranks of no job.
pub const RUNNING_JOBS: &str = "SELECT r.id FROM public.jobs_running($__timeTo()) r (id)";

/// Jobs that ran in the time range.
pub const JOBS_IN_RANGE: &str = "SELECT id FROM internal.run_visible
  WHERE coalesce(start_time, first_seen) <= $__timeTo() AND (end_time IS NULL OR end_time >= $__timeFrom())";

/// The fabric port that is chosen.
pub const PORT: &str =
    "(SELECT k.id FROM internal.ib_port_key k JOIN internal.ib_node_key n ON n.id = k.ib_node_id
  WHERE n.guid = ${guid:sqlstring} AND k.port = ${port:sqlstring}::integer)";

/// Fabric ports of the adapters of the job's nodes, as an array: also where it is not known which ports of a node
/// the ranks use.
pub const PORTS_OF_JOB: &str = "ARRAY(SELECT p.id FROM internal.job_ranks((SELECT id FROM internal.run_visible WHERE key = ${job:sqlstring})) r
  JOIN internal.node n ON n.node_id = r.node_id AND n.valid_to IS NULL
  JOIN internal.ib_node_key k ON k.guid = ANY (n.hca_guids)
  JOIN internal.ib_port_key p ON p.ib_node_id = k.id)";

/// The colour of a scale for a number in SQL; NULL where the number is.
pub fn colour(scale: &Scale, number: &str) -> String {
    let steps: String = scale
        .steps()
        .iter()
        .rev()
        .map(|(from, colour)| format!(" WHEN {number} >= {from} THEN '{colour}'"))
        .collect();
    format!("CASE{steps} END")
}

/// The colour of a scale's lowest step: of what stands still, or is not known.
pub fn idle_colour(scale: &Scale) -> &str {
    scale.steps().first().map_or("#8e8e8e", |(_, colour)| colour)
}

/// Error counters of a fabric port: column, and what people call it.
pub const PORT_ERRORS: [(&str, &str); 9] = [
    ("symbol_error", "Symbol errors"),
    ("link_error_recovery", "Recoveries"),
    ("link_downed", "Downed"),
    ("receive_errors", "Receive errors"),
    ("receive_remote_physical_errors", "Remote errors"),
    ("transmit_discards", "Discards"),
    ("local_link_integrity_errors", "Integrity"),
    ("excessive_buffer_overrun_errors", "Overruns"),
    ("vl15_dropped", "VL15 dropped"),
];

/// How much each error counter of a port rose in the time range, as a common table expression `risen` with a column for
/// each of [`PORT_ERRORS`]; `condition` is on `ib_port_readings`.
pub fn risen(condition: &str) -> String {
    let each =
        |make: &dyn Fn(&str) -> String| PORT_ERRORS.map(|(column, _)| make(column)).join(",\n         ");
    let in_epoch = each(&|column| format!("max({column}) - min({column}) AS {column}"));
    let over_epochs = each(&|column| format!("sum({column}) AS {column}"));
    format!(
        "risen AS (
  SELECT port_id,
         {over_epochs}
  FROM (
  SELECT port_id, epoch,
         {in_epoch}
  FROM public.ib_port_readings($__timeFrom(), $__timeTo())
  WHERE {condition}
  GROUP BY port_id, epoch
  ) epochs
  GROUP BY port_id
)"
    )
}

/// The columns of [`risen`] with people's names, and their sum.
pub fn risen_columns() -> (String, String) {
    let named = PORT_ERRORS.map(|(column, name)| format!("{column} AS \"{name}\"")).join(", ");
    let sum = PORT_ERRORS.map(|(column, _)| format!("coalesce({column}, 0)")).join(" + ");
    (named, sum)
}

/// Errors in each step of the chart, one series for each counter that can be read; `condition` is on `ib_port_readings`.
pub fn errors_over_time(condition: &str) -> String {
    let columns = PORT_ERRORS.map(|(column, name)| format!("('{name}', {column})")).join(", ");
    format!(
        "WITH steps AS (
  SELECT c.time, e.metric, e.value - max(e.value) OVER w AS errors
  FROM public.ib_port_readings($__timeFrom(), $__timeTo()) c
  CROSS JOIN LATERAL (VALUES {columns}) e (metric, value)
  WHERE e.value IS NOT NULL AND {condition}
  WINDOW w AS (PARTITION BY c.port_id, c.epoch, e.metric ORDER BY c.time ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT $__timeGroupAlias(time, $__interval), metric, sum(errors) AS errors
FROM steps
WHERE errors IS NOT NULL
GROUP BY 1, 2
ORDER BY 1, 2"
    )
}

/// A query of events for annotations and tables; `condition` is on `events e`.
pub fn events(condition: &str) -> String {
    format!(
        "SELECT e.time, e.kind AS title, e.text, e.severity || ',' || e.source AS tags
FROM internal.events e
WHERE $__timeFilter(e.time) AND ({condition})
ORDER BY e.time DESC
LIMIT 300"
    )
}

/// A table of events with the columns that links need.
pub fn event_table(condition: &str) -> String {
    format!(
        "SELECT e.time AS \"Time\", e.severity AS \"Severity\", e.kind AS \"Kind\", e.text AS \"What\",
       e.before AS \"Before\", e.after AS \"After\", internal.instance_name(e.instance) AS \"Reported by\", e.ib_guid AS \"GUID\",
       e.ib_port::text AS \"Port\", e.job_key AS \"Job\", {}
FROM internal.events e
LEFT JOIN internal.run_visible j ON j.key = e.job_key
WHERE $__timeFilter(e.time) AND ({condition})
ORDER BY e.time DESC
LIMIT 200",
        job_range("j"),
    )
}

/// What each rank's counters of MPI operations rose by from row to row, as a common table expression `cells` with
/// `time`, `rank`, `operation`, `size_class_bytes`, `calls`, `bytes`, `elapsed`. `job` is an expression, `bounds` a
/// condition on `m.time`. A rank that began in the range counts from 0.
pub fn op_cells(job: &str, from: &str, bounds: &str) -> String {
    let rose = |column: &str| {
        format!(
            "public.counter_increase(coalesce(lag(m.{column}) OVER w, CASE WHEN m.epoch >= {from} THEN 0 END), \
                 m.{column}) AS {column}"
        )
    };
    format!(
        "cells AS (
  SELECT m.time, m.operation, m.size_class_bytes,
         {},
         {},
         m.elapsed_seconds - coalesce(lag(m.elapsed_seconds) OVER w, CASE WHEN m.epoch >= {from} THEN 0 END) AS elapsed
  FROM public.mpi_op_series m
  WHERE {bounds} AND m.job_id = {job}
  WINDOW w AS (PARTITION BY m.node_id, m.rank, m.operation, m.size_class_bytes, m.region, m.algorithm, m.epoch
               ORDER BY m.time)
)",
        rose("calls"),
        rose("bytes"),
    )
}

/// The same for the job and the time range that are chosen.
pub fn op_cells_in_range() -> String {
    op_cells(JOB, "$__timeFrom()", "$__timeFilter(m.time)")
}
