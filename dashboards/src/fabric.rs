//! Fabric: where traffic, waiting and errors are in the whole subnet, and over time.

use crate::dashboard::{Dashboard, map, switches};
use crate::link::{self, FABRIC, HEALTH, LINK, SWITCH, field, of_row_to_link, to};
use crate::overview::{event_panel, hottest_table};
use crate::panel::{BYTES_PER_SECOND, COUNT, FieldDisplay, Panel, TEXT};
use crate::ranges::{HotPortMeasure, hottest, port_rates};
use crate::site::Site;
use crate::sql::{errors_over_time, events, mean, risen, risen_columns};

/// Links that a chart shows as lines: more can't be distinguished.
const LINES: u32 = 10;
/// Links that the history shows, each in a row as high as its name.
const HISTORY_LINKS: u32 = 30;
/// Ports of the chosen switches, or at the other end of their cables.
const CHOSEN: &str = "(n.guid = ANY (ARRAY[${switch:sqlstring}]::text[]) OR n.remote_guid = ANY (ARRAY[${switch:sqlstring}]::text[]))";
/// The same on `ib_port_readings`.
const CHOSEN_COUNTERS: &str = "port_id = ANY (ARRAY(SELECT n.port_id FROM public.ib_port_named n
  WHERE n.guid = ANY (ARRAY[${switch:sqlstring}]::text[]) OR n.remote_guid = ANY (ARRAY[${switch:sqlstring}]::text[])))";

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    let dashboard = Dashboard::new(
        site,
        FABRIC,
        "Throughline: fabric",
        "Hottest links by utilisation and by waiting, errors, events, and how busy all links were over time.",
    )
    .choose_many("switch", "Switch", "Links that begin or end at these switches", switches())
    .events(
        "Events of the fabric",
        "orange",
        true,
        &events("e.severity <> 'debug' AND e.ib_guid IS NOT NULL"),
    )
    .events("Jobs begin and end", "blue", false, JOB_ENDS)
    .row(1, "Hottest")
    .panel(hottest_table(2, site, HotPortMeasure::Utilisation, CHOSEN, 20))
    .panel(hottest_table(3, site, HotPortMeasure::Waiting, CHOSEN, 10));
    let dashboard = over_time(dashboard.row(10, "Over time"), site);
    let dashboard = by_switch(dashboard.row(20, "Switches"), site);
    let dashboard = errors(dashboard.row(30, "Errors"), site);
    dashboard.row(40, "Events").panel(event_panel(41, "e.ib_guid IS NOT NULL OR e.source = 'mad'", 24))
}

/// Jobs as ranges.
const JOB_ENDS: &str = "SELECT coalesce(j.start_time, j.first_seen) AS time, j.end_time AS \"timeEnd\", j.key AS text
FROM internal.run_visible j
WHERE coalesce(j.start_time, j.first_seen) <= $__timeTo() AND coalesce(j.end_time, $__timeTo()) >= $__timeFrom()
ORDER BY 1 DESC
LIMIT 100";

/// A chart of one rate of the ports that rank highest.
fn of_hottest(by: HotPortMeasure, column: &str, count: u32) -> String {
    format!(
        "WITH {}
SELECT $__timeGroupAlias(time, $__interval), link_name AS metric, {} AS value
FROM {} rates
GROUP BY 1, 2
ORDER BY 1, 2",
        hottest(by, CHOSEN, count),
        mean(column),
        port_rates("port_id = ANY (ARRAY(SELECT port_id FROM hottest))"),
    )
}

/// How many link directions are in each step of the scale of utilisation but the lowest, a column for each.
fn busy(classes: &[(String, f64, f64, &str)]) -> String {
    let columns: String = classes
        .iter()
        .map(|(name, from, until, _)| {
            format!(
                ",\n       count(*) FILTER (WHERE utilisation >= {from} AND utilisation < {until}) AS \"{name}\""
            )
        })
        .collect();
    format!(
        "SELECT \"time\"{columns}
FROM (
  SELECT $__timeGroupAlias(r.time, $__interval), r.port_id, {} AS utilisation
  FROM {} r
  GROUP BY 1, 2
) ports
GROUP BY 1
ORDER BY 1",
        mean("r.transmit_utilisation"),
        port_rates(&format!(
            "port_id = ANY (ARRAY(SELECT n.port_id FROM public.ib_port_named n WHERE {CHOSEN}))"
        )),
    )
}

