//! Job: operations, sizes, ranks, variables of one job, and under them what its nodes' links carried at the same time.

use crate::dashboard::{Dashboard, jobs};
use crate::job_links;
use crate::link::{self, COMPARE, JOB as UID, JOBS, LINK, NODE, field, to, to_job_of_row};
use crate::panel::{BYTES, BYTES_PER_SECOND, COUNT, FieldDisplay, Panel, SECONDS, SHARE, TEXT};
use crate::site::Site;
use crate::sql::{JOB, events, job_range, op_cells_in_range};

/// Ranks that the matrix shows; more are on our own page.
const MATRIX_RANKS: u32 = 64;
/// Events of the job, and of the nodes where it runs.
const EVENTS: &str = "e.job_key = ${job:sqlstring} OR e.severity <> 'debug' AND (
  e.instance IN (SELECT r.host FROM internal.run_visible j CROSS JOIN LATERAL internal.job_ranks(j.id) r WHERE j.key = ${job:sqlstring})
  OR e.ib_guid IN (SELECT unnest(n.hca_guids) FROM internal.run_visible j CROSS JOIN LATERAL internal.job_ranks(j.id) r
                   JOIN internal.node n ON n.node_id = r.node_id AND n.valid_to IS NULL WHERE j.key = ${job:sqlstring})
  OR e.remote_ib_guid IN (SELECT unnest(n.hca_guids) FROM internal.run_visible j CROSS JOIN LATERAL internal.job_ranks(j.id) r
                   JOIN internal.node n ON n.node_id = r.node_id AND n.valid_to IS NULL WHERE j.key = ${job:sqlstring}))";

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    let ends =
        "SELECT coalesce(j.start_time, j.first_seen) AS time, j.end_time AS \"timeEnd\", 'the job' AS title,
       j.key AS text
FROM internal.run_visible j
WHERE j.key = ${job:sqlstring}";
    let dashboard = Dashboard::new(
        site,
        UID,
        "Throughline: job",
        "One job's MPI operations, sizes, ranks and variables, over what the links of its nodes carried \
             at the same time.",
    )
    .choose("job", "Job", "Jobs that ran in the time range, newest first", jobs())
    .choose(
        "variable",
        "MPI variable",
        "What the chart of one variable by rank shows",
        "SELECT DISTINCT name
FROM internal.mpi_pvars
WHERE $__timeFilter(time) AND job_id = (SELECT id FROM internal.run_visible WHERE key = ${job:sqlstring})
ORDER BY 1",
    )
    .menu(
        "kind",
        "Traffic",
        "logical: by the arguments of calls; wire: what the library sent",
        &["logical", "wire"],
    )
    .events("The job", "blue", true, ends)
    .events("Events of the job and its nodes", "orange", true, &events(EVENTS))
    .link(to(JOBS, "Jobs", &[]))
    .row(1, "Summary");
    let dashboard = summary(dashboard, site);
    // Operations and links below one another, as wide as the page, with the same time axis and a shared cross-hair.
    let dashboard = over_time(dashboard.row(10, "Operations and links on one time axis"));
    let dashboard = job_links::panels(dashboard, site);
    let dashboard = sizes(dashboard.row(30, "Operations"));
    let dashboard = ranks(dashboard.row(40, "Ranks"), site);
    variables(dashboard.row(50, "Inside the MPI library"))
}

