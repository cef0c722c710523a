//! Whether the database's clock is believed. Its word alone drops nothing: the server that does upkeep checks it every few seconds against
//! its own monotonic clock and against the clocks of senders ([`judge`]), and gives a permission to drop that ends soon (`clock_check`).
//!
//! What is dropped, thinned or packed goes by `internal.expiry_time()`, which is NULL without that permission and never later than the last
//! check. What is only made goes by `internal.upkeep_time()`, which goes on by the witnesses while the clock is in doubt. Where a clock comes
//! to be believed, marks of time beyond it are put back (`watermarks`).

mod judge;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use tokio_postgres::{Client, Row};

use crate::error::Error;
use crate::watermarks;
pub use judge::ClockState;
use judge::{ClockHistory, ClockJudgement, ClockReading, Votes, judge};

const WHAT: &str = "checking the database's clock";

/// How long a permission to drop holds: checks renew it every few seconds.
pub const PERMISSION: Duration = Duration::from_secs(60);

/// A sender whose clock was not measured for longer is no witness. It is measured every ten seconds while it is connected.
const WITNESS_LIMIT: Duration = Duration::from_secs(180);

/// The clock of this server's machine that nobody sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineClock {
    /// The identity of the boot.
    pub boot_id: String,
    /// Time since then.
    pub since_boot: Duration,
}

