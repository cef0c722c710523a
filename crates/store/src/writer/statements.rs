//! COPY statements, prepared once per connection, and the sending of their rows.

use std::collections::HashMap;
use std::pin::pin;

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::{Statement, Transaction};

use super::{COPY_CHUNK_BYTES, WriteError, failed};
use crate::copy::RowBuffer;
use crate::tables::StoredTable;

/// Prepared statements of one connection.
#[derive(Default)]
pub(super) struct Statements {
    copies: HashMap<&'static str, Statement>,
}

impl Statements {
    /// COPY into the table itself. A row that is there already breaks the transaction.
    pub async fn copy(
        &mut self,
        transaction: &Transaction<'_>,
        table: &StoredTable,
        rows: RowBuffer,
    ) -> Result<u64, WriteError> {
        let what = format!("copying rows to {}", table.name);
        let statement = match self.copies.get(table.name) {
            Some(statement) => statement.clone(),
            None => {
                let text = format!(
                    "COPY internal.{} ({}) FROM STDIN (FORMAT binary)",
                    table.name,
                    table.copied().join(", ")
                );
                let statement = transaction.prepare(&text).await.map_err(failed(&what))?;
                self.copies.insert(table.name, statement.clone());
                statement
            }
        };
        send(transaction, &statement, rows, &what).await
    }

    /// COPY into a table of the transaction's own, then those rows that are not there yet.
    pub async fn copy_staged(
        &mut self,
        transaction: &Transaction<'_>,
        table: &StoredTable,
        rows: RowBuffer,
    ) -> Result<u64, WriteError> {
        let what = format!("staging rows for {}", table.name);
        let (name, columns) = (table.name, table.copied().join(", "));
        let create = format!(
            "CREATE TEMP TABLE staged_{name} (LIKE internal.{name} INCLUDING DEFAULTS) ON COMMIT DROP"
        );
        transaction.batch_execute(&create).await.map_err(failed(&what))?;
        let text = format!("COPY staged_{name} ({columns}) FROM STDIN (FORMAT binary)");
        let statement = transaction.prepare(&text).await.map_err(failed(&what))?;
        send(transaction, &statement, rows, &what).await?;
        let insert = format!(
            "INSERT INTO internal.{name} ({columns}) SELECT {columns} FROM staged_{name} ON CONFLICT DO NOTHING"
        );
        let rows = transaction.execute(&insert, &[]).await.map_err(failed(&what))?;
        // Records of one entry may come in parts within one transaction.
        let drop = format!("DROP TABLE staged_{name}");
        transaction.batch_execute(&drop).await.map_err(failed(&what))?;
        Ok(rows)
    }
}

async fn send(
    transaction: &Transaction<'_>,
    statement: &Statement,
    rows: RowBuffer,
    what: &str,
) -> Result<u64, WriteError> {
    let mut bytes: Bytes = rows.finish();
    let mut sink = pin!(transaction.copy_in::<_, Bytes>(statement).await.map_err(failed(what))?);
    while !bytes.is_empty() {
        let chunk = bytes.split_to(bytes.len().min(COPY_CHUNK_BYTES));
        sink.feed(chunk).await.map_err(failed(what))?;
    }
    sink.finish().await.map_err(failed(what))
}
