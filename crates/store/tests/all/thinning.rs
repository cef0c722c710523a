//! Old chunks with fewer rows: totals and matrices stay the same, whatever is written or read meanwhile.

mod overflow;
mod reports;

use std::time::Duration;

use crate::batches::{SECOND, entry};
use throughline_sample::wire::{
    Batch, Job, JobRank, MpiAccountSums, MpiNodeAccount, MpiNodeCell, MpiNodeCells, MpiNodeTraffic,
    MpiOpCell, MpiPeerCell, MpiRankBin, MpiRankPeers, MpiSampledCall, MpiSampledCalls, SelfStat,
};
use throughline_store::{ChunksThinned, Database, Retention, Writer, testing, thin_chunks};
use tokio_postgres::Client;
use uuid::Uuid;

const HOUR: i64 = 3600 * SECOND;
const WEEK: Duration = Duration::from_secs(7 * 86_400);
const PATIENCE: Duration = Duration::from_secs(3600);

/// Peers of the job on a node, and how much each has sent.
#[derive(Clone, Default)]
struct Peers {
    bytes: Vec<u64>,
    random: u64,
}

impl Peers {
    fn new(count: usize, seed: u64) -> Self {
        Self { bytes: vec![0; count], random: seed }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// One more record: of each peer, or of those that sent something, one of four times.
    fn record(&mut self, is_whole: bool) -> Vec<MpiPeerCell> {
        let grown: Vec<u64> =
            (0..self.bytes.len()).map(|_| if self.next(4) == 0 { self.next(1_000_000) } else { 0 }).collect();
        self.bytes.iter_mut().zip(&grown).for_each(|(bytes, more)| *bytes += more);
        let cell = |peer: usize| MpiPeerCell {
            peer: u32::try_from(peer).unwrap(),
            bytes: self.bytes[peer],
            messages: self.bytes[peer] / 1000,
        };
        (0..grown.len()).filter(|peer| is_whole || grown[*peer] > 0).map(cell).collect()
    }
}

/// A job of two ranks on one node from `begin` on: traffic each 10 s in two operations, one always whole and one that is so each seventh
/// time or never; rows of ranks each five minutes.
pub(crate) fn job(key: &str, begin: i64, seconds: i64, whole_each: Option<i64>) -> Vec<Batch> {
    let begin_batch = Batch {
        node: "n1".into(),
        jobs: vec![Job { key: key.into(), start: begin, world_size: 2, ..Job::default() }],
        job_ranks: (0..2)
            .map(|rank| JobRank {
                job_key: key.into(),
                rank,
                start: begin,
                world_size: 2,
                ..JobRank::default()
            })
            .collect(),
        ..Batch::default()
    };
    let mut operations = [("alltoall", Peers::new(6, 1), Some(1)), ("isend", Peers::new(6, 2), whole_each)];
    let mut ranks = [Peers::new(4, 3), Peers::new(4, 4)];
    let record = |tick: i64| {
        let time = begin + tick * 10 * SECOND;
        let mut batch = Batch { node: "n1".into(), ..Batch::default() };
        for (operation, peers, each) in &mut operations {
            let is_whole = each.is_some_and(|each| tick % each == 0);
            let cells = peers.record(is_whole);
            batch.mpi_traffic.extend((!cells.is_empty()).then(|| MpiNodeTraffic {
                time,
                epoch: begin,
                job_key: key.into(),
                since: time - 10 * SECOND,
                operation: (*operation).into(),
                kind: "modelled".into(),
                direction: "transmit".into(),
                source: "pmpi".into(),
                cells,
                is_whole,
            }));
        }
        if tick % 30 == 0 || tick == seconds / 10 {
            for (rank, peers) in (0_u32..).zip(&mut ranks) {
                batch.mpi_rank_rows.push(rank_row(key, rank, time, begin));
                let is_whole = tick % 60 == 0;
                batch.mpi_peers.push(MpiRankPeers {
                    time,
                    epoch: begin,
                    job_key: key.into(),
                    rank,
                    kind: "logical".into(),
                    source: "pmpi".into(),
                    cells: peers.record(is_whole),
                    is_whole,
                });
            }
        }
        batch
    };
    std::iter::once(begin_batch).chain((1..=seconds / 10).map(record)).collect()
}

/// A rank's calls so far.
fn rank_row(key: &str, rank: u32, time: i64, begin: i64) -> MpiRankBin {
    let calls = u64::try_from((time - begin) / SECOND).unwrap() * u64::from(rank + 1);
    let cell = |operation: &str| MpiOpCell {
        operation: operation.into(),
        size_class_bytes: 1024,
        calls,
        bytes: calls * 1000,
        elapsed_nanoseconds: calls * 12_345,
        ..MpiOpCell::default()
    };
    MpiRankBin {
        time,
        epoch: begin,
        job_key: key.into(),
        rank,
        source: "pmpi".into(),
        cells: vec![cell("alltoall"), cell("isend")],
    }
}

async fn write(database: &Database, batches: Vec<Batch>) {
    let spool = Uuid::new_v4();
    let entries: Vec<_> = (1..).zip(batches).map(|(number, batch)| entry(spool, number, batch)).collect();
    for some in entries.chunks(100) {
        Writer::new(database.clone()).write(some).await.unwrap();
    }
}

/// The beginning of the hour that was so many hours ago, in nanoseconds.
async fn hours_ago(client: &Client, hours: i32) -> i64 {
    let sql = "SELECT extract(epoch FROM date_trunc('hour', now()) - make_interval(hours => $1))::bigint";
    client.query_one(sql, &[&hours]).await.unwrap().get::<_, i64>(0) * SECOND
}

async fn thin(client: &mut Client) -> ChunksThinned {
    let retention = Retention::for_all(WEEK).with_rows(Duration::from_secs(2 * 3600));
    thin_chunks(client, &retention, PATIENCE).await.unwrap()
}

/// The rows of a query, as text, in order.
async fn lines(client: &impl tokio_postgres::GenericClient, query: &str) -> Vec<String> {
    let sql = format!("SELECT t::text FROM ({query}) t ORDER BY 1");
    client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// What is known of all jobs: so far, and as of each step of a table.
const TOTALS: &str = "SELECT job_key, 0 AS rank, operation, kind, direction, peer, bytes::text, messages::text FROM internal.mpi_traffic_totals
    UNION ALL SELECT job_key, rank, kind, 'rank', '', peer, bytes::text, messages::text FROM public.mpi_peer_totals
    UNION ALL SELECT job_key, rank, operation, 'rank', '', calls, bytes::text, elapsed_seconds::text FROM public.mpi_op_totals
    UNION ALL SELECT job_key, rank, 'all', 'rank', '', calls, bytes::text, observed_seconds::text FROM public.mpi_rank_totals";

fn traffic_as_of_each(seconds: i64) -> String {
    format!(
        "SELECT j.id, s.until, c.operation, c.peer, c.bytes, c.messages
         FROM (SELECT date_trunc('hour', min(start_time)) AS begin FROM internal.run) f, internal.run j,
              generate_series(f.begin, f.begin + INTERVAL '9 hours', INTERVAL '{seconds} seconds') s (until)
         CROSS JOIN LATERAL internal.mpi_traffic_cells(j.id, s.until) c"
    )
}

/// Three jobs over two hours, the second beginning at a whole hour, and a fourth that runs in an hour that is not old.
async fn seeded() -> (Database, Client) {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let begin = hours_ago(&client, 8).await;
    for (key, offset, each) in [("a", 1777, Some(7)), ("b", 1780, None), ("c", 3590, Some(40))] {
        write(&database, job(key, begin + offset * SECOND, 4000, each)).await;
    }
    write(&database, job("d", begin + 7 * HOUR, 600, Some(7))).await;
    (database, client)
}

#[tokio::test]
async fn thinned_chunks_have_the_same_totals() {
    let (_, mut client) = seeded().await;
    let totals = lines(&client, TOTALS).await;
    let at_steps = lines(&client, &traffic_as_of_each(300)).await;
    assert!(totals.len() > 4 * 2 * 6 && at_steps.len() > totals.len());
    let sizes = "SELECT sum(pg_total_relation_size(format('%I.%I', chunk_schema, chunk_name)))::bigint
                 FROM timescaledb_information.chunks WHERE hypertable_name = 'mpi_node_traffic'
                   AND range_end < now() - INTERVAL '2 hours'";
    let bytes = number(&client, sizes).await;
    let recent = "SELECT time, job_id, operation, peers, bytes FROM internal.mpi_node_traffic WHERE time > now() - INTERVAL '2 hours'";
    let not_old = lines(&client, recent).await;
    let done = thin(&mut client).await;
    assert!(done.chunks >= 6 && done.rows_after * 5 < done.rows_before && !done.is_behind, "{done:?}");
    assert_eq!(lines(&client, TOTALS).await, totals);
    assert_eq!(lines(&client, &traffic_as_of_each(300)).await, at_steps);
    let after = number(&client, sizes).await;
    assert!(after < bytes, "{after} of {bytes} bytes");
    assert_eq!(lines(&client, recent).await, not_old);
    // A row for each operation of a job and step, and one for each hour that begins.
    let most = "SELECT max(n) FROM (SELECT count(*) AS n FROM internal.mpi_node_traffic WHERE time < now() - INTERVAL '3 hours'
                GROUP BY job_id, operation, date_trunc('hour', time)) c";
    assert_eq!(number(&client, most).await, 13);
    let gaps = "SELECT count(*) FROM (SELECT time, since, lag(time) OVER (PARTITION BY job_id, operation ORDER BY time) AS before
                FROM internal.mpi_node_traffic WHERE operation = 'alltoall') t WHERE since <> before";
    assert_eq!(number(&client, gaps).await, 0, "what a row grew by is from the row before it on");
    let ends = "SELECT count(*) FROM internal.mpi_rank_rows m JOIN internal.run j ON j.id = m.job_id
                WHERE j.key = 'a' AND m.time = j.start_time + INTERVAL '4000 seconds'";
    assert_eq!(number(&client, ends).await, 2, "the last rows of ranks");
    assert_eq!(thin(&mut client).await, ChunksThinned::default(), "nothing is left to do");
}

