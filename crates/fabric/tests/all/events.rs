//! Each event of the topology is produced by doing it on ibsim, while the daemon watches; and reported with kind,
//! ends and what was before and after.

use crate::simulated;
use crate::simulated::daemon::{Daemon, Double, Manager, until};
use crate::simulated::{CRAWLER, SMALL, Simulated, start, start_unmanaged};
use std::time::Instant;
use throughline_crawler::events;
use throughline_infiniband::topology::FatTree;
use throughline_sample::Guid;
use throughline_sample::wire::Event;

/// A fabric, the daemon that watches it, and what it reported.
struct Watched {
    simulated: Simulated,
    daemon: Daemon,
    double: Double,
    /// Events that a step has seen.
    seen: usize,
    configuration: String,
    _runtime: tokio::runtime::Runtime,
}

/// Sweeps and light walks as fast as a busy site would have them; whole walks so seldom that they don't help.
const INTERVALS: &str = "[sweep]\ninterval_seconds = 0.25\n[discovery]\ninterval_seconds = 3600\n\
    light_interval_seconds = 0.25\n[events]\nstuck_seconds = 0.5\nflap_changes = 4\nflap_window_seconds = 3600\n";

impl Watched {
    fn start(net: &str, names: Option<&str>) -> Watched {
        Watched::begin(start(net), names)
    }

    fn begin(simulated: Simulated, names: Option<&str>) -> Watched {
        Watched::begin_with(simulated, names, None, INTERVALS)
    }

    /// Attached at a host, with intervals of its own.
    fn begin_with(simulated: Simulated, names: Option<&str>, at: Option<&str>, intervals: &str) -> Watched {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (double, collector) = Double::start(&runtime);
        let mut configuration = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{collector}'\n{intervals}"
        );
        if let Some(text) = names {
            let map = simulated.fabric.folder().join("names");
            std::fs::write(&map, text).unwrap();
            let key = format!("[discovery]\nnode_name_map = '{}'\n", map.display());
            configuration = configuration.replace("[discovery]\n", &key);
        }
        let command = simulated.fabric.client(CRAWLER, at).unwrap();
        let daemon = Daemon::spawn(command, &configuration, "state".into());
        let watched = Watched { simulated, daemon, double, seen: 0, configuration, _runtime: runtime };
        until("the first topology", || watched.has_marks(1));
        watched.settle();
        watched
    }

    fn has_marks(&self, least: usize) -> bool {
        self.double.batches().iter().map(|batch| batch.ib_topology_marks.len()).sum::<usize>() >= least
    }

    /// Waits for some light walks, so that what follows is a change.
    fn settle(&self) {
        let walks = || -> f64 {
            let page = self.daemon.metrics();
            let line = page.lines().find(|line| line.starts_with("throughline_light_discoveries_total"));
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
        };
        let before = walks();
        until("light walks", || walks() >= before + 2.0);
    }

    /// Does something and waits for all the events that it must make, in any order; gives them back.
    fn act(&mut self, what: &str, expected: &[(&events::Kind, Guid, u8)]) -> Vec<Event> {
        let start = Instant::now();
        self.simulated.fabric.console(what).unwrap();
        self.expect(what, start, expected)
    }

    /// Like [`act`](Self::act), where the daemon cannot walk afterwards.
    fn act_blind(
        &mut self,
        what: &str,
        start: Instant,
        expected: &[(&events::Kind, Guid, u8)],
    ) -> Vec<Event> {
        self.simulated.fabric.console(what).unwrap();
        self.find(what, start, expected)
    }

    fn expect(&mut self, what: &str, start: Instant, expected: &[(&events::Kind, Guid, u8)]) -> Vec<Event> {
        let found = self.find(what, start, expected);
        self.settle();
        self.seen = self.double.events().len();
        found
    }

    fn find(&self, what: &str, start: Instant, expected: &[(&events::Kind, Guid, u8)]) -> Vec<Event> {
        let find = |all: &[Event], (kind, guid, port): &(&events::Kind, Guid, u8)| {
            let is = |event: &&Event| {
                event.kind == kind.id && (event.ib_guid, event.ib_port) == (guid.0, u32::from(*port))
            };
            all.iter().find(is).cloned()
        };
        let new = || self.double.events()[self.seen..].to_vec();
        let name = format!("{what:?}, {expected:?}");
        let deadline = simulated::daemon::DEADLINE;
        while !expected.iter().all(|one| find(&new(), one).is_some()) {
            assert!(start.elapsed() < deadline, "{name} did not happen; but {:#?}", new());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let found: Vec<Event> = expected.iter().map(|one| find(&new(), one).unwrap()).collect();
        for event in &found {
            // A figure for people, not a condition: it is the machine's, too.
            println!("{:24} after {:6.3} s: {}", event.kind, start.elapsed().as_secs_f64(), event.text);
            assert_eq!(event.severity, events::by_id(&event.kind).unwrap().severity.name());
        }
        found
    }
}

