//! Runs SQL as a dashboard may: in a read-only transaction with a time limit.

use crate::Error;
use crate::answers::{Answer, Column, ColumnKind};
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A panel that takes longer than this on the demo's data would not be usable on a site's.
const TIME_LIMIT: &str = "30s";

/// A connection that only reads.
#[derive(Debug)]
pub struct Sql {
    client: Client,
}

impl Sql {
    /// Connects to a server by URL or `key=value` text.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // Ends with the client; an error of the connection shows up at the next query.
        tokio::spawn(connection);
        Self::over(client).await
    }

    /// Uses a connection that is open already.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn over(client: Client) -> Result<Self, Error> {
        let settings = format!(
            "SET default_transaction_read_only = on; SET statement_timeout = '{TIME_LIMIT}'; SET timezone = 'UTC'"
        );
        client.batch_execute(&settings).await?;
        Ok(Self { client })
    }

    /// Runs one statement. The text is PostgreSQL's message with its hint, ready to be shown.
    pub async fn query(&self, statement: &str) -> Result<Answer, String> {
        // Preparing gives the columns and their types, also without rows; running as text spares decoding.
        let prepared = self.client.prepare(statement).await.map_err(|error| describe(&error))?;
        let columns: Vec<Column> = prepared
            .columns()
            .iter()
            .map(|column| Column { name: column.name().to_owned(), kind: kind_of(column.type_()) })
            .collect();
        let messages = self.client.simple_query(statement).await.map_err(|error| describe(&error))?;
        let rows = messages
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    Some((0..columns.len()).map(|at| row.get(at).map(str::to_owned)).collect())
                }
                _ => None,
            })
            .collect();
        Ok(Answer { columns, rows })
    }
}

fn kind_of(of: &Type) -> ColumnKind {
    let numbers = [Type::INT2, Type::INT4, Type::INT8, Type::FLOAT4, Type::FLOAT8, Type::NUMERIC];
    let times = [Type::TIMESTAMPTZ, Type::TIMESTAMP, Type::DATE];
    let texts = [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::BOOL, Type::UUID];
    if numbers.contains(of) {
        ColumnKind::Number
    } else if times.contains(of) {
        ColumnKind::Time
    } else if texts.contains(of) || matches!(of.kind(), Kind::Enum(_)) {
        ColumnKind::Text
    } else {
        ColumnKind::Other
    }
}

fn describe(error: &tokio_postgres::Error) -> String {
    let Some(error) = error.as_db_error() else { return error.to_string() };
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}: {}{hint}", error.code().code(), error.message())
}
