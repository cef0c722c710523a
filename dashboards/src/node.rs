//! Node: GPUs and what connects them, NVLink, PCIe and adapter ports over time, and the jobs of one host.

use crate::dashboard::Dashboard;
use crate::link::{self, FABRIC, JOB, LINK, NODE, OVERVIEW, field, to, to_job_of_row};
use crate::node_graph::{LINKS, arcs, edges, nodes};
use crate::overview::event_panel;
use crate::panel::{BYTES_PER_SECOND, COUNT, FieldDisplay, Panel, TEXT};
use crate::ranges::{host_rates, nvlink_rates};
use crate::site::Site;
use crate::sql::{events, job_range, mean};

/// Events of the node, its GPUs and its adapters.
const EVENTS: &str = "e.instance = ${node:sqlstring}
  OR e.gpu_uuid IN (SELECT g.uuid FROM internal.gpu g JOIN internal.node_key n ON n.id = g.node_id WHERE n.name = ${node:sqlstring})
  OR e.ib_guid = ANY (SELECT unnest(n.hca_guids) FROM internal.node n WHERE n.valid_to IS NULL AND n.name = ${node:sqlstring})
  OR e.remote_ib_guid = ANY (SELECT unnest(n.hca_guids) FROM internal.node n WHERE n.valid_to IS NULL AND n.name = ${node:sqlstring})";
/// The chosen GPUs of the node, on rates.
const GPUS: &str = "gpu_id = ANY (ARRAY(SELECT k.id FROM internal.gpu_key k JOIN internal.node_key n ON n.id = k.node_id \
     WHERE n.name = ${node:sqlstring} AND k.uuid = ANY (ARRAY[${gpu:sqlstring}]::text[])))";
/// The menu of NVLink metrics: name, expression over `nvlink_rates`, or a counter of errors.
const RATES: [(&str, &str); 5] = [
    ("rate sent", "transmit_bytes_per_second"),
    ("rate received", "receive_bytes_per_second"),
    ("rate both ways", "transmit_bytes_per_second + receive_bytes_per_second"),
    ("share of speed sent", "transmit_utilisation"),
    ("share of speed received", "receive_utilisation"),
];
const ERRORS: [(&str, &str); 6] = [
    ("replay errors", "replay_errors"),
    ("recovery errors", "recovery_errors"),
    ("CRC errors", "crc_errors"),
    ("symbol errors", "symbol_errors"),
    ("effective errors", "effective_errors"),
    ("FEC corrected blocks errors", "fec_corrected_blocks"),
];

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    let metrics: Vec<&str> = RATES.iter().chain(&ERRORS).map(|(name, _)| *name).collect();
    let dashboard = Dashboard::new(
        site,
        NODE,
        "Throughline: node",
        "GPUs of one host and the links between them, PCIe, adapter ports, and its jobs.",
    )
    .choose("node", "Node", "The host", "SELECT name FROM internal.node WHERE valid_to IS NULL ORDER BY 1")
    .choose_many(
        "gpu",
        "GPU",
        "GPUs whose links are shown",
        "SELECT 'GPU ' || g.index AS __text, g.uuid AS __value
FROM internal.gpu g
JOIN internal.node_key n ON n.id = g.node_id
WHERE g.valid_to IS NULL AND g.parent_gpu_id IS NULL AND n.name = ${node:sqlstring}
ORDER BY g.index",
    )
    .menu("metric", "NVLink metric", "What the chart of NVLinks shows", &metrics)
    .menu(
        "links",
        "Links of the topology",
        "Logical: a line for each pair of ends. Physical: each NVLink by itself",
        &LINKS,
    )
    .events("Events of this node", "orange", true, &events(EVENTS))
    .link(to(OVERVIEW, "Overview", &[]))
    .row(1, "Topology");
    let dashboard = topology(dashboard, site);
    let dashboard = gpu_links(dashboard.row(10, "GPU links"), site);
    let dashboard = ports(dashboard.row(20, "Adapter ports"), site);
    dashboard.row(30, "Jobs and events").panel(jobs()).panel(event_panel(32, EVENTS, 12))
}