fn host(number: usize) -> (Guid, String) {
    (FatTree::host_guid(number), FatTree::host_id(number))
}

fn leaf(number: usize) -> (Guid, String) {
    (FatTree::switch_guid(number), FatTree::switch_id(number))
}

#[test]
fn links_nodes_and_cables() {
    let mut watched = Watched::start(&SMALL.to_net().unwrap(), None);
    let ((leaf_guid, leaf_id), (host_guid, host_id)) = (leaf(0), host(0));

    // A host's cable is pulled and plugged again. With its sweep neither of its ends is on the page any more.
    let on_page = |watched: &Watched| {
        let page = watched.daemon.metrics();
        let leaf =
            format!("infiniband_switch_port_transmit_data_bytes_total{{guid=\"{leaf_guid}\",port=\"1\"}}");
        let adapters = page.matches("\ninfiniband_hca_port_transmit_data_bytes_total{").count();
        (page.contains(&leaf), adapters)
    };
    until("all ports are on the page", || on_page(&watched) == (true, SMALL.hosts));
    let reported = watched.act(
        &format!("Unlink \"{leaf_id}\"[1]"),
        &[(&events::LINK_DOWN, leaf_guid, 1), (&events::NODE_GONE, host_guid, 0)],
    );
    assert_eq!((reported[0].remote_ib_guid, reported[0].remote_ib_port), (host_guid.0, 1));
    assert_eq!((reported[0].before.as_str(), reported[0].after.as_str()), ("up", "down"));
    assert!(
        reported[0].text.contains("leaf001 port 1") && reported[0].text.contains("node0001"),
        "{}",
        reported[0].text
    );
    assert!(reported[1].before.contains("leaf001 port 1"), "where it was: {:?}", reported[1]);
    until("neither end is on the page", || on_page(&watched) == (false, SMALL.hosts - 1));
    let reported = watched.act(
        &format!("ReLink \"{leaf_id}\"[1]"),
        &[(&events::LINK_UP, leaf_guid, 1), (&events::NODE_BACK, host_guid, 0)],
    );
    assert!(reported[1].after.contains("leaf001 port 1"), "{:?}", reported[1]);

    // One cable between switches: nobody is gone.
    let uplink = (SMALL.hosts / SMALL.leafs + 1) as u8;
    watched.act(&format!("Unlink \"{leaf_id}\"[{uplink}]"), &[(&events::LINK_DOWN, leaf_guid, uplink)]);
    let kinds: Vec<String> = watched.double.events().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "node.gone").count(), 1, "{kinds:?}");
    watched.act(&format!("ReLink \"{leaf_id}\"[{uplink}]"), &[(&events::LINK_UP, leaf_guid, uplink)]);

    // A host is plugged in elsewhere: at another switch, in one go and with a pause.
    let free = SMALL.ports as u8;
    let (other_guid, other_id) = leaf(2);
    let reported = watched.act(
        &format!("Unlink \"{host_id}\"[1]\nLink \"{host_id}\"[1] \"{other_id}\"[{free}]"),
        &[(&events::CABLE_MOVED, host_guid, 1)],
    );
    assert!(reported[0].before.contains("leaf001 port 1"), "{:?}", reported[0]);
    assert!(reported[0].after.contains(&format!("leaf003 port {free}")), "{:?}", reported[0]);
    assert_eq!((reported[0].remote_ib_guid, reported[0].remote_ib_port), (other_guid.0, u32::from(free)));
    watched.act(&format!("Unlink \"{host_id}\"[1]"), &[(&events::NODE_GONE, host_guid, 0)]);
    let reported = watched.act(
        &format!("Link \"{host_id}\"[1] \"{leaf_id}\"[1]"),
        &[(&events::CABLE_MOVED, host_guid, 1), (&events::NODE_BACK, host_guid, 0)],
    );
    assert!(reported[0].before.contains(&format!("leaf003 port {free}")), "{:?}", reported[0]);

    let page = watched.daemon.metrics();
    for series in [
        "topology_events_total{source=\"discovery\",kind=\"cable.moved\"} 2",
        "topology_events_total{source=\"discovery\",kind=\"node.gone\"} 2",
    ] {
        assert!(page.contains(series), "{series} is not in\n{page}");
    }
}

