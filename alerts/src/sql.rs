//! SQL of a Grafana rule: the rule's own query, then names of both ends, then the jobs.
//!
//! **Jobs are a query of their own.** All labels of a row are an alert's identity in Grafana: a job among them would
//! end the alert and begin another one whenever a job ends. So the condition has rows without jobs, and annotations
//! take them from the second query, whose rows have one label more: Grafana joins values of a rule whose labels
//! include each other.

use crate::about::{About, CONTRIBUTORS_NAMED, LEAST_PERCENT};
use crate::definition::{Increase, Rule};
use crate::text::{number, pad_lines};

/// Most rows of a rule: more alerts at once than anybody reads.
pub const ROWS_MAX: u32 = 1000;

/// Sources for which daemons report `source_up`, beside the parts of daemons that are none.
const SOURCES: [&str; 10] =
    ["nvml", "dcgm", "amd_smi", "level_zero", "cupti", "sysfs", "mpi", "mad", "discovery", "verbs"];

/// Jobs that are named; of more only the count is given.
const JOBS_NAMED: u32 = 8;

/// The query of the condition.
pub fn query(rule: &Rule) -> String {
    let list = label_list(rule.about);
    format!(
        "{}\nSELECT $__timeTo()::timestamptz AS \"time\", {list}n.value\nFROM named n\nORDER BY 1",
        with_names(rule)
    )
}

/// The query of the jobs on what is over the threshold; `None` where no job has to do with it. It has a row always:
/// a query without one would make the rule one without data.
pub fn jobs_query(rule: &Rule) -> Option<String> {
    let jobs = pad_lines(jobs(rule.about)?, 2);
    let (mut head, holds) = (with_names(rule), number(rule.holds_above()));
    if rule.about == About::Port {
        let ways = pad_lines(&WAYS.replace("{holds}", &holds), 2);
        let ports = pad_lines(JOB_PORTS, 2);
        head = head.replacen("WITH", "WITH RECURSIVE", 1);
        head = format!("{head}, job_ports AS MATERIALIZED (\n{ports}\n), ways AS (\n{ways}\n)");
    }
    let list = label_list(rule.about);
    let nothing = labels(rule.about).iter().map(|_| "'', ").collect::<String>();
    // A link without a job that could use it may have contributors: its row is there anyway.
    let (join, on, texts, contributors, no_contributors) = match rule.names_contributors {
        false => ("CROSS JOIN", "", "j.jobs", String::new(), ""),
        true => (
            "LEFT JOIN",
            " ON true",
            "coalesce(j.jobs, 'none') AS jobs, coalesce(c.contributors, 'contributors not known') AS contributors",
            contributors(),
            "'contributors not known', ",
        ),
    };
    Some(format!(
        "{head}, crossing AS (
{jobs}
)
SELECT $__timeTo()::timestamptz AS \"time\", {list}{texts}, coalesce(j.jobs_count, 0) AS value
FROM named n
{join} LATERAL (
    SELECT array_to_string((array_agg(k.key ORDER BY k.world_size DESC NULLS LAST, k.id))[1:{JOBS_NAMED}], ', ')
             || CASE WHEN count(*) > {JOBS_NAMED} THEN ' and ' || count(*) - {JOBS_NAMED} || ' more' ELSE '' END AS jobs,
           count(*)::float8 AS jobs_count
    FROM crossing x JOIN internal.run_visible k ON k.id = x.job_id
    WHERE x.place = n.place HAVING count(*) > 0) j{on}{contributors}
WHERE n.value > {holds}
UNION ALL
SELECT $__timeTo()::timestamptz, {nothing}'none', {no_contributors}0"
    ))
}

/// Whose bytes were on the link of a row, the largest first.
fn contributors() -> String {
    format!(
        "
LEFT JOIN LATERAL (
    SELECT string_agg(round(p.percent) || ' % ' || p.label || ' [' || p.known || ']', ', ' ORDER BY p.percent DESC, p.label)
             AS contributors
    FROM (SELECT c.label, c.known, 100 * sum(c.bytes) / nullif(t.bytes, 0) AS percent
          FROM public.link_contributors c
          CROSS JOIN (SELECT sum(s.bytes) AS bytes FROM internal.link_shares s
                      WHERE s.port_id = n.port_id AND s.time > $__timeFrom() AND s.time <= $__timeTo()) t
          WHERE c.port_id = n.port_id AND c.contributor NOT IN ('other', 'rest')
            AND c.time > $__timeFrom() AND c.time <= $__timeTo()
          GROUP BY c.label, c.known, t.bytes
          ORDER BY 3 DESC LIMIT {CONTRIBUTORS_NAMED}) p
    WHERE p.percent >= {LEAST_PERCENT}) c ON true"
    )
}

