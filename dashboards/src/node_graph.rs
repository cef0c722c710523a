//! The GPUs of a node, its NVSwitches and adapters as circles, NVLinks as lines between them: one line for all physical
//! links of a pair (a logical link), or a small circle for each physical one where the reader unfolds them.

use crate::site::Site;
use crate::sql::{colour, idle_colour, mean};

/// What the menu of links offers.
pub const LINKS: [&str; 2] = ["logical", "physical"];

/// Rates of the node's NVLinks at the end of the time range, and what is at their other ends; `pair` names the two ends of
/// a logical link in one order, so that both directions are one line.
fn links() -> String {
    format!(
        "WITH rates AS (
  SELECT gpu_id, link, {} AS utilisation, {} AS sent
  FROM nvlink_rates($__timeTo()::timestamptz - INTERVAL '2 minutes', $__timeTo())
  WHERE gpu_id = ANY (ARRAY(SELECT g.gpu_id FROM gpu g JOIN node_key n ON n.id = g.node_id
                            WHERE g.valid_to IS NULL AND n.name = ${{node:sqlstring}}))
  GROUP BY 1, 2
), ends AS (
  SELECT l.gpu_id, l.link, g.uuid AS near, l.active, l.remote_link, l.speed_bytes_per_second AS speed,
         coalesce(r.uuid, l.remote_type || ' ' || l.remote_pci_bus_id) AS far, coalesce(r.index, 100) AS far_index,
         g.index AS near_index, l.remote_type, v.utilisation, v.sent
  FROM gpu_link l
  JOIN gpu g ON g.gpu_id = l.gpu_id AND g.valid_to IS NULL
  JOIN node_key n ON n.id = g.node_id
  LEFT JOIN gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
  LEFT JOIN rates v ON v.gpu_id = l.gpu_id AND v.link = l.link
  WHERE l.valid_to IS NULL AND l.active AND n.name = ${{node:sqlstring}}
), pairs AS (
  SELECT least(near, far) || '|' || greatest(near, far) AS pair, least(near, far) AS a, greatest(near, far) AS b,
         CASE WHEN near < far THEN link ELSE coalesce(remote_link, link) END AS link_a, *
  FROM ends
)",
        mean("transmit_utilisation"),
        mean("transmit_bytes_per_second"),
    )
}

/// Circles.
pub fn nodes(site: &Site) -> String {
    let by_utilisation = colour(&site.utilisation, "u.utilisation");
    let idle = idle_colour(&site.utilisation);
    format!(
        "{},
used AS (
  SELECT near AS id, max(utilisation) AS utilisation, sum(sent) AS sent FROM ends GROUP BY near
)
SELECT g.uuid AS id, 'GPU ' || g.index AS title, g.name AS \"subTitle\",
       round(coalesce(u.utilisation, 0)::numeric * 100, 1) || ' %' AS mainstat,
       round(coalesce(u.sent, 0)::numeric / 1e9, 1) || ' GB/s' AS secondarystat,
       coalesce({by_utilisation}, '{idle}') AS color
FROM gpu g
JOIN node_key n ON n.id = g.node_id
LEFT JOIN used u ON u.id = g.uuid
WHERE g.valid_to IS NULL AND n.name = ${{node:sqlstring}}
UNION ALL
SELECT DISTINCT far, CASE remote_type WHEN 'switch' THEN 'NVSwitch' WHEN 'gpu' THEN 'GPU elsewhere' ELSE remote_type END,
       far, '', '', '{idle}'
FROM ends
WHERE far NOT IN (SELECT near FROM ends)
UNION ALL
SELECT DISTINCT 'adapter ' || h.device, h.device, 'adapter', '', '', '{idle}'
FROM host_port_key h
JOIN node_key n ON n.id = h.node_id
WHERE n.name = ${{node:sqlstring}}
UNION ALL
SELECT u.pair || ' link ' || u.link_a, 'link ' || min(u.link_a), round(max(u.speed)::numeric / 1e9, 1) || ' GB/s',
       round(coalesce(max(u.utilisation), 0)::numeric * 100, 1) || ' %', round(coalesce(sum(u.sent), 0)::numeric / 1e9, 1) || ' GB/s',
       coalesce({}, '{idle}')
FROM pairs u
WHERE ${{links:sqlstring}} = 'physical'
GROUP BY u.pair, u.link_a",
        links(),
        colour(&site.utilisation, "max(u.utilisation)"),
    )
}

/// Lines: a logical link is one, with the sum of both directions and the colour of its busiest physical link.
pub fn edges(site: &Site) -> String {
    let busiest = colour(&site.utilisation, "max(u.utilisation)");
    let idle = idle_colour(&site.utilisation);
    format!(
        "{}
SELECT u.pair AS id, min(u.a) AS source, min(u.b) AS target,
       count(DISTINCT u.link_a) || ' links, ' || round(coalesce(max(u.utilisation), 0)::numeric * 100, 1) || ' %' AS mainstat,
       round(coalesce(sum(u.sent), 0)::numeric / 1e9, 1) || ' GB/s both ways' AS secondarystat,
       1 + count(DISTINCT u.link_a)::float8 AS thickness, coalesce({busiest}, '{idle}') AS color, NULL AS \"strokeDasharray\"
FROM pairs u
WHERE ${{links:sqlstring}} = 'logical'
GROUP BY u.pair
UNION ALL
SELECT u.pair || ' link ' || u.link_a || ' of ' || side.which, CASE side.which WHEN 'a' THEN u.a ELSE u.pair || ' link ' || u.link_a END,
       CASE side.which WHEN 'a' THEN u.pair || ' link ' || u.link_a ELSE u.b END,
       round(coalesce(max(u.utilisation), 0)::numeric * 100, 1) || ' %', round(coalesce(sum(u.sent), 0)::numeric / 1e9, 1) || ' GB/s',
       2, coalesce({busiest}, '{idle}'), NULL
FROM pairs u
CROSS JOIN (VALUES ('a'), ('b')) side (which)
WHERE ${{links:sqlstring}} = 'physical'
GROUP BY u.pair, u.link_a, u.a, u.b, side.which
UNION ALL
SELECT g.uuid || ' near ' || d.device, g.uuid, 'adapter ' || d.device, 'PCIe', 'nearest adapter', 1, '{idle}', '4 4'
FROM gpu g
JOIN node_key n ON n.id = g.node_id
CROSS JOIN LATERAL unnest(g.nearest_hcas) d (device)
WHERE g.valid_to IS NULL AND n.name = ${{node:sqlstring}}
  AND EXISTS (SELECT FROM host_port_key h WHERE h.node_id = g.node_id AND h.device = d.device)",
        links(),
    )
}
