//! Alerts that are posted: what they name has its detail requested, once, within the quotas; who requested what is seen by them and by
//! administrators.

use super::link_shares::seeded;
use super::seed;
use super::*;
use crate::shares::Reader;
use serde_json::json;

/// Posts a body as a reader.
async fn post(router: &Router, path: &str, reader: Option<Reader>, body: String) -> (u16, Value) {
    let mut request = Request::post(path);
    if let Some(reader) = reader {
        request = request.extension(reader);
    }
    let response = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

/// An alert as Alertmanager and Grafana post it.
fn alert(status: &str, labels: &Value) -> Value {
    json!({"status": status, "labels": labels, "annotations": {"summary": "x"}, "startsAt": "2026-01-01T00:00:00Z", "fingerprint": "1"})
}

fn notification(alerts: &[Value]) -> String {
    json!({"version": "4", "status": "firing", "receiver": "throughline", "groupLabels": {}, "alerts": alerts}).to_string()
}

#[tokio::test]
async fn an_alert_that_fires_has_detail_requested_of_what_it_names() {
    let (database, router) = seeded().await;
    let client = database.connect().await.unwrap();
    // The last window as of a minute ago.
    let columns = "port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind, is_bound, counted_bytes";
    let insert = format!(
        "INSERT INTO internal.link_shares (time, {columns}) SELECT now() - interval '1 minute', {columns} FROM internal.link_shares
         WHERE time = (SELECT max(time) FROM internal.link_shares)"
    );
    client.execute(&insert, &[]).await.unwrap();
    let job = alert("firing", &json!({"alertname": "Slow", "job_key": seed::key(1)}));
    let link = alert(
        "firing",
        &json!({"alertname": "InfinibandLinkSaturated", "guid": seed::guid(seed::LEAF_1), "port": "3"}),
    );
    let node = alert("firing", &json!({"alertname": "Gpu", "instance": "n2:9461"}));
    let stranger = alert("firing", &json!({"alertname": "Disk", "instance": "db1"}));
    let over = alert("resolved", &json!({"job_key": seed::key(2)}));
    let reader = Reader::Local(472);
    let body = notification(&[job.clone(), link, node, stranger, over]);
    let (status, taken) = post(&router, "/alerts", Some(reader.clone()), body).await;
    assert_eq!(status, 200, "{taken}");
    // The link has its ports and both jobs; the first has been requested.
    assert_eq!(taken["requested"].as_array().unwrap().len(), 4, "{taken}");
    assert_eq!(
        (&taken["repeated"], &taken["unknown"], &taken["refused"]),
        (&json!(1), &json!(1), &json!([]))
    );
    let rows = client.query(
        "SELECT r.reason || ' ' || r.requested_by || ' ' || coalesce(j.key, k.name) FROM internal.detail_request r
         JOIN internal.detail_request_node n ON n.request_id = r.id JOIN internal.node_key k ON k.id = n.node_id LEFT JOIN internal.run j ON j.id = r.job_id
         GROUP BY r.id, j.key, k.name ORDER BY r.id, k.name",
        &[],
    );
    let rows: Vec<String> = rows.await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(rows.contains(&format!("alert local:472 {}", seed::key(2))), "{rows:?}");
    assert!(rows.contains(&"alert local:472 n2".to_owned()), "{rows:?}");
    // Notifications are repeated as long as an alert fires.
    let (_, again) = post(&router, "/alerts", Some(reader), notification(&[job])).await;
    assert_eq!((&again["requested"], &again["repeated"]), (&json!([]), &json!(1)));

    let listed = get(&router, "/alerts").await;
    assert_eq!(listed["requests"].as_array().unwrap().len(), 4);
    // The crawler of the link's subnet, and the ports at both ends.
    let of_link = "SELECT n.node_id, cardinality(r.ib_port_ids), r.job_id FROM internal.detail_request r
                   JOIN internal.detail_request_node n ON n.request_id = r.id WHERE r.ib_port_ids IS NOT NULL";
    let row = client.query_one(of_link, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1), row.get::<_, Option<i64>>(2)), (0, 2, None));
    // By either end of it, with what became of it.
    let path = format!("/fabric/{}/links/{}.3/detail", seed::SUBNET, seed::guid(seed::LEAF_1));
    let of_link = get(&router, &path).await;
    assert_eq!(of_link["requests"].as_array().unwrap().len(), 1, "{of_link}");
    assert_eq!(of_link["requests"][0]["nodes"][0]["host"], "crawler", "{of_link}");
    let (status, made) = post(&router, &format!("{path}?last_seconds=60"), None, String::new()).await;
    assert_eq!((status, made["to_ms"].as_i64().unwrap() - made["from_ms"].as_i64().unwrap()), (202, 60_000));
    let of_link = get(&router, &path).await;
    assert_eq!(of_link["requests"].as_array().unwrap().len(), 2, "{of_link}");
    assert_eq!(listed["requests"][0]["requested_by"], Value::Null, "another reader's");
}

#[tokio::test]
async fn an_alert_is_within_the_quotas_of_who_posts_it_and_may_be_switched_off() {
    let (database, _) = seeded().await;
    let with = |triggers: Triggers| {
        let api = Api::new(database.clone(), Limits::default());
        super::super::router(Arc::new(api.with_detail(triggers, SelfMetrics::default())))
    };
    let job = notification(&[alert("firing", &json!({"job_key": seed::key(1)}))]);
    let mut triggers = Triggers::default();
    triggers.limits.requests = [0, 0];
    let (status, taken) = post(&with(triggers), "/alerts", None, job.clone()).await;
    assert_eq!((status, &taken["requested"]), (200, &json!([])), "{taken}");
    assert!(taken["refused"][0].as_str().unwrap().contains("detail.requests_per_hour"), "{taken}");
    let off = Triggers { on_alert: false, ..Triggers::default() };
    let (status, refused) = post(&with(off), "/alerts", None, job).await;
    assert_eq!(status, 403);
    assert!(refused["error"]["remedy"].as_str().unwrap().contains("detail.on_alert"), "{refused}");
    let (status, refused) = post(&with(Triggers::default()), "/alerts", None, "[]".to_owned()).await;
    assert_eq!((status, &refused["error"]["parameter"]), (400, &json!("body")));
}

#[tokio::test]
async fn who_requested_is_seen_by_them_and_by_administrators() {
    let (_database, router) = seeded().await;
    let path = format!("/jobs/{}/detail", seed::key(1));
    let reader = || Reader::Proxied("ada".into());
    let (status, made) =
        post(&router, &format!("{path}?last_seconds=60"), Some(reader()), String::new()).await;
    assert_eq!(status, 202, "{made}");
    let seen_by = async |reader: Reader| {
        let request = Request::get(&path).extension(reader).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        body["requests"][0]["requested_by"].clone()
    };
    assert_eq!(seen_by(reader()).await, "proxy:ada");
    assert_eq!(seen_by(Reader::Local(0)).await, "proxy:ada");
    assert_eq!(seen_by(Reader::Local(4711)).await, Value::Null);
    assert_eq!(seen_by(Reader::Proxied("bob".into())).await, Value::Null);
}
