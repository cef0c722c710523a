//! The GPUs of a node, its NVSwitches, adapters and the switches of the fabric beside it as circles, links as lines between
//! them: one line for all physical NVLinks of a pair (a logical link), or a small circle for each physical one where the
//! reader unfolds them. Dashed lines are PCIe: to the adapters that are nearest to a GPU, and from the host to those that no
//! GPU is near.

use crate::site::Site;
use crate::sql::{colour, idle_colour, mean, newest_rates, percent_text};

/// What the menu of links offers.
pub const LINKS: [&str; 2] = ["logical", "physical"];

/// Rates of the node's NVLinks at the end of the time range, and what is at their other ends; `pair` names the two ends of
/// a logical link in one order, so that both directions are one line.
fn links() -> String {
    format!(
        "WITH rates AS (
  SELECT gpu_id, link, {} AS utilisation, {} AS sent
  FROM {}
  WHERE gpu_id = ANY (ARRAY(SELECT g.gpu_id FROM internal.gpu g JOIN internal.node_key n ON n.id = g.node_id
                            WHERE g.valid_to IS NULL AND g.parent_gpu_id IS NULL AND n.name = ${{node:sqlstring}}))
  GROUP BY 1, 2
), ends AS (
  SELECT l.gpu_id, l.link, g.uuid AS near, l.active, l.remote_link, l.speed_bytes_per_second AS speed,
         coalesce(r.uuid, l.remote_type || ' ' || l.remote_pci_bus_id) AS far, coalesce(r.index, 100) AS far_index,
         g.index AS near_index, l.remote_type, v.utilisation, v.sent
  FROM internal.gpu_link l
  JOIN internal.gpu g ON g.gpu_id = l.gpu_id AND g.valid_to IS NULL
  JOIN internal.node_key n ON n.id = g.node_id
  LEFT JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
  LEFT JOIN rates v ON v.gpu_id = l.gpu_id AND v.link = l.link
  WHERE l.valid_to IS NULL AND l.active AND n.name = ${{node:sqlstring}}
), pairs AS (
  SELECT least(near, far) || '|' || greatest(near, far) AS pair, least(near, far) AS a, greatest(near, far) AS b,
         CASE WHEN near < far THEN link ELSE coalesce(remote_link, link) END AS link_a, *
  FROM ends
)",
        mean("transmit_utilisation"),
        mean("transmit_bytes_per_second"),
        newest_rates("nvlink_rates", ("gpu", "gpu_id"), "2 minutes"),
    )
}

/// Adapters of the node with their rates at the end of the time range, the switch port at their other end, and whether a GPU
/// is near.
fn adapters() -> String {
    format!(
        "adapter_rates AS (
  SELECT host_port_id, {} AS utilisation, {} AS sent
  FROM {}
  WHERE host_port_id = ANY (ARRAY(SELECT h.id FROM internal.host_port_key h JOIN internal.node_key n ON n.id = h.node_id
                                  WHERE n.name = ${{node:sqlstring}}))
  GROUP BY 1
), adapters AS (
  SELECT h.device, h.port, r.utilisation, r.sent, p.remote_guid, p.remote_description, p.remote_port,
         EXISTS (SELECT FROM internal.gpu g WHERE g.valid_to IS NULL AND g.parent_gpu_id IS NULL AND g.node_id = h.node_id AND h.device = ANY (g.nearest_hcas)) AS is_near
  FROM internal.host_port_key h
  JOIN internal.node_key n ON n.id = h.node_id
  LEFT JOIN adapter_rates r ON r.host_port_id = h.id
  LEFT JOIN LATERAL internal.fabric_port_of(h.port_guid, h.guid, h.port) f ON true
  LEFT JOIN public.ib_port_named p ON p.port_id = f.port_id
  WHERE n.name = ${{node:sqlstring}}
)",
        mean("transmit_utilisation"),
        mean("transmit_bytes_per_second"),
        newest_rates("host_port_rates", ("host_port", "host_port_id"), "2 minutes"),
    )
}

/// What the ring of a circle without a value has.
const NO_VALUE: (&str, &str) = ("no value", "#5a5f6b");

/// Columns of the rings and their colours: one of them is 1 in each circle.
pub fn arcs(site: &Site) -> Vec<(String, String)> {
    let classes = site.utilisation.classes();
    let of_classes = classes.iter().map(|(name, _, _, colour)| (name.as_str(), *colour));
    of_classes.chain([NO_VALUE]).map(|(name, colour)| (format!("arc__{name}"), colour.to_owned())).collect()
}