fn summary(dashboard: Dashboard, site: &Site) -> Dashboard {
    let job = format!(
        "SELECT s.state AS \"State\", s.job_key AS \"Job\",
       s.name AS \"Name\", s.command AS \"Command\", s.user_name AS \"User\", s.nodes AS \"Nodes\", s.ranks AS \"Ranks\",
       coalesce(s.start_time, s.first_seen) AS \"Start\",
       extract(epoch FROM coalesce(s.end_time, now()) - coalesce(s.start_time, s.first_seen))::float8 AS \"Duration\",
       s.ranks_lost + s.ranks_silent AS \"Ranks lost\", {}
FROM public.job_summary s
WHERE s.job_key = ${{job:sqlstring}}",
        job_range("s"),
    );
    let share = format!(
        "SELECT sum(elapsed_seconds) / nullif(sum(observed_seconds), 0) AS \"share of time in MPI\"
FROM public.mpi_rank_totals
WHERE job_id = {JOB}"
    );
    let bytes = format!(
        "SELECT sum(bytes)::float8 AS \"handed over\", sum(received_bytes)::float8 AS received FROM public.mpi_rank_totals WHERE job_id = {JOB}"
    );
    dashboard
        .panel(
            Panel::table(2, "Job",
                "State, names, user, size and length of the job. Click its key to see the dashboard at the job's own time.", (24, 4))
                .rows(&job)
                .field("Job", &[FieldDisplay::Links(vec![to_job_of_row("Job")])])
                .field("Duration", &[FieldDisplay::Unit(SECONDS)])
                .fields_like("/^(from|to)$/", &[FieldDisplay::Hidden])
                .link(link::to_page(site, "Job page", "/jobs/${job:percentencode}"))
                .link(to(JOBS, "Jobs", &[]))
                .link(to(COMPARE, "Compare with another", &[("job_a", "${job}")])),
        )
        .panel(
            Panel::stat(
                3,
                "In MPI",
                "Share of the ranks' time that they spent inside MPI since the job began; 100 % only \
                 communicates.",
                (3, 4),
            )
            .rows(&share)
            .unit(SHARE)
            .link(to(COMPARE, "Compare with another", &[("job_a", "${job}")])),
        )
        .panel(
            Panel::stat(
                4,
                "Bytes",
                "What callers passed to send since the job began, and what receives and collectives gave \
                 them where that is known.",
                (5, 4),
            )
            .rows(&bytes)
            .all_fields()
            .unit(BYTES)
            .link(to(COMPARE, "Compare with another", &[("job_a", "${job}")])),
        )
}

fn over_time(dashboard: Dashboard) -> Dashboard {
    let cells = op_cells_in_range();
    let chart = |value: &str| {
        format!(
            "WITH {cells}
SELECT $__timeGroupAlias(time, $__interval), operation AS metric, {value} AS value
FROM cells
GROUP BY 1, 2
ORDER BY 1, 2"
        )
    };
    let account = format!(
        "WITH sums AS (
  SELECT a.as_of - INTERVAL '1 millisecond' AS time, a.elapsed_seconds - lag(a.elapsed_seconds, 1, a.since) OVER w AS elapsed,
         a.computing_seconds - lag(a.computing_seconds, 1, a.since) OVER w AS computing,
         a.core_wait_seconds - lag(a.core_wait_seconds, 1, a.since) OVER w AS core_wait,
         a.off_processor_seconds - lag(a.off_processor_seconds, 1, a.since) OVER w AS off_processor,
         a.mpi_seconds - lag(a.mpi_seconds, 1, a.since) OVER w AS mpi
  FROM (SELECT *, CASE WHEN epoch >= $__timeFrom() THEN 0.0::float8 END AS since
        FROM public.mpi_node_account WHERE job_id = {JOB} AND $__timeFilter(time)) a
  WINDOW w AS (PARTITION BY a.node_id, a.epoch ORDER BY a.time)
)
SELECT $__timeGroupAlias(time, $__interval), l.line AS metric, sum(greatest(l.seconds, 0)) / nullif(sum(s.elapsed), 0) AS value
FROM sums s
CROSS JOIN LATERAL (VALUES ('Computing', s.computing), ('Waiting for a core', s.core_wait), ('Off the processor', s.off_processor),
                           ('In MPI', s.mpi)) l (line, seconds)
WHERE s.elapsed > 0
GROUP BY 1, 2
ORDER BY 1, 2"
    );
    let compare = || to(COMPARE, "Compare with another", &[("job_a", "${job}")]);
    dashboard
        .panel(
            Panel::series(
                11,
                "Share of time inside MPI",
                "Mean share of a rank's time that it spends inside each operation; 100 % is a job that \
                     only communicates.",
                (24, 8),
            )
            .stacked()
            .over_time(&chart(
                &format!("sum(elapsed) / ($__interval_ms / 1000.0) / (SELECT count(DISTINCT rank) FROM internal.job_ranks({JOB}))"),
            ))
            .unit(SHARE)
            .link(compare()),
        )
        .panel(
            Panel::series(
                14,
                "Where the time went",
                "Parts of the ranks' time, as of each ten seconds. Only where ranks report an account.",
                (24, 8),
            )
            .stacked()
            .over_time(&account)
            .step("10s")
            .unit(SHARE)
            .link(compare()),
        )
        .panel(
            Panel::series(
                12,
                "Bytes by operation",
                "Bytes per second that callers of each operation passed to send, all ranks of the job.",
                (24, 8),
            )
            .over_time(&chart("sum(bytes) / ($__interval_ms / 1000.0)"))
            .unit(BYTES_PER_SECOND)
            .link(compare()),
        )
        .panel(
            Panel::series(13, "Calls by operation", "MPI calls per second of all ranks of the job.", (24, 7))
                .over_time(&chart("sum(calls) / ($__interval_ms / 1000.0)"))
                .unit("ops")
                .link(compare()),
        )
}

