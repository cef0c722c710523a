//! An hour of a port in one row: who there is, and the minutes and shares of these, packed.

use std::collections::BTreeSet;

use tokio_postgres::Row;

use super::Micros;
use crate::copy::RowBuffer;
use crate::packed_rows::{self, Minute, Share};

/// A contributor of an hour, once for each kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HourContributor {
    contributor: String,
    job: Option<i64>,
    operation: Option<String>,
    name: Option<String>,
    kind: String,
    is_bound: bool,
}

/// An hour in the making; its rows come in the order of their times.
pub(super) struct Hour {
    port: i64,
    /// When it begins.
    begin: Micros,
    minutes: Vec<Minute>,
    /// Each with the index of its minute.
    shares: Vec<(usize, HourContributor, Share)>,
}

impl Hour {
    /// Columns of a row of minutes, as [`Hour::add`] takes them: [`Hour::of`] the first two.
    pub const COLUMNS: &'static str = "port_id, (extract(epoch FROM date_bin('1 hour', time, 'epoch')) * 1000000)::bigint, \
         (extract(minute FROM time AT TIME ZONE 'UTC'))::integer, contributor, job_id, operation, name, kind, is_bound, windows, \
         counted_bytes IS NOT NULL, peak_counted_bytes, bytes, low_bytes, high_bytes";

    /// Columns of a row that [`Hour::put`] writes.
    pub const WRITTEN: &'static str =
        "time, port_id, contributors, job_ids, operations, names, kinds, are_bounds, minutes, shares";

    /// The port and hour of a row of minutes.
    pub fn of(row: &Row) -> (i64, Micros) {
        (row.get(0), row.get(1))
    }

    pub fn new((port, begin): (i64, Micros)) -> Hour {
        Hour { port, begin, minutes: Vec::new(), shares: Vec::new() }
    }

    pub fn add(&mut self, row: &Row) {
        let minute = Minute {
            minute: row.get::<_, i32>(2).into(),
            windows: row.get::<_, i16>(9).into(),
            is_counted: row.get(10),
            peak: row.get(11),
        };
        match self.minutes.last_mut() {
            Some(last) if last.minute == minute.minute => {
                last.windows = last.windows.max(minute.windows);
                last.is_counted &= minute.is_counted;
                last.peak = last.peak.max(minute.peak);
            }
            _ => self.minutes.push(minute),
        }
        let who = HourContributor {
            contributor: row.get(3),
            job: row.get(4),
            operation: row.get(5),
            name: row.get(6),
            kind: row.get(7),
            is_bound: row.get(8),
        };
        let share = Share { bytes: row.get(12), low: row.get(13), high: row.get(14) };
        self.shares.push((self.minutes.len() - 1, who, share));
    }

    /// Writes the row.
    pub fn put(self, buffer: &mut RowBuffer) {
        let whos: BTreeSet<&HourContributor> = self.shares.iter().map(|(_, who, _)| who).collect();
        let whos: Vec<&HourContributor> = whos.into_iter().collect();
        let mut shares = vec![None; self.minutes.len() * whos.len()];
        for (minute, who, share) in &self.shares {
            if let Ok(index) = whos.binary_search(&who) {
                shares[minute * whos.len() + index] = Some(*share);
            }
        }
        buffer.row();
        buffer.time(self.begin * 1000);
        buffer.int8(self.port);
        buffer.text_array(&whos.iter().map(|who| who.contributor.as_str()).collect::<Vec<_>>());
        buffer.int8_array(&whos.iter().map(|who| who.job).collect::<Vec<_>>());
        buffer.optional_text_array(&whos.iter().map(|who| who.operation.as_deref()).collect::<Vec<_>>());
        buffer.optional_text_array(&whos.iter().map(|who| who.name.as_deref()).collect::<Vec<_>>());
        buffer.text_array(&whos.iter().map(|who| who.kind.as_str()).collect::<Vec<_>>());
        buffer.boolean_array(&whos.iter().map(|who| who.is_bound).collect::<Vec<_>>());
        buffer.bits(packed_rows::minutes(self.minutes.into_iter()));
        buffer.bits(packed_rows::shares(&shares));
    }
}
