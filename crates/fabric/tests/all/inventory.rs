//! Crawlers on simulated fabrics, a real collector and database: what is stored of topology is right at each time.

mod routing;

use crate::simulated::daemon::Daemon;
use crate::simulated::{CRAWLER, SMALL};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use throughline_collector::Access;
use throughline_daemon::SelfMetrics;
use throughline_infiniband::topology::FatTree;
use throughline_simfabric::{Scenario, SimFabric};
use throughline_store::{Database, TermClient, Writer, testing};
use tokio::sync::Mutex;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Generous: the tests wait for conditions.
const DEADLINE: Duration = Duration::from_secs(120);

/// A database and the collector that writes into it.
pub struct Store {
    pub database: Database,
    pub client: Client,
    pub collector: String,
    _stop: DropGuard,
}

impl Store {
    pub async fn start() -> Store {
        let database: Database = testing::database().await;
        let client = database.connect().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector = listener.local_addr().unwrap().to_string();
        let stop = CancellationToken::new();
        let terms = Arc::new(Mutex::new(TermClient::new(database.clone())));
        tokio::spawn(throughline_collector::run(
            listener,
            vec![Writer::new(database.clone())],
            terms,
            throughline_collector::NoDetail,
            Access::default(),
            SelfMetrics::default(),
            "n".into(),
            stop.clone(),
        ));
        Store { database, client, collector, _stop: stop.drop_guard() }
    }

    pub async fn number(&self, query: &str, parameters: &[&(dyn ToSql + Sync)]) -> i64 {
        self.client
            .query_one(query, parameters)
            .await
            .unwrap_or_else(|error| panic!("{query}: {error}"))
            .get(0)
    }