/// Directions by how busy they are, over time: few busy ones stay visible beside thousands that are idle, which are left out.
fn histogram(site: &Site) -> Panel {
    let classes = site.utilisation.classes();
    let panel = Panel::series(
        11,
        "Link directions by utilisation",
        "How many link directions were how busy in each minute, by the share of their own speed. Those that stand still are \
         left out. Click a class in the legend to see it alone.",
        (24, 9),
    )
    .stacked_bars()
    .over_time(&busy(classes.get(1..).unwrap_or_default()))
    .step("1m")
    .points(200);
    let coloured = |panel: Panel, (name, _, _, colour): &(String, f64, f64, &str)| {
        panel.field(name, &[FieldDisplay::Colour(colour)])
    };
    classes.iter().skip(1).fold(panel, coloured)
}

fn over_time(dashboard: Dashboard, site: &Site) -> Dashboard {
    let half = (12, 9);
    let dashboard = dashboard
        .panel(histogram(site).link(to(LINK, "Link", &[])).link(map(site)))
        .panel(
            Panel::history(
                12,
                "Utilisation of the hottest links, one line each",
                "The 30 directions with the highest mean, each by its name, coloured by the share of their own speed. \
                 Fewer switches in the menu show others.",
                (24, 18),
                &site.utilisation,
            )
            .over_time(&of_hottest(HotPortMeasure::Utilisation, "transmit_utilisation", HISTORY_LINKS))
            .share()
            .link(to(LINK, "Link", &[])),
        )
        .panel(
            Panel::series(
                13,
                "Utilisation of the hottest links",

                    "Share of the link's own data rate in the sending direction, for the 10 directions with \
                     the highest mean.",
                half,
            )
            .over_time(&of_hottest(HotPortMeasure::Utilisation, "transmit_utilisation", LINES))
            .share()
            .marks(&site.utilisation)
            .link(to(LINK, "Link", &[]))
            .link(link::to_alerts()),
        )
        .panel(
            Panel::series(
                14,
                "Waiting of the links that wait most",
                "Share of the time in which a port had data and could not send (PortXmitWait): congestion, whatever the \
                 utilisation. Only of devices that report the length of their tick.",
                half,
            )
            .over_time(&of_hottest(HotPortMeasure::Waiting, "transmit_wait_ratio", LINES))
            .share()
            .marks(&site.waiting)
            .link(to(LINK, "Link", &[])),
        );
    totals(dashboard, site)
}

