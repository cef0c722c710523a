//! The time in which rows of a job lie, as constants of a statement: chunks outside of it are then no part of the plan.

use throughline_store::Error;
use tokio_postgres::Client;

/// From when to when, as SQL.
pub(crate) struct Span {
    since: String,
    until: String,
}

impl Span {
    /// Queries the database.
    ///
    /// # Errors
    /// The database's.
    pub async fn of_job(client: &Client, job: i64) -> Result<Span, Error> {
        let sql = "SELECT quote_literal(since::text) || '::timestamptz', quote_literal(ending::text) || '::timestamptz' \
                   FROM internal.job_span($1)";
        let row = client.query_one(sql, &[&job]).await.map_err(Error::sql("reading when a job ran"))?;
        Ok(Span { since: row.get(0), until: row.get(1) })
    }

    /// A statement with these times in place of the words SINCE and UNTIL.
    pub fn within(&self, sql: &str) -> String {
        sql.replace("SINCE", &self.since).replace("UNTIL", &self.until)
    }
}