    pub async fn until(&self, what: &str, query: &str, parameters: &[&(dyn ToSql + Sync)], expected: i64) {
        let start = Instant::now();
        loop {
            let found = self.number(query, parameters).await;
            if found == expected {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "{what}: {found} and not {expected} of {query}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for an event of a kind on a node.
    async fn event(&self, kind: &str, guid: &str) {
        let query = "SELECT count(*) FROM internal.events WHERE kind = $1 AND ib_guid = $2";
        self.until(kind, query, &[&kind, &guid], 1).await;
    }
}

/// A fabric and its crawler.
struct Watched {
    fabric: SimFabric,
    daemon: Daemon,
    _folder: tempfile::TempDir,
}

impl Watched {
    fn start(store: &Store) -> Watched {
        let scenario = Scenario::new(SMALL.to_net().unwrap());
        Watched::of(store, SimFabric::start(&scenario).unwrap(), 3600)
    }

    /// A crawler of a fabric, with seconds from one whole walk to the next.
    fn of(store: &Store, fabric: SimFabric, interval: u32) -> Watched {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(CRAWLER);
        command.arg("--transport").arg(fabric.via().to_string()).current_dir(folder.path());
        let configuration = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{}'\n[sweep]\n\
             interval_seconds = 0.25\n[discovery]\ninterval_seconds = {interval}\nlight_interval_seconds = 0.25\n",
            store.collector
        );
        let daemon = Daemon::spawn(command, &configuration, "state".into());
        Watched { fabric, daemon, _folder: folder }
    }

    /// Waits until walks that had begun are over; the time before.
    async fn checkpoint(&self) -> SystemTime {
        let time = SystemTime::now();
        let walks = || -> f64 {
            let page = self.daemon.metrics();
            let line = page.lines().find(|line| line.starts_with("throughline_light_discoveries_total"));
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
        };
        let (start, before) = (Instant::now(), walks());
        while walks() < before + 2.0 {
            assert!(start.elapsed() < DEADLINE, "no light walks");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        time
    }
}

fn host(number: usize) -> (String, String) {
    (FatTree::host_guid(number).to_string(), FatTree::host_description(number))
}

const NODES: &str = "SELECT count(*) FROM internal.ib_node WHERE valid_to IS NULL";
const LINKS: &str = "SELECT count(*) FROM internal.ib_link WHERE valid_to IS NULL";
/// Nodes that there were at a time.
const NODES_AT: &str =
    "SELECT count(*) FROM internal.ib_node WHERE valid_from <= $1 AND (valid_to IS NULL OR valid_to > $1)";

/// Where a host's first port was plugged in at a time, as node and port; by the cables and by the ports.
async fn place(store: &Store, guid: &str, at: SystemTime) -> [Vec<(String, i32)>; 2] {
    const BY_LINK: &str = "SELECT rn.guid, rk.port FROM internal.ib_link l JOIN internal.ib_port_key k ON k.id IN (port_a_id, port_b_id) \
        JOIN internal.ib_node_key n ON n.id = k.ib_node_id \
        JOIN internal.ib_port_key rk ON rk.id IN (port_a_id, port_b_id) AND rk.id <> k.id \
        JOIN internal.ib_node_key rn ON rn.id = rk.ib_node_id \
        WHERE n.guid = $1 AND valid_from <= $2 AND (valid_to IS NULL OR valid_to > $2)";
    const BY_PORT: &str = "SELECT rn.guid, rk.port FROM internal.ib_port p JOIN internal.ib_node_key n ON n.id = p.ib_node_id \
        JOIN internal.ib_port_key rk ON rk.id = p.remote_port_id JOIN internal.ib_node_key rn ON rn.id = rk.ib_node_id \
        WHERE n.guid = $1 AND valid_from <= $2 AND (valid_to IS NULL OR valid_to > $2)";
    let mut found = [Vec::new(), Vec::new()];
    for (query, into) in [BY_LINK, BY_PORT].into_iter().zip(&mut found) {
        let rows = store.client.query(query, &[&guid, &at]).await.unwrap();
        *into = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    }
    found
}

/// LIDs of a node at a time: its own and its ports'.
async fn lids(store: &Store, guid: &str, at: SystemTime) -> Vec<i32> {
    const QUERY: &str = "SELECT lid FROM internal.ib_node WHERE guid = $1 AND valid_from <= $2 AND (valid_to IS NULL OR \
        valid_to > $2) UNION ALL SELECT p.lid FROM internal.ib_port p JOIN internal.ib_node_key n ON n.id = p.ib_node_id \
        WHERE n.guid = $1 AND valid_from <= $2 AND (valid_to IS NULL OR valid_to > $2)";
    store.client.query(QUERY, &[&guid, &at]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// No range ends before it begins, and none of a thing begins before its former one ended.
async fn assert_ranges(store: &Store) {
    for (table, key) in [
        ("ib_node", "ib_node_id"),
        ("ib_port", "port_id"),
        ("ib_link", "port_a_id, port_b_id"),
        ("ib_lft", "ib_node_id"),
    ] {
        let query = format!(
            "SELECT count(*) FROM (SELECT valid_from, valid_to, lag(valid_to, 1, '-infinity') OVER w AS ended \
             FROM internal.{table} WINDOW w AS (PARTITION BY {key} ORDER BY valid_from)) r \
             WHERE valid_to < valid_from OR ended IS NULL OR ended > valid_from"
        );
        assert_eq!(store.number(&query, &[]).await, 0, "ranges of {table} overlap");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inventory_is_right_at_each_time() {
    let store = Store::start().await;
    let watched = Watched::start(&store);
    store.until("all nodes", NODES, &[], SMALL.nodes() as i64).await;
    store.until("all cables", LINKS, &[], 40).await;
    let whole = watched.checkpoint().await;
    let leaf = |number: usize| FatTree::switch_guid(number).to_string();

    // A node goes and comes back.
    let (guid, name) = host(8);
    watched.fabric.control(&format!("remove \"{name}\"")).unwrap();
    store.event("node.gone", &guid).await;
    store.until("one cable less", LINKS, &[], 39).await;
    let without = watched.checkpoint().await;
    watched.fabric.control(&format!("restore \"{name}\"")).unwrap();
    store.event("node.back", &guid).await;
    store.until("the cable again", LINKS, &[], 40).await;
    let back = watched.checkpoint().await;

    // Another host's cable is plugged in elsewhere.
    let (moved, moved_name) = host(2);
    let free = i32::try_from(SMALL.ports).unwrap();
    watched.fabric.control(&format!("cable \"{moved_name}\" 1 leaf003 {free}")).unwrap();
    store.event("cable.moved", &moved).await;
    let elsewhere = watched.checkpoint().await;

    // A third one gets another LID.
    let (readdressed, readdressed_name) = host(4);
    watched.fabric.control(&format!("sweep off\nlid \"{readdressed_name}\" 1 777")).unwrap();
    store.event("node.lid_changed", &readdressed).await;
    let end = watched.checkpoint().await;

    let nodes = SMALL.nodes() as i64;
    for (at, expected) in
        [(whole, nodes), (without, nodes - 1), (back, nodes), (elsewhere, nodes), (end, nodes)]
    {
        assert_eq!(store.number(NODES_AT, &[&at]).await, expected);
    }
    let both = |place: Vec<(String, i32)>| [place.clone(), place];
    let at_home = both(vec![(leaf(1), 3)]);
    assert_eq!(place(&store, &guid, whole).await, at_home);
    assert_eq!(place(&store, &guid, without).await, both(vec![]));
    assert_eq!(place(&store, &guid, back).await, at_home);
    assert_eq!(place(&store, &moved, back).await, both(vec![(leaf(0), 3)]));
    for at in [elsewhere, end] {
        assert_eq!(place(&store, &moved, at).await, both(vec![(leaf(2), free)]));
    }
    let before = lids(&store, &readdressed, elsewhere).await;
    assert!(before.len() == 2 && before[0] == before[1] && before[0] != 777, "{before:?}");
    assert_eq!(lids(&store, &readdressed, end).await, [777, 777]);
    // The rest is as it was: nothing ended that nobody touched.
    const ENDED: &str = "SELECT count(DISTINCT guid) FROM internal.ib_node WHERE valid_to IS NOT NULL";
    assert_eq!(store.number(ENDED, &[]).await, 2, "the node that went, and the one with another LID");
    assert_ranges(&store).await;
}

/// Members of a group with this MLID now; -1 where they are not known, -2 without the group.
const MEMBERS: &str = "SELECT coalesce((SELECT coalesce(member_count, -1)::bigint FROM internal.ib_multicast_group \
    WHERE mlid = $1 AND valid_to IS NULL), -2)";

#[tokio::test(flavor = "multi_thread")]
async fn multicast_groups_are_stored_with_their_members() {
    let store = Store::start().await;
    let fabric = SimFabric::start(&Scenario::new(SMALL.to_net().unwrap())).unwrap();
    let [a, b, c] = [3, 20, 7].map(FatTree::host_description);
    let group = |members: &str| format!("group ff12401bffff000000000000000000fb 0xC005 {members}");
    fabric.control(&group(&format!("\"{a}\" \"{b}\""))).unwrap();
    let watched = Watched::of(&store, fabric, 1);
    store.until("all hosts", MEMBERS, &[&0xC000], SMALL.hosts as i64).await;
    store.until("two members", MEMBERS, &[&0xC005], 2).await;
    const NAMED: &str = "SELECT count(*) FROM internal.ib_multicast_group g JOIN internal.fabric s ON s.id = g.fabric_id \
        WHERE s.name = $1 AND (g.mgid, g.name, g.pkey, g.mtu_bytes) IN \
        (('ff12:401b:ffff::ffff:ffff', 'IPoIB broadcast', 65535, 4096), \
         ('ff12:401b:ffff::fb', 'IPoIB 224.0.0.251 mDNS', 65535, 4096)) AND valid_to IS NULL";
    let name = format!("fabric-{:06x}", FatTree::switch_guid(0).0 & 0xff_ffff);
    assert_eq!(store.number(NAMED, &[&name]).await, 2);
    const HAS: &str = "SELECT count(*) FROM internal.ib_multicast_group WHERE mlid = $1 AND members ? $2 AND valid_to IS NULL";
    let guid = |number: usize| FatTree::host_port_guid(number).to_string();
    assert_eq!(store.number(HAS, &[&0xC005, &guid(20)]).await, 1);

    // Others join; the former members stay in the history.
    watched.fabric.control(&group(&format!("\"{a}\" \"{c}\""))).unwrap();
    const IS_NEW: &str = "SELECT count(*) FROM internal.ib_multicast_group n JOIN internal.ib_multicast_group o USING (fabric_id, mgid) \
        WHERE n.members ? $1 AND n.valid_to IS NULL AND o.members ? $2 AND o.valid_to = n.valid_from";
    store.until("another member", IS_NEW, &[&guid(7), &guid(20)], 1).await;

    // Who does not know the SM_Key gets groups without members, and that is counted.
    watched.fabric.control("sm-key 0x77").unwrap();
    store.until("members unknown", MEMBERS, &[&0xC005], -1).await;
    let page = watched.daemon.metrics();
    let reason = "throughline_unread_multicast_groups_total{source=\"administration\",reason=\"members_not_reported\"}";
    assert!(page.lines().any(|line| line.starts_with(reason)), "{page}");
}