#[tokio::test]
async fn rows_that_stay_are_left_alone() {
    let (_, mut client) = seeded().await;
    let all = "SELECT * FROM internal.mpi_node_traffic";
    let before = lines(&client, all).await;
    let never = Retention::for_all(WEEK);
    let done = thin_chunks(&mut client, &never, PATIENCE).await.unwrap();
    assert_eq!(done, ChunksThinned::default());
    assert_eq!(lines(&client, all).await, before);
    let some = never.with_rows(Duration::from_secs(2 * 3600));
    let done = thin_chunks(&mut client, &some, Duration::ZERO).await.unwrap();
    assert_eq!(done, ChunksThinned { is_behind: true, ..ChunksThinned::default() });
}

#[tokio::test]
async fn what_comes_late_counts_and_is_thinned_in_its_turn() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let begin = hours_ago(&client, 6).await + 5 * SECOND;
    let mut batches = job("a", begin, 3500, Some(50));
    let late = batches.split_off(300);
    let spool = Uuid::new_v4();
    let entries = |from: u64, some: Vec<Batch>| -> Vec<_> {
        (from..).zip(some).map(|(number, batch)| entry(spool, number, batch)).collect()
    };
    let mut writer = Writer::new(database.clone());
    writer.write(&entries(1, batches)).await.unwrap();
    assert!(thin(&mut client).await.chunks > 0);
    writer.write(&entries(301, late.clone())).await.unwrap();
    let totals = lines(&client, TOTALS).await;
    let other = testing::database().await;
    let expected = other.connect().await.unwrap();
    write(&other, job("a", begin, 3500, Some(50))).await;
    assert_eq!(totals, lines(&expected, TOTALS).await, "as if it had come in time");
    // So many that the chunk is worth it.
    for number in 0..40 {
        write(&database, job(&format!("late{number}"), begin, 3000, Some(7))).await;
    }
    let totals = lines(&client, TOTALS).await;
    let again = thin(&mut client).await;
    assert!(again.chunks > 0 && again.rows_after * 4 < again.rows_before, "{again:?}");
    assert_eq!(lines(&client, TOTALS).await, totals);
    assert_eq!(thin(&mut client).await, ChunksThinned::default());
}

