//! How long rows are retained, as configured. Which of the configured times holds for a table is in `tables`; `expiry` applies them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rollup_kind::Kind;
use crate::tables::{RetentionClass, hypertable, hypertables};

/// Raw samples are retained for a week unless configured: long enough to examine a job of the last days.
const DEFAULT_RAW: Duration = Duration::from_secs(7 * 24 * 3600);

/// Rollups are retained for a year unless configured: a port has 1,440 a day of some 150 bytes, a hundredth of what
/// readings once a second take.
const DEFAULT_MINUTES: Duration = Duration::from_secs(365 * 24 * 3600);

/// Events are few, and people look for one of last month.
const DEFAULT_EVENTS: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is known of a job stays for a year after its end unless configured: who compares with last year's runs looks it up.
const DEFAULT_JOBS: Duration = Duration::from_secs(365 * 24 * 3600);

/// Readings of ports, NVLinks and PCIe are rows for so long unless configured: live views and alerts look back an hour at most, and some
/// readings come late. Whatever reads older ones unpacks them or takes minutes.
const DEFAULT_ROWS: Duration = Duration::from_secs(5400);

/// Detail on demand is retained for a day unless configured: long enough for the person who requested it, and short because it is a
/// hundred times what is stored anyway.
const DEFAULT_DETAIL: Duration = Duration::from_secs(24 * 3600);

/// Windows of link shares are retained as long as readings are rows, and where these are not packed for a day, unless configured: at a
/// large site a week of them is as much as all else of that week, and minutes with the peaks of windows are there for longer.
const LONGEST_WINDOWS: Duration = Duration::from_secs(24 * 3600);

/// Windows of link shares older than that are not made again.
const LATE_WINDOWS: Duration = Duration::from_secs(24 * 3600);

/// How long rows are retained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    default: Duration,
    minutes: Duration,
    detail: Duration,
    events: Duration,
    jobs: Duration,
    rows: Option<Duration>,
    tables: BTreeMap<String, Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            default: DEFAULT_RAW,
            minutes: DEFAULT_MINUTES,
            detail: DEFAULT_DETAIL,
            events: DEFAULT_EVENTS,
            jobs: DEFAULT_JOBS,
            rows: Some(DEFAULT_ROWS),
            tables: BTreeMap::new(),
        }
    }
}

impl Retention {
    /// The same time for all hypertables; readings are rows for as long, jobs stay for a year.
    pub fn for_all(keep: Duration) -> Self {
        Self {
            default: keep,
            minutes: keep,
            detail: keep,
            events: keep,
            jobs: DEFAULT_JOBS,
            rows: None,
            tables: BTreeMap::new(),
        }
    }

    /// Another time for events.
    #[must_use]
    pub fn with_events(self, keep: Duration) -> Self {
        Self { events: keep, ..self }
    }

    /// Another time for what is known of jobs, from their end on.
    #[must_use]
    pub fn with_jobs(self, keep: Duration) -> Self {
        Self { jobs: keep, ..self }
    }

    /// How long what is known of a job stays after its end.
    pub fn jobs(&self) -> Duration {
        self.jobs
    }

    /// Another time for rollups.
    #[must_use]
    pub fn with_minutes(self, keep: Duration) -> Self {
        Self { minutes: keep, ..self }
    }

    /// Another time for detail on demand.
    #[must_use]
    pub fn with_detail(self, keep: Duration) -> Self {
        Self { detail: keep, ..self }
    }

    /// For how long readings of ports, NVLinks and PCIe are rows; older ones are packed only, and old chunks of other tables become columns
    /// on the full edition.
    #[must_use]
    pub fn with_rows(self, keep: Duration) -> Self {
        Self { rows: Some(keep), ..self }
    }

    /// For how long readings are rows, if that is not for as long as they are retained.
    pub(crate) fn rows(&self, kind: Kind) -> Option<Duration> {
        self.full_rate(kind.readings())
    }

    /// For how long a table has its rows at the full rate, if that is not for as long as they are retained.
    pub(crate) fn full_rate(&self, table: &str) -> Option<Duration> {
        self.rows.filter(|rows| *rows < self.of(table))
    }

    /// For how long readings of ports, NVLinks and PCIe are rows where they are retained longer; `None` for as long as they are.
    pub fn rows_at_most(&self) -> Option<Duration> {
        self.rows
    }

    /// How long after its end a window of link shares is made again: not when it may be gone. Minutes of windows are rows for so long.
    pub(crate) fn shares_change(&self) -> Duration {
        self.of("link_shares").min(LATE_WINDOWS)
    }

