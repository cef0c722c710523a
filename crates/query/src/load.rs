//! What ports of a fabric carry: rates over a window that ends at a moment, and errors counted in it.
//!
//! Of each port four rows at most are read, however long the window: its newest and the one before, and the rows on both
//! sides of the window's beginning. What lies between needs no looking at, as counters are cumulative. Rows that say
//! nothing new are left out of the table (`throughline-fabric`, `sweep::thin`), so a port without a row in the last
//! round stood still: [`Reading::rates`] knows. Where readings are gone, the window is made of the minutes that it touches.

use crate::Horizons;
use crate::row_rules::{look_back_ms, rules, rules_of_sender};
use crate::time::{CLOCK_AHEAD_MS, MINUTE_MS, milliseconds, seconds_between};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_sample::row_rules::DEFAULT;
use throughline_sample::wire::RowRules;
use throughline_store::Error;
use throughline_store::counter_sql::errors_of;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// A row is of the last round if it is no older than so many of its port's intervals.
const INTERVALS: f64 = 1.5;

/// The time for which rates are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its end, milliseconds since 1970.
    pub at: i64,
    /// Whether that is the present.
    pub is_latest: bool,
    /// Its length.
    pub seconds: f64,
}

/// A round of the crawler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Its end, milliseconds since 1970.
    pub time: i64,
    /// How long it took.
    pub elapsed_seconds: f64,
    /// Ports that it was to read.
    pub expected: i64,
    /// That it read.
    pub read: i64,
    /// That did not answer.
    pub failed: i64,
}

/// Increases of one counter; `None` where they are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Increase {
    /// From the first row in the window to the newest.
    pub within: Option<f64>,
    /// From the last row before the window to the first in it.
    pub across: Option<f64>,
    /// From the last row but one to the newest.
    pub last: Option<f64>,
}

/// What is known of a port; ages are seconds before the window's end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// The port's number in the tables.
    pub port_id: i64,
    /// Age of the newest row.
    pub age: f64,
    /// Seconds from the row before it, of one epoch.
    pub interval: Option<f64>,
    /// Age of the first row in the window.
    pub first_age: Option<f64>,
    /// Age of the last row before the window.
    pub before_age: Option<f64>,
    /// Bytes sent.
    pub transmit: Increase,
    /// Bytes received.
    pub receive: Increase,
    /// Ticks in which data waited.
    pub wait: Increase,
    /// Bytes that the link could carry in a tick.
    pub tick_bytes: Option<i64>,
    /// Speed of the link by the port's own word, bytes per second.
    pub bytes_per_second: Option<i64>,
    /// Errors counted in the window.
    pub errors: Option<i64>,
    /// By which rules its crawler leaves out rows.
    pub rules: RowRules,
}

/// Rates of a port over a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes per second sent.
    pub transmit: Option<f64>,
    /// Bytes per second received.
    pub receive: Option<f64>,
    /// Ticks per second in which data waited.
    pub wait: Option<f64>,
    /// Errors.
    pub errors: Option<i64>,
}

impl Reading {
    /// What the port did in the window. `None` everywhere for a port that is silent.
    #[must_use]
    pub fn rates(&self, window: &Window, round: Option<&Round>) -> Rates {
        let interval = self.interval.unwrap_or(0.0);
        // Bytes between two readings up to which a port counts as idle.
        #[allow(clippy::cast_precision_loss)] // a bound
        let quiet = self.rules.quiet_bytes as f64;
        if self.rules.is_silent(Some(self.age)) {
            return Rates::default();
        }
        // Since when the last round was read it has not changed, unless it is read more rarely than others.
        #[allow(clippy::cast_precision_loss)] // milliseconds
        let round_age = round.map(|r| (window.at - r.time) as f64 / 1e3 + r.elapsed_seconds);
        let stood_still = round_age
            .filter(|round_age| self.age - round_age > INTERVALS * interval && self.interval.is_some())
            .map(|round_age| round_age.max(0.0));
        let was_busy = [self.transmit.last, self.receive.last].into_iter().flatten().any(|b| b > quiet);
        if stood_still.is_some() && was_busy && round.is_some_and(|round| round.failed > 0) {
            // It may be one of those that did not answer.
            return Rates { errors: self.errors, ..Rates::default() };
        }
        let rate = |increase: &Increase| self.rate(window, stood_still, increase);
        Rates {
            transmit: rate(&self.transmit),
            receive: rate(&self.receive),
            wait: rate(&self.wait),
            errors: self.errors,
        }
    }

