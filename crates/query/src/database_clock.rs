//! Whether the database's clock is believed, for people.

use std::time::{SystemTime, UNIX_EPOCH};

use throughline_api::status::DatabaseClock;
use throughline_store::{Error, clock_standing};
use tokio_postgres::Client;

/// Reads it.
///
/// # Errors
/// The database's.
pub async fn read(client: &Client) -> Result<DatabaseClock, Error> {
    let clock = clock_standing(client).await?;
    let (warning, remedy) = clock.warning().unzip();
    let count = |senders: i32| u32::try_from(senders).unwrap_or_default();
    Ok(DatabaseClock {
        state: clock.state.name().to_owned(),
        warning,
        remedy: remedy.map(str::to_owned),
        off_seconds: clock.off_seconds,
        since_ms: milliseconds(clock.since),
        trusted_ms: clock.trusted_at.map(milliseconds),
        reporting: count(clock.senders.0),
        agreeing: count(clock.senders.1),
    })
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
