//! A site as its daemons send it: clusters, nodes with their agents, the fabric, and the way to a server.

pub mod cluster;
pub mod fabric;
pub mod node;
pub mod ranks;
pub mod send;

/// UTC nanoseconds.
///
/// # Errors
/// The clock is before 1970.
pub fn now() -> anyhow::Result<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(i64::try_from(since.as_nanos())?)
}
