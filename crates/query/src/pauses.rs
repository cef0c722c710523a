//! Sources that read nothing on purpose: they give way to a profiler, or another one has their devices.
//!
//! Its beginning is an event, which arrives within seconds; that it goes on is a metric, which a daemon that ended does not report
//! any more. So an old event counts while the metric confirms it, and a new one at once.

use std::collections::{BTreeMap, HashMap};

use throughline_api::status::SourceState;
use throughline_sample::row_rules::DEFAULT;
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;

/// An event younger than this is believed without the metric: daemons report that within half a minute.
const RECENT_MILLISECONDS: i64 = 60_000;
/// Longer than any pause (`gpu pause`) or lease by default.
const LOOK_BACK_MILLISECONDS: i64 = 25 * 3_600_000;

/// Why a source reads nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Pause {
    /// Paused or busy.
    pub state: SourceState,
    /// Who has the devices, with what ends it.
    pub reason: Option<String>,
    /// Since when, milliseconds; `None` where its beginning is older than is looked back.
    pub since_ms: Option<i64>,
    /// When it ends by itself, milliseconds, where that is known.
    pub until_ms: Option<i64>,
}

/// Both metrics of each source, and the last event of each.
const PAUSES: &str = "
    WITH metrics AS (
        SELECT instance, source,
               max(value) FILTER (WHERE name = 'source_paused') AS paused,
               max(value) FILTER (WHERE name = 'paused_until_timestamp_seconds') AS until
        FROM (SELECT DISTINCT ON (instance, source, name) instance, source, name, value FROM public.self_stats
              WHERE time > SINCE_GAP AND name IN ('source_paused', 'paused_until_timestamp_seconds')
              ORDER BY instance, source, name, time DESC) newest
        GROUP BY instance, source
    ), events AS (
        SELECT DISTINCT ON (instance, source) internal.instance_name(instance) AS instance, source, kind, text,
               (extract(epoch FROM time) * 1e3)::bigint AS since_ms
        FROM internal.events
        WHERE kind IN ('source.paused', 'source.busy', 'source.resumed') AND time > LOOK_BACK
        ORDER BY instance, source, time DESC
    )
    SELECT instance, source, kind, text, since_ms, paused, (until * 1e3)::bigint AS until_ms
    FROM metrics FULL JOIN events USING (instance, source)";

/// By instance and source, as of `now`, milliseconds.
///
/// # Errors
/// The database's.
pub async fn read(client: &Client, now: i64) -> Result<BTreeMap<(String, String), Pause>, Error> {
    let gap = i64::try_from(DEFAULT.largest_gap().as_millis()).unwrap_or(i64::MAX);
    let sql = PAUSES.replace("SINCE_GAP", &moment(now - gap));
    let sql = sql.replace("LOOK_BACK", &moment(now - LOOK_BACK_MILLISECONDS));
    let rows = client.query(&sql, &[]).await.map_err(Error::sql("reading which sources are paused"))?;
    let mut pauses = BTreeMap::new();
    for row in &rows {
        let (kind, paused): (Option<&str>, Option<f64>) = (row.get("kind"), row.get("paused"));
        let (since_ms, until_ms): (Option<i64>, Option<i64>) = (row.get("since_ms"), row.get("until_ms"));
        if let Some(state) = state(kind, since_ms, paused, now) {
            let has_begun = kind.is_some_and(|kind| kind != RESUMED);
            let pause = Pause {
                state,
                reason: row.get::<_, Option<String>>("text").filter(|_| has_begun),
                since_ms: since_ms.filter(|_| has_begun),
                // The metric of a pause before may still be the newest.
                until_ms: until_ms.filter(|until| *until > since_ms.unwrap_or(now)),
            };
            pauses.insert((row.get("instance"), row.get("source")), pause);
        }
    }
    Ok(pauses)
}

/// When a source began to be paused or busy in a range of milliseconds since 1970, by instance.
///
/// # Errors
/// The database's.
pub async fn begun(
    client: &Client,
    source: &str,
    (from, to): (i64, i64),
) -> Result<HashMap<String, Vec<i64>>, Error> {
    let sql = format!(
        "SELECT internal.instance_name(instance), ceil(extract(epoch FROM time) * 1e3)::bigint FROM internal.events
         WHERE kind IN ('source.paused', 'source.busy') AND source = $1 AND time >= {} AND time <= {} ORDER BY time",
        moment(from),
        moment(to),
    );
    let rows = client.query(&sql, &[&source]).await;
    let mut begun: HashMap<String, Vec<i64>> = HashMap::new();
    for row in rows.map_err(Error::sql("reading when a source was paused"))? {
        begun.entry(row.get(0)).or_default().push(row.get(1));
    }
    Ok(begun)
}

const RESUMED: &str = "source.resumed";

/// Paused or busy, by the last event and the metric; `None` of a source that reads.
fn state(kind: Option<&str>, since_ms: Option<i64>, paused: Option<f64>, now: i64) -> Option<SourceState> {
    let is_recent = since_ms.is_some_and(|since| now - since < RECENT_MILLISECONDS);
    let is_confirmed = paused.is_some_and(|paused| paused > 0.0);
    match kind {
        Some(RESUMED) if is_recent => None,
        Some("source.busy") if is_recent || is_confirmed => Some(SourceState::Busy),
        Some("source.paused") if is_recent || is_confirmed => Some(SourceState::Paused),
        _ if is_confirmed => Some(SourceState::Paused),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_event_counts_at_once_and_an_old_one_while_the_metric_confirms_it() {
        let at =
            |kind: &str, age: i64, paused| state(Some(kind), Some(1_000_000 - age * 1000), paused, 1_000_000);
        assert_eq!(at("source.paused", 5, Some(0.0)), Some(SourceState::Paused), "the metric is of before");
        assert_eq!(at("source.busy", 600, Some(1.0)), Some(SourceState::Busy));
        assert_eq!(at("source.paused", 600, Some(0.0)), None, "the daemon was started anew");
        assert_eq!(at("source.paused", 600, None), None, "the daemon is silent");
        assert_eq!(at("source.resumed", 5, Some(1.0)), None, "the metric is of before");
        assert_eq!(at("source.resumed", 600, Some(1.0)), Some(SourceState::Paused), "an event was lost");
        assert_eq!(state(None, None, Some(1.0), 0), Some(SourceState::Paused), "longer than is looked back");
        assert_eq!(state(None, None, Some(0.0), 0), None);
    }
}