fn sizes(dashboard: Dashboard) -> Dashboard {
    let totals = format!(
        "SELECT operation AS \"Operation\", sum(calls)::bigint AS \"Calls\", sum(bytes)::bigint AS \"Bytes\",
       sum(elapsed_seconds) AS \"Time\", sum(elapsed_seconds) / nullif(sum(sum(elapsed_seconds)) OVER (), 0) AS \"Share of MPI time\",
       sum(elapsed_seconds) / nullif(sum(calls), 0) AS \"Mean call\", max(longest_seconds) AS \"Longest call\"
FROM public.mpi_op_totals
WHERE job_id = {JOB}
GROUP BY operation
ORDER BY 4 DESC"
    );
    // One order for both charts: size classes from small to large.
    let by_size = |value: &str| {
        format!(
            "SELECT CASE WHEN size_class_bytes = 0 THEN 'none' ELSE '≤ ' || pg_size_pretty(size_class_bytes) END AS \"Size\",
       operation AS \"Operation\", {value} AS \"Value\"
FROM internal.mpi_op_cell_totals
WHERE job_id = {JOB}
GROUP BY size_class_bytes, operation
ORDER BY size_class_bytes, operation"
        )
    };
    let bars = |id, title: &str, description: &str, value: &str, unit: &str| {
        Panel::bars(id, title, description, (12, 9), "Size\\Operation")
            .rows(&by_size(value))
            .transform(
                "groupingToMatrix",
                serde_json::json!({
                    "rowField": "Size", "columnField": "Operation", "valueField": "Value", "emptyValue": "null",
                }),
            )
            .unit(unit)
            .link(to(COMPARE, "Compare with another", &[("job_a", "${job}")]))
    };
    dashboard
        .panel(bars(31, "Time by size of message",
            "Time of all ranks inside each operation by the size of its message since the job began.", "sum(elapsed_seconds)", SECONDS))
        .panel(bars(32, "Bytes by size of message",
            "Bytes that callers passed to send by the size of the message since the job began.", "sum(bytes)::float8", BYTES))
        .panel(
            Panel::table(33, "Operations of the job",
                "Each operation since the job began, over all ranks: calls, bytes passed to send, time \
                 inside, and the longest single call.", (24, 8))
                .rows(&totals)
                .field("Bytes", &[FieldDisplay::Unit(BYTES)])
                .fields_like("/^(Time|Mean call|Longest call)$/", &[FieldDisplay::Unit(SECONDS)])
                .field("Share of MPI time", &[FieldDisplay::Unit(SHARE)])
                .link(to(COMPARE, "Compare with another", &[("job_a", "${job}")])),
        )
        .panel(
            Panel::table(34, "Size classes, regions, algorithms",
                "Each operation since the job began by the size of its message, the region of the program \
                 and what the library did, the 100 that took most time.", (24, 9))
                .rows(&format!(
                    "SELECT operation AS \"Operation\", size_class_bytes AS \"Up to\", region AS \"Region\", algorithm AS \"Algorithm\",
       algorithm_source AS \"Known by\", sum(calls)::bigint AS \"Calls\", sum(bytes)::bigint AS \"Bytes\",
       sum(elapsed_seconds) AS \"Time\", max(longest_seconds) AS \"Longest call\"
FROM internal.mpi_op_cell_totals
WHERE job_id = {JOB}
GROUP BY 1, 2, 3, 4, 5
ORDER BY 8 DESC
LIMIT 100"
                ))
                .fields_like("/^(Up to|Bytes)$/", &[FieldDisplay::Unit(BYTES)])
                .fields_like("/^(Time|Longest call)$/", &[FieldDisplay::Unit(SECONDS)])
                .link(to(COMPARE, "Compare with another", &[("job_a", "${job}")])),
        )
}

