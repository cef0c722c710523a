//! The table of annotated regions.

use crate::job::part;
use crate::text::{Table, clean, percent, seconds, thousands};
use throughline_api::jobs::Region;

/// Most regions on the page; all are in the JSON document.
const REGIONS_SHOWN: usize = 12;

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