fn label_list(about: About) -> String {
    labels(about).iter().map(|label| format!("n.{label}, ")).collect()
}

/// The rule's own query, and its rows with names.
fn with_names(rule: &Rule) -> String {
    format!(
        "WITH found AS MATERIALIZED (
  SELECT f.* FROM (
{}
  ) f
  WHERE f.value IS NOT NULL ORDER BY f.value DESC LIMIT {ROWS_MAX}
), named AS MATERIALIZED (
{}
)",
        pad_lines(&found(rule), 4),
        pad_lines(named(rule.about), 2)
    )
}

fn found(rule: &Rule) -> String {
    if let Some(increase) = &rule.increase {
        return increased(rule, increase);
    }
    let sources = SOURCES.map(|source| format!("'{source}'")).join(", ");
    rule.sql.as_deref().unwrap_or_default().trim().replace("{sources}", &sources)
}

/// Growth since the first readings of the range, or since the epoch began within it. Both ends are looked up by the
/// primary key: the rows between are never read.
fn increased(rule: &Rule, increase: &Increase) -> String {
    let columns = |make: &dyn Fn(&str) -> String| {
        increase.counters.iter().map(|c| make(c)).collect::<Vec<_>>().join(", ")
    };
    let newest = columns(&|c| format!("max(c.{c}) AS {c}"));
    let first = columns(&|c| format!("CASE WHEN n.epoch > $__timeFrom() THEN 0 ELSE min(o.{c}) END AS {c}"));
    let sum: Vec<String> =
        increase.counters.iter().map(|c| format!("coalesce(greatest(n.{c} - b.{c}, 0), 0)")).collect();
    let mut value = format!("({})::float8", sum.join(" + "));
    let seconds = rule.range_seconds;
    if rule.about == About::Nvlink {
        return format!(
            "SELECT n.gpu_id, n.link, {value} AS value
FROM (SELECT DISTINCT ON (c.gpu_id, c.link) c.gpu_id, c.link, c.source, c.epoch, {newest}
      -- Errors are read more rarely than data.
      FROM internal.row_gap('gpu', $__timeTo(), $__timeTo()) b, internal.nvlink_link_counters c
      WHERE c.time > $__timeTo()::timestamptz - 2 * b.gap AND c.time > $__timeFrom() AND c.time <= $__timeTo()
      GROUP BY c.gpu_id, c.link, c.source, c.epoch
      ORDER BY c.gpu_id, c.link, internal.gpu_source_rank(c.source), c.epoch DESC) n
CROSS JOIN LATERAL (
    SELECT {first}
    -- Some of a GPU's first readings: columns of a link's health are in one row of ten.
    FROM (SELECT * FROM internal.nvlink_link_counters a
          WHERE a.gpu_id = n.gpu_id AND a.time > $__timeFrom() AND a.time <= $__timeTo()
          ORDER BY a.time LIMIT 600) o
    WHERE o.link = n.link AND o.source = n.source AND o.epoch = n.epoch) b"
        );
    }
    if increase.per_bit {
        value = format!("{value} / nullif(n.rate * 8.0 * {seconds}, 0)");
    }
    let switches = if increase.switches_only {
        "
WHERE EXISTS (SELECT FROM internal.ib_port_key k JOIN internal.ib_node d ON d.ib_node_id = k.ib_node_id
              WHERE k.id = n.port_id AND d.type = 'switch')"
    } else {
        ""
    };
    format!(
        "SELECT n.port_id, NULL::integer AS remote_port_id, {value} AS value
FROM (SELECT DISTINCT ON (c.port_id) c.port_id, c.epoch, max(c.rate_bytes_per_second) AS rate, {newest}
      -- Errors are read more rarely than data.
      FROM internal.row_gap('ib_port', $__timeTo(), $__timeTo()) b, internal.ib_port_counters c
      WHERE c.time > $__timeTo()::timestamptz - 2 * b.gap AND c.time > $__timeFrom() AND c.time <= $__timeTo()
      GROUP BY c.port_id, c.epoch ORDER BY c.port_id, c.epoch DESC) n
CROSS JOIN LATERAL (
    SELECT {first}
    -- A port's first readings: some counters are not in each row.
    FROM (SELECT * FROM internal.ib_port_counters a
          WHERE a.port_id = n.port_id AND a.time > $__timeFrom() AND a.time <= $__timeTo()
          ORDER BY a.time LIMIT 20) o
    WHERE o.epoch = n.epoch) b{switches}"
    )
}

/// Labels of a row.
pub fn labels(about: About) -> &'static [&'static str] {
    match about {
        About::Port => &["instance", "guid", "port", "node", "uplink", "uplink_guid", "uplink_port"],
        About::Nvlink => &["instance", "gpu", "link", "node", "uplink"],
        About::Gpu => &["instance", "gpu", "node"],
        About::FabricNode => &["instance", "guid", "node", "uplink", "uplink_port"],
        About::Daemon => &["instance", "source"],
        About::Site => &[],
    }
}

