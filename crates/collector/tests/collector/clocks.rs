//! Clocks that differ: of nodes, ahead, behind and set while they run, and of the server. Times go through the exchange of a real
//! stream, and each event has its true time in its text.

use crate::site::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use throughline_collector::{Access, ClockPlan, OwnClock};
use throughline_daemon::{Clock, ClockSpans};
use throughline_delivery::{ClockExchange, Outbox, Quarantine};
use throughline_sample::Message;
use throughline_sample::wire::*;
use throughline_spool::{Class, Config, Spool};
use throughline_store::{SenderClocks, Writer, testing};
use tokio::sync::Mutex;

/// A clock that is so far ahead of the truth, and can be set.
#[derive(Clone)]
struct Settable {
    ahead: Arc<AtomicI64>,
    clock: Arc<Clock>,
}

impl Settable {
    fn new(seconds: i64) -> Settable {
        let (ahead, truth) = (Arc::new(AtomicI64::new(seconds * SECOND)), Clock::new());
        let shift = ahead.clone();
        let clock = Clock::reading(Arc::new(move || truth.now() + shift.load(Ordering::Relaxed)));
        Settable { ahead, clock: Arc::new(clock) }
    }

    fn set(&self, seconds: i64) {
        self.ahead.store(seconds * SECOND, Ordering::Relaxed);
    }
}

struct Clocks {
    site: Site,
    server: Settable,
    own: OwnClock,
}

/// A site whose server is so far ahead. A lone sender is believed at once where `settle` is zero.
async fn site(server: i64, settle: Duration) -> Clocks {
    let database = testing::database().await;
    start(database, server, settle).await
}

async fn start(database: throughline_store::Database, server: i64, settle: Duration) -> Clocks {
    let writers = (0..2).map(|_| Writer::new(database.clone())).collect();
    let (server, own) = (Settable::new(server), OwnClock::default());
    let access = Access {
        clock: server.clock.clone(),
        clock_plan: ClockPlan { interval: Duration::from_millis(100), settle },
        clocks: Some(Arc::new(Mutex::new(SenderClocks::new(database.clone())))),
        own_clock: own.clone(),
        ..Access::default()
    };
    Clocks { site: Site::start_as(database, writers, access).await, server, own }
}

/// A node with a spool, that may be away from its collector.
struct Node {
    name: &'static str,
    clock: Settable,
    spans: Arc<ClockSpans>,
    spool: Spool,
    exchange: ClockExchange,
    outbox: Option<Outbox>,
}

impl Node {
    fn new(name: &'static str, ahead: i64) -> Node {
        let clock = Settable::new(ahead);
        let spans = Arc::new(ClockSpans::open(clock.clock.clone(), None));
        let exchange = ClockExchange::new(spans.clone(), name.to_owned());
        let spool = Spool::in_memory(Config::default()).unwrap();
        Node { name, clock, spans, spool, exchange, outbox: None }
    }

    fn deliver(mut self, clocks: &Clocks) -> Node {
        let refused = Spool::in_memory(Config { has_envelopes: true, ..Config::default() }).unwrap();
        let refused = Quarantine::new(refused, None, Duration::from_secs(3600), &self.spool).unwrap();
        let sink = clocks.site.sink(self.name).with_clock(self.exchange.clone());
        self.outbox = Some(Outbox::start(self.spool.clone(), refused, sink));
        self
    }

    fn now(&self) -> i64 {
        self.clock.clock.now()
    }

    fn append(&self, mut batch: Batch) {
        batch.node = self.name.to_owned();
        self.spans.sign(&mut batch, None);
        self.spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
    }

    /// An event of now, with its true time.
    fn event(&self) {
        let text = Clock::new().now().to_string();
        self.append(Batch { events: vec![event(self.now(), &text)], ..Batch::default() });
    }

    /// Its clock is set to so far ahead.
    fn set(&self, seconds: i64) {
        self.clock.set(seconds);
        self.spans.follow().unwrap();
    }

    async fn stored(&self) {
        wait(self.name, || self.spool.stats().backlog_entries == 0).await;
    }
}

