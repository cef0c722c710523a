//! Places of ranks that become known one after the other, and a site without places.

use super::*;

#[tokio::test]
async fn a_rank_that_starts_later_has_its_part_from_then_on() {
    let mut site = Site::new(90).await;
    site.run(60, None).await;
    let start = UNIX_EPOCH + Duration::from_nanos(site.at(15.0) as u64);
    let later = "UPDATE internal.job_rank SET start_time = $1 WHERE rank = 1";
    assert_eq!(site.client.execute(later, &[&start]).await.unwrap(), 2);
    site.begin_with(0.0).await;
    site.make().await;
    let whole = (ALICE + BOB + STRANGER) * 10;
    assert!(
        !site.rows(LEAF[0], 4, 10.0).await.contains_key("job alice alltoall"),
        "its receiver is not known"
    );
    for end in [20.0, 30.0] {
        let rows = site.rows(LEAF[0], 4, end).await;
        assert!(is_near(rows["job alice alltoall"].0, ALICE * 10, whole, 0.5), "{end}: {rows:#?}");
    }
}

/// Rows of the uplink where hosts name their adapters and read no ports, and ranks use these ones.
async fn of_named_adapters(ports: &str) -> BTreeMap<String, (i64, String, Option<i64>)> {
    let mut site = Site::new(90).await;
    site.run(60, None).await;
    let named = format!(
        "UPDATE internal.node n SET hca_guids = (SELECT array_agg(guid) FROM internal.host_port_key h WHERE h.node_id = n.node_id);
         DELETE FROM internal.host_port_counters; DELETE FROM internal.host_port_key; UPDATE internal.job_rank SET hca_ports = {ports}"
    );
    site.client.batch_execute(&named).await.unwrap();
    site.begin_with(0.0).await;
    site.make().await;
    site.rows(LEAF[0], 4, 20.0).await
}

#[tokio::test]
async fn hosts_that_only_name_their_adapters_have_their_part() {
    let whole = (ALICE + BOB + STRANGER) * 10;
    let rows = of_named_adapters("NULL").await;
    assert!(is_near(rows["job alice alltoall"].0, ALICE * 10, whole, 0.5), "{rows:#?}");
    let rows = of_named_adapters("'{}'").await;
    assert!(!rows.contains_key("job alice alltoall"), "ranks that are known to use no port: {rows:#?}");
}

#[tokio::test]
async fn without_a_fabric_there_is_nothing_to_do() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let (mut cache, groups, retention) = (LinkShareCache::default(), Groups::default(), Retention::default());
    let made = make_link_shares(&mut client, &mut cache, &groups, &retention, PATIENCE).await;
    assert_eq!(made.unwrap(), LinkSharesMade::default());
}