fn ranks(dashboard: Dashboard, site: &Site) -> Dashboard {
    let matrix = |value: &str| {
        format!(
            "WITH pairs AS (
  SELECT rank, peer, {value} AS value
  FROM public.mpi_peer_totals
  WHERE job_id = {JOB} AND kind = ${{kind:sqlstring}} AND rank < {MATRIX_RANKS} AND peer < {MATRIX_RANKS}
), ranks AS (
  SELECT generate_series(0, (SELECT max(greatest(rank, peer)) FROM pairs)) AS rank
)
SELECT s.rank::text AS \"From\", d.rank::text AS \"To\", p.value AS \"Traffic\"
FROM ranks s CROSS JOIN ranks d
LEFT JOIN pairs p ON p.rank = s.rank AND p.peer = d.rank
ORDER BY s.rank, d.rank"
        )
    };
    // Two panels, because a panel has one unit.
    let of_ranks = |id, measure: &str, unit: &str| {
        let page = format!("/jobs/${{job:percentencode}}?kind=${{kind}}&measure={measure}");
        Panel::table(
            id,
            &format!("From rank to rank: {measure}"),
            "Rows send, columns receive, since the job began. Logical: by the calls' arguments (a collective counts its \
             send buffer to each other member). Wire: messages that the library sent. The first 64 ranks; the job page has all.",
            (12, 12),
        )
        .rows(&matrix(measure))
        .matrix("From", "To", "Traffic")
        .unit(unit)
        .link(link::to_page(site, "All ranks, on the job page", &page))
        .link(to(JOBS, "Jobs", &[]))
    };
    let table = format!(
        "SELECT r.rank AS \"Rank\", r.host AS \"Node\", t.elapsed_seconds / nullif(t.observed_seconds, 0) AS \"In MPI\",
       t.calls AS \"Calls\", t.bytes AS \"Bytes\", coalesce(r.ending, 'running') AS \"State\", r.cpus AS \"CPUs\",
       (SELECT string_agg(coalesce('GPU ' || w.index || ' partition ', 'GPU ') || g.index, ', ' ORDER BY coalesce(w.index, g.index), g.index)
        FROM unnest(r.gpu_uuids) u (uuid)
        CROSS JOIN LATERAL (SELECT i.index, i.parent_gpu_id FROM internal.gpu i JOIN internal.gpu_key k ON k.id = i.gpu_id
                            WHERE k.uuid = u.uuid AND k.node_id = r.node_id AND i.valid_from <= coalesce(r.end_time, now())
                            ORDER BY i.valid_from DESC LIMIT 1) g
        LEFT JOIN LATERAL (SELECT i.index FROM internal.gpu i WHERE i.gpu_id = g.parent_gpu_id AND i.valid_from <= coalesce(r.end_time, now())
                           ORDER BY i.valid_from DESC LIMIT 1) w ON true) AS \"GPUs\",
       array_to_string(r.hca_ports, ', ') AS \"Adapter ports\", p.guid AS \"GUID\", p.port::text AS \"Port\"
FROM (SELECT DISTINCT ON (rank) * FROM internal.job_ranks({JOB}) ORDER BY rank, start_time DESC) r
LEFT JOIN public.mpi_rank_totals t ON t.job_id = r.job_id AND t.rank = r.rank AND t.job_id = {JOB}
LEFT JOIN LATERAL (SELECT guid, port FROM internal.job_rank_ports p WHERE p.job_id = r.job_id AND p.rank = r.rank AND p.start_time = r.start_time
                   ORDER BY p.device, p.port LIMIT 1) p ON true
ORDER BY r.rank
LIMIT 500"
    );
    let account = format!(
        "SELECT rank AS \"Rank\", host AS \"Node\", computing_seconds / nullif(elapsed_seconds, 0) AS \"Computing\",
       core_wait_seconds / nullif(elapsed_seconds, 0) AS \"Waiting for a core\",
       off_processor_seconds / nullif(elapsed_seconds, 0) AS \"Off the processor\", mpi_seconds / nullif(elapsed_seconds, 0) AS \"In MPI\",
       elapsed_seconds AS \"Time\", time AS \"As of\"
FROM public.mpi_rank_account
WHERE job_id = {JOB}
ORDER BY computing_seconds / nullif(elapsed_seconds, 0), rank
LIMIT 500"
    );
    dashboard
        .panel(
            Panel::table(
                45,
                "Where the time of its ranks went",
                "Parts of each rank's time since MPI_Init, those that compute least first; the four add up to all of it. The job page has \
                 what of the time in MPI was waiting.",
                (24, 8),
            )
            .rows(&account)
            .field("Rank", &[FieldDisplay::Unit(TEXT)])
            .field("Node", &[FieldDisplay::Links(vec![to(NODE, "This node", &[("node", &field("Node"))])])])
            .fields_like("/^(Computing|Waiting for a core|Off the processor|In MPI)$/", &[FieldDisplay::Unit(SHARE)])
            .field("Time", &[FieldDisplay::Unit(SECONDS)])
            .link(link::to_page(site, "Job page", "/jobs/${job:percentencode}")),
        )
        .panel(of_ranks(41, "bytes", BYTES))
        .panel(of_ranks(44, "messages", COUNT))
        .panel(
            Panel::table(42, "Ranks",
                "Where each rank runs, and what it did in MPI since it began.", (24, 10))
                .rows(&table)
                .field("Rank", &[FieldDisplay::Unit(TEXT)])
                .field("Node", &[FieldDisplay::Links(vec![to(NODE, "This node", &[("node", &field("Node"))])])])
                .field("Adapter ports", &[FieldDisplay::Links(vec![to(LINK, "This link", &[("guid", &field("GUID")), ("port", &field("Port"))])])])
                .field("In MPI", &[FieldDisplay::Unit(SHARE)])
                .field("Bytes", &[FieldDisplay::Unit(BYTES)])
                .field("GUID", &[FieldDisplay::Hidden])
                .field("Port", &[FieldDisplay::Hidden])
                .link(to(NODE, "Node", &[])),
        )
        .panel(
            Panel::table(43, "Regions of the program",
                "Annotated regions since the job began over all ranks: visits, time in them, and the part of \
                 it inside MPI. Only where a program names regions.", (24, 6))
                .rows(&format!(
                    "SELECT region AS \"Region\", count(DISTINCT rank) AS \"Ranks\", sum(visits)::bigint AS \"Visits\",
       sum(elapsed_seconds) AS \"Time\", sum(mpi_seconds) AS \"In MPI\",
       sum(mpi_seconds) / nullif(sum(elapsed_seconds), 0) AS \"Share in MPI\"
FROM internal.mpi_region_totals
WHERE job_id = {JOB}
GROUP BY region
ORDER BY 4 DESC
LIMIT 100"
                ))
                .fields_like("/^(Time|In MPI)$/", &[FieldDisplay::Unit(SECONDS)])
                .field("Share in MPI", &[FieldDisplay::Unit(SHARE)])
                .link(to(COMPARE, "Compare with another", &[("job_a", "${job}")])),
        )
}

