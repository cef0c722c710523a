//! Which of a range windows answer, and which minutes: windows are retained as long as readings, minutes longer, and a long
//! range has too many windows.

use super::{LONG_MS, window_ms};
use crate::time::{MINUTE_MS, milliseconds};
use std::time::SystemTime;
use throughline_store::Error;
use throughline_store::chunk_ranges::oldest_chunk;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;

/// Which time is in `link_shares` and which in minutes of it, milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// From when on there may be windows; `None` where there is none at all.
    windows_from: Option<i64>,
    /// From when until when minutes are made.
    minutes: Option<(i64, i64)>,
    /// Minutes are enough wherever they are made.
    is_by_minute: bool,
}

/// Which rows, by the parameters of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowSelection {
    /// Of the ports `$1`.
    Ports,
    /// Of the job `$1`.
    Job,
    /// Of the job `$1` on the ports `$2`.
    JobOnPorts,
    /// Of the ports `$2`, where `$1` is a job.
    PortsOfJob,
}

impl RowSelection {
    fn condition(self) -> &'static str {
        match self {
            RowSelection::Ports => "port_id = ANY($1)",
            RowSelection::Job => "job_id = $1",
            RowSelection::JobOnPorts => "job_id = $1 AND port_id = ANY($2)",
            RowSelection::PortsOfJob => "port_id = ANY($2)",
        }
    }

    fn is_of_job(self) -> bool {
        matches!(self, RowSelection::Job | RowSelection::JobOnPorts)
    }
}

impl Source {
    /// Queries the database.
    ///
    /// # Errors
    /// The database's.
    pub async fn read(client: &Client) -> Result<Source, Error> {
        let sql = format!(
            "SELECT {}, s.minutes_since, s.minutes_until FROM internal.link_share_state s",
            oldest_chunk("'link_shares'")
        );
        let row = client.query_opt(&sql, &[]).await;
        let row = row.map_err(Error::sql("reading which shares of links there are"))?;
        let time = |column: usize| row.as_ref()?.get::<_, Option<SystemTime>>(column).map(milliseconds);
        Ok(Source { windows_from: time(0), minutes: time(1).zip(time(2)), is_by_minute: false })
    }

    /// The same, with minutes wherever they are made: a sixth of the rows, for sums and peaks.
    #[must_use]
    pub fn by_minute(self) -> Source {
        Source { is_by_minute: true, ..self }
    }

    /// The part of a range that windows, or minutes where these answer, of a life have: the first that it began in, the last that it ended
    /// in. Of a range beside it none.
    #[must_use]
    pub fn of_life(&self, (from, to): (i64, i64), (start, end): (Option<i64>, Option<i64>)) -> (i64, i64) {
        let is_of_minutes = to - from > LONG_MS || self.is_by_minute || self.is_past(from, to);
        let unit = if is_of_minutes { MINUTE_MS } else { window_ms() };
        let start = start.map_or(from, |start| start.div_euclid(unit) * unit);
        let end = end.map_or(to, |end| -(-end).div_euclid(unit) * unit);
        let to = to.min(end);
        (from.max(start).min(to), to)
    }

    /// Whether minutes alone have something of a range.
    #[must_use]
    pub fn is_past(&self, from: i64, to: i64) -> bool {
        let Some((since, until)) = self.minutes else { return false };
        let gone = self.windows_from.unwrap_or(until).min(until);
        from < gone && to > since && since < gone
    }

    /// The whole minutes of a range that minutes answer: those whose windows may be gone, or, where minutes `are_enough`, all
    /// that are made.
    fn minutes_of(&self, from: i64, to: i64, are_enough: bool) -> Option<(i64, i64)> {
        let (since, until) = self.minutes?;
        let wanted = if are_enough { until } else { self.windows_from.unwrap_or(until).min(until) };
        let first = -(-from).div_euclid(MINUTE_MS) * MINUTE_MS;
        let (first, last) = (first.max(since), to.min(wanted).div_euclid(MINUTE_MS) * MINUTE_MS);
        (first < last).then_some((first, last))
    }

