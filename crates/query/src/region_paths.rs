//! A job's call tree: its annotated regions by the path of regions around them.

use crate::whole;
use std::collections::HashMap;
use throughline_api::jobs::RegionPath;
use throughline_store::Error;
use tokio_postgres::Client;

/// Paths that are listed, those with the most time: four times what one rank can have.
const LISTED: usize = 4096;

const PATHS: &str = "
    WITH state AS MATERIALIZED (SELECT internal.job_rows_gone($1, 'mpi_region_paths') AS is_gone)
    SELECT path, count(DISTINCT rank) AS ranks, internal.stored_total(sum(visits)) AS visits,
           coalesce(sum(elapsed_seconds), 0) AS elapsed_seconds, coalesce(sum(own_seconds), 0) AS own_seconds,
           internal.stored_total(sum(mpi_calls)) AS mpi_calls, coalesce(sum(mpi_seconds), 0) AS mpi_seconds
    FROM internal.mpi_path_totals WHERE job_id = $1 AND NOT (SELECT is_gone FROM state) GROUP BY path
    UNION ALL
    SELECT p->>0, (p->>1)::bigint, (p->>2)::bigint, (p->>3)::double precision, (p->>4)::double precision, (p->>5)::bigint,
           (p->>6)::double precision
    FROM internal.job_final f CROSS JOIN LATERAL json_array_elements(f.paths) AS rows (p)
    WHERE f.job_id = $1 AND (SELECT is_gone FROM state)
    ORDER BY elapsed_seconds DESC, path";

/// The paths of a job, each after the one around it, and how many are left out.
///
/// # Errors
/// The database's.
pub async fn of_job(client: &Client, id: i64) -> Result<(Vec<RegionPath>, u64), Error> {
    let rows =
        client.query(PATHS, &[&id]).await.map_err(Error::sql("summing the paths of regions of a job"))?;
    let path = |row: &tokio_postgres::Row| {
        let (own_mpi_calls, own_mpi_seconds) = (whole(row.get("mpi_calls")), row.get("mpi_seconds"));
        RegionPath {
            path: split(row.get("path")),
            ranks: whole(row.get("ranks")),
            visits: whole(row.get("visits")),
            elapsed_seconds: row.get("elapsed_seconds"),
            own_seconds: row.get("own_seconds"),
            mpi_calls: own_mpi_calls,
            mpi_seconds: own_mpi_seconds,
            own_mpi_calls,
            own_mpi_seconds,
        }
    };
    let mut tree = tree(rows.iter().map(path).collect());
    let left_out = leave_out(&mut tree, LISTED);
    Ok((tree, left_out))
}

/// The names of a path as it is stored.
fn split(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, names.last_mut()) {
            ('/', _) => names.push(String::new()),
            ('\\', Some(name)) => name.extend(characters.next()),
            (other, Some(name)) => name.push(other),
            (_, None) => {}
        }
    }
    names
}

/// Sums MPI up from the leaves, and puts each path after the one around it. Siblings keep their order.
fn tree(mut paths: Vec<RegionPath>) -> Vec<RegionPath> {
    let places: HashMap<Vec<String>, usize> =
        paths.iter().enumerate().map(|(place, path)| (path.path.clone(), place)).collect();
    // The path around each: the nearest one that there is.
    let around = |path: &RegionPath| {
        (1..path.path.len()).rev().find_map(|length| places.get(&path.path[..length]).copied())
    };
    let around: Vec<Option<usize>> = paths.iter().map(around).collect();
    let mut deepest: Vec<usize> = (0..paths.len()).collect();
    deepest.sort_by_key(|place| std::cmp::Reverse(paths[*place].path.len()));
    for place in deepest {
        if let Some(parent) = around[place] {
            let (calls, seconds) = (paths[place].mpi_calls, paths[place].mpi_seconds);
            paths[parent].mpi_calls = paths[parent].mpi_calls.saturating_add(calls);
            paths[parent].mpi_seconds += seconds;
        }
    }
    let mut within: Vec<Vec<usize>> = vec![Vec::new(); paths.len()];
    for (place, parent) in around.iter().enumerate() {
        if let Some(parent) = parent {
            within[*parent].push(place);
        }
    }
    let mut order = Vec::with_capacity(paths.len());
    let mut next: Vec<usize> = (0..paths.len()).rev().filter(|place| around[*place].is_none()).collect();
    while let Some(place) = next.pop() {
        order.push(place);
        next.extend(within[place].iter().rev());
    }
    order.into_iter().map(|place| std::mem::take(&mut paths[place])).collect()
}

/// Leaves out the paths with the least time, beyond `most`: a path has no more than the one around it, so that what stays is a
/// tree. Returns how many were left out.
fn leave_out(tree: &mut Vec<RegionPath>, most: usize) -> u64 {
    if tree.len() <= most {
        return 0;
    }
    let mut places: Vec<usize> = (0..tree.len()).collect();
    // Of equal ones those nearer to the root stay; a stable sort keeps the order of the tree.
    places.sort_by(|a, b| tree[*b].elapsed_seconds.total_cmp(&tree[*a].elapsed_seconds));
    let mut stays = vec![false; tree.len()];
    places[..most].iter().for_each(|place| stays[*place] = true);
    let left_out = tree.len() - most;
    let mut stays = stays.into_iter();
    tree.retain(|_| stays.next().unwrap_or(false));
    left_out as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str, elapsed_seconds: f64, own_mpi: u64) -> RegionPath {
        let (own_mpi_calls, own_mpi_seconds) = (own_mpi, own_mpi as f64);
        RegionPath {
            path: split(text),
            elapsed_seconds,
            mpi_calls: own_mpi_calls,
            mpi_seconds: own_mpi_seconds,
            own_mpi_calls,
            own_mpi_seconds,
            ..RegionPath::default()
        }
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(split("main"), ["main"]);
        assert_eq!(split("a/b/c"), ["a", "b", "c"]);
        assert_eq!(split(r"a\/b/c\\"), ["a/b", r"c\"]);
    }

    #[test]
    fn a_path_follows_the_one_around_it_and_has_its_mpi_summed() {
        let rows = vec![
            path("main", 9.0, 1),
            path("main/solve", 6.0, 2),
            path("main/solve/halo", 5.0, 8),
            path("io", 3.0, 16),
            path("main/init", 2.0, 0),
            // Nobody reported "lost".
            path("lost/found", 1.0, 4),
        ];
        let mut tree = tree(rows);
        let names: Vec<String> = tree.iter().map(|path| path.path.join("/")).collect();
        assert_eq!(names, ["main", "main/solve", "main/solve/halo", "main/init", "io", "lost/found"]);
        let calls: Vec<(u64, u64)> = tree.iter().map(|path| (path.mpi_calls, path.own_mpi_calls)).collect();
        assert_eq!(calls, [(11, 1), (10, 2), (8, 8), (0, 0), (16, 16), (4, 4)]);
        assert_eq!(tree[0].mpi_seconds, 11.0);
        assert_eq!(leave_out(&mut tree, 3), 3);
        let names: Vec<String> = tree.iter().map(|path| path.path.join("/")).collect();
        assert_eq!(names, ["main", "main/solve", "main/solve/halo"]);
        assert_eq!(leave_out(&mut tree, 3), 0);
    }
}
