//! The subnet administrator of opensm on ibsim: the same topology and the same routes as from the nodes; wrong
//! keys; nobody there.

use crate::simulated::{CRAWLER, MESH, ODD, SMALL, Simulated, start, write_net};
use std::os::unix::fs::PermissionsExt;
use throughline_infiniband::topology::FatTree;
use throughline_simfabric::ibsim::{SimFabric, SimOptions, SimTools};

/// The document without the mark of its source.
fn document(simulated: &Simulated, source: &str) -> serde_json::Value {
    let text = simulated.crawl(&["--discovery", source, "discover", "--json"]);
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mark = document.as_object_mut().unwrap().remove("source");
    assert_eq!(mark, (source == "sa").then(|| "sa".into()));
    document
}

fn same(net: &str, from: u64, to: u64) {
    let simulated = start(net);
    assert_eq!(document(&simulated, "sa"), document(&simulated, "smp"));
    let route = |source| {
        simulated.crawl(&["--discovery", source, "route", &format!("{from:#x}"), &format!("{to:#x}")])
    };
    assert_eq!(route("sa"), route("smp"));
}

#[test]
fn a_fat_tree_is_the_same() {
    let net = SMALL.to_net().unwrap();
    same(&net, FatTree::host_guid(0).0, FatTree::host_guid(20).0);
}

#[test]
fn odd_nodes_are_the_same() {
    same(&write_net(ODD), 0x2040, 0x2030);
}

#[test]
fn a_mesh_is_the_same() {
    same(&write_net(MESH), 0x4000, 0x4030);
}

#[test]
fn without_a_manager_it_is_said() {
    let prefix = throughline_prefix::ensure(throughline_prefix::Set::Fabric).unwrap();
    let tools = SimTools::at(prefix.root()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = SimOptions { subnet_manager: false, ..SimOptions::default() };
    let fabric = SimFabric::start(&tools, folder.path(), &SMALL.to_net().unwrap(), &options).unwrap();
    let output =
        fabric.client(CRAWLER, None).unwrap().args(["--discovery", "sa", "discover"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("knows no subnet manager"), "{said}");
}

#[test]
fn a_key_file_open_to_others_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m_key");
    std::fs::write(&file, "0x77665544\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = std::process::Command::new(CRAWLER);
    let output = command.arg("--m-key-file").arg(&file).args(["check-config"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("chmod 600") && !said.contains("77665544"), "{said}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = std::process::Command::new(CRAWLER);
    let output = command.arg("--m-key-file").arg(&file).args(["check-config"]).output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("m_key_file") && !printed.contains("77665544") && !printed.contains("2003195204"),
        "{printed}"
    );
}
