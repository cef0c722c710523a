//! What jobs reported to have sent, by windows: the growth of peers of `mpi_node_traffic`, spread over the time in which it
//! flowed.
//!
//! Rows are read once, in the order of their times, and the last value of each cell is cached. What arrives for times that
//! were read already is noted by writers (`link_share_late`); then the cache is dropped and read anew.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::TryStreamExt;
use std::pin::pin;
use std::time::SystemTime;
use throughline_shares::estimate::Kind;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::{Micros, WINDOW, micros, moment};
use crate::error::Error;

const WHAT: &str = "reading traffic of jobs for shares of links";

/// How far before its first window a reader begins, so that most cells have a value by then.
const LEAD: Micros = 30_000_000;

/// Most cells cached: some 100 bytes each. Growth of what is beyond is left out and counted.
const CELLS_MAX: usize = 1_500_000;

/// A cell without a row for so long is evicted; its last value is looked up when it grows again.
const IDLE: Micros = 900_000_000;

/// Operations, kinds and directions of nodes, each with all of its peers, that are looked up with one statement.
const LINES_LOOKED_UP: usize = 2_000;

/// Whose traffic, from where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub job: i64,
    /// The node that reports.
    pub node: i64,
    /// World rank.
    pub peer: i32,
    /// Number of the operation in [`Traffic::operations`].
    pub operation: u32,
    pub kind: Kind,
    /// From the peer to the node: one-sided reads.
    pub is_received: bool,
}

impl Key {
    /// The same for all peers of a row.
    fn of_line(self) -> Key {
        Key { peer: 0, ..self }
    }
}

/// Payload in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amount {
    pub bytes: f64,
    pub messages: f64,
}

#[derive(Clone, Copy, Debug)]
struct CellReading {
    time: Micros,
    bytes: i64,
    messages: i64,
}

/// SQL for rows of some time, in its order.
fn rows(since: Micros, until: Micros) -> String {
    format!(
        "SELECT job_id, node_id, operation, array_position(ARRAY['measured', 'modelled', 'logical'], kind),
                direction = 'receive', epoch, since, time, peers, bytes, messages
         FROM internal.mpi_node_traffic m WHERE time > {} AND time <= {}
           AND NOT EXISTS (SELECT FROM internal.rank_claim x
                           WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id)
         ORDER BY time",
        moment(since),
        moment(until)
    )
}

/// What the cells of a row have in common.
#[derive(Clone, Copy, Debug)]
struct Line {
    key: Key,
    epoch: Micros,
    since: Micros,
    time: Micros,
}

impl Line {
    fn cell(&self, peer: i32, bytes: i64, messages: i64) -> Cell {
        let last = CellReading { time: self.time, bytes, messages };
        Cell { key: Key { peer, ..self.key }, epoch: self.epoch, since: self.since, last }
    }
}

/// What cells are looked up by.
struct Columns {
    jobs: Vec<i64>,
    nodes: Vec<i64>,
    operations: Vec<String>,
    kinds: Vec<String>,
    directions: Vec<String>,
    epochs: Vec<SystemTime>,
    before: Vec<SystemTime>,
}

/// Rows of cells that have no cached value, in order.
#[derive(Debug, Default)]
struct UncachedCells {
    unknown: Vec<Cell>,
    of_unknown: HashSet<(Key, Micros)>,
}

/// Numbers of a column of arrays; what is absent is nothing.
fn numbers(row: &Row, column: usize) -> Vec<i64> {
    row.get::<_, Vec<Option<i64>>>(column).into_iter().map(Option::unwrap_or_default).collect()
}

/// Which of what was looked up a row is of.
fn place(row: &Row) -> usize {
    usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX)
}

/// The value of a cell at a time.
#[derive(Clone, Copy, Debug)]
struct Cell {
    key: Key,
    epoch: Micros,
    since: Micros,
    last: CellReading,
}

