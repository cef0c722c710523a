//! `--saved`: files that the standard tools saved of a fabric give what the fabric itself gives.

use crate::simulated;
use crate::simulated::{CRAWLER, MESH, ODD, SMALL, Simulated, start, write_net};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Runs the crawler on files only.
fn from(folder: &Path, arguments: &[&str]) -> String {
    simulated::succeed(Command::new(CRAWLER).arg("--saved").arg(folder).args(arguments))
}

/// Saves what a tool prints.
fn save(simulated: &Simulated, folder: &Path, name: &str, tool: &str, arguments: &[&str]) {
    std::fs::write(folder.join(name), simulated.tool(tool, arguments)).unwrap();
}

/// What `ibqueryerrors` prints, which ends with 1 where it found errors.
fn query_errors(simulated: &Simulated) -> String {
    let output = simulated.fabric.tool("ibqueryerrors", None).unwrap().output().unwrap();
    String::from_utf8(output.stdout).unwrap()
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

    let written = tempfile::tempdir().unwrap();
    let target = written.path().join("case").to_str().unwrap().to_owned();
    assert_eq!(simulated.crawl(&["save", &target]).lines().count(), 3);
    let saved: Value = serde_json::from_str(&from(Path::new(&target), &["discover", "--json"])).unwrap();
    assert_eq!(saved, without_states(&live), "what save wrote");
    let again = written.path().join("again");
    from(Path::new(&target), &["save", again.to_str().unwrap()]);
    for file in ["ibnetdiscover", "dump_fts", "dump_fts-M"] {
        // SwitchInfo has the kind of a switch's port 0; the text has nothing else from SwitchInfo.
        let read = |folder: &Path| {
            std::fs::read_to_string(folder.join(file)).unwrap().replace(" enhanced port 0", " base port 0")
        };
        assert_eq!(read(&again), read(Path::new(&target)), "saved again, {file} is the same");
    }
    let usage = ["usage", "--json"];
    assert_eq!(from(&again, &usage), simulated.crawl(&usage));

    for arguments in [["usage", "--json"].as_slice(), &["usage", "--top", "0"], &["route", "--check"]] {
        let usage = simulated.crawl(arguments);
        assert_eq!(from(text.path(), arguments), usage, "{arguments:?}");
        assert_eq!(from(cache.path(), arguments), usage, "{arguments:?}, from the cache");
    }

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

/// What the commands say of the fabric and of files that were saved of it, in short.
fn agree_in_short(simulated: &Simulated, pairs: &[[&str; 2]]) {
    let live = simulated.crawl(&["discover", "--json"]);
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    simulated.tool("ibnetdiscover", &["--cache", cache.to_str().unwrap()]);
    save(simulated, folder.path(), "tables", "dump_fts", &[]);
    assert_eq!(from(folder.path(), &["discover", "--json"]), live);
    for arguments in [["usage", "--json"].as_slice(), &["links", "--json"]] {
        assert_eq!(from(folder.path(), arguments), simulated.crawl(arguments), "{arguments:?}");
    }
    for [here, there] in pairs {
        let arguments = ["route", "--json", here, there];
        assert_eq!(from(folder.path(), &arguments), simulated.crawl(&arguments), "{here} to {there}");
    }
    std::fs::remove_file(cache).unwrap();
    save(simulated, folder.path(), "net", "ibnetdiscover", &[]);
    let text: Value = serde_json::from_str(&from(folder.path(), &["discover", "--json"])).unwrap();
    assert_eq!(text, without_states(&live), "from text");
}

#[test]
fn two_hosts_without_a_switch() {
    let net = write_net(&[
        ("Ca", 1, 0x2000, "one", &[(1, 1, 1, "4xHDR")]),
        ("Ca", 1, 0x2010, "two", &[(1, 0, 1, "4xHDR")]),
    ]);
    agree_in_short(&start(&net), &[["0x2000", "0x2010"], ["0x2010", "0x2000"]]);
}

/// Switches in rows and columns, each row and column a ring, each switch with a host.
fn torus(rows: usize, columns: usize) -> String {
    let id = |row: usize, column: usize| (row % rows) * columns + column % columns;
    let mut net = String::new();
    for row in 0..rows {
        for column in 0..columns {
            let own = id(row, column);
            let (switch, host) = (0x1000 + own * 16, 0x2000 + own * 16);
            let cable = |port: usize, far: usize, far_port: usize| {
                let far = 0x1000 + far * 16;
                format!("[{port}]\t\"S-{far:016x}\"[{far_port}]\t\t# \"switch\" lid 0 4xEDR\n")
            };
            let cables = cable(1, id(row, column + 1), 2)
                + &cable(2, id(row, column + columns - 1), 1)
                + &cable(3, id(row + 1, column), 4)
                + &cable(4, id(row + rows - 1, column), 3);
            net += &format!(
                "vendid=0x2c9\ndevid=0x1017\nsysimgguid={switch:#x}\nswitchguid={switch:#x}\n\
                 Switch\t8 \"S-{switch:016x}\"\t\t# \"switch {row} {column}\"\n{cables}\
                 [5]\t\"H-{host:016x}\"[1]\t\t# \"host\" lid 0 4xEDR\n\n\
                 vendid=0x2c9\ndevid=0x1017\nsysimgguid={host:#x}\ncaguid={host:#x}\n\
                 Ca\t1 \"H-{host:016x}\"\t\t# \"host {row} {column}\"\n\
                 [1]({:x})\t\"S-{switch:016x}\"[5]\t\t# lid 0 lmc 0 \"switch\" lid 0 4xEDR\n\n",
                host + 1
            );
        }
    }
    net
}

#[test]
fn a_torus() {
    agree_in_short(&start(&torus(3, 4)), &[["0x2000", "0x20b0"], ["0x2050", "0x2010"], ["0x2000", "0x1060"]]);
}

#[test]
fn half_of_the_hosts_dead() {
    let mut simulated = start(&SMALL.to_net().unwrap());
    let document: Value = serde_json::from_str(&simulated.crawl(&["discover", "--json"])).unwrap();
    let nodes = document["nodes"].as_array().unwrap();
    let hosts: Vec<&str> =
        nodes.iter().filter(|node| node["type"] == "ca").map(|node| node["guid"].as_str().unwrap()).collect();
    // Every second one, but not the one where the crawler is.
    let dead: Vec<&str> = hosts.iter().copied().skip(1).step_by(2).collect();
    let commands: String = dead.iter().map(|guid| format!("Unlink \"H-{}\"[1]\n", &guid[2..])).collect();
    simulated.fabric.console(&commands).unwrap();
    let left: Value = serde_json::from_str(&simulated.crawl(&["discover", "--json"])).unwrap();
    assert_eq!(left["nodes"].as_array().unwrap().len(), nodes.len() - dead.len());
    agree_in_short(&simulated, &[[hosts[0], hosts[2]], [hosts[4], hosts[22]]]);
}

#[test]
fn groups_of_saquery() {
    let simulated = start(&write_net(ODD));
    let live = simulated.crawl(&["multicast", "--json"]);
    let folder = tempfile::tempdir().unwrap();
    save(&simulated, folder.path(), "net", "ibnetdiscover", &[]);
    save(&simulated, folder.path(), "mfts", "dump_fts", &["-M"]);
    save(&simulated, folder.path(), "groups", "saquery", &["-g"]);
    save(&simulated, folder.path(), "members", "saquery", &["-m"]);
    let documents = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| {
                let mut document: Value = serde_json::from_str(line).unwrap();
                // saquery does not print it.
                document["group"]["qkey"] = Value::Null;
                document
            })
            .collect()
    };
    let saved = documents(&from(folder.path(), &["multicast", "--json"]));
    assert!(!saved.is_empty() && saved[0]["group"]["mgid"].is_string(), "{saved:?}");
    assert_eq!(saved, documents(&live));
}

