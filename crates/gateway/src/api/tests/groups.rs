//! Multicast groups: their trees, members, and what ports counted.

use super::fabric::link;
use super::seed::{self, LEAF_1, LEAF_2, N2, SPINE, START_MS, STRANGER, SUBNET};
use super::*;
use serde_json::json;
use throughline_sample::catalogue::{
    MULTICAST_RECEIVE_PACKETS, MULTICAST_TRANSMIT_PACKETS, TRANSMIT_DATA_BYTES,
};
use throughline_sample::wire::{
    Batch, IbMulticastEntry, IbMulticastGroup, IbMulticastMark, IbMulticastMember, IbMulticastTable,
    IbPortSample,
};

const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// The multicast tables of the switches as a walk at `seconds` read them: two groups; the second is only on
/// one leaf and later gone.
fn multicast(seconds: i64, with_second: bool) -> Batch {
    let entry = |mlid: u32, ports: &[u8]| IbMulticastEntry { mlid, ports: ports.to_vec() };
    let table = |guid: u64, mut entries: Vec<IbMulticastEntry>, second: &[u8]| {
        if with_second && !second.is_empty() {
            entries.push(entry(0xC001, second));
        }
        IbMulticastTable { generation: seed::at(seconds), guid, entries }
    };
    let tables = vec![
        table(LEAF_1, vec![entry(0xC000, &[1, 3])], &[1, 2]),
        table(LEAF_2, vec![entry(0xC000, &[1, 3])], &[]),
        // Port 0 is the switch itself; port 9 leads nowhere.
        table(SPINE, vec![entry(0xC000, &[0, 1, 2, 9])], &[]),
    ];
    Batch {
        fabric: throughline_store::testing::fabric(0xfe80_0000_0000_0000),
        ib_multicast_tables: tables,
        ..Batch::default()
    }
}

#[tokio::test]
async fn multicast_groups_and_the_links_that_carry_them() {
    let database = seed::fabric().await;
    let batches = vec![Batch::default(), multicast(1, true), multicast(60, false)];
    seed::write(&database, 1, batches).await;
    let router = api_on(database);
    let topology = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
    let listed = |seconds: i64| format!("/fabric/{SUBNET}/groups?at={}", START_MS + seconds * 1000);
    let body = get(&router, &listed(30)).await;
    assert_eq!(body["topology"], topology["version"]);
    let listed_as = |mlid: u16, switches: u8, links: u8| {
        json!({
            "mlid": mlid, "switches": switches, "adapters": 2, "links": links, "known": [],
            "packets_per_second": null, "packets_kind": null,
        })
    };
    let (first, second) = (listed_as(0xC000, 3, 4), listed_as(0xC001, 1, 2));
    assert_eq!(body["groups"], json!([first, second]));
    assert_eq!(get(&router, &listed(61)).await["groups"], json!([first]));
    assert_eq!(get(&router, &listed(0)).await["groups"], json!([]));
    let tree = get(&router, &format!("/fabric/{SUBNET}/groups/0xc000")).await;
    let names = |places: &Value| -> Vec<Value> {
        let places = places.as_array().unwrap().iter().map(|place| place.as_u64().unwrap() as usize);
        places.map(|place| topology["nodes"]["name"][place].clone()).collect()
    };
    let reached = names(&tree["nodes"]);
    assert!(reached.len() == 2 && reached.contains(&json!("n2 mlx5_0")), "{reached:?}");
    // Up and down between leaf and spine both ends send; to a host only the leaf does.
    for (guid, port, ways) in [(N2, 1, 1), (LEAF_1, 3, 2), (LEAF_2, 3, 2)] {
        let (place, _) = link(&topology, guid, port);
        let at = tree["links"]["link"].as_array().unwrap().iter().position(|p| *p == json!(place)).unwrap();
        let sends = ["ab", "ba"].iter().filter(|way| tree["links"][**way][at] == json!(true)).count();
        assert_eq!(sends, ways, "{guid:x}.{port}");
    }
    // From the spine down: the root, then each leaf with what hangs on it.
    assert_eq!(tree["links"]["depth"], json!([0, 1, 0, 1]));
    assert_eq!(tree["parts"], 1);
    assert_eq!(get(&router, &format!("/fabric/{SUBNET}/groups/49152")).await["links"], tree["links"]);
    let gone = refused(&router, &format!("/fabric/{SUBNET}/groups/0xc001")).await;
    assert!(gone.starts_with("404 not_found: no group 0xc001"), "{gone}");
    let wrong = refused(&router, &format!("/fabric/{SUBNET}/groups/7")).await;
    assert!(wrong.starts_with("400 bad_parameter") && wrong.contains("0xc000"), "{wrong}");
}

