//! How far samples are sent to receivers of remote write, so that a stop at any moment loses none and repeats one request at
//! most.
//!
//! Samples are sent window by window. While a window is sent, and ever after, writers note what arrives for it
//! (`writer::late_exports`), because it may have been read already; the notes are served between windows. What a reading
//! for a window has seen of such notes is taken away with the acknowledgement.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::{Client, GenericClient};

use crate::error::Error;
use crate::session::keep_alive;

const WHAT: &str = "keeping the position of the export";

/// Nanoseconds; windows end at whole milliseconds, as samples of Prometheus have times.
pub(crate) const MILLISECOND: i64 = 1_000_000;

/// The lock of `minutes_noticed()`: no writer is between its notes and its commit.
const NOTICE_LOCK: &str = "SELECT pg_advisory_xact_lock(x'746c6d696e757465'::bigint)";

/// A receiver and how far it has all samples. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportTarget {
    id: i64,
    version: i64,
    /// Windows that end by then are sent and acknowledged.
    pub exported_until: i64,
    /// The end of the window that is being sent.
    pub window_end: Option<i64>,
    /// Within that window: the part that was acknowledged last, and what of it.
    pub reached: Option<(String, String)>,
    /// Samples acknowledged so far.
    pub acknowledged: u64,
}

/// What time it is for an export, milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTime {
    /// The database's clock, as far as it is believed.
    pub now: i64,
    /// The time by which readings expire; `None` while none do.
    pub expiry: Option<i64>,
}

/// Samples of one thing that arrived late. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateNote {
    /// Of the note.
    pub id: i64,
    /// The hypertable.
    pub part: String,
    /// Id of a port or GPU, or an instance.
    pub thing: String,
    /// Time of the first of them.
    pub since: i64,
    /// Time of the last.
    pub until: i64,
}

/// Takes the lock of the export to one receiver for this session; `false` where another server has it. It ends with the
/// session.
///
/// # Errors
/// The database is away or refuses.
pub async fn lock_export(client: &Client, name: &str) -> Result<bool, Error> {
    keep_alive(client).await?;
    let lock = "SELECT pg_try_advisory_lock(hashtextextended('throughline export ' || $1::text, 0))";
    let row = client.query_one(lock, &[&name]).await.map_err(Error::sql("taking the lock of the export"))?;
    Ok(row.get(0))
}

impl ExportTarget {
    /// The receiver of this name; one that is not known begins with samples after `start`.
    ///
    /// # Errors
    /// The database is away or refuses.
    pub async fn open(client: &Client, name: &str, start: i64) -> Result<ExportTarget, Error> {
        let insert = "INSERT INTO internal.export_target (name, exported_until, noticed_until) VALUES ($1, $2, $2) \
                      ON CONFLICT DO NOTHING";
        client.execute(insert, &[&name, &time(start)]).await.map_err(Error::sql(WHAT))?;
        let select = "SELECT id, version, exported_until, noticed_until, part, after, acknowledged \
                      FROM internal.export_target WHERE name = $1";
        let row = client.query_one(select, &[&name]).await.map_err(Error::sql(WHAT))?;
        let (exported_until, noticed_until) = (milliseconds(row.get(2)), milliseconds(row.get(3)));
        let part: Option<String> = row.get(4);
        Ok(ExportTarget {
            id: row.get(0),
            version: row.get(1),
            exported_until,
            window_end: (noticed_until > exported_until).then_some(noticed_until),
            reached: part.map(|part| (part, row.get::<_, Option<String>>(5).unwrap_or_default())),
            acknowledged: u64::try_from(row.get::<_, i64>(6)).unwrap_or_default(),
        })
    }

    /// What time it is.
    ///
    /// # Errors
    /// The database is away or refuses.
    pub async fn time(client: &Client) -> Result<ExportTime, Error> {
        // A clock in doubt moves no window beyond what its witnesses say; without checks, as no server does upkeep, it is all there is.
        let query = "SELECT CASE WHEN c.state IN ('unreported', 'unconfirmed', 'outvoted', 'jumped') AND isfinite(c.estimate) \
                            THEN least(clock_timestamp(), c.estimate + INTERVAL '10 seconds') ELSE clock_timestamp() END, \
                            internal.expiry_time() FROM internal.clock_check c";
        let row = client.query_one(query, &[]).await.map_err(Error::sql(WHAT))?;
        Ok(ExportTime {
            now: milliseconds(row.get(0)),
            expiry: row.get::<_, Option<SystemTime>>(1).map(milliseconds),
        })
    }

