//! The table of annotated regions.

use crate::job::cells::part;
use crate::job::summary::whole;
use crate::reader::SCHEMA;
use crate::text::{Table, clean, percent, seconds, thousands};
use anyhow::Context;
use serde::Serialize;
use tokio_postgres::Client;

/// Most regions on the page; all are in the JSON document.
const REGIONS_SHOWN: usize = 12;

/// One region of the program over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Region {
    /// Its name.
    pub region: String,
    /// Ranks that entered it.
    pub ranks: u64,
    /// How often it was entered.
    pub visits: u64,
    /// Time in it, summed over ranks.
    pub elapsed_seconds: f64,
    /// MPI calls in it and in no inner region.
    pub mpi_calls: Option<u64>,
    /// Time inside them.
    pub mpi_seconds: Option<f64>,
}

const REGIONS: &str = "
    SELECT region, count(DISTINCT rank) AS ranks, stored_total(sum(visits)) AS visits,
           coalesce(sum(elapsed_seconds), 0) AS elapsed_seconds,
           stored_total(sum(mpi_calls)) AS mpi_calls, sum(mpi_seconds) AS mpi_seconds
    FROM mpi_region_totals WHERE job_id = $1
    GROUP BY region ORDER BY mpi_seconds DESC NULLS LAST, elapsed_seconds DESC, region";

/// Reads them, those with the most MPI time first.
///
/// # Errors
/// The database is gone.
pub async fn read(client: &Client, id: i32) -> anyhow::Result<Vec<Region>> {
    let mut regions = Vec::new();
    for row in client.query(REGIONS, &[&id]).await.context(SCHEMA)? {
        regions.push(Region {
            region: row.try_get("region")?,
            ranks: whole(&row, "ranks")?.unwrap_or_default(),
            visits: whole(&row, "visits")?.unwrap_or_default(),
            elapsed_seconds: row.try_get("elapsed_seconds")?,
            mpi_calls: whole(&row, "mpi_calls")?,
            mpi_seconds: row.try_get("mpi_seconds")?,
        });
    }
    Ok(regions)
}

/// The table as lines.
pub fn text(regions: &[Region], width: usize) -> String {
    let mut table =
        Table::new(&["REGION", "<RANKS", "<VISITS", "<TIME", "<MPI CALLS", "<MPI TIME", "<IN MPI"]);
    for region in regions.iter().take(REGIONS_SHOWN) {
        let inside = region.mpi_seconds.and_then(|inside| part(inside, region.elapsed_seconds));
        table.row(vec![
            clean(&region.region, width / 3),
            thousands(region.ranks),
            thousands(region.visits),
            seconds(region.elapsed_seconds),
            region.mpi_calls.map_or("-".to_owned(), thousands),
            region.mpi_seconds.map_or("-".to_owned(), seconds),
            percent(inside),
        ]);
    }
    let mut text: String = table.text().lines().map(|line| clean(line, width) + "\n").collect();
    if regions.len() > REGIONS_SHOWN {
        text.push_str(&format!("  and {} with less MPI time\n", regions.len() - REGIONS_SHOWN));
    }
    text
}
