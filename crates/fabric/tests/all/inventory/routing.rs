//! How switches route, from what they report to what is stored, and to shares of links that are bounds.

use super::*;
use throughline_store::{Groups, LinkShareCache, Retention, make_link_shares};

const KNOWN: &str = "SELECT count(*) FROM internal.ib_node WHERE valid_to IS NULL AND routing = $1";

/// How a switch routes, with its history: kinds in order of time.
async fn routing(store: &Store, guid: &str) -> Vec<Option<String>> {
    let query = "SELECT routing FROM internal.ib_node WHERE guid = $1 ORDER BY valid_from";
    store.client.query(query, &[&guid]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn how_switches_route_is_stored_as_they_report_it() {
    let store = Store::start().await;
    // Device 0x1234 is none that is known to report: it is not queried, whatever it would say.
    let silent = FatTree::switch_guid(1);
    let device = format!("devid=0xcf08\nsysimgguid={:#x}\n", silent.0);
    let net = SMALL.to_net().unwrap();
    assert!(net.contains(&device));
    let net = net.replace(&device, &device.replace("0xcf08", "0x1234"));
    let spine = FatTree::switch_guid(SMALL.leafs).to_string();
    let scenario = Scenario::new(net).with("adaptive switches off").with("adaptive spine001 on");
    let watched = Watched::of(&store, SimFabric::start(&scenario).unwrap(), 1);
    store.until("one adaptive switch", KNOWN, &[&"adaptive"], 1).await;
    store.until("the others are static", KNOWN, &[&"static"], (SMALL.switches() - 2) as i64).await;
    assert_eq!(routing(&store, &silent.to_string()).await, [None]);
    assert_eq!(routing(&store, &spine).await.last().unwrap().as_deref(), Some("adaptive"));

    // It is switched off: a row ends and another one begins.
    watched.fabric.control("adaptive spine001 off").unwrap();
    store.until("no adaptive switch", KNOWN, &[&"adaptive"], 0).await;
    let kinds = routing(&store, &spine).await;
    let [.., before, now] = kinds.as_slice() else { panic!("{kinds:?}") };
    assert_eq!([before.as_deref(), now.as_deref()], [Some("adaptive"), Some("static")]);
    assert_ranges(&store).await;
}

/// Shares of unmonitored hosts of ports from a leaf to the spines, in the last window: names, and whether they are bounds.
async fn upward(store: &Store, leaf: &str) -> Vec<(String, bool)> {
    let query = "SELECT DISTINCT s.name, s.is_bound FROM internal.link_shares s
        JOIN internal.ib_port p ON p.port_id = s.port_id AND p.valid_to IS NULL
        JOIN internal.ib_node n ON n.ib_node_id = p.ib_node_id AND n.valid_to IS NULL
        JOIN internal.ib_port_key q ON q.id = p.remote_port_id
        JOIN internal.ib_node r ON r.ib_node_id = q.ib_node_id AND r.valid_to IS NULL AND r.type = 'switch'
        WHERE s.contributor = 'host' AND n.description = $1 AND s.time = (SELECT max(time) FROM internal.link_shares)";
    let rows = store.client.query(query, &[&leaf]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_are_bounds_behind_a_switch_that_reports_adaptive_routing() {
    let store = Store::start().await;
    let (first, last) = (FatTree::host_description(0), FatTree::host_description(SMALL.hosts - 1));
    let pair = |from: &str, to: &str, rate: &str| format!("traffic pair \"{from}\" \"{to}\" {rate}");
    let scenario = Scenario::new(SMALL.to_net().unwrap())
        .with("adaptive switches off")
        .with("adaptive leaf001 on")
        .with(pair(&first, &last, "1G"))
        .with(pair(&last, &first, "2G"));
    let _watched = Watched::of(&store, SimFabric::start(&scenario).unwrap(), 3600);
    store.until("the others are static", KNOWN, &[&"static"], (SMALL.switches() - 1) as i64).await;
    store.until("one adaptive switch", KNOWN, &[&"adaptive"], 1).await;
    // Windows from now on: the first one is made when it is over.
    let begin =
        "UPDATE internal.link_share_state SET computed_until = date_bin('10 seconds', now(), 'epoch')";
    store.client.execute(begin, &[]).await.unwrap();
    let mut writer = store.database.connect().await.unwrap();
    let (mut cache, groups, retention) = (LinkShareCache::default(), Groups::default(), Retention::default());
    let start = Instant::now();
    loop {
        make_link_shares(&mut writer, &mut cache, &groups, &retention, Duration::ZERO).await.unwrap();
        let (adaptive, fixed) = (upward(&store, "leaf001").await, upward(&store, "leaf004").await);
        if !adaptive.is_empty() && !fixed.is_empty() {
            let name = |description: &str| description.split(' ').next().unwrap().to_owned();
            assert_eq!(adaptive, [(name(&first), true)]);
            assert_eq!(fixed, [(name(&last), false)]);
            return;
        }
        assert!(start.elapsed() < DEADLINE, "no shares: {adaptive:?} {fixed:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
