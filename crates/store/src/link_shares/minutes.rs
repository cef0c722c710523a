//! Shares of links by the minute: sums of the windows that end in it, made in the transaction that writes its last window, or
//! one of its windows again. So the two never differ.

use tokio_postgres::Transaction;

use super::window::{LEAST_SHARE, LISTED};
use super::{Micros, moment, system_time};
use crate::error::Error;

const WHAT: &str = "making shares of links by the minute";

/// Length of a minute.
const MINUTE: Micros = 60_000_000;

/// The minute, by its begin, of a window, by its end.
fn minute_of(end: Micros) -> Micros {
    (end - 1).div_euclid(MINUTE) * MINUTE
}

/// Begins of the minutes that are complete once the window that ends at `end` is made, with windows made until `made_until`
/// before it. After an outage windows are skipped: the minute in which they begin to lack has what there is.
fn completed(made_until: Option<Micros>, end: Micros) -> Vec<Micros> {
    let broken = made_until.map(minute_of).filter(|minute| minute + MINUTE < end);
    let broken = broken.filter(|minute| made_until.is_some_and(|made| made < minute + MINUTE));
    let whole = (end % MINUTE == 0).then_some(end - MINUTE);
    broken.into_iter().chain(whole).collect()
}

/// After the rows of a window: makes the minutes that it completes.
pub(super) async fn make(
    transaction: &Transaction<'_>,
    made_until: Option<Micros>,
    end: Micros,
    ports: &[i64],
) -> Result<(), Error> {
    let minutes = completed(made_until, end);
    for minute in &minutes {
        write(transaction, *minute, ports).await?;
    }
    let (Some(first), Some(last)) = (minutes.first(), minutes.last()) else { return Ok(()) };
    let advance = "UPDATE internal.link_share_state SET minutes_since = coalesce(minutes_since, $1), minutes_until = $2";
    let times = (system_time(*first), system_time(last + MINUTE));
    transaction.execute(advance, &[&times.0, &times.1]).await.map(drop).map_err(Error::sql(WHAT))
}

/// After the rows of a window that is made again: makes its minute again, if that was made.
pub(super) async fn make_again(
    transaction: &Transaction<'_>,
    end: Micros,
    ports: &[i64],
) -> Result<(), Error> {
    let minute = minute_of(end);
    let made =
        "SELECT coalesce(minutes_since <= $1 AND minutes_until > $1, false) FROM internal.link_share_state";
    let row = transaction.query_one(made, &[&system_time(minute)]).await.map_err(Error::sql(WHAT))?;
    if row.get(0) { write(transaction, minute, ports).await } else { Ok(()) }
}

/// Writes the rows of a minute in place of those of `ports` that there are: the largest contributors of each port as windows
/// have them, and the others in `other`.
async fn write(transaction: &Transaction<'_>, minute: Micros, ports: &[i64]) -> Result<(), Error> {
    let removal = format!(
        "DELETE FROM internal.link_share_minutes WHERE time = {} AND port_id = ANY($1)",
        moment(minute)
    );
    transaction.execute(&removal, &[&ports]).await.map_err(Error::sql(WHAT))?;
    let of_minute = format!(
        "FROM internal.link_shares WHERE time > {} AND time <= {}",
        moment(minute),
        moment(minute + MINUTE)
    );
    let kinds = "ARRAY['measured', 'modelled', 'logical', 'unreported']";
    let sql = format!(
        "INSERT INTO internal.link_share_minutes (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes,
                                         kind, is_bound, counted_bytes, peak_counted_bytes, windows)
         WITH parts AS (
             SELECT port_id, contributor, job_id, operation, name, sum(bytes) AS bytes, sum(low_bytes) AS low,
                    sum(high_bytes) AS high, max(array_position({kinds}, kind)) AS kind, bool_or(is_bound) AS is_bound
             {of_minute} GROUP BY port_id, contributor, job_id, operation, name
         ), ports AS (
             SELECT port_id, CASE WHEN count(*) = count(counted_bytes) THEN sum(counted_bytes)::bigint END AS counted,
                    max(counted_bytes) AS peak, count(*) AS windows
             {of_minute} AND contributor = 'rest' GROUP BY port_id
         ), placed AS (
             SELECT p.*, row_number() OVER (PARTITION BY p.port_id ORDER BY contributor IN ('other', 'rest'), bytes DESC,
                                            contributor, job_id, operation, name) AS place,
                    sum(bytes) OVER (PARTITION BY p.port_id) AS sum
             FROM parts p
         ), listed AS (
             SELECT p.*, o.counted, o.peak, o.windows,
                    contributor = 'rest' OR contributor <> 'other' AND place <= {LISTED}
                        AND bytes >= greatest(coalesce(o.counted, p.sum) * {LEAST_SHARE}, 1) AS is_listed
             FROM placed p JOIN ports o ON o.port_id = p.port_id
         )
         SELECT {minute}, port_id, CASE WHEN is_listed THEN contributor ELSE 'other' END AS who,
                CASE WHEN is_listed THEN job_id END AS job, CASE WHEN is_listed THEN operation END AS operation,
                CASE WHEN is_listed THEN name END AS name, sum(bytes)::bigint, sum(low)::bigint, sum(high)::bigint,
                ({kinds})[max(kind)], bool_or(is_bound), max(counted), max(peak), max(windows)::smallint
         FROM listed GROUP BY port_id, 3, 4, 5, 6",
        minute = moment(minute),
    );
    transaction.execute(&sql, &[]).await.map(drop).map_err(Error::sql(WHAT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_complete_with_its_last_window_or_where_windows_are_skipped() {
        let second = 1_000_000;
        let of = |made: Option<i64>, end: i64| -> Vec<i64> {
            let minutes = completed(made.map(|made| made * second), end * second);
            minutes.into_iter().map(|minute| minute / second).collect()
        };
        assert_eq!(of(None, 30), Vec::<i64>::new());
        assert_eq!(of(None, 60), [0]);
        assert_eq!(of(Some(30), 40), Vec::<i64>::new());
        assert_eq!(of(Some(50), 60), [0]);
        assert_eq!(of(Some(60), 70), Vec::<i64>::new());
        // Windows from 40 s on were never made.
        assert_eq!(of(Some(30), 310), [0]);
        assert_eq!(of(Some(30), 300), [0, 240]);
        assert_eq!(of(Some(60), 300), [240]);
    }
}
