//! Rollups: rows of one minute, made of readings and retained longer: mean and largest rate of each port and NVLink, and for
//! how much of the minute it was nearly full.
//!
//! [`make_rollups`] makes them in order, some time after each minute has passed. Writers note what comes later than that
//! in `minute_late` (`writer/late_arrivals.rs`), and those minutes are made again, of that thing only. The two meet in
//! `minute_state.noticed_until`: it is moved before a minute is made, while nobody writes (an advisory lock that writers
//! share), so each reading is either committed before or noted. What was being made when a server was killed is made by
//! the next one from `made_until` on; a minute that is made twice is the same.

mod sql;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throughline_sample::row_rules::{DEFAULT, LARGEST_GAP_SECONDS_MAX};
use tokio_postgres::{Client, GenericClient, Transaction};

use crate::chunks;
use crate::error::Error;
use crate::retention::Retention;
use crate::rollup_kind::Kind;

/// How long after its end a minute is made: the reading after it is there by then, unless it is late.
const SETTLED: Duration = Duration::from_secs(150);

/// Minutes of one transaction, when there is much to make up for.
const SLICE: Duration = Duration::from_secs(600);

/// Notes of one transaction.
const NOTES: i64 = 100_000;

const MINUTE: Duration = Duration::from_secs(60);

/// What a call of [`make_rollups`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollupsMade {
    /// Minutes of time that were made.
    pub minutes: u64,
    /// Notes of late arrivals whose minutes were made again.
    pub late: u64,
    /// Rows of rollups written.
    pub rows: u64,
    /// Whether there is more to do.
    pub is_behind: bool,
    /// Time since the end of the last minute that is made.
    pub lag: Option<Duration>,
}

/// Ids, and for each the minutes to make: from, until.
#[derive(Default)]
struct RollupRanges {
    ids: Vec<i64>,
    since: Vec<SystemTime>,
    until: Vec<SystemTime>,
}

/// By which rules readings of things became rows; see `row_rules_of` of the schema.
#[derive(Default)]
struct Gaps(BTreeMap<i64, f64>);

