//! Two fabrics with equal prefixes, node descriptions and LIDs, a real collector and database: each port's rows are of its own
//! fabric, whatever happens to crawlers, managers, prefixes and cables.

use crate::inventory::Store;
use crate::simulated::daemon::{DEADLINE, Daemon};
use crate::simulated::{CRAWLER, SMALL};
use std::process::Command;
use std::time::{Duration, Instant};
use throughline_infiniband::topology::FatTree;
use throughline_simfabric::{Scenario, SimFabric};

/// The same fabric with other GUIDs.
fn other_guids(net: &str) -> String {
    net.replace("2c902", "2c9a2").replace("2c903", "2c9a3")
}

/// What both are called, as nobody names them.
const NAME: &str = "fabric-000010";
/// The second has more digits: its lowest switch GUID ends in the same ones.
const OTHER: &str = "fabric-0000010";

/// A crawler that can be killed and started again with its state.
struct Crawler {
    via: String,
    configuration: String,
    folder: tempfile::TempDir,
    daemon: Option<Daemon>,
}

impl Crawler {
    fn start(store: &Store, fabric: &SimFabric, more: &str) -> Crawler {
        let configuration = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{}'\n[sweep]\ninterval_seconds = 0.25\n\
             [discovery]\ninterval_seconds = 3600\nlight_interval_seconds = 0.25\n[standby]\nlease_seconds = 2\n{more}",
            store.collector
        );
        let folder = tempfile::tempdir().unwrap();
        let mut crawler = Crawler { via: fabric.via().to_string(), configuration, folder, daemon: None };
        crawler.again();
        crawler
    }

    fn again(&mut self) {
        let mut command = Command::new(CRAWLER);
        command.arg("--transport").arg(&self.via).current_dir(self.folder.path());
        self.daemon = Some(Daemon::spawn(command, &self.configuration, "state".into()));
    }

    /// As by SIGKILL.
    fn kill(&mut self) {
        self.daemon = None;
    }

    /// Waits until `/healthz` says so; the page.
    async fn says(&self, what: &str, condition: impl Fn(u16, &str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let (status, page) = self.daemon.as_ref().unwrap().health();
            if condition(status, &page) {
                return page;
            }
            assert!(start.elapsed() < DEADLINE, "{what}: {status} {page}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Counts of a fabric's things.
const NODES: &str = "SELECT count(*) FROM internal.ib_node n JOIN internal.ib_node_key k ON k.id = n.ib_node_id \
    JOIN internal.fabric f ON f.id = k.fabric_id WHERE f.name = $1 AND n.valid_to IS NULL";
const ROUNDS: &str =
    "SELECT count(*) FROM internal.coverage WHERE source = 'mad' AND internal.instance_name(instance) = $1";
/// A version that another one follows at once is no end: what a switch reports of its routing may come in a later batch.
const ENDED: &str = "SELECT count(*) FROM internal.ib_node n WHERE n.valid_to IS NOT NULL AND NOT EXISTS \
    (SELECT FROM internal.ib_node next WHERE next.ib_node_id = n.ib_node_id AND next.valid_from = n.valid_to)";
const EVENTS: &str = "SELECT count(*) FROM internal.events WHERE kind = $1";

/// Waits for more sweeps of a fabric.
async fn swept_again(store: &Store, fabric: &str) {
    let before = store.number(ROUNDS, &[&fabric]).await;
    let start = Instant::now();
    while store.number(ROUNDS, &[&fabric]).await < before + 3 {
        assert!(start.elapsed() < DEADLINE, "no sweep of {fabric}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Readings of a host's port in a fabric that are not what its simulator has.
async fn wrong_readings(store: &Store, fabric: &str, guid: &str, truth: i64) -> i64 {
    const WRONG: &str = "SELECT count(*) FROM internal.ib_port_counters c JOIN public.ib_port_named p USING (port_id) \
        WHERE p.guid = $2 AND p.port = 1 AND NOT (p.fabric = $1 AND c.symbol_error = $3)";
    store.number(WRONG, &[&fabric, &guid, &truth]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fabric_has_its_own_rows_whatever_happens() {
    let store = Store::start().await;
    let net = SMALL.to_net().unwrap();
    let fabrics = [net.clone(), other_guids(&net)].map(|net| SimFabric::start(&Scenario::new(net)).unwrap());
    let (names, factors) = ([NAME, OTHER], [100_u64, 1000]);
    for (fabric, factor) in fabrics.iter().zip(factors) {
        let errors = |host: usize| {
            let (name, errors) = (FatTree::host_description(host), factor + host as u64);
            format!("counter \"{name}\" 1 SymbolErrorCounter {errors}\n")
        };
        fabric.control(&(0..SMALL.hosts).map(errors).collect::<String>()).unwrap();
    }
    let nodes = SMALL.nodes() as i64;
    let mut crawlers = Vec::new();
    for (fabric, name) in fabrics.iter().zip(names) {
        crawlers.push(Crawler::start(&store, fabric, ""));
        store.until("all nodes", NODES, &[&name], nodes).await;
    }
    for fabric in &fabrics {
        crawlers.push(Crawler::start(&store, fabric, ""));
    }
    for (standby, name) in crawlers[2..].iter().zip(names) {
        let page = standby.says("standing by", |_, page| page.contains("standing by")).await;
        assert!(page.contains(name), "{page}");
    }
    // Which of the four are killed, which start again.
    for round in [0b0011, 0b1100, 0b0101, 0b1010, 0b0001, 0b1111_u32] {
        for (number, crawler) in crawlers.iter_mut().enumerate() {
            if round >> number & 1 == 1 {
                crawler.kill();
                crawler.again();
            }
        }
        match round {
            // The manager fails over to another port, in both.
            0b1100 => {
                for fabric in &fabrics {
                    let host = FatTree::host_description(5);
                    fabric.control(&format!("manager \"{host}\"")).unwrap();
                }
            }
            // The prefix is set while crawlers run.
            0b0101 => drop(fabrics[0].control("prefix 0xfec0000000000001").unwrap()),
            _ => {}
        }
        for name in names {
            swept_again(&store, name).await;
        }
    }
    assert_eq!(store.number("SELECT count(*) FROM internal.fabric", &[]).await, 2);
    for (name, factor) in names.iter().zip(factors) {
        store.until("all nodes", NODES, &[name], nodes).await;
        for host in 0..SMALL.hosts {
            let guid = FatTree::host_guid(host).to_string();
            let guid = if *name == NAME { guid } else { guid.replace("2c903", "2c9a3") };
            let truth = i64::try_from(factor).unwrap() + host as i64;
            assert_eq!(wrong_readings(&store, name, &guid, truth).await, 0, "host {host} of {name}");
        }
    }
    assert_eq!(store.number(ENDED, &[]).await, 0, "nothing has gone");
    const PREFIXES: &str = "SELECT count(*) FROM internal.fabric_attribute a JOIN internal.fabric f ON f.id = a.fabric_id \
        WHERE f.name = $1 AND a.prefix = '0xfec0000000000001' AND a.valid_to IS NULL";
    store.until("the new prefix", PREFIXES, &[&NAME], 1).await;
    assert_eq!(store.number(PREFIXES, &[&OTHER]).await, 0);
    // A link between them is none of either.
    const ACROSS: &str = "SELECT count(*) FROM internal.ib_link l JOIN internal.ib_port_key a ON a.id = l.port_a_id \
        JOIN internal.ib_node_key an ON an.id = a.ib_node_id JOIN internal.ib_port_key b ON b.id = l.port_b_id \
        JOIN internal.ib_node_key bn ON bn.id = b.ib_node_id WHERE an.fabric_id <> bn.fabric_id";
    assert_eq!(store.number(ACROSS, &[]).await, 0);

    // The first one's devices die: none of its crawlers stands by for anybody.
    let [first, _second] = fabrics;
    drop(first);
    for crawler in [&crawlers[0], &crawlers[2]] {
        crawler.says("failing", |status, page| status == 503 && !page.contains("standing by")).await;
    }
    swept_again(&store, OTHER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_file_on_two_fabrics_is_refused_with_both_names() {
    let store = Store::start().await;
    let net = SMALL.to_net().unwrap();
    let fabrics = [net.clone(), other_guids(&net)].map(|net| SimFabric::start(&Scenario::new(net)).unwrap());
    let named = "[fabric]\nname = 'compute'\n";
    let mut first = Crawler::start(&store, &fabrics[0], named);
    store.until("all nodes", NODES, &[&"compute"], SMALL.nodes() as i64).await;
    // Also while nobody has the lease.
    first.kill();
    let second = Crawler::start(&store, &fabrics[1], named);
    let page = second.says("refused", |status, page| status == 503 && page.contains("compute")).await;
    assert!(page.contains("fabric-000010"), "{page}");
    first.again();
    swept_again(&store, "compute").await;
    assert_eq!(store.number("SELECT count(*) FROM internal.fabric", &[]).await, 1);
    assert_eq!(store.number(NODES, &[&"compute"]).await, SMALL.nodes() as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cable_between_two_fabrics_and_its_removal_end_nothing() {
    let store = Store::start().await;
    let net = SMALL.to_net().unwrap();
    // One simulator has both, without a cable between them. Each has had a manager.
    let (host, other_host) =
        (FatTree::host_guid(0).to_string(), FatTree::host_guid(0).to_string().replace("2c903", "2c9a3"));
    let scenario = Scenario::new(format!("{net}\n{}", other_guids(&net)));
    let scenario = scenario.with(format!("manager {other_host}")).with(format!("manager {host}"));
    let fabric = SimFabric::start(&scenario).unwrap();
    let more = |host: &str| format!("[device]\nca = '{host}'\n[fabric]\nagreement_seconds = 3600\n");
    let nodes = SMALL.nodes() as i64;
    let a = Crawler::start(&store, &fabric, &more(&host));
    store.until("all nodes", NODES, &[&NAME], nodes).await;
    let b = Crawler::start(&store, &fabric, &more(&other_host));
    store.until("all nodes", NODES, &[&OTHER], nodes).await;
    let (leaf, free) = (FatTree::switch_guid(0).to_string(), SMALL.ports);
    let other_leaf = leaf.replace("2c902", "2c9a2");
    fabric.control(&format!("cable {leaf} {free} {other_leaf} {free}")).unwrap();
    for crawler in [&a, &b] {
        let page =
            crawler.says("waiting", |status, page| status == 503 && page.contains("several fabrics")).await;
        assert!([NAME, OTHER].iter().all(|name| page.contains(name)), "{page}");
    }
    store.until("one event", EVENTS, &[&"fabric.merged"], 1).await;
    for name in [NAME, OTHER] {
        assert_eq!(store.number(NODES, &[&name]).await, nodes, "{name}");
    }
    assert_eq!(store.number(ENDED, &[]).await, 0);
    fabric.control(&format!("uncable {leaf} {free}")).unwrap();
    for (crawler, name) in [(&a, NAME), (&b, OTHER)] {
        crawler.says("well", |status, page| status == 200 && !page.contains("several fabrics")).await;
        swept_again(&store, name).await;
        assert_eq!(store.number(NODES, &[&name]).await, nodes, "{name}");
    }
    assert_eq!(store.number(ENDED, &[]).await, 0, "what never went has not ended");
    assert_eq!(store.number("SELECT count(*) FROM internal.fabric", &[]).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_walks_agree_on_for_a_while_is_accepted() {
    let store = Store::start().await;
    let net = SMALL.to_net().unwrap();
    let (host, other_host) =
        (FatTree::host_guid(0).to_string(), FatTree::host_guid(0).to_string().replace("2c903", "2c9a3"));
    let fabric = SimFabric::start(&Scenario::new(format!("{net}\n{}", other_guids(&net)))).unwrap();
    let more = |host: &str| format!("[device]\nca = '{host}'\n[fabric]\nagreement_seconds = 0.5\n");
    let nodes = SMALL.nodes() as i64;
    let _a = Crawler::start(&store, &fabric, &more(&host));
    store.until("all nodes", NODES, &[&NAME], nodes).await;
    let _b = Crawler::start(&store, &fabric, &more(&other_host));
    store.until("all nodes", NODES, &[&OTHER], nodes).await;
    let (leaf, free) = (FatTree::switch_guid(0).to_string(), SMALL.ports);
    let other_leaf = leaf.replace("2c902", "2c9a2");
    fabric.control(&format!("cable {leaf} {free} {other_leaf} {free}")).unwrap();
    store.until("one fabric", NODES, &[&NAME], 2 * nodes).await;
    store.until("the other is a part of it", NODES, &[&OTHER], 0).await;
    swept_again(&store, NAME).await;
}