/// A reader of traffic.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    operations: Vec<String>,
    operation_of: HashMap<String, u32>,
    cells: HashMap<(Key, Micros), CellReading>,
    /// By the end of the window.
    windows: BTreeMap<Micros, HashMap<Key, Amount>>,
    read_until: Option<Micros>,
    /// Windows that were taken before more of them was read, by end.
    missed: BTreeMap<Micros, f64>,
    /// Rows that were left out because too many cells are cached.
    pub left_out: u64,
}

impl Traffic {
    /// The name of an operation.
    pub fn operation(&self, number: u32) -> &str {
        self.operations.get(number as usize).map_or("", String::as_str)
    }

    /// Payload of the window that ends at `end`, of rows until `until`. Windows are taken in order.
    pub async fn take(
        &mut self,
        client: &Client,
        end: Micros,
        until: Micros,
    ) -> Result<HashMap<Key, Amount>, Error> {
        let since = self.read_until.unwrap_or(end - WINDOW - LEAD);
        self.read(client, since, until, end - WINDOW).await?;
        self.read_until = Some(until.max(since));
        self.cells.retain(|_, last| last.time > end - IDLE);
        let window = self.windows.remove(&end).unwrap_or_default();
        // Those before it were taken.
        self.windows = self.windows.split_off(&end);
        Ok(window)
    }

    /// Windows with at least so many bytes that were read after the window had been taken.
    pub fn missed(&mut self, least_bytes: f64) -> Vec<Micros> {
        let missed = std::mem::take(&mut self.missed);
        missed.into_iter().filter(|(_, bytes)| *bytes >= least_bytes).map(|(end, _)| end).collect()
    }

    async fn read(
        &mut self,
        client: &Client,
        since: Micros,
        until: Micros,
        taken_until: Micros,
    ) -> Result<(), Error> {
        let mut added = UncachedCells::default();
        let parameters: [&str; 0] = [];
        let rows = client.query_raw(&rows(since, until), parameters).await.map_err(Error::sql(WHAT))?;
        let mut rows = pin!(rows);
        while let Some(row) = rows.try_next().await.map_err(Error::sql(WHAT))? {
            let line = self.line(&row);
            let (peers, [bytes, messages]) = (row.get::<_, Vec<i32>>(8), [9, 10].map(|at| numbers(&row, at)));
            for (peer, (bytes, messages)) in peers.into_iter().zip(bytes.into_iter().zip(messages)) {
                self.add(line.cell(peer, bytes, messages), &mut added, taken_until);
            }
        }
        self.add_unknown(client, added.unknown, taken_until).await
    }

    /// Adds a row's cell, or notes it where no value of it is cached.
    fn add(&mut self, cell: Cell, added: &mut UncachedCells, taken_until: Micros) {
        let id = (cell.key, cell.epoch);
        if !added.of_unknown.contains(&id) {
            if let Some(last) = self.cells.get(&id).copied() {
                self.grow(&cell, last, taken_until);
                self.cells.insert(id, cell.last);
                return;
            }
            if self.cells.len() + added.of_unknown.len() >= CELLS_MAX {
                self.left_out += 1;
                return;
            }
            added.of_unknown.insert(id);
        }
        added.unknown.push(cell);
    }

    /// Adds rows of cells that have no cached value: their values before are looked up.
    async fn add_unknown(
        &mut self,
        client: &Client,
        unknown: Vec<Cell>,
        taken_until: Micros,
    ) -> Result<(), Error> {
        // Where the first row is older than the windows to come, what was before does not matter.
        let mut wanted: Vec<Cell> = Vec::new();
        let mut firsts: HashSet<(Key, Micros)> = HashSet::new();
        for cell in &unknown {
            if firsts.insert((cell.key, cell.epoch)) && cell.last.time > taken_until {
                wanted.push(*cell);
            }
        }
        let known = self.look_up(client, &wanted).await?;
        let is_expired = |cell: &&Cell| {
            !known.contains(&(cell.key.of_line(), cell.epoch)) && cell.epoch < taken_until - IDLE
        };
        let expired: Vec<Cell> = wanted.iter().filter(is_expired).copied().collect();
        let expired = self.expired(client, &expired).await?;
        for cell in unknown {
            let id = (cell.key, cell.epoch);
            let last = self.cells.get(&id).copied();
            match last {
                Some(last) => self.grow(&cell, last, taken_until),
                // What it has was counted before: in a carried row since no time, and where retention took all that says when.
                None if cell.since >= cell.last.time
                    || expired.contains(&(cell.key.of_line(), cell.epoch)) => {}
                None if cell.last.time > taken_until => {
                    // The cell's first row: it grew from nothing.
                    self.grow(&cell, CellReading { time: cell.epoch, bytes: 0, messages: 0 }, taken_until);
                }
                None => {}
            }
            self.cells.insert(id, cell.last);
        }
        Ok(())
    }