/// `found` with its labels, and `place`, by which jobs are joined.
fn named(about: About) -> &'static str {
    match about {
        About::Port => PORT_NAMES,
        About::Nvlink => NVLINK_NAMES,
        About::Gpu => GPU_NAMES,
        About::FabricNode => FABRIC_NODE_NAMES,
        About::Daemon => {
            "SELECT f.instance AS place, internal.instance_name(f.instance) AS instance, f.source, f.value FROM found f"
        }
        About::Site => "SELECT f.value FROM found f",
    }
}

/// `place` and `job_id` of the jobs that run.
fn jobs(about: About) -> Option<&'static str> {
    match about {
        About::Port => Some(PORT_JOBS),
        About::Nvlink | About::Gpu => Some(GPU_JOBS),
        About::FabricNode => Some(FABRIC_NODE_JOBS),
        About::Daemon => Some(DAEMON_JOBS),
        About::Site => None,
    }
}

// Names are those that nodes have now, or had last: a node may be gone.
const PORT_NAMES: &str = "SELECT f.port_id AS place, f.port_id, r.id AS remote_port_id, s.name AS instance, k.ib_node_id, nk.guid,
       k.port::text AS port, k.port AS number, coalesce(n.description, nk.guid) AS node,
       coalesce(rnk.guid, '') AS uplink_guid, coalesce(rn.description, rnk.guid, 'an unknown end') AS uplink,
       coalesce(r.port::text, '?') AS uplink_port, n.type = 'switch' AND rn.type = 'switch' AS is_trunk, f.value
FROM found f
JOIN internal.ib_port_key k ON k.id = f.port_id
JOIN internal.ib_node_key nk ON nk.id = k.ib_node_id
JOIN internal.fabric s ON s.id = nk.fabric_id
LEFT JOIN internal.ib_port p ON p.port_id = f.port_id AND p.valid_to IS NULL
LEFT JOIN internal.ib_port_key r ON r.id = coalesce(f.remote_port_id, p.remote_port_id)
LEFT JOIN internal.ib_node_key rnk ON rnk.id = r.ib_node_id
LEFT JOIN LATERAL (SELECT a.type, nullif(a.description, '') AS description FROM internal.ib_node a
                   WHERE a.ib_node_id = k.ib_node_id ORDER BY a.valid_from DESC LIMIT 1) n ON true
LEFT JOIN LATERAL (SELECT a.type, nullif(a.description, '') AS description FROM internal.ib_node a
                   WHERE a.ib_node_id = r.ib_node_id ORDER BY a.valid_from DESC LIMIT 1) rn ON true";

// A job is on a host's link if a rank has queue pairs there, or is on the host where that is not known. It is on a
// link between switches if the way from the leaf of one of its ports to another of its ports goes over it, by the
// forwarding tables: with adaptive routing that is one of several ways.
const PORT_JOBS: &str = "SELECT n.place, o.job_id
FROM named n
JOIN job_ports o ON NOT n.is_trunk AND o.port_id IN (n.port_id, n.remote_port_id)
UNION
SELECT r.place, r.job_id FROM ways r WHERE r.at_node = r.target";

/// Ways to the destinations behind a link, hop by hop, from the leaves of the job's other ports.
const WAYS: &str =
    "SELECT DISTINCT n.place, n.ib_node_id AS target, o.job_id, o.lid, s.leaf_id AS at_node, 0 AS hops
FROM named n
JOIN internal.ib_lft t ON t.ib_node_id = n.ib_node_id AND t.valid_to IS NULL
JOIN job_ports o ON n.number = CASE WHEN o.lid < length(t.linear_forwarding_table)
                                    THEN get_byte(t.linear_forwarding_table, o.lid) END
JOIN job_ports s ON s.job_id = o.job_id AND s.port_id <> o.port_id AND s.leaf_id IS NOT NULL
WHERE n.is_trunk AND n.value > {holds}
UNION
SELECT w.place, w.target, w.job_id, w.lid, k.ib_node_id, w.hops + 1
FROM ways w
JOIN internal.ib_lft t ON t.ib_node_id = w.at_node AND t.valid_to IS NULL
JOIN internal.ib_port_key q ON q.ib_node_id = w.at_node
    AND q.port = CASE WHEN w.lid < length(t.linear_forwarding_table)
                      THEN get_byte(t.linear_forwarding_table, w.lid) END
JOIN internal.ib_port b ON b.port_id = q.id AND b.valid_to IS NULL
JOIN internal.ib_port_key k ON k.id = b.remote_port_id
WHERE w.at_node <> w.target AND w.hops < 8";

