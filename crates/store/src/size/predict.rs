//! How large a site's database becomes.

use std::time::Duration;

use crate::columnstore::columns_of;
use crate::retention::{Retention, RetentionWay};
use crate::rollup_kind::Kind;
use crate::tables::{Chunks, Form, PlainRetention, PlainTable, Site, StoredTable, hypertables, plain_tables};

/// The write-ahead log at most, as the private cluster is configured on a large disk; bytes.
pub const WAL_BYTES_MAX: u64 = crate::cluster::WAL_MEGABYTES << 20;

const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// What a chunk takes on disk beside its rows: first pages of its table, its index and its TOAST. Chunks of an hour with one row were
/// measured with 33 to 41 kB.
const CHUNK_BYTES: f64 = 36_000.0;

/// What one table takes.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSize {
    /// The hypertable.
    pub table: &'static str,
    /// What a row is.
    pub form: Form,
    /// Rows a second.
    pub rows_per_second: f64,
    /// Bytes of a row on disk, with indexes.
    pub bytes_per_row: f64,
    /// How long rows are retained.
    pub retention: Duration,
    /// Hours of a chunk.
    pub chunk_hours: u32,
    /// What old rows take, where that is less and before they expire: they are fewer, or columns.
    pub old: Option<OldSize>,
    /// What is assumed of the site; may be empty.
    pub assumes: &'static str,
}

/// What old rows of a table take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OldSize {
    /// How old a chunk is whose rows are old.
    pub after: Duration,
    /// Rows of a second that are kept.
    pub rows_per_second: f64,
    /// Bytes of such a row on disk, with indexes.
    pub bytes_per_row: f64,
}

impl TableSize {
    /// Bytes that a second adds.
    pub fn bytes_per_second(&self) -> f64 {
        self.rows_per_second * self.bytes_per_row
    }

    /// Bytes that a day adds.
    pub fn bytes_per_day(&self) -> f64 {
        self.bytes_per_second() * 86_400.0
    }

    /// How long the oldest row is on disk: a chunk goes as a whole.
    pub fn longest(&self) -> Duration {
        self.retention + Duration::from_secs(u64::from(self.chunk_hours) * 3600)
    }

    /// Bytes on disk, at most, once rows are removed as fast as they come.
    pub fn steady_bytes(&self) -> f64 {
        self.bytes_after(self.longest())
    }

    /// Bytes of chunks beside their rows, when rows have come for so long.
    fn chunk_bytes(&self, time: Duration) -> f64 {
        if self.rows_per_second == 0.0 {
            return 0.0;
        }
        CHUNK_BYTES * (time.as_secs_f64() / 3600.0 / f64::from(self.chunk_hours)).ceil()
    }

    /// How long the oldest row is on disk as it was written.
    fn longest_as_written(&self) -> Duration {
        let chunk = Duration::from_secs(u64::from(self.chunk_hours) * 3600);
        self.old.map_or(self.longest(), |old| (old.after + chunk).min(self.longest()))
    }

    /// Bytes that a day adds for longer than a day: of rows that are kept so long, in the form of old ones.
    pub fn staying_bytes_per_day(&self) -> f64 {
        if self.retention <= DAY {
            return 0.0;
        }
        self.old
            .map_or(self.bytes_per_day(), |old| old.rows_per_second * old.bytes_per_row * DAY.as_secs_f64())
    }

    /// Bytes on disk when rows have come for so long.
    pub fn bytes_after(&self, time: Duration) -> f64 {
        let time = time.min(self.longest());
        let written = time.min(self.longest_as_written());
        let old = self.old.map_or(0.0, |old| old.rows_per_second * old.bytes_per_row);
        self.bytes_per_second() * written.as_secs_f64()
            + old * (time - written).as_secs_f64()
            + self.chunk_bytes(time)
    }
}

