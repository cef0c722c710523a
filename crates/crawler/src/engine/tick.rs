//! The engine's time.

/// Nanoseconds since the engine was made: cheaper to reckon with than `Instant`, and that counts per MAD.
pub type Tick = u64;
/// Later than any.
pub const NEVER: Tick = Tick::MAX;
