//! Whose bytes were on a link, and a job's links.

use super::seed::{self, LEAF_1, N2, Run, SPEED, SPINE, START_MS, SUBNET};
use super::*;
use serde_json::json;
use tokio_postgres::Client;

/// Bytes in a window at full speed.
const FULL: u64 = SPEED * 10;

/// Windows that end 10 and 20 s after the start: leaf 1 sends half of the speed to the spine. 62 % is an alltoall of job 1,
/// 36 % a host without an agent, half a percent another host, and the rest nobody's. In the second window job 2 has a part.
pub async fn seeded() -> (Database, Router) {
    let database = seed::fabric().await;
    let run = |number, user: &'static str| {
        seed::run(&Run { number, user, start: 0, end: None, hosts: vec!["n2", "n10"] })
    };
    seed::write(&database, 3, vec![run(1, "ada"), run(2, "bob")]).await;
    let client = database.connect().await.unwrap();
    let half = FULL as i64 / 2;
    let row = |seconds: i64, who: &str, bytes: i64, kind: &str, is_bound: bool| {
        let time = format!("TIMESTAMPTZ 'epoch' + INTERVAL '{} milliseconds'", START_MS + seconds * 1000);
        let port = format!(
            "(SELECT p.id FROM internal.ib_port_key p JOIN internal.ib_node_key k ON k.id = p.ib_node_id WHERE k.guid = '{}' AND p.port = 3)",
            seed::guid(LEAF_1)
        );
        format!(
            "({time}, {port}, {who}, {bytes}, {}, {}, '{kind}', {is_bound}, {half})",
            bytes / 2,
            bytes * 9
        )
    };
    let job = |number: u64| {
        format!("'job', (SELECT id FROM internal.run WHERE key LIKE 'slurm:{number}.0@%'), 'alltoall', NULL")
    };
    let part = |percent: i64| half / 1000 * percent;
    let rows = [
        row(10, &job(1), part(620), "modelled", false),
        row(10, "'host', NULL, NULL, 'n07'", part(360), "unreported", false),
        row(10, "'host', NULL, NULL, 'n08'", part(5), "unreported", false),
        row(10, "'rest', NULL, NULL, NULL", part(15), "unreported", false),
        row(20, &job(1), part(620), "measured", true),
        row(20, &job(2), part(5), "measured", false),
        row(20, "'host', NULL, NULL, 'n07'", part(360), "unreported", false),
        row(20, "'rest', NULL, NULL, NULL", part(15), "unreported", false),
    ];
    let insert = format!(
        "INSERT INTO internal.link_shares (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind, \
         is_bound, counted_bytes) VALUES {}",
        rows.join(", ")
    );
    client.execute(&insert, &[]).await.unwrap();
    let state = format!(
        "UPDATE internal.link_share_state SET computed_until = TIMESTAMPTZ 'epoch' + INTERVAL '{} milliseconds'",
        START_MS + 20_000
    );
    client.execute(&state, &[]).await.unwrap();
    let router = api_on(database.clone());
    (database, router)
}

