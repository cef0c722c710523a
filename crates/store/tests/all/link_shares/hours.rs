//! Shares of links by the minute are the same before and after their hours are one row of a port.

use super::minutes::{Key, Minute};
use super::*;
use throughline_store::{RetentionWay, apply_retention};

/// All minutes as readers get them, times moved to those of the minutes that windows are of.
async fn read(client: &Client, of_job: Option<i64>, days_before: f64) -> BTreeMap<Key, Minute> {
    let from = "public.link_minute_shares('-infinity', 'infinity', $1)";
    let before = "time < now() - INTERVAL '1 day'";
    let condition = if days_before > 0.0 { before.to_owned() } else { format!("NOT {before}") };
    let mut all = super::minutes::rows_of(client, &format!("{from} WHERE {condition}"), &[&of_job]).await;
    #[allow(clippy::cast_possible_truncation)] // whole seconds
    let back = (days_before * 86_400.0 * 1e6) as i64;
    let moved = std::mem::take(&mut all).into_iter();
    moved.map(|((time, port, who), minute)| ((time + back, port, who), minute)).collect()
}

/// Equal, but that hours have seven digits of bytes.
fn assert_same(hours: &BTreeMap<Key, Minute>, minutes: &BTreeMap<Key, Minute>) {
    assert!(!minutes.is_empty());
    assert_eq!(hours.keys().collect::<Vec<_>>(), minutes.keys().collect::<Vec<_>>());
    let is_near = |one: i64, other: i64| (one - other).abs() as f64 <= 2e-7 * other.abs() as f64 + 1.0;
    for (key, minute) in minutes {
        let hour = &hours[key];
        let counted = hour.5.zip(minute.5).is_none_or(|(one, other)| is_near(one, other));
        let peak = hour.6.zip(minute.6).is_none_or(|(one, other)| is_near(one, other));
        assert!(is_near(hour.0, minute.0) && is_near(hour.1, minute.1), "{key:?}: {hour:?} {minute:?}");
        assert!(is_near(hour.2, minute.2) && counted && peak, "{key:?}: {hour:?} {minute:?}");
        let exact = |one: &Minute| (one.3, one.4, one.5.is_some(), one.6.is_some(), one.7);
        assert_eq!(exact(hour), exact(minute), "{key:?}");
    }
    let mut sums: BTreeMap<(i64, i64), (i64, Option<i64>)> = BTreeMap::new();
    for ((time, port, _), minute) in hours {
        let sum = sums.entry((*time, *port)).or_default();
        *sum = (sum.0 + minute.0, minute.5);
    }
    assert!(sums.values().all(|(sum, counted)| counted.is_none_or(|counted| counted == *sum)), "{sums:?}");
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {sql}"), &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn minutes_put_into_hours_are_the_same() {
    let mut site = Site::new(170).await;
    // A port whose contributors differ from minute to minute, and one that nobody read.
    site.run(140, None).await;
    site.begin_with(0.0).await;
    site.make().await;
    let fresh = read(&site.client, None, 0.0).await;
    // The same minutes two days ago in chunks of an hour, and five days ago in one of a day: chunks may have any length.
    let copy = |days: f64| {
        format!(
            "INSERT INTO internal.link_share_minutes (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes,
                                             kind, is_bound, counted_bytes, peak_counted_bytes, windows)
             SELECT time - INTERVAL '{days} days', port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes,
                    kind, is_bound, counted_bytes, peak_counted_bytes, windows
             FROM internal.link_share_minutes WHERE time > now() - INTERVAL '1 day'"
        )
    };
    let missing = "UPDATE internal.link_share_minutes SET counted_bytes = NULL WHERE port_id = (SELECT min(port_id) FROM internal.link_share_minutes);
        UPDATE internal.link_share_minutes SET contributor = 'group', name = 'g', job_id = NULL, operation = NULL
        WHERE contributor = 'job' AND extract(minute FROM time)::integer % 2 = 0
            AND port_id = (SELECT max(port_id) FROM internal.link_share_minutes WHERE contributor = 'job')";
    site.client.batch_execute(missing).await.unwrap();
    let changed = read(&site.client, None, 0.0).await;
    assert_ne!(fresh, changed);
    for (chunk, days) in [("1 day", 5.0), ("1 hour", 2.0)] {
        let chunks = format!(
            "SELECT public.set_chunk_time_interval('internal.link_share_minutes', INTERVAL '{chunk}')"
        );
        site.client.batch_execute(&chunks).await.unwrap();
        site.client.batch_execute(&copy(days)).await.unwrap();
    }
    let jobs = site.client.query("SELECT id FROM internal.run", &[]).await.unwrap();
    let jobs: Vec<i64> = jobs.iter().map(|row| row.get(0)).collect();
    assert_eq!(jobs.len(), 2);
    let before = read(&site.client, None, 2.0).await;

    // Ports by ports: what is written so far is not read, and the hours come once.
    while make_link_shares(&mut site.client, &mut site.cache, &site.groups, &site.retention, Duration::ZERO)
        .await
        .unwrap()
        .is_behind
    {
        assert_eq!(read(&site.client, None, 2.0).await.len(), before.len());
    }
    let packed = count(&site.client, "internal.link_share_hours").await;
    assert!(packed > 0);
    let old = "internal.link_share_minutes WHERE time < now() - INTERVAL '1 day'";
    assert_eq!(count(&site.client, old).await, 0, "their chunks are gone");
    assert_same(&read(&site.client, None, 2.0).await, &before);
    assert_eq!(read(&site.client, None, 0.0).await, changed, "minutes that may change are rows");
    for job in jobs {
        let name = format!("job {job} ");
        let of_job = before.iter().filter(|((_, _, who), _)| who.starts_with(&name));
        let of_job: BTreeMap<Key, Minute> = of_job.map(|(key, minute)| (key.clone(), *minute)).collect();
        let read = read(&site.client, Some(job), 2.0).await;
        assert_eq!(read.keys().collect::<Vec<_>>(), of_job.keys().collect::<Vec<_>>());
    }
    // A part of an hour.
    let ((first, ..), _) = before.first_key_value().unwrap();
    let minute = first - 2 * 86_400 * 1_000_000;
    let at = format!("TIMESTAMPTZ 'epoch' + INTERVAL '{minute} microseconds'");
    let one =
        super::minutes::rows_of(&site.client, &format!("public.link_minute_shares({at}, {at})"), &[]).await;
    assert!(!one.is_empty() && one.keys().all(|(time, ..)| *time == minute), "{one:?}");
    // A note of a window whose minute is in hours changes nothing.
    let note = format!(
        "INSERT INTO internal.link_share_late (time, noted_at) SELECT {at}, now() - INTERVAL '1 hour'"
    );
    site.client.batch_execute(&note).await.unwrap();
    assert_eq!(site.make().await.late, 0);
    assert_eq!(count(&site.client, "internal.link_share_late").await, 0);
    assert_eq!(count(&site.client, "internal.link_share_hours").await, packed);
}