    /// How long rollups are retained, unless a table has its own time.
    pub fn minutes(&self) -> Duration {
        self.minutes
    }

    /// Another time for one table.
    ///
    /// # Errors
    /// The table is no hypertable of ours; the message lists those that are.
    pub fn set(&mut self, table: &str, keep: Duration) -> Result<(), String> {
        if hypertable(table).is_none() {
            let names: Vec<&str> = hypertables().map(|(table, _)| table.name).collect();
            return Err(format!("unknown table '{table}': retention can be set for {}", names.join(", ")));
        }
        self.tables.insert(table.to_owned(), keep);
        Ok(())
    }

    /// For how long all readings are there, as rows or packed: those of some tables longer.
    pub fn readings(&self) -> Duration {
        let readings = Kind::ALL.map(|kind| self.of(kind.readings()));
        // Rows wait until they are packed; where they go, packed hours are all there is.
        let packed = Kind::ALL
            .into_iter()
            .filter(|kind| self.rows(*kind).is_some())
            .map(|kind| self.of(kind.blocks()));
        readings.into_iter().chain(packed).chain([self.of("self_stat_rows")]).min().unwrap_or(self.default)
    }

    /// How long a table's rows are retained.
    pub fn of(&self, table: &str) -> Duration {
        if let Some(own) = self.tables.get(table) {
            return *own;
        }
        match hypertable(table).map(|(_, chunks)| chunks.keep) {
            Some(RetentionClass::Minutes) => self.minutes,
            Some(RetentionClass::Events) => self.events,
            Some(RetentionClass::Windows) => {
                self.default.min(self.rows.unwrap_or(LONGEST_WINDOWS)).min(LONGEST_WINDOWS)
            }
            Some(RetentionClass::Detail) => self.detail,
            Some(RetentionClass::With(other)) => self.of(other),
            Some(RetentionClass::Readings) | None => self.default,
        }
    }
}

/// Who drops old chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionWay {
    /// A job of the database; the full edition of TimescaleDB.
    DatabaseJob,
    /// The caller, by calling [`crate::apply_retention`] again and again; the Apache edition refuses jobs.
    Upkeep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_can_have_its_own_time_and_a_wrong_name_is_an_error() {
        let mut retention = Retention::for_all(Duration::from_secs(60));
        retention.set("mpi_pvars", Duration::from_secs(5)).unwrap();
        assert_eq!(retention.of("mpi_pvars"), Duration::from_secs(5));
        assert_eq!(retention.of("events"), Duration::from_secs(60));
        assert_eq!(retention.of("nvlink_minutes"), Duration::from_secs(60));
        let longer = retention.clone().with_minutes(Duration::from_secs(90));
        assert_eq!(longer.of("nvlink_minutes"), Duration::from_secs(90));
        assert_eq!(longer.of("link_share_minutes"), Duration::from_secs(90));
        assert_eq!(longer.of("link_shares"), Duration::from_secs(60));
        assert_eq!(Retention::default().of("link_shares"), DEFAULT_ROWS);
        assert_eq!(Retention::default().of("events"), DEFAULT_EVENTS);
        assert_eq!(longer.clone().with_events(Duration::from_secs(7)).of("events"), Duration::from_secs(7));
        assert_eq!(longer.jobs(), DEFAULT_JOBS);
        let of_rows = |retention: Retention| retention.of("link_shares").as_secs();
        let week = Retention::for_all(Duration::from_secs(7 * 86_400));
        assert_eq!(of_rows(week.clone()), 86_400);
        assert_eq!(of_rows(week.with_rows(Duration::from_secs(3 * 86_400))), 86_400);
        assert_eq!(longer.of("link_share_hours"), longer.of("link_share_minutes"));
        retention.set("nvlink_counters", Duration::from_secs(7)).unwrap();
        assert_eq!(retention.of("nvlink_blocks"), Duration::from_secs(7));
        assert!(retention.set("mpi_pvar", Duration::ZERO).unwrap_err().contains("mpi_pvars"));
        // As long as readings are there in any form: packed hours count, unless they go sooner.
        let mut packed = Retention::default();
        assert_eq!(packed.readings(), DEFAULT_RAW);
        packed.set("host_port_blocks", Duration::from_secs(86_400)).unwrap();
        assert_eq!(packed.readings(), Duration::from_secs(86_400));
        assert_eq!(Retention { rows: None, ..packed }.readings(), DEFAULT_RAW, "rows stay");
    }
}
