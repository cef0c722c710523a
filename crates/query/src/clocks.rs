//! How well times of what is read are aligned: errors of clocks, and distances of readings, by who reads.

use throughline_api::lanes::{LaneClock, LaneSource};
use throughline_sample::catalogue::CLOCK_ERROR_SECONDS;
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// How much of the end of a range is looked at, milliseconds: a source's rounds are seconds apart, and its rules rarely change.
const WINDOW_MS: i64 = 120_000;

/// A source that writes a row for each reading reports its interval as the time in which a thing has at least one; of a crawler that
/// leaves rows out, and of others, it is the usual distance of rounds.
const INTERVALS: &str = "
    SELECT internal.instance_name(instance), source, seconds FROM (
        SELECT c.instance, c.source, coalesce(
            (SELECT max(r.heartbeat_seconds) FROM internal.row_rules r
             WHERE r.instance = c.instance AND r.source = c.source AND r.source <> 'mad'
               AND r.valid_from <= TO_TIME AND (r.valid_to IS NULL OR r.valid_to > FROM_TIME)),
            percentile_cont(0.5) WITHIN GROUP (ORDER BY c.seconds) FILTER (WHERE c.seconds > 0))::float8 AS seconds
        FROM (SELECT instance, source,
                     extract(epoch FROM time - lag(time) OVER (PARTITION BY source, instance ORDER BY time))::float8 AS seconds
              FROM internal.coverage_rounds(FROM_TIME, TO_TIME) WHERE instance = ANY(INSTANCES)) c
        GROUP BY c.instance, c.source) i
    WHERE seconds IS NOT NULL ORDER BY 1, 2";

const ERRORS: &str = "
    SELECT instance, max(value) FROM public.self_stats
    WHERE name = $2 AND source = 'clock' AND instance_key = ANY(INSTANCES) AND time > FROM_TIME AND time <= TO_TIME GROUP BY instance";

/// Clocks of instances (hosts, fabrics of crawlers), in their order, as of the end of a range in milliseconds.
///
/// # Errors
/// The database's.
pub async fn clocks(
    client: &Client,
    instances: &[String],
    from: i64,
    to: i64,
) -> Result<Vec<LaneClock>, Error> {
    let what = "reading how well clocks are aligned";
    // A short range holds no two rounds.
    let from = from.max(to - WINDOW_MS).min(to - WINDOW_MS / 2);
    let known = "ARRAY(SELECT unnest(internal.instances_named(n)) FROM unnest($1::text[]) n)";
    let sql = |text: &str| {
        let text = text.replace("FROM_TIME", &moment(from)).replace("TO_TIME", &moment(to));
        text.replace("INSTANCES", known)
    };
    let intervals = client.query(&sql(INTERVALS), &[&instances]).await.map_err(Error::sql(what))?;
    let errors = client.query(&sql(ERRORS), &[&instances, &CLOCK_ERROR_SECONDS.name]).await;
    let errors = errors.map_err(Error::sql(what))?;
    let of = |rows: &[Row], instance: &str| -> Vec<usize> {
        (0..rows.len()).filter(|place| rows[*place].get::<_, &str>(0) == instance).collect()
    };
    let clock = |instance: &String| LaneClock {
        instance: instance.clone(),
        clock_error_seconds: of(&errors, instance).first().map(|place| errors[*place].get(1)),
        sources: of(&intervals, instance)
            .into_iter()
            .map(|place| LaneSource {
                source: intervals[place].get(1),
                interval_seconds: intervals[place].get(2),
            })
            .collect(),
    };
    Ok(instances.iter().map(clock).collect())
}