#[tokio::test]
async fn readers_and_writers_meanwhile_lose_nothing() {
    let (database, mut client) = seeded().await;
    let totals = lines(&client, TOTALS).await;
    // A snapshot of before that reads after, and one that reads now and then again.
    let mut older = database.connect().await.unwrap();
    let older = older.build_transaction();
    let older = older.isolation_level(tokio_postgres::IsolationLevel::RepeatableRead).start().await.unwrap();
    older.query_one("SELECT count(*) FROM internal.run", &[]).await.unwrap();
    let mut writing = database.connect().await.unwrap();
    let insert = writing.transaction().await.unwrap();
    let again = "INSERT INTO internal.mpi_node_traffic (time, job_id, node_id, operation, kind, direction, epoch, since, source, is_whole, peers, bytes,
                     messages)
                 SELECT time + INTERVAL '1 second', job_id, node_id, operation, kind, direction, epoch,
                     since, source, is_whole, peers, ARRAY(SELECT b + 1 FROM unnest(bytes) b), messages
                 FROM internal.mpi_node_traffic WHERE time < now() - INTERVAL '3 hours' AND is_whole";
    assert!(insert.execute(again, &[]).await.unwrap() > 100);
    let traffic = "SELECT count(*) FROM internal.thinned_chunk WHERE hypertable = 'mpi_node_traffic'";
    thin(&mut client).await;
    assert_eq!(number(&client, traffic).await, 0, "somebody writes into its chunks");
    assert_eq!(lines(&older, TOTALS).await, totals, "ranks as they are kept, traffic as it was");
    insert.commit().await.unwrap();
    older.commit().await.unwrap();
    let more = lines(&client, TOTALS).await;
    assert_ne!(more, totals);
    let mut older = database.connect().await.unwrap();
    let older = older.build_transaction();
    let older = older.isolation_level(tokio_postgres::IsolationLevel::RepeatableRead).start().await.unwrap();
    older.query_one("SELECT count(*) FROM internal.run", &[]).await.unwrap();
    let done = thin(&mut client).await;
    assert_eq!(number(&client, traffic).await, 3, "{done:?}");
    assert_eq!(lines(&client, TOTALS).await, more);
    assert_eq!(lines(&older, TOTALS).await, more, "of a snapshot of before");
}

