//! Link: one cable, both directions, both ends. It is named by one of its ends.

use crate::contributors;
use crate::dashboard::Dashboard;
use crate::fabric::error_table;
use crate::link::{self, FABRIC, JOB, LINK, NODE, SWITCH, field, to, to_job_of_row};
use crate::overview::event_panel;
use crate::panel::{BYTES_PER_SECOND, COUNT, FieldDisplay, Panel};
use crate::ranges::few_port_rates;
use crate::site::Site;
use crate::sql::{PORT, errors_over_time, events, job_range, mean, newest_rates};

/// Events at either end.
const EVENTS: &str = "(e.ib_guid, e.ib_port) IN (SELECT n.guid, n.port FROM public.ib_port_named n WHERE n.guid = ${guid:sqlstring} AND n.port = ${port:sqlstring}::integer
    UNION ALL SELECT n.remote_guid, n.remote_port FROM public.ib_port_named n WHERE n.guid = ${guid:sqlstring} AND n.port = ${port:sqlstring}::integer)
  OR (e.remote_ib_guid = ${guid:sqlstring} AND e.remote_ib_port = ${port:sqlstring}::integer)";

/// Both ends, as an array.
fn both_ends() -> String {
    format!(
        "ANY (ARRAY(SELECT {PORT} UNION ALL SELECT remote_port_id FROM internal.ib_port WHERE valid_to IS NULL AND port_id = {PORT}))"
    )
}

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    let dashboard = Dashboard::new(
        site,
        LINK,
        "Throughline: link",
        "One cable: both directions, waiting and errors at both ends, events, and the jobs at its ends.",
    )
    .choose(
        "guid",
        "End",
        "The switch or adapter at one end",
        "SELECT coalesce(nullif(description, ''), guid) AS __text, guid AS __value
FROM internal.ib_node
WHERE valid_to IS NULL
ORDER BY type DESC, 1",
    )
    .choose(
        "port",
        "Port",
        "Its port",
        "SELECT p.port
FROM internal.ib_port p
JOIN internal.ib_node n ON n.ib_node_id = p.ib_node_id AND n.valid_to IS NULL
WHERE p.valid_to IS NULL AND n.guid = ${guid:sqlstring} AND p.remote_port_id IS NOT NULL
ORDER BY 1",
    )
    .events("Events of this link", "orange", true, &events(EVENTS))
    .link(to(FABRIC, "Fabric", &[]))
    .row(1, "Now");
    let dashboard = now(dashboard, site);
    let whose = contributors::of_link([31, 32, 33], site);
    let dashboard = whose.into_iter().fold(dashboard.row(30, "Whose bytes"), Dashboard::panel);
    let dashboard = over_time(dashboard.row(10, "Over time"), site);
    let both = both_ends();
    dashboard
        .row(20, "Errors, events, jobs")
        .panel(error_table(21, site, &format!("port_id = {both}"), (24, 5)))
        .panel(
            Panel::series(22, "Errors", "Errors in each step of the chart, at both ends together.", (12, 8))
                .over_time(&errors_over_time(&format!("c.port_id = {both}")))
                .unit(COUNT)
                .link(to(SWITCH, "Switch", &[("guid", "${guid}")])),
        )
        .panel(event_panel(23, "e.ib_guid = ${guid:sqlstring} OR e.remote_ib_guid = ${guid:sqlstring}", 12))
        .panel(jobs(site))
}

fn now(dashboard: Dashboard, site: &Site) -> Dashboard {
    let cable = "SELECT n.description || ' [' || n.port || ']' AS \"From\",
       coalesce(n.remote_description || ' [' || n.remote_port || ']', 'nothing') AS \"To\", n.state AS \"State\",
       n.width || ' ' || n.speed AS \"Width and speed\", n.guid AS \"GUID\", n.remote_guid AS \"GUID at the other end\"
FROM public.ib_port_named n
WHERE n.guid = ${guid:sqlstring} AND n.port = ${port:sqlstring}::integer";
    let utilisation = format!(
        "SELECT {} AS sending, {} AS receiving, {} AS waiting
FROM {}
WHERE port_id = {PORT}",
        mean("transmit_utilisation"),
        mean("receive_utilisation"),
        mean("transmit_wait_ratio"),
        newest_rates("ib_port_rates", ("ib_port", "port_id"), "2 minutes"),
    );
    dashboard
        .panel(
            Panel::table(2, "Cable",
                "Both ends, its state, width and speed as the newest discovery found them.", (15, 4))
                .rows(cable)
                .link(link::to_page(site, "On the fabric map", "/fabric?link=${guid}.${port}"))
                .link(to(SWITCH, "Switch", &[("guid", "${guid}")])),
        )
        .panel(
            Panel::stat(
                3,
                "At the end of the time range",
                "Share of its own speed in each direction, and of the time in which it had data and could not send, mean of \
                 the last two minutes.",
                (9, 4),
            )
            .rows(&utilisation)
            .all_fields()
            .share()
            .scale(&site.utilisation)
            .link(link::to_alerts()),
        )
}

