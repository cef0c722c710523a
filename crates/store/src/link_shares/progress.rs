//! Which window is to be made next, whether its data is there, and which ones are to be made again.

use std::time::Duration;

use tokio_postgres::Client;

use super::fabric::subnets;
use super::{Micros, WINDOW, micros, moment, system_time};
use crate::error::Error;
use crate::retention::Retention;
use throughline_sample::row_rules::{DEFAULT, LARGEST_GAP_SECONDS_MAX};

const WHAT: &str = "making shares of links";

/// A window is made so long after its end at the earliest: traffic of a second arrives within a few.
const SETTLED: Micros = 15_000_000;

/// And so long after its end at the latest, whatever is missing: it is made again when that arrives.
const WAIT: Micros = 45_000_000;

/// How far back windows are made when nothing was made for long. Rows wait for them for so long ([`read_until`]), however soon they
/// would go.
const CATCH_UP: Micros = 6 * 3_600_000_000;

/// SQL of `link_share_state s`: older rows of readings and traffic are not read any more, as windows of such a time are made or given up
/// (`CATCH_UP`), and a window reads up to an hour before it. NULL where no shares are made.
pub(crate) fn read_until() -> String {
    format!(
        "CASE WHEN s.computed_until IS NOT NULL THEN \
         greatest(s.computed_until, (SELECT internal.upkeep_time()) - INTERVAL '{CATCH_UP} microseconds') - INTERVAL '1 hour' END"
    )
}

/// How far back the first window of a database lies at most.
const FIRST: Micros = 3_600_000_000;

/// A late window is made again once nothing more was noted for it for so long, or at the latest after [`LATE_WAIT_SECONDS`].
const LATE_QUIET_SECONDS: i64 = 20;
const LATE_WAIT_SECONDS: i64 = 120;

/// A subnet in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    pub id: i64,
    /// Readings farther apart have a time between them in which nobody read.
    pub largest_gap: Micros,
    /// A round of all ports began after the window.
    pub is_read: bool,
}

/// A window to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DueWindow {
    /// Its end.
    pub end: Micros,
    /// How far windows are made, as it was read: another server may have gone on meanwhile.
    pub made_until: Option<Micros>,
    pub subnets: Vec<Subnet>,
}

/// The next window, if it is time to make it.
pub(super) async fn due(client: &Client) -> Result<Option<DueWindow>, Error> {
    let state = "SELECT (SELECT internal.upkeep_time()), computed_until FROM internal.link_share_state WHERE isfinite((SELECT internal.upkeep_time()))";
    let row = client.query_opt(state, &[]).await.map_err(Error::sql(WHAT))?;
    // Before the first check of the clock there is no time.
    let Some(row) = row else { return Ok(None) };
    let (now, last) = (micros(row.get(0)), row.get::<_, Option<_>>(1).map(micros));
    let made_until = last;
    let last = match last {
        Some(last) => last.max(floor(now - CATCH_UP)),
        None => match first(client, now).await? {
            Some(first) => first,
            None => return Ok(None),
        },
    };
    let end = last + WINDOW;
    if now < end + SETTLED {
        return Ok(None);
    }
    let subnets = read_subnets(client, end).await?;
    let is_complete = subnets.iter().all(|subnet| subnet.is_read);
    Ok((is_complete || now >= end + WAIT).then_some(DueWindow { end, made_until, subnets }))
}

/// Where the first window begins: with the first round of a crawler within an hour; `None` where there is no fabric.
async fn first(client: &Client, now: Micros) -> Result<Option<Micros>, Error> {
    let sql = format!(
        "SELECT min(time) FROM internal.coverage WHERE source = 'mad' AND time > {}",
        moment(now - FIRST)
    );
    let row = client.query_one(&sql, &[]).await.map_err(Error::sql(WHAT))?;
    Ok(row.get::<_, Option<_>>(0).map(|time| floor(micros(time))))
}

fn floor(time: Micros) -> Micros {
    time.div_euclid(WINDOW) * WINDOW
}

async fn read_subnets(client: &Client, end: Micros) -> Result<Vec<Subnet>, Error> {
    let mut all = Vec::new();
    for (id, prefix) in subnets(client, end).await? {
        // A row stands for a round that ended then.
        let read = format!(
            "SELECT EXISTS (SELECT FROM internal.coverage WHERE source = 'mad' AND instance = $1 AND time > {}
                            AND time - make_interval(secs => elapsed_seconds) >= {}),
                    (SELECT max(largest_gap_seconds) FROM internal.row_rules WHERE source = 'mad' AND instance = $1
                     AND valid_from <= {} AND (valid_to IS NULL OR valid_to > {}))",
            moment(end),
            moment(end),
            moment(end),
            moment(end - WINDOW),
        );
        let row = client.query_one(&read, &[&prefix]).await.map_err(Error::sql(WHAT))?;
        let gap = row.get::<_, Option<f64>>(1).unwrap_or(DEFAULT.largest_gap_seconds);
        #[allow(clippy::cast_possible_truncation)] // at most a day
        let largest_gap = (gap.clamp(1.0, LARGEST_GAP_SECONDS_MAX) * 1e6) as Micros;
        all.push(Subnet { id, largest_gap, is_read: row.get(0) });
    }
    Ok(all)
}

