//! `errors` and `check` against `ibqueryerrors`, on a fabric with faults set by hand and with switches that do
//! not answer.

use crate::simulated;
use crate::simulated::{CRAWLER, Simulated, start};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use throughline_infiniband::errors::find;
use throughline_infiniband::topology::FatTree;

/// 48 hosts at 8 leaves, 4 spines.
const NET: FatTree = FatTree { hosts: 48, leafs: 8, spines: 4, uplinks: 4, ..FatTree::HOSTS_146 };
/// Faults on it.
const FAULTS: usize = 50;
/// Counters as ibsim's console and thresholds files call them, with their largest value. PortXmitWait counts
/// congestion; `check` leaves it out without a thresholds file, and one is given here.
const COUNTERS: [(&str, u64); 13] = [
    ("SymbolErrorCounter", 65_535),
    ("LinkErrorRecoveryCounter", 255),
    ("LinkDownedCounter", 255),
    ("PortRcvErrors", 65_535),
    ("PortRcvRemotePhysicalErrors", 65_535),
    ("PortRcvSwitchRelayErrors", 65_535),
    ("PortXmitDiscards", 65_535),
    ("PortXmitConstraintErrors", 255),
    ("PortRcvConstraintErrors", 255),
    ("LocalLinkIntegrityErrors", 15),
    ("ExcessiveBufferOverrunErrors", 15),
    ("VL15Dropped", 65_535),
    ("PortXmitWait", 4_294_967_295),
];
/// Thresholds as a site may have them; the other counters' are 0.
const THRESHOLDS: &str = "SymbolErrorCounter=10\nLinkErrorRecoveryCounter=10\nLinkDownedCounter=3\n\
    PortRcvRemotePhysicalErrors=100\nPortRcvSwitchRelayErrors=100\nLocalLinkIntegrityErrors=14\nPortXmitWait=1000\n";

/// By node name, port and counter.
type Errors = BTreeMap<(String, u64, &'static str), u64>;

/// Numbers that look random and are the same in each run.
struct Scatter(u64);

impl Scatter {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn threshold(counter: &str) -> u64 {
    let line = THRESHOLDS.lines().find_map(|line| line.strip_prefix(counter)?.strip_prefix('='));
    line.map_or(0, |number| number.parse().unwrap())
}

/// Console commands of random faults, values around the thresholds and at the ends.
fn faults() -> String {
    let mut random = Scatter(2026);
    let mut commands = String::new();
    let mut seen = BTreeSet::new();
    while seen.len() < FAULTS {
        let (id, ports) = match random.below(3) {
            0 => (FatTree::host_id(random.below(NET.hosts as u64) as usize), 1),
            _ => (FatTree::switch_id(random.below(NET.switches() as u64) as usize), NET.ports as u64),
        };
        let port = random.below(ports) + 1;
        let (counter, most) = COUNTERS[random.below(COUNTERS.len() as u64) as usize];
        let limit = threshold(counter);
        let value = match random.below(5) {
            0 => limit,
            1 => limit + 1,
            2 => limit.saturating_sub(1).max(1),
            3 => most,
            _ => limit + 1 + random.below(most - limit),
        };
        if seen.insert((id.clone(), port, counter)) {
            commands += &format!("PerformanceSet \"{id}\"[{port}] PortCounters.{counter}={value}\n");
        }
    }
    commands
}

/// `Errors for "name"` or `Errors for 0xguid "name"`, then lines `GUID 0x… port 3: [Counter == 7] …`.
fn read_ibqueryerrors(text: &str) -> Errors {
    let mut errors = Errors::new();
    let mut node = String::new();
    for line in text.lines() {
        if line.starts_with("Errors for ") {
            node = line.split('"').nth(1).unwrap().to_owned();
        } else if let Some((_, rest)) =
            line.trim().strip_prefix("GUID ").and_then(|rest| rest.split_once(" port "))
        {
            let (port, counters) = rest.split_once(": ").unwrap();
            // The sum over a switch's ports is no port.
            let Ok(port) = port.parse() else { continue };
            for counter in
                counters.split('[').filter_map(|part| part.split(']').next()).filter(|c| !c.is_empty())
            {
                let (name, value) = counter.split_once(" == ").unwrap();
                let value = value.split(' ').next().unwrap().parse().unwrap();
                assert!(errors.insert((node.clone(), port, find(name).unwrap().name), value).is_none());
            }
        }
    }
    errors
}

/// Errors, and ports that could not be read.
fn read_errors(text: &str) -> (Errors, BTreeSet<(String, u64)>) {
    let (mut errors, mut unread) = (Errors::new(), BTreeSet::new());
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (node, port) = (line["description"].as_str().unwrap().to_owned(), line["num"].as_u64().unwrap());
        match line["errors"].as_object() {
            None => {
                assert_eq!(line["unread"], "timeout");
                assert!(unread.insert((node, port)));
            }
            Some(counters) => {
                for (name, value) in counters {
                    let key = (node.clone(), port, find(name).unwrap().name);
                    assert!(errors.insert(key, value["count"].as_u64().unwrap()).is_none());
                }
            }
        }
    }
    (errors, unread)
}

struct Faulty {
    simulated: Simulated,
    thresholds: PathBuf,
}

fn faulty() -> Faulty {
    let mut simulated = start(&NET.to_net().unwrap());
    let thresholds = simulated.fabric.folder().join("thresholds");
    std::fs::write(&thresholds, THRESHOLDS).unwrap();
    simulated.fabric.console(&faults()).unwrap();
    Faulty { simulated, thresholds }
}

impl Faulty {
    /// Standard output and exit status.
    fn crawl(&self, command: &str, more: &[&str]) -> (String, i32) {
        let mut crawler = self.simulated.fabric.client(CRAWLER, None).unwrap();
        let output = crawler
            .args([command, "--json", "--thresholds"])
            .arg(&self.thresholds)
            .args(more)
            .output()
            .unwrap();
        let Some(code) = output.status.code() else {
            panic!("{command}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr))
        };
        (String::from_utf8(output.stdout).unwrap(), code)
    }

    fn theirs(&self) -> Errors {
        self.ibqueryerrors(&["--threshold-file", self.thresholds.to_str().unwrap()])
    }

    /// Its exit status is 1 where it found something.
    fn ibqueryerrors(&self, arguments: &[&str]) -> Errors {
        let mut tool = self.simulated.fabric.tool("ibqueryerrors", None).unwrap();
        let output = tool.args(arguments).output().unwrap();
        read_ibqueryerrors(&String::from_utf8(output.stdout).unwrap())
    }
}

/// `check`'s findings of one kind, by node name and port.
fn found(text: &str, kind: &str) -> BTreeSet<(String, u64)> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["kind"] == kind)
        .flat_map(|line| {
            let node = line["description"].as_str().unwrap().to_owned();
            let ports: Vec<u64> =
                line["ports"].as_array().unwrap().iter().map(|p| p.as_u64().unwrap()).collect();
            ports.into_iter().map(move |port| (node.clone(), port))
        })
        .collect()
}