    /// The increase per second over the window, up to the newest row or to where the port stood still.
    fn rate(&self, window: &Window, stood_still: Option<f64>, increase: &Increase) -> Option<f64> {
        let end = stood_still.unwrap_or(self.age);
        let is_known = |seconds: f64| seconds <= self.rules.largest_gap_seconds;
        let Some(first) = self.first_age else {
            // No row in the window.
            return match stood_still {
                Some(_) => increase.last.map(|_| 0.0),
                None => {
                    let interval = self.interval.filter(|seconds| is_known(*seconds));
                    increase.last.zip(interval).map(|(last, seconds)| last / seconds)
                }
            };
        };
        // Of what came between the row before and the first one only the part in the window.
        let (begin, part) = match (self.before_age, increase.across) {
            (Some(before), Some(across)) if before > first && is_known(before - first) => {
                (window.seconds, across * (window.seconds - first) / (before - first))
            }
            _ => (first, 0.0),
        };
        match increase.within {
            Some(within) if begin > end => Some((within + part) / (begin - end)),
            _ => None,
        }
    }
}

/// The round of a crawler that ended last by a time.
///
/// # Errors
/// The database's.
pub async fn round(client: &Client, fabric: i64, at: i64, is_latest: bool) -> Result<Option<Round>, Error> {
    let ahead = if is_latest { CLOCK_AHEAD_MS } else { 0 };
    let instance = format!("fabric:{fabric}");
    let rules = rules_of_sender(client, ("mad", &instance), (at, at)).await?;
    // One row of an old time stands for rounds of some minutes.
    let sql = format!(
        "SELECT time, elapsed_seconds, expected, read, failed FROM internal.coverage_rounds({}, {})
         WHERE source = 'mad' AND instance = $1 ORDER BY time DESC LIMIT 1",
        moment(at - look_back_ms(&rules)),
        moment(at + ahead),
    );
    let row = client.query_opt(&sql, &[&instance]).await.map_err(Error::sql("reading a crawler's rounds"))?;
    Ok(row.map(|row| Round {
        time: milliseconds(row.get(0)),
        elapsed_seconds: row.get(1),
        expected: row.get(2),
        read: row.get(3),
        failed: row.get(4),
    }))
}

/// What is known of these ports, in their order; ports without rows are left out.
///
/// # Errors
/// The database's.
pub async fn readings(client: &Client, ports: &[i64], window: &Window) -> Result<Vec<Reading>, Error> {
    if !window.is_latest {
        let horizons = Horizons::read(client).await?;
        if horizons.no_rows_until(Kind::IbPorts).is_some_and(|until| until >= window.at) {
            return of_minutes(client, ports, window).await;
        }
    }
    // All ports of a call are those of one crawler.
    let first = &ports[..ports.len().min(1)];
    #[allow(clippy::cast_possible_truncation)] // milliseconds
    let rules =
        rules(client, Kind::IbPorts, first, window.at - (window.seconds * 1e3) as i64, window.at).await?;
    let rows = client
        .query(&query(window, &rules), &[&ports])
        .await
        .map_err(Error::sql("reading ports' counters"))?;
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(window.at).unwrap_or(0));
    Ok(rows.iter().map(|row| Reading { rules, ..reading(row, at) }).collect())
}