fn topology(dashboard: Dashboard, site: &Site) -> Dashboard {
    let unfold = |title: &str, links: &str| to(NODE, title, &[("node", "${node}"), ("links", links)]);
    let gpus = "SELECT count(*) AS \"GPUs\", count(*) FILTER (WHERE g.is_lost) AS \"Lost\", max(g.name) AS \"Model\",
       (SELECT count(*) FROM internal.gpu p WHERE p.valid_to IS NULL AND p.parent_gpu_id IS NOT NULL AND p.node_id = g.node_id) AS \"Partitions\",
       (SELECT count(*) FROM internal.gpu_link l JOIN internal.gpu o ON o.gpu_id = l.gpu_id AND o.valid_to IS NULL
        WHERE l.valid_to IS NULL AND l.active AND o.node_id = g.node_id) AS \"NVLink ends up\",
       (SELECT count(*) FROM internal.gpu_link l JOIN internal.gpu o ON o.gpu_id = l.gpu_id AND o.valid_to IS NULL
        WHERE l.valid_to IS NULL AND NOT l.active AND o.node_id = g.node_id) AS \"Ends down\",
       (SELECT count(*) FROM internal.host_port_key h WHERE h.node_id = g.node_id) AS \"Adapter ports\"
FROM internal.gpu g
JOIN internal.node_key n ON n.id = g.node_id
WHERE g.valid_to IS NULL AND g.parent_gpu_id IS NULL AND n.name = ${node:sqlstring}
GROUP BY g.node_id";
    let logical = "SELECT source || ' ' || source_id AS \"From\", destination AS \"To\", sum(physical_link_count)::bigint AS \"Links\",
       sum(link_capacity)::bigint AS \"Capacity\"
FROM (SELECT t.node_name, t.physical_link_count, t.link_capacity, 'GPU' AS source, t.source_id, t.destination
      FROM public.intra_node_topo t WHERE t.node_name = ${node:sqlstring}) t
GROUP BY source, source_id, destination
ORDER BY source_id, 2";
    dashboard
        .panel(
            Panel::graph(
                2,
                "GPUs, NVSwitches, adapters",
                "A line is a logical NVLink: all physical links of a pair together, coloured by the busiest of them, thicker \
                 with more. 'Physical' in the menu unfolds them. Dashed lines lead over PCIe from each GPU to its nearest \
                 adapters, or from the host where no GPU is near; from there a line leads to the switch. The ring of a circle \
                 has the colour of its busiest link, as the legend has it.",
                (16, 14),
                &nodes(site),
                &edges(site),
            )
            .arcs(&arcs(site), &[("mainstat", "Busiest link"), ("secondarystat", "Sent")])
            .link(unfold("Unfold physical links", "physical"))
            .link(unfold("Fold to logical links", "logical"))
            .link(link::to_page(site, "Node page", "/nodes/${node:percentencode}")),
        )
        .panel(
            Panel::table(3, "GPUs and links", "What the agent of this node has found.", (8, 5))
                .rows(gpus)
                .link(to(OVERVIEW, "Overview", &[])),
        )
        .panel(
            Panel::table(4, "Logical links",
                "Pairs of ends, their physical links, and what these carry together in one direction.", (8, 9))
                .rows(logical)
                .field("Capacity", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
                .link(unfold("Unfold physical links", "physical")),
        )
}

/// The chart of the metric in the menu.
fn by_menu() -> String {
    let rates: String = RATES.iter().map(|(name, column)| format!(" WHEN '{name}' THEN {column}")).collect();
    let errors: String =
        ERRORS.iter().map(|(name, column)| format!(" WHEN '{name}' THEN {column}")).collect();
    format!(
        "WITH rates AS (
  SELECT time, 'GPU ' || gpu_index || ' link ' || lpad(link::text, 2, '0') AS link, interval_seconds,
         CASE ${{metric:sqlstring}}{rates} END AS rate
  FROM {} rates
), busiest AS (
  SELECT link FROM rates GROUP BY link ORDER BY sum(rate * interval_seconds) DESC NULLS LAST, link LIMIT 24
), counted AS (
  SELECT c.time, 'GPU ' || g.index || ' link ' || lpad(c.link::text, 2, '0') AS link, c.value - lag(c.value) OVER w AS errors
  FROM (SELECT time, gpu_id, link, source, epoch, CASE ${{metric:sqlstring}}{errors} END AS value
        FROM public.nvlink_link_readings($__timeFrom(), $__timeTo())
        WHERE {GPUS} AND ${{metric:sqlstring}} LIKE '%errors') c
  JOIN internal.gpu g ON g.gpu_id = c.gpu_id AND (g.valid_to IS NULL OR g.valid_to > c.time)
        AND (g.valid_from <= c.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
  WHERE c.value IS NOT NULL
  WINDOW w AS (PARTITION BY c.gpu_id, c.link, c.source, c.epoch ORDER BY c.time)
)
SELECT $__timeGroupAlias(time, $__interval), link || ' ' || ${{metric:sqlstring}} AS metric, {} AS value
FROM rates
WHERE link IN (SELECT link FROM busiest)
GROUP BY 1, 2
UNION ALL
SELECT $__timeGroupAlias(time, $__interval), link || ' ' || ${{metric:sqlstring}}, sum(errors)::float8
FROM counted
WHERE errors IS NOT NULL
GROUP BY 1, 2
ORDER BY 1, 2",
        nvlink_rates(&format!("{GPUS} AND ${{metric:sqlstring}} NOT LIKE '%errors'")),
        mean("rate"),
    )
}

fn gpu_links(dashboard: Dashboard, site: &Site) -> Dashboard {
    let table = format!(
        "SELECT r.gpu_index AS \"GPU\", r.link AS \"Link\", max(coalesce('GPU ' || o.index || ' link ' || l.remote_link, l.remote_type)) AS \"To\",
       {} AS \"Sent\", {} AS \"Received\", max(r.speed_bytes_per_second) AS \"Link speed\",
       {} AS \"Sending\", {} AS \"Receiving\",
       count(*) FILTER (WHERE r.is_above_speed) AS \"Above its speed\", r.gpu AS \"UUID\"
FROM {} r
LEFT JOIN internal.gpu_link l
  ON l.gpu_id = r.gpu_id AND l.link = r.link AND (l.valid_to IS NULL OR l.valid_to > r.time)
        AND (l.valid_from <= r.time OR NOT EXISTS (
            SELECT FROM internal.gpu_link e WHERE e.gpu_id = l.gpu_id AND e.link = l.link AND e.valid_from < l.valid_from))
LEFT JOIN internal.gpu o
  ON o.gpu_id = l.remote_gpu_id AND (o.valid_to IS NULL OR o.valid_to > r.time)
        AND (o.valid_from <= r.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = o.gpu_id AND e.valid_from < o.valid_from))
GROUP BY r.gpu_index, r.gpu, r.link
ORDER BY 7 DESC NULLS LAST, 1, 2
LIMIT 200",
        mean("r.transmit_bytes_per_second"),
        mean("r.receive_bytes_per_second"),
        mean("r.transmit_utilisation"),
        mean("r.receive_utilisation"),
        nvlink_rates(GPUS),
    );
    let only = vec![to(NODE, "Only this GPU", &[("node", "${node}"), ("gpu", &field("UUID"))])];
    let back = || to(NODE, "All GPUs of this node", &[("node", "${node}")]);
    let dashboard = dashboard
        .panel(
            Panel::series(
                11,
                "NVLinks: ${metric}",

                    "The metric of the menu for each physical NVLink of the chosen GPUs; of rates, the 24 \
                     busiest.",
                (24, 10),
            )
            .over_time(&by_menu())
            .unit(BYTES_PER_SECOND)
            .fields_like("/ share of speed /", &[FieldDisplay::Share])
            .fields_like("/ errors$/", &[FieldDisplay::Unit(COUNT)])
            .link(back())
            .link(link::to_alerts()),
        )
        .panel(
            Panel::table(12, "NVLinks",
                "Mean rate of each physical NVLink in the time range against the link's own speed in one \
                 direction. Above its speed: readings in which more was counted than the link can carry.", (24, 9))
                .rows(&table)
                .field("GPU", &[FieldDisplay::Unit(TEXT), FieldDisplay::Links(only.clone())])
                .field("Link", &[FieldDisplay::Unit(TEXT)])
                .fields_like("/^(Sent|Received|Link speed)$/", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
                .fields_like("/^(Sending|Receiving)$/", &[FieldDisplay::Bar(&site.utilisation)])
                .field("UUID", &[FieldDisplay::Hidden])
                .link(back()),
        )
        .panel(
            Panel::series(13, "PCIe by GPU",
                "Bytes per second that each GPU sends and receives over PCIe, by one source for each GPU.", (12, 9))
                .over_time(&by_gpu("gpu_pcie_rates", &[("transmit_bytes_per_second", "sent"), ("receive_bytes_per_second", "received")], &[]))
                .unit(BYTES_PER_SECOND)
                .link(back()),
        )
        .panel(
            Panel::series(14, "NVLink by GPU (Prometheus)",
                "Bytes per second over all NVLinks of a GPU, from Prometheus.", (12, 9))
                .promql("sum by (gpu) (rate(throughline_nvlink_transmit_bytes_total{gpu=~\"$gpu\"}[$__rate_interval]))", "{{gpu}} sent")
                .promql("sum by (gpu) (rate(throughline_nvlink_receive_bytes_total{gpu=~\"$gpu\"}[$__rate_interval]))", "{{gpu}} received")
                .unit(BYTES_PER_SECOND)
                .link(back()),
        );
    bursts(dashboard)
}

/// What performance monitors of GPUs saw.
fn bursts(dashboard: Dashboard) -> Dashboard {
    let back = || to(NODE, "All GPUs of this node", &[("node", "${node}")]);
    dashboard
        .panel(
            Panel::series(
                15,
                "NVLink bursts by GPU",
                "Bytes per second over all NVLinks of each GPU by its performance monitor: the mean, and the highest rate in \
                 one sample. Only where cupti.enabled is true.",
                (12, 9),
            )
            .over_time(&by_gpu(
                "gpu_pm_rates",
                &[("nvlink_transmit_bytes_per_second", "sent"), ("nvlink_receive_bytes_per_second", "received")],
                &[
                    ("nvlink_transmit_peak_bytes_per_second", "sent, highest sample"),
                    ("nvlink_receive_peak_bytes_per_second", "received, highest sample"),
                ],
            ))
            .unit(BYTES_PER_SECOND)
            .link(back()),
        )
        .panel(
            Panel::series(
                16,
                "PCIe bursts by GPU",
                "Bytes per second that each GPU reads and writes over PCIe by its performance monitor: the mean, and the \
                 highest rate in one sample. Only where cupti.enabled is true.",
                (12, 9),
            )
            .over_time(&by_gpu(
                "gpu_pm_rates",
                &[("pcie_read_bytes_per_second", "read"), ("pcie_write_bytes_per_second", "written")],
                &[
                    ("pcie_read_peak_bytes_per_second", "read, highest sample"),
                    ("pcie_write_peak_bytes_per_second", "written, highest sample"),
                ],
            ))
            .unit(BYTES_PER_SECOND)
            .link(back()),
        )
}

/// Means and highest values of a function of rates for each chosen GPU over time.
fn by_gpu(function: &str, means: &[(&str, &str)], highest: &[(&str, &str)]) -> String {
    let columns: String = means
        .iter()
        .map(|(column, name)| format!(",\n       {} AS \"{name}\"", mean(column)))
        .chain(highest.iter().map(|(column, name)| format!(",\n       max({column}) AS \"{name}\"")))
        .collect();
    format!(
        "SELECT $__timeGroupAlias(time, $__interval), 'GPU ' || gpu_index AS metric{columns}
FROM public.{function}($__timeFrom(), $__timeTo())
WHERE {GPUS}
GROUP BY 1, 2
ORDER BY 1, 2"
    )
}

/// The node's adapter ports, on rates.
const PORTS: &str =
    "host_port_id = ANY (ARRAY(SELECT h.id FROM internal.host_port_key h JOIN internal.node_key n ON n.id = h.node_id
  WHERE n.name = ${node:sqlstring}))";

