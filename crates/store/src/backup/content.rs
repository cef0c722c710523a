//! What is in a database: of each table and hour the rows, and the sum of their hashes. The sum does not depend on the order of rows, nor on
//! whether they are rows or columns. A row's hash is PostgreSQL's own, of all its columns.

use std::collections::BTreeMap;

use tokio_postgres::{Client, GenericClient};

use super::BackupProgress;
use super::manifest::{HourContent, Manifest, TableContent};
use crate::database::Database;
use crate::error::Error;

const WHAT: &str = "summing the rows of a table";

/// What a restore changes: the permission to drop is given by checks of a clock, and the backup's is not of now.
const NOT_COMPARED: [&str; 1] = ["clock_check"];

/// All tables of ours, with the time of those that have chunks, and their columns. Strings of bits have no such hash, and their bytes have.
const TABLES: &str = "
    SELECT c.relname::text, (SELECT quote_ident(d.column_name) FROM timescaledb_information.dimensions d
        WHERE d.hypertable_schema = 'internal' AND d.hypertable_name = c.relname AND d.dimension_number = 1),
        (SELECT string_agg(format(CASE WHEN a.atttypid IN ('varbit'::regtype, 'bit'::regtype) THEN 'pg_catalog.varbit_send(t.%I)' ELSE 't.%I' END, a.attname),
                           ', ' ORDER BY a.attnum)
         FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
    FROM pg_class c WHERE c.relnamespace = 'internal'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> ALL ($1)
    ORDER BY c.relname";

/// Reads it by a transaction of one snapshot.
pub(super) async fn read(
    client: &impl GenericClient,
    progress: &BackupProgress,
) -> Result<Vec<TableContent>, Error> {
    let tables = client.query(TABLES, &[&&NOT_COMPARED[..]]).await.map_err(Error::sql(WHAT))?;
    progress.expect_sums(tables.len() as u64);
    let mut all = Vec::with_capacity(tables.len());
    for table in &tables {
        let (table, time, columns): (String, Option<String>, String) =
            (table.get(0), table.get(1), table.get(2));
        let hour = time.map_or_else(
            || "NULL::bigint".to_owned(),
            |time| format!("extract(epoch FROM date_bin('1 hour', t.{time}, 'epoch'))::bigint"),
        );
        let query = format!(
            "SELECT {hour}, count(*), sum(hash_record_extended(ROW({columns}), 0))::text FROM internal.{table} t GROUP BY 1 ORDER BY 1"
        );
        let rows = client.query(&query, &[]).await.map_err(Error::sql(&format!("{WHAT} ({table})")))?;
        let hours: Vec<HourContent> = rows
            .iter()
            .map(|row| HourContent(row.get(0), row.get::<_, i64>(1).unsigned_abs(), row.get(2)))
            .collect();
        all.push(TableContent { table, rows: hours.iter().map(|hour| hour.1).sum(), hours });
        progress.sum_done();
    }
    Ok(all)
}

/// A database beside a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Tables of either, by name.
    pub tables: Vec<Difference>,
}

impl Verified {
    /// Whether both have the same.
    pub fn is_equal(&self) -> bool {
        self.tables.iter().all(Difference::is_equal)
    }
}

/// A table of a backup and of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: String,
    /// Rows of the backup; `None` where it has no such table.
    pub backup_rows: Option<u64>,
    /// Rows of the database.
    pub database_rows: Option<u64>,
    /// Hours of either.
    pub hours: u64,
    /// Those that differ.
    pub different: Vec<HourDifference>,
}

impl Difference {
    /// Whether both have the same.
    pub fn is_equal(&self) -> bool {
        self.different.is_empty() && self.backup_rows == self.database_rows
    }
}

/// An hour that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourDifference {
    /// Its begin in seconds since 1970; `None` of a table without a time.
    pub hour: Option<i64>,
    /// Rows of the backup.
    pub backup_rows: u64,
    /// Rows of the database; as many, where they are others.
    pub database_rows: u64,
}