/// A link that is down for less than a discovery takes to come is seen by its counter alone; ibsim's console raises it.
#[test]
fn a_link_that_was_down_for_a_moment_is_an_event() {
    let mut watched = Watched::start(&SMALL.to_net().unwrap(), None);
    let ((leaf_guid, leaf_id), (host_guid, host_id)) = (leaf(0), host(1));
    let both = format!(
        "PerformanceSet \"{leaf_id}\"[2] PortCounters.LinkDownedCounter=1\n\
         PerformanceSet \"{host_id}\"[1] PortCounters.LinkDownedCounter=1"
    );
    // Counted from what a sweep has read.
    until("a sweep", || watched.daemon.metrics().contains("infiniband_switch_port_link_downed_total"));
    let reported = watched.act(&both, &[(&events::LINK_INTERRUPTED, leaf_guid, 2)]);
    assert_eq!((reported[0].remote_ib_guid, reported[0].remote_ib_port), (host_guid.0, 1));
    assert!(
        reported[0].text.contains("leaf001 port 2") && reported[0].text.ends_with("once"),
        "{}",
        reported[0].text
    );
    let kinds: Vec<String> = watched.double.events().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["link.interrupted"], "one event for both ends");
}

#[test]
fn silence_is_not_absence() {
    let mut watched = Watched::start(&SMALL.to_net().unwrap(), None);
    let ((guid, id), (leaf_guid, leaf_id)) = (host(7), leaf(1));
    let reported = watched.act(&format!("Error \"{id}\"[1] 100"), &[(&events::NODE_SILENT, guid, 0)]);
    assert!(reported[0].text.contains("its link is up at"), "{:?}", reported[0]);
    watched.act(&format!("Error \"{id}\"[1] 0"), &[(&events::NODE_ANSWERS, guid, 0)]);
    let errors = |rate: u32| -> String {
        (0..=SMALL.ports).map(|port| format!("Error \"{leaf_id}\"[{port}] {rate}\n")).collect()
    };
    let reported = watched.act(&errors(100), &[(&events::NODE_SILENT, leaf_guid, 0)]);
    assert!(
        reported[0].text.contains("6 nodes can only be reached through silent ones"),
        "{:?}",
        reported[0]
    );
    watched.act(&errors(0), &[(&events::NODE_ANSWERS, leaf_guid, 0)]);
    let events = watched.double.events();
    assert!(events.iter().all(|event| !event.kind.starts_with("node.gone")), "{events:#?}");
    let marks: Vec<_> =
        watched.double.batches().into_iter().flat_map(|batch| batch.ib_topology_marks).collect();
    assert!(
        marks.iter().all(|mark| mark.nodes as usize == SMALL.nodes()),
        "the inventory keeps them: {marks:?}"
    );
}