/// A rate of this port over time under one name for each column.
fn of_port(columns: &[(&str, &str)]) -> String {
    let columns: String =
        columns.iter().map(|(column, name)| format!(",\n       {} AS \"{name}\"", mean(column))).collect();
    // Packets are not in rows of minutes.
    let rates = match columns.contains("packets") {
        true => {
            format!("(SELECT * FROM public.ib_port_rates($__timeFrom(), $__timeTo()) WHERE port_id = {PORT})")
        }
        false => few_port_rates(&format!("port_id = {PORT}")),
    };
    format!(
        "SELECT $__timeGroupAlias(time, $__interval){columns}
FROM {rates} rates
GROUP BY 1
ORDER BY 1"
    )
}

fn over_time(dashboard: Dashboard, site: &Site) -> Dashboard {
    let to_switch = || to(SWITCH, "Switch", &[("guid", "${guid}")]);
    let waiting = format!(
        "SELECT $__timeGroupAlias(time, $__interval), description || ' [' || port || ']' AS metric, {} AS waiting
FROM {} rates
GROUP BY 1, 2
ORDER BY 1, 2",
        mean("transmit_wait_ratio"),
        few_port_rates(&format!("port_id = {}", both_ends())),
    );
    dashboard
        .panel(
            Panel::series(11, "Utilisation", "Share of the link's own speed in each direction.", (24, 9))
                .over_time(&of_port(&[("transmit_utilisation", "sent"), ("receive_utilisation", "received")]))
                .share()
                .marks(&site.utilisation)
                .link(to_switch())
                .link(link::to_alerts()),
        )
        .panel(
            Panel::series(
                12,
                "Waiting at both ends",
                "Share of the time in which each end had data and could not send. Only where the device \
                     reports the length of its tick.",
                (24, 8),
            )
            .over_time(&waiting)
            .share()
            .marks(&site.waiting)
            .link(to_switch()),
        )
        .panel(
            Panel::series(13, "Bytes", "Bytes per second in each direction.", (12, 8))
                .over_time(&of_port(&[
                    ("transmit_bytes_per_second", "sent"),
                    ("receive_bytes_per_second", "received"),
                ]))
                .unit(BYTES_PER_SECOND)
                .link(to_switch()),
        )
        .panel(
            Panel::series(
                14,
                "Packets",
                "Packets per second in each direction: many and small, or few and large.",
                (12, 8),
            )
            .over_time(&of_port(&[
                ("transmit_packets_per_second", "sent"),
                ("receive_packets_per_second", "received"),
            ]))
            .unit("pps")
            .link(to_switch()),
        )
}

fn jobs(site: &Site) -> Panel {
    let sql = format!(
        "WITH ends AS (
  SELECT guid, port FROM public.ib_port_named WHERE port_id = {PORT}
  UNION ALL SELECT remote_guid, remote_port FROM public.ib_port_named WHERE port_id = {PORT}
)
SELECT j.key AS \"Job\", r.host AS \"Node\", h.device || '/' || h.port AS \"Adapter port\",
       count(DISTINCT r.rank) AS \"Ranks on the node\",
       count(DISTINCT r.rank) FILTER (WHERE h.device || '/' || h.port = ANY (r.hca_ports)) AS \"Known to use the port\",
       min(r.start_time) AS \"Start\", max(r.end_time) AS \"End\", {}
FROM ends e
JOIN internal.node n ON n.valid_to IS NULL AND e.guid = ANY (n.hca_guids)
LEFT JOIN internal.host_port_key h ON h.node_id = n.node_id AND h.guid = e.guid AND h.port = e.port
JOIN internal.job_rank r ON r.node_id = n.node_id AND r.start_time <= $__timeTo()
  AND coalesce(r.end_time, $__timeTo()) >= $__timeFrom()
JOIN internal.run_visible j ON j.id = r.job_id
GROUP BY j.key, j.start_time, j.end_time, j.first_seen, r.host, h.device, h.port
ORDER BY 6 DESC
LIMIT 50",
        job_range("j"),
    );
    Panel::table(
        24,
        "Jobs of the host at its end",
        "Jobs on the host at an end of this cable in the time range, and how many of their ranks are known to use its \
         adapter port. Only where an end is a host: which jobs' routes cross other links is on the fabric map.",
        (24, 7),
    )
    .rows(&sql)
    .field("Job", &[FieldDisplay::Links(vec![to_job_of_row("Job")])])
    .field("Node", &[FieldDisplay::Links(vec![to(NODE, "This node", &[("node", &field("Node"))])])])
    .fields_like("/^(from|to)$/", &[FieldDisplay::Hidden])
    .link(to(JOB, "Job", &[]))
    .link(link::to_page(site, "Routes over it, on the fabric map", "/fabric?link=${guid}.${port}"))
}
