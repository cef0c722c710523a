//! Marks of time that a clock left ahead, and numbers whose names it removed.

use std::time::Duration;

use throughline_sample::wire::Batch;
use throughline_store::{
    ClockState, Groups, LinkShareCache, Retention, Writer, make_link_shares, make_rollups, testing,
};
use uuid::Uuid;

use super::{Bench, PATIENCE, WEEK};
use crate::batches::{SECOND, START, batch_of_everything, entry};

/// What a clock that was 400 days ahead left.
const AHEAD: &str = "
    UPDATE internal.minute_state SET made_until = now() + INTERVAL '400 days', noticed_until = now() + INTERVAL '400 days',
        blocks_until = now() + INTERVAL '400 days';
    UPDATE internal.packed_state SET packed_from = now() + INTERVAL '399 days', packed_until = now() + INTERVAL '400 days';
    UPDATE internal.link_share_state SET computed_until = now() + INTERVAL '400 days', noticed_until = now() + INTERVAL '400 days',
        minutes_since = now() - INTERVAL '1 day', minutes_until = now() + INTERVAL '400 days', hours_until = now() + INTERVAL '399 days';
    INSERT INTO internal.link_share_late (time, noted_at) VALUES (now(), now() + INTERVAL '400 days');
    INSERT INTO internal.link_share_hours VALUES (date_trunc('hour', now() + INTERVAL '300 days'), 1, '{}', '{}', '{}', '{}', '{}', '{}', '', '');
    INSERT INTO internal.export_target (name, exported_until, noticed_until) SELECT 'r', now() + INTERVAL '400 days', now() + INTERVAL '400 days';
    INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source, used_at)
        VALUES ('send', 1, '', '', '', now() + INTERVAL '400 days');
    INSERT INTO internal.ib_port_counters (time, port_id, epoch, source) VALUES (now(), 1, now(), 'mad')";

#[tokio::test]
async fn marks_that_lie_ahead_come_back_by_themselves() {
    let mut bench = Bench::new(0.0).await;
    bench.client.batch_execute(AHEAD).await.unwrap();
    let check = bench.check(1, 0.0).await;
    assert_eq!(check.state, ClockState::Trusted);
    let ahead = "SELECT (SELECT greatest(made_until, noticed_until, blocks_until) > now() FROM internal.minute_state)
                     OR (SELECT bool_or(greatest(packed_from, packed_until) > now()) FROM internal.packed_state)
                     OR (SELECT greatest(computed_until, noticed_until, minutes_since, minutes_until, hours_until) > now() FROM internal.link_share_state)
                     OR (SELECT bool_or(noted_at > now()) FROM internal.link_share_late)
                     OR (SELECT bool_or(greatest(exported_until, noticed_until) > now() OR version = 0) FROM internal.export_target)
                     OR (SELECT bool_or(used_at > now()) FROM internal.mpi_cell_key)
                     OR EXISTS (SELECT FROM internal.link_share_hours)";
    assert!(!bench.client.query_one(ahead, &[]).await.unwrap().get::<_, bool>(0));
    // Windows and minutes of now are made again.
    let retention = Retention::for_all(WEEK);
    let back = "UPDATE internal.link_share_state SET computed_until = computed_until - INTERVAL '1 minute'; \
                UPDATE internal.minute_state SET made_until = made_until - INTERVAL '10 minutes'";
    bench.client.batch_execute(back).await.unwrap();
    let (mut cache, groups) = (LinkShareCache::default(), Groups::default());
    let made = make_link_shares(&mut bench.client, &mut cache, &groups, &retention, Duration::from_secs(60));
    assert!(made.await.unwrap().windows > 0);
    assert!(make_rollups(&mut bench.client, &retention, PATIENCE).await.unwrap().minutes >= 7);
}

#[tokio::test]
async fn rows_have_names_again_where_the_names_of_a_cache_were_removed() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let mut writer = Writer::new(database.clone());
    let spool = Uuid::new_v4();
    writer.write(&[entry(spool, 1, batch_of_everything())]).await.unwrap();
    let calls =
        "SELECT coalesce(sum(calls), 0)::bigint FROM public.mpi_op_totals WHERE operation = 'allreduce'";
    let before: i64 = client.query_one(calls, &[]).await.unwrap().get(0);
    assert!(before > 0);
    client.batch_execute("DELETE FROM internal.mpi_cell_key").await.unwrap();
    // The job goes on: the next row of the same rank.
    let mut next = Batch { jobs: batch_of_everything().jobs, node: "node1".to_owned(), ..Batch::default() };
    next.mpi_rank_rows = batch_of_everything().mpi_rank_rows;
    next.mpi_rank_rows[0].time = START + 60 * SECOND;
    next.mpi_rank_rows[0].cells[0].calls += 100;
    writer.write(&[entry(spool, 2, next)]).await.unwrap();
    let after: i64 = client.query_one(calls, &[]).await.unwrap().get(0);
    assert!(after >= before + 100, "{after} after {before}");
}
