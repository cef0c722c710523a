//! Topology and load.

use super::seed::{self, LEAF_1, LEAF_2, N2, N10, Port, SPEED, SPINE, START_MS, SUBNET};
use super::*;
use serde_json::json;

fn port(guid: u64, port: u32, sent: u64, received: u64) -> Port {
    Port { guid, port, sent, received, waited: 0, errors: 0 }
}

#[tokio::test]
async fn nodes_by_layer_and_links_from_the_hosts_upwards() {
    let router = api_on(seed::fabric().await);
    let body = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
    assert_eq!(
        (&body["layers"], &body["pods"], &body["changed_ms"]),
        (&json!(3), &json!(2), &json!(START_MS))
    );
    let nodes = &body["nodes"];
    // By number within names, and the one without a name under its GUID.
    let names = [
        "0x00000000000001ff",
        "n2 mlx5_0",
        "n10 mlx5_0",
        "leaf1",
        "leaf2",
        "spine",
        "Mellanox Technologies Aggregation Node",
    ];
    let places: Vec<usize> = names
        .iter()
        .map(|name| nodes["name"].as_array().unwrap().iter().position(|n| n == name).unwrap())
        .collect();
    let column =
        |column: &str| -> Vec<Value> { places.iter().map(|place| nodes[column][*place].clone()).collect() };
    assert_eq!(column("layer"), [json!(0), json!(0), json!(0), json!(1), json!(1), json!(2), json!(null)]);
    assert_eq!(column("kind"), [1, 1, 1, 0, 0, 0, 3].map(|n| json!(n)));
    assert_eq!(
        column("host"),
        [json!(null), json!("n2"), json!("n10"), json!(null), json!(null), json!(null), json!(null)]
    );
    let leaf = |place: usize| nodes["name"][nodes["leaf"][places[place]].as_u64().unwrap() as usize].clone();
    assert_eq!([0, 1, 2, 6].map(leaf), [json!("leaf2"), json!("leaf1"), json!("leaf1"), json!("spine")]);
    let pods = column("pod");
    assert_eq!(pods, [json!(1), json!(0), json!(0), json!(0), json!(1), json!(null), json!(null)]);
    assert_eq!(column("lid"), [7, 5, 6, 1, 2, 3, 4].map(|n| json!(n)));
}

#[tokio::test]
async fn links_lead_away_from_the_hosts() {
    let router = api_on(seed::fabric().await);
    let body = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
    let links = &body["links"];
    let (a, b) = (links["a"].as_array().unwrap(), links["b"].as_array().unwrap());
    assert_eq!(a.len(), 6);
    assert!(a.iter().zip(b).all(|(a, b)| a.as_u64() < b.as_u64()));
    for (guid, port, other, is_a) in
        [(N2, 1, LEAF_1, true), (LEAF_1, 3, SPINE, true), (SPINE, 2, LEAF_2, false)]
    {
        let (place, at_a) = link(&body, guid, port);
        assert_eq!(at_a, is_a);
        let end = links[if is_a { "b" } else { "a" }][place].as_u64().unwrap() as usize;
        assert_eq!(body["nodes"]["guid"][end], json!(seed::guid(other)));
        assert_eq!(links["bytes_per_second"][place], json!(SPEED));
        let word =
            |column: &str, words: &str| body[words][links[column][place].as_u64().unwrap() as usize].clone();
        assert_eq!(
            [word("width", "widths"), word("speed", "speeds"), word("state", "states")],
            ["4x", "50.0 Gbps", "Active"].map(|word| json!(word))
        );
    }
}

#[tokio::test]
async fn the_past_is_shown_as_it_was_and_the_version_follows_the_changes() {
    let database = seed::fabric().await;
    let router = api_on(database.clone());
    let at = |seconds: i64| format!("/fabric/{SUBNET}/topology?at={}", START_MS + seconds * 1000);
    let first = get(&router, &at(10)).await;
    seed::write(&database, 1, vec![Default::default(), seed::discovery(60, &[(LEAF_2, 3)])]).await;
    let (before, after) = (get(&router, &at(59)).await, get(&router, &at(61)).await);
    assert_eq!(
        (before["version"].as_str(), before["links"]["a"].as_array().unwrap().len()),
        (first["version"].as_str(), 6)
    );
    assert_ne!(after["version"], before["version"]);
    assert_eq!(
        (&after["changed_ms"], after["links"]["a"].as_array().unwrap().len()),
        (&json!(START_MS + 60_000), 5)
    );
    // What now holds is what held a minute after.
    let now = request_with(&router, &format!("/fabric/{SUBNET}/topology"), &[]).await;
    assert_eq!(now.body["version"], after["version"]);
    let tag = now.headers["etag"].to_str().unwrap().to_owned();
    let same = request_with(&router, &at(61), &[("if-none-match", &tag)]).await;
    assert_eq!((same.status, same.body), (304, Value::Null));
    assert_eq!(request_with(&router, &at(59), &[("if-none-match", &tag)]).await.status, 200);
    // Before anything was known there was nothing.
    assert_eq!(get(&router, &at(-10)).await["nodes"]["guid"], json!([]));
}

