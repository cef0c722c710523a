//! A connection that is opened with its first use, and again after it was lost or too slow.

use std::time::Duration;

use tokio_postgres::Client;

use crate::database::Database;
use crate::error::Error;

/// One connection to a database, for statements that are made one after the other.
#[derive(Debug)]
pub(crate) struct LazyConnection {
    database: Database,
    client: Option<Client>,
}

impl LazyConnection {
    pub fn new(database: Database) -> Self {
        Self { database, client: None }
    }

    /// Does work within a time; `what` is for errors. After an error the next call connects anew: a transaction may be open.
    pub async fn with<T>(
        &mut self,
        what: &str,
        limit: Duration,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let all = async {
            let mut client = match self.client.take() {
                Some(client) if !client.is_closed() => client,
                _ => self.database.connect().await?,
            };
            let done = work(&mut client).await.map_err(Error::sql(what))?;
            self.client = Some(client);
            Ok(done)
        };
        let answer = tokio::time::timeout(limit, all).await;
        answer.unwrap_or_else(|_| Err(Error::late(what, limit.as_secs())))
    }
}
