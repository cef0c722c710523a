//! Annotated regions: as a tree where they nest, else as a table.

use crate::job::part;
use crate::text::{Table, clean, percent, seconds, thousands};
use throughline_api::jobs::{Region, RegionPath};

/// Most regions on the page; all are in the JSON document.
const REGIONS_SHOWN: usize = 12;
/// Most paths of them on the page.
const PATHS_SHOWN: usize = 24;

/// The table as lines.
pub fn text(regions: &[Region], paths: &[RegionPath], width: usize) -> String {
    if paths.iter().any(|path| path.path.len() > 1) { tree(paths, width) } else { flat(regions, width) }
}

/// The paths with the most time, each below the one around it, which has no less.
fn tree(paths: &[RegionPath], width: usize) -> String {
    let mut times: Vec<f64> = paths.iter().map(|path| path.elapsed_seconds).collect();
    times.sort_by(|a, b| b.total_cmp(a));
    let least = times.get(PATHS_SHOWN - 1).copied().unwrap_or(0.0);
    let mut table = Table::new(&[
        "REGION",
        "<RANKS",
        "<VISITS",
        "<TIME",
        "<OWN TIME",
        "<MPI CALLS",
        "<MPI TIME",
        "<IN MPI",
    ]);
    let shown = paths.iter().filter(|path| path.elapsed_seconds >= least).take(PATHS_SHOWN);
    for path in shown.clone() {
        let name = path.path.last().map_or("", |name| name);
        let indent = "  ".repeat(path.path.len().saturating_sub(1).min(width / 8));
        table.row(vec![
            clean(&format!("{indent}{name}"), width / 3),
            thousands(path.ranks),
            thousands(path.visits),
            seconds(path.elapsed_seconds),
            seconds(path.own_seconds),
            thousands(path.mpi_calls),
            seconds(path.mpi_seconds),
            percent(part(path.mpi_seconds, path.elapsed_seconds)),
        ]);
    }
    let mut text: String = table.text().lines().map(|line| clean(line, width) + "\n").collect();
    let more = paths.len() - shown.count();
    if more > 0 {
        text.push_str(&format!("  and {more} with less time (--json has all)\n"));
    }
    text
}

fn flat(regions: &[Region], width: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &[&str], elapsed_seconds: f64, own_seconds: f64) -> RegionPath {
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        let mpi_seconds = elapsed_seconds / 4.0;
        RegionPath {
            path,
            ranks: 4,
            visits: 8,
            elapsed_seconds,
            own_seconds,
            mpi_seconds,
            ..RegionPath::default()
        }
    }

    #[test]
    fn regions_that_nest_are_a_tree() {
        let region = Region { region: "main".into(), ranks: 4, ..Region::default() };
        let paths = [path(&["main"], 8.0, 2.0), path(&["main", "solve"], 6.0, 6.0)];
        let text = text(std::slice::from_ref(&region), &paths, 100);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("OWN TIME"), "{text}");
        assert!(lines[1].trim_start().starts_with("main ") && lines[2].contains("  solve "), "{text}");
        assert!(
            lines[1].contains("8.00 s") && lines[1].contains("2.00 s") && lines[1].contains("25.0 %"),
            "{text}"
        );
        let flat = super::text(&[region], &paths[..1], 100);
        assert!(!flat.contains("OWN TIME") && flat.contains("main"), "{flat}");
    }

    #[test]
    fn a_large_tree_shows_what_takes_the_time() {
        let mut paths = vec![path(&["main"], 1000.0, 0.0)];
        let names: Vec<String> = (0..100).map(|number| format!("r{number}")).collect();
        paths.extend(names.iter().enumerate().map(|(n, name)| path(&["main", name], n as f64, 1.0)));
        let text = tree(&paths, 100);
        assert_eq!(text.lines().count(), 1 + PATHS_SHOWN + 1, "{text}");
        assert!(text.contains("r99") && !text.contains("r10 "), "{text}");
        assert!(text.ends_with("  and 77 with less time (--json has all)\n"), "{text}");
    }
}