fn ports(errors: &Errors) -> BTreeSet<(String, u64)> {
    errors.keys().map(|(node, port, _)| (node.clone(), *port)).collect()
}

#[test]
fn fifty_faults_are_those_of_ibqueryerrors() {
    let faulty = faulty();
    let theirs = faulty.theirs();
    assert!(theirs.len() > FAULTS / 2, "{} above their thresholds", theirs.len());
    let (text, status) = faulty.crawl("errors", &["--totals"]);
    assert_eq!(status, 0);
    assert_eq!(read_errors(&text), (theirs.clone(), BTreeSet::new()));
    let (text, status) = faulty.crawl("check", &[]);
    assert_eq!(status, 2, "something was found");
    assert_eq!(found(&text, "port.errors"), ports(&theirs));
    assert!(found(&text, "counters.unread").is_empty());
    // Suppressed the same way.
    let mut without = theirs.clone();
    without
        .retain(|(_, _, counter), _| *counter != "symbol_error" && *counter != "receive_switch_relay_errors");
    let (text, _) =
        faulty.crawl("errors", &["--totals", "--suppress", "SymbolErrorCounter", "--suppress-common"]);
    assert_eq!(read_errors(&text).0, without);
    // Without a file every error is reported, as theirs does.
    let everything = faulty.ibqueryerrors(&[]);
    let ours = faulty.simulated.crawl(&["errors", "--json", "--totals"]);
    assert_eq!(read_errors(&ours).0, everything);
    assert!(everything.len() > theirs.len());
    // Nothing moves: no rates, but for counters that stand at their end and could not show it.
    let (text, _) = faulty.crawl("errors", &["--interval", "0.2"]);
    let moving = read_errors(&text).0;
    let is_full = |counter: &str, value: u64| {
        COUNTERS.iter().any(|(name, most)| find(name).unwrap().name == counter && *most == value)
    };
    let full: BTreeSet<_> =
        everything.iter().filter(|((_, _, counter), value)| is_full(counter, **value)).collect();
    let reported: BTreeSet<_> = moving.iter().collect();
    assert!(reported.is_subset(&full), "{reported:?}");
}

