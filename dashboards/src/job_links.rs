//! What the links of a job's nodes carried: charts below those of its operations, and totals while it ran.

use crate::contributors;
use crate::dashboard::Dashboard;
use crate::link::{self, FABRIC, LINK, NODE, field, to};
use crate::panel::{BYTES, BYTES_PER_SECOND, FieldDisplay, Panel, SHARE};
use crate::ranges::{host_rates, nvlink_rates, port_rates};
use crate::site::Site;
use crate::sql::{JOB, PORTS_OF_JOB, mean};

/// Series of a chart, the busiest ones.
const SERIES: u32 = 16;

/// The GPUs that ranks of the job use; of nodes where that is not known of one of them, or not any more, all.
fn gpus_of_job() -> String {
    format!(
        "ANY (ARRAY(SELECT g.gpu_id FROM (SELECT DISTINCT node_id FROM internal.job_ranks({JOB})) n
    LEFT JOIN (SELECT node_id, bool_or(gpu_evidence IS NULL) AS is_unknown, array_agg(gpu_id) FILTER (WHERE is_own) AS own
               FROM internal.job_rank_gpus WHERE job_id = {JOB} GROUP BY node_id) r ON r.node_id = n.node_id
    JOIN internal.gpu g ON g.node_id = n.node_id AND g.parent_gpu_id IS NULL
    WHERE r.node_id IS NULL OR r.is_unknown OR g.gpu_id = ANY (r.own)))"
    )
}

/// The adapter ports that ranks of the job use; of nodes where that is not known of one of them, or not any more, all.
fn ports_of_job() -> String {
    format!(
        "ANY (ARRAY(SELECT p.id FROM (SELECT DISTINCT node_id FROM internal.job_ranks({JOB})) n
    LEFT JOIN (SELECT node_id, array_agg(host_port_id) AS own FROM internal.job_rank_ports WHERE job_id = {JOB} GROUP BY node_id) r
        ON r.node_id = n.node_id
    JOIN internal.host_port_key p ON p.node_id = n.node_id
    WHERE r.node_id IS NULL OR p.id = ANY (r.own)))"
    )
}

/// Adds the panels.
pub fn panels(dashboard: Dashboard, site: &Site) -> Dashboard {
    let nvlink = by_busiest(
        &nvlink_rates(&format!("gpu_id = {}", gpus_of_job())),
        "link_name",
        "transmit_bytes_per_second",
    );
    let ports = by_busiest(
        &host_rates(&format!("host_port_id = {}", ports_of_job())),
        "node_name || ' ' || device || '/' || port",
        "transmit_bytes_per_second",
    );
    let of_fabric = format!("port_id = ANY ({PORTS_OF_JOB})");
    let utilisation = by_busiest(&port_rates(&of_fabric), "link_name", "transmit_utilisation");
    let whole = |id, title: &str, description: &str, sql: &str, unit| {
        let panel = Panel::series(id, title, description, (24, 7)).over_time(sql);
        if unit == SHARE { panel.share() } else { panel.unit(unit) }
    };
    dashboard
        .panel(
            whole(
                21,
                "NVLinks of its GPUs",
                "Bytes per second that each physical NVLink of the job's GPUs sends, the 16 busiest.",
                &nvlink,
                BYTES_PER_SECOND,
            )
            .link(to(NODE, "Node", &[])),
        )
        .panel(
            whole(
                22,
                "Its adapter ports",
                "Bytes per second that each adapter port that the job uses sends, by the host's own \
                 counters, the 16 busiest.",
                &ports,
                BYTES_PER_SECOND,
            )
            .link(to(NODE, "Node", &[])),
        )
        .panel(
            whole(
                23,
                "Utilisation of its links into the fabric",
                "Share of its own speed that each adapter port of the job's nodes sends, by the fabric's \
                 counters, the 16 busiest.",
                &utilisation,
                SHARE,
            )
            .marks(&site.utilisation)
            .link(to(LINK, "Link", &[]))
            .link(link::to_page(
                site,
                "The job on the fabric map",
                "/fabric?job=${job:percentencode}",
            )),
        )
        .panel(contributors::of_job(26, site))
        .panel(waiting(site))
        .panel(totals(site))
}

/// One of some rates over time, of the busiest links.
fn by_busiest(rates: &str, name: &str, column: &str) -> String {
    format!(
        "WITH rates AS (
  SELECT time, {name} AS link, interval_seconds, {column} AS rate
  FROM {rates} links
), busiest AS (
  SELECT link FROM rates GROUP BY link ORDER BY sum(rate * interval_seconds) DESC NULLS LAST, link LIMIT {SERIES}
)
SELECT $__timeGroupAlias(time, $__interval), link AS metric, {} AS value
FROM rates
WHERE link IN (SELECT link FROM busiest)
GROUP BY 1, 2
ORDER BY 1, 2",
        mean("rate"),
    )
}

fn waiting(site: &Site) -> Panel {
    let ports = format!(
        "port_id = ANY ({PORTS_OF_JOB}) OR port_id = ANY (ARRAY(SELECT remote_port_id FROM internal.ib_port WHERE valid_to IS NULL AND port_id = ANY ({PORTS_OF_JOB})))"
    );
    let sql = by_busiest(&port_rates(&format!("({ports})")), "link_name", "transmit_wait_ratio");
    Panel::series(
        24,
        "Waiting at its links into the fabric",
        "Share of the time in which the job's adapter ports, and the switch ports that they hang on, had \
             data and could not send.",
        (24, 7),
    )
    .over_time(&sql)
    .share()
    .marks(&site.waiting)
    .link(to(FABRIC, "Fabric", &[]))
}

fn totals(site: &Site) -> Panel {
    let sql = format!(
        "SELECT kind AS \"Kind\", node_name AS \"Node\", link AS \"Link\", direction AS \"Direction\", bytes AS \"Bytes\",
       p95_bytes_per_second AS \"95th percentile\", max_bytes_per_second AS \"Highest\",
       p95_utilisation AS \"95th percentile of speed\", max_utilisation AS \"Highest of speed\"
FROM public.job_links({JOB})
ORDER BY max_utilisation DESC NULLS LAST, bytes DESC
LIMIT 100"
    );
    Panel::table(
        25,
        "Links of its nodes while it ran",
        "Each adapter port, NVLink and fabric port that the job's ranks use (of all of a node where that is not known) between its start and its end, whatever the time range. \
         What else ran on the nodes is in it too.",
        (24, 9),
    )
    .rows(&sql)
    .field("Node", &[FieldDisplay::Links(vec![to(NODE, "This node", &[("node", &field("Node"))])])])
    .field("Bytes", &[FieldDisplay::Unit(BYTES)])
    .fields_like("/^(95th percentile|Highest)$/", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
    .fields_like("/ of speed$/", &[FieldDisplay::Bar(&site.utilisation)])
    .link(to(NODE, "Node", &[]))
}
