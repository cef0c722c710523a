//! Shares of links: whose bytes were on each direction of each link, in windows of 10 s. Estimated of the traffic that jobs
//! report (`mpi_node_traffic`), the forwarding tables and the ports' counters (`throughline_shares`), and stored in
//! `link_shares`.
//!
//! [`make_link_shares`] makes windows in order, each once its data is there or some time has passed. What arrives later is
//! noted by writers in `link_share_late` (`writer/late_arrivals.rs`), and those windows are made again. The two meet in
//! `link_share_state.noticed_until`, as rollups and their writers do (`rollups`). Sums by the minute are made with them, in
//! `link_share_minutes`, which `hours` puts into `link_share_hours` once they stay as they are.

mod counters;
mod fabric;
mod groups;
mod hour;
mod hours;
mod largest;
mod minutes;
mod places;
mod progress;
mod traffic;
mod window;
mod write;

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throughline_shares::estimate::Kind;
use tokio_postgres::Client;

use crate::error::Error;
use crate::retention::Retention;
use fabric::Fabrics;
pub use groups::Groups;
pub use largest::{LinkContribution, largest_contributions, link_shares_made_until};
use places::KnownPlaces;
pub(crate) use progress::read_until;
use traffic::Traffic;
use window::{Input, shares};

/// Microseconds since 1970.
type Micros = i64;

/// Length of the windows of `link_shares`; they end at multiples of it.
pub const SHARE_WINDOW: Duration = Duration::from_secs(10);

/// The same in microseconds.
#[allow(clippy::cast_possible_truncation)] // seconds
pub(crate) const WINDOW: Micros = SHARE_WINDOW.as_micros() as Micros;

/// Rows of traffic until so long after a window belong to it: a node reports each second, at most each ten.
const AHEAD: Micros = 10_000_000;

/// A window is made again if more bytes than this arrived after it was made.
const MISSED_BYTES: f64 = 1_048_576.0;

/// What a call of [`make_link_shares`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSharesMade {
    /// Windows made for the first time.
    pub windows: u64,
    /// Windows made again because data arrived late.
    pub late: u64,
    /// Rows written.
    pub rows: u64,
    /// Rows of traffic left out because of the limit on cells.
    pub left_out: u64,
    /// Whether there is more to do at once.
    pub is_behind: bool,
    /// Time since the end of the last window that is made.
    pub lag: Option<Duration>,
}

/// What is cached between calls: fabrics, places of ranks, and the last values of traffic. Begun anew with each connection.
#[derive(Debug, Default)]
pub struct LinkShareCache {
    fabrics: Fabrics,
    places: KnownPlaces,
    traffic: Traffic,
    /// End of the last window that was made.
    made: Option<Micros>,
}

/// Makes the windows that are due, then again those of late arrivals, for about `patience`. Connect as the writer; one caller
/// at a time. A window whose neighbours may be gone by `retention` is not made again: its minute has more than it would.
///
/// # Errors
/// The database is away or refuses; windows made so far stay.
pub async fn make_link_shares(
    client: &mut Client,
    cache: &mut LinkShareCache,
    groups: &Groups,
    retention: &Retention,
    patience: Duration,
) -> Result<LinkSharesMade, Error> {
    let begun = Instant::now();
    let mut made = LinkSharesMade::default();
    loop {
        // One window at least, so that little patience makes them, too.
        if made.windows > 0 && begun.elapsed() >= patience {
            made.is_behind = true;
            break;
        }
        let Some(due) = progress::due(client).await? else { break };
        // A clock that was ahead has come back: what was read until then is of a time to come.
        let is_put_back = cache.made.replace(due.end).is_some_and(|made| made >= due.end);
        if progress::has_unread(client).await? || is_put_back {
            cache.traffic = Traffic::default();
        }
        progress::notice(client, due.end + AHEAD).await?;
        let traffic = cache.traffic.take(client, due.end, due.end + AHEAD).await?;
        made.rows += make(client, cache, groups, &due, traffic, false).await?;
        made.windows += 1;
        made.left_out += std::mem::take(&mut cache.traffic.left_out);
        progress::note(client, &cache.traffic.missed(MISSED_BYTES)).await?;
    }
    while begun.elapsed() < patience {
        let Some(late) = progress::late(client, retention).await? else { break };
        // Values that came late are not in the cache.
        cache.traffic = Traffic::default();
        let mut again = Traffic::default();
        let traffic = again.take(client, late.end, late.end + AHEAD * 6).await?;
        // Operations have numbers of their own in each reader.
        std::mem::swap(&mut cache.traffic, &mut again);
        let rows = make(client, cache, groups, &late, traffic, true).await;
        cache.traffic = Traffic::default();
        made.rows += rows?;
        made.late += 1;
    }
    if !made.is_behind {
        made.is_behind = hours::make(client, retention, patience.saturating_sub(begun.elapsed())).await?;
    }
    made.lag = progress::lag(client).await?;
    Ok(made)
}

/// Makes one window; returns the number of its rows.
async fn make(
    client: &mut Client,
    cache: &mut LinkShareCache,
    groups: &Groups,
    due: &progress::DueWindow,
    traffic: HashMap<traffic::Key, traffic::Amount>,
    is_again: bool,
) -> Result<u64, Error> {
    let mut fabrics = Vec::new();
    for subnet in &due.subnets {
        fabrics.push(cache.fabrics.get(client, subnet.id, due.end).await?);
    }
    let mut counted = HashMap::new();
    for (subnet, fabric) in due.subnets.iter().zip(&fabrics) {
        counted.extend(
            counters::counted(client, &fabric.ports, due.end, subnet.largest_gap, subnet.is_read).await?,
        );
    }
    let places = cache.places.get(client, &traffic, due.end).await?;
    let ports: Vec<i64> = fabrics.iter().flat_map(|fabric| fabric.ports.iter().copied()).collect();
    let input = Input { fabrics, traffic, places, counted };
    let groups = groups.clone();
    // A second of work in a large fabric: not on a thread that polls sockets.
    let work = tokio::task::spawn_blocking(move || shares(&input, &groups));
    let rows = work.await.map_err(|error| Error::Schema(format!("making shares of links: {error}")))?;
    write::write(client, due, &ports, &rows, |operation| cache.traffic.operation(operation), is_again)
        .await?;
    Ok(rows.len() as u64)
}

/// The name of a kind in the tables.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Measured => "measured",
        Kind::Modelled => "modelled",
        Kind::Logical => "logical",
        Kind::Unreported => "unreported",
    }
}

fn micros(time: SystemTime) -> Micros {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX),
        Err(before) => -Micros::try_from(before.duration().as_micros()).unwrap_or(Micros::MAX),
    }
}

fn system_time(micros: Micros) -> SystemTime {
    let span = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span }
}

/// A time as SQL: a constant, so that chunks outside of a range are no part of the plan.
fn moment(micros: Micros) -> String {
    format!("to_timestamp({micros} / 1000000.0)")
}
