//! The database's clock lies and its witnesses do not: nothing is dropped, thinned or packed that had not expired by true time, and upkeep
//! goes on by itself where they agree again. Tests can't set the clock of a database: the monotonic clock and the senders differ from it instead.

mod marks;

use std::time::Duration;

use throughline_store::{
    ClockCheck, ClockChecker, ClockState, MachineClock, Retention, RetentionWay, accept_clock,
    apply_retention, clock_standing, make_rollups, move_hours, testing, thin_chunks,
};
use tokio_postgres::Client;

const DAY: f64 = 86_400.0;
const WEEK: Duration = Duration::from_secs(7 * 86_400);
const PATIENCE: Duration = Duration::from_secs(600);

/// A database, its checker, and this machine's monotonic clock.
struct Bench {
    client: Client,
    checker: ClockChecker,
    machine: MachineClock,
}

impl Bench {
    /// Of a database whose clock has been ahead of the true time by `lead` seconds since it was believed last, ten seconds ago: rows of an
    /// hour and of eight days before the true time are there.
    async fn new(lead: f64) -> Bench {
        let client = testing::database().await.connect().await.unwrap();
        let machine = MachineClock { boot_id: "a".to_owned(), since_boot: Duration::from_secs(1010) };
        let believed = "UPDATE internal.clock_check SET anchor_boot = 'a', anchor_seconds = 1000, permitted_until = '-infinity',
                            anchor_at = now() - make_interval(secs => $1::float8 + 10), trusted_at = now() - make_interval(secs => $1::float8 + 10)";
        client.execute(believed, &[&lead]).await.unwrap();
        let rows = "INSERT INTO internal.events (time, instance, source, kind, severity, text)
                    SELECT now() - make_interval(secs => $1::float8 + age), 'n', 's', 'k', 'info', age::text FROM unnest(ARRAY[3600, 691200]) age";
        client.execute(rows, &[&lead]).await.unwrap();
        let readings = "INSERT INTO internal.ib_port_counters (time, port_id, epoch, source)
                        SELECT now() - make_interval(secs => $1::float8 + 3600 + s), 1, now() - make_interval(secs => $1::float8 + 7200), 'mad'
                        FROM generate_series(0, 50, 10) s";
        client.execute(readings, &[&lead]).await.unwrap();
        let metrics = "INSERT INTO internal.self_stat_rows (time, instance, sources, labels, names, readings)
                       SELECT now() - make_interval(secs => $1::float8 + 36000 + s), 'n', ARRAY['s'], ARRAY[''], ARRAY['m'], ARRAY[s]
                       FROM generate_series(0, 50, 10) s";
        client.execute(metrics, &[&lead]).await.unwrap();
        Bench { client, checker: ClockChecker::default(), machine }
    }

    /// So many senders report, whose clocks the database's is ahead of by `lead`; then the clock is checked.
    async fn check(&mut self, senders: u32, lead: f64) -> ClockCheck {
        // What was measured before the first check is no witness: it may be of any age.
        for _ in 0..2 {
            for sender in 0..senders {
                testing::measure_sender(&self.client, &format!("node:n{sender}"), lead).await;
            }
            self.checker.check(&mut self.client, || self.machine.clone()).await.unwrap();
        }
        self.checker.check(&mut self.client, || self.machine.clone()).await.unwrap()
    }

    /// Does what upkeep does on either edition.
    async fn upkeep(&mut self) {
        let retention = Retention::for_all(WEEK).with_rows(Duration::from_secs(7200));
        make_rollups(&mut self.client, &retention, PATIENCE).await.unwrap();
        move_hours(&mut self.client, &retention).await.unwrap();
        thin_chunks(&mut self.client, &retention, PATIENCE).await.unwrap();
        apply_retention(&self.client, &retention, Some(RetentionWay::Upkeep)).await.unwrap();
    }

    /// Ages of events that are there, rows of readings and of self-metrics, and thinned chunks.
    async fn contents(&self) -> (Vec<String>, i64, i64) {
        let query = "SELECT coalesce((SELECT array_agg(text ORDER BY text) FROM internal.events), '{}'),
                            (SELECT count(*) FROM internal.ib_port_counters) + (SELECT count(*) FROM internal.self_stat_rows),
                            (SELECT count(*) FROM internal.thinned_chunk)";
        let row = self.client.query_one(query, &[]).await.unwrap();
        (row.get(0), row.get(1), row.get(2))
    }

