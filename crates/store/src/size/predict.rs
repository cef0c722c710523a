//! How large a site's database becomes.

use std::time::Duration;

use crate::Retention;
use crate::forms::{FORMS, Form, Site, TableForm};
use crate::rollup_kind::Kind;

/// The write-ahead log at most, as the private cluster is configured on a large disk; bytes.
pub const WAL_BYTES_MAX: u64 = crate::cluster::WAL_MEGABYTES << 20;

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
    /// From which age on there are fewer rows, where that is before they expire.
    pub thinned: Option<ThinnedSize>,
    /// What is assumed of the site; may be empty.
    pub assumes: &'static str,
}

/// What old rows of a table take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThinnedSize {
    /// How old a chunk is whose rows are thinned.
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

    /// How long the oldest row is on disk that nothing was done to: a chunk is thinned as a whole, too.
    fn full_rate(&self) -> Duration {
        let chunk = Duration::from_secs(u64::from(self.chunk_hours) * 3600);
        self.thinned.map_or(self.longest(), |thinned| (thinned.after + chunk).min(self.longest()))
    }

    /// Bytes on disk when rows have come for so long.
    pub fn bytes_after(&self, time: Duration) -> f64 {
        let time = time.min(self.longest());
        let full = time.min(self.full_rate());
        let old = self.thinned.map_or(0.0, |thinned| thinned.rows_per_second * thinned.bytes_per_row);
        self.bytes_per_second() * full.as_secs_f64() + old * (time - full).as_secs_f64()
    }
}

/// What a site takes.
#[derive(Clone, Debug, PartialEq)]
pub struct SizePrediction {
    /// Of which site.
    pub site: Site,
    /// Each hypertable.
    pub tables: Vec<TableSize>,
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

    /// Bytes that a day adds.
    pub fn bytes_per_day(&self) -> f64 {
        self.tables.iter().map(TableSize::bytes_per_day).sum()
    }

    /// Bytes of all tables once rows are removed as fast as they come; the write-ahead log comes to it.
    pub fn steady_bytes(&self) -> f64 {
        self.tables.iter().map(TableSize::steady_bytes).sum()
    }
}

/// Predicts the size of a site's database with this retention.
pub fn predict_size(site: &Site, retention: &Retention) -> SizePrediction {
    let size = |form: &TableForm| TableSize {
        table: form.table,
        form: form.form,
        rows_per_second: (form.rows)(site),
        bytes_per_row: (form.row_bytes)(site),
        retention: rows_kept(form.table, retention),
        chunk_hours: form.chunk_hours,
        thinned: form.thinned.zip(retention.full_rate(form.table)).map(|(old, after)| ThinnedSize {
            after,
            rows_per_second: (old.rows)(site),
            bytes_per_row: (old.row_bytes)(site),
        }),
        assumes: form.assumes,
    };
    SizePrediction { site: *site, tables: FORMS.iter().map(size).collect() }
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

    #[test]
    fn disk_is_bytes_a_day_times_retention_and_a_chunk() {
        let site = Site { ports: 4830, port_seconds: 1.0, ..Site::default() };
        let retention = Retention::for_all(Duration::from_secs(7 * 86_400));
        let prediction = predict_size(&site, &retention);
        let ports = prediction.tables.iter().find(|size| size.table == "ib_port_counters").unwrap();
        assert!((ports.rows_per_second - 4830.0).abs() < 1e-9);
        assert!((ports.bytes_per_day() - 4830.0 * ports.bytes_per_row * 86_400.0).abs() < 1.0);
        let days = ports.steady_bytes() / ports.bytes_per_day();
        assert!((days - (7.0 + 1.0 / 24.0)).abs() < 1e-9, "{days}");
        let hour = Duration::from_secs(3600);
        assert!((ports.bytes_after(hour) - ports.bytes_per_day() / 24.0).abs() < 1.0);
        // Rollups and blocks are upkeep's, not the collector's; each sweep has a row of its own.
        assert!((prediction.written_rows_per_second() - 4831.0).abs() < 1e-9);
        assert!(prediction.rows_per_second() > 4830.0 + 4830.0 / 60.0);
        let packed = predict_size(&site, &retention.clone().with_rows(hour));
        let rows = packed.tables.iter().find(|size| size.table == "ib_port_counters").unwrap();
        assert_eq!(rows.retention, hour);
        let blocks = packed.tables.iter().find(|size| size.table == "ib_port_blocks").unwrap();
        assert_eq!(blocks.retention, Duration::from_secs(7 * 86_400));
        // Traffic of nodes is thinned: two hours at the full rate, and all else of a week.
        let site = Site { nodes: 10, ranks_per_node: 4, ..Site::default() };
        let traffic = |retention: &Retention| {
            let tables = predict_size(&site, retention).tables;
            tables.into_iter().find(|size| size.table == "mpi_node_traffic").unwrap()
        };
        let (whole, thinned) = (traffic(&retention), traffic(&retention.clone().with_rows(hour)));
        assert_eq!(whole.bytes_after(2 * hour).to_bits(), thinned.bytes_after(2 * hour).to_bits());
        let old = thinned.thinned.unwrap();
        let day = thinned.bytes_after(24 * hour) - thinned.bytes_after(2 * hour);
        assert!((day - 22.0 * 3600.0 * old.rows_per_second * old.bytes_per_row).abs() < 1.0, "{day}");
        assert!(thinned.steady_bytes() < whole.steady_bytes() / 5.0);
        let mut shorter = retention.clone();
        shorter.set("ib_port_counters", Duration::from_secs(7200)).unwrap();
        let less = predict_size(&site, &shorter).steady_bytes();
        assert!(less < prediction.steady_bytes() - ports.bytes_per_day() * 6.0);
    }
}