const NVLINK_NAMES: &str = "SELECT f.gpu_id AS place, m.name AS instance, k.uuid AS gpu, f.link::text AS link,
       coalesce(m.name, '?') || ' GPU ' || coalesce(g.index::text, k.uuid) AS node,
       coalesce(rm.name || ' GPU ' || r.index || coalesce(' link ' || l.remote_link, ''), nullif(l.remote_type, ''),
                'an unknown end') AS uplink, f.value
FROM found f
JOIN internal.gpu_key k ON k.id = f.gpu_id
LEFT JOIN internal.gpu g ON g.gpu_id = f.gpu_id AND g.valid_to IS NULL
LEFT JOIN internal.node_key m ON m.id = g.node_id
LEFT JOIN internal.gpu_link l ON l.gpu_id = f.gpu_id AND l.link = f.link AND l.valid_to IS NULL
LEFT JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
LEFT JOIN internal.node_key rm ON rm.id = r.node_id";

const GPU_NAMES: &str = "SELECT f.gpu_id AS place, m.name AS instance, k.uuid AS gpu,
       coalesce(m.name, '?') || ' GPU ' || coalesce(g.index::text, k.uuid) AS node, f.value
FROM found f
JOIN internal.gpu_key k ON k.id = f.gpu_id
LEFT JOIN LATERAL (SELECT i.index FROM internal.gpu i WHERE i.gpu_id = f.gpu_id ORDER BY i.valid_from DESC LIMIT 1) g ON true
LEFT JOIN internal.node_key m ON m.id = k.node_id";

const GPU_JOBS: &str = "SELECT DISTINCT n.place, r.job_id
FROM named n
JOIN internal.node_key m ON m.name = n.instance
JOIN internal.job_rank r ON r.node_id = m.id AND r.end_time IS NULL AND (r.gpu_uuids IS NULL OR n.gpu = ANY (r.gpu_uuids))";

const FABRIC_NODE_NAMES: &str = "SELECT nk.guid AS place, s.name AS instance, nk.guid, coalesce(n.description, nk.guid) AS node,
       coalesce(u.description, 'an unknown end') AS uplink, coalesce(u.port, '?') AS uplink_port, f.value
FROM found f
JOIN internal.ib_node_key nk ON nk.id = f.ib_node_id
JOIN internal.fabric s ON s.id = nk.fabric_id
LEFT JOIN LATERAL (SELECT nullif(a.description, '') AS description FROM internal.ib_node a
                   WHERE a.ib_node_id = nk.id ORDER BY a.valid_from DESC LIMIT 1) n ON true
-- The end of its last cable.
LEFT JOIN LATERAL (
    SELECT coalesce(nullif(d.description, ''), d.guid) AS description, o.port::text AS port
    FROM internal.ib_port_key k
    JOIN internal.ib_link l ON k.id IN (l.port_a_id, l.port_b_id)
    JOIN internal.ib_port_key o ON o.id IN (l.port_a_id, l.port_b_id) AND o.id <> k.id
    JOIN internal.ib_node d ON d.ib_node_id = o.ib_node_id
    WHERE k.ib_node_id = nk.id ORDER BY l.valid_from DESC, d.valid_from DESC, k.port LIMIT 1) u ON f.value > 0";

const FABRIC_NODE_JOBS: &str = "SELECT DISTINCT n.place, r.job_id
FROM named n
JOIN internal.host_port_key h ON h.guid = n.guid
JOIN internal.job_rank r ON r.node_id = h.node_id AND r.end_time IS NULL";

const DAEMON_JOBS: &str = "SELECT DISTINCT n.place, r.job_id
FROM named n
JOIN internal.node_key m ON m.name = n.instance
JOIN internal.job_rank r ON r.node_id = m.id AND r.end_time IS NULL";

/// Fabric ports of the ranks that run, with their LIDs and the switches that they hang on.
const JOB_PORTS: &str =
    "SELECT DISTINCT r.job_id, p.id AS port_id, coalesce(b.lid, 0) AS lid, e.ib_node_id AS leaf_id
FROM internal.job_rank r
JOIN internal.host_port_key h ON h.node_id = r.node_id
    AND (r.hca_ports IS NULL OR h.device || '/' || h.port = ANY (r.hca_ports))
CROSS JOIN LATERAL internal.fabric_port_of(h.port_guid, h.guid, h.port) w
JOIN internal.ib_port_key p ON p.id = w.port_id
LEFT JOIN internal.ib_port b ON b.port_id = p.id AND b.valid_to IS NULL
LEFT JOIN internal.ib_port_key e ON e.id = b.remote_port_id
WHERE r.end_time IS NULL";