    /// Begins the window until `end`: from here on writers note what they write for it. Waits for those who write now.
    ///
    /// # Errors
    /// The database is away or refuses, or another server exports.
    pub async fn begin_window(&mut self, client: &mut Client, end: i64) -> Result<(), Error> {
        let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
        transaction.execute(NOTICE_LOCK, &[]).await.map_err(Error::sql(WHAT))?;
        let change = "noticed_until = $3, part = NULL, after = NULL";
        let version = self.change(&transaction, change, &[&time(end)]).await?;
        transaction.commit().await.map_err(Error::sql(WHAT))?;
        (self.version, self.window_end, self.reached) = (version, Some(end), None);
        Ok(())
    }

    /// Notes that a request was acknowledged, but for `refused` of its `samples`: all of the window until this thing of this
    /// part. `served` are notes of late arrivals that were seen while it was read.
    ///
    /// # Errors
    /// The database is away or refuses, or another server exports.
    pub async fn acknowledge(
        &mut self,
        client: &mut Client,
        (part, after): (&str, &str),
        (samples, refused): (u64, u64),
        served: &[LateNote],
    ) -> Result<(), Error> {
        let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
        let taken = samples - refused.min(samples);
        let counts = (signed(taken), signed(refused));
        let change = "part = $3, after = $4, acknowledged = acknowledged + $5, refused = refused + $6";
        let version = self.change(&transaction, change, &[&part, &after, &counts.0, &counts.1]).await?;
        let begin = self.exported_until;
        let (cut, whole): (Vec<&LateNote>, Vec<&LateNote>) =
            served.iter().partition(|note| note.since <= begin);
        let ids = |notes: &[&LateNote]| notes.iter().map(|note| note.id).collect::<Vec<_>>();
        // What lies before this window was sent with an earlier one, and is still to come.
        let shorten = "UPDATE internal.export_late SET until = $2 WHERE id = ANY ($1)";
        if !cut.is_empty() {
            let shortened = transaction.execute(shorten, &[&ids(&cut), &time(begin)]).await;
            shortened.map_err(Error::sql(WHAT))?;
        }
        remove(&transaction, &ids(&whole)).await?;
        transaction.commit().await.map_err(Error::sql(WHAT))?;
        (self.version, self.reached) = (version, Some((part.to_owned(), after.to_owned())));
        self.acknowledged += taken;
        Ok(())
    }

    /// All of the window was acknowledged.
    ///
    /// # Errors
    /// The database is away or refuses, or another server exports.
    pub async fn end_window(&mut self, client: &Client) -> Result<(), Error> {
        let change = "exported_until = noticed_until, part = NULL, after = NULL";
        self.version = self.change(client, change, &[]).await?;
        self.exported_until = self.window_end.take().unwrap_or(self.exported_until);
        self.reached = None;
        Ok(())
    }

    /// Goes on at `until` without what lies before it.
    ///
    /// # Errors
    /// The database is away or refuses, or another server exports.
    pub async fn skip_to(&mut self, client: &Client, until: i64) -> Result<(), Error> {
        let change =
            "exported_until = $3, noticed_until = greatest(noticed_until, $3), part = NULL, after = NULL";
        self.version = self.change(client, change, &[&time(until)]).await?;
        self.exported_until = until;
        self.window_end = self.window_end.filter(|end| *end > until);
        self.reached = None;
        Ok(())
    }