#[test]
fn what_changes_of_a_node() {
    let (guid, id) = host(3);
    let names = format!("{guid} \"fileserver\"\n");
    let mut watched = Watched::start(&SMALL.to_net().unwrap(), Some(&names));

    // Another entry in the node-name map.
    let map = watched.simulated.fabric.folder().join("names");
    std::fs::write(map, format!("{guid} \"fileserver two\"\n")).unwrap();
    let reported = watched.expect("the map", Instant::now(), &[(&events::NODE_RENAMED, guid, 0)]);
    assert_eq!((reported[0].before.as_str(), reported[0].after.as_str()), ("fileserver", "fileserver two"));

    // Another LID.
    let reported = watched.act(&format!("Baselid \"{id}\"[1] 777"), &[(&events::NODE_LID, guid, 0)]);
    assert_eq!(reported[0].after, "777");
    assert!(reported[0].text.contains("fileserver two"), "{:?}", reported[0]);

    // Another adapter at the same place.
    let new = Guid(guid.0 + 0x1000_0000);
    let reported = watched.act(&format!("Guid \"{id}\" {:#x}", new.0), &[(&events::NODE_REPLACED, new, 0)]);
    assert!(
        reported[0].before.contains(&guid.to_string()) && reported[0].before.contains("fileserver two"),
        "{:?}",
        reported[0]
    );
    assert!(reported[0].after.contains(&new.to_string()), "{:?}", reported[0]);
}

#[test]
fn links_that_are_less_than_they_were() {
    let mut watched = Watched::start(&SMALL.to_net().unwrap(), None);
    // The tool runs at the first leaf, as does the crawler: its own ports are set by an empty directed route.
    let (leaf_guid, _) = leaf(0);
    let set = |what: &str, to: &str, watched: &Watched| {
        let start = Instant::now();
        watched.simulated.tool("ibportstate", &["-D", "0", "2", what, to]);
        start
    };
    let start = set("width", "1", &watched);
    let reported = watched.expect("width 1", start, &[(&events::LINK_WIDTH, leaf_guid, 2)]);
    assert_eq!((reported[0].before.as_str(), reported[0].after.as_str()), ("4xEDR", "1xEDR"));
    assert_eq!((reported[0].remote_ib_guid, reported[0].remote_ib_port), (host(1).0.0, 1));
    let start = set("width", "3", &watched);
    let reported = watched.expect("width 3", start, &[(&events::LINK_RESTORED, leaf_guid, 2)]);
    assert_eq!((reported[0].before.as_str(), reported[0].after.as_str()), ("1xEDR", "4xEDR"));
}

#[test]
fn without_a_manager_and_with_another_one() {
    let mut watched = Watched::begin(start_unmanaged(&SMALL.to_net().unwrap()), None);
    let (leaf_guid, _) = leaf(0);
    let reported = watched.expect("no manager", Instant::now(), &[(&events::PORT_STUCK, leaf_guid, 2)]);
    assert_eq!(reported[0].after, "Initialize");

    // A slower link; a manager would set it back.
    let start = Instant::now();
    watched.simulated.tool("ibportstate", &["-D", "0", "2", "espeed", "1"]);
    let reported = watched.expect("espeed 1", start, &[(&events::LINK_SPEED, leaf_guid, 2)]);
    assert_eq!((reported[0].before.as_str(), reported[0].after.as_str()), ("4xEDR", "4xFDR"));

    let start = Instant::now();
    let first = Manager::start(&watched.simulated, &host(4).1, 0);
    let reported = watched.expect("a manager", start, &[(&events::PORT_ACTIVE, leaf_guid, 2)]);
    assert_eq!((reported[0].before.as_str(), reported[0].after.as_str()), ("stuck", "Active"));
    // One that nobody queried while it lived can't be distinguished from the next one.
    let is_up = "throughline_sm_up{source=\"administration\"} 1";
    until("an answer of the first manager", || watched.daemon.metrics().contains(is_up));
    drop(first);
    let start = Instant::now();
    let _second = Manager::start(&watched.simulated, &host(9).1, 0);
    let reported = watched.expect("another manager", start, &[(&events::SM_CHANGED, host(9).0, 1)]);
    assert!(
        reported[0].before.contains("node0005") && reported[0].after.contains("node0010"),
        "{:?}",
        reported[0]
    );
}

