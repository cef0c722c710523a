//! Jobs: those that run and those that ended in the time range.

use crate::dashboard::Dashboard;
use crate::link::{self, COMPARE, JOB, JOBS, OVERVIEW, field, to, to_job_of_row};
use crate::panel::{BYTES_PER_SECOND, COUNT, FieldDisplay, Panel, SECONDS};
use crate::site::Site;
use crate::sql::{JOBS_IN_RANGE, RUNNING_JOBS, events, job_range};

/// How many jobs and ranks ran at each moment.
fn running() -> String {
    format!(
        "WITH steps AS (
  SELECT generate_series($__timeFrom()::timestamptz, $__timeTo()::timestamptz, make_interval(secs => $__interval_ms / 1000.0)) AS time
)
SELECT s.time, count(DISTINCT r.job_id) AS jobs, coalesce(sum(r.ranks), 0) AS ranks
FROM steps s
LEFT JOIN (
  SELECT job_id, start_time, end_time, 1 AS ranks FROM internal.job_rank WHERE job_id = ANY (ARRAY({JOBS_IN_RANGE}))
  UNION ALL
  SELECT job_id, began_at, ended_at, ranks FROM internal.job_final WHERE is_released AND job_id = ANY (ARRAY({JOBS_IN_RANGE}))
) r ON r.start_time <= s.time AND coalesce(r.end_time, 'infinity') > s.time
GROUP BY 1
ORDER BY 1"
    )
}

/// Jobs and lost ranks of the time range.
fn counts() -> String {
    format!(
        "SELECT (SELECT count(*) FROM public.jobs_running($__timeTo())) AS running,
       count(DISTINCT job_id) AS \"in the time range\",
       coalesce(sum(lost), 0) AS \"ranks lost\"
FROM (
  SELECT job_id, start_time, end_time, (ending IN ('lost', 'silent'))::integer AS lost FROM internal.job_rank
  UNION ALL
  SELECT job_id, began_at, ended_at, lost + silent FROM internal.job_final WHERE is_released
) r
WHERE job_id = ANY (ARRAY({JOBS_IN_RANGE})) AND start_time <= $__timeTo()
  AND coalesce(end_time, 'infinity') >= $__timeFrom()"
    )
}

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    Dashboard::new(site, JOBS, "Throughline: jobs", "Jobs that run, and jobs that ran in the time range.")
        .time("now-6h", "30s")
        .events("Lost ranks and jobs", "orange", true, &events("e.job_key IS NOT NULL AND e.severity <> 'debug'"))
        .link(to(OVERVIEW, "Overview", &[]))
        .link(to(COMPARE, "Compare two jobs", &[]))
        .row(1, "Now")
        .panel(
            Panel::stat(
                2,
                "Jobs",
                "Jobs that run at the end of the time range, jobs that ran in it, and ranks of them that ended without \
                 MPI_Finalize or with their node.",
                (8, 5),
            )
            .rows(&counts())
            .all_fields()
            .unit(COUNT)
            .link(link::to_page(site, "Jobs page", "/jobs")),
        )
        .panel(
            Panel::series(3, "Jobs and ranks running",
                "How many jobs ran at each moment, and how many ranks they had.", (16, 5))
                .over_time(&running())
                .points(200)
                .field("ranks", &[FieldDisplay::Unit(COUNT)])
                .link(to(OVERVIEW, "Overview", &[])),
        )
        .row(10, "Running")
        .panel(table(
            11,
            "Running jobs",
            "Jobs with a rank running at the end of the time range, newest first.",
            &format!("{RUNNING_JOBS}\n  ORDER BY r.id DESC LIMIT 200"),
        ))
        .row(20, "Ended")
        .panel(table(
            21,
            "Jobs that ended",
            "Jobs that ended in the time range, newest first.",
            "SELECT id FROM internal.run_visible WHERE end_time <= $__timeTo() AND end_time >= $__timeFrom()\n  ORDER BY end_time DESC LIMIT 200",
        ))
        .row(30, "All together")
        .panel(
            Panel::series(
                31,
                "MPI bytes by operation (Prometheus)",
                "Bytes per second that callers passed to send, all ranks of all nodes, from Prometheus.",
                (24, 9),
            )
            .promql(
                "sum by (operation) (rate(throughline_mpi_bytes_total[$__rate_interval]))", "{{operation}}")
            .unit(BYTES_PER_SECOND)
            .link(to(JOB, "Job", &[])),
        )
}

fn table(id: u32, title: &str, description: &str, ids: &str) -> Panel {
    // `job_summary` counts the ranks of each job that the query names.
    let sql = format!(
        "SELECT s.job_key AS \"Job\", s.state AS \"State\", coalesce(s.user_name, '?') AS \"User\", coalesce(s.name, s.command) AS \"What\",
       coalesce(s.queue, '') AS \"Queue\", s.nodes AS \"Nodes\", s.ranks AS \"Ranks\",
       coalesce(s.start_time, s.first_seen) AS \"Start\", s.end_time AS \"End\",
       extract(epoch FROM least(coalesce(s.end_time, $__timeTo()), $__timeTo()) - coalesce(s.start_time, s.first_seen))::float8 AS \"Duration\",
       s.ranks_lost + s.ranks_silent AS \"Ranks lost\", array_to_string(s.libraries, ', ') AS \"MPI library\", {}
FROM public.job_summary s
WHERE s.id = ANY (ARRAY({ids}))
ORDER BY 8 DESC
LIMIT 200",
        job_range("s"),
    );
    Panel::table(id, title, description, (24, 10))
        .rows(&sql)
        .field(
            "Job",
            &[
                FieldDisplay::Width(240),
                FieldDisplay::Links(vec![
                    to_job_of_row("Job"),
                    to(COMPARE, "Compare with another", &[("job_a", &field("Job"))]),
                ]),
            ],
        )
        .field("Duration", &[FieldDisplay::Unit(SECONDS)])
        .fields_like("/^(from|to)$/", &[FieldDisplay::Hidden])
        .link(to(JOB, "Job", &[]))
        .link(to(COMPARE, "Compare two jobs", &[]))
}