    /// Those lines whose rows have expired, and that have no total which was carried on (`carry_totals`): of nodes that began to count
    /// before rows are retained, and have no row of that time. As after a node was silent for so long.
    async fn expired(&self, client: &Client, cells: &[Cell]) -> Result<HashSet<(Key, Micros)>, Error> {
        let sql = "
            SELECT w.n
            FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) WITH ORDINALITY AS w (job, node, epoch, n)
            JOIN internal.retention_policy p ON p.hypertable = 'mpi_node_traffic' AND w.epoch < internal.expiry_time() - p.keep
            WHERE NOT EXISTS (
                SELECT FROM internal.mpi_node_traffic t
                WHERE t.job_id = w.job AND t.node_id = w.node AND t.epoch = w.epoch
                  AND t.time <= internal.expiry_time() - p.keep + INTERVAL '2 hours')";
        let mut expired = HashSet::new();
        for some in cells.chunks(LINES_LOOKED_UP) {
            let of = self.columns(some);
            let rows =
                client.query(sql, &[&of.jobs, &of.nodes, &of.epochs]).await.map_err(Error::sql(WHAT))?;
            let lines = rows.iter().filter_map(|row| some.get(place(row)));
            expired.extend(lines.map(|cell| (cell.key.of_line(), cell.epoch)));
        }
        Ok(expired)
    }

    /// Reads the values of cells before their rows into the cache: of the last row that has all peers, and those after it. Returns the
    /// lines that have rows before.
    async fn look_up(&mut self, client: &Client, cells: &[Cell]) -> Result<HashSet<(Key, Micros)>, Error> {
        let sql = "
            SELECT w.n, l.time, l.peers, l.bytes, l.messages
            FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
                 WITH ORDINALITY AS w (job, node, operation, kind, direction, epoch, before, n)
            LEFT JOIN LATERAL (
                SELECT time FROM internal.mpi_node_traffic t
                WHERE t.job_id = w.job AND t.node_id = w.node AND t.operation = w.operation AND t.kind = w.kind
                  AND t.direction = w.direction AND t.epoch = w.epoch AND t.time < w.before AND t.time >= w.epoch
                  AND t.is_whole
                ORDER BY t.time DESC LIMIT 1) whole ON true
            CROSS JOIN LATERAL (
                SELECT time, peers, bytes, messages FROM internal.mpi_node_traffic t
                WHERE t.job_id = w.job AND t.node_id = w.node AND t.operation = w.operation AND t.kind = w.kind
                  AND t.direction = w.direction AND t.epoch = w.epoch AND t.time < w.before
                  AND t.time >= coalesce(whole.time, w.epoch)
                ORDER BY t.time) l
            ORDER BY w.n, l.time";
        let mut lines: Vec<Cell> = Vec::new();
        // A line's first row comes first: no row before it has any of its peers that are looked up.
        let mut known: HashSet<(Key, Micros)> = HashSet::new();
        lines.extend(cells.iter().filter(|cell| known.insert((cell.key.of_line(), cell.epoch))));
        let wanted: HashSet<(Key, Micros)> = cells.iter().map(|cell| (cell.key, cell.epoch)).collect();
        let mut found = HashSet::new();
        for some in lines.chunks(LINES_LOOKED_UP) {
            let of = self.columns(some);
            let parameters: [&(dyn ToSql + Sync); 7] =
                [&of.jobs, &of.nodes, &of.operations, &of.kinds, &of.directions, &of.epochs, &of.before];
            let rows = client.query_raw(sql, parameters).await.map_err(Error::sql(WHAT))?;
            let mut rows = pin!(rows);
            while let Some(row) = rows.try_next().await.map_err(Error::sql(WHAT))? {
                let Some(line) = some.get(place(&row)) else { continue };
                found.insert((line.key.of_line(), line.epoch));
                let (time, peers) = (micros(row.get(1)), row.get::<_, Vec<i32>>(2));
                let amounts = numbers(&row, 3).into_iter().zip(numbers(&row, 4));
                for (peer, (bytes, messages)) in peers.into_iter().zip(amounts) {
                    let id = (Key { peer, ..line.key }, line.epoch);
                    if wanted.contains(&id) {
                        self.cells.insert(id, CellReading { time, bytes, messages });
                    }
                }
            }
        }
        Ok(found)
    }

    /// What cells are looked up by, but for their peers.
    fn columns(&self, cells: &[Cell]) -> Columns {
        let text = |of: &dyn Fn(&Cell) -> String| cells.iter().map(of).collect();
        let times = |of: fn(&Cell) -> Micros| cells.iter().map(|cell| super::system_time(of(cell))).collect();
        Columns {
            jobs: cells.iter().map(|cell| cell.key.job).collect(),
            nodes: cells.iter().map(|cell| cell.key.node).collect(),
            operations: text(&|cell| self.operation(cell.key.operation).to_owned()),
            kinds: text(&|cell| super::kind_name(cell.key.kind).to_owned()),
            directions: text(&|cell| if cell.key.is_received { "receive" } else { "transmit" }.to_owned()),
            epochs: times(|cell| cell.epoch),
            before: times(|cell| cell.last.time),
        }
    }

    /// What the cells of a row have in common.
    fn line(&mut self, row: &Row) -> Line {
        let name: &str = row.get(2);
        let operation = match self.operation_of.get(name) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.operations.len()).unwrap_or(u32::MAX);
                self.operations.push(name.to_owned());
                self.operation_of.insert(name.to_owned(), number);
                number
            }
        };
        let kind = match row.get::<_, Option<i32>>(3) {
            Some(1) => Kind::Measured,
            Some(2) => Kind::Modelled,
            _ => Kind::Logical,
        };
        let (job, node, is_received) = (row.get(0), row.get(1), row.get(4));
        Line {
            key: Key { job, node, peer: 0, operation, kind, is_received },
            epoch: micros(row.get(5)),
            since: micros(row.get(6)),
            time: micros(row.get(7)),
        }
    }

    /// Spreads a cell's growth over the windows in which it flowed.
    fn grow(&mut self, cell: &Cell, last: CellReading, taken_until: Micros) {
        let (bytes, messages) = (cell.last.bytes - last.bytes, cell.last.messages - last.messages);
        if bytes < 0 || messages < 0 || bytes == 0 && messages == 0 {
            return;
        }
        let until = cell.last.time;
        let since = cell.since.max(last.time).max(cell.epoch).min(until);
        #[allow(clippy::cast_precision_loss)] // growth between two rows
        let (bytes, messages, length) = (bytes as f64, messages as f64, (until - since) as f64);
        let mut begin = since;
        loop {
            let end = window_end(begin);
            #[allow(clippy::cast_precision_loss)]
            let part = if length > 0.0 { (until.min(end) - begin) as f64 / length } else { 1.0 };
            if end > taken_until {
                let amount = self.windows.entry(end).or_default().entry(cell.key).or_default();
                amount.bytes += bytes * part;
                amount.messages += messages * part;
            } else if self.read_until.is_some() {
                *self.missed.entry(end).or_default() += bytes * part;
            }
            if until <= end {
                return;
            }
            begin = end;
        }
    }
}

/// The end of the window in which what flows from a time on lies.
fn window_end(since: Micros) -> Micros {
    (since.div_euclid(WINDOW) + 1) * WINDOW
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
