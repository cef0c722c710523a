//! What a destination of entries must offer. Another transport (a message queue between agents and
//! collectors) implements [`Sink`] and nothing else changes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use throughline_spool::Entry;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Everything of `spool_id` up to `sequence` that this session was given is committed, without what was refused before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Whose entries.
    pub spool_id: Uuid,
    /// The highest of them.
    pub sequence: u64,
}

/// An entry that the destination's configuration forbids to store. It may be stored once that is corrected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Whose entry.
    pub spool_id: Uuid,
    /// Which one.
    pub sequence: u64,
    /// What has to be corrected, for people.
    pub reason: String,
}

/// What a destination says about entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// They are stored.
    Stored(Ack),
    /// One is not.
    Refused(Refusal),
}

/// What a session does when an entry is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRefusal {
    /// It says so and continues with the entries behind it.
    Continue,
    /// It ends, and stores nothing of what is behind it.
    End,
}

/// Why delivery stopped, as counted in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No connection could be made.
    Connect,
    /// An established connection broke or its stream ended.
    Lost,
    /// The other side refused with a status that says so.
    Refused,
    /// The other side is there and acknowledges nothing.
    Silent,
    /// The other side acknowledged what it was never sent.
    Protocol,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 5] =
        [Reason::Connect, Reason::Lost, Reason::Refused, Reason::Silent, Reason::Protocol];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Connect => "no connection",
            Reason::Lost => "connection lost",
            Reason::Refused => "refused",
            Reason::Silent => "no acknowledgement in time",
            Reason::Protocol => "wrong acknowledgement",
        })
    }
}

/// A failed session; a new one is tried after a pause.
#[derive(Debug, thiserror::Error)]
#[error("delivery to {to}: {reason}: {detail}")]
pub struct SinkError {
    /// The destination.
    pub to: String,
    /// For counting.
    pub reason: Reason,
    /// For people.
    pub detail: String,
}

/// A connection to a destination. Entries go in at one end, in order; answers come out at the
/// other. Dropping it ends the connection.
#[derive(Debug)]
pub struct Session {
    /// Takes entries; waits while the destination's flow control says so; closed when the session is over.
    pub entries: mpsc::Sender<Entry>,
    /// Answers in the order of the entries, then at most one error.
    pub answers: mpsc::Receiver<Result<Answer, SinkError>>,
}

impl Session {
    /// The next acknowledgement of a session that ends at a refusal.
    ///
    /// # Errors
    /// The session ended, or an entry was refused.
    pub async fn next_ack(&mut self) -> Option<Result<Ack, SinkError>> {
        Some(match self.answers.recv().await? {
            Ok(Answer::Stored(ack)) => Ok(ack),
            Ok(Answer::Refused(Refusal { reason, .. })) => {
                Err(SinkError { to: String::new(), reason: Reason::Refused, detail: reason })
            }
            Err(error) => Err(error),
        })
    }
}

/// The future of [`Sink::connect`].
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Session, SinkError>> + Send + 'a>>;

/// A destination.
pub trait Sink: Send + Sync {
    /// Opens a session.
    fn connect(&self, on_refusal: OnRefusal) -> Connecting<'_>;
    /// The destination in words, for the log.
    fn name(&self) -> String;
    /// A session failed: a sink with several destinations takes another one for the next.
    fn failed(&self, _: &SinkError) {}
}