/// Each MPI_T variable, highest of all ranks.
const VARIABLES: &str = "SELECT $__timeGroupAlias(time, $__interval), name AS metric, max(value) AS value
FROM internal.mpi_pvars
WHERE $__timeFilter(time) AND job_id = (SELECT id FROM internal.run_visible WHERE key = ${job:sqlstring})
GROUP BY 1, 2
ORDER BY 1, 2";

/// The newest value of each variable in each rank.
const VARIABLES_BY_RANK: &str = "WITH newest AS (
  SELECT DISTINCT ON (rank, name, element) rank, name, element, variable_class, value
  FROM internal.mpi_pvars
  WHERE $__timeFilter(time) AND job_id = (SELECT id FROM internal.run_visible WHERE key = ${job:sqlstring})
  ORDER BY rank, name, element, time DESC
)
SELECT rank AS \"Rank\", name AS \"Variable\", variable_class AS \"Class\", sum(value) AS \"Sum\", max(value) AS \"Highest\"
FROM newest
GROUP BY rank, name, variable_class
ORDER BY 2, 1
LIMIT 500";

/// The variable of the menu in each rank.
const ONE_VARIABLE: &str = "WITH readings AS (
  SELECT time, rank, element, value
  FROM internal.mpi_pvars
  WHERE $__timeFilter(time) AND job_id = (SELECT id FROM internal.run_visible WHERE key = ${job:sqlstring}) AND name = ${variable:sqlstring}
), highest AS (
  SELECT rank FROM readings GROUP BY rank ORDER BY max(value) DESC, rank LIMIT 32
)
SELECT $__timeGroupAlias(time, $__interval), 'rank ' || rank AS metric, max(value) AS value
FROM readings
WHERE rank IN (SELECT rank FROM highest)
GROUP BY 1, 2
ORDER BY 1, 2";

