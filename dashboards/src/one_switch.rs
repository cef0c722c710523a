//! Switch: each port of one switch, with what is at its other end.

use crate::dashboard::{Dashboard, switches};
use crate::fabric::error_table;
use crate::link::{self, FABRIC, LINK, SWITCH, field, to};
use crate::overview::event_panel;
use crate::panel::{BYTES_PER_SECOND, COUNT, FieldDisplay, Panel, TEXT};
use crate::ranges::port_rates;
use crate::site::Site;
use crate::sql::{errors_over_time, events, mean};

/// Events at this switch.
const EVENTS: &str = "e.ib_guid = ${guid:sqlstring} OR e.remote_ib_guid = ${guid:sqlstring}";
/// Its ports, on `ib_port_readings` and on rates.
const PORTS: &str =
    "port_id = ANY (ARRAY(SELECT k.id FROM internal.ib_port_key k JOIN internal.ib_node_key n ON n.id = k.ib_node_id
  WHERE n.guid = ${guid:sqlstring}))";

/// The dashboard.
pub fn dashboard(site: &Site) -> Dashboard {
    let dashboard = Dashboard::new(
        site,
        SWITCH,
        "Throughline: switch",
        "Ports of one switch: neighbours, how busy each direction is, waiting, errors.",
    )
    .choose("guid", "Switch", "The switch", switches())
    .events("Events of this switch", "orange", true, &events(EVENTS))
    .link(to(FABRIC, "Fabric", &[]))
    .row(1, "Now");
    let dashboard = now(dashboard, site);
    let dashboard = over_time(dashboard.row(10, "Over time"), site);
    dashboard
        .row(20, "Errors and events")
        .panel(error_table(21, site, PORTS, (24, 9)))
        .panel(
            Panel::series(
                22,
                "Errors",
                "Errors in each step of the chart, over all ports of the switch.",
                (12, 8),
            )
            .over_time(&errors_over_time(&PORTS.replace("port_id = ANY", "c.port_id = ANY")))
            .unit(COUNT)
            .link(to(LINK, "Link", &[("guid", "${guid}")])),
        )
        .panel(event_panel(23, EVENTS, 12))
}

fn now(dashboard: Dashboard, site: &Site) -> Dashboard {
    let ports = format!(
        "WITH rates AS (
  SELECT port_id, {} AS sent, {} AS received, {} AS sent_utilisation, {} AS received_utilisation,
         max(peak_utilisation) AS highest, {} AS waiting
  FROM {} rates
  GROUP BY 1
)
SELECT n.port AS \"Port\", coalesce(n.remote_description || ' [' || n.remote_port || ']', '') AS \"Neighbour\",
       n.state AS \"State\", n.width || ' ' || n.speed AS \"Width and speed\", r.sent AS \"Sent\", r.received AS \"Received\",
       r.sent_utilisation AS \"Sending\", r.received_utilisation AS \"Receiving\", r.highest AS \"Highest sending\",
       r.waiting AS \"Waiting\", n.guid AS \"GUID\"
FROM public.ib_port_named n
LEFT JOIN rates r ON r.port_id = n.port_id
WHERE n.guid = ${{guid:sqlstring}} AND n.port > 0
ORDER BY r.sent_utilisation DESC NULLS LAST, n.port
LIMIT 200",
        mean("transmit_bytes_per_second"),
        mean("receive_bytes_per_second"),
        mean("transmit_utilisation"),
        mean("receive_utilisation"),
        mean("transmit_wait_ratio"),
        port_rates(PORTS),
    );
    let switch = "SELECT coalesce(nullif(description, ''), guid) AS \"Switch\", guid AS \"GUID\", lid AS \"LID\",
       coalesce(routing, 'not reported') AS \"Routing\",
       (SELECT count(*) FROM internal.ib_port p WHERE p.valid_to IS NULL AND p.state = 'Active' AND p.ib_node_id = n.ib_node_id) AS \"Active ports\",
       (SELECT count(*) FROM internal.ib_port p WHERE p.valid_to IS NULL AND p.state <> 'Active' AND p.ib_node_id = n.ib_node_id) AS \"Other ports\"
FROM internal.ib_node n
WHERE n.valid_to IS NULL AND n.guid = ${guid:sqlstring}
ORDER BY lid
LIMIT 1";
    let of_row = vec![to(LINK, "This link", &[("guid", &field("GUID")), ("port", &field("Port"))])];
    dashboard
        .panel(
            Panel::table(
                2,
                "Switch",
                "Its name, GUID and LID, how it routes (as it reports), and its ports by state.",
                (24, 4),
            )
            .rows(switch)
            .field("LID", &[FieldDisplay::Unit(TEXT)])
            .link(link::to_page(site, "On the fabric map", "/fabric?node=${guid}"))
            .link(to(FABRIC, "Fabric, links of this switch", &[("switch", "${guid}")])),
        )
        .panel(
            Panel::table(
                3,
                "Ports",
                "Each port with what is at its other end, and its mean rates in the time range. Click \
                     one for its link.",
                (24, 12),
            )
            .rows(&ports)
            .field(
                "Port",
                &[FieldDisplay::Unit(TEXT), FieldDisplay::Width(70), FieldDisplay::Links(of_row.clone())],
            )
            .field("Neighbour", &[FieldDisplay::Links(of_row)])
            .fields_like("/^(Sent|Received)$/", &[FieldDisplay::Unit(BYTES_PER_SECOND)])
            .fields_like("/^(Sending|Receiving|Highest sending)$/", &[FieldDisplay::Bar(&site.utilisation)])
            .field("Waiting", &[FieldDisplay::Bar(&site.waiting)])
            .field("GUID", &[FieldDisplay::Hidden])
            .link(to(LINK, "Link", &[("guid", "${guid}")])),
        )
}

/// One rate of each port of the switch over time.
fn of_ports(column: &str) -> String {
    format!(
        "SELECT $__timeGroupAlias(time, $__interval), lpad(port::text, 2, '0') || substring(link_name FROM ' > .*') AS metric,
       {} AS value
FROM {} rates
GROUP BY 1, 2
ORDER BY 1, 2",
        mean(column),
        port_rates(&format!("{PORTS} AND port > 0")),
    )
}

fn over_time(dashboard: Dashboard, site: &Site) -> Dashboard {
    let to_link = || to(LINK, "Link", &[("guid", "${guid}")]);
    dashboard
        .panel(
            Panel::history(
                11,
                "Sending, a line for each port",
                "Share of the link's own speed that each port sends.",
                (24, 12),
                &site.utilisation,
            )
            .over_time(&of_ports("transmit_utilisation"))
            .share()
            .link(to_link()),
        )
        .panel(
            Panel::series(12, "Sent by port", "Bytes per second that each port sends.", (12, 9))
                .over_time(&of_ports("transmit_bytes_per_second"))
                .unit(BYTES_PER_SECOND)
                .link(to_link()),
        )
        .panel(
            Panel::series(13, "Received by port", "Bytes per second that each port receives.", (12, 9))
                .over_time(&of_ports("receive_bytes_per_second"))
                .unit(BYTES_PER_SECOND)
                .link(to_link()),
        )
        .panel(
            Panel::series(
                14,
                "Waiting by port",
                "Share of the time in which a port had data and could not send. Only where the device \
                     reports the length of its tick.",
                (24, 8),
            )
            .over_time(&of_ports("transmit_wait_ratio"))
            .share()
            .marks(&site.waiting)
            .link(to_link()),
        )
}
