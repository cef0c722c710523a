//! The registry of tables: one entry each, [`TABLES`]. Whatever is done with all tables, or with those of some kind, iterates over it: the
//! writer's COPY, columns of metrics, retention, thinning, the columnstore, the prediction of sizes, the budget of late arrivals, and
//! the list in docs/TABLES.md (`cargo xtask tables`). Tests compare it with the schema of a database and with the records of a batch.

mod entry;
mod list;
mod plain;
mod site;

use throughline_sample::catalogue;

pub use site::Site;

/// Every table: hypertables, then plain ones.
pub static TABLES: [StoredTable; list::HYPERTABLES.len() + plain::PLAIN_TABLES.len()] = {
    let mut all = [list::HYPERTABLES[0]; list::HYPERTABLES.len() + plain::PLAIN_TABLES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < list::HYPERTABLES.len() {
            list::HYPERTABLES[at]
        } else {
            plain::PLAIN_TABLES[at - list::HYPERTABLES.len()]
        };
        at += 1;
    }
    all
};

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct StoredTable {
    /// Its name.
    pub name: &'static str,
    /// The columns that distinguish its rows: its primary key, where it has one.
    pub key: &'static [&'static str],
    /// The fields of [`throughline_sample::wire::Batch`] whose records become its rows; none where only the server fills it.
    pub records: &'static [&'static str],
    /// How long rows are there.
    pub life: Life,
}

/// How long rows of a table are there.
#[derive(Clone, Copy, Debug)]
pub enum Life {
    /// A hypertable, whose chunks go.
    Chunks(Chunks),
    /// A plain table.
    Plain(PlainTable),
}

/// A table whose rows do not go by chunks.
#[derive(Clone, Copy, Debug)]
pub struct PlainTable {
    /// How long rows are there.
    pub keep: PlainRetention,
    /// Bytes on disk that a year adds, with indexes, estimated from the widths of columns; 0 where that is next to nothing.
    pub bytes_a_year: fn(&Site) -> f64,
}

/// How long rows of a plain table are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainRetention {
    /// As long as the job whose number this column has: `retention.jobs_seconds` after its end.
    Job(&'static str),
    /// As long as rows of its job's ranks: then what it has of the job whose number this column has is packed (`job_node_final`).
    Rank(&'static str),
    /// As long or as many as this says: the writer of the table, or upkeep, removes the others.
    Bounded(&'static str),
    /// One row for each thing that there is, replaced in its place.
    Replaced,
    /// Until what it asks for is done.
    Done,
    /// For ever, for this reason.
    Forever(&'static str),
}

impl PlainRetention {
    /// For people.
    pub fn text(self) -> String {
        match self {
            PlainRetention::Job(_) => "`jobs_seconds`".to_owned(),
            PlainRetention::Rank(_) => {
                "`default_seconds` after the end of the job, then in `job_node_final`".to_owned()
            }
            PlainRetention::Bounded(limit) => limit.to_owned(),
            PlainRetention::Replaced => "replaced in its place".to_owned(),
            PlainRetention::Done => "until it is done".to_owned(),
            PlainRetention::Forever(reason) => format!("for ever: {reason}"),
        }
    }
}

/// What a row of a hypertable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One reading or record, written by the collector.
    Row,
    /// What upkeep makes of a window or minute of rows.
    Rollup,
    /// What upkeep encodes of many readings into one row.
    Packed,
}

impl Form {
    /// Its name for people and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Row => "row",
            Form::Rollup => "rollup",
            Form::Packed => "packed",
        }
    }
}

/// How long rows are retained, where a table has no time of its own in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionClass {
    /// `retention.default_seconds`.
    Readings,
    /// `retention.minutes_seconds`.
    Minutes,
    /// `retention.events_seconds`.
    Events,
    /// As long as readings are rows, at most a day, or `retention.default_seconds` where that is less: minutes are made of them, which
    /// stay.
    Windows,
    /// `retention.detail_seconds`.
    Detail,
    /// As the rows of another table, without which these are not used.
    With(&'static str),
}

/// How a hypertable holds its rows.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// What a row is.
    pub form: Form,
    /// How long.
    pub keep: RetentionClass,
    /// Hours of a chunk: retention removes whole ones, so rows stay up to so much longer.
    pub hours: u32,
    /// Rows a second.
    pub rows: fn(&Site) -> f64,
    /// Bytes of a row on disk.
    pub row_bytes: fn(&Site) -> f64,
    /// What is assumed of the site, for people.
    pub assumes: &'static str,
    /// The columns that the writer copies, in the order of the rows; `{metrics}` are those of the catalogue. Empty where upkeep fills it.
    pub(crate) copied: &'static str,
    /// The catalogue's table that has its metrics.
    pub(crate) metrics: Option<catalogue::Table>,
    /// What old chunks have, where they are thinned ([`crate::thin_chunks`]).
    pub thinned: Option<ThinningPlan>,
    /// How old chunks are held as columns on TimescaleDB's full edition.
    pub columns: Option<Columns>,
    /// What a total of a job is, where rows are such: the last ones of jobs that go on are there however old they are
    /// (`internal.carry_totals`).
    pub(crate) carried: Option<TotalForm>,
}