/// What one plain table takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlainSize {
    /// The table.
    pub table: &'static str,
    /// How long its rows are there.
    pub keep: PlainRetention,
    /// That as a time, where it is one of the configuration.
    pub retention: Option<Duration>,
    /// Bytes on disk that a year adds.
    pub bytes_per_year: f64,
}

impl PlainSize {
    /// Bytes on disk when rows have come for so long.
    pub fn bytes_after(&self, time: Duration) -> f64 {
        let time = self.retention.map_or(time, |retention| time.min(retention));
        self.bytes_per_year * time.as_secs_f64() / YEAR.as_secs_f64()
    }

    /// Bytes on disk, at most, once rows are removed as fast as they come; where none is, after a year.
    pub fn steady_bytes(&self) -> f64 {
        self.bytes_after(self.retention.unwrap_or(YEAR))
    }
}

/// What a site takes.
#[derive(Clone, Debug, PartialEq)]
pub struct SizePrediction {
    /// The site that it is for.
    pub site: Site,
    /// On which edition: that with policies or that without.
    pub way: RetentionWay,
    /// Each hypertable.
    pub tables: Vec<TableSize>,
    /// Each plain table.
    pub plain_tables: Vec<PlainSize>,
}

impl SizePrediction {
    /// Rows a second that collectors write.
    pub fn written_rows_per_second(&self) -> f64 {
        self.tables.iter().filter(|table| table.form == Form::Row).map(|table| table.rows_per_second).sum()
    }

    /// Rows a second, those of upkeep included.
    pub fn rows_per_second(&self) -> f64 {
        self.tables.iter().map(|table| table.rows_per_second).sum()
    }

    /// Bytes that a day adds to hypertables.
    pub fn bytes_per_day(&self) -> f64 {
        self.tables.iter().map(TableSize::bytes_per_day).sum()
    }

    /// Bytes of a day in hypertables that are there for longer than a day.
    pub fn staying_bytes_per_day(&self) -> f64 {
        self.tables.iter().map(TableSize::staying_bytes_per_day).sum()
    }

    /// Bytes of all tables once rows are removed as fast as they come, with a year of those that nobody removes; the write-ahead log
    /// comes to it.
    pub fn steady_bytes(&self) -> f64 {
        self.tables.iter().map(TableSize::steady_bytes).sum::<f64>() + self.plain_bytes()
    }

    /// The part of it that is in plain tables.
    pub fn plain_bytes(&self) -> f64 {
        self.plain_tables.iter().map(PlainSize::steady_bytes).sum()
    }
}

/// Predicts the size of a site's database with this retention, on the edition that does it in this way.
pub fn predict_size(site: &Site, retention: &Retention, way: RetentionWay) -> SizePrediction {
    let size = |(table, chunks): (&'static StoredTable, &'static Chunks)| TableSize {
        table: table.name,
        form: chunks.form,
        rows_per_second: (chunks.rows)(site),
        bytes_per_row: (chunks.row_bytes)(site),
        retention: rows_kept(table.name, retention),
        chunk_hours: chunks.hours,
        old: old_size(chunks, site, retention.full_rate(table.name), way),
        assumes: chunks.assumes,
    };
    let plain = |(table, plain): (&'static StoredTable, &'static PlainTable)| PlainSize {
        table: table.name,
        keep: plain.keep,
        retention: match plain.keep {
            PlainRetention::Job(_) => Some(retention.jobs()),
            PlainRetention::Rank(_) => Some(retention.of("mpi_rank_rows")),
            _ => None,
        },
        bytes_per_year: (plain.bytes_a_year)(site),
    };
    SizePrediction {
        site: *site,
        way,
        tables: hypertables().map(size).collect(),
        plain_tables: plain_tables().map(plain).collect(),
    }
}