    /// How far before now() minutes are made at most; `None` where none are.
    async fn made_before(&self) -> Option<f64> {
        let query = "SELECT extract(epoch FROM now() - made_until)::float8 FROM internal.minute_state";
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }
}

fn all() -> (Vec<String>, i64, i64) {
    (vec!["3600".to_owned(), "691200".to_owned()], 12, 0)
}

#[tokio::test]
async fn a_clock_that_jumped_drops_thins_and_packs_nothing_and_goes_on_once_it_is_back() {
    for lead in [8.0 * DAY, 400.0 * DAY, -3600.0, -240.0] {
        let mut bench = Bench::new(lead).await;
        let check = bench.check(3, lead).await;
        assert_eq!(check.state, ClockState::Jumped, "{lead}");
        assert!((check.off_seconds.unwrap() - lead).abs() < 30.0, "{check:?}");
        bench.upkeep().await;
        assert_eq!(bench.contents().await, all(), "{lead}");
        // Minutes are made by the time that the monotonic clock says, and never beyond now().
        let before = bench.made_before().await.unwrap();
        assert!(before >= lead.max(0.0), "{lead}: {before}");
        let (reason, remedy) = clock_standing(&bench.client).await.unwrap().warning().unwrap();
        let direction = if lead > 0.0 { "ahead of" } else { "behind" };
        assert!(reason.contains(direction) && remedy.contains("db clock accept"), "{reason}: {remedy}");
        // A day later it still lies.
        bench.machine.since_boot += Duration::from_secs(86_400);
        let moved = "UPDATE internal.clock_check SET anchor_at = anchor_at - INTERVAL '1 day'";
        bench.client.batch_execute(moved).await.unwrap();
        assert_eq!(bench.check(3, lead).await.state, ClockState::Jumped, "{lead}");
        bench.upkeep().await;
        assert_eq!(bench.contents().await, all(), "{lead}");
        // It comes back: the same as a monotonic clock that has gone as far.
        let back = "UPDATE internal.clock_check SET anchor_at = anchor_at + make_interval(secs => $1)";
        bench.client.execute(back, &[&lead]).await.unwrap();
        assert_eq!(bench.check(3, 0.0).await.state, ClockState::Trusted, "{lead}");
        assert_eq!(clock_standing(&bench.client).await.unwrap().warning(), None);
    }
}

#[tokio::test]
async fn what_expired_by_a_clock_that_is_believed_goes_and_nothing_else() {
    let mut bench = Bench::new(0.0).await;
    assert_eq!(bench.check(1, 0.0).await.state, ClockState::Trusted);
    bench.upkeep().await;
    let (events, rows, thinned) = bench.contents().await;
    assert_eq!(events, ["3600"]);
    // Readings of an hour ago, and one row of ten hours ago where there were six, two where a step ended between them.
    assert!((7..=8).contains(&rows) && (1..=2).contains(&thinned), "{rows}, {thinned}");
    // A permission that has ended, and one from before a jump: its time counts.
    bench
        .client
        .batch_execute("UPDATE internal.clock_check SET permitted_until = now() - INTERVAL '1 s'")
        .await
        .unwrap();
    let at_once = Retention::for_all(Duration::from_secs(60));
    let done = apply_retention(&bench.client, &at_once, Some(RetentionWay::Upkeep)).await.unwrap();
    assert_eq!((done.is_permitted, done.dropped_chunks), (false, 0));
    let jumped = "UPDATE internal.clock_check SET permitted_until = now() + INTERVAL '1 s', trusted_at = now() - INTERVAL '400 days'";
    bench.client.batch_execute(jumped).await.unwrap();
    let done = apply_retention(&bench.client, &at_once, Some(RetentionWay::Upkeep)).await.unwrap();
    assert_eq!((done.is_permitted, done.dropped_chunks), (true, 0));
    assert_eq!(bench.contents().await.0, ["3600"]);
}