/// Means of the minutes that a window touches, as readings at both of its ends would report them.
async fn of_minutes(client: &Client, ports: &[i64], window: &Window) -> Result<Vec<Reading>, Error> {
    #[allow(clippy::cast_possible_truncation)] // milliseconds
    let begin = window.at - (window.seconds * 1e3) as i64;
    let mean = |column: &str| {
        format!(
            "sum({column}::float8 * seconds) / nullif(sum(seconds::float8) FILTER (WHERE {column} IS NOT NULL), 0)"
        )
    };
    let sql = format!(
        "SELECT m.port_id, {out}, {received}, {waiting}, max(m.rate_bytes_per_second), sum(m.errors)::bigint
         FROM unnest($1::bigint[]) WITH ORDINALITY AS p (id, place)
         JOIN internal.ib_port_minutes m ON m.port_id = p.id AND m.time > {begin} AND m.time < {at} AND m.seconds > 0
         GROUP BY m.port_id, p.place ORDER BY p.place",
        out = mean("m.transmit_bytes_per_second"),
        received = mean("m.receive_bytes_per_second"),
        waiting = mean("m.transmit_wait_bytes_per_second"),
        begin = moment(begin - MINUTE_MS),
        at = moment(window.at),
    );
    let rows = client.query(&sql, &[&ports]).await.map_err(Error::sql("reading ports' minutes"))?;
    let reading = |row: &Row| {
        let within = |place: usize| Increase {
            within: row.get::<_, Option<f64>>(place).map(|rate| rate * window.seconds),
            ..Increase::default()
        };
        Reading {
            port_id: row.get(0),
            first_age: Some(window.seconds),
            transmit: within(1),
            receive: within(2),
            // Reported in bytes already.
            wait: within(3),
            tick_bytes: Some(1),
            bytes_per_second: row.get(4),
            errors: row.get(5),
            ..Reading::default()
        }
    };
    Ok(rows.iter().map(reading).collect())
}

fn query(window: &Window, rules: &RowRules) -> String {
    #[allow(clippy::cast_possible_truncation)] // milliseconds
    let begin = window.at - (window.seconds * 1e3) as i64;
    let end = window.at + if window.is_latest { CLOCK_AHEAD_MS } else { 0 };
    let oldest = moment(begin - look_back_ms(rules));
    let (begin, end) = (moment(begin), moment(end));
    // A row without data (only other counters were read) stands between none that have some.
    let row = |name: &str, condition: &str, order: &str| {
        format!(
            "LEFT JOIN LATERAL (
                 SELECT * FROM internal.ib_port_counters c
                 WHERE c.port_id = p.id AND {condition}
                   AND (c.transmit_data_bytes IS NOT NULL OR c.receive_data_bytes IS NOT NULL)
                 ORDER BY c.time {order} LIMIT 1) {name} ON true "
        )
    };
    let newest = row("a", &format!("c.time > {oldest} AND c.time <= {end}"), "DESC");
    let last = row("l", &format!("c.time > {oldest} AND c.time < a.time AND c.epoch = a.epoch"), "DESC");
    let first = row("f", &format!("c.time > {begin} AND c.time <= {end} AND c.epoch = a.epoch"), "ASC");
    let before = row("b", &format!("c.time > {oldest} AND c.time <= {begin} AND c.epoch = a.epoch"), "DESC");
    let increases = |column: &str| {
        let one = |from: &str, to: &str| {
            format!("public.counter_increase({from}.{column}, {to}.{column})::double precision")
        };
        format!("{}, {}, {}", one("f", "a"), one("b", "f"), one("l", "a"))
    };
    let waits = |from: &str, to: &str| {
        format!(
            "CASE WHEN {to}.transmit_wait >= {from}.transmit_wait
                  THEN ({to}.transmit_wait - {from}.transmit_wait)::double precision END"
        )
    };
    format!(
        "SELECT p.id, a.time, l.time, f.time, b.time, {transmit}, {receive}, {wait_within}, {wait_across}, {wait_last},
                a.transmit_wait_tick_bytes, a.rate_bytes_per_second,
                greatest({errors} - coalesce({errors_before}, {errors_first}, {errors}), 0)
         FROM unnest($1::bigint[]) WITH ORDINALITY AS p (id, place)
         {newest} {last} {first} {before}
         WHERE a.time IS NOT NULL ORDER BY p.place",
        transmit = increases("transmit_data_bytes"),
        receive = increases("receive_data_bytes"),
        wait_within = waits("f", "a"),
        wait_across = waits("b", "f"),
        wait_last = waits("l", "a"),
        errors = errors_of("a"),
        errors_before = errors_of("b"),
        errors_first = errors_of("f"),
    )
}

