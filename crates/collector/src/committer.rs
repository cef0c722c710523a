//! What the collector needs of a store; the store has it, and the tests have one in memory.

use std::future::Future;

use throughline_store::{Entry, TermClient, TermGrant, TermRequest, WriteOutcome, Writer};
use tokio::sync::Mutex;

/// Why a transaction did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The database is away, restarting or full: the same entries are tried again until they are in.
    #[error("the database does not take batches now: {0}")]
    Away(String),
    /// The database is there and refuses for a reason that may lie in one of the entries.
    #[error("the database refuses batches: {0}")]
    Refused(String),
}

/// Writes entries.
pub trait Committer: Send + 'static {
    /// Commits these entries, which are in order for each spool id, with their ledger rows. After `Ok` all of
    /// them are stored, known from before, or set aside, and may be acknowledged, but those that the outcome lists as
    /// denied or deferred.
    fn commit(&mut self, entries: &[Entry])
    -> impl Future<Output = Result<WriteOutcome, CommitError>> + Send;

    /// Commits an entry that was refused alone, without the records that are at fault.
    fn isolate(&mut self, entry: &Entry) -> impl Future<Output = Result<WriteOutcome, CommitError>> + Send;
}

fn cause(error: &throughline_store::Error) -> CommitError {
    if error.is_temporary() {
        CommitError::Away(error.to_string())
    } else {
        CommitError::Refused(error.to_string())
    }
}

impl Committer for Writer {
    async fn commit(&mut self, entries: &[Entry]) -> Result<WriteOutcome, CommitError> {
        self.write(entries).await.map_err(|error| cause(&error))
    }

    async fn isolate(&mut self, entry: &Entry) -> Result<WriteOutcome, CommitError> {
        Writer::isolate(self, entry).await.map_err(|error| cause(&error))
    }
}

/// Decides which of several crawlers of a fabric sweeps.
#[tonic::async_trait]
pub trait Leaser: Send + Sync + 'static {
    /// Grants, extends, refuses or releases.
    async fn ask(&self, request: &TermRequest) -> Result<TermGrant, CommitError>;
}

#[tonic::async_trait]
impl Leaser for Mutex<TermClient> {
    async fn ask(&self, request: &TermRequest) -> Result<TermGrant, CommitError> {
        let answer = self.lock().await.ask(request).await;
        answer.map_err(|error| CommitError::Away(error.to_string()))
    }
}
