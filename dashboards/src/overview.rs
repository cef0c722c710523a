//! Overview: for a screen on the wall.

use crate::dashboard::{Dashboard, map};
use crate::link::{self, FABRIC, HEALTH, JOBS, LINK, NODE, SWITCH, field, of_row_to_link, to, to_job_of_row};
use crate::panel::{BYTES_PER_SECOND, COUNT, FieldDisplay, Panel, SHARE, TEXT};
use crate::ranges::{HotPortMeasure, hottest, port_rates};
use crate::site::Site;
use crate::sql::{RUNNING_JOBS, event_table, events, job_range, mean, newest_rates};

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    let dashboard = Dashboard::new(
        site,
        link::OVERVIEW,
        "Throughline: overview",
        "The fabric, the nodes and the jobs on one page; each number leads to the page that explains it.",
    )
    .events("Warnings and errors", "orange", true, &events("e.severity IN ('warning', 'error')"))
    .row(1, "Now");
    let dashboard = now(dashboard, site);
    let dashboard = jobs_and_nodes(dashboard.row(10, "Jobs and nodes"), site);
    dashboard.row(20, "Events").panel(event_panel(21, "e.severity <> 'debug'", 24))
}

/// A table of events whose rows lead to the link or the job that they are about.
pub fn event_panel(id: u32, condition: &str, width: u32) -> Panel {
    Panel::table(
        id,
        "Events",
        "Events of links, nodes, sources, counters and jobs in the time range, newest first. Only where there are events.",
        (width, 8),
    )
    .rows(&event_table(condition))
    .unit(TEXT)
    .field("Time", &[FieldDisplay::Width(170)])
    .field("What", &[FieldDisplay::Width(420), FieldDisplay::Links(vec![of_row_to_link()])])
    .field("Job", &[FieldDisplay::Links(vec![to_job_of_row("Job")])])
    .fields_like("/^(from|to|GUID)$/", &[FieldDisplay::Hidden])
    .link(to(HEALTH, "Health of the monitoring", &[]))
}

/// How many link directions are over the alert's threshold.
fn saturated() -> String {
    let mean_utilisation = mean("r.transmit_utilisation");
    format!(
        "SELECT count(*) FILTER (WHERE utilisation > 0.90) AS saturated
FROM (
  SELECT {mean_utilisation} AS utilisation
  FROM {}
  GROUP BY r.port_id
) links",
        newest_rates("ib_port_rates", ("ib_port", "port_id"), "3 minutes")
    )
}

fn now(dashboard: Dashboard, site: &Site) -> Dashboard {
    let saturated = saturated();
    let traffic = format!(
        "SELECT $__timeGroupAlias(time, $__interval),
       sum(transmit_bytes_per_second * interval_seconds) / ($__interval_ms / 1000.0) AS traffic
FROM {} rates
GROUP BY 1
ORDER BY 1",
        port_rates("node_type = 'ca'"),
    );
    let small = (4, 4);
    dashboard
        .panel(
            Panel::stat(
                2,
                "Link directions over 90 %",
                "Directions of cables whose mean over the last 3 minutes is over 90 % of their own data rate. 5 minutes \
                 of it fire the alert.",
                small,
            )
            .rows(&saturated)
            .scale(&site.errors)
            .link(to(FABRIC, "Fabric", &[]))
            .link(link::to_alerts()),
        )
        .panel(
            Panel::stat(4, "Traffic into the fabric", "Bytes per second that all ports of hosts send.", (6, 4))
                .over_time(&traffic)
                .step("1m")
                .unit(BYTES_PER_SECOND)
                .link(to(FABRIC, "Fabric", &[])),
        )
        .panel(
            Panel::stat(5, "Switches, adapters, links", "What the newest discovery found.", (5, 4))
                .rows(
                    "SELECT count(*) FILTER (WHERE type = 'switch') AS switches,
       count(*) FILTER (WHERE type = 'ca') AS adapters,
       (SELECT count(*) FROM internal.ib_link WHERE valid_to IS NULL) AS links
FROM internal.ib_node
WHERE valid_to IS NULL",
                )
                .all_fields()
                .unit(COUNT)
                .link(to(FABRIC, "Fabric", &[]))
                .link(map(site)),
        )
        .panel(
            Panel::stat(7, "Jobs running",
                "Jobs with a rank running at the end of the time range, and their ranks.", (5, 4))
                .rows(&format!(
                    "SELECT count(DISTINCT job_id) AS jobs, count(*) AS ranks
FROM internal.job_rank
WHERE job_id = ANY (ARRAY({RUNNING_JOBS})) AND start_time <= $__timeTo() AND coalesce(end_time, 'infinity') > $__timeTo()",
                ))
                .all_fields()
                .link(to(JOBS, "Jobs", &[]))
                .link(link::to_page(site, "Jobs page", "/jobs")),
        )
        .panel(
            Panel::stat(
                3,
                "Ports read in the last sweep",
                "Share of the fabric's ports that the newest sweep could read. A port that was not read has no value, \
                 never 0.",
                small,
            )
            .rows("SELECT sum(read)::float8 / nullif(sum(expected), 0) AS share FROM internal.source_coverage WHERE source = 'mad'")
            .unit(SHARE)
            .link(to(HEALTH, "Health of the monitoring", &[])),
        )
        .panel(hottest_table(6, site, HotPortMeasure::Utilisation, "true", 10))
}