async fn wait(what: &str, is_so: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !is_so() {
        assert!(tokio::time::Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Clocks {
    /// Events in the database, and how far the farthest is from its true time, in whole seconds.
    async fn events(&self) -> (i64, i64) {
        let row = self.site.client.query_one(
            "SELECT count(*), coalesce(max(abs(extract(epoch FROM time) - text::numeric / 1e9)), 0)::bigint
             FROM internal.events WHERE kind = 'test'",
            &[],
        );
        let row = row.await.unwrap();
        (row.get(0), row.get(1))
    }

    async fn check(&self, count: i64) {
        let (events, farthest) = self.events().await;
        assert_eq!(events, count);
        assert!(farthest <= 10, "{farthest} s");
        assert_eq!(self.site.rejected("time_future") + self.site.rejected("time_past"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_nodes_ahead_and_behind_lie_at_their_true_time() {
    let clocks = site(0, Duration::ZERO).await;
    let nodes = [("right", 0), ("ahead", 300), ("behind", -300), ("days", 9 * 86_400)];
    let nodes: Vec<Node> = nodes.map(|(name, ahead)| Node::new(name, ahead)).into();
    // Spooled before anybody knows how far their clocks are off.
    nodes.iter().for_each(Node::event);
    let nodes: Vec<Node> = nodes.into_iter().map(|node| node.deliver(&clocks)).collect();
    for node in &nodes {
        node.stored().await;
        node.event();
        node.stored().await;
    }
    clocks.check(8).await;
    let moved = "SELECT instance || ' ' || offset_seconds FROM public.moved_times ORDER BY 1";
    assert_eq!(clocks.site.texts(moved).await, ["ahead 300", "behind -300", "days 777600"]);
    let is_shown = |text: &str| nodes[1].exchange.conditions().iter().any(|one| one.text.contains(text));
    wait("the node's page", || is_shown("300 s ahead of the server's")).await;
    assert_eq!(nodes[0].exchange.conditions(), []);
    assert_eq!(clocks.own.fault(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_keeps_its_epoch_while_its_nodes_clock_is_set() {
    for (before, after) in [(300, 0), (-300, 0), (0, 300), (304, 0)] {
        let clocks = site(0, Duration::ZERO).await;
        let node = Node::new("n1", before).deliver(&clocks);
        let (began, key) = (node.now(), "slurm:1@1000");
        let of_rank = |time| MpiRankBin { epoch: began, ..bin(key, 0, time) };
        let about = Batch {
            jobs: vec![Job { start: began, ..job(key, 1000, "environment") }],
            job_ranks: vec![JobRank { start: began, ..rank(key, 0, "n1") }],
            ..Batch::default()
        };
        node.append(about.clone());
        node.append(Batch { mpi_rank_rows: vec![of_rank(node.now())], ..Batch::default() });
        node.event();
        node.stored().await;
        let truth = Clock::new().now();
        node.set(after);
        // Made in the new span, whose clock shows times that the old one had already.
        let late = Batch {
            jobs: vec![Job { start: node.now(), ..job("slurm:2@1000", 1000, "environment") }],
            job_ranks: vec![JobRank { start: node.now(), ..rank("slurm:2@1000", 0, "n1") }],
            ..Batch::default()
        };
        node.append(about);
        node.append(late);
        node.append(Batch { mpi_rank_rows: vec![of_rank(node.now())], ..Batch::default() });
        node.event();
        let end = JobRank { start: began, end: node.now(), ending: "clean".into(), ..rank(key, 0, "n1") };
        node.append(Batch { job_ranks: vec![end], ..Batch::default() });
        node.stored().await;
        clocks.check(2).await;
        let number = async |query: &str| clocks.site.number(query).await;
        assert_eq!(number("SELECT count(*) FROM internal.mpi_rank_rows").await, 2, "{before}");
        assert_eq!(number("SELECT count(DISTINCT epoch) FROM internal.mpi_rank_rows").await, 1, "{before}");
        let farthest = "SELECT max(abs(extract(epoch FROM start_time) - $1::numeric / 1e9))::bigint FROM internal.rank_claim";
        let farthest: i64 = clocks
            .site
            .client
            .query_one(&farthest.replace("$1", &truth.to_string()), &[])
            .await
            .unwrap()
            .get(0);
        assert!(farthest <= 10, "{before}: {farthest} s");
        assert_eq!(number("SELECT count(*) FROM internal.rank_claim WHERE end_time < start_time").await, 0);
        // Rows stay in their order.
        assert_eq!(
            number("SELECT count(*) FROM (SELECT time, lag(time) OVER (ORDER BY text::numeric) AS before FROM internal.events \
                    WHERE kind = 'test') e WHERE before > time").await,
            0
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_spooled_in_a_span_is_moved_by_that_spans_offset() {
    let clocks = site(0, Duration::ZERO).await;
    let node = Node::new("n1", 300);
    node.event();
    node.set(-40);
    node.event();
    node.set(0);
    node.event();
    let node = node.deliver(&clocks);
    node.stored().await;
    clocks.check(3).await;
    // A server that was started anew moves them alike.
    let ended = "SELECT count(*) * 10 + count(ended_at) FROM internal.clock_span";
    assert_eq!(clocks.site.number(ended).await, 32);
    let database = clocks.site.database.clone();
    clocks.site.end().await;
    let clocks = start(database, 0, Duration::from_secs(3600)).await;
    let node = Node { outbox: None, ..node }.deliver(&clocks);
    node.event();
    node.stored().await;
    clocks.check(4).await;
    assert_eq!(clocks.site.number(ended).await, 32);
    // One that is set while it is measured ends, too.
    node.set(2);
    node.event();
    node.stored().await;
    assert_eq!(clocks.site.number(ended).await, 43);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_or_lost_while_the_servers_clock_is_off() {
    // Long enough that no sender is found to be off alone.
    let clocks = site(-240, Duration::from_secs(3600)).await;
    let nodes = [("n1", 0), ("n2", 1), ("n3", 0), ("n4", -1), ("n5", 0), ("liar", -240)];
    let nodes: Vec<Node> = nodes.map(|(name, ahead)| Node::new(name, ahead).deliver(&clocks)).into();
    wait("a verdict", || {
        clocks.own.fault().is_some_and(|fault| fault.contains("240 s behind 5 of 6 senders"))
    })
    .await;
    nodes.iter().take(5).for_each(Node::event);
    wait("the senders know", || {
        nodes
            .iter()
            .all(|node| node.exchange.conditions().iter().any(|one| one.text.contains("5 of 6 senders")))
    })
    .await;
    assert_eq!(clocks.events().await.0, 0);
    assert!(nodes[0].spool.stats().backlog_entries > 0);
    assert_eq!(clocks.site.number("SELECT count(*) FROM public.moved_times").await, 0);
    clocks.server.set(0);
    for node in nodes.iter().take(5) {
        node.stored().await;
    }
    clocks.check(5).await;
    assert_eq!(clocks.own.fault(), None);
    // Whose clock is off in truth.
    let others = "SELECT count(*) FROM public.moved_times WHERE instance <> 'liar'";
    assert_eq!(clocks.site.number(others).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_set_wrong_while_it_runs_rejects_nothing() {
    for wrong in [-240, 9 * 86_400] {
        let clocks = site(0, Duration::from_secs(3600)).await;
        let nodes = ["n1", "n2", "n3"].map(|name| Node::new(name, 0).deliver(&clocks));
        for node in &nodes {
            node.event();
            node.stored().await;
        }
        clocks.server.set(wrong);
        wait("a verdict", || clocks.own.fault().is_some_and(|fault| fault.contains("3 of 3 senders"))).await;
        nodes.iter().for_each(Node::event);
        clocks.server.set(0);
        for node in &nodes {
            node.stored().await;
        }
        clocks.check(6).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_38_a_liar_moves_its_own_rows_alone_and_within_the_limits_of_time() {
    let clocks = site(0, Duration::ZERO).await;
    let honest = ["n1", "n2", "n3"].map(|name| Node::new(name, 0).deliver(&clocks));
    let liar = Node::new("liar", 86_400).deliver(&clocks);
    for node in honest.iter().chain([&liar]) {
        node.event();
        node.stored().await;
    }
    clocks.check(4).await;
    // Times beyond its own clock are beyond the server's after they are moved.
    let batch = Batch { events: vec![event(liar.now() + HOUR, "0")], ..Batch::default() };
    liar.append(batch);
    honest.iter().for_each(Node::event);
    for node in &honest {
        node.stored().await;
    }
    assert_eq!(clocks.events().await.0, 7);
    // Its clock is not a witness for others.
    let mut forged = Batch { node: "n1".into(), events: vec![event(now(), "0")], ..Batch::default() };
    forged.clock = Some(BatchClock { span: liar.spans.spans()[0].id, earlier: Vec::new() });
    assert!(clocks.site.batch("liar", &forged).await.is_err());
    assert_eq!(clocks.own.fault(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_a_boot_that_was_never_measured_are_stored_with_their_own_times() {
    let clocks = site(0, Duration::ZERO).await;
    let node = Node::new("n1", 0);
    let text = now().to_string();
    let mut batch = Batch { node: "n1".into(), events: vec![event(now(), &text)], ..Batch::default() };
    batch.clock = Some(BatchClock { span: 77, earlier: Vec::new() });
    node.spool.append(batch.encode_to_vec(), Class::Precious).unwrap();
    let node = node.deliver(&clocks);
    node.event();
    node.stored().await;
    clocks.check(2).await;
    let unknown = "SELECT count(*) FROM internal.clock_span WHERE offset_seconds IS NULL";
    assert_eq!(clocks.site.number(unknown).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn measurements_are_stored_for_those_who_ask_for_witnesses() {
    let clocks = site(0, Duration::ZERO).await;
    let node = Node::new("n3", 300).deliver(&clocks);
    node.event();
    node.stored().await;
    let measured = "SELECT sender_id || ' ' || round(offset_seconds) || ' ' || coalesce(abs(extract(epoch FROM measured_at - newest_record)) < 200, false)
         || ' ' || (abs(extract(epoch FROM sender_time - measured_at) - offset_seconds) < 5) || ' ' || (round_trip_seconds >= 0)
         FROM internal.sender_clock";
    let end = tokio::time::Instant::now() + DEADLINE;
    while clocks.site.texts(measured).await != ["node:n3 300 true true true"] {
        assert!(tokio::time::Instant::now() < end, "{:?}", clocks.site.texts(measured).await);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