#[test]
fn a_link_that_flaps_is_reported_as_one() {
    let mut watched = Watched::start(&SMALL.to_net().unwrap(), None);
    let (leaf_guid, leaf_id) = leaf(3);
    let port = (SMALL.hosts / SMALL.leafs + 2) as u8;
    let down = format!("Unlink \"{leaf_id}\"[{port}]");
    let up = format!("ReLink \"{leaf_id}\"[{port}]");
    watched.act(&down, &[(&events::LINK_DOWN, leaf_guid, port)]);
    watched.act(&up, &[(&events::LINK_UP, leaf_guid, port)]);
    watched.act(&down, &[(&events::LINK_DOWN, leaf_guid, port)]);
    let reported = watched.act(&up, &[(&events::LINK_FLAP, leaf_guid, port)]);
    assert!(reported[0].text.contains("4 changes"), "{:?}", reported[0]);
    watched.act(&down, &[]);
    watched.act(&up, &[]);
    watched.act(&down, &[]);
    let reported = watched.act(&up, &[(&events::LINK_FLAP, leaf_guid, port)]);
    assert!(reported[0].text.contains("8 changes"), "{:?}", reported[0]);
    let singles =
        watched.double.events().iter().filter(|e| e.kind == "link.up" || e.kind == "link.down").count();
    assert_eq!(singles, 3, "single changes of a flapping link are not reported");
}

#[test]
fn what_happens_while_nobody_watches() {
    let mut watched = Watched::start(&SMALL.to_net().unwrap(), None);
    let ((leaf_guid, leaf_id), (gone, gone_id)) = (leaf(1), host(8));
    assert_eq!(watched.daemon.stop(), 0);
    watched.simulated.fabric.console(&format!("Unlink \"{gone_id}\"[1]")).unwrap();
    let state = watched.daemon.folder.join("state");
    let start = Instant::now();
    watched.daemon = Daemon::start_in(&watched.simulated, &watched.configuration, state);
    let port = 3;
    let reported = watched.expect(
        "pulled while stopped",
        start,
        &[(&events::LINK_DOWN, leaf_guid, port), (&events::NODE_GONE, gone, 0)],
    );
    assert!(reported.iter().all(|event| event.text.starts_with("while not watched: ")), "{reported:#?}");
    watched.act(&format!("ReLink \"{leaf_id}\"[{port}]"), &[(&events::NODE_BACK, gone, 0)]);
    // What is reported of the subnet manager is not this test's.
    let events = watched.double.events();
    let reported =
        events.iter().filter(|event| event.kind.starts_with("link.") || event.kind.starts_with("node."));
    assert_eq!(reported.count(), 4, "{events:#?}");
}

#[test]
fn a_flapping_link_is_reported_steady_after_its_window() {
    let intervals = INTERVALS
        .replace("flap_changes = 4", "flap_changes = 2")
        .replace("flap_window_seconds = 3600", "flap_window_seconds = 3");
    let mut watched = Watched::begin_with(start(&SMALL.to_net().unwrap()), None, None, &intervals);
    let (leaf_guid, leaf_id) = leaf(3);
    let port = (SMALL.hosts / SMALL.leafs + 2) as u8;
    // Until two changes came within the window, which a busy machine may miss.
    let flaps = || watched.double.events().iter().any(|event| event.kind == "link.flap");
    let seen = || watched.double.events().len();
    until("flapping", || {
        for what in ["Unlink", "ReLink"] {
            let before = seen();
            watched.simulated.fabric.console(&format!("{what} \"{leaf_id}\"[{port}]")).unwrap();
            until("the change", || seen() > before || flaps());
        }
        flaps()
    });
    let reported = watched.expect("steady", Instant::now(), &[(&events::LINK_STEADY, leaf_guid, port)]);
    assert_eq!(reported[0].before, "flapping");
    // The last change was the link's return; a walk may not have seen it when the window was over.
    assert!(["up", "down"].contains(&reported[0].after.as_str()), "{:?}", reported[0]);
    assert!(
        reported[0].text.contains("leaf004") && reported[0].text.ends_with("and steady"),
        "{:?}",
        reported[0]
    );
    // What comes afterwards is reported one by one again.
    watched.act(&format!("Unlink \"{leaf_id}\"[{port}]"), &[(&events::LINK_DOWN, leaf_guid, port)]);
}