#[tokio::test]
async fn a_chunk_that_could_not_be_thinned_has_all_its_rows() {
    let (_, mut client) = seeded().await;
    let all = "SELECT * FROM internal.mpi_node_traffic";
    let before = lines(&client, all).await;
    // The last thing before the commit fails.
    client
        .batch_execute(
            "ALTER TABLE internal.thinned_chunk ADD CONSTRAINT never CHECK (rows_after < 0) NOT VALID",
        )
        .await
        .unwrap();
    let retention = Retention::for_all(WEEK).with_rows(Duration::from_secs(2 * 3600));
    let failed = thin_chunks(&mut client, &retention, PATIENCE).await.unwrap_err();
    assert!(failed.to_string().contains("thinning"), "{failed}");
    assert_eq!(lines(&client, all).await, before);
    client.batch_execute("ALTER TABLE internal.thinned_chunk DROP CONSTRAINT never").await.unwrap();
    assert!(thin(&mut client).await.chunks > 0);
}

/// Records of a job on two nodes each ten seconds: sampled calls, operations of its ranks (each sixth time all of them, else those that
/// grew), and self-metrics.
fn sampled_job(key: &str, begin: i64, ticks: i64) -> Vec<Batch> {
    let record = |(tick, node): (i64, u32)| {
        let time = begin + tick * 10 * SECOND;
        let count = u64::try_from(tick).unwrap();
        let call = |n: u64| MpiSampledCall {
            call: count * 8 + n,
            ranks: 2,
            elapsed_nanoseconds: 900 + n,
            ..MpiSampledCall::default()
        };
        let sums = |operation: &str, calls: u64| MpiOpCell {
            operation: operation.into(),
            calls,
            bytes: calls * 64,
            elapsed_nanoseconds: calls * 1000,
            wait_nanoseconds: (operation == "recv").then_some(calls),
            ..MpiOpCell::default()
        };
        // Of six ticks the third differs most; barriers are in the second only.
        let cell = |operation: &str, calls: u64, ranks: u32| MpiNodeCell {
            sums: Some(sums(operation, calls)),
            ranks,
            least_rank: node * 2,
            least_rank_nanoseconds: 10,
            most_rank: node * 2 + 1,
            most_rank_nanoseconds: if ranks == 0 {
                0
            } else if tick % 6 == 3 {
                700
            } else {
                20 + count
            },
        };
        let barriers = (count + 4) / 6;
        let is_whole = tick % 6 == 1;
        let grown =
            [("send", count, 2), ("recv", count * 3, 2), ("barrier", barriers, u32::from(tick % 6 == 2))];
        let cells = grown.into_iter().filter(|(_, calls, ranks)| *calls > 0 && (is_whole || *ranks > 0));
        let stat = |name: &str, value: f64| SelfStat {
            time,
            source: "mpi".into(),
            name: name.into(),
            value,
            ..SelfStat::default()
        };
        Batch {
            node: format!("n{node}"),
            mpi_sampled_calls: vec![MpiSampledCalls {
                time,
                job_key: key.into(),
                comm_group: 5,
                group_size: 4,
                members: "0-3".into(),
                operation: "allreduce".into(),
                size_class_bytes: 8,
                cell: 1,
                calls: (0..8).map(call).collect(),
            }],
            mpi_node_cells: vec![MpiNodeCells {
                time,
                epoch: begin,
                job_key: key.into(),
                since: time - 10 * SECOND,
                source: "pmpi".into(),
                cells: cells.map(|(operation, calls, ranks)| cell(operation, calls, ranks)).collect(),
                is_whole,
                account: Some(MpiNodeAccount {
                    grown: Some(MpiAccountSums {
                        elapsed_nanoseconds: count * 20_000_000_000,
                        ..MpiAccountSums::default()
                    }),
                    ..MpiNodeAccount::default()
                }),
            }],
            self_stats: if tick % 6 == 0 {
                vec![stat("records", count as f64), stat("source_up", 1.0)]
            } else {
                vec![stat("records", count as f64)]
            },
            ..Batch::default()
        }
    };
    let start = Batch {
        node: "n0".into(),
        jobs: vec![Job { key: key.into(), start: begin, world_size: 4, ..Job::default() }],
        job_ranks: (0..4)
            .map(|rank| JobRank {
                job_key: key.into(),
                rank,
                start: begin,
                world_size: 4,
                host: format!("n{}", rank / 2),
                ..JobRank::default()
            })
            .collect(),
        ..Batch::default()
    };
    std::iter::once(start).chain((1..=ticks).flat_map(|tick| [(tick, 0), (tick, 1)]).map(record)).collect()
}