fn reading(row: &Row, at: SystemTime) -> Reading {
    let age = |place: usize| row.get::<_, Option<SystemTime>>(place).map(|time| seconds_between(time, at));
    let increase =
        |from: usize| Increase { within: row.get(from), across: row.get(from + 1), last: row.get(from + 2) };
    let newest = age(1).unwrap_or(f64::INFINITY);
    Reading {
        port_id: row.get(0),
        age: newest,
        interval: age(2).map(|before| before - newest),
        first_age: age(3),
        before_age: age(4),
        transmit: increase(5),
        receive: increase(8),
        wait: increase(11),
        tick_bytes: row.get(14),
        bytes_per_second: row.get(15),
        errors: row.get(16),
        rules: DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { at: 1_000_000, is_latest: false, seconds: 10.0 };

    fn increase(within: f64, across: f64, last: f64) -> Increase {
        Increase { within: Some(within), across: Some(across), last: Some(last) }
    }

    fn round(age: f64, failed: i64) -> Round {
        let time = WINDOW.at - (age * 1e3) as i64;
        Round { time, elapsed_seconds: 0.0, expected: 9, read: 9 - failed, failed }
    }

    /// Read each 5 s, last 1 s ago: rows 1, 6 and 11 s old.
    fn steady() -> Reading {
        Reading {
            age: 1.0,
            interval: Some(5.0),
            first_age: Some(6.0),
            before_age: Some(11.0),
            transmit: increase(5e6, 5e6, 5e6),
            receive: increase(0.0, 0.0, 0.0),
            rules: DEFAULT,
            ..Reading::default()
        }
    }

    #[test]
    fn a_steady_rate_is_itself_wherever_the_window_begins() {
        let rates = steady().rates(&WINDOW, Some(&round(1.0, 0)));
        assert_eq!((rates.transmit, rates.receive, rates.wait), (Some(1e6), Some(0.0), None));
        // The epoch began in the window: only what came after it counts.
        let fresh = Reading { before_age: None, ..steady() };
        assert_eq!(fresh.rates(&WINDOW, None).transmit, Some(1e6));
        // Read more rarely than the window is long.
        let slow = Reading { age: 20.0, interval: Some(30.0), first_age: None, ..steady() };
        let slow = Reading { transmit: Increase { last: Some(3e7), ..Increase::default() }, ..slow };
        assert_eq!(slow.rates(&WINDOW, Some(&round(0.5, 0))).transmit, Some(1e6));
    }

    #[test]
    fn a_port_without_a_row_in_the_last_round_stood_still() {
        // Busy until 9 s ago, and rounds went on: one second of the ten carried something.
        let idle = Reading {
            age: 9.0,
            interval: Some(1.0),
            first_age: Some(9.0),
            before_age: Some(10.0),
            transmit: increase(0.0, 1e6, 1e6),
            ..steady()
        };
        assert_eq!(idle.rates(&WINDOW, Some(&round(0.0, 0))).transmit, Some(1e5));
        // Some ports did not answer: it may be one of them.
        assert_eq!(idle.rates(&WINDOW, Some(&round(0.0, 1))).transmit, None);
        let long = Reading { age: 40.0, interval: Some(1.0), first_age: None, ..steady() };
        assert_eq!(long.rates(&WINDOW, Some(&round(0.0, 0))).transmit, Some(0.0));
        // An idle one goes on idle, whichever others did not answer.
        let idle = Reading { transmit: increase(0.0, 0.0, 0.0), ..long };
        assert_eq!(idle.rates(&WINDOW, Some(&round(0.0, 1))).transmit, Some(0.0));
    }

    #[test]
    fn silence_is_not_zero() {
        let silent = Reading { age: 76.0, ..steady() };
        assert_eq!(silent.rates(&WINDOW, Some(&round(0.0, 0))), Rates::default());
        // But not up to what the crawler reports as its largest gap.
        let rules = RowRules { largest_gap_seconds: 270.0, ..DEFAULT };
        let ages = [270.0, 271.0].map(|age| Reading { age, first_age: None, rules, ..steady() });
        assert_eq!(ages.map(|port| port.rates(&WINDOW, None).transmit), [Some(1e6), None]);
        // Nothing is known of the time between two rows that are farther apart.
        let apart =
            [75.0, 76.0].map(|interval| Reading { interval: Some(interval), first_age: None, ..steady() });
        assert_eq!(apart.map(|port| port.rates(&WINDOW, None).transmit.is_some()), [true, false]);
        // A single row has no rate.
        let single = Reading { age: 1.0, first_age: Some(1.0), ..Reading::default() };
        assert_eq!(single.rates(&WINDOW, None).transmit, None);
    }
}