/// Adapter ports with their rates, errors and neighbours.
fn port_table() -> String {
    format!(
        "WITH rates AS (
  SELECT host_port_id, {} AS sent, {} AS received, {} AS sending, {} AS receiving, max(rate_bytes_per_second) AS speed
  FROM {} rates
  GROUP BY 1
), risen AS (
  SELECT host_port_id, sum(errors) AS errors, sum(waited) AS waited
  FROM (
    SELECT host_port_id, epoch,
           coalesce(max(symbol_error) - min(symbol_error), 0) + coalesce(max(link_downed) - min(link_downed), 0)
             + coalesce(max(port_errors_received) - min(port_errors_received), 0)
             + coalesce(max(port_discards_transmitted) - min(port_discards_transmitted), 0) AS errors,
           max(port_transmit_wait) - min(port_transmit_wait) AS waited
    FROM public.host_port_readings($__timeFrom(), $__timeTo())
    WHERE {PORTS}
    GROUP BY 1, 2
  ) epochs
  GROUP BY 1
)
SELECT h.device || '/' || h.port AS \"Adapter port\", n.remote_description AS \"Switch\", n.remote_port AS \"Switch port\",
       r.sent AS \"Sent\", r.received AS \"Received\", r.speed AS \"Link speed\", r.sending AS \"Sending\",
       r.receiving AS \"Receiving\", e.errors AS \"Errors\", e.waited AS \"Ticks waited\", h.guid AS \"GUID\", h.port AS \"Port\"
FROM internal.host_port_key h
JOIN internal.node_key k ON k.id = h.node_id
LEFT JOIN rates r ON r.host_port_id = h.id
LEFT JOIN risen e ON e.host_port_id = h.id
LEFT JOIN LATERAL internal.fabric_port_of(h.port_guid, h.guid, h.port) f ON true
LEFT JOIN public.ib_port_named n ON n.port_id = f.port_id
WHERE k.name = ${{node:sqlstring}}
ORDER BY 1",
        mean("transmit_bytes_per_second"),
        mean("receive_bytes_per_second"),
        mean("transmit_utilisation"),
        mean("receive_utilisation"),
        host_rates(PORTS),
    )
}