impl Gaps {
    /// Those of all things of a kind, in a range.
    async fn read(
        transaction: &Transaction<'_>,
        kind: Kind,
        since: SystemTime,
        until: SystemTime,
    ) -> Result<Self, Error> {
        let query = "SELECT id, largest_gap_seconds FROM internal.row_rules_of($1, $2, $3)";
        let rows =
            transaction.query(query, &[&kind.rules(), &since, &until]).await.map_err(Error::sql(WHAT))?;
        Ok(Self(rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
    }

    /// Seconds.
    fn of(&self, id: i64) -> f64 {
        self.0.get(&id).copied().unwrap_or(DEFAULT.largest_gap_seconds)
    }

    fn largest(&self) -> Duration {
        let seconds = self.0.values().copied().fold(DEFAULT.largest_gap_seconds, f64::max);
        Duration::from_secs_f64(seconds.clamp(0.0, LARGEST_GAP_SECONDS_MAX))
    }
}

impl RollupRanges {
    fn push(&mut self, id: i64, since: SystemTime, until: SystemTime) {
        self.ids.push(id);
        self.since.push(since);
        self.until.push(until);
    }

    /// From the first minute to the end of the last.
    fn span(&self) -> Option<(SystemTime, SystemTime)> {
        Some((*self.since.iter().min()?, *self.until.iter().max()?))
    }
}

/// Makes the rollups of the minutes that have passed, then again those of late arrivals, for about `patience`. Connect as the
/// writer; one caller at a time.
///
/// Notes of readings older than the retention of readings are dropped where chunks of such a time are: other readings of their minutes went
/// with them.
///
/// # Errors
/// The database is away or refuses; what was made so far stays.
pub async fn make_rollups(
    client: &mut Client,
    retention: &Retention,
    patience: Duration,
) -> Result<RollupsMade, Error> {
    let begun = Instant::now();
    let mut made = RollupsMade { is_behind: true, ..RollupsMade::default() };
    // What fails or is killed has counted; what goes on counts from zero.
    let begin = "UPDATE internal.minute_state SET rounds_in_vain = rounds_in_vain + 1";
    client.execute(begin, &[]).await.map_err(Error::sql(WHAT))?;
    while begun.elapsed() < patience {
        let is_behind = slice(client, &mut made).await?;
        let late = make_late(client, retention).await?;
        made.late += late.notes;
        made.rows += late.rows;
        if !is_behind && late.notes == 0 {
            made.is_behind = false;
            break;
        }
    }
    let end = "UPDATE internal.minute_state SET rounds_in_vain = 0 RETURNING extract(epoch FROM now() - made_until)::float8";
    let row = client.query_one(end, &[]).await.map_err(Error::sql(WHAT))?;
    made.lag = row.get::<_, Option<f64>>(0).map(|seconds| Duration::from_secs_f64(seconds.max(0.0)));
    Ok(made)
}

const WHAT: &str = "making rollups of readings";

/// Makes the next minutes. Returns whether there are more.
async fn slice(client: &mut Client, made: &mut RollupsMade) -> Result<bool, Error> {
    let sql = format!(
        "SELECT s.made_until, date_trunc('minute', (SELECT internal.upkeep_time()) - INTERVAL '{} seconds') FROM internal.minute_state s
         WHERE isfinite((SELECT internal.upkeep_time()))",
        SETTLED.as_secs()
    );
    // Before the first check of the clock there is no time.
    let Some(row) = client.query_opt(sql.as_str(), &[]).await.map_err(Error::sql(WHAT))? else {
        return Ok(false);
    };
    let (last, target): (Option<SystemTime>, SystemTime) = (row.get(0), row.get(1));
    if last.is_some_and(|last| last >= target) {
        return Ok(false);
    }
    let until = (next_minute(client, last, target).await? + SLICE).min(target);
    notice(client, until).await?;
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    // Who wrote meanwhile noted nothing, and may have made the first chunk of that time.
    let since = next_minute(&transaction, last, target).await?.min(until);
    let until = (since + SLICE).min(until);
    if until > since {
        for kind in Kind::ALL {
            let sql = format!("SELECT id FROM internal.{} ORDER BY id", kind.keys());
            let mut wanted = RollupRanges::default();
            for row in transaction.query(sql.as_str(), &[]).await.map_err(Error::sql(WHAT))? {
                wanted.push(row.get(0), since, until);
            }
            made.rows += make(&transaction, kind, &wanted).await?;
        }
    }
    let advance = "UPDATE internal.minute_state SET made_until = $1, rounds_in_vain = 0";
    transaction.execute(advance, &[&until]).await.map_err(Error::sql(WHAT))?;
    transaction.commit().await.map_err(Error::sql(WHAT))?;
    made.minutes += until.duration_since(since).unwrap_or_default().as_secs() / MINUTE.as_secs();
    Ok(until < target)
}

/// From when on minutes are to be made; `target` where there is nothing to make before.
async fn next_minute(
    client: &impl GenericClient,
    last: Option<SystemTime>,
    target: SystemTime,
) -> Result<SystemTime, Error> {
    // Time without any chunk has no readings.
    let tables = Kind::ALL.map(Kind::readings);
    let next = "SELECT min(range_start) FROM timescaledb_information.chunks WHERE hypertable_schema = 'internal' \
                AND hypertable_name = ANY($1::text[]) AND range_end > coalesce($2, '-infinity'::timestamptz)";
    let row = client.query_one(next, &[&&tables[..], &last]).await.map_err(Error::sql(WHAT))?;
    // What was read at its very beginning belongs to the minute before.
    let first = row.get::<_, Option<SystemTime>>(0).map_or(target, |first| first - MINUTE);
    Ok(last.map_or(first, |last| last.max(first)).min(target))
}

/// From here on writers note what they write for minutes before `until`. Waits for those who write now.
async fn notice(client: &mut Client, until: SystemTime) -> Result<(), Error> {
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    // The lock of minutes_noticed().
    let lock = "SELECT pg_advisory_xact_lock(x'746c6d696e757465'::bigint)";
    transaction.execute(lock, &[]).await.map_err(Error::sql(WHAT))?;
    let advance = "UPDATE internal.minute_state SET noticed_until = greatest(noticed_until, $1)";
    transaction.execute(advance, &[&until]).await.map_err(Error::sql(WHAT))?;
    transaction.commit().await.map_err(Error::sql(WHAT))
}

/// What [`make_late`] did.
#[derive(Default)]
struct LateRollups {
    notes: u64,
    rows: u64,
}

/// Makes minutes with late arrivals again: those of one kind and one hour.
async fn make_late(client: &mut Client, retention: &Retention) -> Result<LateRollups, Error> {
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    let taking = format!(
        "WITH first AS (SELECT kind, since FROM internal.minute_late WHERE isfinite((SELECT internal.upkeep_time()))
                        ORDER BY kind, since LIMIT 1),
              oldest AS (SELECT l.ctid FROM internal.minute_late l, first f
                       WHERE l.kind = f.kind AND l.since < f.since + INTERVAL '1 hour' ORDER BY l.since LIMIT {NOTES}),
              taken AS (DELETE FROM internal.minute_late WHERE ctid = ANY (ARRAY (SELECT ctid FROM oldest)) RETURNING kind, id, since, until)
         SELECT kind, id, since, until, (SELECT internal.upkeep_time()), (SELECT made_until FROM internal.minute_state) FROM taken"
    );
    let rows = transaction.query(taking.as_str(), &[]).await.map_err(Error::sql(WHAT))?;
    let Some(first) = rows.first() else { return Ok(LateRollups::default()) };
    let kind = Kind::ALL.into_iter().find(|kind| kind.table() == first.get::<_, &str>(0));
    let (now, made_until): (SystemTime, Option<SystemTime>) = (first.get(4), first.get(5));
    let mut late = LateRollups { notes: rows.len() as u64, rows: 0 };
    if let (Some(kind), Some(made_until)) = (kind, made_until) {
        let (ids, (since, until)): (Vec<i64>, (Vec<SystemTime>, Vec<SystemTime>)) = rows
            .iter()
            .map(|row| (row.get::<_, i64>(1), (row.get::<_, SystemTime>(2), row.get::<_, SystemTime>(3))))
            .unzip();
        chunks::invalidate(&transaction, kind, &ids, &since, &until).await?;
        let oldest = dropped_until(&transaction, kind).await?.min(now - retention.of(kind.readings()));
        let (first, last) = (since.iter().min().copied(), until.iter().max().copied());
        let gaps = match first.zip(last) {
            Some((first, last)) => Gaps::read(&transaction, kind, first, last).await?,
            None => Gaps::default(),
        };
        let mut times: BTreeMap<i64, Vec<(SystemTime, SystemTime)>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.get::<_, SystemTime>(2) > oldest) {
            let (since, until): (SystemTime, SystemTime) = (row.get(2), row.get(3));
            // A reading changes what is known of the time since the one before and until the one after.
            let (id, gap) = (row.get(1), Duration::from_secs_f64(gaps.of(row.get(1))));
            let span = (minute(since - gap), (minute(until + gap) + MINUTE).min(made_until));
            times.entry(id).or_default().push(span);
        }
        let mut wanted = RollupRanges::default();
        for (id, spans) in times {
            for (since, until) in united(spans).into_iter().filter(|(since, until)| since < until) {
                wanted.push(id, since, until);
            }
        }
        late.rows = make(&transaction, kind, &wanted).await?;
    }
    transaction.commit().await.map_err(Error::sql(WHAT))?;
    Ok(late)
}

