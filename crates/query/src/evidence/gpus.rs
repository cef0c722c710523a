//! Links between the GPUs of a job's hosts, with the mean of what they carried.

use throughline_store::Error;
use throughline_store::sql_time::moment;
use throughline_verdicts::evidence::GpuLink;
use tokio_postgres::Client;

/// Hosts whose GPUs are looked at: a job does the same on all of them.
const HOSTS_MAX: i64 = 4;

/// Of a long job this last time is enough, milliseconds.
const RANGE_MS: i64 = 600_000;

/// # Errors
/// The database's.
pub(super) async fn links(client: &Client, id: i64, from: i64, to: i64) -> Result<Vec<GpuLink>, Error> {
    let sql = "SELECT g.gpu_id, k.name, g.index, l.link, r.index, l.speed_bytes_per_second
               FROM (SELECT DISTINCT node_id FROM internal.job_rank WHERE job_id = $1 AND node_id IS NOT NULL AND cardinality(gpu_uuids) > 0
                     ORDER BY node_id LIMIT $2) h
               JOIN internal.node_key k ON k.id = h.node_id
               JOIN internal.gpu g ON g.node_id = h.node_id AND g.valid_to IS NULL
               -- Others of the node are none of the job's.
               AND EXISTS (SELECT FROM internal.job_rank r JOIN internal.rank_gpu o ON o.job_id = r.job_id AND o.rank = r.rank
                           AND o.node_id = r.node_id AND o.start_time = r.start_time AND o.evidence = 'driver'
                           WHERE r.job_id = $1 AND r.node_id = h.node_id AND o.gpu_id = g.gpu_id)
               JOIN internal.gpu_link l ON l.gpu_id = g.gpu_id AND l.valid_to IS NULL AND l.active AND l.remote_gpu_id IS NOT NULL
               JOIN internal.gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL AND r.node_id = g.node_id
               WHERE l.speed_bytes_per_second > 0 ORDER BY g.gpu_id, l.link";
    let what = "reading links of a job's GPUs";
    let found = client.query(sql, &[&id, &HOSTS_MAX]).await.map_err(Error::sql(what))?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let gpus: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
    let sql = format!(
        "SELECT gpu_id, link, sum(transmit_bytes_per_second * interval_seconds) / sum(interval_seconds),
                sum(receive_bytes_per_second * interval_seconds) / sum(interval_seconds)
         FROM public.nvlink_rates({since}, {}) WHERE gpu_id = ANY($1) AND transmit_bytes_per_second IS NOT NULL
           AND receive_bytes_per_second IS NOT NULL AND time - make_interval(secs => interval_seconds) > {since}
         GROUP BY gpu_id, link",
        moment(to),
        since = moment(from.max(to - RANGE_MS)),
    );
    let rates = client.query(&sql, &[&gpus]).await.map_err(Error::sql(what))?;
    let number = |index: i32| u32::try_from(index).unwrap_or_default();
    let link = |row: &tokio_postgres::Row| {
        let (gpu, link): (i64, i32) = (row.get(0), row.get(3));
        let rate = rates.iter().find(|rate| rate.get::<_, i64>(0) == gpu && rate.get::<_, i32>(1) == link)?;
        #[allow(clippy::cast_precision_loss)] // below 2^53
        let bytes_per_second = row.get::<_, i64>(5) as f64;
        Some(GpuLink {
            host: row.get(1),
            gpu: number(row.get(2)),
            link: number(link),
            peer_gpu: Some(number(row.get(4))),
            transmit: rate.get(2),
            receive: rate.get(3),
            bytes_per_second,
        })
    };
    Ok(found.iter().filter_map(link).collect())
}
