//! A second way between the leaves: one way by the tables until a switch reports that it routes adaptively, or until a host
//! has several LIDs. From then on shares of what may take either are bounds, in the same process.

use super::*;

/// A second spine, at port 5 of the leaves.
const OTHER: u64 = 0x22;
/// When the discovery that changes something was made.
const CHANGED: f64 = 30.0;

/// The fabric with the second spine, which tables use for nothing but LID 13. Switches route statically.
fn discovery(site: &Site, at: f64, change: impl Fn(&mut IbNodeInfo)) -> Batch {
    let generation = site.at(at);
    let switches = [(LEAF[0], "leaf1"), (LEAF[1], "leaf2"), (SPINE, "spine"), (OTHER, "other")];
    let switches =
        switches.iter().zip(1..).map(|((guid, name), lid)| node(*guid, "switch", name, lid, generation));
    let hosts = HOSTS.iter().zip(5..).map(|((guid, name), lid)| node(*guid, "ca", name, lid, generation));
    let mut nodes: Vec<IbNodeInfo> = switches.chain(hosts).collect();
    let port = |port, remote, remote_port| IbPortInfo {
        port,
        remote_guid: Some(remote),
        remote_port: Some(remote_port),
        state: "Active".into(),
        rate_bytes_per_second: SPEED,
        ..IbPortInfo::default()
    };
    for node in &mut nodes {
        match node.guid {
            guid if guid == LEAF[0] => node.ports.push(port(5, OTHER, 1)),
            guid if guid == LEAF[1] => node.ports.push(port(5, OTHER, 2)),
            OTHER => {
                node.ports = vec![port(1, LEAF[0], 5), port(2, LEAF[1], 5)];
                node.linear_forwarding_table = vec![255, 1, 2, 255, 0, 1, 1, 1, 2, 2, 2];
            }
            _ => {}
        }
        if node.r#type == "switch" {
            node.routing = Some("static".into());
            // LIDs 11 to 13: of nobody, and two that a host of the second leaf may get.
            let to_second: [u8; 3] = match node.guid {
                guid if guid == LEAF[0] => [255, 4, 5],
                guid if guid == LEAF[1] => [255, 1, 1],
                _ => [255, 2, 2],
            };
            node.linear_forwarding_table.extend(to_second);
        }
        change(node);
    }
    let mark = IbTopologyMark { generation, time: generation, nodes: 10, links: 10 };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_nodes: nodes,
        ib_topology_marks: vec![mark],
        ..Batch::default()
    }
}

/// Which jobs' shares of the first leaf's port 4 are bounds, by the window's end.
async fn bounds(site: &Site, end: f64) -> BTreeMap<String, bool> {
    let sql =
        "SELECT j.user_name, s.is_bound, s.low_bytes < s.bytes OR s.bytes < s.high_bytes FROM internal.link_shares s
               JOIN internal.run j ON j.id = s.job_id JOIN internal.ib_port_key p ON p.id = s.port_id
               JOIN internal.ib_node_key k ON k.id = p.ib_node_id WHERE k.guid = $1 AND p.port = 4 AND s.time = $2";
    let time = UNIX_EPOCH + Duration::from_nanos(site.at(end).cast_unsigned());
    let rows = site.client.query(sql, &[&format!("0x{:016x}", LEAF[0]), &time]).await.unwrap();
    let bound = |row: &tokio_postgres::Row| -> (String, bool) {
        let (is_bound, is_open): (bool, bool) = (row.get(1), row.get(2));
        assert!(is_open || !is_bound, "a bound has room");
        (row.get(0), is_bound)
    };
    rows.iter().map(bound).collect()
}

/// Windows before and after the change, made one after the other with what is cached.
async fn before_and_after(change: impl Fn(&mut IbNodeInfo)) -> [BTreeMap<String, bool>; 2] {
    let mut site = Site::new(90).await;
    let first = discovery(&site, -50.0, |_| {});
    site.write(1, first).await;
    let second = discovery(&site, CHANGED, change);
    site.write(1, second).await;
    site.run(60, None).await;
    site.begin_with(0.0).await;
    site.make().await;
    assert!(site.check_sums().await > 0);
    [bounds(&site, CHANGED - 10.0).await, bounds(&site, CHANGED + 20.0).await]
}

fn jobs(alice: bool, bob: bool) -> BTreeMap<String, bool> {
    BTreeMap::from([("alice".to_owned(), alice), ("bob".to_owned(), bob)])
}

#[tokio::test]
async fn shares_are_bounds_where_a_switch_routes_adaptively() {
    let adaptive = |node: &mut IbNodeInfo| {
        if node.guid == LEAF[0] {
            node.routing = Some("adaptive".into());
        }
    };
    assert_eq!(before_and_after(adaptive).await, [jobs(false, false), jobs(true, true)]);
}

#[tokio::test]
async fn shares_are_bounds_where_a_host_has_several_lids() {
    // Alice's second host gets LIDs 12 and 13; the way to 13 is by the other spine.
    let with_lids = |node: &mut IbNodeInfo| {
        if node.guid == HOSTS[3].0 {
            node.lid = 12;
            node.ports.iter_mut().for_each(|port| (port.lid, port.lmc) = (12, Some(1)));
        }
    };
    assert_eq!(before_and_after(with_lids).await, [jobs(false, false), jobs(true, false)]);
}
