//! `--from`: files that the standard tools saved of a fabric give what the fabric itself gives.
#![allow(clippy::unwrap_used, missing_docs)]

mod simulated;

use serde_json::Value;
use simulated::{CRAWLER, MESH, ODD, SMALL, Simulated, start, write_net};
use std::path::Path;
use std::process::Command;

/// Runs the crawler on files only.
fn from(folder: &Path, arguments: &[&str]) -> String {
    simulated::succeed(Command::new(CRAWLER).arg("--from").arg(folder).args(arguments))
}

/// Saves what a tool prints.
fn save(simulated: &Simulated, folder: &Path, name: &str, tool: &str, arguments: &[&str]) {
    std::fs::write(folder.join(name), simulated.tool(tool, arguments)).unwrap();
}

/// What `ibnetdiscover` does not hold is absent: states, and all of a port without a cable.
fn without_states(live: &str) -> Value {
    let mut document: Value = serde_json::from_str(live).unwrap();
    for node in document["nodes"].as_array_mut().unwrap() {
        for port in node["ports"].as_array_mut().unwrap() {
            port["state"] = Value::Null;
        }
    }
    document
}

fn agree(net: &str) {
    let simulated = start(net);
    let live = simulated.crawl(&["discover", "--json"]);
    let text = tempfile::tempdir().unwrap();
    save(&simulated, text.path(), "nodes and cables", "ibnetdiscover", &[]);
    save(&simulated, text.path(), "tables", "dump_fts", &[]);
    let plain: Value = serde_json::from_str(&from(text.path(), &["discover", "--json"])).unwrap();
    assert_eq!(plain, without_states(&live), "ibnetdiscover alone has no states");

    save(&simulated, text.path(), "states", "iblinkinfo", &[]);
    assert_eq!(from(text.path(), &["discover", "--json"]), live, "with iblinkinfo");
    save(&simulated, text.path(), "states", "iblinkinfo", &["-l"]);
    save(&simulated, text.path(), "ports", "ibnetdiscover", &["--ports"]);
    assert_eq!(
        from(text.path(), &["discover", "--json"]),
        live,
        "with iblinkinfo -l and ibnetdiscover --ports"
    );
    assert_eq!(from(text.path(), &["discover"]), simulated.crawl(&["discover"]));

    let cache = tempfile::tempdir().unwrap();
    let file = cache.path().join("cache");
    simulated.tool("ibnetdiscover", &["--cache", file.to_str().unwrap()]);
    save(&simulated, cache.path(), "tables", "dump_fts", &["--all", "--no_dests"]);
    assert_eq!(from(cache.path(), &["discover", "--json"]), live, "from the cache file");
    assert_eq!(from(cache.path(), &["links", "--json"]), simulated.crawl(&["links", "--json"]));

    let guids: Vec<String> = serde_json::from_str::<Value>(&live).unwrap()["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["guid"].as_str().unwrap().to_owned())
        .collect();
    for step in 1..=12 {
        let (here, there) = (&guids[(step * 7) % guids.len()], &guids[(step * 11 + 3) % guids.len()]);
        let arguments = ["route", "--json", here, there];
        let route = simulated.crawl(&arguments);
        assert_eq!(from(text.path(), &arguments), route, "{here} to {there}");
        assert_eq!(from(cache.path(), &arguments), route, "{here} to {there}, from the cache");
    }
}

#[test]
fn a_fat_tree() {
    agree(&SMALL.to_net().unwrap());
}

#[test]
fn odd_hosts_and_cables() {
    agree(&write_net(ODD));
}

#[test]
fn a_mesh() {
    agree(&write_net(MESH));
}

#[test]
fn what_the_files_lack_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(CRAWLER).arg("--from").arg(folder.path()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&["discover"]);
    assert_eq!(code, Some(64));
    assert!(text.contains("ibnetdiscover >"), "{text}");
    std::fs::write(folder.path().join("net"), write_net(ODD)).unwrap();
    let (code, text) = run(&["route", "0x2000", "0x2010"]);
    assert_eq!(code, Some(69));
    assert!(text.contains("dump_fts"), "{text}");
    let (code, text) = run(&["sweep", "--once"]);
    assert_eq!(code, Some(69));
    assert!(text.contains("no counters"), "{text}");
    let whole = std::fs::read(folder.path().join("net")).unwrap();
    std::fs::write(folder.path().join("net"), &whole[..whole.len() / 2]).unwrap();
    let (code, text) = run(&["discover"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("cut short") || text.contains("expected"), "{text}");
}