#[test]
fn names_of_a_map_apply_to_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net"), write_net(ODD)).unwrap();
    let map = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(map.path(), "0x2000 \"alpha of the map\"\n").unwrap();
    let map = map.path().to_str().unwrap();
    for command in [["discover", "--json"], ["links", "--json"]] {
        let named = from(folder.path(), &[command[0], command[1], "--node-name-map", map]);
        assert!(named.contains("alpha of the map") && !named.contains("alpha mlx5_0"), "{named}");
    }
    let by_name = from(folder.path(), &["discover", "--node-name-map", map]);
    assert!(by_name.contains("alpha of the map") && by_name.contains("gamma, second port only"), "{by_name}");
}

/// Counters of `sweep --json` by port, without what depends on the moment.
fn counters(text: &str, names: &[&str]) -> BTreeMap<(String, u64), Vec<Value>> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            let key = (line["guid"].as_str().unwrap().to_owned(), line["num"].as_u64().unwrap());
            (key, names.iter().map(|name| line[name].clone()).collect())
        })
        .collect()
}

#[test]
fn counters_of_perfquery_and_ibqueryerrors() {
    let mut simulated = start(&write_net(ODD));
    let core = "\"S-0000000000001000\"";
    for set in [
        "[3] PortCounters.SymbolErrorCounter=700",
        "[3] PortCounters.PortXmitWait=777",
        "[1] PortCounters.LinkDownedCounter=255",
        "[1] PortCounters.PortRcvErrors=25",
    ] {
        simulated.fabric.console(&format!("PerformanceSet {core}{set}")).unwrap();
    }
    let errors = ["symbol_error", "link_downed", "receive_errors", "transmit_wait", "transmit_discards"];
    let live = simulated.crawl(&["sweep", "--once", "--json"]);
    let folder = tempfile::tempdir().unwrap();
    save(&simulated, folder.path(), "net", "ibnetdiscover", &[]);
    save(&simulated, folder.path(), "li", "iblinkinfo", &[]);
    let document: Value = serde_json::from_str(&simulated.crawl(&["discover", "--json"])).unwrap();
    let mut all = String::new();
    for node in document["nodes"].as_array().unwrap() {
        // The document has the LID of an adapter's first port only.
        let count = if node["type"] == "switch" { usize::MAX } else { 1 };
        let linked = node["ports"].as_array().unwrap().iter().filter(|port| !port["remote"].is_null());
        for port in linked.take(count) {
            let (lid, number) = (node["lid"].to_string(), port["num"].to_string());
            all += &simulated.tool("perfquery", &[&lid, &number]);
            all += &simulated.tool("perfquery", &["-x", &lid, &number]);
        }
    }
    std::fs::write(folder.path().join("counters"), &all).unwrap();
    let saved = from(folder.path(), &["sweep", "--once", "--json"]);
    let (saved, live_errors) = (counters(&saved, &errors), counters(&live, &errors));
    let alpha_2 = ("0x0000000000002000".to_owned(), 2);
    let beta_2 = ("0x0000000000002010".to_owned(), 2);
    for (port, values) in &live_errors {
        if *port != alpha_2 && *port != beta_2 {
            assert_eq!(saved.get(port), Some(values), "{port:?}");
        }
    }
    let totals = |folder: &Path| from(folder, &["errors", "--totals", "--json"]);
    assert!(totals(folder.path()).contains("700"), "{}", totals(folder.path()));

    // ibqueryerrors names only what is above its thresholds: the rest is absent.
    std::fs::write(folder.path().join("counters"), query_errors(&simulated)).unwrap();
    let saved = counters(&from(folder.path(), &["sweep", "--once", "--json"]), &errors);
    let core = |port| saved[&("0x0000000000001000".to_owned(), port)].clone();
    assert_eq!(core(3), serde_json::json!([700, null, null, 777, null]).as_array().unwrap().clone());
    assert_eq!(core(1)[1], Value::Null, "255 is the end of eight bits: saturated");

    // Two readings give rates.
    let earlier = std::fs::File::options().write(true).open(folder.path().join("counters")).unwrap();
    earlier.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(600)).unwrap();
    let more = query_errors(&simulated).replace("== 700", "== 1300");
    std::fs::write(folder.path().join("counters-later"), more).unwrap();
    let rates = from(folder.path(), &["errors", "--json"]);
    assert!(rates.contains("symbol_error"), "{rates}");
    let two = from(folder.path(), &["sweep", "--json"]);
    let times: BTreeSet<String> =
        two.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["time"].to_string()).collect();
    assert_eq!(times.len(), 2, "two readings, oldest first");
}

#[test]
fn what_the_files_lack_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output =
            Command::new(CRAWLER).arg("--saved").arg(folder.path()).args(arguments).output().unwrap();
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
