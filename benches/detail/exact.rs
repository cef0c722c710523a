//! What the ring has of the time that was requested, beside what the database has.

use std::path::Path;
use throughline_benches::psql::Psql;
use throughline_recorder::{Filter, Kind, read_folder};
use throughline_sample::wire::Batch;

/// Tables that were filled.
pub const TABLES: [&str; 5] =
    ["detail_mpi_bins", "detail_mpi_peers", "detail_host_ports", "detail_nvlink", "detail_gpu_pcie"];

/// Counts of cells and readings with sums over their values: whether both are the same.
pub fn compare(psql: &Psql, place: &Path, job: &str) -> anyhow::Result<bool> {
    let range = psql.query(
        "SELECT extract(epoch FROM since) * 1000000000, extract(epoch FROM until) * 1000000000 FROM internal.detail_request ORDER BY id",
    )?;
    let nanoseconds =
        |text: &str| -> anyhow::Result<i64> { Ok(text.split('.').next().unwrap_or(text).parse()?) };
    let times = |row: &[String]| -> anyhow::Result<std::ops::Range<i64>> {
        Ok(nanoseconds(&row[0])?..nanoseconds(&row[1])?)
    };
    let mut recorded = [0_i128; 8];
    let of_job = Filter { job_key: Some(job.to_owned()), ..Filter::default() };
    for batch in read_folder(place, times(&range[0])?, of_job)? {
        add_ranks(&batch?, &mut recorded);
    }
    let kinds = vec![Kind::HostPorts, Kind::GpuLinks, Kind::GpuPcie];
    for batch in read_folder(place, times(&range[1])?, Filter { kinds, ..Filter::default() })? {
        let batch = batch?;
        recorded[5] += batch.host_ports.len() as i128;
        recorded[6] += batch.gpu_links.len() as i128;
        recorded[7] += batch.gpu_pcie.len() as i128;
    }
    let sql = "SELECT (SELECT count(*) || '|' || sum(c.calls) || '|' || sum(c.bytes) || '|' || sum(c.elapsed) FROM internal.detail_mpi_bins m,
                unnest(m.calls, m.bytes, m.elapsed_nanoseconds) c (calls, bytes, elapsed)),
               (SELECT sum(b) FROM internal.detail_mpi_peers, unnest(bytes) b), (SELECT count(*) FROM internal.detail_host_ports),
               (SELECT count(*) FROM internal.detail_nvlink), (SELECT count(*) FROM internal.detail_gpu_pcie)";
    let stored = psql.query(sql)?;
    let stored: Vec<i128> = stored[0].iter().map(|text| text.parse().unwrap_or(-1)).collect();
    let is_same = recorded.as_slice() == stored.as_slice();
    println!("  recorder and database      {}: {stored:?}", if is_same { "the same" } else { "DIFFERENT" });
    if !is_same {
        println!("  the recorder has           {recorded:?}");
    }
    Ok(is_same)
}

fn add_ranks(batch: &Batch, sums: &mut [i128; 8]) {
    for cell in batch.mpi_ops.iter().flat_map(|bin| &bin.cells) {
        sums[0] += 1;
        sums[1] += i128::from(cell.calls);
        sums[2] += i128::from(cell.bytes);
        sums[3] += i128::from(cell.elapsed_nanoseconds);
    }
    let peers = batch.mpi_peers.iter().flat_map(|record| &record.cells);
    sums[4] += peers.map(|cell| i128::from(cell.bytes)).sum::<i128>();
}

/// Rows and bytes of each table, with its indexes and TOAST.
pub fn sizes(psql: &Psql) -> anyhow::Result<()> {
    for table in TABLES {
        let sql = format!(
            "SELECT (SELECT count(*) FROM {table}), coalesce(sum(pg_total_relation_size(format('%I.%I', chunk_schema, chunk_name))), 0)
             FROM timescaledb_information.chunks WHERE hypertable_name = '{table}'"
        );
        let found = psql.query(&sql)?;
        let figure = |at: usize| -> anyhow::Result<f64> { Ok(found[0][at].parse()?) };
        let (rows, bytes) = (figure(0)?, figure(1)?);
        println!(
            "  {table:<26} {rows:>8} rows, {:>8.2} MB, {:.0} bytes a row",
            bytes / 1e6,
            bytes / rows.max(1.0)
        );
    }
    Ok(())
}
