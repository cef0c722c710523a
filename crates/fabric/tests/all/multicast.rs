//! `groups` against `saquery` and `dump_mfts`, with members that joined through the administrator.

use crate::simulated;
use crate::simulated::{MESH, SMALL, Simulated, start, succeed, write_net};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use throughline_crawler::port::{FabricPort, TransportKind};
use throughline_crawler::transport::{Arrival, Class, Destination, Message};
use throughline_infiniband::mad::MAD_BYTES;
use throughline_infiniband::mad::sa::{Answer, METHOD_SET, Query, attribute, build};
use throughline_infiniband::topology::FatTree;

/// The IPoIB broadcast group, which opensm has from the start.
const BROADCAST: &str = "ff12:401b:ffff::ffff:ffff";
/// What the joining process gets: `MGID STATE GUID…`.
const TASK: &str = "THROUGHLINE_TEST_JOIN";
const FULL: u8 = 1;
const SEND_ONLY: u8 = 4;

/// Joins ports to a group. The crawler itself never does: it only reads. A client of the simulator is a process
/// with a library in front of it, so this test program calls itself.
fn join(simulated: &Simulated, group: &str, state: u8, guids: &[u64]) {
    let program = std::env::current_exe().unwrap();
    let guids: Vec<String> = guids.iter().map(|guid| format!("{guid:#x}")).collect();
    let task = format!("{group} {state} {}", guids.join(" "));
    let mut command = simulated.fabric.client(program, None).unwrap();
    command.args(["--exact", "multicast::joins_as_requested", "--ignored"]).env(TASK, task);
    succeed(&mut command);
}

#[test]
#[ignore = "needs the task that the other tests give it"]
fn joins_as_requested() {
    let task = std::env::var(TASK).unwrap();
    let words: Vec<&str> = task.split(' ').collect();
    let group = u128::from(words[0].parse::<std::net::Ipv6Addr>().unwrap());
    let state: u8 = words[1].parse().unwrap();
    let port = FabricPort::find(&TransportKind::default(), None, 0).unwrap();
    let local = port.local().clone();
    let mut transport = port.open(Class::Administration).unwrap();
    for (index, guid) in words[2..].iter().enumerate() {
        let guid = u64::from_str_radix(guid.trim_start_matches("0x"), 16).unwrap();
        let gid = u128::from(local.subnet_prefix) << 64 | u128::from(guid);
        // What a new group needs as well: Q_Key, traffic class, P_Key, service level and flow label, hop limit.
        let query = Query::all(attribute::MC_MEMBER)
            .with(0, 0, &group.to_be_bytes())
            .with(1, 16, &gid.to_be_bytes())
            .with(16, 48, &[0x20 | state]);
        let query = match group == u128::from(BROADCAST.parse::<std::net::Ipv6Addr>().unwrap()) {
            true => query,
            false => query
                .with(2, 32, &0x0B1Bu32.to_be_bytes())
                .with(6, 39, &[0])
                .with(7, 40, &0xFFFFu16.to_be_bytes())
                .with(12, 44, &[0])
                .with(13, 45, &[0, 0]),
        };
        let mut mad = [0; MAD_BYTES];
        build(&mut mad, METHOD_SET, &query, 1, 0x1000 + index as u32);
        let to = Destination::Lid { lid: local.sm_lid, service_level: local.service_level };
        transport.send(&mad, to, Duration::from_secs(10)).unwrap();
        transport.flush().unwrap();
        let mut message = Message::default();
        let mut waits = 0;
        while transport.receive_message(&mut message, Duration::from_secs(1)).unwrap() != Arrival::Reply {
            waits += 1;
            assert!(waits < 20, "no answer to a join");
        }
        let answer = Answer::read(&message.bytes).unwrap();
        assert_eq!(answer.status().0, 0, "{guid:#x} can't join {}", words[0]);
    }
}