    /// SQL for the rows of a range that are wanted, each as windows have it; `time` is the end. Of a minute `windows` is
    /// their number, `counted` their sum and `peak` the largest; `counted_windows` are those in which the port was read.
    pub(super) fn rows(&self, wanted: RowSelection, from: i64, to: i64, are_enough: bool) -> String {
        let condition = wanted.condition();
        let columns =
            "port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind, is_bound";
        let windows = |from: i64, to: i64| {
            format!(
                "SELECT time, {columns}, 1 AS windows, counted_bytes AS counted, counted_bytes AS peak,
                        (counted_bytes IS NOT NULL)::integer AS counted_windows
                 FROM internal.link_shares WHERE {condition} AND time > {} AND time <= {}",
                moment(from),
                moment(to)
            )
        };
        let Some((first, last)) = self.minutes_of(from, to, are_enough || self.is_by_minute) else {
            return format!("({})", windows(from, to));
        };
        let (since, until) = (moment(first), moment(last));
        // The job is named to the function, too: hours without it are not unpacked.
        let job = if wanted.is_of_job() { ", $1" } else { "" };
        let minutes = format!(
            "SELECT time + INTERVAL '1 minute' AS time, {columns}, windows, counted_bytes AS counted, peak_counted_bytes AS peak,
                    CASE WHEN counted_bytes IS NULL THEN 0 ELSE windows END AS counted_windows
             FROM public.link_minute_shares({since}, {until}{job}) WHERE {condition} AND time < {until}",
        );
        let mut parts = Vec::new();
        if from < first {
            parts.push(windows(from, first));
        }
        if last < to {
            parts.push(windows(last, to));
        }
        parts.push(minutes);
        format!("({})", parts.join(" UNION ALL "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTES: i64 = MINUTE_MS;

    #[test]
    fn a_range_is_clipped_to_the_windows_of_a_life() {
        let source = Source::default();
        let life = (Some(62_000), Some(183_000));
        assert_eq!(source.of_life((0, 600_000), life), (60_000, 190_000));
        assert_eq!(source.of_life((70_500, 100_000), life), (70_500, 100_000));
        assert_eq!(source.of_life((70_000, 100_000), (None, None)), (70_000, 100_000));
        // Minutes of a long range.
        assert_eq!(source.of_life((0, 2 * LONG_MS), life), (60_000, 240_000));
        let (from, to) = source.of_life((300_000, 600_000), life);
        assert!(from == to, "{from} {to}");
    }

    #[test]
    fn minutes_answer_where_windows_are_gone_or_a_range_is_long() {
        let source = Source {
            windows_from: Some(100 * MINUTES),
            minutes: Some((10 * MINUTES, 200 * MINUTES)),
            is_by_minute: false,
        };
        let of = |from: i64, to: i64, are_enough| {
            source
                .minutes_of(from * MINUTES + 5, to * MINUTES + 5, are_enough)
                .map(|(from, to)| (from / MINUTES, to / MINUTES))
        };
        assert_eq!(of(120, 150, true), Some((121, 150)));
        assert_eq!(of(120, 150, false), None);
        assert_eq!(of(90, 150, false), Some((91, 100)));
        assert_eq!(of(0, 300, true), Some((10, 200)));
        assert_eq!(of(0, 300, false), Some((10, 100)));
        // No whole minute.
        assert_eq!(source.minutes_of(50 * MINUTES + 1, 51 * MINUTES - 1, true), None);
        assert!(source.is_past(90 * MINUTES, 91 * MINUTES) && !source.is_past(100 * MINUTES, 150 * MINUTES));
        assert!(!source.is_past(0, 10 * MINUTES), "before all minutes");
        // All windows are gone, and none was ever made.
        let gone = Source { windows_from: None, ..source };
        assert_eq!(gone.minutes_of(0, 300 * MINUTES, false), Some((10 * MINUTES, 200 * MINUTES)));
        assert_eq!(Source::default().minutes_of(0, 300 * MINUTES, true), None);
        assert!(gone.is_past(150 * MINUTES, 151 * MINUTES) && !Source::default().is_past(0, 1));
    }
}