#[test]
fn the_crawlers_own_cable_is_pulled() {
    let ((guid, id), (_, leaf_id)) = (host(5), leaf(0));
    let simulated = start(&SMALL.to_net().unwrap());
    let mut watched = Watched::begin_with(simulated, None, Some(&id), INTERVALS);
    let start = Instant::now();
    let reported =
        watched.act_blind(&format!("Unlink \"{id}\"[1]"), start, &[(&events::FABRIC_CUT_OFF, guid, 1)]);
    assert_eq!((reported[0].before.as_str(), reported[0].after.as_str()), ("linked", "no link"));
    // A link elsewhere goes while nobody can see it; nothing is guessed of it.
    watched.simulated.fabric.console(&format!("Unlink \"{leaf_id}\"[1]")).unwrap();
    let reported =
        watched.act_blind(&format!("ReLink \"{id}\"[1]"), Instant::now(), &[(&events::FABRIC_SEEN, guid, 1)]);
    assert_eq!((reported[0].before.as_str(), reported[0].after.as_str()), ("no link", "linked"));
    let all = watched.double.events();
    let at = |kind: &str| all.iter().position(|event| event.kind == kind);
    assert!(at("node.gone").is_none_or(|gone| gone > at("fabric.seen").unwrap()), "{all:#?}");
    // Then what went meanwhile, and only that.
    until("what went meanwhile", || watched.double.events().iter().any(|event| event.kind == "node.gone"));
    let gone: Vec<_> =
        watched.double.events().into_iter().filter(|event| event.kind == "node.gone").collect();
    assert_eq!(gone.iter().map(|event| event.ib_guid).collect::<Vec<_>>(), [host(0).0.0], "{gone:#?}");
}

#[test]
fn counters_that_somebody_clears() {
    let mut watched = Watched::start(&SMALL.to_net().unwrap(), None);
    let (leaf_guid, leaf_id) = leaf(2);
    let set = |ports: std::ops::RangeInclusive<u8>, leaf: &str, value: u32| -> String {
        ports
            .map(|port| {
                format!("PerformanceSet \"{leaf}\"[{port}] PortCounters.SymbolErrorCounter={value}\n")
            })
            .collect()
    };
    watched.simulated.fabric.console(&set(1..=3, &leaf_id, 70)).unwrap();
    watched.simulated.fabric.console(&set(1..=2, &leaf(1).1, 70)).unwrap();
    let sweeps = || watched.double.batches().iter().map(|batch| batch.coverage.len()).sum::<usize>();
    let before = sweeps();
    until("they are read", || sweeps() >= before + 3);
    let reported = watched.act(&set(2..=2, &leaf_id, 1), &[(&events::COUNTER_CLEARED, leaf_guid, 2)]);
    assert!(
        reported[0].after.contains("leaf003") && reported[0].after.ends_with("port 2"),
        "{:?}",
        reported[0]
    );
    // Many at once are not reported one by one, however the sweep fell between them.
    let all = set(1..=3, &leaf_id, 0) + &set(1..=2, &leaf(1).1, 0);
    watched.simulated.fabric.console(&all).unwrap();
    let cleared = || -> Vec<Event> {
        let events = watched.double.events().into_iter();
        events.skip(watched.seen).filter(|event| event.kind == "counter.cleared").collect()
    };
    let named = |name: &str| cleared().iter().any(|event| event.after.contains(name));
    until("the other ports", || named("leaf002") && named("leaf003"));
    assert!(cleared().len() <= 2, "{:#?}", cleared());
}
