//! Clocks of servers and senders that are off.

use throughline_api::status::ClockFault;
use throughline_sample::clock_times::CLOCK_BOUND_SECONDS;
use throughline_store::Error;
use tokio_postgres::{Client, Row};

use crate::whole;

/// Most that are listed of each: where more are off, the reason is one.
const LISTED_MAX: i64 = 256;

/// Both are written each half a minute at least: what is older is of a server or sender that is away. Of senders the newest
/// measurement of all shows what is old, as the clock by which they are written may be off.
const FAULTS: &str = "
    WITH servers AS (
        SELECT server, offset_seconds, senders_alike::bigint AS senders_alike, senders::bigint AS senders
        FROM internal.server_clock
        WHERE offset_seconds <> 0 AND noted_at > now() - INTERVAL '2 minutes'),
    newest AS (SELECT max(measured_at) AS time FROM internal.sender_clock)
    (SELECT * FROM servers ORDER BY server LIMIT $2)
    UNION ALL
    (SELECT split_part(c.sender_id, ':', 2), c.offset_seconds, NULL, NULL
     FROM internal.sender_clock c JOIN newest n ON c.measured_at > n.time - INTERVAL '2 minutes'
     WHERE abs(c.offset_seconds) >= $1
       -- Those that agree against a server are right.
       AND NOT EXISTS (SELECT FROM servers s WHERE abs(s.offset_seconds + c.offset_seconds) < 2 * $1)
     ORDER BY abs(c.offset_seconds) DESC, c.sender_id LIMIT $2)";

/// The same of one sender.
const OF_SENDER: &str = "
    SELECT c.offset_seconds FROM internal.sender_clock c
    WHERE c.sender_id = $2 AND abs(c.offset_seconds) >= $1
      AND c.measured_at > (SELECT max(measured_at) - INTERVAL '2 minutes' FROM internal.sender_clock)
      AND NOT EXISTS (SELECT FROM internal.server_clock s
                      WHERE s.offset_seconds <> 0 AND s.noted_at > now() - INTERVAL '2 minutes'
                        AND abs(s.offset_seconds + c.offset_seconds) < 2 * $1)";

#[allow(clippy::cast_precision_loss)] // Some seconds.
fn bound() -> f64 {
    CLOCK_BOUND_SECONDS as f64
}

/// Servers whose clocks are off, then senders whose are, the farthest first.
///
/// # Errors
/// The database's.
pub async fn faults(client: &Client) -> Result<Vec<ClockFault>, Error> {
    let rows = client.query(FAULTS, &[&bound(), &LISTED_MAX]).await;
    let count = |row: &Row, column| row.get::<_, Option<i64>>(column).map(|count| whole(Some(count)));
    let fault = |row: &Row| ClockFault {
        instance: row.get(0),
        offset_seconds: row.get(1),
        senders_alike: count(row, 2),
        senders: count(row, 3),
    };
    Ok(rows.map_err(Error::sql("reading which clocks are off"))?.iter().map(fault).collect())
}

/// How far the clock of a node is ahead where it is off now.
///
/// # Errors
/// The database's.
pub async fn offset_of_node(client: &Client, node: &str) -> Result<Option<f64>, Error> {
    let sender = format!("node:{node}");
    let rows = client.query(OF_SENDER, &[&bound(), &sender]).await;
    let rows = rows.map_err(Error::sql("reading whether a node's clock is off"))?;
    Ok(rows.first().map(|row| row.get(0)))
}