#[tokio::test]
async fn sampled_calls_are_those_of_the_same_ticks_of_all_nodes() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let begin = hours_ago(&client, 6).await;
    // Two minutes and a half, and a job that ended within a minute.
    write(&database, sampled_job("long", begin + 60 * SECOND, 15)).await;
    write(&database, sampled_job("short", begin + 300 * SECOND, 4)).await;
    let whole = lines(&client, "SELECT * FROM internal.mpi_sampled_calls").await;
    assert!(thin(&mut client).await.chunks > 0);
    let left = lines(&client, "SELECT * FROM internal.mpi_sampled_calls").await;
    assert!(left.iter().all(|row| whole.contains(row)), "none is changed");
    let ticks = "SELECT j.key, extract(epoch FROM m.time - j.start_time)::integer, count(DISTINCT m.node_id)
                 FROM internal.mpi_sampled_calls m JOIN internal.run j ON j.id = m.job_id GROUP BY 1, 2";
    assert_eq!(lines(&client, ticks).await, ["(long,120,2)", "(long,150,2)", "(long,60,2)", "(short,40,2)"]);
}

#[tokio::test]
async fn self_metrics_have_their_last_values() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let begin = hours_ago(&client, 6).await;
    write(&database, sampled_job("a", begin, 100)).await;
    let newest = "SELECT s.* , extract(epoch FROM n.time)::bigint, n.value FROM internal.self_stat_series s
                  CROSS JOIN LATERAL internal.self_stat_newest(s.name, s.source, s.instance, now() - INTERVAL '1 day', of_label => s.label) n WHERE s.name = 'records'";
    let before = lines(&client, newest).await;
    assert!(thin(&mut client).await.chunks > 0);
    assert_eq!(lines(&client, newest).await, before);
    let rows = "SELECT extract(epoch FROM time)::bigint % 3600, names, readings FROM internal.self_stat_rows WHERE instance = 'n0'";
    // As of each four minutes, and what was reported after the last of them.
    let mut expected = [240, 480, 720, 960]
        .map(|second| format!("({second},\"{{records,source_up}}\",\"{{{},1}}\")", second / 10))
        .to_vec();
    expected.push("(1000,{records},{100})".to_owned());
    expected.sort();
    assert_eq!(lines(&client, rows).await, expected);
}