/// The table of the hottest links, whose ends lead to switch and link.
pub fn hottest_table(id: u32, site: &Site, by: HotPortMeasure, condition: &str, count: u32) -> Panel {
    let (title, what, order) = match by {
        HotPortMeasure::Utilisation => {
            ("Hottest links", "the highest mean utilisation of their own data rate", 5)
        }
        HotPortMeasure::Waiting => {
            ("Links that wait most", "the largest share of time with data and no way to send it", 9)
        }
    };
    let sql = format!(
        "WITH {}
SELECT r.description AS \"From\", r.port AS \"Port\", n.remote_description AS \"To\", n.remote_port AS \"To port\",
       {} AS \"Mean utilisation\",
       max(r.peak_utilisation) AS \"Highest utilisation\",
       {} AS \"Mean rate\",
       max(r.rate_bytes_per_second) AS \"Link speed\",
       {} AS \"Waiting\",
       r.guid AS \"GUID\", CASE WHEN r.node_type = 'switch' THEN r.guid ELSE n.remote_guid END AS \"Switch GUID\"
FROM {} r
JOIN public.ib_port_named n ON n.port_id = r.port_id
GROUP BY r.port_id, 1, 2, 3, 4, 10, 11
ORDER BY {order} DESC NULLS LAST
LIMIT {count}",
        hottest(by, condition, count),
        mean("r.transmit_utilisation"),
        mean("r.transmit_bytes_per_second"),
        mean("r.transmit_wait_ratio"),
        port_rates("port_id = ANY (ARRAY(SELECT port_id FROM hottest))"),
    );
    let description = format!(
        "The {count} directions of cables with {what} in the time range. The first end sends. Click it for the link, or the \
         switch beside it."
    );
    let to_switch = to(SWITCH, "This switch", &[("guid", &field("Switch GUID"))]);
    Panel::table(id, title, &description, (24, 9))
        .rows(&sql)
        .field("From", &[FieldDisplay::Links(vec![of_row_to_link(), to_switch.clone()])])
        .field("To", &[FieldDisplay::Links(vec![of_row_to_link(), to_switch])])
        .field("Port", &[FieldDisplay::Unit(TEXT), FieldDisplay::Width(70)])
        .field("To port", &[FieldDisplay::Unit(TEXT), FieldDisplay::Width(80)])
        .field("Mean utilisation", &[FieldDisplay::Bar(&site.utilisation)])
        .field("Highest utilisation", &[FieldDisplay::Bar(&site.utilisation)])
        .field("Mean rate", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
        .field("Link speed", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
        .field("Waiting", &[FieldDisplay::Bar(&site.waiting)])
        .field("GUID", &[FieldDisplay::Hidden])
        .field("Switch GUID", &[FieldDisplay::Hidden])
        .link(to(LINK, "Link", &[]))
        .link(link::to_alerts())
        .link(map(site))
}

fn jobs_and_nodes(dashboard: Dashboard, site: &Site) -> Dashboard {
    let jobs = format!(
        "SELECT j.key AS \"Job\", coalesce(j.user_name, '?') AS \"User\", coalesce(j.name, j.command) AS \"What\",
       count(DISTINCT r.rank) AS \"Ranks\", count(DISTINCT r.host) AS \"Nodes\",
       coalesce(j.start_time, j.first_seen) AS \"Start\", {}
FROM internal.run_visible j
JOIN internal.job_rank r ON r.job_id = j.id
WHERE j.id = ANY (ARRAY({RUNNING_JOBS})) AND r.start_time <= $__timeTo() AND coalesce(r.end_time, 'infinity') > $__timeTo()
GROUP BY j.key, j.user_name, j.name, j.command, j.start_time, j.end_time, j.first_seen
ORDER BY 4 DESC, 6 DESC
LIMIT 20",
        job_range("j"),
    );
    let nodes = format!(
        "WITH nvlink AS (
  SELECT node_name, max(utilisation) AS utilisation, sum(sent) AS sent
  FROM (
    SELECT node_name, link_name, {} AS utilisation, {} AS sent
    FROM {}
    GROUP BY 1, 2
  ) links
  GROUP BY 1
), host AS (
  SELECT node_name, max(utilisation) AS utilisation
  FROM (
    SELECT node_name, host_port_id, {} AS utilisation
    FROM {}
    GROUP BY 1, 2
  ) ports
  GROUP BY 1
)
SELECT n.name AS \"Node\", (SELECT count(*) FROM internal.gpu g WHERE g.node_id = n.node_id AND g.valid_to IS NULL AND g.parent_gpu_id IS NULL) AS \"GPUs\",
       v.utilisation AS \"Busiest NVLink\", v.sent AS \"Sent over NVLink\", h.utilisation AS \"Busiest port\"
FROM internal.node n
LEFT JOIN nvlink v ON v.node_name = n.name
LEFT JOIN host h ON h.node_name = n.name
WHERE n.valid_to IS NULL
ORDER BY greatest(v.utilisation, h.utilisation) DESC NULLS LAST, 1
LIMIT 20",
        mean("transmit_utilisation"),
        mean("transmit_bytes_per_second"),
        newest_rates("nvlink_rates", ("gpu", "gpu_id"), "1 minute"),
        mean("transmit_utilisation"),
        newest_rates("host_port_rates", ("host_port", "host_port_id"), "1 minute"),
    );
    dashboard
        .panel(
            Panel::table(
                11,
                "Running jobs",
                "Jobs with a rank running at the end of the time range, largest first.",
                (12, 9),
            )
            .rows(&jobs)
            .field("Job", &[FieldDisplay::Links(vec![to_job_of_row("Job")])])
            .fields_like("/^(from|to)$/", &[FieldDisplay::Hidden])
            .link(to(JOBS, "All jobs", &[])),
        )
        .panel(
            Panel::table(
                12,
                "Busiest nodes",
                "Nodes by their busiest NVLink or adapter port in the last minute.",
                (12, 9),
            )
            .rows(&nodes)
            .field("Node", &[FieldDisplay::Links(vec![to(NODE, "This node", &[("node", &field("Node"))])])])
            .field("Busiest NVLink", &[FieldDisplay::Bar(&site.utilisation)])
            .field("Busiest port", &[FieldDisplay::Bar(&site.utilisation)])
            .field("Sent over NVLink", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
            .link(to(NODE, "Node", &[]))
            .link(link::to_page(site, "Nodes page", "/nodes")),
        )
}