#[tokio::test]
async fn old_windows_wait_for_their_minutes() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    // Made after an outage of five hours: older than windows are kept.
    let windows = "INSERT INTO internal.link_share_state DEFAULT VALUES ON CONFLICT DO NOTHING;
        INSERT INTO internal.link_shares (time, port_id, contributor, bytes, low_bytes, high_bytes, kind, is_bound)
        SELECT now() - INTERVAL '5 hours', 1, 'rest', 1, 1, 1, 'measured', false";
    client.batch_execute(windows).await.unwrap();
    let left = |until: &'static str| {
        let client = &client;
        async move {
            client
                .batch_execute(&format!("UPDATE internal.link_share_state SET minutes_until = {until}"))
                .await
                .unwrap();
            let way = Some(RetentionWay::Upkeep);
            apply_retention(client, &Retention::default(), way).await.unwrap();
            count(client, "internal.link_shares").await
        }
    };
    assert_eq!(left("now() - INTERVAL '7 hours'").await, 1);
    assert_eq!(left("now()").await, 0);
    // Where no more are made they do not wait for ever.
    client.batch_execute(&windows.replace("5 hours", "30 hours")).await.unwrap();
    assert_eq!(left("now() - INTERVAL '40 hours'").await, 0);
    client.batch_execute(windows).await.unwrap();
    assert_eq!(left("NULL").await, 0, "before the first minute");
}