#[tokio::test]
async fn operations_of_nodes_are_merged_by_the_minute() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let begin = hours_ago(&client, 6).await;
    write(&database, sampled_job("a", begin, 100)).await;
    let totals = "SELECT c.* FROM internal.run j CROSS JOIN LATERAL internal.mpi_node_op_cells(j.id) c";
    let known = "node_id, operation, calls, bytes, elapsed_seconds, wait_seconds";
    let totals = totals.replace(
        "c.*",
        &known.split(", ").map(|column| format!("c.{column}")).collect::<Vec<_>>().join(", "),
    );
    let as_of = format!(
        "SELECT s.until, c.node_id, c.operation, c.calls FROM internal.run j,
             generate_series(0, 30) m, to_timestamp({} + m * 60) s (until)
         CROSS JOIN LATERAL internal.mpi_node_op_cells(j.id, s.until) c",
        begin / SECOND
    );
    let accounts = "SELECT DISTINCT ON (node_id, minute) node_id, as_of, elapsed_seconds, date_bin('1 minute', time - INTERVAL '1 second', 'epoch') AS minute
                    FROM public.mpi_node_account ORDER BY node_id, minute, time DESC";
    let accounts_before = lines(&client, accounts).await;
    assert_eq!(accounts_before.len(), 34);
    let (before, before_as_of) = (lines(&client, &totals).await, lines(&client, &as_of).await);
    assert_eq!(before.len(), 6);
    assert!(thin(&mut client).await.chunks > 0);
    assert_eq!(lines(&client, &totals).await, before);
    assert_eq!(lines(&client, &as_of).await, before_as_of);
    assert_eq!(lines(&client, accounts).await, accounts_before, "the newest of each minute");
    assert_eq!(lines(&client, "SELECT count(*) FROM public.mpi_node_account").await, ["(34)"]);
    let rows = "SELECT count(*), min(time - since) = INTERVAL '40 seconds', max(time - since) = INTERVAL '1 minute', bool_and(is_whole)
                FROM internal.mpi_node_rows";
    assert_eq!(lines(&client, rows).await, ["(34,t,t,t)"]);
    let extremes = "SELECT DISTINCT k.operation, r.ranks, r.most_rank_nanoseconds FROM internal.mpi_node_rows m
                    CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p CROSS JOIN LATERAL internal.mpi_packed_round(m.rounds, p.number) r
                    JOIN internal.mpi_cell_key k ON k.id = p.cell_id WHERE m.time <= date_trunc('hour', m.time) + INTERVAL '1 minute'";
    let expected = ["(barrier,1,22)", "(recv,2,700)", "(send,2,700)"];
    assert_eq!(lines(&client, extremes).await, expected, "of the ten seconds in which ranks differed most");
}

#[tokio::test]
async fn traffic_waits_for_link_shares_and_not_for_longer_than_they_are_made_again() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    for (key, ago) in [("a", 9), ("b", 4)] {
        let begin = hours_ago(&client, ago).await;
        write(&database, job(key, begin + 60 * SECOND, 1000, Some(7))).await;
    }
    let thinned = "SELECT j.key FROM internal.run j WHERE (SELECT count(*) FROM internal.mpi_node_traffic m WHERE m.job_id = j.id) < 30";
    for (made, expected) in [
        // Windows of six hours ago are to be made, which read an hour before them.
        ("5 hours", &["(a)"][..]),
        // And older ones are given up.
        ("100 hours", &["(a)"]),
        ("1 minute", &["(a)", "(b)"]),
    ] {
        let state = "INSERT INTO internal.link_share_state DEFAULT VALUES ON CONFLICT DO NOTHING";
        let made = format!(
            "{state}; UPDATE internal.link_share_state SET computed_until = now() - INTERVAL '{made}'"
        );
        client.batch_execute(&made).await.unwrap();
        thin(&mut client).await;
        assert_eq!(lines(&client, thinned).await, expected, "{made}");
    }
}