/// Until when chunks of readings were dropped.
async fn dropped_until(transaction: &Transaction<'_>, kind: Kind) -> Result<SystemTime, Error> {
    let query = "SELECT max(dropped_until) FROM internal.retention_policy WHERE hypertable IN ($1, $2)";
    let row = transaction.query_one(query, &[&kind.readings(), &kind.blocks()]).await;
    Ok(row.map_err(Error::sql(WHAT))?.get::<_, Option<SystemTime>>(0).unwrap_or(UNIX_EPOCH))
}

/// Makes the minutes of things, in place of the rows there are.
async fn make(transaction: &Transaction<'_>, kind: Kind, wanted: &RollupRanges) -> Result<u64, Error> {
    let Some((since, until)) = wanted.span() else { return Ok(0) };
    // Each thing has its few rows in the index: whatever is known of the tables, nothing is quicker, and the planner
    // knows little of the newest chunk.
    let steps = "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off; \
                 SET LOCAL jit = off";
    transaction.batch_execute(steps).await.map_err(Error::sql(WHAT))?;
    let gaps = Gaps::read(transaction, kind, since, until).await?;
    let packed = chunks::packed_range(transaction, kind).await?;
    let making = sql::making(kind, since, until, gaps.largest(), packed.map(|(_, until)| until));
    let Some(making) = making else { return Ok(0) };
    let removal = sql::removal(kind, since, until);
    transaction
        .execute(removal.as_str(), &[&wanted.ids, &wanted.since, &wanted.until])
        .await
        .map_err(Error::sql(WHAT))?;
    let gap_of_each: Vec<f64> = wanted.ids.iter().map(|id| gaps.of(*id)).collect();
    transaction
        .execute(making.as_str(), &[&wanted.ids, &wanted.since, &wanted.until, &gap_of_each])
        .await
        .map_err(Error::sql(WHAT))
}

/// The beginning of a time's minute.
fn minute(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    UNIX_EPOCH + Duration::from_secs(since - since % MINUTE.as_secs())
}

/// Spans without overlaps, in order.
fn united(mut spans: Vec<(SystemTime, SystemTime)>) -> Vec<(SystemTime, SystemTime)> {
    spans.sort_unstable();
    let mut all: Vec<(SystemTime, SystemTime)> = Vec::new();
    for (since, until) in spans {
        match all.last_mut() {
            Some(last) if since <= last.1 => last.1 = last.1.max(until),
            _ => all.push((since, until)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_united_and_begin_with_a_minute() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(minute(at(1_000_000_019)), at(999_999_960));
        let spans = vec![(at(300), at(360)), (at(0), at(60)), (at(60), at(120)), (at(330), at(340))];
        assert_eq!(united(spans), [(at(0), at(120)), (at(300), at(360))]);
    }
}
