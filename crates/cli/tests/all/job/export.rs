//! `throughline job export` on a real program whose calls are known.

use super::*;
use std::collections::BTreeMap;

const ROUNDS: u64 = 10;

/// Calls by operation of a table.
fn calls(csv: &str) -> BTreeMap<String, u64> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let column = |name: &str| names.iter().position(|known| *known == name).unwrap();
    let (operation, count) = (column("operation"), column("calls"));
    let mut sums = BTreeMap::new();
    for line in lines {
        *sums.entry(line[operation].to_owned()).or_default() += line[count].parse::<u64>().unwrap();
    }
    sums
}

/// Table, steps and tree hold each call of each rank once, as `job show` counts them.
#[tokio::test(flavor = "multi_thread")]
async fn tables_and_trees_hold_all_calls() {
    let stack = Stack::start().await;
    let job = stack.run("openmpi", ROUNDS);
    let table = stack.text(&["export", "last"]);
    let sums = calls(&table);
    let shown: BTreeMap<String, u64> = job["job"]["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["operation"].as_str().unwrap().to_owned(), one["calls"].as_u64().unwrap()))
        .collect();
    assert_eq!(sums, shown);
    assert!(sums["allreduce"] == RANKS * ROUNDS, "{sums:?}");
    let one = calls(&stack.text(&["export", "last", "--ranks", "2"]));
    assert_eq!(one["allreduce"], ROUNDS);

    let steps = stack.json(&["export", "last", "--format", "json", "--step", "0.1"]);
    assert_eq!((&steps["job_key"], &steps["step_seconds"]), (&super::key(&job).into(), &0.1.into()));
    let rows = steps["rows"].as_array().unwrap();
    let of = rows.iter().filter(|row| row["operation"] == "allreduce");
    assert_eq!(of.map(|row| row["calls"].as_u64().unwrap()).sum::<u64>(), RANKS * ROUNDS);
    assert!(rows.iter().all(|row| row["time"].as_str().unwrap().ends_with('Z') && row["host"] == "n1"));
    // What completes nothing later is not 0.
    assert!(rows.iter().any(|row| row["wait_seconds"].is_null()), "{rows:?}");

    let tree = stack.json(&["export", "last", "--format", "hatchet"]);
    let mut waiting = vec![&tree[0]];
    let mut found = 0;
    while let Some(node) = waiting.pop() {
        let metrics = &node["metrics"];
        assert!(
            metrics["time"].as_f64().unwrap() <= metrics["time (inc)"].as_f64().unwrap() + 1e-9,
            "{node}"
        );
        if node["frame"]["name"] == "MPI_Allreduce" {
            found += metrics["calls"].as_u64().unwrap();
        }
        waiting.extend(node["children"].as_array().unwrap());
    }
    assert_eq!(found, RANKS * ROUNDS, "{tree}");

    let path = stack.folder.path().join("table.csv");
    let file = path.to_str().unwrap();
    stack.text(&["export", "last", "-o", file]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), table);
    let again = stack.job(&["export", "last", "-o", file]);
    let with_steps = stack.job(&["export", "last", "--format", "hatchet", "--step", "1"]);
    assert_eq!((again.status.code(), with_steps.status.code()), (Some(64), Some(64)));
}
