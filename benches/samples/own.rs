//! The samples in Throughline: over gRPC into a server, then packed by upkeep.

use crate::{Figures, Load, RUNS};
use anyhow::ensure;
use std::path::Path;
use std::time::{Duration, Instant};
use throughline_benches::psql::Psql;
use throughline_benches::server::Server;
use throughline_benches::site::ranks::SECOND;
use throughline_benches::site::send::Outgoing;
use tokio_util::sync::CancellationToken;

/// Most entries in spools: the driver waits for the server.
const ENTRIES_MAX: u64 = 64;

/// Longest wait for what is on its way, or for upkeep.
const PATIENCE: Duration = Duration::from_secs(600);

pub struct Own;

impl Own {
    pub async fn measure(program: &Path, folder: &Path, load: &Load) -> anyhow::Result<Figures> {
        let (begin, end) = (load.begin / SECOND, load.end() / SECOND);
        let server = Server::start(program, folder, "[upkeep]\nenabled = false")?;
        let psql = Psql::new(program, folder)?;
        // Upkeep begins with this hour.
        let from = format!(
            "UPDATE internal.minute_state SET made_until = to_timestamp({begin}), noticed_until = to_timestamp({begin})"
        );
        psql.query(&from)?;
        let mut samples = 0;
        send(&server, load, &mut samples).await?;
        let taken = server.processor()?;
        let rows = psql.number(
            "SELECT coalesce(public.hypertable_size('internal.ib_port_counters'), 0) + coalesce(public.hypertable_size('internal.nvlink_counters'), 0)",
        )?;
        drop(server);
        // The hour has passed, and last values are of now: it still has its rows.
        let server = Server::start(program, folder, "[retention]\nrows_seconds = 21600")?;
        let psql = Psql::new(program, folder)?;
        let begun = Instant::now();
        let wanted = format!(
            "SELECT (blocks_until >= to_timestamp({end}) AND NOT EXISTS (SELECT FROM internal.block_wanted))::integer FROM internal.minute_state"
        );
        while psql.number(&wanted).unwrap_or(0.0) < 1.0 {
            ensure!(begun.elapsed() < PATIENCE, "upkeep has not packed the hour in {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let packed = server.processor()?;
        psql.query("VACUUM ANALYZE")?;
        let bytes = psql.number(
            "SELECT public.hypertable_size('internal.ib_port_blocks') + coalesce(public.hypertable_size('internal.nvlink_blocks'), 0)",
        )?;
        println!(
            "Throughline: rows of the hour {:.1} bytes a sample for as long as there are rows; processor seconds: ingest server {:.1} \
             database {:.1}, minutes and packing server {:.1} database {:.1}",
            rows / samples as f64,
            taken.0,
            taken.1,
            packed.0,
            packed.1
        );
        let queries = queries(&psql, begin, end)?;
        Ok(Figures {
            name: "Throughline".into(),
            bytes,
            samples: samples as f64,
            ingest: taken.0 + taken.1 + packed.0 + packed.1,
            queries,
        })
    }
}

async fn send(server: &Server, load: &Load, samples: &mut u64) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let outgoing = Outgoing::start(&format!("http://{}", server.collect), load.cluster.nodes, &stop)?;
    let (fabric, mut nodes) = load.makers();
    outgoing.crawled(fabric.inventory())?;
    for node in &mut nodes {
        let batch = node.inventory();
        outgoing.inventory(&node.name, &batch)?;
    }
    let begin = Instant::now();
    // Nodes before what others say of them.
    let until = |entries: u64| {
        while outgoing.waiting().entries > entries {
            ensure!(begin.elapsed() < PATIENCE, "the server has not taken all in {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    let all = tokio::task::block_in_place(|| {
        until(0)?;
        let mut all = 0;
        load.each(|node, batch| {
            all += count(&batch);
            if node.is_empty() {
                until(ENTRIES_MAX)?;
                return outgoing.crawled(vec![batch]);
            }
            outgoing.samples(node, &batch)
        })?;
        until(0)?;
        anyhow::Ok(all)
    })?;
    *samples = all;
    let lost = outgoing.waiting().lost;
    ensure!(lost == 0, "{lost} entries were dropped by spools");
    stop.cancel();
    Ok(())
}

fn count(batch: &throughline_sample::wire::Batch) -> u64 {
    let of = |values: &Option<throughline_sample::wire::Values>| {
        values.as_ref().map_or(0, |values| values.metric.len() as u64)
    };
    let ports: u64 = batch.ib_ports.iter().map(|sample| of(&sample.values)).sum();
    let links = batch.gpu_links.iter().flat_map(|sample| &sample.links);
    ports + links.map(|link| of(&link.values)).sum::<u64>()
}

fn queries(psql: &Psql, begin: i64, end: i64) -> anyhow::Result<Vec<Option<(usize, f64)>>> {
    let of_span = format!("m.time >= to_timestamp({begin}) AND m.time < to_timestamp({end})");
    let moved = "sum(m.transmit_bytes_per_second * m.seconds)";
    let statements = [
        format!(
            "SELECT k.id, l.time, l.transmit_data_bytes FROM internal.ib_port_key k CROSS JOIN LATERAL (SELECT time, transmit_data_bytes
             FROM internal.ib_port_counters WHERE port_id = k.id AND time > to_timestamp({end} - 75) AND time <= to_timestamp({end})
             ORDER BY time DESC LIMIT 1) l"
        ),
        format!("SELECT m.port_id, m.time, m.transmit_bytes_per_second FROM internal.ib_port_minutes m WHERE {of_span}"),
        format!("SELECT m.port_id, {moved} FROM internal.ib_port_minutes m WHERE {of_span} GROUP BY 1 ORDER BY 2 DESC LIMIT 10"),
        // Out of the packed hour.
        format!(
            "SELECT internal.packed_time(u.t), u.v FROM internal.ib_port_blocks b, unnest(internal.packed_integers(internal.packed_part(b.samples, b.metrics, b.offsets, -2)),
             internal.packed_integers(internal.packed_part(b.samples, b.metrics, b.offsets, 1))) AS u (t, v)
             WHERE b.port_id = 1 AND b.time = to_timestamp({begin})"
        ),
        format!(
            "SELECT j.key, {moved} FROM internal.run j JOIN internal.run_claim jn ON jn.job_id = j.id
             JOIN internal.node n ON n.node_id = jn.node_id AND n.valid_to IS NULL JOIN internal.ib_node_key nk ON nk.guid = ANY (n.hca_guids)
             JOIN internal.ib_port_key k ON k.ib_node_id = nk.id JOIN internal.ib_port_minutes m ON m.port_id = k.id WHERE {of_span}
             GROUP BY 1 ORDER BY 2 DESC"
        ),
    ];
    let timed = |sql: &String| {
        let (rows, seconds) = psql.timed(sql, RUNS)?;
        ensure!(rows > 0, "no answer: {sql}");
        Ok(Some((rows, seconds)))
    };
    statements.iter().map(timed).collect()
}