impl MachineClock {
    /// Reads it.
    pub fn read() -> Self {
        Self { boot_id: throughline_daemon::boot_id(), since_boot: throughline_daemon::since_boot() }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockCheck {
    /// Whether it is believed, or why not.
    pub state: ClockState,
    /// Why it is not, for people.
    pub reason: Option<String>,
    /// How far it is ahead of the witness against it, in seconds.
    pub off_seconds: Option<f64>,
    /// Marks of time that were put back, as the clock came to be believed.
    pub put_back: u64,
}

/// A sender's clock, as it was measured when this server saw a new measurement.
struct SenderClock {
    measured_at: f64,
    sender_time: f64,
    /// By this machine's monotonic clock; `None` for one that was there when the checks began, which may be of any age.
    seen: Option<f64>,
}

/// Checks the clock again and again. One for each session that holds the lock of upkeep.
#[derive(Default)]
pub struct ClockChecker {
    began: Option<f64>,
    senders: HashMap<String, SenderClock>,
    is_trusted: bool,
}

impl ClockChecker {
    /// Checks once, and renews or ends the permission to drop. `machine` reads this machine's clock. Connect as the writer.
    ///
    /// # Errors
    /// The database is away or refuses; a permission that was given ends by itself.
    pub async fn check(
        &mut self,
        client: &mut Client,
        machine: impl Fn() -> MachineClock,
    ) -> Result<ClockCheck, Error> {
        let before = machine();
        let row = client.query_one(READ, &[]).await.map_err(Error::sql(WHAT))?;
        let after = machine();
        let taken = after.since_boot.saturating_sub(before.since_boot).as_secs_f64();
        let reading = ClockReading {
            database: row.get(0),
            since_boot: before.since_boot.as_secs_f64() + taken / 2.0,
            boot: before.boot_id,
        };
        let history = history(&row);
        let votes = self.votes(client, &reading).await?;
        let waited = reading.since_boot - *self.began.get_or_insert(reading.since_boot);
        let found = judge(&reading, taken / 2.0, &history, &votes, waited);
        let is_trusted = found.state == ClockState::Trusted;
        // Before the permission: what is dropped goes by some of these marks.
        let put_back = if is_trusted && !self.is_trusted { watermarks::put_back(client).await? } else { 0 };
        note(client, &reading, &history, &found).await?;
        self.is_trusted = is_trusted;
        Ok(ClockCheck { state: found.state, reason: found.reason, off_seconds: found.off, put_back })
    }

    /// By how much the clock is ahead of each sender that was measured lately.
    async fn votes(&mut self, client: &Client, reading: &ClockReading) -> Result<Votes, Error> {
        let rows = client.query(SENDERS, &[]).await.map_err(Error::sql(WHAT))?;
        let is_first = self.began.is_none();
        let mut known = std::mem::take(&mut self.senders);
        for row in &rows {
            let (id, measured_at, sender_time): (String, f64, f64) = (row.get(0), row.get(1), row.get(2));
            let old = known.remove(&id).filter(|old| {
                old.measured_at.to_bits() == measured_at.to_bits()
                    && old.sender_time.to_bits() == sender_time.to_bits()
            });
            // What was there at the beginning may be of before the boot, whatever its time says.
            let seen = (!is_first).then_some(reading.since_boot);
            let clock = old.unwrap_or(SenderClock { measured_at, sender_time, seen });
            self.senders.insert(id, clock);
        }
        let lead = |clock: &SenderClock| {
            let age = reading.since_boot - clock.seen?;
            (age <= WITNESS_LIMIT.as_secs_f64()).then_some(reading.database - clock.sender_time - age)
        };
        Ok(Votes { leads: self.senders.values().filter_map(lead).collect(), has_senders: !rows.is_empty() })
    }
}

/// What earlier checks left.
const READ: &str = "
    SELECT extract(epoch FROM clock_timestamp())::float8, extract(epoch FROM anchor_at)::float8, anchor_boot, anchor_seconds,
           CASE WHEN isfinite(trusted_at) THEN extract(epoch FROM trusted_at)::float8 END, extract(epoch FROM accept_requested_at)::float8, accepted_off_seconds
    FROM internal.clock_check";

const SENDERS: &str = "
    SELECT sender_id, extract(epoch FROM measured_at)::float8, extract(epoch FROM sender_time)::float8 FROM internal.sender_clock";

/// What somebody accepted meanwhile waits for the next check.
const NOTE: &str = "
    UPDATE internal.clock_check SET state = $1, reason = $2, off_seconds = $3, reporting = $4, agreeing = $5,
        since = CASE WHEN state = $1 THEN since ELSE now() END,
        trusted_at = CASE WHEN $6 THEN to_timestamp($7) ELSE trusted_at END,
        permitted_until = CASE WHEN $6 THEN to_timestamp($7 + $8) ELSE '-infinity' END,
        estimate = to_timestamp($9),
        anchor_at = CASE WHEN $10 THEN to_timestamp($7) ELSE anchor_at END,
        anchor_boot = CASE WHEN $10 THEN $11 ELSE anchor_boot END,
        anchor_seconds = CASE WHEN $10 THEN $12 ELSE anchor_seconds END,
        accepted_off_seconds = $13,
        accept_requested_at = CASE WHEN extract(epoch FROM accept_requested_at)::float8 IS DISTINCT FROM $14 THEN accept_requested_at END,
        accepted_at = CASE WHEN $14 IS NOT NULL AND $10 THEN to_timestamp($14) ELSE accepted_at END";

async fn note(
    client: &Client,
    reading: &ClockReading,
    history: &ClockHistory,
    found: &ClockJudgement,
) -> Result<(), Error> {
    let is_trusted = found.state == ClockState::Trusted;
    let [reporting, agreeing] =
        [found.reporting, found.agreeing].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    client
        .execute(
            NOTE,
            &[
                &found.state.name(),
                &found.reason,
                &found.off,
                &reporting,
                &agreeing,
                &is_trusted,
                &reading.database,
                &PERMISSION.as_secs_f64(),
                &found.estimate,
                &found.is_anchor,
                &reading.boot,
                &reading.since_boot,
                &found.accepted_off,
                &history.accept_requested_at,
            ],
        )
        .await
        .map(drop)
        .map_err(Error::sql(WHAT))
}

fn history(row: &Row) -> ClockHistory {
    let anchor =
        row.get::<_, Option<f64>>(1).zip(row.get::<_, Option<String>>(2)).zip(row.get::<_, Option<f64>>(3));
    ClockHistory {
        anchor: anchor.map(|((database, boot), since_boot)| ClockReading { database, boot, since_boot }),
        trusted_at: row.get(4),
        accept_requested_at: row.get(5),
        accepted_off: row.get(6),
    }
}

/// What the database has of the last check.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockStanding {
    /// What the last check found.
    pub state: ClockState,
    /// Why it is not believed.
    pub reason: Option<String>,
    /// How far it is ahead of the witness against it, in seconds.
    pub off_seconds: Option<f64>,
    /// Since when that is so, by this clock.
    pub since: SystemTime,
    /// What it said when it was believed last.
    pub trusted_at: Option<SystemTime>,
    /// Senders that were measured lately, and those whose clocks agree.
    pub senders: (i32, i32),
    /// Whether the permission of a clock that was believed has ended without another check.
    pub is_overdue: bool,
    /// When somebody accepted it, if no check has taken note of that yet.
    pub accept_requested_at: Option<SystemTime>,
}

impl ClockStanding {
    /// That nothing is dropped and why, and what to do, for people; `None` where that is as it should be.
    pub fn warning(&self) -> Option<(String, &'static str)> {
        let reason = self.reason.as_deref().unwrap_or("no reason is known");
        if self.is_overdue {
            let reason = "no server has checked the database's clock for a minute, or it has jumped ahead";
            let remedy = "start throughline serve with the role upkeep; within a minute it says more";
            return Some((reason.to_owned(), remedy));
        }
        match self.state {
            ClockState::Unreported => {
                Some((reason.to_owned(), "it goes on by itself when agents or crawlers report"))
            }
            state if state.is_doubted() => Some((
                format!("the database's clock is in doubt: {reason}"),
                "set it right; if it is right already, throughline db clock accept",
            )),
            _ => None,
        }
    }
}

/// Reads what the last check found. Connect as anybody.
///
/// # Errors
/// The database is away or refuses.
pub async fn clock_standing(client: &Client) -> Result<ClockStanding, Error> {
    let query = "SELECT state, reason, off_seconds, since, CASE WHEN isfinite(trusted_at) THEN trusted_at END, reporting, agreeing, \
                 state = 'trusted' AND now() > permitted_until, accept_requested_at FROM internal.clock_check";
    let row = client.query_one(query, &[]).await.map_err(Error::sql("reading what is known of the clock"))?;
    Ok(ClockStanding {
        state: ClockState::of_name(row.get(0)),
        reason: row.get(1),
        off_seconds: row.get(2),
        since: row.get(3),
        trusted_at: row.get(4),
        senders: (row.get(5), row.get(6)),
        is_overdue: row.get(7),
        accept_requested_at: row.get(8),
    })
}

/// Takes the database's clock as right, whatever its witnesses say; the next check takes note of it. Connect as the writer.
///
/// # Errors
/// The database is away or refuses.
pub async fn accept_clock(client: &Client, by: &str) -> Result<(), Error> {
    let accept = "UPDATE internal.clock_check SET accept_requested_at = now(), accepted_by = $1";
    client.execute(accept, &[&by]).await.map(drop).map_err(Error::sql("accepting the database's clock"))
}
