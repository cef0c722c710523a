//! In which annotated regions of a job's program its time in MPI was, as its nodes counted it.

use super::begins;
use crate::as_of::AsOf;
use std::collections::BTreeMap;
use throughline_api::account as api;
use throughline_store::Error;
use tokio_postgres::Client;

/// Regions of a response.
const REGIONS_MAX: usize = 100;

/// Those with the most time first, what is outside of all among them; none where the program names no region. `as_of` of a job that runs.
pub(super) async fn of_job(
    client: &Client,
    job: i64,
    as_of: Option<&AsOf>,
) -> Result<Vec<api::RegionAccount>, Error> {
    let sql = "SELECT n.region, n.operation, sum(n.elapsed_seconds)::float8
               FROM internal.mpi_node_op_cells($1, coalesce($2::timestamptz, 'infinity')) n GROUP BY 1, 2";
    let rows = client
        .query(sql, &[&job, &as_of.map(|as_of| as_of.until)])
        .await
        .map_err(Error::sql("reading in which regions operations were"))?;
    let mut regions: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for row in &rows {
        let seconds: f64 = row.get(2);
        let sums = regions.entry(row.get(0)).or_default();
        sums.0 += seconds;
        if begins(row.get(1)) {
            sums.1 += seconds;
        }
    }
    if regions.keys().all(String::is_empty) {
        return Ok(Vec::new());
    }
    let region = |(region, (mpi_seconds, starting_seconds))| api::RegionAccount {
        region,
        mpi_seconds,
        starting_seconds,
    };
    let mut regions: Vec<api::RegionAccount> = regions.into_iter().map(region).collect();
    regions.sort_by(|one, other| other.mpi_seconds.total_cmp(&one.mpi_seconds));
    regions.truncate(REGIONS_MAX);
    Ok(regions)
}
