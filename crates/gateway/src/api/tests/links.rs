//! One link, a job over the map, and search.

use super::seed::{self, LEAF_1, LEAF_2, N2, N10, Port, Run, SPEED, SPINE, START_MS, STRANGER, SUBNET};
use super::*;
use serde_json::json;
use throughline_sample::catalogue::PORT_DATA_TRANSMITTED_BYTES;
use throughline_sample::wire::{Batch, Event, HostPortSample, NodeInfo};

/// What an agent reports of its host's port.
fn agent(host: &str, guid: u64) -> Batch {
    let sample = HostPortSample {
        time: seed::at(0),
        epoch: seed::at(-9),
        device: "mlx5_0".into(),
        port: 1,
        node_guid: guid,
        port_guid: 0,
        source: "sysfs".into(),
        values: seed::values(&[(&PORT_DATA_TRANSMITTED_BYTES, 1)]),
    };
    let node =
        NodeInfo { name: host.into(), boot_id: "b".into(), boot_time: seed::at(-9), hca_guids: vec![guid] };
    Batch { node: host.into(), nodes: vec![node], host_ports: vec![sample], ..Batch::default() }
}

/// A job on `n2` and, behind the spine, `n300`; one on the two hosts of one leaf; and one on a single host. The link from
/// leaf 1 to the spine carries a tenth of its speed for a minute, then half of it.
async fn seeded() -> (Database, Router) {
    let database = seed::fabric().await;
    let run = |number, hosts: &[&'static str]| {
        seed::run(&Run { number, user: "ada", start: 0, end: None, hosts: hosts.to_vec() })
    };
    let batches = vec![
        agent("n2", N2),
        agent("n10", N10),
        agent("n300", STRANGER),
        run(1, &["n2", "n300"]),
        run(2, &["n2", "n10"]),
        run(3, &["n300"]),
    ];
    seed::write(&database, 3, batches).await;
    let sweeps = (0..=12).map(|n: u64| {
        let seconds = n * 10;
        let sent = seconds.min(60) * SPEED / 10 + seconds.saturating_sub(60) * SPEED / 2;
        let port =
            |guid, port, sent, received| Port { guid, port, sent, received, waited: 0, errors: n / 12 };
        seed::sweep(seconds as i64, -1, &[port(LEAF_1, 3, sent, 5), port(SPINE, 1, 5, sent)], 0)
    });
    let event = Event {
        time: seed::at(50),
        source: "mad".into(),
        kind: "link.down".into(),
        severity: "warning".into(),
        text: "down".into(),
        ib_guid: SPINE,
        ib_port: 1,
        remote_ib_guid: LEAF_1,
        remote_ib_port: 3,
        ..Event::default()
    };
    let happened = Batch {
        fabric: throughline_store::testing::fabric(0xfe80_0000_0000_0000),
        events: vec![event],
        ..Batch::default()
    };
    seed::write(&database, 1, std::iter::once(Batch::default()).chain(sweeps).chain([happened]).collect())
        .await;
    let router = api_on(database.clone());
    (database, router)
}

