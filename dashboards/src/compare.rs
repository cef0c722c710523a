//! Compare: two jobs side by side, each since its own start, whatever the time range.

use crate::dashboard::Dashboard;
use crate::link::{self, COMPARE, JOB, JOBS, to, to_job_of_row};
use crate::panel::{BYTES, BYTES_PER_SECOND, COUNT, FieldDisplay, Panel, SECONDS, SHARE};
use crate::site::Site;
use crate::sql::job_range;

/// Points of a curve over a job's whole time.
const POINTS: u32 = 200;
/// Steps are no shorter than the time from one row of a rank to the next: a row's whole time would be in one of them.
const LEAST_STEP_SECONDS: u32 = 10;

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    let newest = |other: &str| {
        format!(
            "SELECT key FROM internal.run_visible{other} ORDER BY coalesce(start_time, first_seen) DESC, id DESC LIMIT 500"
        )
    };
    let dashboard = Dashboard::new(
        site,
        COMPARE,
        "Throughline: compare two jobs",
        "Two jobs side by side, each since its own start: operations, sizes, time in MPI, links of their \
             nodes.",
    )
    .time("now-24h", "")
    .choose("job_a", "Job A", "The newest 500 jobs", &newest(""))
    .choose("job_b", "Job B", "Another one", &newest(" WHERE key <> ${job_a:sqlstring}"))
    .link(to(JOBS, "Jobs", &[]))
    .row(1, "Both");
    let dashboard = both(dashboard, site);
    let dashboard = curves(dashboard.row(10, "Since their starts"));
    links(operations(dashboard.row(20, "Operations")).row(30, "Links"), site)
}

/// Both jobs with their time, as a common table expression.
const JOBS_AB: &str = "jobs AS (
  SELECT w.which, s.*, coalesce(s.start_time, s.first_seen) AS began, coalesce(s.end_time, now()) AS ended
  FROM (VALUES ('A', ${job_a:sqlstring}), ('B', ${job_b:sqlstring})) w (which, key)
  JOIN public.job_summary s ON s.job_key = w.key
)";

fn to_job() -> Vec<link::Link> {
    vec![to_job_of_row("Job")]
}

fn both(dashboard: Dashboard, site: &Site) -> Dashboard {
    let sql = format!(
        "WITH {JOBS_AB}
SELECT j.which AS \"Which\", j.job_key AS \"Job\", coalesce(j.user_name, '?') AS \"User\", coalesce(j.name, j.command) AS \"What\",
       j.nodes AS \"Nodes\", j.ranks AS \"Ranks\", j.began AS \"Start\", extract(epoch FROM j.ended - j.began)::float8 AS \"Duration\",
       t.seconds / nullif(t.observed, 0) AS \"In MPI\", t.calls AS \"Calls\", t.bytes AS \"Bytes\",
       array_to_string(j.libraries, ', ') AS \"MPI library\", {}
FROM jobs j
LEFT JOIN LATERAL (SELECT sum(elapsed_seconds) AS seconds, sum(observed_seconds) AS observed, sum(calls)::float8 AS calls,
                          sum(bytes)::float8 AS bytes
                   FROM public.mpi_rank_totals WHERE job_id = j.id) t ON true
ORDER BY 1",
        job_range("j"),
    );
    dashboard.panel(
        Panel::table(2, "Both jobs", "Size, length, and what they did in MPI altogether.", (24, 4))
            .rows(&sql)
            .field("Job", &[FieldDisplay::Links(to_job())])
            .field("Duration", &[FieldDisplay::Unit(SECONDS)])
            .field("In MPI", &[FieldDisplay::Unit(SHARE)])
            .field("Bytes", &[FieldDisplay::Unit(BYTES)])
            .fields_like("/^(from|to)$/", &[FieldDisplay::Hidden])
            .link(to(JOB, "Job A", &[("job", "${job_a}")]))
            .link(to(JOB, "Job B", &[("job", "${job_b}")]))
            .link(link::to_page(site, "Job A's page", "/jobs/${job_a:percentencode}"))
            .link(link::to_page(site, "Job B's page", "/jobs/${job_b:percentencode}")),
    )
}

