//! Times of the agent.

/// A moment on both clocks of the agent, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub monotonic: i64,
    pub utc: i64,
}
