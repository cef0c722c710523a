//! Whose bytes were on links: contributors of a link over time and in sum, and the links of a job. Each figure has how it is
//! known beside it: measured, modelled, logical, unreported, or bound where only bounds are known.

use crate::link::{JOB, LINK, of_row_to_link, to, to_job_of_row};
use crate::panel::{BYTES, BYTES_PER_SECOND, FieldDisplay, Panel};
use crate::ranges::{contributors, link_shares};
use crate::site::Site;
use crate::sql::{self, PORT, job_range};

/// Contributors of a chart that have an area of their own.
const NAMED: u32 = 10;

/// Kinds, the most certain first.
const KNOWN: &str = "ARRAY['measured', 'modelled', 'logical', 'unreported', 'bound']";

/// The port at the other end of the chosen one.
fn other_end() -> String {
    format!(
        "(SELECT o.remote_port_id FROM internal.ib_port o WHERE o.valid_to IS NULL AND o.port_id = {PORT} LIMIT 1)"
    )
}

/// Bytes per second that a port sends, by contributor. Windows without rows carried nothing.
fn over_time(port: &str) -> String {
    format!(
        "WITH shares AS (
  SELECT $__timeGroup(c.time, $__interval) AS step, c.seconds, c.bytes, c.contributor,
         CASE WHEN c.contributor = 'rest' THEN 'rest: nobody known' ELSE c.label || ' [' || c.known || ']' END AS who
  FROM {} c
), steps AS (
  SELECT step, sum(seconds) AS seconds FROM shares WHERE contributor = 'rest' GROUP BY step
), largest AS (
  SELECT who FROM shares WHERE contributor NOT IN ('other', 'rest') GROUP BY who ORDER BY sum(bytes) DESC, who LIMIT {NAMED}
)
SELECT s.step AS \"time\",
       CASE WHEN s.contributor = 'rest' OR s.who IN (SELECT who FROM largest) THEN s.who ELSE 'others' END AS metric,
       sum(s.bytes) / max(t.seconds) AS value
FROM shares s
JOIN steps t ON t.step = s.step
GROUP BY 1, 2
ORDER BY 1, 2",
        contributors(&format!("port_id = {port}"))
    )
}

/// What each end sends, by contributor: two charts and a table.
pub fn of_link(ids: [u32; 3], site: &Site) -> [Panel; 3] {
    let chart = |id, title: &str, description: &str, port: &str| {
        Panel::series(id, title, description, (12, 9))
            .over_time(&over_time(port))
            .unit(BYTES_PER_SECOND)
            .stacked()
            .link(to(JOB, "Job", &[]))
    };
    let windows = format!(
        "WITH shares AS (
  SELECT c.*, c.port_id = {PORT} AS is_sent FROM {} c
), sums AS (
  SELECT is_sent, sum(bytes) AS bytes, sum(seconds) FILTER (WHERE contributor = 'rest') AS seconds,
         (SELECT max(p.rate_bytes_per_second) FROM internal.ib_port p WHERE p.valid_to IS NULL AND p.port_id = {PORT}) AS speed
  FROM shares GROUP BY is_sent
)",
        contributors(&format!("port_id IN ({PORT}, {})", other_end()))
    );
    let table = format!(
        "{windows}
SELECT CASE WHEN s.is_sent THEN 'sent' ELSE 'received' END AS \"Direction\", s.label AS \"Contributor\", s.job_key AS \"Job\",
       s.operation AS \"Operation\", ({KNOWN})[max(array_position({KNOWN}, s.known))] AS \"Known\", sum(s.bytes) AS \"Bytes\",
       sum(s.bytes) / nullif(max(t.seconds) * max(t.speed), 0) AS \"Of the link\",
       sum(s.bytes) / nullif(max(t.bytes), 0) AS \"Of its bytes\",
       sum(s.low_bytes) / nullif(max(t.bytes), 0) AS \"At least\",
       least(sum(s.high_bytes) / nullif(max(t.bytes), 0), 1) AS \"At most\", {}
FROM shares s
JOIN sums t ON t.is_sent = s.is_sent
LEFT JOIN internal.run_visible j ON j.key = s.job_key
GROUP BY s.is_sent, s.label, s.job_key, s.operation, s.contributor, j.start_time, j.end_time, j.first_seen
HAVING s.contributor IN ('other', 'rest') OR sum(s.bytes) >= 0.01 * max(t.bytes)
ORDER BY s.is_sent DESC, s.contributor IN ('other', 'rest'), 6 DESC
LIMIT 100",
        job_range("j"),
    );
    [
        chart(
            ids[0],
            "Whose bytes it sends",
            "Bytes per second that the chosen end sends, by operation of each job, host that nobody monitors, and rest, in windows \
             of 10 s that add up to the port's counter. In brackets how each is known.",
            PORT,
        ),
        chart(
            ids[1],
            "Whose bytes it receives",
            "The same of what the other end sends to it.",
            &other_end(),
        ),
        Panel::table(
            ids[2],
            "Contributors in the time range",
            "Whose bytes were on the link. Of the link: of what it could carry in the windows in which it carried something. \
             Contributors below 1 % of its bytes are left out.",
            (24, 8),
        )
        .rows(&table)
        .field("Job", &[FieldDisplay::Links(vec![to_job_of_row("Job")])])
        .field("Bytes", &[FieldDisplay::Unit(BYTES)])
        .field("Of the link", &[FieldDisplay::Bar(&site.utilisation)])
        .fields_like("/^(Of its bytes|At least|At most)$/", &[FieldDisplay::Share])
        .fields_like("/^(from|to)$/", &[FieldDisplay::Hidden])
        .link(to(JOB, "Job", &[])),
    ]
}