/// A curve of each job over the seconds since its start; both are on one axis, so a step is the same length in both. What a
/// row of a rank adds is spread over as much time as the rank spent in its calls: a call that lasted for minutes ends in one
/// step, and would be more than all of it.
fn curve(value: &str) -> String {
    format!(
        "WITH {JOBS_AB}, step AS (
  SELECT greatest(max(extract(epoch FROM ended - began)) / {POINTS}, {LEAST_STEP_SECONDS})::float8 AS seconds FROM jobs
), cells AS (
  SELECT j.which, j.ranks, m.node_id, m.rank, extract(epoch FROM m.time - j.began)::float8 AS since,
         extract(epoch FROM m.time - m.since)::float8 AS folded, j.end_time IS NOT NULL AS has_ended,
         extract(epoch FROM j.ended - j.began)::float8 AS length,
         public.counter_increase(coalesce(lag(m.bytes) OVER w, 0), m.bytes) AS bytes,
         m.elapsed_seconds - coalesce(lag(m.elapsed_seconds) OVER w, 0) AS elapsed
  FROM jobs j
  CROSS JOIN LATERAL internal.mpi_op_series_between(j.id, j.began, j.ended + INTERVAL '1 minute') m
  WINDOW w AS (PARTITION BY j.which, m.node_id, m.rank, m.operation, m.size_class_bytes, m.region, m.algorithm, m.epoch
               ORDER BY m.time)
), lengths AS (
  SELECT *, greatest(least(coalesce(folded, sum(elapsed) OVER (PARTITION BY which, rank, since)), since), 0.001) AS lasted
  FROM cells
  WHERE since > 0
), steps AS (
  SELECT l.which, l.ranks, step.seconds, l.has_ended, l.length, n.number * step.seconds AS since, l.bytes * part.share AS bytes,
         l.elapsed * part.share AS elapsed
  FROM lengths l
  CROSS JOIN step
  CROSS JOIN LATERAL generate_series(floor((l.since - l.lasted) / step.seconds)::integer,
                                     floor(l.since / step.seconds)::integer) n (number)
  CROSS JOIN LATERAL (SELECT (least(l.since, (n.number + 1) * step.seconds)
                              - greatest(l.since - l.lasted, n.number * step.seconds)) / l.lasted AS share) part
)
SELECT since::float8 AS \"Since start\",
       {} AS \"A\", {} AS \"B\"
FROM steps step
-- The newest step of a running job is not over.
WHERE has_ended OR since < floor(length / step.seconds) * step.seconds
GROUP BY 1, step.seconds
ORDER BY 1",
        value.replace("WHICH", "'A'"),
        value.replace("WHICH", "'B'"),
    )
}

fn curves(dashboard: Dashboard) -> Dashboard {
    let trend = |id, title: &str, description: &str, value: &str, unit| {
        Panel::trend(id, title, description, (12, 9), "Since start")
            .rows(&curve(value))
            .unit(unit)
            .field("Since start", &[FieldDisplay::Unit(SECONDS)])
            .field("A", &[FieldDisplay::Colour("blue")])
            .field("B", &[FieldDisplay::Colour("orange")])
            .link(to(JOB, "Job A", &[("job", "${job_a}")]))
            .link(to(JOB, "Job B", &[("job", "${job_b}")]))
    };
    dashboard
        .panel(trend(
            11,
            "Share of time inside MPI",
            "Mean share of a rank's time inside MPI, by the seconds since each job's start.",
            "sum(elapsed) FILTER (WHERE which = WHICH) / step.seconds / max(ranks) FILTER (WHERE which = \
                 WHICH)",
            SHARE,
        ))
        .panel(trend(
            12,
            "Bytes handed over",
            "Bytes per second that callers passed to send, all ranks, by the seconds since each job's start.",
            "(sum(bytes) FILTER (WHERE which = WHICH) / step.seconds)::float8",
            BYTES_PER_SECOND,
        ))
}