/// Compares a database with a manifest, in one snapshot.
///
/// # Errors
/// The database is away, or has not our schema.
pub async fn verify(
    database: &Database,
    manifest: &Manifest,
    progress: &BackupProgress,
) -> Result<Verified, Error> {
    let mut client = database.connect_admin().await?;
    let found = client.query_one("SELECT to_regclass('internal.schema_migrations') IS NOT NULL", &[]).await;
    if !found.map_err(Error::sql("looking for our schema"))?.get::<_, bool>(0) {
        return Err(Error::Schema(format!(
            "the database {} has no tables of ours: `throughline db restore` fills an empty one",
            database.place()
        )));
    }
    progress.begin("comparing");
    let transaction = snapshot(&mut client).await?;
    let found = read(&transaction, progress).await?;
    Ok(compare(&manifest.tables, &found))
}

/// A transaction that sees one state and changes nothing.
async fn snapshot(client: &mut Client) -> Result<tokio_postgres::Transaction<'_>, Error> {
    let begin = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .read_only(true)
        .start();
    begin.await.map_err(Error::sql("beginning a snapshot"))
}

fn compare(backup: &[TableContent], database: &[TableContent]) -> Verified {
    let mut tables: BTreeMap<&str, [Option<&TableContent>; 2]> = BTreeMap::new();
    for (side, all) in [backup, database].into_iter().enumerate() {
        for table in all {
            tables.entry(&table.table).or_default()[side] = Some(table);
        }
    }
    let one = |(table, [backup, database]): (&str, [Option<&TableContent>; 2])| {
        let mut hours: BTreeMap<Option<i64>, [Option<&HourContent>; 2]> = BTreeMap::new();
        for (side, content) in [backup, database].into_iter().enumerate() {
            for hour in content.iter().flat_map(|content| &content.hours) {
                hours.entry(hour.0).or_default()[side] = Some(hour);
            }
        }
        let rows = |hour: Option<&HourContent>| hour.map_or(0, |hour| hour.1);
        let different = hours.iter().filter(|(_, [one, other])| one != other).map(|(hour, sides)| {
            HourDifference { hour: *hour, backup_rows: rows(sides[0]), database_rows: rows(sides[1]) }
        });
        Difference {
            table: table.to_owned(),
            backup_rows: backup.map(|content| content.rows),
            database_rows: database.map(|content| content.rows),
            hours: hours.len() as u64,
            different: different.collect(),
        }
    };
    Verified { tables: tables.into_iter().map(one).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, hours: &[(i64, u64, &str)]) -> TableContent {
        let hours: Vec<HourContent> = hours
            .iter()
            .map(|(hour, rows, sum)| HourContent(Some(*hour), *rows, (*sum).to_owned()))
            .collect();
        TableContent { table: name.to_owned(), rows: hours.iter().map(|hour| hour.1).sum(), hours }
    }

    #[test]
    fn other_rows_missing_rows_and_missing_tables_are_differences() {
        let backup = [table("a", &[(0, 2, "5"), (3600, 1, "7")]), table("b", &[(0, 1, "1")])];
        assert!(compare(&backup, &backup).is_equal());
        let other = [table("a", &[(0, 2, "6"), (7200, 1, "7")]), table("b", &[(0, 1, "1")]), table("c", &[])];
        let found = compare(&backup, &other);
        assert!(!found.is_equal());
        let [a, b, c] = &found.tables[..] else { panic!("{found:?}") };
        let rows = |hour: &HourDifference| (hour.hour, hour.backup_rows, hour.database_rows);
        let hours: Vec<_> = a.different.iter().map(rows).collect();
        assert_eq!(hours, [(Some(0), 2, 2), (Some(3600), 1, 0), (Some(7200), 0, 1)]);
        assert_eq!((a.hours, b.is_equal(), c.is_equal()), (3, true, false));
    }
}
