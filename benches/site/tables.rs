//! Rows, bytes and disk by table: measured beside predicted.

use anyhow::Context;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use throughline_benches::site::cluster::Cluster;

/// What `throughline db size` says of one table.
struct Table {
    name: String,
    rows_per_second: f64,
    bytes_per_row: f64,
    /// Days for which rows are on disk.
    days: f64,
}

/// What `throughline db size` says of a cluster.
pub struct Prediction(Vec<Table>);

impl Prediction {
    pub fn of(program: &Path, cluster: &Cluster) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(["db", "size", "--json"]);
        let mut option = |name: &str, value: String| {
            command.args([name, &value]);
        };
        option("--nodes", cluster.nodes.to_string());
        option("--ranks", cluster.ranks.to_string());
        option("--ports", cluster.ports.to_string());
        option("--host-ports", cluster.adapters.to_string());
        option("--port-seconds", cluster.port_seconds.to_string());
        if cluster.all_gpus() > 0 {
            option("--gpus", cluster.all_gpus().to_string());
            option("--links", cluster.links.to_string());
        }
        let output = command.output().with_context(|| program.display().to_string())?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let tables = document["tables"].as_array().context("tables in `db size --json`")?;
        let table = |of: &serde_json::Value| {
            let number = |key: &str| of[key].as_f64().unwrap_or(0.0);
            let a_day = number("bytes_per_day");
            Table {
                name: of["table"].as_str().unwrap_or_default().to_owned(),
                rows_per_second: number("rows_per_second"),
                bytes_per_row: number("bytes_per_row"),
                days: if a_day > 0.0 { number("bytes") / a_day } else { 0.0 },
            }
        };
        Ok(Self(tables.iter().map(table).collect()))
    }
}

/// Prints a line for each table that has rows or should have some, for the whole site: measured rows are `scale` times those
/// of this run. What has no rows yet, because upkeep makes them of whole hours, is as predicted.
pub fn print(rates: &BTreeMap<String, f64>, bytes: &BTreeMap<String, f64>, all: &Prediction, scale: u64) {
    let scale = scale as f64;
    println!();
    println!(
        "{:<22}{:>10}{:>11}{:>11}{:>11}{:>11}{:>9}{:>11}{:>11}",
        "whole site",
        "rows/s",
        "predicted",
        "bytes/row",
        "predicted",
        "GB a day",
        "days",
        "GB on disk",
        "predicted"
    );
    let (mut written, mut sums) = (0.0, [0.0; 5]);
    for table in &all.0 {
        let predicted = [table.rows_per_second * scale, table.bytes_per_row];
        let rows = rates.get(&table.name).map(|rate| rate * scale);
        if rows.is_none() && predicted[0] == 0.0 {
            continue;
        }
        let size = bytes.get(&table.name).copied();
        let a_day = rows.unwrap_or(predicted[0]) * size.unwrap_or(predicted[1]) * 86_400.0 / 1e9;
        let disk = [a_day * table.days, predicted[0] * predicted[1] * 86_400.0 * table.days / 1e9];
        println!(
            "{:<22}{:>10}{:>11.0}{:>11}{:>11.0}{:>11.2}{:>9.1}{:>11.1}{:>11.1}",
            table.name,
            rows.map_or("-".into(), |rows| format!("{rows:.0}")),
            predicted[0],
            size.map_or("-".into(), |size| format!("{size:.0}")),
            predicted[1],
            a_day,
            table.days,
            disk[0],
            disk[1]
        );
        written += rows.unwrap_or(0.0);
        for (sum, more) in sums.iter_mut().zip([predicted[0], a_day, disk[0], disk[1], 0.0]) {
            *sum += more;
        }
    }
    println!(
        "{:<22}{written:>10.0}{:>11.0}{:>11}{:>11}{:>11.2}{:>9}{:>11.1}{:>11.1}",
        "all", sums[0], "", "", sums[1], "", sums[2], sums[3]
    );
}
