//! Role upkeep on a real database: one of two does it, the other takes over, old chunks go.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use throughline_daemon::SelfMetrics;
use throughline_gateway::upkeep::{self, Options};
use throughline_sample::catalogue::{
    DATABASE_BYTES, DATABASE_CHUNKS, DATABASE_CLOCK_OFF_SECONDS, EXPIRED_CHUNKS, EXPIRY_STOPPED,
    ORPHANED_RANKS, ROLLUP_LAG_SECONDS, ROLLUPS_MADE, SOURCE_UP,
};
use throughline_store::{Database, Groups, Retention, clock_standing, testing};
use tokio_util::sync::CancellationToken;

/// Generous: the test waits for conditions.
const DEADLINE: Duration = Duration::from_secs(60);

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// As a new database has it: no permission.
const UNCHECKED: &str = "UPDATE internal.clock_check SET state = 'unchecked', trusted_at = NULL, permitted_until = '-infinity', estimate = '-infinity'";

/// Three senders report, again and again, until `stop`: the database's clock is ahead of theirs by so many seconds.
fn report(database: &Database, lead: f64, stop: &CancellationToken) -> tokio::task::JoinHandle<()> {
    let (database, stop) = (database.clone(), stop.clone());
    tokio::spawn(async move {
        let client = database.connect().await.unwrap();
        while !stop.is_cancelled() {
            for sender in ["node:n1", "node:n2", "crawler:f1"] {
                testing::measure_sender(&client, sender, lead).await;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
}

#[tokio::test]
async fn nothing_goes_before_senders_confirm_the_clock_and_while_they_contradict_it() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(UNCHECKED).await.unwrap();
    let old = "INSERT INTO internal.events (time, instance, source, kind, severity, text) \
               VALUES (now() - interval '30 days', 'n', 's', 'k', 'info', 'old')";
    client.batch_execute(old).await.unwrap();
    let events = async || -> i64 {
        client.query_one("SELECT count(*) FROM internal.events WHERE text = 'old'", &[]).await.unwrap().get(0)
    };
    let options = Options {
        detail: Default::default(),
        retention: Retention::for_all(Duration::from_secs(7 * 24 * 3600)),
        interval: Duration::from_secs(1),
        job_silence: Duration::from_secs(3600),
        groups: Groups::default(),
        webhook: None,
    };
    let (metrics, stop, lying) = (SelfMetrics::default(), CancellationToken::new(), CancellationToken::new());
    // The database's clock is 400 days ahead of all that report.
    let reporter = report(&database, 400.0 * 86_400.0, &lying);
    let task = tokio::spawn(upkeep::run(
        database.clone(),
        options,
        metrics.clone(),
        upkeep::LinkSeries::default(),
        stop.clone(),
    ));
    until("the doubt", async || metrics.get("clock", &EXPIRY_STOPPED) == Some(1.0)).await;
    assert!(metrics.get("clock", &DATABASE_CLOCK_OFF_SECONDS).unwrap() > 399.0 * 86_400.0);
    until("a round of retention", async || {
        let policies = "SELECT count(*) > 0 FROM internal.retention_policy";
        client.query_one(policies, &[]).await.unwrap().get(0)
    })
    .await;
    let standing = clock_standing(&client).await.unwrap();
    let (reason, _) = standing.warning().unwrap();
    assert!(reason.contains("3 of 3 senders are 400 d 0 h behind it"), "{reason}");
    assert_eq!(events().await, 1);
    assert_eq!(metrics.get("upkeep", &EXPIRED_CHUNKS), Some(0.0));
    lying.cancel();
    reporter.await.unwrap();
    let reporter = report(&database, 0.0, &stop);
    until("dropping the old row's chunk", async || events().await == 0).await;
    until("the end of the doubt", async || metrics.get("clock", &EXPIRY_STOPPED) == Some(0.0)).await;
    stop.cancel();
    task.await.unwrap();
    reporter.await.unwrap();
}

#[tokio::test]
async fn old_chunks_go_and_of_two_servers_one_does_it() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(UNCHECKED).await.unwrap();
    let reporting = CancellationToken::new();
    let reporter = report(&database, 0.0, &reporting);
    let old = "INSERT INTO internal.events (time, instance, source, kind, severity, text) \
               VALUES (now() - interval '30 days', 'n', 's', 'k', 'info', 'old'), (now(), 'n', 's', 'k', 'info', 'new')";
    client.batch_execute(old).await.unwrap();
    let readings = "INSERT INTO internal.fabric (name, prefix) VALUES ('0x1', '0x1'); INSERT INTO internal.ib_node_key (fabric_id, guid) VALUES (1, '0x2'); \
                    INSERT INTO internal.ib_port_key (ib_node_id, port) VALUES (1, 1); \
                    INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes) \
                    SELECT now() - n * interval '10 s', 1, 'epoch', 'mad', 9000 - n * 100 FROM generate_series(1, 60) n";
    client.batch_execute(readings).await.unwrap();
    let options = Options {
        detail: Default::default(),
        retention: Retention::for_all(Duration::from_secs(7 * 24 * 3600)),
        interval: Duration::from_secs(1),
        job_silence: Duration::from_secs(3600),
        groups: Groups::default(),
        webhook: None,
    };
    let start = |metrics: &SelfMetrics, stop: &CancellationToken| {
        tokio::spawn(upkeep::run(
            database.clone(),
            options.clone(),
            metrics.clone(),
            upkeep::LinkSeries::default(),
            stop.clone(),
        ))
    };
    let (first, first_stop) = (SelfMetrics::default(), CancellationToken::new());
    let task = start(&first, &first_stop);
    until("the first round", async || first.get("upkeep", &SOURCE_UP) == Some(1.0)).await;
    assert!(first.get("upkeep", &DATABASE_BYTES).unwrap() > 1e6);
    assert!(first.get("upkeep", &DATABASE_CHUNKS).unwrap() >= 1.0);
    until("dropping the old row's chunk", async || {
        let rows = client.query("SELECT text FROM internal.events", &[]).await.unwrap();
        rows.iter().map(|r| r.get::<_, String>(0)).collect::<Vec<_>>() == ["new"]
    })
    .await;
    until("counting it", async || first.get("upkeep", &EXPIRED_CHUNKS) == Some(1.0)).await;

    until("making minutes", async || {
        let query = "SELECT transmit_bytes_per_second FROM internal.ib_port_minutes WHERE seconds = 60";
        let rows = client.query(query, &[]).await.unwrap();
        !rows.is_empty() && rows.iter().all(|row| row.get::<_, f32>(0) == 10.0)
    })
    .await;
    assert!(first.get("upkeep", &ROLLUPS_MADE).unwrap() >= 5.0);
    assert!((150.0..300.0).contains(&first.get("upkeep", &ROLLUP_LAG_SECONDS).unwrap()));

    // While the first holds the lock ("thru" of its name in ASCII) nobody else gets it; when it ends, the next one does.
    let locks = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                 WHERE locktype = 'advisory' AND d.datname = current_database() AND classid = 1953002101";
    assert_eq!(client.query_one(locks, &[]).await.unwrap().get::<_, i64>(0), 1);
    let (second, second_stop) = (SelfMetrics::default(), CancellationToken::new());
    let idle = start(&second, &second_stop);
    until("the second standing by", async || second.get("upkeep", &SOURCE_UP) == Some(1.0)).await;
    assert_eq!(second.get("upkeep", &DATABASE_BYTES), None, "another server measures");
    first_stop.cancel();
    task.await.unwrap();
    until("the second taking over", async || second.get("upkeep", &DATABASE_BYTES).is_some()).await;
    second_stop.cancel();
    idle.await.unwrap();
    reporting.cancel();
    reporter.await.unwrap();
}

#[tokio::test]
async fn after_an_outage_both_of_two_servers_are_well_whichever_does_the_work() {
    let database = testing::database().await;
    let options = Options {
        detail: Default::default(),
        retention: Retention::default(),
        interval: Duration::from_secs(1),
        job_silence: Duration::from_secs(3600),
        groups: Groups::default(),
        webhook: None,
    };
    let stop = CancellationToken::new();
    let servers = [SelfMetrics::default(), SelfMetrics::default()];
    let tasks = servers.each_ref().map(|metrics| {
        let series = upkeep::LinkSeries::default();
        tokio::spawn(upkeep::run(database.clone(), options.clone(), metrics.clone(), series, stop.clone()))
    });
    let all = |value| servers.iter().all(|metrics| metrics.get("upkeep", &SOURCE_UP) == Some(value));
    let working =
        || servers.iter().filter(|metrics| metrics.get("upkeep", &DATABASE_BYTES).is_some()).count();
    for round in 0..2 {
        until("both being well", async || all(1.0) && working() == 1).await;
        // What the one that works measured is not of now once the other one works.
        for source in ["link_shares", "verdicts"] {
            let reporting = servers.iter().filter(|metrics| metrics.get(source, &SOURCE_UP).is_some());
            assert!(reporting.count() <= 1, "{source}, round {round}");
        }
        testing::set_away(&database, true).await;
        until("both missing it", async || all(0.0)).await;
        testing::set_away(&database, false).await;
    }
    until("both being well at the end", async || all(1.0) && working() == 1).await;
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_job_whose_node_died_ends() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let running = "INSERT INTO internal.run (key, start_time) VALUES ('slurm:1.0@7', now() - interval '1 day'); \
                   INSERT INTO internal.node_key (name) VALUES ('n1'); \
                   INSERT INTO internal.run_claim (job_id, node_id, first_seen, last_seen, reported_at) \
                   VALUES (1, 1, now() - interval '1 day', now() - interval '1 hour', now() - interval '1 hour'); \
                   INSERT INTO internal.job_rank (job_id, rank, node_id, host, pid, world_size, mpi_library, start_time) \
                   VALUES (1, 0, 1, 'n1', 1, 1, '', now() - interval '1 day')";
    client.batch_execute(running).await.unwrap();
    let options = Options {
        detail: Default::default(),
        retention: Retention::default(),
        interval: Duration::from_secs(1),
        job_silence: Duration::from_secs(1),
        groups: Groups::default(),
        webhook: None,
    };
    let (metrics, stop) = (SelfMetrics::default(), CancellationToken::new());
    let task = tokio::spawn(upkeep::run(
        database.clone(),
        options,
        metrics.clone(),
        upkeep::LinkSeries::default(),
        stop.clone(),
    ));
    until("closing the job", async || {
        let row = client.query_one("SELECT end_time IS NOT NULL FROM internal.run", &[]).await.unwrap();
        row.get(0)
    })
    .await;
    let row = client
        .query_one("SELECT ending, now() - end_time > interval '50 minutes' FROM internal.job_rank", &[]);
    let row = row.await.unwrap();
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, bool>(1)),
        ("silent", true),
        "when it was last known to run"
    );
    until("counting it", async || metrics.get("upkeep", &ORPHANED_RANKS) == Some(1.0)).await;
    stop.cancel();
    task.await.unwrap();
}
