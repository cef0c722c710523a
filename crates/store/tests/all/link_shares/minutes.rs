//! Shares of links by the minute: the same as summed here from the windows of each minute, those made again included.

use super::*;
use tokio_postgres::types::ToSql;

/// Microseconds since 1970, port, and who it is as text.
pub(super) type Key = (i64, i64, String);

/// Bytes, at least, at most, place of the kind, whether it is a bound, what was counted, the largest window, windows.
pub(super) type Minute = (i64, i64, i64, usize, bool, Option<i64>, Option<i64>, i32);

const KINDS: [&str; 4] = ["measured", "modelled", "logical", "unreported"];
const MINUTE: i64 = 60_000_000;
const WHO: &str =
    "contributor || coalesce(' ' || job_id || ' ' || operation, '') || coalesce(' ' || name, '')";

fn kind(name: &str) -> usize {
    KINDS.iter().position(|kind| *kind == name).unwrap()
}

/// What the windows of whole minutes until a time add up to.
async fn expected(client: &Client, since: i64, until: i64) -> BTreeMap<Key, Minute> {
    let sql = format!(
        "SELECT (extract(epoch FROM time) * 1000000)::bigint, port_id, {WHO}, bytes, low_bytes, high_bytes, kind, is_bound,
                counted_bytes FROM internal.link_shares"
    );
    let mut parts: BTreeMap<(i64, i64), BTreeMap<String, Minute>> = BTreeMap::new();
    // What was counted adds up to the bytes of all, or there is no such sum.
    let mut not_counted = BTreeSet::new();
    for row in client.query(&sql, &[]).await.unwrap() {
        let minute = (row.get::<_, i64>(0) - 1).div_euclid(MINUTE) * MINUTE;
        if minute < since || minute + MINUTE > until {
            continue;
        }
        let (port, who): (i64, String) = (row.get(1), row.get(2));
        let counted: Option<i64> = row.get(8);
        if counted.is_none() {
            not_counted.insert((minute, port));
        }
        let part = parts.entry((minute, port)).or_default().entry(who).or_default();
        *part = (
            part.0 + row.get::<_, i64>(3),
            part.1 + row.get::<_, i64>(4),
            part.2 + row.get::<_, i64>(5),
            part.3.max(kind(row.get(6))),
            part.4 || row.get::<_, bool>(7),
            counted.map(|counted| part.5.unwrap_or(0) + counted).or(part.5),
            counted.max(part.6),
            part.7 + 1,
        );
    }
    let mut all = BTreeMap::new();
    for ((minute, port), parts) in parts {
        let mut rest = parts["rest"];
        rest.5 = rest.5.filter(|_| !not_counted.contains(&(minute, port)));
        let least = rest.5.unwrap_or_else(|| parts.values().map(|part| part.0).sum()) as f64 / 1000.0;
        let mut largest: Vec<_> =
            parts.iter().filter(|(who, _)| !["rest", "other"].contains(&who.as_str())).collect();
        largest.sort_by_key(|(_, part)| -part.0);
        let listed: Vec<&String> = largest
            .into_iter()
            .take(8)
            .filter(|(_, part)| part.0 as f64 >= least)
            .map(|(who, _)| who)
            .collect();
        for (who, part) in &parts {
            let is_own = who == "rest" || listed.contains(&who);
            let who = if is_own { who.clone() } else { "other".to_owned() };
            let sum: &mut Minute = all.entry((minute, port, who)).or_default();
            *sum = (
                sum.0 + part.0,
                sum.1 + part.1,
                sum.2 + part.2,
                sum.3.max(part.3),
                sum.4 || part.4,
                rest.5,
                rest.6,
                rest.7,
            );
        }
    }
    all
}

async fn made(client: &Client) -> BTreeMap<Key, Minute> {
    rows_of(client, "internal.link_share_minutes", &[]).await
}