#[tokio::test]
async fn a_site_that_was_off_for_a_week_goes_on_once_most_senders_agree() {
    let mut bench = Bench::new(7.0 * DAY).await;
    bench.machine = MachineClock { boot_id: "b".to_owned(), since_boot: Duration::from_secs(30) };
    // What is there of before the boot confirms nothing, whatever its time is.
    for sender in 0..3 {
        testing::measure_sender(&bench.client, &format!("node:n{sender}"), 0.0).await;
    }
    let check = bench.checker.check(&mut bench.client, || bench.machine.clone()).await.unwrap();
    assert_eq!(check.state, ClockState::Waiting);
    bench.upkeep().await;
    assert_eq!(bench.contents().await, all());
    assert!(bench.made_before().await.unwrap() >= 7.0 * DAY, "nothing is made beyond the last round");
    assert_eq!(bench.check(3, 0.0).await.state, ClockState::Trusted);
    bench.upkeep().await;
    // What is a week and an hour old shares a day with what is younger.
    let (events, rows, _) = bench.contents().await;
    assert!(!events.contains(&"691200".to_owned()) && rows == 0, "{events:?}, {rows}");
    assert!(bench.made_before().await.unwrap() < 300.0);

    // The clock of the machine is wrong after the boot.
    let mut bench = Bench::new(400.0 * DAY).await;
    bench.machine = MachineClock { boot_id: "b".to_owned(), since_boot: Duration::from_secs(30) };
    assert_eq!(bench.check(3, 400.0 * DAY).await.state, ClockState::Outvoted);
    bench.upkeep().await;
    assert_eq!(bench.contents().await, all());
}

#[tokio::test]
async fn while_nobody_reports_nothing_is_dropped_and_people_are_told() {
    let mut bench = Bench::new(0.0).await;
    testing::measure_sender(&bench.client, "node:n0", 0.0).await;
    let check = bench.checker.check(&mut bench.client, || bench.machine.clone()).await.unwrap();
    assert_eq!(
        (check.state, clock_standing(&bench.client).await.unwrap().warning()),
        (ClockState::Waiting, None)
    );
    bench.machine.since_boot += Duration::from_secs(200);
    bench
        .client
        .batch_execute("UPDATE internal.clock_check SET anchor_at = anchor_at - INTERVAL '200 s'")
        .await
        .unwrap();
    let check = bench.checker.check(&mut bench.client, || bench.machine.clone()).await.unwrap();
    assert_eq!(check.state, ClockState::Unreported);
    bench.upkeep().await;
    assert_eq!(bench.contents().await, all());
    let (reason, remedy) = clock_standing(&bench.client).await.unwrap().warning().unwrap();
    assert!(reason.contains("nobody reports") && remedy.contains("goes on by itself"), "{reason}: {remedy}");
    assert_eq!(bench.check(1, 0.0).await.state, ClockState::Trusted);
    bench.upkeep().await;
    assert_eq!(bench.contents().await.0, ["3600"]);
}

#[tokio::test]
async fn a_clock_that_somebody_accepts_is_believed() {
    let mut bench = Bench::new(400.0 * DAY).await;
    assert_eq!(bench.check(4, 400.0 * DAY).await.state, ClockState::Jumped);
    accept_clock(&bench.client, "root (sudo by ada)").await.unwrap();
    assert!(clock_standing(&bench.client).await.unwrap().accept_requested_at.is_some());
    assert_eq!(bench.check(4, 400.0 * DAY).await.state, ClockState::Trusted);
    let standing = clock_standing(&bench.client).await.unwrap();
    assert_eq!((standing.warning(), standing.accept_requested_at), (None, None));
    let by =
        bench.client.query_one("SELECT accepted_by, accepted_at IS NOT NULL FROM internal.clock_check", &[]);
    let by = by.await.unwrap();
    assert_eq!((by.get::<_, &str>(0), by.get::<_, bool>(1)), ("root (sudo by ada)", true));
    bench.upkeep().await;
    assert!(bench.contents().await.0.is_empty(), "what is expired goes once the clock is accepted");
}

#[tokio::test]
async fn a_permission_that_nobody_renews_is_reported() {
    let bench = Bench::new(0.0).await;
    let ended = "UPDATE internal.clock_check SET permitted_until = now() - INTERVAL '1 s'";
    bench.client.batch_execute(ended).await.unwrap();
    let standing = clock_standing(&bench.client).await.unwrap();
    assert!(standing.is_overdue);
    assert!(standing.warning().unwrap().0.contains("no server has checked"));
}
