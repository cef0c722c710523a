//! Connections of the reading role, a bounded number of them, open between queries. What is read by a loan is of one moment: it is one
//! transaction, and sees the database as it was when its first statement began.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ReadPath;
use throughline_store::{Database, Error};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::Client;

/// How long a new connection may take to take a setting.
const SETTING_LIMIT: Duration = Duration::from_secs(10);

/// Connections of readers to a database, or to its read replica while that is used.
#[derive(Debug)]
pub struct Pool {
    path: ReadPath,
    /// Longest time of one statement.
    limit: Duration,
    /// Whether answers are small: compiling their plans would take longer than running them.
    is_small: bool,
    permits: Semaphore,
    idle: Mutex<Idle>,
}

/// Connections that nobody uses.
#[derive(Debug, Default)]
struct Idle {
    primary: Vec<Client>,
    replica: Vec<Client>,
}

impl Idle {
    fn of(&mut self, is_replica: bool) -> &mut Vec<Client> {
        if is_replica { &mut self.replica } else { &mut self.primary }
    }
}

/// A connection on loan. Only one that was [released](PooledClient::release) is used again: any other may still be busy.
pub struct PooledClient<'a> {
    client: Option<Client>,
    database: Database,
    is_replica: bool,
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
    pub fn new(path: impl Into<ReadPath>, connections: usize, limit: Duration) -> Pool {
        let (permits, idle) = (Semaphore::new(connections), Mutex::default());
        Pool { path: path.into(), limit, is_small: false, permits, idle }
    }

    /// For many requests with small answers.
    #[must_use]
    pub fn for_small_answers(self) -> Pool {
        Pool { is_small: true, ..self }
    }

    /// Where the connections lead.
    #[must_use]
    pub fn path(&self) -> &ReadPath {
        &self.path
    }

    /// A connection, as soon as there is one; waits at most `patience`. Where the replica takes none, one to the primary.
    ///
    /// # Errors
    /// [`NoConnection`].
    pub async fn get(&self, patience: Duration) -> Result<PooledClient<'_>, NoConnection> {
        let permit = tokio::time::timeout(patience, self.permits.acquire()).await;
        let Ok(Ok(permit)) = permit else { return Err(NoConnection::Busy) };
        let loan = |client, database: &Database, is_replica| {
            let (client, database) = (Some(client), database.clone());
            Ok(PooledClient { client, database, is_replica, pool: self, _permit: permit })
        };
        if let Some(replica) = self.path.replica() {
            match self.open(replica, true).await {
                Ok(client) => return loan(client, replica, true),
                Err(error) => self.path.lost(&error.to_string()),
            }
        }
        let primary = self.path.primary();
        loan(self.open(primary, false).await?, primary, false)
    }

    /// An idle connection, else a new one, with the limits of reading.
    async fn open(&self, database: &Database, is_replica: bool) -> Result<Client, Error> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner).of(is_replica).pop();
        while let Some(client) = idle() {
            // A connection that was lost is found out by this.
            if !client.is_closed() && self.begin(&client).await.is_ok() {
                return Ok(client);
            }
        }
        let client = database.connect_reader().await?;
        self.begin(&client).await?;
        Ok(client)
    }

    /// Begins the transaction, with a limit of the time of its statements.
    async fn begin(&self, client: &Client) -> Result<(), Error> {
        let mut begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = {}",
            self.limit.as_millis()
        );
        if self.is_small {
            begin.push_str("; SET LOCAL jit = off");
        }
        let (what, limit) = ("beginning to read", self.limit.min(SETTING_LIMIT));
        let done = tokio::time::timeout(limit, client.batch_execute(&begin)).await;
        done.map_err(|_| Error::late(what, limit.as_secs()))?.map_err(Error::sql(what))
    }
}

impl PooledClient<'_> {
    /// The connection.
    #[must_use]
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// Whether it leads to a replica.
    #[must_use]
    pub fn is_replica(&self) -> bool {
        self.is_replica
    }

    /// It is idle: others may use it.
    pub async fn release(mut self) {
        let Some(client) = self.client.take() else { return };
        // Also of a transaction that failed: then it is rolled back.
        let ended = tokio::time::timeout(SETTING_LIMIT, client.batch_execute("COMMIT")).await;
        if !matches!(ended, Ok(Ok(()))) {
            return;
        }
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).of(self.is_replica).push(client);
    }
}

impl Drop for PooledClient<'_> {
    /// Whatever it still does is ended.
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        if client.is_closed() {
            if self.is_replica {
                self.pool.path.lost("it closed a connection");
            }
            return;
        }
        let (token, database) = (client.cancel_token(), self.database.clone());
        tokio::spawn(async move {
            // Without an answer the limit of time ends the statement.
            _ = database.cancel(token).await;
        });
    }
}