fn labels(contributors: &Value) -> Vec<&str> {
    contributors.as_array().unwrap().iter().map(|one| one["label"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn contributors_of_a_link_add_up_to_what_was_counted() {
    let (_database, router) = seeded().await;
    let range = format!("from={START_MS}&to={}", START_MS + 30_000);
    let body = get(&router, &format!("/fabric/{SUBNET}/links/{}.3/shares?{range}", seed::guid(LEAF_1))).await;
    assert_eq!((&body["name"], &body["step_seconds"]), (&json!("leaf1[3] - spine[1]"), &json!(10.0)));
    assert_eq!(body["computed_until_ms"], json!(START_MS + 20_000));
    let ab = &body["ab"];
    assert_eq!((&ab["from"]["name"], &ab["to"]["port"]), (&json!("leaf1"), &json!(1)));
    assert_eq!((&ab["windows"], &ab["counted_bytes"]), (&json!(2), &json!(FULL)));
    assert_eq!((&ab["utilisation"], &ab["is_above_speed"]), (&json!(0.5), &json!(false)));
    let rate = SPEED as f64 / 2.0;
    assert_eq!(ab["counted_bytes_per_second"], json!([rate, rate, null]));
    let all = &ab["contributors"];
    // Half a percent is no cause.
    assert_eq!(
        labels(all),
        ["alltoall of job 1 (ada)", "unmonitored host n07", "others, each below 1 %", "rest: nobody known"]
    );
    let sum: i64 = all.as_array().unwrap().iter().map(|one| one["bytes"].as_i64().unwrap()).sum();
    assert_eq!(sum, FULL as i64);
    // The least certain kind and a bound count for both windows; nothing is more than all.
    assert_eq!(
        (&all[0]["share"], &all[0]["low_share"], &all[0]["high_share"], &all[0]["kind"], &all[0]["is_bound"]),
        (&json!(0.62), &json!(0.31), &json!(1.0), &json!("modelled"), &json!(true))
    );
    assert_eq!(all[0]["series"], json!([(rate * 0.62).round(), (rate * 0.62).round(), null]));
    assert_eq!((&all[2]["contributor"], &all[2]["share"]), (&json!("other"), &json!(0.005)));
    let ba = &body["ba"];
    assert_eq!(
        (&ba["windows"], &ba["counted_bytes"], &ba["contributors"]),
        (&json!(0), &json!(null), &json!([]))
    );
    assert_eq!(ba["counted_bytes_per_second"], json!([null, null, null]));
}

#[tokio::test]
async fn the_panel_has_the_contributors_of_the_last_window() {
    let (_database, router) = seeded().await;
    let link = |to: i64| {
        format!("/fabric/{SUBNET}/links/{}.1?from={START_MS}&to={}", seed::guid(SPINE), START_MS + to)
    };
    let body = get(&router, &link(25_000)).await;
    let contributors = &body["contributors"];
    assert_eq!(contributors["time_ms"], json!(START_MS + 20_000));
    assert_eq!(labels(&contributors["ab"])[..2], ["alltoall of job 1 (ada)", "unmonitored host n07"]);
    assert_eq!((&contributors["ba"], &contributors["ab"][0]["series"]), (&json!([]), &json!([])));
    let body = get(&router, &link(5_000)).await;
    assert_eq!(body["contributors"], json!({"time_ms": null, "ab": [], "ba": []}));
}

#[tokio::test]
async fn a_jobs_links_with_its_part_and_the_others() {
    let (_database, router) = seeded().await;
    let range = format!("from={START_MS}&to={}", START_MS + 30_000);
    let body = get(&router, &format!("/jobs/slurm%3A2.0%401000/link-shares?{range}")).await;
    assert_eq!((&body["job_key"], &body["count"]), (&json!("slurm:2.0@1000"), &json!(1)));
    let link = &body["links"][0];
    assert_eq!(
        (&link["name"], &link["link"], &link["subnet"]),
        (&json!("leaf1[3] → spine[1]"), &json!(format!("{}.3", seed::guid(LEAF_1))), &json!(SUBNET))
    );
    // Only the window in which it has a part.
    assert_eq!((&link["windows"], &link["utilisation"]), (&json!(1), &json!(0.5)));
    assert_eq!((&link["own"]["share"], &link["others"]["share"]), (&json!(0.005), &json!(0.995)));
    assert_eq!(labels(&link["contributors"])[0], "alltoall of job 1 (ada)");
    // Another time has none, and a number of links can be given.
    let later = format!("from={}&to={}&limit=1", START_MS + 60_000, START_MS + 90_000);
    let body = get(&router, &format!("/jobs/slurm%3A2.0%401000/link-shares?{later}")).await;
    assert_eq!((&body["links"], &body["count"]), (&json!([]), &json!(0)));
    let said = refused(&router, "/jobs/slurm%3A9.0%401000/link-shares").await;
    assert!(said.starts_with("404 not_found: no job slurm:9.0@1000"), "{said}");
}

#[tokio::test]
async fn how_switches_route_is_shown_beside_their_links() {
    let (database, _) = seeded().await;
    let client = database.connect().await.unwrap();
    let range = format!("from={START_MS}&to={}", START_MS + 30_000);
    let link = format!("/fabric/{SUBNET}/links/{}.3", seed::guid(LEAF_1));
    let leaf = format!("guid = '{}'", seed::guid(LEAF_1));
    // Not reported, then by one switch, by all, and adaptive by one of them.
    for (who, routing, subnet) in [
        ("false", "static", json!(null)),
        (leaf.as_str(), "static", json!(null)),
        ("type = 'switch'", "static", json!("static")),
        (leaf.as_str(), "adaptive", json!("adaptive")),
    ] {
        client
            .execute(&format!("UPDATE internal.ib_node SET routing = $1 WHERE {who}"), &[&routing])
            .await
            .unwrap();
        // Another one has nothing cached of the same version.
        let router = api_on(database.clone());
        let topology = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
        assert_eq!(topology["routing"], subnet, "{who}");
        assert_eq!(get(&router, &format!("{link}/shares?{range}")).await["routing"], subnet);
        let job = get(&router, &format!("/jobs/slurm%3A2.0%401000/link-shares?{range}")).await;
        assert_eq!(job["links"][0]["routing"], subnet, "{who}");
        let body = get(&router, &format!("{link}?{range}")).await;
        let own = if who == "false" { json!(null) } else { json!(routing) };
        assert_eq!(body["ends"]["a"]["routing"], own, "{who}");
        let column = topology["nodes"]["routing"].as_array().unwrap();
        let place = topology["nodes"]["name"].as_array().unwrap().iter().position(|name| name == "leaf1");
        assert_eq!(column[place.unwrap()], own, "{who}");
        assert_eq!(column[0], json!(null), "a host");
    }
}

/// The minute of the windows that there are, as upkeep makes it, and a window of the next one.
async fn make_minute(client: &Client) {
    let sql = "
        INSERT INTO internal.link_share_minutes (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind,
                                        is_bound, counted_bytes, peak_counted_bytes, windows)
        SELECT date_trunc('minute', min(time)), port_id, contributor, job_id, operation, name, sum(bytes), sum(low_bytes),
               sum(high_bytes), max(kind), bool_or(is_bound),
               (SELECT sum(r.counted_bytes) FROM internal.link_shares r WHERE r.port_id = s.port_id AND r.contributor = 'rest'),
               max(counted_bytes), 2
        FROM internal.link_shares s GROUP BY port_id, contributor, job_id, operation, name;
        UPDATE internal.link_share_state SET minutes_since = date_trunc('minute', computed_until),
                                    minutes_until = date_trunc('minute', computed_until) + INTERVAL '1 minute';
        INSERT INTO internal.link_shares SELECT time + INTERVAL '1 minute', port_id, contributor, job_id, operation, name, bytes, low_bytes,
                                       high_bytes, kind, is_bound, counted_bytes
        FROM internal.link_shares WHERE time = (SELECT max(time) FROM internal.link_shares);";
    client.batch_execute(sql).await.unwrap();
}

#[tokio::test]
async fn minutes_answer_when_windows_are_gone() {
    let (database, router) = seeded().await;
    let range = format!("from={START_MS}&to={}", START_MS + 60_000);
    let shares = format!("/fabric/{SUBNET}/links/{}.3/shares?{range}", seed::guid(LEAF_1));
    let job = format!("/jobs/slurm%3A1.0%401000/link-shares?{range}");
    let (before, job_before) = (get(&router, &shares).await, get(&router, &job).await);
    let client = database.connect().await.unwrap();
    make_minute(&client).await;
    // A long range has the minute and the windows after it, each once.
    let long = format!("from={}&to={}", START_MS - 1_800_000, START_MS + 1_800_001);
    let path = format!("/fabric/{SUBNET}/links/{}.3/shares?{long}&points=40", seed::guid(LEAF_1));
    let ab = get(&router, &path).await["ab"].clone();
    assert_eq!((&ab["windows"], &ab["counted_bytes"]), (&json!(3), &json!(FULL + FULL / 2)));
    let all = get(&router, &format!("/jobs/slurm%3A2.0%401000/link-shares?{long}")).await;
    // Of the other job's life the range is short: it is in one of the minute's windows, and in the one after it.
    assert_eq!(
        (&all["links"][0]["windows"], &all["links"][0]["own"]["bytes"]),
        (&json!(2), &json!(FULL / 200))
    );
    client
        .batch_execute("SELECT public.drop_chunks('internal.link_shares', older_than => now())")
        .await
        .unwrap();
    let after = get(&router, &shares).await;
    assert_eq!((&after["step_seconds"], &after["times_ms"]), (&json!(60.0), &json!([START_MS + 60_000])));
    for column in ["windows", "counted_bytes", "utilisation", "peak_utilisation", "is_above_speed"] {
        assert_eq!(after["ab"][column], before["ab"][column], "{column}");
    }
    assert_eq!(labels(&after["ab"]["contributors"]), labels(&before["ab"]["contributors"]));
    for column in ["bytes", "low_bytes", "high_bytes", "share", "kind", "is_bound"] {
        let of = |body: &Value| body["ab"]["contributors"][0][column].clone();
        assert_eq!(of(&after), of(&before), "{column}");
    }
    // The mean of the windows in which it carried something.
    assert_eq!(after["ab"]["counted_bytes_per_second"], json!([SPEED as f64 / 2.0]));
    assert_eq!(get(&router, &job).await, job_before);
    // The panel has the last minute that was over then.
    let link = |to: i64| {
        format!("/fabric/{SUBNET}/links/{}.1?from={START_MS}&to={}", seed::guid(SPINE), START_MS + to)
    };
    let body = get(&router, &link(65_000)).await;
    assert_eq!(body["contributors"]["time_ms"], json!(START_MS + 60_000));
    assert_eq!(labels(&body["contributors"]["ab"])[0], "alltoall of job 1 (ada)");
    assert_eq!(get(&router, &link(55_000)).await["contributors"]["time_ms"], json!(null));
}

#[tokio::test]
async fn what_is_no_link_is_refused() {
    let (_database, router) = seeded().await;
    let said = refused(&router, &format!("/fabric/{SUBNET}/links/leaf1/shares")).await;
    assert!(said.starts_with("400 bad_parameter: leaf1 names no link"), "{said}");
    let said = refused(&router, &format!("/fabric/{SUBNET}/links/{}.7/shares", seed::guid(N2))).await;
    assert!(said.starts_with("404 not_found: no cable at port 7"), "{said}");
}

#[tokio::test]
async fn links_are_found_by_what_people_type() {
    let (_database, router) = seeded().await;
    let leaf =
        json!({"subnet": SUBNET, "link": format!("{}.3", seed::guid(LEAF_1)), "name": "leaf1[3] - spine[1]"});
    let spine =
        json!({"subnet": SUBNET, "link": format!("{}.1", seed::guid(SPINE)), "name": "spine[1] - leaf1[3]"});
    let host =
        json!({"subnet": SUBNET, "link": format!("{}.1", seed::guid(N2)), "name": "n2 mlx5_0[1] - leaf1[1]"});
    let guid = seed::guid(LEAF_1);
    // An adapter's port has a GUID of its own, which `ibstat` and the metrics name.
    let port_guid = seed::guid(N2 + 0x1000);
    let digits = &port_guid[2..];
    let grouped = [0, 4, 8, 12].map(|at| &digits[at..at + 4]).join(":");
    for (typed, expected) in [
        ("leaf1[3]", &leaf),
        ("LEAF1 3", &leaf),
        ("leaf1/3", &leaf),
        ("leaf1 port 3", &leaf),
        ("leaf1 spine", &leaf),
        ("leaf1[3] - spine[1]", &leaf),
        (&format!("{guid}.3"), &leaf),
        (&format!("{guid}/3"), &leaf),
        (&format!("{guid}[3]"), &leaf),
        (&format!("{} 3", guid.to_uppercase()), &leaf),
        (&port_guid, &host),
        (&port_guid[2..].to_uppercase(), &host),
        (&format!("{port_guid}.1"), &host),
        (&format!("{port_guid} port 1"), &host),
        (&format!("{port_guid} leaf1"), &host),
        (
            &format!("leaf1 - {port_guid}"),
            &json!({"subnet": SUBNET, "link": format!("{guid}.1"), "name": "leaf1[1] - n2 mlx5_0[1]"}),
        ),
        (&format!("{}.1", seed::guid(N2)), &host),
        (&grouped, &host),
        ("spine leaf1", &spine),
        ("spine -> leaf1", &spine),
        ("n2", &host),
        ("n2 mlx5_0", &host),
        ("n2 leaf1", &host),
        ("n2 mlx5_0[1] - leaf1[1]", &host),
    ] {
        let name = percent(typed);
        assert_eq!(&get(&router, &format!("/link-names/{name}")).await, expected, "{typed}");
    }
    for (typed, status, part) in [
        ("leaf1", "409 ambiguous", "leaf1 fits 3 links: leaf1[1] to n2 mlx5_0[1], "),
        ("leaf1 9", "404 not_found", "leaf1 has cables at leaf1[1], leaf1[2], leaf1[3]"),
        ("laef1[3]", "404 not_found", "the nearest nodes: leaf1, leaf2"),
        (&format!("{port_guid} 2"), "404 not_found", &format!("{port_guid} has cables at n2 mlx5_0[1]")),
        ("0x00000000deadbeef", "404 not_found", ""),
        ("zzz", "404 not_found", "name an end as leaf1[5]"),
    ] {
        let said = refused(&router, &format!("/link-names/{}", percent(typed))).await;
        assert!(said.starts_with(status) && said.contains(part), "{typed}: {said}");
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn a_jobs_windows_and_who_else_are_of_its_life() {
    let (database, router) = seeded().await;
    let run = |number, start, end| {
        seed::run(&Run { number, user: "eve", start, end: Some(end), hosts: vec!["n2", "n10"] })
    };
    // The two of them never ran at the same time, and have a window in common.
    seed::write(&database, 5, vec![run(3, 4, 12), run(4, 13, 40)]).await;
    let client = database.connect().await.unwrap();
    for number in [3, 4] {
        let insert = format!(
            "INSERT INTO internal.link_shares (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind, is_bound, counted_bytes)
             SELECT time, port_id, contributor, (SELECT id FROM internal.run WHERE key LIKE 'slurm:{number}.0@%'), operation, name,
                    20 * bytes, 20 * low_bytes, 20 * high_bytes, kind, is_bound, counted_bytes
             FROM internal.link_shares WHERE job_id = (SELECT id FROM internal.run WHERE key LIKE 'slurm:2.0@%')"
        );
        client.execute(&insert, &[]).await.unwrap();
    }
    let of = async |number: u64| get(&router, &format!("/jobs/slurm%3A{number}.0%401000/link-shares")).await;
    let body = of(3).await;
    assert_eq!((&body["from_ms"], &body["to_ms"]), (&json!(START_MS), &json!(START_MS + 20_000)));
    let who = labels(&body["links"][0]["contributors"]);
    assert!(who.contains(&"alltoall of job 3 (eve)") && !who.contains(&"alltoall of job 4 (eve)"), "{who:?}");
    assert!(who.contains(&"alltoall of job 1 (ada)"), "{who:?}");
    let body = of(4).await;
    assert_eq!((&body["from_ms"], &body["to_ms"]), (&json!(START_MS + 10_000), &json!(START_MS + 40_000)));
    let who = labels(&body["links"][0]["contributors"]);
    assert!(who.contains(&"alltoall of job 4 (eve)") && !who.contains(&"alltoall of job 3 (eve)"), "{who:?}");
}