/// The links on which the chosen job has a share, the fullest first.
pub fn of_job(id: u32, site: &Site) -> Panel {
    let sql = format!(
        "WITH own AS (
  SELECT s.port_id, s.time, sum(s.bytes) AS bytes, sum(s.low_bytes) AS low, sum(s.high_bytes) AS high,
         max(s.counted_bytes) AS counted, max(s.seconds) AS seconds,
         max(array_position({KNOWN}, CASE WHEN s.is_bound THEN 'bound' ELSE s.kind END)) AS known
  FROM {} s
  GROUP BY s.port_id, s.time
), ports AS (
  SELECT o.port_id, sum(o.seconds) AS seconds, sum(o.counted) AS counted, sum(o.bytes) AS bytes, sum(o.low) AS low,
         sum(o.high) AS high, max(o.known) AS known
  FROM own o WHERE o.counted IS NOT NULL GROUP BY o.port_id
)
SELECT n.description || ' [' || n.port || '] to ' || coalesce(n.remote_description || ' [' || n.remote_port || ']', 'nothing') AS \"Link\",
       n.guid AS \"GUID\", n.port AS \"Port\", p.counted / nullif(p.seconds * n.rate_bytes_per_second, 0) AS \"Full\",
       p.bytes / nullif(p.counted, 0) AS \"This job\", p.low / nullif(p.counted, 0) AS \"At least\",
       least(p.high / nullif(p.counted, 0), 1) AS \"At most\", ({KNOWN})[p.known] AS \"Known\",
       greatest(1 - p.bytes / nullif(p.counted, 0), 0) AS \"Others\"
FROM ports p
JOIN public.ib_port_named n ON n.port_id = p.port_id
ORDER BY 4 DESC NULLS LAST, p.bytes DESC
LIMIT 50",
        link_shares(sql::JOB),
    );
    Panel::table(
        id,
        "Its links, and its part of their bytes",
        "Links on which the job had bytes in the time range, the fullest first, over the windows of 10 s in which it had some and \
         the port was read (minutes in a range of more than 6 hours, or that begins before windows are kept): how full, \
         the job's part with its bounds and how it is known, and what all others have.",
        (24, 8),
    )
    .rows(&sql)
    .field("Link", &[FieldDisplay::Links(vec![of_row_to_link()])])
    .field("Port", &[FieldDisplay::Unit(crate::panel::TEXT)])
    .field("Full", &[FieldDisplay::Bar(&site.utilisation)])
    .fields_like("/^(This job|At least|At most|Others)$/", &[FieldDisplay::Share])
    .link(to(LINK, "Link", &[]))
}
