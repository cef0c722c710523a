//! Terms of the crawlers of a fabric: who writes, who stands by, and since when.
//!
//! A term is granted to the crawler that requests one while there is none, or while the present one has expired. What
//! another crawler read within a term is never stored, whatever the two believe: a crawler that was cut off and
//! goes on is harmless. A crawler that requests none gets a term by writing where no other did.

use std::time::Duration;

use throughline_sample::wire::FabricFingerprint;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

use crate::database::Database;
use crate::error::Error;
use crate::fabrics::{FabricAnswer, Sighting, observe, resolve};
use crate::lazy_connection::LazyConnection;

/// How long a term lasts that a crawler got by writing, until its next batch.
pub(crate) const LEASE_BY_WRITING: Duration = Duration::from_secs(30);
/// Ended terms retained of a fabric: one that changes hands each lease of 10 s fills them in three hours.
const TERMS_KEPT: i64 = 1000;
/// Records this far apart belong to one stretch of a crawler that has no term.
const STRETCH_MICROSECONDS: i64 = 120_000_000;
/// Time for one request.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// A crawler's request for the term of the fabric that it sees.
#[derive(Clone, Debug)]
pub struct TermRequest {
    /// What it sees.
    pub fabric: FabricFingerprint,
    /// Names of the fabrics that its certificate may report for; none means any.
    pub allowed: Vec<String>,
    /// Whether it is to be decided which fabric that is, even where it isn't clear.
    pub accept: bool,
    /// The crawler: the identity of its spool.
    pub crawler: Uuid,
    /// Its host, for people.
    pub name: String,
    /// Since when it sweeps without a term, or now; UTC nanoseconds.
    pub since: i64,
    /// How long the term holds without another request.
    pub lease: Duration,
    /// Whether it gives its term back instead.
    pub release: bool,
}

/// Who has the term, and the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermGrant {
    /// Whether it is the requesting crawler.
    pub granted: bool,
    /// Name of the one that has it.
    pub holder: String,
    /// Name of the fabric that the crawler sees; empty where that is not clear, or not allowed.
    pub fabric: String,
    /// Why it is not clear which fabric that is; empty where it is.
    pub undecided: String,
    /// Why its configuration or certificate forbids that fabric; empty where neither does.
    pub refused: String,
}

/// Requests terms from the database, through one connection.
pub struct TermClient {
    connection: LazyConnection,
}

impl TermClient {
    /// Connects with the first request.
    #[must_use]
    pub fn new(database: Database) -> TermClient {
        TermClient { connection: LazyConnection::new(database) }
    }

    /// Grants, extends, refuses or releases.
    ///
    /// # Errors
    /// The database is away, or refuses.
    pub async fn ask(&mut self, request: &TermRequest) -> Result<TermGrant, Error> {
        let what = "asking for a crawler's term";
        self.connection.with(what, ASK_LIMIT, async |client| ask(client, request).await).await
    }
}

/// The present term of a fabric.
struct CurrentTerm {
    id: i64,
    crawler: Uuid,
    name: String,
    is_expired: bool,
    began: i64,
}

const MICROSECONDS: &str = "(extract(epoch FROM $) * 1000000)::bigint";

fn microseconds(column: &str) -> String {
    MICROSECONDS.replace('$', column)
}

async fn ask(client: &mut Client, request: &TermRequest) -> Result<TermGrant, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    let sighting =
        Sighting { fingerprint: &request.fabric, allowed: &request.allowed, accept: request.accept };
    let (fabric_id, fabric) = match resolve(&transaction, sighting).await? {
        FabricAnswer::Known { id, name } => (id, name),
        // The event that says so is to be there.
        FabricAnswer::Undecided(undecided) => {
            transaction.commit().await?;
            return Ok(TermGrant { undecided, ..TermGrant::default() });
        }
        FabricAnswer::Refused(refused) => return Ok(TermGrant { refused, ..TermGrant::default() }),
    };
    let present = lock(&transaction, fabric_id).await?;
    let (mut granted, mut holder) = (false, String::new());
    let lease = request.lease.as_secs_f64();
    match present {
        Some(present) if present.crawler == request.crawler => {
            // One that gives its term back holds it until another one requests it, for what is still in its spool.
            let lease = if request.release { 0.0 } else { lease };
            let extend = "UPDATE internal.crawler_term SET expires_at = now() + $2 * interval '1 second', name = $3 \
                          WHERE id = $1";
            transaction.execute(extend, &[&present.id, &lease, &request.name]).await?;
            (granted, holder) = (!request.release, request.name.clone());
        }
        Some(present) if !present.is_expired || request.release => {
            holder = present.name;
        }
        None if request.release => {}
        _ => {
            let term = NewTerm { crawler: request.crawler, name: &request.name, lease: request.lease };
            begin(&transaction, fabric_id, term, request.since / 1000).await?;
            (granted, holder) = (true, request.name.clone());
        }
    }
    if granted {
        observe(&transaction, fabric_id, &request.fabric).await?;
    }
    transaction.commit().await?;
    Ok(TermGrant { granted, holder, fabric, ..TermGrant::default() })
}

