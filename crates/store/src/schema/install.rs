//! Brings functions and views to those of this build, within a transaction of the caller's.
//!
//! The table `schema_objects` has the checksum of what is installed. A changed object is replaced in place, which keeps its
//! rights and what others built on it. Where PostgreSQL cannot do that (a view's column has another type, a function other
//! results), it is dropped and created again, and so are those of ours that use it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use super::dependents::{Name, RemovedObject, oids, remove};
use super::fault::Fault;
use super::objects::{OBJECTS, Object, ObjectKind};

/// How long a statement of such a transaction waits for a lock. Less than PostgreSQL's `deadlock_timeout` of one second: where a reader of
/// several views and this transaction wait for each other, this one gives up and the reader goes on.
pub(crate) const LOCK_LIMIT: &str = "300ms";

/// How long a moment without readers of the views is waited for, and the pause between two looks.
const FREE_WAIT: Duration = Duration::from_millis(300);
const FREE_PAUSE: Duration = Duration::from_millis(1);

/// Applies what differs, and removes what this build no longer has. Returns the number of objects changed.
pub(crate) async fn install(transaction: &Transaction<'_>) -> Result<usize, Fault> {
    let state = State::read(transaction).await?;
    let mut work = Work { is_due: state.due(), rights: BTreeMap::new() };
    if !work.is_due.contains(&true) && state.obsolete.is_empty() {
        return Ok(0);
    }
    lock(transaction, &state, &work.is_due).await?;
    for (kind, schema, name) in &state.obsolete {
        let of = Name { kind: *kind, schema, name };
        let targets = oids(transaction, of).await?;
        work.note(remove(transaction, of, &targets).await?);
        let delete = "DELETE FROM internal.schema_objects WHERE name = $1";
        transaction.execute(delete, &[name]).await.map_err(Fault::sql("removing functions and views"))?;
    }
    for place in 0..OBJECTS.len() {
        if work.is_due[place] {
            work.note(replace(transaction, place).await?);
            record(transaction, place, &state.checksums[place]).await?;
        }
    }
    for statement in work.rights.values().flatten() {
        transaction.batch_execute(statement).await.map_err(Fault::sql("giving rights again"))?;
    }
    Ok(work.is_due.iter().filter(|is_due| **is_due).count() + state.obsolete.len())
}

/// What is to be done, by the place in [`OBJECTS`].
struct Work {
    is_due: Vec<bool>,
    rights: BTreeMap<usize, Vec<String>>,
}

impl Work {
    /// What was removed is created again in its turn. That comes later: it used what was removed.
    fn note(&mut self, removed: Vec<RemovedObject>) {
        for RemovedObject { place, rights } in removed {
            self.is_due[place] = true;
            self.rights.entry(place).or_insert(rights);
        }
    }
}

/// What is installed, and what this build has.
struct State {
    /// Of each of [`OBJECTS`], in that order.
    checksums: Vec<String>,
    installed: HashMap<String, String>,
    /// Kinds, schemas and names.
    present: HashSet<(String, String, String)>,
    /// Installed, and not in this program: kind, schema, name.
    obsolete: Vec<(ObjectKind, String, String)>,
}

impl State {
    async fn read(transaction: &Transaction<'_>) -> Result<State, Fault> {
        let what = "comparing functions and views with those of this program";
        let texts: Vec<_> = OBJECTS.iter().map(Object::sql).collect();
        let query =
            "SELECT md5(sql) FROM unnest($1::text[]) WITH ORDINALITY AS t (sql, place) ORDER BY place";
        let rows = transaction.query(query, &[&texts]).await.map_err(Fault::sql(what))?;
        let checksums = rows.iter().map(|row| row.get(0)).collect();
        let query = "SELECT name, kind, checksum, schema FROM internal.schema_objects";
        let rows = transaction.query(query, &[]).await.map_err(Fault::sql(what))?;
        let mut obsolete = Vec::new();
        for row in &rows {
            let kind = ObjectKind::of_name(row.get(1)).unwrap_or(ObjectKind::Function);
            let (name, schema): (String, String) = (row.get(0), row.get(3));
            if super::objects::position(kind, &name).is_none_or(|place| OBJECTS[place].schema() != schema) {
                obsolete.push((kind, schema, name));
            }
        }
        let installed = rows.iter().map(|row| (row.get(0), row.get(2))).collect();
        let query = "SELECT 'view', n.nspname::text, c.relname::text \
                     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                     WHERE c.relkind = 'v' AND n.nspname IN ('public', 'internal') \
                     UNION ALL \
                     SELECT CASE f.prokind WHEN 'p' THEN 'procedure' ELSE 'function' END, n.nspname::text, f.proname::text \
                     FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace WHERE n.nspname IN ('public', 'internal')";
        let rows = transaction.query(query, &[]).await.map_err(Fault::sql(what))?;
        let present = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        Ok(State { checksums, installed, present, obsolete })
    }

    fn is_present(&self, place: usize) -> bool {
        let object = &OBJECTS[place];
        let key = (object.kind.name().to_owned(), object.schema().to_owned(), object.name.to_owned());
        self.present.contains(&key)
    }

    fn due(&self) -> Vec<bool> {
        let is_current =
            |place: usize| self.installed.get(OBJECTS[place].name) == Some(&self.checksums[place]);
        (0..OBJECTS.len()).map(|place| !is_current(place) || !self.is_present(place)).collect()
    }
}

