//! Places of ranks that become known one after the other, and a site without places.

use super::*;

#[tokio::test]
async fn a_rank_that_starts_later_has_its_part_from_then_on() {
    let mut site = Site::new(90).await;
    site.run(60, None).await;
    let start = UNIX_EPOCH + Duration::from_nanos(site.at(15.0) as u64);
    let later = "UPDATE job_rank SET start_time = $1 WHERE rank = 1";
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

#[tokio::test]
async fn without_a_fabric_there_is_nothing_to_do() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let (mut cache, groups, retention) = (LinkShareCache::default(), Groups::default(), Retention::default());
    let made = make_link_shares(&mut client, &mut cache, &groups, &retention, PATIENCE).await;
    assert_eq!(made.unwrap(), LinkSharesMade::default());
}