#[test]
fn half_of_the_leaves_do_not_answer() {
    let mut faulty = faulty();
    let all = faulty.theirs();
    // Not the first one: the crawler is attached there.
    let dead: Vec<usize> = (1..NET.leafs).step_by(2).collect();
    let commands: String =
        dead.iter().map(|leaf| format!("Error \"{}\"[0] 100\n", FatTree::switch_id(*leaf))).collect();
    faulty.simulated.fabric.console(&commands).unwrap();
    let names: BTreeSet<String> = dead.iter().map(|leaf| NET.switch_description(*leaf)).collect();
    let alive: Errors = all.clone().into_iter().filter(|((node, ..), _)| !names.contains(node)).collect();
    assert!(alive.len() < all.len(), "some faults are on dead leaves");
    let every_port: BTreeSet<(String, u64)> =
        names.iter().flat_map(|name| (1..=NET.ports as u64).map(|port| (name.clone(), port))).collect();

    let (text, status) = faulty.crawl("errors", &["--totals"]);
    assert_eq!(status, 0);
    assert_eq!(read_errors(&text), (alive.clone(), every_port.clone()), "none missed, the rest is listed");
    let theirs = faulty.theirs();
    assert!(theirs.iter().all(|(key, value)| alive.get(key) == Some(value)), "no more than ours");
    let (text, status) = faulty.crawl("check", &[]);
    assert_eq!(status, 2);
    assert_eq!(found(&text, "port.errors"), ports(&alive));
    assert_eq!(found(&text, "counters.unread"), every_port);
}

