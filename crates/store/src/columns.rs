//! Columns of metrics: the catalogue has one for each metric, and each start adds those that a table lacks, all of them to
//! a new table. So a counter that a release adds needs no migration. Rows from before have NULL in it: it was not read. Nothing is removed here,
//! and migrations run before, so that they cannot refer to a column that only this file makes.

use tokio_postgres::{Error, Transaction};

use throughline_sample::catalogue::{Metric, Table};

use crate::tables::hypertables;

/// The SQL type of a metric's column.
fn sql_type(table: Table, metric: &Metric) -> String {
    let element = if metric.is_fractional() { "double precision" } else { "bigint" };
    format!("{element}{}", if table.has_arrays() { "[]" } else { "" })
}

/// Adds the columns that are missing, in the catalogue's order, and returns how many. Without a default, so that no row
/// is written anew and tables with compressed chunks take it too.
pub(crate) async fn add_missing(transaction: &Transaction<'_>) -> Result<usize, Error> {
    let query = "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
                 WHERE c.relnamespace = 'internal'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 \
                 AND NOT a.attisdropped";
    let rows = transaction.query(query, &[]).await?;
    let is_there = |table: &str, column: &str| {
        rows.iter().any(|row| row.get::<_, &str>(0) == table && row.get::<_, &str>(1) == column)
    };
    let mut statements = Vec::new();
    let with_metrics = hypertables().filter_map(|(table, chunks)| Some((table.name, chunks.metrics?)));
    for (name, table) in with_metrics {
        for metric in table.metrics().iter().filter(|metric| !is_there(name, metric.name)) {
            let kind = sql_type(table, metric);
            statements.push(format!("ALTER TABLE internal.{name} ADD COLUMN {} {kind};", metric.name));
        }
    }
    transaction.batch_execute(&statements.concat()).await?;
    Ok(statements.len())
}

#[cfg(test)]
mod tests {
    use throughline_sample::catalogue::{
        GPU_METRIC_VALUE, NVLINK_TRANSMIT_BYTES, REGION_ELAPSED_SECONDS, TRANSMIT_WAIT,
    };

    use super::*;

    #[test]
    fn types_follow_the_unit_and_the_shape_of_the_table() {
        assert_eq!(sql_type(Table::IbPortCounters, &TRANSMIT_WAIT), "bigint");
        assert_eq!(sql_type(Table::NvlinkCounters, &NVLINK_TRANSMIT_BYTES), "bigint[]");
        assert_eq!(sql_type(Table::MpiRegions, &REGION_ELAPSED_SECONDS), "double precision");
        assert_eq!(sql_type(Table::GpuMetrics, &GPU_METRIC_VALUE), "double precision");
    }
}