/// What old rows of a table take on the edition that does retention in this way: fewer, as columns, or both. That thinned ones are rows
/// for another day is left out.
fn old_size(chunks: &Chunks, site: &Site, after: Option<Duration>, way: RetentionWay) -> Option<OldSize> {
    let after = after?;
    let (columns, thinned) = (columns_of(chunks, way), chunks.thinned);
    if columns.is_none() && thinned.is_none() {
        return None;
    }
    let rows = thinned.map_or(chunks.rows, |thinned| thinned.rows);
    let as_rows = thinned.map_or(chunks.row_bytes, |thinned| thinned.row_bytes);
    let row_bytes = columns.map_or(as_rows, |columns| columns.row_bytes);
    Some(OldSize { after, rows_per_second: rows(site), bytes_per_row: row_bytes(site) })
}

/// How long a table has its rows: readings of ports and minutes of link shares leave theirs once they are packed.
fn rows_kept(table: &str, retention: &Retention) -> Duration {
    if table == "link_share_minutes" {
        return retention.of(table).min(retention.shares_change());
    }
    let kind = Kind::ALL.into_iter().find(|kind| kind.readings() == table);
    kind.and_then(|kind| retention.rows(kind)).unwrap_or_else(|| retention.of(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    const APACHE: RetentionWay = RetentionWay::Upkeep;

    #[test]
    fn old_rows_are_columns_on_the_full_edition() {
        let site = Site { nodes: 100, ranks_per_node: 4, ports: 100, ..Site::default() };
        let rows = Retention::default().rows_at_most().unwrap().as_secs_f64();
        let of = |table: &str, way, retention: &Retention| {
            let tables = predict_size(&site, retention, way).tables;
            tables.into_iter().find(|size| size.table == table).unwrap()
        };
        let default = Retention::default();
        let (plain, columns) = (
            of("ib_port_minutes", APACHE, &default),
            of("ib_port_minutes", RetentionWay::DatabaseJob, &default),
        );
        assert_eq!(plain.old, None);
        let old = columns.old.unwrap();
        assert!(old.bytes_per_row < columns.bytes_per_row / 2.0);
        let a_second = columns.rows_per_second;
        let disk = a_second
            * (columns.bytes_per_row * (rows + 86_400.0) + old.bytes_per_row * (365.0 * 86_400.0 - rows));
        let chunks = columns.chunk_bytes(columns.longest());
        assert!((chunks - 366.0 * CHUNK_BYTES).abs() < 1.0);
        assert!((columns.steady_bytes() - disk - chunks).abs() < 1.0, "{columns:?}");
        assert!((columns.staying_bytes_per_day() - a_second * old.bytes_per_row * 86_400.0).abs() < 1.0);
        assert!((plain.staying_bytes_per_day() - plain.bytes_per_day()).abs() < 1e-6);
        // Rows of ports are packed and go, on both.
        let ports = of("ib_port_counters", RetentionWay::DatabaseJob, &default);
        assert_eq!((ports.old, ports.staying_bytes_per_day().to_bits()), (None, 0.0_f64.to_bits()));
        let all_rows = Retention::for_all(Duration::from_secs(7 * 86_400));
        assert_eq!(of("ib_port_minutes", RetentionWay::DatabaseJob, &all_rows).old, None);
        // Fewer on both.
        let rounds = [APACHE, RetentionWay::DatabaseJob].map(|way| of("coverage", way, &default));
        let [rows, columns] = rounds.map(|size| size.old.unwrap());
        assert_eq!(rows.rows_per_second.to_bits(), columns.rows_per_second.to_bits());
        assert!(rows.rows_per_second < a_second / 3.0 && columns.bytes_per_row < rows.bytes_per_row);
    }

    #[test]
    fn a_week_of_1428_nodes_fits_150_gb() {
        let prediction = predict_size(&Site::papers(), &Retention::default(), APACHE);
        let of_a_week = prediction.tables.iter().filter(|size| size.retention <= 8 * DAY);
        let bytes: f64 = of_a_week.map(TableSize::steady_bytes).sum();
        assert!(bytes < 150e9, "{bytes}");
    }

    #[test]
    fn disk_is_bytes_a_day_times_retention_and_a_chunk() {
        let site = Site { ports: 4830, port_seconds: 1.0, ..Site::default() };
        let retention = Retention::for_all(Duration::from_secs(7 * 86_400));
        let prediction = predict_size(&site, &retention, APACHE);
        let ports = prediction.tables.iter().find(|size| size.table == "ib_port_counters").unwrap();
        assert!((ports.rows_per_second - 4830.0).abs() < 1e-9);
        assert!((ports.bytes_per_day() - 4830.0 * ports.bytes_per_row * 86_400.0).abs() < 1.0);
        let days = (ports.steady_bytes() - 169.0 * CHUNK_BYTES) / ports.bytes_per_day();
        assert!((days - (7.0 + 1.0 / 24.0)).abs() < 1e-9, "{days}");
        let hour = Duration::from_secs(3600);
        assert!((ports.bytes_after(hour) - ports.bytes_per_day() / 24.0 - CHUNK_BYTES).abs() < 1.0);
        // Rollups and blocks are upkeep's, not the collector's; each sweep has a row of its own.
        assert!((prediction.written_rows_per_second() - 4831.0).abs() < 1e-9);
        assert!(prediction.rows_per_second() > 4830.0 + 4830.0 / 60.0);
        let packed = predict_size(&site, &retention.clone().with_rows(hour), APACHE);
        let rows = packed.tables.iter().find(|size| size.table == "ib_port_counters").unwrap();
        assert_eq!(rows.retention, hour);
        let blocks = packed.tables.iter().find(|size| size.table == "ib_port_blocks").unwrap();
        assert_eq!(blocks.retention, Duration::from_secs(7 * 86_400));
        // Traffic of nodes is thinned: two hours at the full rate, and all else of a week.
        let site = Site { nodes: 10, ranks_per_node: 4, ..Site::default() };
        let traffic = |retention: &Retention| {
            let tables = predict_size(&site, retention, APACHE).tables;
            tables.into_iter().find(|size| size.table == "mpi_node_traffic").unwrap()
        };
        let (whole, thinned) = (traffic(&retention), traffic(&retention.clone().with_rows(hour)));
        assert_eq!(whole.bytes_after(2 * hour).to_bits(), thinned.bytes_after(2 * hour).to_bits());
        let old = thinned.old.unwrap();
        let day = thinned.bytes_after(24 * hour) - thinned.bytes_after(2 * hour);
        let rows = 22.0 * 3600.0 * old.rows_per_second * old.bytes_per_row;
        assert!((day - rows - 22.0 * CHUNK_BYTES).abs() < 1.0, "{day}");
        assert!(thinned.steady_bytes() < whole.steady_bytes() / 5.0);
        let mut shorter = retention.clone();
        shorter.set("ib_port_counters", Duration::from_secs(7200)).unwrap();
        let less = predict_size(&site, &shorter, APACHE).steady_bytes();
        assert!(less < prediction.steady_bytes() - ports.bytes_per_day() * 6.0);
    }

    #[test]
    fn jobs_take_their_part_of_a_year() {
        let site = Site { nodes: 100, ranks_per_node: 32, ..Site::default() };
        let month = Duration::from_secs(30 * 86_400);
        let of = |table: &str, retention: &Retention| {
            let tables = predict_size(&site, retention, APACHE).plain_tables;
            tables.into_iter().find(|size| size.table == table).unwrap()
        };
        let run = of("run", &Retention::default());
        assert!((run.steady_bytes() - run.bytes_per_year).abs() < 1.0);
        assert!((run.bytes_after(month) - run.bytes_per_year * 30.0 / 365.0).abs() < 1.0);
        let shorter = of("run", &Retention::default().with_jobs(month));
        assert!((shorter.steady_bytes() - run.bytes_after(month)).abs() < 1.0);
        // What nobody removes counts with a year.
        let node = of("node", &Retention::default());
        assert!((node.steady_bytes() - node.bytes_per_year).abs() < 1.0 && node.bytes_per_year > 0.0);
    }
}