/// What hosts and switches send altogether, and the hottest links by Prometheus.
fn totals(dashboard: Dashboard, site: &Site) -> Dashboard {
    let half = (12, 9);
    let of_all = format!(
        "SELECT $__timeGroupAlias(time, $__interval),
       sum(transmit_bytes_per_second * interval_seconds) FILTER (WHERE node_type = 'ca') / ($__interval_ms / 1000.0) AS \"from hosts\",
       sum(transmit_bytes_per_second * interval_seconds) FILTER (WHERE node_type = 'switch') / ($__interval_ms / 1000.0) AS \"from switches\"
FROM {} rates
GROUP BY 1
ORDER BY 1",
        port_rates("true"),
    );
    dashboard
        .panel(
            Panel::series(15, "Traffic", "Bytes per second that ports of hosts and of switches send.", half)
                .over_time(&of_all)
                .step("1m")
                .unit(BYTES_PER_SECOND)
                .link(to(SWITCH, "Switch", &[])),
        )
        .panel(
            Panel::series(
                16,
                "Utilisation of the hottest links (Prometheus)",
                "The same from Prometheus: the 10 switch ports with the highest utilisation of their own data rate, with the \
                 names of both ends.",
                half,
            )
            .promql(
                "topk(10,
  rate(infiniband_switch_port_transmit_data_bytes_total{guid=~\"$switch\"}[$__rate_interval])
  / (infiniband_switch_port_rate_bytes_per_second{guid=~\"$switch\"} > 0)
  * on (guid, port) group_left (switch, uplink, uplink_port)
    max by (guid, port, switch, uplink, uplink_port) (infiniband_switch_uplink_info)
)",
                "{{switch}}[{{port}}] > {{uplink}}[{{uplink_port}}]",
            )
            .share()
            .marks(&site.utilisation)
            .link(link::to_alerts()),
        )
}

fn by_switch(dashboard: Dashboard, site: &Site) -> Dashboard {
    let sql = format!(
        "WITH ports AS (
  SELECT port_id, guid, {} AS utilisation, {} AS waiting, {} AS sent
  FROM {} rates
  GROUP BY 1, 2
), known AS (
  SELECT ib_node_id, count(*) FILTER (WHERE state = 'Active') AS active
  FROM internal.ib_port
  WHERE valid_to IS NULL
  GROUP BY 1
)
SELECT s.description AS \"Switch\", max(k.active) AS \"Active ports\", max(p.utilisation) AS \"Busiest port\",
       avg(p.utilisation) AS \"Mean of its ports\", max(p.waiting) AS \"Most waiting\", sum(p.sent) AS \"Sent\",
       s.guid AS \"GUID\"
FROM internal.ib_node s
LEFT JOIN known k ON k.ib_node_id = s.ib_node_id
LEFT JOIN ports p ON p.guid = s.guid
WHERE s.valid_to IS NULL AND s.type = 'switch' AND s.guid = ANY (ARRAY[${{switch:sqlstring}}]::text[])
GROUP BY s.description, s.guid
ORDER BY 3 DESC NULLS LAST, 1
LIMIT 200",
        mean("transmit_utilisation"),
        mean("transmit_wait_ratio"),
        mean("transmit_bytes_per_second"),
        port_rates("node_type = 'switch'"),
    );
    dashboard.panel(
        Panel::table(21, "Switches", "Switches by their busiest port in the time range.", (24, 8))
            .rows(&sql)
            .field(
                "Switch",
                &[FieldDisplay::Links(vec![to(SWITCH, "This switch", &[("guid", &field("GUID"))])])],
            )
            .field("Busiest port", &[FieldDisplay::Bar(&site.utilisation)])
            .field("Mean of its ports", &[FieldDisplay::Bar(&site.utilisation)])
            .field("Most waiting", &[FieldDisplay::Bar(&site.waiting)])
            .field("Sent", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
            .link(to(SWITCH, "Switch", &[])),
    )
}

/// Ports by the errors of the time range; `condition` is on `ib_port_readings`.
pub fn error_table(id: u32, site: &Site, condition: &str, size: (u32, u32)) -> Panel {
    let (named, sum) = risen_columns();
    let sql = format!(
        "WITH {}
SELECT n.link_name AS \"Link\", {named}, n.guid AS \"GUID\", n.port AS \"Port\"
FROM risen r
JOIN public.ib_port_named n ON n.port_id = r.port_id
ORDER BY {sum} DESC, n.link_name
LIMIT 20",
        risen(condition),
    );
    Panel::table(
        id,
        "Ports with the most errors",
        "How much each error counter rose in the time range. An empty cell was not read, or its counter has stopped at its \
         maximum.",
        size,
    )
    .rows(&sql)
    .fields_like(
        "/ errors$|^Recoveries$|^Downed$|^Discards$|^Integrity$|^Overruns$|^VL15/", &[FieldDisplay::Coloured(&site.errors)])
    .field("Link", &[FieldDisplay::Width(340), FieldDisplay::Links(vec![of_row_to_link()])])
    .field("GUID", &[FieldDisplay::Hidden])
    .field("Port", &[FieldDisplay::Unit(TEXT), FieldDisplay::Hidden])
    .link(to(LINK, "Link", &[]))
}

fn errors(dashboard: Dashboard, site: &Site) -> Dashboard {
    let promql = |panel: Panel, (name, label): &(&str, &str)| {
        let series = format!("infiniband_switch_port_{name}_total{{guid=~\"$switch\"}}");
        panel.promql(&format!("sum(increase({series}[$__rate_interval]))"), label)
    };
    let by_prometheus = [
        ("symbol_error", "symbol errors"),
        ("link_downed", "links downed"),
        ("receive_errors", "receive errors"),
        ("transmit_discards", "transmit discards"),
    ];
    dashboard
        .panel(error_table(31, site, CHOSEN_COUNTERS, (24, 9)))
        .panel(
            Panel::series(
                32,
                "Errors",

                    "Errors in each step of the chart, over all ports of the chosen switches and of their \
                     neighbours.",
                (12, 9),
            )
            .over_time(&errors_over_time(CHOSEN_COUNTERS))
            .unit(COUNT)
            .link(to(HEALTH, "Is everything read?", &[])),
        )
        .panel(
            by_prometheus
                .iter()
                .fold(
                    Panel::series(
                        33,
                        "Errors of switch ports (Prometheus)",
                        "Errors in the step of the chart, over all ports of the chosen switches. A counter that has stopped \
                         at its maximum has no value.",
                        (12, 9),
                    ),
                    promql,
                )
                .link(link::to_alerts()),
        )
}