/// What a table or function has of minutes.
pub(super) async fn rows_of(
    client: &Client,
    source: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> BTreeMap<Key, Minute> {
    let sql = format!(
        "SELECT (extract(epoch FROM time) * 1000000)::bigint, port_id, {WHO}, bytes, low_bytes, high_bytes, kind, is_bound,
                counted_bytes, peak_counted_bytes, windows::integer FROM {source}"
    );
    let rows = client.query(&sql, parameters).await.unwrap();
    let of = |row: &tokio_postgres::Row| {
        let minute = (
            row.get(3),
            row.get(4),
            row.get(5),
            kind(row.get(6)),
            row.get(7),
            row.get(8),
            row.get(9),
            row.get(10),
        );
        ((row.get(0), row.get(1), row.get(2)), minute)
    };
    let all: BTreeMap<Key, Minute> = rows.iter().map(of).collect();
    assert_eq!(all.len(), rows.len(), "each is there once");
    all
}

/// From when until when minutes are made, microseconds since 1970.
async fn span(client: &Client) -> (i64, i64) {
    let sql = "SELECT (extract(epoch FROM minutes_since) * 1000000)::bigint,
                      (extract(epoch FROM minutes_until) * 1000000)::bigint FROM internal.link_share_state";
    let row = client.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// All minutes that are made are the sums of their windows; returns them.
async fn check(client: &Client) -> BTreeMap<Key, Minute> {
    let (since, until) = span(client).await;
    let (made, expected) = (made(client).await, expected(client, since, until).await);
    assert!(!made.is_empty());
    assert_eq!(made, expected);
    let mut sums: BTreeMap<(i64, i64), (i64, Option<i64>)> = BTreeMap::new();
    for ((minute, port, _), values) in &made {
        let (bytes, counted) = sums.entry((*minute, *port)).or_default();
        (*bytes, *counted) = (*bytes + values.0, values.5);
    }
    assert!(
        sums.values().all(|(bytes, counted)| counted.is_none_or(|counted| counted == *bytes)),
        "{sums:?}"
    );
    made
}

/// Bytes in a minute of everybody with such a name.
fn bytes(minutes: &BTreeMap<Key, Minute>, name: &str) -> i64 {
    minutes.iter().filter(|((_, _, who), _)| who.ends_with(name)).map(|(_, minute)| minute.0).sum()
}

#[tokio::test]
async fn minutes_are_sums_of_windows_and_late_ones_are_made_again() {
    let mut site = Site::new(170).await;
    // Minutes of a chunk that has ended may be put into hours.
    let chunks = "SELECT public.set_chunk_time_interval('internal.link_share_minutes', INTERVAL '1000 days')";
    site.client.batch_execute(chunks).await.unwrap();
    // Nothing of bob is there.
    site.run(140, Some(1)).await;
    site.begin_with(0.0).await;
    site.make().await;
    let before = check(&site.client).await;
    let (since, until) = span(&site.client).await;
    assert!((MINUTE..=MINUTE * 3).contains(&(until - since)), "{since} {until}");
    assert!(bytes(&before, " alltoall") > 0 && bytes(&before, " isend") == 0, "{before:#?}");
    assert!(before.values().any(|minute| minute.7 == 6), "{before:#?}");
    crate::columnstore::to_columns(&site.client).await;
    for second in 1..=140_u32 {
        let messages = u64::from(second) * BOB / MESSAGE_COUNTED;
        let batch = site.traffic(1, f64::from(second), messages);
        site.write(11, batch).await;
    }
    let waiting = "UPDATE internal.link_share_late SET noted_at = noted_at - INTERVAL '1 minute'";
    site.client.execute(waiting, &[]).await.unwrap();
    // Windows whose neighbours may be gone stay as they are.
    let notes = "CREATE TEMPORARY TABLE notes AS SELECT * FROM internal.link_share_late";
    site.client.batch_execute(notes).await.unwrap();
    site.retention.set("link_shares", Duration::from_secs(1)).unwrap();
    assert_eq!(site.make().await.late, 0);
    assert_eq!(made(&site.client).await, before);
    site.retention = Retention::default();
    site.client.batch_execute("INSERT INTO internal.link_share_late SELECT * FROM notes").await.unwrap();
    assert!(site.make().await.late > 6);
    let after = check(&site.client).await;
    assert!(bytes(&after, " isend") > 0, "{after:#?}");
    assert_eq!(span(&site.client).await, (since, until));
}

#[tokio::test]
async fn a_minute_has_the_largest_contributors_and_is_the_same_when_it_is_made_twice() {
    let mut site = Site::new(170).await;
    // A port without a cable, in each window with other hosts: twelve large ones, some small, and windows that nobody counted.
    let seed = format!(
        "INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT id, 99 FROM internal.ib_node_key WHERE guid = '0x{SPINE:016x}';
         CREATE TEMPORARY TABLE shares AS
         SELECT date_bin('1 minute', now() - INTERVAL '130 seconds', 'epoch') + w * INTERVAL '10 seconds' AS time, w,
                (SELECT id FROM internal.ib_port_key WHERE port = 99) AS port_id, n,
                CASE WHEN n < 20 THEN (n * 7919 + w * 104729) % 1000000 + n ELSE 20 END AS bytes
         FROM generate_series(1, 6) w, generate_series(0, 25) n WHERE (n + w) % 3 > 0;
         INSERT INTO internal.link_shares (time, port_id, contributor, name, bytes, low_bytes, high_bytes, kind, is_bound, counted_bytes)
         SELECT time, port_id, 'host', 'h' || n, bytes, bytes / 2, bytes * 2,
                (ARRAY['measured', 'modelled', 'logical', 'unreported'])[1 + (n + w) % 4], (n + w) % 5 = 0,
                CASE WHEN w <> 4 THEN sum(bytes) OVER (PARTITION BY time) END FROM shares;
         INSERT INTO internal.link_shares (time, port_id, contributor, bytes, low_bytes, high_bytes, kind, is_bound, counted_bytes)
         SELECT time, port_id, contributor, 0, 0, 0, 'unreported', false, CASE WHEN w <> 4 THEN sum(bytes) END
         FROM shares, (VALUES ('rest'), ('other')) c (contributor) GROUP BY time, w, port_id, contributor;"
    );
    site.client.batch_execute(&seed).await.unwrap();
    site.run(140, None).await;
    site.begin_with(0.0).await;
    site.make().await;
    let first = check(&site.client).await;
    let of_port: Vec<&Key> = first.keys().filter(|(_, _, who)| who.starts_with("host h")).collect();
    assert_eq!(of_port.len(), 8, "{first:#?}");
    // Another server makes windows again from a time before: what is there is replaced.
    site.cache = LinkShareCache::default();
    let (since, _) = span(&site.client).await;
    let back = "UPDATE internal.link_share_state SET computed_until = TIMESTAMPTZ 'epoch' + $1 * INTERVAL '1 microsecond'";
    #[allow(clippy::cast_precision_loss)] // below 2^53
    let time = since as f64;
    site.client.execute(back, &[&time]).await.unwrap();
    let again = format!(
        "DELETE FROM internal.link_shares WHERE time > TIMESTAMPTZ 'epoch' + INTERVAL '{since} microseconds' AND port_id <> (SELECT id FROM internal.ib_port_key WHERE port = 99)"
    );
    site.client.batch_execute(&again).await.unwrap();
    site.client
        .batch_execute(
            "DELETE FROM internal.link_share_minutes WHERE port_id = (SELECT id FROM internal.ib_port_key WHERE port = 99)",
        )
        .await
        .unwrap();
    site.make().await;
    assert_eq!(check(&site.client).await, first);
}