/// Two groups as the administrator reports them at `seconds`: the first one's members are two hosts, one that nobody
/// found, and a leaf that only sends; the second one's are not recorded.
fn reported(seconds: i64) -> Batch {
    let generation = seed::at(seconds);
    let group =
        |mlid: u32, last: u128, mtu: u32, name: &str, members: &[(u64, u32)], count: u32| IbMulticastGroup {
            generation,
            mgid: (0xFF12_401B_FFFF_u128 << 80 | last).to_be_bytes().to_vec(),
            mlid,
            pkey: 0xFFFF,
            mtu_bytes: Some(mtu),
            rate_bytes_per_second: Some(1_250_000_000),
            service_level: 0,
            name: name.into(),
            member_count: Some(count),
            members: members
                .iter()
                .map(|(port_guid, join_state)| IbMulticastMember {
                    port_guid: *port_guid,
                    join_state: *join_state,
                })
                .collect(),
        };
    let members = [(N2 + 0x1000, 1), (STRANGER + 0x1000, 1), (0x9999, 1), (LEAF_1 + 0x1000, 4)];
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_multicast_groups: vec![
            group(0xC000, 0xFFFF_FFFF, 2048, "IPoIB broadcast", &members, 4),
            group(0xC001, 0xFB, 4096, "IPoIB 224.0.0.251 mDNS", &[], 70_000),
        ],
        ib_multicast_marks: vec![IbMulticastMark { generation, groups: 2 }],
        ..Batch::default()
    }
}

/// Multicast packets that ports have sent and received until `seconds`: node, port, sent, received.
fn counted(seconds: i64, ports: &[(u64, u32, u64, u64)]) -> Batch {
    let sample = |(guid, port, sent, received): &(u64, u32, u64, u64)| IbPortSample {
        time: seed::at(seconds),
        epoch: seed::at(-1),
        node_guid: *guid,
        port: *port,
        values: seed::values(&[
            (&TRANSMIT_DATA_BYTES, sent * 100),
            (&MULTICAST_TRANSMIT_PACKETS, *sent),
            (&MULTICAST_RECEIVE_PACKETS, *received),
        ]),
        saturated: vec![],
        source: "mad".into(),
    };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_ports: ports.iter().map(sample).collect(),
        ..Batch::default()
    }
}

/// What is counted until a second where `n2` sends 10 packets a second: those of the group over the spine to the other
/// leaf; of three that the spine sends there one is lost on the cable, and of two that the leaf gets it sends on one.
fn lossy(seconds: i64) -> Batch {
    let n = seconds as u64 * 10;
    let arrived = n * 2 / 3;
    counted(
        seconds,
        &[
            (N2, 1, n, 0),
            (LEAF_1, 1, 0, n),
            (LEAF_1, 2, 0, 0),
            (LEAF_1, 3, n, 0),
            (SPINE, 1, 0, n),
            (SPINE, 2, n, 0),
            (LEAF_2, 3, 0, arrived),
            (LEAF_2, 1, arrived / 2, 0),
            (STRANGER, 1, 0, arrived / 2),
        ],
    )
}

