//! By which rules rows were left out: what their senders reported, or the usual ones. Read once for a request and passed on; no
//! other place of this crate decides from which age on something is silent.

use std::collections::HashMap;
use throughline_sample::catalogue::Table;
use throughline_sample::row_rules::{DEFAULT, LARGEST_GAP_SECONDS_MAX};
use throughline_sample::wire::RowRules;
use throughline_store::Error;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;

/// So far back the newest row of a thing is looked for that may be silent, to report its age. A bound of what that costs, and
/// no judgement.
const NEWEST_ROW_MS: i64 = 900_000;

/// The last moment of the year 9999: requests may have any range.
const LAST_MS: i64 = 253_402_300_799_999;

const WHAT: &str = "reading by which rules rows are left out";

/// Whether any sender has reported other rules than the usual ones for a time: few have, and to read those of things costs more.
async fn are_unusual(client: &Client, (from, to): (i64, i64)) -> Result<bool, Error> {
    let sql = format!(
        "SELECT EXISTS (SELECT FROM internal.row_rules WHERE valid_from <= {} AND coalesce(valid_to, 'infinity') >= {}
             AND (heartbeat_seconds, largest_gap_seconds, quiet_bytes) <> ({}, {}, {}))",
        moment(to),
        moment(from),
        DEFAULT.heartbeat_seconds,
        DEFAULT.largest_gap_seconds,
        DEFAULT.quiet_bytes
    );
    Ok(client.query_one(&sql, &[]).await.map_err(Error::sql(WHAT))?.get(0))
}

/// The largest gap in milliseconds of each sender that reported another one than the usual for a time: few do, and what they
/// send is looked for only then.
async fn unusual_senders(
    client: &Client,
    kind: &str,
    time: (i64, i64),
) -> Result<HashMap<String, i64>, Error> {
    let (from, to) = range(time);
    let sql = format!(
        "SELECT internal.instance_name(instance), largest_gap_seconds FROM internal.row_rules_of_senders('{kind}', {from}, {to})
         WHERE largest_gap_seconds <> {}",
        DEFAULT.largest_gap_seconds
    );
    let rows = client.query(&sql, &[]).await.map_err(Error::sql(WHAT))?;
    Ok(rows.iter().map(|row| (row.get(0), milliseconds(row.get(1)))).collect())
}

/// Both ends of a time as SQL, milliseconds since 1970.
fn range((from, to): (i64, i64)) -> (String, String) {
    (moment(from.clamp(0, LAST_MS)), moment(to.clamp(0, LAST_MS)))
}

/// The largest values of these things' rules in a time, milliseconds since 1970.
///
/// # Errors
/// The database's.
pub(crate) async fn rules(
    client: &Client,
    kind: Kind,
    ids: &[i64],
    from: i64,
    to: i64,
) -> Result<RowRules, Error> {
    if !are_unusual(client, (from, to)).await? {
        return Ok(DEFAULT);
    }
    let sql = format!(
        "SELECT max(heartbeat_seconds), max(largest_gap_seconds), max(quiet_bytes)
         FROM internal.row_rules_of('{}', {}, {}) WHERE id = ANY($1)",
        kind.rules(),
        moment(from),
        moment(to)
    );
    let row = client.query_one(&sql, &[&ids]).await.map_err(Error::sql(WHAT))?;
    let quiet = row.get::<_, Option<i64>>(2).and_then(|bytes| u64::try_from(bytes).ok());
    Ok(RowRules {
        heartbeat_seconds: row.get::<_, Option<f64>>(0).unwrap_or(DEFAULT.heartbeat_seconds),
        largest_gap_seconds: row.get::<_, Option<f64>>(1).unwrap_or(DEFAULT.largest_gap_seconds),
        quiet_bytes: quiet.unwrap_or(DEFAULT.quiet_bytes),
    })
}