/// Circles.
pub fn nodes(site: &Site) -> String {
    let classes = site.utilisation.classes();
    let arcs: String = classes
        .iter()
        .map(|(name, from, until, _)| {
            (name.as_str(), format!("utilisation >= {from} AND utilisation < {until}"))
        })
        .chain([(NO_VALUE.0, String::from("utilisation IS NULL"))])
        .map(|(name, is_in)| {
            format!(",\n       CASE WHEN {is_in} THEN 1 ELSE 0 END::float8 AS \"arc__{name}\"")
        })
        .collect();
    format!(
        "{},
{},
used AS (
  SELECT near AS id, max(utilisation) AS utilisation, sum(sent) AS sent FROM ends GROUP BY near
), circles AS (
  SELECT g.uuid AS id, 'GPU ' || g.index AS title, CASE WHEN g.is_lost THEN 'lost' ELSE g.name END AS subtitle, u.utilisation, u.sent
  FROM internal.gpu g
  JOIN internal.node_key n ON n.id = g.node_id
  LEFT JOIN used u ON u.id = g.uuid
  WHERE g.valid_to IS NULL AND g.parent_gpu_id IS NULL AND n.name = ${{node:sqlstring}}
  UNION ALL
  SELECT DISTINCT far, CASE remote_type WHEN 'switch' THEN 'NVSwitch' WHEN 'gpu' THEN 'GPU elsewhere' ELSE remote_type END, far,
         NULL::float8, NULL::float8
  FROM ends
  WHERE far NOT IN (SELECT near FROM ends)
  UNION ALL
  SELECT 'adapter ' || device, device, 'adapter', max(utilisation), sum(sent) FROM adapters GROUP BY device
  UNION ALL
  SELECT 'switch ' || remote_guid, max(remote_description), 'InfiniBand', NULL, NULL
  FROM adapters WHERE remote_guid IS NOT NULL GROUP BY remote_guid
  UNION ALL
  SELECT 'host', ${{node:sqlstring}}, 'CPUs of the host', NULL, NULL WHERE EXISTS (SELECT FROM adapters WHERE NOT is_near)
  UNION ALL
  SELECT u.pair || ' link ' || u.link_a, 'link ' || min(u.link_a), round(max(u.speed)::numeric / 1e9, 1) || ' GB/s',
         max(u.utilisation), sum(u.sent)
  FROM pairs u
  WHERE ${{links:sqlstring}} = 'physical'
  GROUP BY u.pair, u.link_a
)
SELECT id, title, subtitle AS \"subTitle\",
       CASE WHEN utilisation IS NULL THEN '' ELSE {} END AS mainstat,
       CASE WHEN sent IS NULL THEN '' ELSE round(sent::numeric / 1e9, 1) || ' GB/s' END AS secondarystat{arcs}
FROM circles",
        links(),
        adapters(),
        percent_text("utilisation"),
    )
}

/// Lines: a logical link is one, with the sum of both directions and the colour of its busiest physical link.
pub fn edges(site: &Site) -> String {
    let busiest = colour(&site.utilisation, "max(u.utilisation)");
    let of_adapter = colour(&site.utilisation, "a.utilisation");
    let percent = percent_text("max(u.utilisation)");
    let idle = idle_colour(&site.utilisation);
    format!(
        "{},
{}
SELECT u.pair AS id, min(u.a) AS source, min(u.b) AS target,
       count(DISTINCT u.link_a) || ' links, ' || {percent} AS mainstat,
       round(coalesce(sum(u.sent), 0)::numeric / 1e9, 1) || ' GB/s both ways' AS secondarystat,
       1 + count(DISTINCT u.link_a)::float8 AS thickness, coalesce({busiest}, '{idle}') AS color, NULL AS \"strokeDasharray\"
FROM pairs u
WHERE ${{links:sqlstring}} = 'logical'
GROUP BY u.pair
UNION ALL
SELECT u.pair || ' link ' || u.link_a || ' of ' || side.which, CASE side.which WHEN 'a' THEN u.a ELSE u.pair || ' link ' || u.link_a END,
       CASE side.which WHEN 'a' THEN u.pair || ' link ' || u.link_a ELSE u.b END,
       {percent}, round(coalesce(sum(u.sent), 0)::numeric / 1e9, 1) || ' GB/s',
       2, coalesce({busiest}, '{idle}'), NULL
FROM pairs u
CROSS JOIN (VALUES ('a'), ('b')) side (which)
WHERE ${{links:sqlstring}} = 'physical'
GROUP BY u.pair, u.link_a, u.a, u.b, side.which
UNION ALL
SELECT g.uuid || ' near ' || d.device, g.uuid, 'adapter ' || d.device, 'PCIe', 'nearest adapter', 1, '{idle}', '4 4'
FROM internal.gpu g
JOIN internal.node_key n ON n.id = g.node_id
CROSS JOIN LATERAL unnest(g.nearest_hcas) d (device)
WHERE g.valid_to IS NULL AND g.parent_gpu_id IS NULL AND n.name = ${{node:sqlstring}}
  AND EXISTS (SELECT FROM internal.host_port_key h WHERE h.node_id = g.node_id AND h.device = d.device)
UNION ALL
SELECT DISTINCT 'host near ' || a.device, 'host', 'adapter ' || a.device, 'PCIe', 'no GPU is near', 1::float8, '{idle}', '4 4'
FROM adapters a
WHERE NOT a.is_near
UNION ALL
SELECT a.device || '/' || a.port || ' to ' || a.remote_guid, 'adapter ' || a.device, 'switch ' || a.remote_guid,
       'port ' || a.port || ' to port ' || a.remote_port || ', ' || {}, round(coalesce(a.sent, 0)::numeric / 1e9, 1) || ' GB/s sent',
       2, coalesce({of_adapter}, '{idle}'), NULL
FROM adapters a
WHERE a.remote_guid IS NOT NULL",
        links(),
        adapters(),
        percent_text("a.utilisation"),
    )
}
