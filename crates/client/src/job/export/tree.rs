//! A job as Hatchet's literal tree: the job, its annotated regions, and the operations in each.
//!
//! The form is that of `GraphFrame.from_literal` (Hatchet's documentation, "Supported data formats"): nodes with `frame`, `metrics` and
//! `children`. `time (inc)` is inclusive and `time` exclusive, in seconds summed over ranks.

use super::rows::{Counts, Rows};
use crate::Server;
use crate::job::output::Output;
use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use throughline_api::jobs::{JobDetail, Region};

/// `GET /jobs/{job}/regions`, as far as it is used.
#[derive(Deserialize)]
struct Regions {
    regions: Vec<Region>,
    /// Of a server that knows which region is in which.
    #[serde(default)]
    paths: Vec<Path>,
}

/// Regions around each other, from the outermost to the innermost one.
#[derive(Clone, Debug, Deserialize)]
struct Path {
    path: Vec<String>,
    visits: u64,
    elapsed_seconds: f64,
    own_seconds: f64,
    own_mpi_calls: u64,
    own_mpi_seconds: f64,
}

/// Operations by their innermost region.
type ByRegion = BTreeMap<String, BTreeMap<String, Counts>>;

/// Writes the tree.
pub fn write(
    server: &Server,
    detail: &JobDetail,
    rows: Rows<'_>,
    is_wanted: impl Fn(i32) -> bool,
    out: &mut Output,
) -> anyhow::Result<()> {
    let regions: Regions = server.get(&["jobs", rows.key, "regions"], &[])?;
    let mut operations = ByRegion::new();
    rows.each(is_wanted, |row| {
        let of_region = operations.entry(row.cell.region.clone()).or_default();
        let sum = of_region.entry(row.cell.operation.clone()).or_default();
        sum.calls = sum.calls.saturating_add(row.counts.calls);
        sum.bytes = sum.bytes.saturating_add(row.counts.bytes);
        sum.elapsed_seconds += row.counts.elapsed_seconds;
        Ok(())
    })?;
    let observed = detail.job.totals.and_then(|totals| totals.observed_seconds);
    let tree = tree(&detail.job.job_key, observed, &regions, &operations);
    serde_json::to_writer_pretty(out, &json!([tree])).context("writing the file")
}

/// The job as the root. Ranks' time that is in no region and in no operation is its own.
fn tree(key: &str, observed: Option<f64>, regions: &Regions, operations: &ByRegion) -> Value {
    let mut children = if regions.paths.is_empty() {
        regions.regions.iter().map(|region| flat(region, operations)).collect()
    } else {
        let all: Vec<&Path> = regions.paths.iter().collect();
        below(&[], &all, operations)
    };
    children.extend(leaves(operations.get("")));
    let inner: f64 = children.iter().map(inclusive).sum();
    // Threads may be in regions at once: no root is shorter than what is in it.
    let all = observed.unwrap_or(inner).max(inner);
    node(key, "job", all, all - inner, None, None, children)
}

/// A region whose surrounding region is not known: beside the others, without those in it.
fn flat(region: &Region, operations: &ByRegion) -> Value {
    let children: Vec<Value> = leaves(operations.get(&region.region));
    let inner: f64 = children.iter().map(inclusive).sum();
    let all = region.elapsed_seconds.max(inner);
    node(&region.region, "region", all, all - inner, Some(region.visits), None, children)
}

/// Regions just within a path.
fn below(around: &[String], paths: &[&Path], operations: &ByRegion) -> Vec<Value> {
    let is_child = |path: &&&Path| path.path.len() == around.len() + 1 && path.path.starts_with(around);
    let children = paths.iter().filter(is_child);
    let region = |path: &&Path| {
        let Some(name) = path.path.last() else { return Value::Null };
        let mut children = below(&path.path, paths, operations);
        // Operations are counted by the innermost region: of one that is in several places it is not known which had which.
        let is_once = paths.iter().filter(|other| other.path.last() == Some(name)).count() == 1;
        let known = operations.get(name).filter(|_| is_once);
        let own = match known {
            Some(_) => leaves(known),
            None if path.own_mpi_calls > 0 => {
                let seconds = path.own_mpi_seconds;
                vec![node("MPI", "operation", seconds, seconds, Some(path.own_mpi_calls), None, Vec::new())]
            }
            None => Vec::new(),
        };
        let inner: f64 = own.iter().map(inclusive).sum();
        children.extend(own);
        node(
            name,
            "region",
            path.elapsed_seconds,
            (path.own_seconds - inner).max(0.0),
            Some(path.visits),
            None,
            children,
        )
    };
    children.map(region).collect()
}

