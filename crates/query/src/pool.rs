//! Connections of the reading role, a bounded number of them, open between queries.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use throughline_store::{Database, Error};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::Client;

/// How long a new connection may take to take a setting.
const SETTING_LIMIT: Duration = Duration::from_secs(10);

/// Connections to a database, as reader.
#[derive(Debug)]
pub struct Pool {
    database: Database,
    /// Longest time of one statement.
    limit: Duration,
    /// Whether answers are small: compiling their plans would take longer than running them.
    is_small: bool,
    permits: Semaphore,
    idle: Mutex<Vec<Client>>,
}

/// A connection on loan. Only one that was [released](PooledClient::release) is used again: any other may still be busy.
pub struct PooledClient<'a> {
    client: Option<Client>,
    pool: &'a Pool,
    _permit: SemaphorePermit<'a>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum NoConnection {
    /// All are in use.
    #[error("all of the server's connections for queries are in use")]
    Busy,
    /// The database's reason.
    #[error(transparent)]
    Database(#[from] Error),
}

impl Pool {
    /// At most so many connections; a statement ends after `limit`.
    #[must_use]
    pub fn new(database: Database, connections: usize, limit: Duration) -> Pool {
        let (permits, idle) = (Semaphore::new(connections), Mutex::default());
        Pool { database, limit, is_small: false, permits, idle }
    }

    /// For many requests with small answers.
    #[must_use]
    pub fn for_small_answers(self) -> Pool {
        Pool { is_small: true, ..self }
    }

    /// A connection, as soon as there is one; waits at most `patience`.
    ///
    /// # Errors
    /// [`NoConnection`].
    pub async fn get(&self, patience: Duration) -> Result<PooledClient<'_>, NoConnection> {
        let permit = tokio::time::timeout(patience, self.permits.acquire()).await;
        let Ok(Ok(permit)) = permit else { return Err(NoConnection::Busy) };
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(client) = idle() {
            if !client.is_closed() {
                return Ok(PooledClient { client: Some(client), pool: self, _permit: permit });
            }
        }
        let client = self.database.connect_reader().await?;
        let mut setting = format!("SET statement_timeout = {}", self.limit.as_millis());
        if self.is_small {
            setting.push_str("; SET jit = off");
        }
        let what = "limiting the time of queries";
        let set = tokio::time::timeout(SETTING_LIMIT, client.batch_execute(&setting)).await;
        set.map_err(|_| Error::late(what, SETTING_LIMIT.as_secs()))?.map_err(Error::sql(what))?;
        Ok(PooledClient { client: Some(client), pool: self, _permit: permit })
    }
}

impl PooledClient<'_> {
    /// The connection.
    #[must_use]
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// It is idle: others may use it.
    pub fn release(mut self) {
        if let Some(client) = self.client.take() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        }
    }
}

impl Drop for PooledClient<'_> {
    /// Whatever it still does is ended.
    fn drop(&mut self) {
        if let Some(client) = self.client.take().filter(|client| !client.is_closed()) {
            let (token, database) = (client.cancel_token(), self.pool.database.clone());
            tokio::spawn(async move {
                // Without an answer the limit of time ends the statement.
                _ = database.cancel(token).await;
            });
        }
    }
}
