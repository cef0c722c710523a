//! Whose bytes were on the links of switches: the same in each window, so that texts of alerts and tables are known. Spines
//! have only bounds; ports of adapters have no rows. In each eighth window no port was read.

use super::{SECOND, TICK_SECONDS, TICKS, tick_time};
use throughline_store::Database;

/// Bytes of a port in a window.
const COUNTED: i64 = 1_000_000;

/// Writes them. Job 4700 has 2 %: too little to be named as a cause.
pub async fn write(database: &Database, end: i64) {
    let client = database.connect().await.unwrap();
    let time = |nanoseconds: i64| format!("to_timestamp({})", nanoseconds / SECOND);
    let (first, last) = (time(tick_time(end, 1)), time(tick_time(end, TICKS - 1)));
    let statement = format!(
        "INSERT INTO internal.link_shares (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind,
                                  is_bound, counted_bytes)
         SELECT w.time, p.id, c.contributor, j.id, c.operation, c.name, c.part * {COUNTED} / 100, c.part * {COUNTED} / 200,
                c.part * {COUNTED} / 50, c.kind, c.contributor = 'job' AND n.description LIKE 'spine%',
                CASE WHEN extract(epoch FROM w.time)::bigint / {TICK_SECONDS} % 8 > 0 THEN {COUNTED} END
         FROM internal.ib_port_key p
         JOIN internal.ib_node n ON n.ib_node_id = p.ib_node_id AND n.valid_to IS NULL AND n.type = 'switch'
         CROSS JOIN generate_series({first}, {last}, INTERVAL '{TICK_SECONDS} seconds') AS w (time)
         CROSS JOIN (VALUES ('job', 'slurm:4711', 'alltoall', NULL, 62, 'modelled'),
                            ('job', 'slurm:4700', 'bcast', NULL, 2, 'measured'),
                            ('host', NULL, NULL, 'n07', 34, 'unreported'),
                            ('rest', NULL, NULL, NULL, 2, 'unreported')) AS c (contributor, key, operation, name, part, kind)
         LEFT JOIN internal.run j ON j.key = c.key;
         UPDATE internal.link_share_state SET computed_until = {last};
         INSERT INTO internal.link_share_minutes (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind,
                                         is_bound, counted_bytes, peak_counted_bytes, windows)
         SELECT date_trunc('minute', time), port_id, contributor, job_id, operation, name, sum(bytes), sum(low_bytes),
                sum(high_bytes), max(kind), bool_or(is_bound), CASE WHEN count(*) = count(counted_bytes) THEN sum(counted_bytes) END,
                max(counted_bytes), count(*)
         FROM internal.link_shares GROUP BY 1, 2, 3, 4, 5, 6"
    );
    client.batch_execute(&statement).await.unwrap();
}