#[tokio::test]
async fn groups_have_names_members_and_packets() {
    let database = seed::fabric().await;
    let sweeps = (0..=12).map(|n| lossy(n * 5));
    let batches = [Batch::default(), multicast(1, false), reported(2)].into_iter().chain(sweeps);
    seed::write(&database, 1, batches.collect()).await;
    let router = api_on(database);
    let at = START_MS + 60_000;
    let listed = get(&router, &format!("/fabric/{SUBNET}/groups?at={at}&window=40")).await;
    let [first, second] = &listed["groups"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&first["packets_per_second"], &first["packets_kind"]), (&json!(10.0), &json!("measured")));
    assert_eq!(
        first["known"],
        json!([{
            "mgid": "ff12:401b:ffff::ffff:ffff", "name": "IPoIB broadcast", "pkey": 0xFFFF, "mtu_bytes": 2048,
            "rate_bytes_per_second": 1_250_000_000_i64, "service_level": 0, "members": 4, "is_listed": true,
        }])
    );
    // Known to the administrator, and nobody forwards it: its members are counted, and no list is recorded.
    assert_eq!(
        (&second["mlid"], &second["links"], &second["packets_kind"]),
        (&json!(0xC001), &json!(0), &json!(null))
    );
    assert_eq!(
        (&second["known"][0]["members"], &second["known"][0]["is_listed"]),
        (&json!(70_000), &json!(false))
    );
    let empty = get(&router, &format!("/fabric/{SUBNET}/groups/0xc001?at={at}")).await;
    assert_eq!(
        (&empty["members"], &empty["links"]["link"], &empty["parts"]),
        (&json!([]), &json!([]), &json!(0))
    );

    let tree = get(&router, &format!("/fabric/{SUBNET}/groups/0xc000?at={at}&window=40")).await;
    let member = |place: usize| {
        let member = &tree["members"][place];
        (
            member["name"].clone(),
            member["host"].clone(),
            member["state"].clone(),
            member["is_reached"].clone(),
        )
    };
    let expected = [
        (json!("leaf1"), json!(null), json!("send-only"), json!(null)),
        (json!("n2 mlx5_0"), json!("n2"), json!("full"), json!(true)),
        (json!(seed::guid(STRANGER)), json!(null), json!("full"), json!(true)),
        (json!(null), json!(null), json!("full"), json!(false)),
    ];
    assert_eq!([0, 1, 2, 3].map(member), expected);
}