/// Locks the fabric's terms against writers and other requests; the present term.
async fn lock(
    transaction: &Transaction<'_>,
    fabric_id: i64,
) -> Result<Option<CurrentTerm>, tokio_postgres::Error> {
    // Weaker than FOR UPDATE: rows that only refer to the fabric can still be made.
    transaction
        .execute("SELECT 1 FROM internal.fabric WHERE id = $1 FOR NO KEY UPDATE", &[&fabric_id])
        .await?;
    let query = format!(
        "SELECT id, crawler, name, expires_at <= clock_timestamp(), {} FROM internal.crawler_term \
         WHERE fabric_id = $1 AND ended_at IS NULL",
        microseconds("began_at")
    );
    let row = transaction.query_opt(&query, &[&fabric_id]).await?;
    Ok(row.map(|row| CurrentTerm {
        id: row.get(0),
        crawler: row.get(1),
        name: row.get(2),
        is_expired: row.get(3),
        began: row.get(4),
    }))
}

/// A term that begins.
struct NewTerm<'a> {
    crawler: Uuid,
    name: &'a str,
    lease: Duration,
}

/// Ends the present term, if any, and begins another: not before the last record of the one before.
async fn begin(
    transaction: &Transaction<'_>,
    fabric_id: i64,
    term: NewTerm<'_>,
    since_microseconds: i64,
) -> Result<(), tokio_postgres::Error> {
    let end = "UPDATE internal.crawler_term SET ended_at = greatest(covered_to + interval '1 microsecond', \
               'epoch'::timestamptz + $2::bigint * interval '1 microsecond') \
               WHERE fabric_id = $1 AND ended_at IS NULL";
    transaction.execute(end, &[&fabric_id, &since_microseconds]).await?;
    let insert = "WITH start AS (SELECT greatest('epoch'::timestamptz + $3::bigint * interval '1 microsecond', \
                    (SELECT max(ended_at) FROM internal.crawler_term WHERE fabric_id = $1)) AS at) \
                  INSERT INTO internal.crawler_term (fabric_id, crawler, name, began_at, covered_to, expires_at) \
                  SELECT $1, $2, $4, at, at, now() + $5 * interval '1 second' FROM start";
    let lease = term.lease.as_secs_f64();
    transaction
        .execute(insert, &[&fabric_id, &term.crawler, &since_microseconds, &term.name, &lease])
        .await?;
    let bound = "DELETE FROM internal.crawler_term WHERE id IN (SELECT id FROM internal.crawler_term \
                 WHERE fabric_id = $1 AND ended_at IS NOT NULL ORDER BY ended_at DESC OFFSET $2)";
    transaction.execute(bound, &[&fabric_id, &TERMS_KEPT]).await?;
    Ok(())
}

/// What one crawler is about to write: times of its records in UTC microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteInterval {
    pub crawler: Uuid,
    pub oldest: i64,
    pub newest: i64,
    /// Whether there are readings or inventory among them: figures alone do not show that it reads the fabric.
    pub is_reading: bool,
}

