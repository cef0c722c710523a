//! Hours that are packed only, as the export reads them. An hour is unpacked as a whole, so a window of such a time is an hour, of a few
//! things at a time: each hour of a thing is unpacked once, and no more is in memory than of a short window of many things.

use super::super::Range;
use super::super::series::seconds;
use throughline_sample::catalogue::Table;
use throughline_store::Error;
use throughline_store::chunks::BLOCK;
use throughline_store::rollup_kind::Kind;
use tokio_postgres::Client;

/// Milliseconds of a packed hour.
const HOUR: i64 = BLOCK.as_millis() as i64;

/// A window for which as many things are read at a time as may be: the longest of a time that has rows.
const SHORT: i64 = 30_000;

/// From when on and until when readings are packed only, for each kind; milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PackedHours([Option<(i64, i64)>; Kind::ALL.len()]);

impl PackedHours {
    /// As the transaction sees them.
    pub async fn read(client: &Client) -> Result<PackedHours, Error> {
        let select = "SELECT readings, (extract(epoch FROM greatest(packed_from, 'epoch')) * 1000)::bigint, \
                        (extract(epoch FROM packed_until) * 1000)::bigint \
                      FROM internal.packed_state WHERE isfinite(packed_until) AND packed_from < packed_until";
        let rows = client.query(select, &[]).await.map_err(Error::sql("reading which hours are packed"))?;
        let mut hours = PackedHours::default();
        for kind in Kind::ALL {
            let row = rows.iter().find(|row| row.get::<_, &str>(0) == kind.readings());
            hours.0[kind.place()] = row.map(|row| (row.get(1), row.get(2)));
        }
        Ok(hours)
    }

    /// Those of a table; `None` where all readings are rows.
    pub fn of(&self, table: Table) -> Option<(i64, i64)> {
        Kind::of(table).and_then(|kind| self.0[kind.place()])
    }

    /// What has all readings of a table in a range: itself, or the function that unpacks hours, too.
    pub fn source(&self, table: Table, range: Range) -> String {
        let is_packed = self.of(table).is_some_and(|(from, until)| range.from < until && range.to >= from);
        match Kind::of(table).filter(|_| is_packed) {
            // Not until the next millisecond: the hour that may begin there is not unpacked.
            Some(kind) => format!(
                "public.{}(to_timestamp({}), to_timestamp({}))",
                kind.readings_between(),
                seconds(range.from),
                (range.to as f64 + 0.999) / 1e3
            ),
            None => format!("internal.{}", table.name()),
        }
    }

    /// The last millisecond of the hour that a time lies in, if that is packed only of a table, or of any.
    pub fn hour_end(&self, table: Option<Table>, time: i64) -> Option<i64> {
        let is_packed = |table| self.of(table).is_some_and(|(from, until)| (from..until).contains(&time));
        let is_any = match table {
            Some(table) => is_packed(table),
            None => self.0.iter().flatten().any(|(from, until)| (*from..*until).contains(&time)),
        };
        is_any.then(|| (time.div_euclid(HOUR) + 1) * HOUR - 1)
    }
}

/// Which part of a long range a time lies in, as long as a window usually is: of a thing that several sources read the best one counts in
/// each part. 0 in a short one, whose first part before the window does not count.
pub(super) fn part_of(range: Range, look_back: i64, time: i64) -> i64 {
    if range.to - range.from > SHORT + look_back { time.div_euclid(SHORT) } else { 0 }
}

/// How many things a round has of a window, of at most `most`: fewer of a long one.
pub(super) fn things(most: usize, least: usize, milliseconds: i64) -> usize {
    let windows = usize::try_from(milliseconds / SHORT).unwrap_or_default().max(1);
    (most / windows).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_packed_hours_end_with_them_and_have_few_things() {
        let mut hours = PackedHours::default();
        hours.0[Kind::HostPorts.place()] = Some((2 * HOUR, 4 * HOUR));
        assert_eq!(hours.hour_end(None, 2 * HOUR - 1), None);
        assert_eq!(hours.hour_end(None, 2 * HOUR), Some(3 * HOUR - 1));
        assert_eq!(hours.hour_end(None, 4 * HOUR - 1), Some(4 * HOUR - 1));
        assert_eq!(hours.hour_end(None, 4 * HOUR), None);
        assert_eq!(hours.hour_end(Some(Table::IbPortCounters), 2 * HOUR), None);
        assert_eq!(hours.hour_end(Some(Table::HostPortCounters), 2 * HOUR), Some(3 * HOUR - 1));

        let source = |table, from, to| hours.source(table, Range { from, to });
        assert_eq!(source(Table::IbPortCounters, 0, 9 * HOUR), "internal.ib_port_counters");
        assert_eq!(source(Table::HostPortCounters, 4 * HOUR, 5 * HOUR), "internal.host_port_counters");
        assert_eq!(source(Table::HostPortCounters, HOUR, 2 * HOUR - 1), "internal.host_port_counters");
        let unpacked = "public.host_port_readings(to_timestamp(7200), to_timestamp(10799.999999))";
        assert_eq!(source(Table::HostPortCounters, 2 * HOUR, 3 * HOUR - 1), unpacked);

        assert_eq!(
            [1, 10_000, 30_000, 60_000, HOUR].map(|length| things(200, 4, length)),
            [200, 200, 200, 100, 4]
        );
    }
}