/// What the total of a series is, whose rows are cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TotalForm {
    /// Its last row.
    Row,
    /// The last value of each packed cell: of the last row that has all, and those after it.
    Cells,
    /// Likewise of each peer.
    Peers,
}

impl TotalForm {
    /// Its name in the database.
    pub const fn name(self) -> &'static str {
        match self {
            TotalForm::Row => "row",
            TotalForm::Cells => "cells",
            TotalForm::Peers => "peers",
        }
    }
}

/// What a table has of a time whose chunk is thinned: of each step what its last row says.
#[derive(Clone, Copy, Debug)]
pub struct ThinningPlan {
    /// A step.
    pub step_seconds: u32,
    /// Whether steps are (begin, end], as windows and panels have them, else [begin, end). Of a closed one a chunk has the row at its
    /// begin for itself: where it has few steps that is too much.
    pub is_closed: bool,
    /// Which rows are kept.
    pub(crate) rule: Rule,
    /// Rows of a second that are kept.
    pub rows: fn(&Site) -> f64,
    /// Bytes of such a row on disk.
    pub row_bytes: fn(&Site) -> f64,
}

/// What is kept of each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The last row of each key: each row has everything, but for those of cells that are not folded, which all stay.
    Last,
    /// One row of each key with the last value of each peer: rows have all peers, or those that changed since the row before.
    Peers {
        /// Whether rows say since when their peers grew.
        has_since: bool,
    },
    /// All rows of the last ten seconds of a job in which anything was sampled: the same ones of all nodes, as members of a communicator
    /// sample the same calls.
    Ticks,
    /// One row of each key with the last value of each metric.
    Metrics,
    /// Equal rounds in one row, where none between them was missed.
    Rounds,
    /// One row of each key with the last sums of each cell.
    Cells,
}

/// How a table is held as columns.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Each batch has one value of this column: what queries name first.
    pub segment_by: &'static str,
    /// Order of rows in a segment: what queries name next, and time.
    pub order_by: &'static str,
    /// Bytes of a row on disk as columns, measured with values that are as irregular as a site's: `benches/row-bytes.sh`.
    pub row_bytes: fn(&Site) -> f64,
}

impl StoredTable {
    /// The hypertable that it is.
    pub const fn chunks(&self) -> Option<&Chunks> {
        match &self.life {
            Life::Chunks(chunks) => Some(chunks),
            Life::Plain(_) => None,
        }
    }

    /// The plain table that it is.
    pub const fn plain(&self) -> Option<&PlainTable> {
        match &self.life {
            Life::Plain(plain) => Some(plain),
            Life::Chunks(_) => None,
        }
    }

    /// What a total of a job is in it, and the columns that distinguish series of them: its key, and the epoch, since which rows count.
    pub(crate) fn carried(&self) -> Option<(TotalForm, Vec<&'static str>)> {
        let form = self.chunks()?.carried?;
        let mut key: Vec<&str> = self.key.iter().copied().filter(|column| *column != "time").collect();
        let copied = self.copied();
        key.extend(["epoch"].iter().filter(|epoch| copied.contains(epoch) && !self.key.contains(epoch)));
        Some((form, key))
    }

    /// Whether its rows were requested, and may be there from an earlier request. Those of operations hold many records each, and
    /// are removed when a later answer has all that they have.
    pub(crate) fn may_be_there(&self) -> bool {
        self.is_detail() && self.name != "detail_mpi_bins"
    }

    /// Whether its rows are there on request only.
    pub(crate) fn is_detail(&self) -> bool {
        self.chunks().is_some_and(|chunks| chunks.keep == RetentionClass::Detail)
    }

    /// The columns that the writer copies.
    pub(crate) fn copied(&self) -> Vec<&'static str> {
        let Some(chunks) = self.chunks().filter(|chunks| !chunks.copied.is_empty()) else {
            return Vec::new();
        };
        let metrics = chunks.metrics.map_or(&[][..], catalogue::Table::metrics);
        let columns = chunks.copied.split(", ").flat_map(|column| match column {
            "{metrics}" => metrics.iter().map(|metric| metric.name).collect(),
            column => vec![column],
        });
        columns.collect()
    }
}

/// The hypertables, in the order of [`TABLES`].
pub fn hypertables() -> impl Iterator<Item = (&'static StoredTable, &'static Chunks)> {
    TABLES.iter().filter_map(|table| Some((table, table.chunks()?)))
}

/// The plain tables, in the order of [`TABLES`].
pub fn plain_tables() -> impl Iterator<Item = (&'static StoredTable, &'static PlainTable)> {
    TABLES.iter().filter_map(|table| Some((table, table.plain()?)))
}

/// The entry of a hypertable; `None` for what is none of ours.
pub fn hypertable(name: &str) -> Option<(&'static StoredTable, &'static Chunks)> {
    hypertables().find(|(table, _)| table.name == name)
}

/// Its index in [`TABLES`]. For constants: a name that is not there does not compile.
pub(crate) const fn index(name: &str) -> usize {
    let mut at = 0;
    while at < TABLES.len() {
        if is_equal(TABLES[at].name, name) {
            return at;
        }
        at += 1;
    }
    panic!("no table of this name")
}

const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests;