    /// Begins a reading of samples and of notes as of one moment.
    ///
    /// # Errors
    /// The database is away or refuses.
    pub async fn begin_reading(client: &Client) -> Result<(), Error> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        client.batch_execute(begin).await.map_err(Error::sql(WHAT))
    }

    /// Ends it.
    ///
    /// # Errors
    /// The database is away or refuses.
    pub async fn end_reading(client: &Client) -> Result<(), Error> {
        client.batch_execute("COMMIT").await.map_err(Error::sql(WHAT))
    }

    /// Notes of late arrivals for the window that is being sent, of one part. To be read in the transaction that reads the
    /// samples: what it sees of notes it sees of samples.
    ///
    /// # Errors
    /// The database is away or refuses.
    pub async fn notes_of_window(&self, client: &Client, part: &str) -> Result<Vec<LateNote>, Error> {
        let select = "SELECT id, part, thing, since, until FROM internal.export_late \
                      WHERE target_id = $1 AND part = $2 AND until >= $3 ORDER BY id";
        let rows = client.query(select, &[&self.id, &part, &time(self.exported_until + 1)]).await;
        Ok(rows.map_err(Error::sql(WHAT))?.iter().map(note).collect())
    }

    /// The oldest notes of what arrived for windows that were sent: of one part, at most so many.
    ///
    /// # Errors
    /// The database is away or refuses.
    pub async fn late(&self, client: &Client, most: i64) -> Result<Vec<LateNote>, Error> {
        let select = "SELECT id, part, thing, since, until FROM internal.export_late WHERE target_id = $1 AND part = \
                        (SELECT part FROM internal.export_late WHERE target_id = $1 AND since < $2 ORDER BY since LIMIT 1) \
                      AND since < $2 ORDER BY since, id LIMIT $3";
        let rows = client.query(select, &[&self.id, &time(self.exported_until + 1), &most]).await;
        Ok(rows.map_err(Error::sql(WHAT))?.iter().map(note).collect())
    }

    /// Notes of some things of a part for times until `until`, of what arrived for windows that were sent: the oldest, at most so many.
    ///
    /// # Errors
    /// The database is away or refuses.
    pub async fn late_of(
        &self,
        client: &Client,
        (part, things): (&str, &[&str]),
        until: i64,
        most: i64,
    ) -> Result<Vec<LateNote>, Error> {
        let select = "SELECT id, part, thing, since, until FROM internal.export_late \
                      WHERE target_id = $1 AND part = $2 AND thing = ANY ($3) AND since < $4 ORDER BY since, id LIMIT $5";
        let before = time(until.min(self.exported_until) + 1);
        let rows = client.query(select, &[&self.id, &part, &things, &before, &most]).await;
        Ok(rows.map_err(Error::sql(WHAT))?.iter().map(note).collect())
    }

    /// Late samples of these notes were acknowledged, but for `refused` of them.
    ///
    /// # Errors
    /// The database is away or refuses, or another server exports.
    pub async fn acknowledge_late(
        &mut self,
        client: &mut Client,
        (samples, refused): (u64, u64),
        notes: &[i64],
    ) -> Result<(), Error> {
        let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
        let taken = samples - refused.min(samples);
        let counts = (signed(taken), signed(refused));
        let change = "acknowledged = acknowledged + $3, refused = refused + $4";
        let version = self.change(&transaction, change, &[&counts.0, &counts.1]).await?;
        remove(&transaction, notes).await?;
        transaction.commit().await.map_err(Error::sql(WHAT))?;
        self.version = version;
        self.acknowledged += taken;
        Ok(())
    }

    /// Changes the row unless another server did; its next version.
    async fn change(
        &self,
        client: &impl GenericClient,
        change: &str,
        values: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<i64, Error> {
        let sql = format!(
            "UPDATE internal.export_target SET {change}, version = version + 1 WHERE id = $1 AND version = $2"
        );
        let mut all: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&self.id, &self.version];
        all.extend_from_slice(values);
        match client.execute(&sql, &all).await.map_err(Error::sql(WHAT))? {
            0 => Err(Error::Unavailable {
                what: WHAT.to_owned(),
                cause: "another server exports to this receiver".to_owned(),
                remedy: "of several servers one does it; this one tries again",
            }),
            _ => Ok(self.version + 1),
        }
    }
}

async fn remove(client: &impl GenericClient, notes: &[i64]) -> Result<(), Error> {
    if notes.is_empty() {
        return Ok(());
    }
    let delete = "DELETE FROM internal.export_late WHERE id = ANY ($1)";
    client.execute(delete, &[&notes]).await.map(drop).map_err(Error::sql(WHAT))
}

fn note(row: &tokio_postgres::Row) -> LateNote {
    LateNote {
        id: row.get(0),
        part: row.get(1),
        thing: row.get(2),
        since: milliseconds(row.get(3)),
        until: milliseconds(row.get(4)),
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn time(milliseconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default())
}