#[tokio::test]
async fn links_have_packets_a_bound_of_bytes_and_what_is_missing() {
    let database = seed::fabric().await;
    let sweeps = (0..=12).map(|n| lossy(n * 5));
    let batches = [Batch::default(), multicast(1, true), reported(2)].into_iter().chain(sweeps);
    seed::write(&database, 1, batches.collect()).await;
    let router = api_on(database);
    let address = format!("/fabric/{SUBNET}/groups/0xc000?at={}&window=40", START_MS + 60_000);
    let tree = get(&router, &address).await;
    let topology = get(&router, &format!("/fabric/{SUBNET}/topology")).await;
    let traffic = &tree["traffic"];
    // A direction of a link, by the end that sends.
    let value = |values: &Value, guid, port| {
        let (place, is_a) = link(&topology, guid, port);
        let at = tree["links"]["link"].as_array().unwrap().iter().position(|p| *p == json!(place)).unwrap();
        values[if is_a { "ab" } else { "ba" }][at].clone()
    };
    let (packets, bytes) = (&traffic["packets_per_second"], &traffic["bound_bytes_per_second"]);
    assert_eq!((value(packets, N2, 1), value(packets, LEAF_1, 1)), (json!(10.0), json!(0.0)));
    assert_eq!(value(packets, SPINE, 2), json!(10.0));
    // At most the MTU and 72 bytes of headers each; where the second group is as well, by its MTU.
    assert_eq!(value(bytes, SPINE, 2), json!(10.0 * 2120.0));
    assert_eq!(value(bytes, N2, 1), json!(10.0 * 4168.0));
    let (shared, _) = link(&topology, N2, 1);
    let links = tree["links"]["link"].as_array().unwrap();
    let mlids: Vec<u64> = links
        .iter()
        .zip(traffic["mlids"].as_array().unwrap())
        .map(|(link, mlids)| mlids.as_u64().unwrap() + 10 * u64::from(*link == json!(shared)))
        .collect();
    assert_eq!(mlids.iter().sum::<u64>(), 10 + 2 + 3, "only the host's link is shared: {mlids:?}");
    // 250 packets in the 25 s inside of the 40 s in which a third was lost on the cable: at least what is missing so.
    let lost = value(&traffic["loss"], SPINE, 2);
    let [packets, seconds] = ["packets", "seconds"].map(|name| lost[name].as_f64().unwrap());
    assert_eq!(packets, seconds * 10.0);
    let received = (600.0_f64 * 2.0 / 3.0) - (200.0_f64 * 2.0 / 3.0).floor();
    assert_eq!(lost["lost_packets"].as_f64().unwrap(), packets - received, "{lost}");
    for (guid, port) in [(N2, 1), (LEAF_1, 3), (SPINE, 1), (LEAF_2, 1)] {
        assert_eq!(value(&traffic["loss"], guid, port)["lost_packets"], 0, "{guid:x}.{port}");
    }
    // Of the switches the second leaf sent less than it got.
    let names = topology["nodes"]["name"].as_array().unwrap();
    let switches: Vec<(&str, Option<u64>)> = traffic["switches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|switch| {
            let name = &names[switch["node"].as_u64().unwrap() as usize];
            (name.as_str().unwrap(), switch["loss"]["lost_packets"].as_u64())
        })
        .collect();
    let leaf2 = switches.iter().find(|(name, _)| *name == "leaf2").unwrap().1.unwrap();
    assert!(leaf2 > 0, "{switches:?}");
    for (name, lost) in &switches {
        assert!(*name == "leaf2" || *lost == Some(0), "{switches:?}");
    }
}

#[tokio::test]
async fn what_was_not_counted_on_both_sides_is_not_missing() {
    let database = seed::fabric().await;
    // Of the cable between spine and second leaf only the spine's end is read, of n2's the host's, and nothing else.
    let sweep = |n: i64| counted(n * 5, &[(N2, 1, n as u64, 0), (SPINE, 2, n as u64, 0)]);
    let batches = [Batch::default(), multicast(1, true), reported(2)].into_iter().chain((0..=12).map(sweep));
    seed::write(&database, 1, batches.collect()).await;
    let router = api_on(database);
    let at = START_MS + 60_000;
    let tree = get(&router, &format!("/fabric/{SUBNET}/groups/0xc000?at={at}&window=40")).await;
    for way in ["ab", "ba"] {
        assert!(tree["traffic"]["loss"][way].as_array().unwrap().iter().all(Value::is_null), "{tree}");
    }
    let losses = tree["traffic"]["switches"].as_array().unwrap();
    assert!(losses.len() == 3 && losses.iter().all(|switch| switch["loss"].is_null()), "{tree}");
    let rates = tree["traffic"]["packets_per_second"].clone();
    let known =
        ["ab", "ba"].map(|way| rates[way].as_array().unwrap().iter().filter(|rate| !rate.is_null()).count());
    assert_eq!(known.iter().sum::<usize>(), 4, "each by the end that was read: {rates}");
    let listed = get(&router, &format!("/fabric/{SUBNET}/groups?at={at}&window=40")).await;
    assert_eq!(listed["groups"][0]["packets_kind"], json!("measured"), "{listed}");
    // Of the second one's own link nothing was read; the other one, which is the first one's as well, bounds it.
    assert_eq!(listed["groups"][1]["packets_kind"], json!("bound"), "{listed}");
    assert_eq!(listed["groups"][1]["packets_per_second"], json!(0.2));
}