/// `dump_mfts`: switch GUID to multicast LID to ports.
fn read_dump_mfts(text: &str) -> BTreeMap<u64, BTreeMap<u16, BTreeSet<u8>>> {
    // Multicast mlids [0xc000-0xc3ff] of switch DR path slid 0; … guid 0x0002c90200000040 (leaf004):
    //  MLid
    // 0xc000       x   x
    // Two characters a port, from column 12 on.
    let mut tables: BTreeMap<u64, BTreeMap<u16, BTreeSet<u8>>> = BTreeMap::new();
    let mut switch = 0;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" guid 0x") {
            switch = u64::from_str_radix(rest.split(' ').next().unwrap(), 16).unwrap();
            tables.entry(switch).or_default();
        } else if let Some(mlid) = line.strip_prefix("0xc") {
            let mlid = u16::from_str_radix(&format!("c{}", &mlid[..3]), 16).unwrap();
            let ports = line.char_indices().filter(|(_, letter)| *letter == 'x').skip(1);
            let ports = ports.map(|(at, _)| ((at - 12) / 2) as u8).collect();
            tables.get_mut(&switch).unwrap().insert(mlid, ports);
        }
    }
    tables
}

/// Groups as JSON, as soon as the manager has written tables that reach so many hosts in all.
fn groups_reaching(simulated: &Simulated, hosts: usize) -> Vec<Value> {
    let mut looks = 0;
    loop {
        let text = simulated.crawl(&["multicast", "--json"]);
        let groups: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let reached = |group: &Value| group["tree"]["hosts"].as_array().unwrap().len();
        if groups.iter().map(reached).sum::<usize>() == hosts {
            return groups;
        }
        looks += 1;
        assert!(looks < 300, "{groups:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Trees are what `dump_mfts` shows.
fn trees_agree(simulated: &Simulated, groups: &[Value]) {
    let guid = |value: &Value| u64::from_str_radix(&value["guid"].as_str().unwrap()[2..], 16).unwrap();
    let mut theirs = read_dump_mfts(&simulated.tool("dump_mfts", &[]));
    theirs.retain(|_, table| !table.is_empty());
    let mut ours: BTreeMap<u64, BTreeMap<u16, BTreeSet<u8>>> = BTreeMap::new();
    for group in groups {
        let mlid = group["mlid"].as_u64().unwrap() as u16;
        for switch in group["tree"]["switches"].as_array().unwrap() {
            let ports = switch["ports"].as_array().unwrap().iter().map(|port| port.as_u64().unwrap() as u8);
            ours.entry(guid(switch)).or_default().insert(mlid, ports.collect());
        }
    }
    assert_eq!(ours, theirs);
    assert!(!ours.is_empty());
    saved_trees_agree(simulated, groups);
}

/// Trees of saved tables are those of the fabric; who the members are, the files do not hold.
fn saved_trees_agree(simulated: &Simulated, groups: &[Value]) {
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    save("net", simulated.tool("ibnetdiscover", &[]));
    save("tables", simulated.tool("dump_fts", &["-M"]));
    let mut command = std::process::Command::new(simulated::CRAWLER);
    let saved = succeed(command.arg("--saved").arg(folder.path()).args(["multicast", "--json"]));
    let trees = |groups: Vec<Value>| -> BTreeMap<u64, Value> {
        let used = groups.into_iter().filter(|group| group["tree"]["switches"] != serde_json::json!([]));
        used.map(|group| (group["mlid"].as_u64().unwrap(), group["tree"].clone())).collect()
    };
    let saved = saved.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(trees(saved), trees(groups.to_vec()));
}

/// Groups are what `saquery -g` shows: MGID, MLID, MTU and rate as coded with their selectors, P_Key, SL.
fn groups_agree(simulated: &Simulated, groups: &[Value]) {
    let text = simulated.tool("saquery", &["-g"]);
    let mut theirs: Vec<(String, u64, u64, u64)> = text
        .split("MCMemberRecord group dump:")
        .skip(1)
        .map(|record| {
            let field = |name: &str| {
                let line = record.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
                line.rsplit("..").next().unwrap().trim_start_matches('.').to_owned()
            };
            let number = |name: &str| u64::from_str_radix(&field(name)[2..], 16).unwrap();
            (field("MGID"), number("Mlid"), number("pkey"), number("SL"))
        })
        .collect();
    assert!(!theirs.is_empty());
    theirs.sort();
    let mut ours: Vec<(String, u64, u64, u64)> = groups
        .iter()
        .map(|group| {
            let record = &group["group"];
            let number = |value: &Value| value.as_u64().unwrap();
            let mgid = record["mgid"].as_str().unwrap().to_owned();
            (mgid, number(&group["mlid"]), number(&record["pkey"]), number(&record["sl"]))
        })
        .collect();
    ours.sort();
    assert_eq!(ours, theirs);
    for group in groups {
        assert_eq!(group["group"]["mtu_bytes"], 2048);
    }
}

fn members(group: &Value) -> BTreeMap<u64, String> {
    let members = group["members"].as_array().unwrap().iter();
    let guid = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
    members.map(|member| (guid(&member["port_guid"]), member["state"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_fat_tree() {
    let simulated = start(&SMALL.to_net().unwrap());
    let empty = groups_reaching(&simulated, 0);
    groups_agree(&simulated, &empty);
    assert_eq!(empty[0]["members"].as_array().unwrap().len(), 0);
    let guids: Vec<u64> = (0..24).map(|index| FatTree::host_port_guid(index).0).collect();
    join(&simulated, BROADCAST, FULL, &guids[..20]);
    join(&simulated, "ff12:401b:ffff::1", FULL, &guids[3..9]);
    join(&simulated, "ff12:401b:ffff::1", SEND_ONLY, &guids[20..21]);
    // This manager sends to send-only members, too.
    let groups = groups_reaching(&simulated, 27);
    trees_agree(&simulated, &groups);
    groups_agree(&simulated, &groups);
    let all = |count: usize, state: &str| -> BTreeMap<u64, String> {
        guids[..count].iter().map(|guid| (*guid, state.to_owned())).collect()
    };
    assert_eq!(members(&groups[0]), all(20, "full"));
    assert_eq!(members(&groups[1]).get(&guids[20]).map(String::as_str), Some("send-only"));
    assert_eq!(members(&groups[1]).len(), 7);
    for group in &groups {
        let tree = &group["tree"];
        assert_eq!(group["ok"], true, "{group}");
        assert_eq!(tree["parts"], 1);
        let (links, switches) =
            (tree["links"].as_array().unwrap().len(), tree["switches"].as_array().unwrap().len());
        assert_eq!(links + 1, switches, "a tree");
        assert_eq!(group["strangers"].as_array().unwrap().len(), 0);
    }
    let text = simulated.crawl(&["multicast", BROADCAST, "--check"]);
    assert!(
        text.contains("20 members, 0 of them only send") && text.contains("node0020 mlx5_0 (full)"),
        "{text}"
    );
    let table = simulated.crawl(&["multicast"]);
    assert!(table.contains("0xc001  ff12:401b:ffff::1 ") && table.ends_with("2 groups\n"), "{table}");
}

#[test]
fn a_mesh() {
    let simulated = start(&write_net(MESH));
    let hosts: Vec<u64> = MESH.iter().filter(|node| node.0 == "Ca").map(|node| node.2 + 1).collect();
    join(&simulated, BROADCAST, FULL, &hosts);
    let groups = groups_reaching(&simulated, hosts.len());
    trees_agree(&simulated, &groups);
    groups_agree(&simulated, &groups);
    assert_eq!(groups[0]["ok"], true);
}

#[test]
fn a_group_that_is_not_there_is_wrong_usage() {
    let simulated = start(&write_net(MESH));
    for group in ["0xc123", "ff12::9", "5", "ff12::x"] {
        let mut command = simulated.fabric.client(simulated::CRAWLER, None).unwrap();
        let output = command.args(["multicast", group]).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{group}");
    }
}