fn ports(dashboard: Dashboard, site: &Site) -> Dashboard {
    let chart = |columns: [(&str, &str); 2]| {
        let columns = columns.map(|(column, name)| format!("{} AS \"{name}\"", mean(column))).join(", ");
        format!(
            "SELECT $__timeGroupAlias(time, $__interval), device || '/' || port AS metric, {columns}
FROM {} rates
GROUP BY 1, 2
ORDER BY 1, 2",
            host_rates(PORTS),
        )
    };
    let table = port_table();
    let of_row = vec![to(LINK, "This link", &[("guid", &field("GUID")), ("port", &field("Port"))])];
    dashboard
        .panel(
            Panel::table(
                21,
                "Adapter ports",
                "The host's own InfiniBand ports by its own counters, and the switch port at the other end. \
                 Errors are symbol errors, links downed, receive errors and discards in the time range.",
                (24, 6),
            )
            .rows(&table)
            .field("Adapter port", &[FieldDisplay::Links(of_row.clone())])
            .field("Switch", &[FieldDisplay::Links(of_row)])
            .field("Switch port", &[FieldDisplay::Unit(TEXT)])
            .fields_like("/^(Sent|Received|Link speed)$/", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
            .fields_like("/^(Sending|Receiving)$/", &[FieldDisplay::Bar(&site.utilisation)])
            .field("Errors", &[FieldDisplay::Coloured(&site.errors)])
            .field("GUID", &[FieldDisplay::Hidden])
            .field("Port", &[FieldDisplay::Unit(TEXT), FieldDisplay::Hidden])
            .link(to(FABRIC, "Fabric", &[])),
        )
        .panel(
            Panel::series(
                22,
                "Utilisation of adapter ports",
                "Share of the port's own speed in each direction.",
                (12, 8),
            )
            .over_time(&chart([("transmit_utilisation", "sent"), ("receive_utilisation", "received")]))
            .share()
            .marks(&site.utilisation)
            .link(to(FABRIC, "Fabric", &[])),
        )
        .panel(
            Panel::series(23, "Bytes of adapter ports", "Bytes per second in each direction.", (12, 8))
                .over_time(&chart([
                    ("transmit_bytes_per_second", "sent"),
                    ("receive_bytes_per_second", "received"),
                ]))
                .unit(BYTES_PER_SECOND)
                .link(to(FABRIC, "Fabric", &[])),
        )
}

fn jobs() -> Panel {
    let sql = format!(
        "SELECT j.key AS \"Job\", coalesce(j.user_name, '?') AS \"User\", sum(r.ranks) AS \"Ranks here\",
       min(r.start_time) AS \"Start\", CASE WHEN bool_and(r.end_time IS NOT NULL) THEN max(r.end_time) END AS \"End\",
       (SELECT s.state FROM public.job_summary s WHERE s.id = j.id) AS \"State\", {}
FROM (
  SELECT job_id, node_id, count(DISTINCT rank) AS ranks, min(start_time) AS start_time,
         CASE WHEN bool_and(end_time IS NOT NULL) THEN max(end_time) END AS end_time
  FROM internal.job_rank WHERE node_id = (SELECT id FROM internal.node_key WHERE name = ${{node:sqlstring}}) GROUP BY job_id, node_id
  UNION ALL
  SELECT p.job_id, p.node_id, p.rank_count, p.began_at, p.ended_at
  FROM internal.job_node_final p JOIN internal.job_final f ON f.job_id = p.job_id AND f.is_released
) r
JOIN internal.run_visible j ON j.id = r.job_id
JOIN internal.node_key n ON n.id = r.node_id
WHERE n.name = ${{node:sqlstring}} AND r.start_time <= $__timeTo() AND coalesce(r.end_time, $__timeTo()) >= $__timeFrom()
GROUP BY j.id, j.key, j.user_name, j.start_time, j.end_time, j.first_seen
ORDER BY 4 DESC
LIMIT 50",
        job_range("j"),
    );
    Panel::table(31, "Jobs of this node", "Jobs with ranks here in the time range, newest first.", (12, 8))
        .rows(&sql)
        .fields_like("/^(from|to)$/", &[FieldDisplay::Hidden])
        .field("Job", &[FieldDisplay::Links(vec![to_job_of_row("Job")])])
        .link(to(JOB, "Job", &[]))
}