#[tokio::test]
async fn a_link_with_counters_rates_events_jobs_and_routes() {
    let (_, router) = seeded().await;
    let range = format!("from={START_MS}&to={}&points=12", START_MS + 120_000);
    let uplink = format!("/fabric/{SUBNET}/links/{}.3?{range}", seed::guid(LEAF_1));
    let body = get(&router, &uplink).await;
    assert_eq!(
        (&body["name"], &body["link"]),
        (&json!("leaf1[3] - spine[1]"), &json!(format!("{}.3", seed::guid(LEAF_1))))
    );
    assert_eq!(
        (&body["width"], &body["since_ms"], &body["bytes_per_second"]),
        (&json!("4x"), &json!(START_MS), &json!(SPEED))
    );
    let series = &body["series"];
    let expected: Vec<f64> = (0..12).map(|step| if step < 6 { 0.1 } else { 0.5 }).collect();
    assert_eq!((&body["step_seconds"], &series["ab"]["utilisation"]), (&json!(10.0), &json!(expected)));
    assert_eq!(series["ba"]["utilisation"], json!(vec![0.0; 12]));
    assert_eq!((&body["errors"]["a"][10], &body["errors"]["a"][11]), (&json!(0.0), &json!(2.0)));
    // In one step of two minutes: the mean, and the largest of its readings.
    let whole = get(&router, &uplink.replace("points=12", "points=1")).await;
    assert_eq!(
        (&whole["series"]["ab"]["utilisation"], &whole["series"]["ab"]["peak"]),
        (&json!([0.3]), &json!([0.5]))
    );
    let end = &body["ends"]["a"];
    assert_eq!(
        (&end["kind"], &end["port"], &end["state"], &end["lid"]),
        (&json!("switch"), &json!(3), &json!("Active"), &json!(1))
    );
    assert_eq!(end["counters"]["values"]["receive_data_bytes"], json!(5));
    assert_eq!(
        (&end["counters"]["time_ms"], &end["counters"]["epoch_ms"]),
        (&json!(START_MS + 120_000), &json!(START_MS - 1000))
    );
    // Reported by the spine for both ends, and listed once.
    assert_eq!(
        (body["events"].as_array().unwrap().len(), &body["events"][0]["kind"]),
        (1, &json!("link.down"))
    );
    // Only the job on both sides of the spine crosses it.
    let job = json!({"job_key": "slurm:1.0@1000", "user": "ada", "name": "name1", "ab": true, "ba": true});
    assert_eq!(body["jobs"], json!({"is_complete": true, "jobs": [job]}));
    // Upwards: all that is not below the leaf. Downwards: the leaf and its two hosts.
    let lids = |direction: &str| -> Vec<u64> {
        body["routes"][direction]["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["lid"].as_u64().unwrap())
            .collect()
    };
    assert_eq!((lids("ab"), lids("ba")), (vec![2, 3, 4, 7], vec![1, 5, 6]));
    assert_eq!(body["routes"]["ba"]["nodes"][1]["name"], json!("n2 mlx5_0"));
    // The same by its other end; and from a host nothing is forwarded.
    let other = get(&router, &format!("/fabric/{SUBNET}/links/{}.1?{range}", seed::guid(SPINE))).await;
    assert_eq!((&other["link"], &other["series"]), (&body["link"], &body["series"]));
    let host = get(&router, &format!("/fabric/{SUBNET}/links/{}.1?{range}", seed::guid(N2))).await;
    assert_eq!(
        (&host["routes"]["ab"], &host["ends"]["a"]["host"], &host["ends"]["a"]["counters"]),
        (&json!(null), &json!("n2"), &json!(null))
    );
    assert_eq!(host["jobs"]["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(host["series"]["ab"]["utilisation"], json!(vec![json!(null); 12]));
}

#[tokio::test]
async fn a_job_over_the_map() {
    let (_, router) = seeded().await;
    let topology = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
    let overlay =
        async |number: u32| get(&router, &format!("/fabric/{SUBNET}/jobs/slurm:{number}.0@1000")).await;
    let body = overlay(1).await;
    assert_eq!((&body["topology"], &body["is_complete"]), (&topology["version"], &json!(true)));
    // Ends of each link that it crosses, and how many pairs go which way.
    let crossed = |body: &Value| -> Vec<(String, String, Value, Value)> {
        let name = |end: &str, link: usize| {
            topology["nodes"]["name"][topology["links"][end][link].as_u64().unwrap() as usize]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let links = body["links"]["link"].as_array().unwrap().iter().enumerate();
        let mut all: Vec<_> = links
            .map(|(place, link)| {
                let link = link.as_u64().unwrap() as usize;
                (
                    name("a", link),
                    name("b", link),
                    body["links"]["ab"][place].clone(),
                    body["links"]["ba"][place].clone(),
                )
            })
            .collect();
        all.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        all
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned(), json!(1), json!(1));
    let expected = [
        pair(&seed::guid(STRANGER), "leaf2"),
        pair("leaf1", "spine"),
        pair("leaf2", "spine"),
        pair("n2 mlx5_0", "leaf1"),
    ];
    assert_eq!(crossed(&body), expected);
    assert_eq!(crossed(&overlay(2).await), [pair("n10 mlx5_0", "leaf1"), pair("n2 mlx5_0", "leaf1")]);
    let single = overlay(3).await;
    assert_eq!((&single["links"]["link"], single["nodes"].as_array().unwrap().len()), (&json!([]), 1));
}

#[tokio::test]
async fn search_by_name_guid_lid_and_key() {
    let (_, router) = seeded().await;
    let search = async |query: &str| -> Vec<String> {
        let body = get(&router, &format!("/search?q={query}")).await;
        let text =
            |hit: &Value| format!("{} {}", hit["kind"].as_str().unwrap(), hit["name"].as_str().unwrap());
        body["results"].as_array().unwrap().iter().map(text).collect()
    };
    assert_eq!(search("leaf").await, ["switch leaf1", "switch leaf2"]);
    assert_eq!(search("N2").await, ["host n2", "adapter n2 mlx5_0"]);
    assert_eq!(search(&seed::guid(LEAF_2)).await, ["switch leaf2"]);
    // An adapter's port has a GUID of its own.
    let port_guid = seed::guid(N2 + 0x1000);
    for typed in [port_guid.as_str(), &port_guid.to_uppercase(), &port_guid[2..], &format!("{port_guid}.1")] {
        assert_eq!(search(typed).await, ["adapter n2 mlx5_0"], "{typed}");
    }
    assert_eq!(search("3").await[0], "switch spine", "a LID before names that have the digit");
    assert_eq!(search("slurm:2").await, ["job name2"]);
    assert_eq!(search("nowhere").await, Vec::<String>::new());
    let few = get(&router, "/search?q=n&limit=2").await;
    assert_eq!((few["results"].as_array().unwrap().len(), &few["is_complete"]), (2, &json!(false)));
}

#[tokio::test]
async fn what_is_no_link_and_no_word() {
    let (_, router) = seeded().await;
    let links = format!("/fabric/{SUBNET}/links");
    for (path, said) in [
        (format!("{links}/x"), "400 bad_parameter: x names no link; give GUID.PORT"),
        (format!("{links}/{}.x", seed::guid(SPINE)), "400 bad_parameter"),
        (format!("{links}/{}.9", seed::guid(SPINE)), "404 not_found: no cable at port 9"),
        (format!("{links}/{}.1?to={}", seed::guid(SPINE), START_MS - 1), "404 not_found: no cable at port 1"),
        (format!("/fabric/{SUBNET}/jobs/none"), "404 not_found: no job none"),
        ("/search?q=%20".to_owned(), "400 bad_parameter: nothing to search for"),
        ("/search".to_owned(), "400 bad_parameter: nothing to search for"),
    ] {
        let body = refused(&router, &path).await;
        assert!(body.starts_with(said), "{path}: {body}");
    }
}

#[tokio::test]
async fn where_readings_are_gone_minutes_answer() {
    let (database, router) = seeded().await;
    let link =
        format!("/fabric/{SUBNET}/links/{}.3?from={START_MS}&to={}", seed::guid(LEAF_1), START_MS + 120_000);
    let host = "/nodes/n2/rates".to_owned() + &format!("?from={START_MS}&to={}", START_MS + 120_000);
    let load = format!("/fabric/{SUBNET}/load?at={}&window=60", START_MS + 60_000);
    let steps = |body: &Value| body["series"]["ab"]["utilisation"].clone();
    let share = |body: &Value, place: usize| body["utilisation"]["ab"][place].clone();
    let place = |body: &Value| {
        (0..body["utilisation"]["ab"].as_array().unwrap().len())
            .find(|place| share(body, *place) == 0.1)
            .unwrap()
    };
    let (before, now) = (get(&router, &format!("{link}&points=2")).await, get(&router, &load).await);
    assert_eq!(steps(&before), json!([0.1, 0.5]));
    let place = place(&now);
    let mut upkeep = database.connect().await.unwrap();
    let always = throughline_store::Retention::for_all(Duration::from_secs(50 * 365 * 24 * 3600));
    throughline_store::make_rollups(&mut upkeep, &always, Duration::from_secs(600)).await.unwrap();
    let made = get(&router, &format!("{link}&points=2")).await;
    assert_eq!((steps(&made), &made["errors"]), (steps(&before), &before["errors"]));
    upkeep
        .batch_execute("SELECT public.drop_chunks('internal.ib_port_counters', older_than => now())")
        .await
        .unwrap();
    let gone = get(&router, &format!("{link}&points=2")).await;
    assert_eq!(steps(&gone), json!([0.1, 0.5]));
    assert_eq!(gone["series"]["ab"]["peak"], before["series"]["ab"]["peak"]);
    assert_eq!(
        steps(&get(&router, &format!("{link}&points=120")).await)[0],
        Value::Null,
        "finer there is nothing"
    );
    assert_eq!(share(&get(&router, &load).await, place), 0.1);
    assert_eq!(get(&router, &host).await["links"].as_array().unwrap().len(), 1);
}
