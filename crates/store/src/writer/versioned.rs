//! Tables of rows with validity ranges: a row is ended when something in it changed, and a new one begins.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio_postgres::Transaction;

use super::{WriteError, failed};

/// A table of rows with validity ranges.
pub(super) struct VersionedTable {
    pub table: &'static str,
    /// Columns that identify the thing, with their types.
    pub key: &'static [(&'static str, &'static str)],
    /// Columns that may change, with their types.
    pub attributes: &'static [(&'static str, &'static str)],
}

impl VersionedTable {
    /// Ends and begins rows for what is new or changed, and gives back which rows those were.
    pub async fn apply(
        &self,
        transaction: &Transaction<'_>,
        mut rows: Vec<Value>,
    ) -> Result<Option<Value>, WriteError> {
        if rows.is_empty() {
            return Ok(None);
        }
        let what = format!("inventory: {}", self.table);
        let [find, statements @ ..] = self.statements();
        let all = Value::Array(rows.clone());
        let found = transaction.query(&find, &[&all]).await.map_err(failed(&what))?;
        if found.is_empty() {
            return Ok(None);
        }
        let changed: BTreeSet<i64> = found.iter().map(|row| row.get(0)).collect();
        let mut position = 0;
        rows.retain(|_| {
            position += 1; // as WITH ORDINALITY counts
            changed.contains(&position)
        });
        let rows = Value::Array(rows);
        for sql in statements {
            run(transaction, self.table, &sql, &rows).await?;
        }
        Ok(Some(rows))
    }

    /// Finding what is new or changed; correcting a row of the same time; ending a row; beginning one.
    fn statements(&self) -> [String; 4] {
        let Self { table, key, attributes } = self;
        let list = |start: &str, columns: &[(&str, &str)]| -> String {
            columns.iter().map(|(name, _)| format!("{start}{name}")).collect::<Vec<_>>().join(", ")
        };
        let typed: Vec<String> =
            key.iter().chain(*attributes).map(|(name, kind)| format!("{name} {kind}")).collect();
        // Of these the generation is noted apart: with each discovery it is another.
        let (generation, more, more_of_stage) = match *table {
            "ib_node" | "ib_multicast_group" => (", generation bigint", ", generation", ", s.generation"),
            _ => ("", "", ""),
        };
        let columns = format!("({}{generation}, at timestamptz)", typed.join(", "));
        let stage = format!("jsonb_to_recordset($1) AS s{columns}");
        let names = format!("{}, {}{more}, at", list("", key), list("", attributes));
        let same: Vec<String> = key.iter().map(|(name, _)| format!("t.{name} = s.{name}")).collect();
        let same = same.join(" AND ");
        let (ours, theirs) = (list("t.", attributes), list("s.", attributes));
        let differs = format!("ROW({ours}) IS DISTINCT FROM ROW({theirs})");
        let changed = format!("{same} AND t.valid_to IS NULL AND {differs}");
        let set: Vec<String> = attributes.iter().map(|(name, _)| format!("{name} = s.{name}")).collect();
        [
            format!(
                "SELECT s.position FROM ROWS FROM (jsonb_to_recordset($1) AS {columns}) WITH ORDINALITY \
                 AS s({names}, position) LEFT JOIN internal.{table} t ON {same} AND t.valid_to IS NULL \
                 WHERE t.valid_from IS NULL OR (t.valid_from <= s.at AND {differs})"
            ),
            format!(
                "UPDATE internal.{table} t SET {} FROM {stage} WHERE {changed} AND t.valid_from = s.at",
                set.join(", ")
            ),
            format!(
                "UPDATE internal.{table} t SET valid_to = s.at FROM {stage} WHERE {changed} AND t.valid_from < s.at"
            ),
            format!(
                "INSERT INTO internal.{table} ({}, {}{more}, valid_from) SELECT {}, {theirs}{more_of_stage}, s.at FROM {stage} \
                 WHERE NOT EXISTS (SELECT FROM internal.{table} t WHERE {same} AND (t.valid_to IS NULL OR t.valid_to > s.at)) \
                 ON CONFLICT DO NOTHING",
                list("", key),
                list("", attributes),
                list("s.", key),
            ),
        ]
    }
}

pub(super) async fn execute<K>(
    transaction: &Transaction<'_>,
    what: &str,
    sql: &str,
    rows: BTreeMap<K, Value>,
) -> Result<(), WriteError> {
    if rows.is_empty() {
        return Ok(());
    }
    run(transaction, what, sql, &Value::Array(rows.into_values().collect())).await
}

pub(super) async fn run(
    transaction: &Transaction<'_>,
    what: &str,
    sql: &str,
    rows: &Value,
) -> Result<(), WriteError> {
    let what = format!("inventory: {what}");
    transaction.execute(sql, &[rows]).await.map_err(failed(&what))?;
    Ok(())
}