/// Locks the views that change before any is changed, outer ones first: in this order a reader of an outer view locks
/// the inner ones, so that the two don't wait for each other. Setting the owner that it has already is the way to lock
/// a view without the tables beneath it.
///
/// Readers of several views lock them in the order of their query, so that in any order one of them may hold what is wanted next
/// and wait for what is locked already. So it begins in a moment when nobody reads any, if there is one.
async fn lock(transaction: &Transaction<'_>, state: &State, is_due: &[bool]) -> Result<(), Fault> {
    let what = "locking views";
    let is_locked = |place: &usize| {
        OBJECTS[*place].kind == ObjectKind::View && is_due[*place] && state.is_present(*place)
    };
    let names: Vec<&str> =
        (0..OBJECTS.len()).rev().filter(is_locked).map(|place| OBJECTS[place].name).collect();
    let owners = "SELECT coalesce(string_agg(format('ALTER VIEW %I.%I OWNER TO %I;', n.nspname, c.relname, pg_get_userbyid(c.relowner)), \
                                             ' ' ORDER BY array_position($1::text[], c.relname::text)), '') \
                  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                  WHERE c.relname = ANY ($1::text[]) AND n.nspname IN ('public', 'internal') AND c.relkind = 'v'";
    let row = transaction.query_one(owners, &[&names]).await.map_err(Fault::sql(what))?;
    let statements: &str = row.get(0);
    wait_for_readers(transaction, &names).await?;
    // All in one statement: the less time passes, the fewer readers come meanwhile.
    transaction.batch_execute(statements).await.map_err(Fault::sql(what))
}

/// Until nobody reads these views, or for as long as [`FREE_WAIT`].
async fn wait_for_readers(transaction: &Transaction<'_>, views: &[&str]) -> Result<(), Fault> {
    let what = "looking for readers of views";
    let query = "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid <> pg_backend_pid() \
                 AND c.relname = ANY ($1::text[]) \
                 AND c.relnamespace IN ('public'::regnamespace, 'internal'::regnamespace) \
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
    let statement = transaction.prepare(query).await.map_err(Fault::sql(what))?;
    let start = Instant::now();
    while start.elapsed() < FREE_WAIT {
        let row = transaction.query_one(&statement, &[&views]).await.map_err(Fault::sql(what))?;
        if !row.get::<_, bool>(0) {
            return Ok(());
        }
        tokio::time::sleep(FREE_PAUSE).await;
    }
    Ok(())
}

/// Creates the object, in place where that is possible. Returns what had to be removed for it.
async fn replace(transaction: &Transaction<'_>, place: usize) -> Result<Vec<RemovedObject>, Fault> {
    let object = &OBJECTS[place];
    let name = object.full_name();
    let what = format!("creating the {name}");
    let before = oids(transaction, name).await?;
    transaction.batch_execute("SAVEPOINT object").await.map_err(Fault::sql(&what))?;
    let Err(refusal) = transaction.batch_execute(&object.sql()).await else {
        transaction.batch_execute("RELEASE object").await.map_err(Fault::sql(&what))?;
        return Ok(Vec::new());
    };
    if !is_of_another_form(&refusal) {
        return Err(Fault::sql(&what)(refusal));
    }
    transaction.batch_execute("ROLLBACK TO object; RELEASE object").await.map_err(Fault::sql(&what))?;
    let removed = remove(transaction, name, &before).await?;
    transaction.batch_execute(&object.sql()).await.map_err(Fault::sql(&what))?;
    Ok(removed)
}

/// Whether PostgreSQL refuses to put one in the place of the other: a view's columns or a function's results differ. A
/// function with other arguments stands beside the old one, and then the comment's function is ambiguous.
fn is_of_another_form(refusal: &tokio_postgres::Error) -> bool {
    matches!(
        refusal.code(),
        Some(
            &SqlState::INVALID_TABLE_DEFINITION
                | &SqlState::INVALID_FUNCTION_DEFINITION
                | &SqlState::AMBIGUOUS_FUNCTION
        )
    )
}

async fn record(transaction: &Transaction<'_>, place: usize, checksum: &str) -> Result<(), Fault> {
    let object = &OBJECTS[place];
    let insert = "INSERT INTO internal.schema_objects (name, kind, schema, checksum) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT (name) DO UPDATE SET kind = EXCLUDED.kind, schema = EXCLUDED.schema, \
                                                   checksum = EXCLUDED.checksum, applied_at = now()";
    transaction
        .execute(insert, &[&object.name, &object.kind.name(), &object.schema(), &checksum])
        .await
        .map_err(Fault::sql("recording functions and views"))?;
    Ok(())
}

/// The sessions that have one of our views locked now, for a message.
pub(crate) async fn readers_of_views(client: &Client) -> Vec<String> {
    let query = "SELECT DISTINCT format('process %s of role %s%s', a.pid, a.usename, \
                     CASE WHEN a.application_name <> '' THEN ' (' || a.application_name || ')' ELSE '' END) \
                 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_class c ON c.oid = l.relation \
                 WHERE l.granted AND l.pid <> pg_backend_pid() AND c.relkind = 'v' \
                   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                   AND c.relnamespace IN ('public'::regnamespace, 'internal'::regnamespace)";
    // Only the message depends on it.
    let rows = client.query(query, &[]).await.unwrap_or_default();
    rows.iter().map(|row| row.get(0)).collect()
}