fn variables(dashboard: Dashboard) -> Dashboard {
    let settings = format!(
        "SELECT name AS \"Setting\", string_agg(DISTINCT value, ' | ') AS \"Values\", count(*) > 1 AS \"Ranks differ\"
FROM internal.job_setting
WHERE job_id = {JOB}
GROUP BY name
ORDER BY 1
LIMIT 200"
    );
    let jobs = || to(JOBS, "Jobs", &[]);
    dashboard
        .panel(
            Panel::series(
                51,
                "MPI performance variables",
                "MPI_T variables that the MPI library offers, highest value of all ranks and elements (for \
                 queue lengths an element is a peer).",
                (24, 8),
            )
            .over_time(VARIABLES)
            .unit(COUNT)
            .link(jobs()),
        )
        .panel(
            Panel::series(
                54,
                "${variable} by rank",
                "The variable of the menu in each rank, highest of its elements, for the 32 ranks with the \
                 highest values.",
                (24, 8),
            )
            .over_time(ONE_VARIABLE)
            .unit(COUNT)
            .link(jobs()),
        )
        .panel(
            Panel::table(
                52,
                "MPI performance variables by rank",
                "Newest value of each variable in each rank: the sum and the highest of its elements.",
                (12, 9),
            )
            .rows(VARIABLES_BY_RANK)
            .field("Rank", &[FieldDisplay::Unit(TEXT)])
            .link(jobs()),
        )
        .panel(
            Panel::table(
                53,
                "Settings of the MPI library",
                "Control variables that decide algorithms, and whether all ranks have the same. Only where the \
                 library reports them.",
                (12, 9),
            )
            .rows(&settings)
            .link(to(COMPARE, "Compare with another", &[("job_a", "${job}")])),
        )
}
