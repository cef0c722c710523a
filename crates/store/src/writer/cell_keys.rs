//! Small numbers of cells of MPI operations: a cache of what is committed in `mpi_cell_key`.
//!
//! Programs name regions, so unlike other keys these are removed with retention when no row has them any more: a writer that looks
//! one up notes that it is used, and looks it up again after [`CACHED`]. Before it uses one it looks whether it is still there: rows with a
//! number that nothing explains would be lost.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use throughline_sample::wire::{Batch, MpiOpCell};
use tokio_postgres::Client;

use super::key_sql::KeySql;
use super::{WriteError, failed};
use crate::copy::stored;

/// How long a number is used without looking it up.
const CACHED: Duration = Duration::from_secs(24 * 3600);

/// What distinguishes cells, and how their algorithm is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellName {
    operation: String,
    size_class_bytes: i64,
    region: String,
    algorithm: String,
    algorithm_source: String,
}

impl CellName {
    fn of(cell: &MpiOpCell) -> Self {
        // PostgreSQL's text has no NUL byte.
        let text = |text: &str| text.replace('\0', "\u{fffd}");
        Self {
            operation: text(&cell.operation),
            size_class_bytes: stored(cell.size_class_bytes),
            region: text(&cell.region),
            algorithm: text(&cell.algorithm),
            algorithm_source: text(&cell.algorithm_source),
        }
    }
}

/// The same of a name and of a record, so that a look-up copies no text: it is made twice for each cell.
trait NameParts {
    fn parts(&self) -> (i64, [&str; 4]);
}

impl NameParts for CellName {
    fn parts(&self) -> (i64, [&str; 4]) {
        let texts = [&*self.operation, &self.region, &self.algorithm, &self.algorithm_source];
        (self.size_class_bytes, texts)
    }
}

impl NameParts for MpiOpCell {
    fn parts(&self) -> (i64, [&str; 4]) {
        let texts = [&*self.operation, &self.region, &self.algorithm, &self.algorithm_source];
        (stored(self.size_class_bytes), texts)
    }
}

impl Borrow<dyn NameParts> for CellName {
    fn borrow(&self) -> &(dyn NameParts + 'static) {
        self
    }
}

impl Hash for dyn NameParts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn NameParts {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn NameParts {}

impl Hash for CellName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// Numbers of cells.
#[derive(Default)]
pub(super) struct CellKeys {
    ids: HashMap<CellName, i64>,
    since: Option<Instant>,
}

impl CellKeys {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn id(&self, cell: &MpiOpCell) -> Result<i64, String> {
        let id = self.find(cell);
        id.ok_or_else(|| format!("operation '{}' has no identifier", cell.operation))
    }

    fn find(&self, cell: &MpiOpCell) -> Option<i64> {
        // A record with a NUL byte is not equal to its name, which has another character there.
        self.ids.get(cell as &dyn NameParts).or_else(|| self.ids.get(&CellName::of(cell))).copied()
    }

    /// Makes the cells of these batches known.
    pub async fn resolve(
        &mut self,
        client: &Client,
        batches: impl Iterator<Item = &Batch> + Clone,
    ) -> Result<(), WriteError> {
        self.expire();
        let (mut missing, used) = self.find_all(batches.clone());
        if self.evict_removed(client, used).await? {
            (missing, _) = self.find_all(batches);
        }
        if missing.is_empty() { Ok(()) } else { self.add(client, missing).await }
    }

    /// Numbers that were not looked up for long are looked up again.
    fn expire(&mut self) {
        if self.since.is_none_or(|since| since.elapsed() >= CACHED) {
            self.ids.clear();
            self.since = Some(Instant::now());
        }
    }

    /// Cells without a number here, and the numbers of the others.
    fn find_all<'a>(&self, batches: impl Iterator<Item = &'a Batch>) -> (BTreeSet<CellName>, BTreeSet<i64>) {
        let (mut missing, mut used) = (BTreeSet::new(), BTreeSet::new());
        for cell in batches.flat_map(cells) {
            match self.find(cell) {
                Some(id) => drop(used.insert(id)),
                None => drop(missing.insert(CellName::of(cell))),
            }
        }
        (missing, used)
    }

    /// Evicts those of these numbers that somebody removed; whether there were any.
    async fn evict_removed(&mut self, client: &Client, used: BTreeSet<i64>) -> Result<bool, WriteError> {
        if used.is_empty() {
            return Ok(false);
        }
        let used: Vec<i64> = used.into_iter().collect();
        let rows =
            client.query(REMOVED, &[&used]).await.map_err(failed("looking whether cells are there"))?;
        let removed: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        if !removed.is_empty() {
            self.ids.retain(|_, id| !removed.contains(id));
        }
        Ok(!removed.is_empty())
    }

    async fn add(&mut self, client: &Client, wanted: BTreeSet<CellName>) -> Result<(), WriteError> {
        let wanted: Vec<CellName> = wanted.into_iter().collect();
        let texts = |of: fn(&CellName) -> &str| wanted.iter().map(of).collect::<Vec<_>>();
        let (operations, regions) = (texts(|cell| &cell.operation), texts(|cell| &cell.region));
        let (algorithms, sources) = (texts(|cell| &cell.algorithm), texts(|cell| &cell.algorithm_source));
        let sizes: Vec<i64> = wanted.iter().map(|cell| cell.size_class_bytes).collect();
        // First: what is noted as used is not removed any more.
        client
            .execute(NOTE_USED, &[&operations, &sizes, &regions, &algorithms, &sources])
            .await
            .map_err(failed("noting cells that are used"))?;
        let sql = KeySql { find: FIND, add: ADD };
        let found = sql
            .resolve(client, wanted.len(), &[&operations, &sizes, &regions, &algorithms, &sources])
            .await?;
        let named = found.into_iter().filter_map(|(at, id)| Some((wanted.get(at)?.clone(), id)));
        self.ids.extend(named.collect::<Vec<_>>());
        Ok(())
    }
}

/// The cells of a batch that get numbers.
fn cells(batch: &Batch) -> impl Iterator<Item = &MpiOpCell> {
    let of_nodes = batch.mpi_node_cells.iter().flat_map(|all| &all.cells);
    let of_nodes = of_nodes.filter_map(|cell| cell.sums.as_ref());
    // What was requested has the names beside the numbers.
    let overflow = batch.mpi_ops.iter().filter(|_| batch.detail.is_none());
    let of_ranks = batch.mpi_rank_rows.iter().chain(overflow).flat_map(|all| &all.cells);
    of_ranks.chain(of_nodes)
}

const REMOVED: &str = "SELECT w.id FROM unnest($1::bigint[]) w (id) WHERE NOT EXISTS (SELECT FROM internal.mpi_cell_key k WHERE k.id = w.id)";

const FIND: &str = "SELECT w.position, k.id FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY \
     AS w(operation, size_class_bytes, region, algorithm, algorithm_source, position) \
     JOIN internal.mpi_cell_key k USING (operation, size_class_bytes, region, algorithm, algorithm_source)";

const ADD: &str = "INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source) \
     SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[]) ON CONFLICT DO NOTHING";

/// Rows in one order, so that two writers do not wait for each other.
const NOTE_USED: &str = "
UPDATE internal.mpi_cell_key SET used_at = now() WHERE id IN (
    SELECT k.id FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[])
        AS w(operation, size_class_bytes, region, algorithm, algorithm_source)
    JOIN internal.mpi_cell_key k USING (operation, size_class_bytes, region, algorithm, algorithm_source)
    WHERE k.used_at < now() - INTERVAL '12 hours' ORDER BY k.id FOR UPDATE OF k)";