/// The largest gap by the rules of one source of a sender, in a time, milliseconds since 1970.
///
/// # Errors
/// The database's.
pub(crate) async fn rules_of_sender(
    client: &Client,
    (source, instance): (&str, &str),
    (from, to): (i64, i64),
) -> Result<RowRules, Error> {
    let sql = format!(
        "SELECT max(largest_gap_seconds) FROM internal.row_rules
         WHERE source = $1 AND instance = $2 AND valid_from <= {} AND coalesce(valid_to, 'infinity') >= {}",
        moment(to),
        moment(from),
    );
    let row = client.query_one(&sql, &[&source, &instance]).await.map_err(Error::sql(WHAT))?;
    let largest_gap_seconds = row.get::<_, Option<f64>>(0).unwrap_or(DEFAULT.largest_gap_seconds);
    Ok(RowRules { largest_gap_seconds, ..DEFAULT })
}

/// The largest gap in milliseconds.
pub(crate) fn gap_ms(rules: &RowRules) -> i64 {
    milliseconds(rules.largest_gap_seconds)
}

/// How far before a time rows are looked for: the newest row and the one before it, each at most the largest gap back, and
/// [`NEWEST_ROW_MS`] at least.
pub(crate) fn look_back_ms(rules: &RowRules) -> i64 {
    NEWEST_ROW_MS.max(2 * gap_ms(rules))
}

/// Seconds of a rule as milliseconds.
#[allow(clippy::cast_possible_truncation)] // at most a day
pub(crate) fn milliseconds(seconds: f64) -> i64 {
    (seconds.clamp(0.0, LARGEST_GAP_SECONDS_MAX) * 1e3) as i64
}

/// Which things have the rows of a table, as `row_rules_of` names them; `None` where rows are of none.
fn things(table: Table) -> Option<&'static str> {
    match table {
        Table::IbPortCounters | Table::IbPortLaneCounters => Some(Kind::IbPorts.rules()),
        Table::HostPortCounters => Some(Kind::HostPorts.rules()),
        Table::NvlinkCounters | Table::GpuPcieCounters | Table::GpuPmCounters => Some(Kind::Nvlinks.rules()),
        _ => None,
    }
}

/// The largest gap of each of many things, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    /// Of those whose sender has reported another one than the usual.
    unusual: HashMap<i64, i64>,
}

impl Gaps {
    /// Those of the rows of a table in a time, of all things.
    ///
    /// # Errors
    /// The database's.
    pub async fn read(client: &Client, table: Table, time: (i64, i64)) -> Result<Gaps, Error> {
        let Some(kind) = things(table) else { return Ok(Gaps::default()) };
        if unusual_senders(client, kind, time).await?.is_empty() {
            return Ok(Gaps::default());
        }
        let (from, to) = range(time);
        let sql = format!(
            "SELECT id, largest_gap_seconds FROM internal.row_rules_of('{kind}', {from}, {to})
             WHERE largest_gap_seconds <> {}",
            DEFAULT.largest_gap_seconds
        );
        let rows = client.query(&sql, &[]).await.map_err(Error::sql(WHAT))?;
        Ok(Gaps { unusual: rows.iter().map(|row| (row.get(0), milliseconds(row.get(1)))).collect() })
    }

    /// The same of these things only, each with the name of its sender.
    ///
    /// # Errors
    /// The database's.
    pub async fn of_things(
        client: &Client,
        table: Table,
        named: impl Iterator<Item = (i64, &str)>,
        time: (i64, i64),
    ) -> Result<Gaps, Error> {
        let Some(kind) = things(table) else { return Ok(Gaps::default()) };
        let senders = unusual_senders(client, kind, time).await?;
        if senders.is_empty() {
            return Ok(Gaps::default());
        }
        let unusual = named.filter_map(|(id, sender)| Some((id, *senders.get(sender)?))).collect();
        Ok(Gaps { unusual })
    }

    /// That of a thing.
    pub fn of(&self, id: i64) -> i64 {
        self.unusual.get(&id).copied().unwrap_or_else(Gaps::usual)
    }

    /// That of what has no sender with rules of its own: figures of daemons.
    pub fn usual() -> i64 {
        gap_ms(&DEFAULT)
    }

    /// The largest of all.
    pub fn largest(&self) -> i64 {
        self.unusual.values().copied().fold(Gaps::usual(), i64::max)
    }
}
