//! Operations of a node's ranks in one row a minute: sums of the last row that has all cells and what changed after it, and of each cell
//! the ten seconds in which its ranks differed most. Rows are read in the order of their times and merged as they come.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::SinkExt;
use std::pin::pin;
use throughline_sample::wire::{MpiNodeCell, MpiOpCell};
use tokio_postgres::{Row, Transaction};

use super::WHAT;
use crate::copy::RowBuffer;
use crate::error::Error;
use crate::packed_account::NodeAccount;
use crate::packed_rows::{self, PackedRows};

/// Rows that are read at a time: some megabytes.
const ROWS_AT_ONCE: usize = 4096;

const CURSOR: &str = "thinned_node_rows";

/// A row in the making.
struct MergedRow {
    /// Job, node, epoch, and the beginning of the step.
    of: (i64, i64, i64, i64),
    time: i64,
    since: i64,
    source: String,
    is_whole: bool,
    /// By number of the cell: what it has counted, and what an interval brought of it.
    cells: BTreeMap<i64, (MpiOpCell, MpiNodeCell)>,
    /// The newest one, as of the row that has it.
    account: Option<(i64, NodeAccount)>,
}

impl MergedRow {
    fn begin(of: (i64, i64, i64, i64), row: &Row) -> Self {
        Self {
            of,
            time: row.get(4),
            since: row.get(5),
            source: row.get(6),
            is_whole: false,
            cells: BTreeMap::new(),
            account: None,
        }
    }

    /// Adds the next row of the step.
    fn add(&mut self, row: &Row) -> Result<(), Error> {
        self.time = row.get(4);
        self.is_whole |= row.get::<_, bool>(7);
        let cells: PackedRows = row.try_get(8).map_err(Error::sql(WHAT))?;
        let rounds: PackedRows = row.try_get(9).map_err(Error::sql(WHAT))?;
        let account: Option<NodeAccount> = row.try_get(10).map_err(Error::sql(WHAT))?;
        self.account = account.map(|account| (self.time, account)).or(self.account.take());
        let (cells, rounds) = cells.cells().zip(rounds.rounds()).ok_or_else(damaged)?;
        for ((key, sums), round) in cells.into_iter().zip(rounds) {
            match self.cells.get_mut(&key) {
                Some((known, widest)) => {
                    *known = sums;
                    if spread(&round) > spread(widest) {
                        *widest = round;
                    }
                }
                None => {
                    self.cells.insert(key, (sums, round));
                }
            }
        }
        Ok(())
    }

    fn put(&self, buffer: &mut RowBuffer) {
        let (job, node, epoch, _) = self.of;
        buffer.row();
        buffer.time(self.time * 1000);
        buffer.int8(job);
        buffer.int8(node);
        buffer.time(epoch * 1000);
        buffer.time(self.since * 1000);
        buffer.text(&self.source);
        buffer.boolean(self.is_whole);
        let sums: Vec<(i64, &MpiOpCell)> = self.cells.iter().map(|(key, (sums, _))| (*key, sums)).collect();
        let rounds: Vec<&MpiNodeCell> = self.cells.values().map(|(_, round)| round).collect();
        buffer.bits(packed_rows::cells(&sums));
        buffer.bits(packed_rows::rounds(&rounds));
        let account = self.account.as_ref();
        let account = account.map(|(time, account)| account.later((self.time - time) / 1000));
        buffer.bits(account.unwrap_or_default());
    }
}

fn damaged() -> Error {
    let cause = "a row of mpi_node_rows has numbers below zero".to_owned();
    Error::Refused { what: WHAT.to_owned(), cause, state: String::new() }
}

/// Puts merged rows of a chunk into an empty table with its columns. `step` is what the step of a row `m` is in SQL.
pub(super) async fn fill(
    transaction: &Transaction<'_>,
    chunk: &str,
    scratch: &str,
    step: &str,
) -> Result<(), Error> {
    let micros = |time: &str| format!("(extract(epoch FROM {time}) * 1000000)::bigint");
    let begin = format!(
        "DECLARE {CURSOR} NO SCROLL CURSOR FOR
         SELECT m.job_id, m.node_id, {}, {}, {}, {}, m.source, m.is_whole, m.cells, m.rounds, nullif(m.account, B'')
         FROM {chunk} m ORDER BY m.job_id, m.node_id, m.epoch, m.time",
        micros("m.epoch"),
        micros(step),
        micros("m.time"),
        micros("m.since")
    );
    transaction.batch_execute(&begin).await.map_err(Error::sql(WHAT))?;
    let mut open: Option<MergedRow> = None;
    loop {
        let fetch = format!("FETCH {ROWS_AT_ONCE} FROM {CURSOR}");
        let rows = transaction.query(&fetch, &[]).await.map_err(Error::sql(WHAT))?;
        let mut buffer = RowBuffer::new(10);
        for row in &rows {
            let of = (row.get(0), row.get(1), row.get(2), row.get(3));
            if let Some(done) = open.take_if(|open| open.of != of) {
                done.put(&mut buffer);
            }
            open.get_or_insert_with(|| MergedRow::begin(of, row)).add(row)?;
        }
        if rows.is_empty() {
            open.take().iter().for_each(|last| last.put(&mut buffer));
        }
        write(transaction, scratch, buffer).await?;
        if rows.is_empty() {
            break;
        }
    }
    transaction.batch_execute(&format!("CLOSE {CURSOR}")).await.map_err(Error::sql(WHAT))
}

async fn write(transaction: &Transaction<'_>, scratch: &str, buffer: RowBuffer) -> Result<(), Error> {
    if buffer.rows() == 0 {
        return Ok(());
    }
    let into = format!(
        "COPY {scratch} (time, job_id, node_id, epoch, since, source, is_whole, cells, rounds, account) FROM STDIN (FORMAT binary)"
    );
    let mut sink = pin!(transaction.copy_in::<_, Bytes>(&into).await.map_err(Error::sql(WHAT))?);
    sink.send(buffer.finish()).await.map_err(Error::sql(WHAT))?;
    sink.finish().await.map(drop).map_err(Error::sql(WHAT))
}

/// By how much a cell's ranks differed in an interval; any in which it grew before one in which it did not.
fn spread(round: &MpiNodeCell) -> Option<u64> {
    (round.ranks > 0).then(|| round.most_rank_nanoseconds.saturating_sub(round.least_rank_nanoseconds))
}