/// The place of a link in the columns, and whether `a` is the end that is named.
pub fn link(topology: &Value, guid: u64, port: u32) -> (usize, bool) {
    let end = |a: &str, port_a: &str| {
        let (nodes, ports) =
            (topology["links"][a].as_array().unwrap(), topology["links"][port_a].as_array().unwrap());
        let is_it = |place: usize| {
            let node = nodes[place].as_u64().unwrap() as usize;
            topology["nodes"]["guid"][node] == json!(seed::guid(guid)) && ports[place] == json!(port)
        };
        (0..nodes.len()).find(|place| is_it(*place))
    };
    match (end("a", "port_a"), end("b", "port_b")) {
        (Some(place), _) => (place, true),
        (_, Some(place)) => (place, false),
        _ => panic!("no link at {guid:x}.{port}"),
    }
}

#[tokio::test]
async fn shares_waiting_and_errors_of_each_direction() {
    let database = seed::fabric().await;
    let half = SPEED / 2;
    let n2 = |seconds: u64| Port {
        waited: seconds * SPEED / 8 / 4,
        errors: seconds / 10,
        ..port(N2, 1, seconds * half, 0)
    };
    // Read each 5 s; the spine's ports are not, nor those of the other hosts.
    let sweeps = (0..=6).map(|n| {
        let seconds = n * 5;
        let ports = [
            n2(seconds),
            port(LEAF_1, 1, 0, seconds * half),
            port(LEAF_1, 2, seconds * SPEED / 10, seconds * SPEED),
            port(LEAF_1, 3, 7, 7),
        ];
        seed::sweep(seconds as i64, -1, &ports, 0)
    });
    seed::write(&database, 1, std::iter::once(Default::default()).chain(sweeps).collect()).await;
    let router = api_on(database);
    let topology = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
    let body = get(&router, &format!("/fabric/{SUBNET}/load?at={}&window=20", START_MS + 30_000)).await;
    assert_eq!((&body["topology"], &body["window_seconds"]), (&topology["version"], &json!(20.0)));
    assert_eq!(body["round"], json!({"time_ms": START_MS + 30_000, "expected": 11, "read": 11, "failed": 0}));
    let value = |guid, port, group: &str, own: bool| {
        let (place, is_a) = link(&topology, guid, port);
        let names = if group == "errors" || group == "age_seconds" { ["a", "b"] } else { ["ab", "ba"] };
        body[group][names[usize::from(is_a != own)]][place].clone()
    };
    assert_eq!([true, false].map(|own| value(N2, 1, "utilisation", own)), [json!(0.5), json!(0.0)]);
    // A tick is 8 bytes: a quarter of the time.
    assert_eq!([true, false].map(|own| value(N2, 1, "waiting", own)), [json!(0.25), json!(0.0)]);
    // Two kinds of errors, two of each in the 20 s.
    assert_eq!([true, false].map(|own| value(N2, 1, "errors", own)), [json!(4), json!(0)]);
    assert_eq!(value(N2, 1, "age_seconds", true), json!(0.0));
    // Of the host without readings the leaf reports both directions.
    assert_eq!([true, false].map(|own| value(N10, 1, "utilisation", own)), [json!(1.0), json!(0.1)]);
    assert_eq!([true, false].map(|own| value(N10, 1, "waiting", own)), [json!(null), json!(0.0)]);
    assert_eq!([true, false].map(|own| value(N10, 1, "age_seconds", own)), [json!(null), json!(0.0)]);
    // Nobody read the other leaf: absent is not zero.
    for group in ["utilisation", "waiting", "errors", "age_seconds"] {
        assert_eq!(
            [true, false].map(|own| value(LEAF_2, 3, group, own)),
            [json!(null), json!(null)],
            "{group}"
        );
    }
    assert_eq!(value(LEAF_1, 3, "utilisation", true), json!(0.0));
    // A minute and a quarter later everything is silent.
    let late = get(&router, &format!("/fabric/{SUBNET}/load?at={}", START_MS + 110_000)).await;
    assert!(late["utilisation"]["ab"].as_array().unwrap().iter().all(Value::is_null));
    let (place, is_a) = link(&topology, N2, 1);
    assert_eq!(late["age_seconds"][if is_a { "a" } else { "b" }][place], json!(80.0));
}

#[tokio::test]
async fn a_counter_that_was_cleared_makes_no_rate_across() {
    let database = seed::fabric().await;
    let sweeps = vec![
        Default::default(),
        seed::sweep(0, -1, &[port(SPINE, 1, 9_000_000_000_000, 0)], 0),
        seed::sweep(10, 9, &[port(SPINE, 1, 0, 0)], 0),
        seed::sweep(20, 9, &[port(SPINE, 1, SPEED, 0)], 0),
    ];
    seed::write(&database, 1, sweeps).await;
    let router = api_on(database);
    let topology = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
    let (place, is_a) = link(&topology, SPINE, 1);
    let direction = if is_a { "ab" } else { "ba" };
    let share = async |seconds: i64| {
        let path = format!("/fabric/{SUBNET}/load?at={}&window=15", START_MS + seconds * 1000);
        get(&router, &path).await["utilisation"][direction][place].clone()
    };
    assert_eq!(share(20).await, json!(0.1), "only what came after");
    assert_eq!(share(10).await, json!(null), "a first row gives no rate");
}

#[tokio::test]
async fn subnets_and_what_they_have() {
    let router = api_on(seed::fabric().await);
    let body = get(&router, "/subnets").await;
    let expected = json!({"subnet": SUBNET, "prefix": SUBNET, "subnet_manager": null, "switches": 3, "adapters": 4, "links": 6, "changed_ms": START_MS, "swept_ms": null});
    assert_eq!(body["subnets"], json!([expected]));
}