#[test]
fn a_clean_fabric_is_clean_and_without_a_manager_it_is_not() {
    let simulated = start(&simulated::SMALL.to_net().unwrap());
    let output = simulated.fabric.client(CRAWLER, None).unwrap().arg("check").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), text.as_str()),
        (Some(0), "nodes: 30, links: 40, ports: 240, findings: 0: nothing is wrong\n")
    );
    let alone = simulated::start_unmanaged(&simulated::SMALL.to_net().unwrap());
    let output = alone.fabric.client(CRAWLER, None).unwrap().args(["check", "--json"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let kinds: BTreeSet<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].as_str().unwrap().to_owned())
        .collect();
    let expected = ["counters.unread", "lid.missing", "port.not_active", "sm.absent"];
    assert_eq!(kinds, expected.map(str::to_owned).into());
    assert!(
        text.starts_with("{\"description\":") && text.lines().next().unwrap().contains("sm.absent"),
        "{text}"
    );
    assert_eq!(text.lines().count(), expected.len(), "one finding a kind:\n{text}");
    assert!(text.contains("80 ports of 30 nodes"), "{text}");
    for arguments in
        [["errors", "--totals"], ["errors", "--interval=3600"], ["sweep", "--once"], ["top", "--once"]]
    {
        let output = alone.fabric.client(CRAWLER, None).unwrap().args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{arguments:?}: {said}");
        assert!(said.contains("is a subnet manager running?"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_manager_that_died_is_absent() {
    let simulated = simulated::start_unmanaged(&simulated::SMALL.to_net().unwrap());
    let manager = simulated::daemon::Manager::start(&simulated, &FatTree::host_id(4), 3);
    let check = |more: &[&str]| {
        let mut crawler = simulated.fabric.client(CRAWLER, None).unwrap();
        let output = crawler.args(["check", "--timeout", "200"]).args(more).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(check(&[]).0, Some(0), "{}", check(&[]).1);
    drop(manager);
    let (status, text) = check(&["--json"]);
    // Its LID is still in every port, and counters are read.
    let findings: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((status, findings.len()), (Some(2), 1), "{text}");
    let finding = &findings[0];
    assert_eq!((&finding["kind"], &finding["severity"]), (&"sm.absent".into(), &"error".into()));
    let host = FatTree::host_description(4);
    assert_eq!(
        (finding["description"].as_str(), finding["ports"][0].as_u64()),
        (Some(host.as_str()), Some(1))
    );
    assert!(finding["what"].as_str().unwrap().starts_with("the subnet manager at LID "), "{text}");
    // A choice of nodes does not hide it.
    let (status, text) = check(&["--json", "--node", &simulated::SMALL.switch_description(1)]);
    assert_eq!((status, text.matches("sm.absent").count()), (Some(2), 1), "{text}");
}

/// `Counter == value` of a port in `ibqueryerrors`, errors and what they consist of, without zeros.
fn figures_of(text: &str, node: &str, port: u8) -> BTreeMap<String, u64> {
    let of_node = text.split("Errors for ").find(|part| part.contains(node)).unwrap();
    let line = of_node.lines().find(|line| line.contains(&format!(" port {port}: "))).unwrap();
    let figures = line.split('[').skip(1).filter_map(|part| part.split(']').next()?.split_once(" == "));
    figures.map(|(name, value)| (name.trim_end_matches(':').to_owned(), value.parse().unwrap())).collect()
}

#[test]
fn details_are_those_of_ibqueryerrors() {
    let mut simulated = start(&simulated::SMALL.to_net().unwrap());
    // The console's name, ours, the value.
    let set = [
        ("PortCounters.PortRcvErrors", "receive_errors", 60),
        ("PortRcvErrorDetails.PortLocalPhysicalErrors", "local_physical_errors", 41),
        ("PortRcvErrorDetails.PortLoopingErrors", "looping_errors", 65_535),
        ("PortCounters.PortXmitDiscards", "transmit_discards", 9),
        ("PortXmitDiscardDetails.PortInactiveDiscards", "inactive_discards", 7),
        ("PortXmitDiscardDetails.PortSwHOQLifetimeLimitDiscards", "switch_hoq_lifetime_limit_discards", 2),
    ];
    let id = FatTree::switch_id(1);
    let commands: String =
        set.iter().map(|(name, _, value)| format!("PerformanceSet \"{id}\"[3] {name}={value}\n")).collect();
    // Details of a port without errors above are not reported, by them and by us.
    let alone = format!("PerformanceSet \"{id}\"[4] PortXmitDiscardDetails.PortInactiveDiscards=7\n");
    simulated.fabric.console(&(commands + &alone)).unwrap();

    let theirs = simulated.fabric.tool("ibqueryerrors", None).unwrap().arg("--details").output().unwrap();
    let theirs = String::from_utf8(theirs.stdout).unwrap();
    let name = simulated::SMALL.switch_description(1);
    let reported = figures_of(&theirs, &name, 3);
    let ours = simulated.crawl(&["errors", "--totals", "--details", "--json"]);
    let line: Value = serde_json::from_str(&ours).unwrap();
    assert_eq!((line["description"].as_str().unwrap(), line["num"].as_u64()), (name.as_str(), Some(3)));
    let mut figures = BTreeMap::new();
    for (counter, value) in line["errors"].as_object().unwrap() {
        figures.insert(counter.clone(), value["count"].as_u64().unwrap());
        for (part, value) in value["details"].as_object().unwrap() {
            figures.insert(part.clone(), value["count"].as_u64().unwrap());
        }
    }
    assert_eq!(figures, set.iter().map(|(_, name, value)| ((*name).to_owned(), *value)).collect());
    // ibqueryerrors reads each of the two attributes by the other's fields: the first detail of receiving has
    // the name of the first discard and so on, and the last two details of receiving are never reported.
    let theirs_by_ours = [
        ("receive_errors", "PortRcvErrors"),
        ("local_physical_errors", "PortInactiveDiscards"),
        ("transmit_discards", "PortXmitDiscards"),
        ("inactive_discards", "PortLocalPhysicalErrors"),
        ("switch_hoq_lifetime_limit_discards", "PortDLIDMappingErrors"),
    ];
    assert_eq!(reported.len(), theirs_by_ours.len(), "{theirs}");
    for (our_name, their_name) in theirs_by_ours {
        assert_eq!(figures[our_name], reported[their_name], "{our_name}: {theirs}");
    }
    let table = simulated.crawl(&["errors", "--totals", "--details"]);
    assert!(table.contains("receive_errors=60 [local_physical_errors=41 looping_errors>=65535]"), "{table}");
    assert!(!simulated.crawl(&["errors", "--totals"]).contains("looping"));
}

#[test]
fn wrong_thresholds_are_wrong_usage() {
    let simulated = start(&simulated::SMALL.to_net().unwrap());
    let file = simulated.fabric.folder().join("wrong");
    std::fs::write(&file, "SymbolErrorCounter=10\nLinkDownedCounter=many\n").unwrap();
    let run = |arguments: &[&str]| {
        let output = simulated.fabric.client(CRAWLER, None).unwrap().args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = run(&["errors", "--totals", "--thresholds", file.to_str().unwrap()]);
    assert_eq!(status, Some(64));
    assert!(said.contains("wrong, line 2") && said.contains("LinkDownedCounter=many"), "{said}");
    assert_eq!(run(&["check", "--thresholds", "/nowhere/at/all"]).0, Some(64));
    let (status, said) = run(&["errors", "--suppress", "Nonsense"]);
    assert_eq!(status, Some(64));
    assert!(said.contains("'Nonsense'"), "{said}");
}