fn operations(dashboard: Dashboard) -> Dashboard {
    let side = |columns: &str, view: &str, keys: &str| {
        format!(
            "WITH {JOBS_AB}, totals AS (
  SELECT j.which, {columns}, sum(t.calls)::float8 AS calls, sum(t.bytes)::float8 AS bytes, sum(t.elapsed_seconds) AS seconds
  FROM jobs j
  CROSS JOIN LATERAL (SELECT * FROM {view} WHERE job_id = j.id) t
  GROUP BY j.which, {columns}
)
SELECT {keys}, sum(calls) FILTER (WHERE which = 'A') AS \"Calls A\", sum(calls) FILTER (WHERE which = 'B') AS \"Calls B\",
       sum(bytes) FILTER (WHERE which = 'A') AS \"Bytes A\", sum(bytes) FILTER (WHERE which = 'B') AS \"Bytes B\",
       sum(seconds) FILTER (WHERE which = 'A') AS \"Time A\", sum(seconds) FILTER (WHERE which = 'B') AS \"Time B\",
       sum(seconds) FILTER (WHERE which = 'B') / nullif(sum(seconds) FILTER (WHERE which = 'A'), 0) - 1 AS \"Time B against A\",
       sum(seconds) FILTER (WHERE which = 'A') / nullif(sum(calls) FILTER (WHERE which = 'A'), 0) AS \"Mean call A\",
       sum(seconds) FILTER (WHERE which = 'B') / nullif(sum(calls) FILTER (WHERE which = 'B'), 0) AS \"Mean call B\"
FROM totals
GROUP BY {columns}
ORDER BY greatest(sum(seconds) FILTER (WHERE which = 'A'), sum(seconds) FILTER (WHERE which = 'B')) DESC NULLS LAST
LIMIT 100",
        )
    };
    let table = |id, title: &str, description: &str, sql: &str| {
        Panel::table(id, title, description, (24, 9))
            .rows(sql)
            .unit(COUNT)
            .fields_like("/^(Bytes .|Up to)$/", &[FieldDisplay::Unit(BYTES)])
            .fields_like("/^(Time .|Mean call .)$/", &[FieldDisplay::Unit(SECONDS)])
            .field("Time B against A", &[FieldDisplay::Unit(SHARE)])
            .link(to(JOB, "Job A", &[("job", "${job_a}")]))
            .link(to(JOB, "Job B", &[("job", "${job_b}")]))
    };
    dashboard
        .panel(table(
            21,
            "Operations",
            "Each operation of either job over all ranks. An empty cell: that job did not call it.",
            &side("operation", "public.mpi_op_totals", "operation AS \"Operation\""),
        ))
        .panel(table(
            22,
            "Operations by size of message",
            "The same by the size of the message, the 100 that took most time in either job.",
            &side(
                "operation, size_class_bytes",
                "internal.mpi_op_cell_totals",
                "operation AS \"Operation\", size_class_bytes AS \"Up to\"",
            ),
        ))
}

fn links(dashboard: Dashboard, site: &Site) -> Dashboard {
    let sql = format!(
        "WITH {JOBS_AB}
SELECT l.kind AS \"Kind\", l.direction AS \"Direction\", count(*) FILTER (WHERE j.which = 'A') AS \"Links A\",
       count(*) FILTER (WHERE j.which = 'B') AS \"Links B\",
       sum(l.bytes) FILTER (WHERE j.which = 'A') AS \"Bytes A\", sum(l.bytes) FILTER (WHERE j.which = 'B') AS \"Bytes B\",
       max(l.p95_utilisation) FILTER (WHERE j.which = 'A') AS \"95th percentile A\",
       max(l.p95_utilisation) FILTER (WHERE j.which = 'B') AS \"95th percentile B\",
       max(l.max_utilisation) FILTER (WHERE j.which = 'A') AS \"Highest A\",
       max(l.max_utilisation) FILTER (WHERE j.which = 'B') AS \"Highest B\"
FROM jobs j
CROSS JOIN LATERAL public.job_links(j.id) l
GROUP BY 1, 2
ORDER BY 1, 2"
    );
    dashboard.panel(
        Panel::table(
            31,
            "Links of their nodes",
            "What adapter ports, NVLinks and fabric ports of each job's nodes carried while it ran, and the busiest of them as \
             a share of its own speed.",
            (24, 8),
        )
        .rows(&sql)
        .fields_like("/^Bytes .$/", &[FieldDisplay::Unit(BYTES)])
        .fields_like("/^(95th percentile|Highest) .$/", &[FieldDisplay::Bar(&site.utilisation)])
        .link(to(JOB, "Job A", &[("job", "${job_a}")]))
        .link(to(JOB, "Job B", &[("job", "${job_b}")])),
    )
}