/// Operations.
fn leaves(operations: Option<&BTreeMap<String, Counts>>) -> Vec<Value> {
    let leaf = |(name, counts): (&String, &Counts)| {
        let seconds = counts.elapsed_seconds;
        let (calls, bytes) = (counts.calls.unsigned_abs(), counts.bytes);
        node(
            &format!("MPI_{}", capitalized(name)),
            "operation",
            seconds,
            seconds,
            Some(calls),
            Some(bytes),
            Vec::new(),
        )
    };
    operations.into_iter().flatten().map(leaf).collect()
}

/// As MPI writes it: `allreduce` as `Allreduce`.
fn capitalized(name: &str) -> String {
    let mut characters = name.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + characters.as_str())
}

fn inclusive(node: &Value) -> f64 {
    node["metrics"]["time (inc)"].as_f64().unwrap_or(0.0)
}

/// A node. Hatchet wants the same metrics in each: those that a node has not are 0.
fn node(
    name: &str,
    kind: &str,
    inclusive: f64,
    exclusive: f64,
    calls: Option<u64>,
    bytes: Option<i64>,
    children: Vec<Value>,
) -> Value {
    json!({
        "frame": { "name": name, "type": kind },
        "metrics": {
            "time": exclusive.max(0.0), "time (inc)": inclusive, "calls": calls.unwrap_or(0), "bytes": bytes.unwrap_or(0),
        },
        "children": children,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations() -> ByRegion {
        let counts = |seconds| Counts { calls: 2, bytes: 16, elapsed_seconds: seconds, ..Counts::default() };
        let of = |operation: &str, seconds| BTreeMap::from([(operation.to_owned(), counts(seconds))]);
        BTreeMap::from([
            (String::new(), of("barrier", 1.0)),
            ("solve".to_owned(), of("allreduce", 2.0)),
            ("io".to_owned(), of("send", 0.5)),
        ])
    }

    fn names(of: &Value) -> Vec<&str> {
        of["children"]
            .as_array()
            .unwrap()
            .iter()
            .map(|child| child["frame"]["name"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn regions_stand_in_each_other_and_operations_in_the_innermost() {
        let path = |path: &[&str], elapsed_seconds, own_seconds, own_mpi_seconds| Path {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            visits: 1,
            elapsed_seconds,
            own_seconds,
            own_mpi_calls: 3,
            own_mpi_seconds,
        };
        let paths = vec![
            path(&["solve"], 6.0, 4.0, 2.0),
            path(&["solve", "io"], 2.0, 2.0, 0.25),
            path(&["io"], 1.0, 1.0, 0.25),
        ];
        let root = tree("j", Some(10.0), &Regions { regions: Vec::new(), paths }, &operations());
        assert_eq!(names(&root), ["solve", "io", "MPI_Barrier"]);
        assert_eq!(
            (root["metrics"]["time"].as_f64(), root["metrics"]["time (inc)"].as_f64()),
            (Some(2.0), Some(10.0))
        );
        let solve = &root["children"][0];
        assert_eq!(names(solve), ["io", "MPI_Allreduce"]);
        assert_eq!(solve["metrics"]["time"], json!(2.0));
        // In two places: the time is known of each, the operations are not.
        assert_eq!((names(&solve["children"][0]), names(&root["children"][1])), (vec!["MPI"], vec!["MPI"]));
        assert_eq!(solve["children"][0]["metrics"]["time"], json!(1.75));
    }

    #[test]
    fn without_paths_regions_are_beside_each_other() {
        let region = Region { region: "solve".into(), visits: 4, elapsed_seconds: 5.0, ..Region::default() };
        let root = tree("j", None, &Regions { regions: vec![region], paths: Vec::new() }, &operations());
        assert_eq!(names(&root), ["solve", "MPI_Barrier"]);
        assert_eq!(root["metrics"]["time (inc)"], json!(6.0));
        assert_eq!(
            root["children"][0]["metrics"],
            json!({"time": 3.0, "time (inc)": 5.0, "calls": 4, "bytes": 0})
        );
    }
}