/// From here on writers note what they write for times before `until`. Waits for those who write now.
pub(super) async fn notice(client: &mut Client, until: Micros) -> Result<(), Error> {
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    // The lock of minutes_noticed().
    let lock = "SELECT pg_advisory_xact_lock(x'746c6d696e757465'::bigint)";
    transaction.execute(lock, &[]).await.map_err(Error::sql(WHAT))?;
    let advance = "UPDATE internal.link_share_state SET noticed_until = greatest(noticed_until, $1)";
    transaction.execute(advance, &[&system_time(until)]).await.map_err(Error::sql(WHAT))?;
    transaction.commit().await.map_err(Error::sql(WHAT))
}

/// Notes windows that are to be made again.
pub(super) async fn note(client: &Client, ends: &[Micros]) -> Result<(), Error> {
    if ends.is_empty() {
        return Ok(());
    }
    let times: Vec<_> = ends.iter().map(|end| system_time(*end)).collect();
    let insert = "INSERT INTO internal.link_share_late (time) SELECT unnest($1::timestamptz[])";
    client.execute(insert, &[&times]).await.map(drop).map_err(Error::sql(WHAT))
}

/// Whether something arrived for windows to come after it would have been read; its notes are removed.
pub(super) async fn has_unread(client: &Client) -> Result<bool, Error> {
    let take = "DELETE FROM internal.link_share_late WHERE time > (SELECT computed_until FROM internal.link_share_state)";
    Ok(client.execute(take, &[]).await.map_err(Error::sql(WHAT))? > 0)
}

/// The newest window that is to be made again; its notes are removed. Notes of windows that are too old are dropped, and of
/// those that are no longer retained, of those whose minutes are in hours, and of those whose ports' readings are packed: to unpack
/// an hour of all ports for each of its windows would take hours; and of those whose traffic is thinned, so that its windows are not
/// known any more.
pub(super) async fn late(client: &Client, retention: &Retention) -> Result<Option<DueWindow>, Error> {
    let oldest = retention.shares_change().as_micros();
    let gap = DEFAULT.largest_gap_seconds;
    let drop = format!(
        "DELETE FROM internal.link_share_late WHERE time < greatest((SELECT internal.upkeep_time()) - INTERVAL '{oldest} microseconds', \
         (SELECT hours_until + INTERVAL '1 microsecond' FROM internal.link_share_state), \
         (SELECT packed_until + INTERVAL '{gap} seconds' FROM internal.packed_state WHERE readings = 'ib_port_counters'), \
         (SELECT max(range_end) FROM internal.thinned_chunk WHERE hypertable = 'mpi_node_traffic'))"
    );
    client.execute(&drop, &[]).await.map_err(Error::sql(WHAT))?;
    let take = format!(
        "WITH next AS (
             SELECT time FROM internal.link_share_late
             WHERE time <= (SELECT computed_until FROM internal.link_share_state) GROUP BY time
             HAVING max(noted_at) < now() - INTERVAL '{LATE_QUIET_SECONDS} seconds'
                 OR min(noted_at) < now() - INTERVAL '{LATE_WAIT_SECONDS} seconds'
             ORDER BY time DESC LIMIT 1)
         DELETE FROM internal.link_share_late l USING next WHERE l.time = next.time RETURNING l.time"
    );
    let rows = client.query(&take, &[]).await.map_err(Error::sql(WHAT))?;
    let Some(end) = rows.first().map(|row| micros(row.get(0))) else { return Ok(None) };
    Ok(Some(DueWindow { end, made_until: None, subnets: read_subnets(client, end).await? }))
}

/// Time since the end of the last window that is made.
pub(super) async fn lag(client: &Client) -> Result<Option<Duration>, Error> {
    let sql = "SELECT extract(epoch FROM now() - computed_until)::float8 FROM internal.link_share_state";
    let row = client.query_one(sql, &[]).await.map_err(Error::sql(WHAT))?;
    Ok(row.get::<_, Option<f64>>(0).map(|seconds| Duration::from_secs_f64(seconds.max(0.0))))
}
