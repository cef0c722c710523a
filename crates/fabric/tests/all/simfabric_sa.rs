//! The subnet administrator of the simulated fabric through the crawler's client; M_Key protection.

use crate::simulated::{CRAWLER, MESH, SMALL, Seen, read_discover, succeed, write_net};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use throughline_crawler::port::FabricPort;
use throughline_crawler::sa::{Client, Settings, groups};
use throughline_crawler::transport::Class;
use throughline_infiniband::key::Key;
use throughline_infiniband::mad::sa::{LinkRecord, Query, Subject, attribute};
use throughline_infiniband::topology::FatTree;
use throughline_simfabric::{Scenario, SimFabric};

static GOES_ON: AtomicBool = AtomicBool::new(false);

fn discover(fabric: &SimFabric, arguments: &[&str]) -> Seen {
    let mut command = Command::new(CRAWLER);
    command.arg("--transport").arg(fabric.via().to_string()).args(["--timeout", "20"]);
    read_discover(&succeed(command.args(["discover", "--json"]).args(arguments)))
}

fn client(fabric: &SimFabric) -> Client {
    let port = FabricPort::find(&fabric.via(), None, 0).unwrap();
    let transport = port.open(Class::Administration).unwrap();
    Client::new(transport, port.local().sm_lid, 0, Settings::default())
}

#[test]
fn records_tell_the_same_subnet_as_walks() {
    for (net, lmc) in [(SMALL.to_net().unwrap(), 0), (write_net(MESH), 2)] {
        let fabric = SimFabric::start(&Scenario { lmc, ..Scenario::new(net) }).unwrap();
        let walked = discover(&fabric, &["--discovery", "smp"]);
        assert_eq!(discover(&fabric, &["--discovery", "sa"]), walked);
    }
}

#[test]
fn an_m_key_shuts_out_who_does_not_have_it() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let walked = discover(&fabric, &["--discovery", "smp"]);
    fabric.control("mkey 0x1234567890 3").unwrap();
    assert_eq!(discover(&fabric, &["--discovery", "auto"]), walked, "from records");
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("m_key");
    std::fs::write(&key, "0x1234567890\n").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let arguments = ["--discovery", "smp", "--m-key-file", key.to_str().unwrap()];
    assert_eq!(discover(&fabric, &arguments), walked, "with the key");
    fabric.control("mkey 0x1234567890 1").unwrap();
    assert_eq!(discover(&fabric, &["--discovery", "smp"]), walked, "protect bits 1 let Gets pass");
}

#[test]
fn tables_of_any_length_and_members_of_groups() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let [a, b] = [FatTree::host_description(3), FatTree::host_description(20)];
    fabric.control(&format!("group ff12601bffff00000000000000000001 0xC005 \"{a}\" \"{b}\"")).unwrap();
    let mut client = client(&fabric);
    let links = client.table(&Query::all(attribute::LINK), &GOES_ON).unwrap();
    let links: Vec<LinkRecord> = links.decoded(LinkRecord::decode).collect();
    assert_eq!(links.len(), 2 * (SMALL.hosts + SMALL.leafs * SMALL.uplinks));
    let found = groups(&mut client, Key::new(1), &GOES_ON).unwrap();
    assert!(found.is_trusted);
    assert_eq!(found.members.len(), SMALL.hosts + 2);
    let members = found.members.iter().filter(|member| member.mlid == 0xC005);
    let mut guids: Vec<u64> = members.map(|member| member.port_guid().unwrap().0).collect();
    guids.sort_unstable();
    assert_eq!(guids, [FatTree::host_port_guid(3).0, FatTree::host_port_guid(20).0]);
}

#[test]
fn the_sm_key_of_a_file_is_used_everywhere() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let crawl = |arguments: &[&str]| {
        let mut command = Command::new(CRAWLER);
        command.arg("--transport").arg(fabric.via().to_string()).args(["--discovery", "sa"]);
        succeed(command.args(arguments))
    };
    let (nodes, members) = (crawl(&["discover", "--json"]), crawl(&["multicast", "--json"]));
    assert!(members.contains(&FatTree::host_description(20)), "{members}");
    fabric.control("sm-key 0x77").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("sm_key");
    std::fs::write(&key, "0x77\n").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let option = ["--sm-key-file", key.to_str().unwrap()];
    assert_eq!(crawl(&[&option[..], &["discover", "--json"]].concat()), nodes);
    assert_eq!(crawl(&[&["multicast", "--json"], &option[..]].concat()), members);
}

#[test]
fn subscribers_hear_of_links_and_nodes() {
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let mut client = client(&fabric);
    client.subscribe(None, &GOES_ON).unwrap();
    fabric.control("link leaf002 1 down").unwrap();
    let mut received = Vec::new();
    while let Some(report) =
        client.report(Duration::from_secs(if received.len() < 2 { 20 } else { 0 })).unwrap()
    {
        received.push((report.notice.number, report.notice.subject));
    }
    let leaf = throughline_infiniband::topology::FatTree::switch_guid(1);
    let lid = discover(&fabric, &[])[&leaf.0].lid as u16;
    assert!(received.contains(&(128, Subject::Lid { lid, port: None })), "{received:?}");
    let gone = 0xfe80_0000_0000_0000_u128 << 64 | u128::from(FatTree::host_port_guid(6).0);
    assert!(received.contains(&(65, Subject::Gid(gone))), "{received:?}");
    assert!(fabric.control("stats").unwrap().contains(&format!("reports_answered {}", received.len())));
}