/// Notes that a crawler writes: extends its term, or gives it one where nobody has. Changes nothing where
/// another one has it.
pub(crate) async fn claim(
    client: &mut Client,
    fabric_id: i64,
    stretch: WriteInterval,
) -> Result<(), tokio_postgres::Error> {
    // covered_to is bounded by our clock: a crawler's clock that is far ahead must not lock others out.
    let extend = "UPDATE internal.crawler_term SET \
                    covered_to = greatest(covered_to, least(now(), \
                      'epoch'::timestamptz + $4::bigint * interval '1 microsecond')), \
                    expires_at = CASE WHEN $5 THEN greatest(expires_at, now() + $6 * interval '1 second') \
                                 ELSE expires_at END \
                  WHERE fabric_id = $1 AND crawler = $2 AND ended_at IS NULL \
                    AND began_at <= 'epoch'::timestamptz + $3::bigint * interval '1 microsecond'";
    let WriteInterval { crawler, oldest, newest, is_reading } = stretch;
    // A granted lease is extended by its holder's requests alone: this one is short.
    let lease = LEASE_BY_READING.as_secs_f64();
    let extended =
        client.execute(extend, &[&fabric_id, &crawler, &oldest, &newest, &is_reading, &lease]).await?;
    if extended > 0 {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    match lock(&transaction, fabric_id).await? {
        Some(present) if present.crawler == crawler && present.began <= oldest => {}
        Some(present) if present.crawler != crawler && present.is_expired && newest >= present.began => {
            let term = NewTerm { crawler, name: "", lease: LEASE_BY_WRITING };
            begin(&transaction, fabric_id, term, oldest).await?;
        }
        None => {
            let term = NewTerm { crawler, name: "", lease: LEASE_BY_WRITING };
            begin(&transaction, fabric_id, term, oldest).await?;
        }
        Some(_) => note_past(&transaction, fabric_id, stretch).await?,
    }
    transaction.commit().await
}

/// How long a batch of readings alone extends a term.
const LEASE_BY_READING: Duration = Duration::from_secs(5);

/// A crawler delivers what it read before the present term began: a past term of its own, where nobody else had
/// one.
async fn note_past(
    transaction: &Transaction<'_>,
    fabric_id: i64,
    stretch: WriteInterval,
) -> Result<(), tokio_postgres::Error> {
    let WriteInterval { crawler, oldest, newest, .. } = stretch;
    let overlapped = format!(
        "SELECT 1 FROM internal.crawler_term WHERE fabric_id = $1 AND {} <= $3 \
         AND (ended_at IS NULL OR {} > $2) LIMIT 1",
        microseconds("began_at"),
        microseconds("ended_at")
    );
    if transaction.query_opt(&overlapped, &[&fabric_id, &oldest, &newest]).await?.is_some() {
        return Ok(());
    }
    // The stretch goes on if it is the newest one before, and not too far away.
    let go_on = "UPDATE internal.crawler_term SET ended_at = 'epoch'::timestamptz + $3::bigint * interval '1 microsecond' \
                 WHERE id = (SELECT id FROM internal.crawler_term WHERE fabric_id = $1 AND ended_at <= \
                   'epoch'::timestamptz + $4::bigint * interval '1 microsecond' ORDER BY ended_at DESC LIMIT 1) \
                 AND crawler = $2 AND ended_at > \
                   'epoch'::timestamptz + ($4::bigint - $5::bigint) * interval '1 microsecond'";
    let end = newest + 1;
    let gone_on =
        transaction.execute(go_on, &[&fabric_id, &crawler, &end, &oldest, &STRETCH_MICROSECONDS]).await?;
    if gone_on == 0 {
        let insert = "INSERT INTO internal.crawler_term (fabric_id, crawler, began_at, ended_at, covered_to, expires_at) \
                      SELECT $1, $2, b.at, e.at, e.at, now() \
                      FROM (SELECT 'epoch'::timestamptz + $3::bigint * interval '1 microsecond' AS at) b, \
                           (SELECT 'epoch'::timestamptz + $4::bigint * interval '1 microsecond' AS at) e";
        transaction.execute(insert, &[&fabric_id, &crawler, &oldest, &end]).await?;
    }
    Ok(())
}

/// Terms of some fabrics, as a transaction that writes sees them; they can't change before it ends.
pub(crate) struct Fence(Vec<FencedTerm>);

struct FencedTerm {
    fabric_id: i64,
    crawler: Uuid,
    began: i64,
    ended: Option<i64>,
}

impl Fence {
    /// Reads the terms that touch records from `oldest` on, and holds off servers that want to begin another.
    pub async fn read(
        transaction: &Transaction<'_>,
        fabrics: &[i64],
        oldest: i64,
    ) -> Result<Fence, tokio_postgres::Error> {
        if fabrics.is_empty() {
            return Ok(Fence(Vec::new()));
        }
        transaction
            .execute("SELECT 1 FROM internal.fabric WHERE id = ANY($1) ORDER BY id FOR SHARE", &[&fabrics])
            .await?;
        let query = format!(
            "SELECT fabric_id, crawler, {}, {} FROM internal.crawler_term WHERE fabric_id = ANY($1) AND (ended_at IS NULL \
             OR ended_at > 'epoch'::timestamptz + $2::bigint * interval '1 microsecond')",
            microseconds("began_at"),
            microseconds("ended_at")
        );
        let rows = transaction.query(&query, &[&fabrics, &oldest]).await?;
        let term = |row: &tokio_postgres::Row| FencedTerm {
            fabric_id: row.get(0),
            crawler: row.get(1),
            began: row.get(2),
            ended: row.get(3),
        };
        Ok(Fence(rows.iter().map(term).collect()))
    }

    /// Whether another crawler has a term that holds this moment (UTC microseconds).
    pub fn forbids(&self, fabric_id: i64, crawler: Uuid, moment: i64) -> bool {
        self.0.iter().any(|term| {
            term.fabric_id == fabric_id
                && term.crawler != crawler
                && term.began <= moment
                && term.ended.is_none_or(|ended| moment < ended)
        })
    }
}
