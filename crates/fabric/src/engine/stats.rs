//! What an engine did, as counts.

/// What an engine did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// MADs sent, with repetitions.
    pub sent: u64,
    /// Repetitions.
    pub retries: u64,
    /// Requests that got no answer within all attempts.
    pub timeouts: u64,
    /// Requests that were not sent because their node was silent.
    pub spared: u64,
    /// Replies to nothing outstanding: late or duplicate.
    pub unexpected: u64,
    /// Replies that were refused by their agent.
    pub refused: u64,
    /// Sends and receives that failed.
    pub transport_failures: u64,
}
