//! Detail on demand as it arrives: some seconds of a rank in a row, read back record by record; what came before gives way to an
//! answer that has all of it; the tables have a retention of their own.

use std::time::Duration;

use crate::batches::entry;
use throughline_sample::wire::{Batch, DetailEnd, DetailPart, Job, JobRank, MpiOpCell, MpiRankBin};
use throughline_store::{
    Database, DetailLimits, DetailReason, DetailSubject, NewDetail, Retention, RetentionWay, Writer,
    apply_retention, request_detail, testing,
};
use tokio_postgres::Client;
use uuid::Uuid;

const SECOND: i64 = 1_000_000_000;
const KEY: &str = "slurm:7.0@1000";

/// A job on n1, its writer, and when it began.
struct Setup {
    database: Database,
    client: Client,
    writer: Writer,
    sequence: u64,
    begin: i64,
}

async fn setup() -> Setup {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let begin = now(&mut client).await / SECOND * SECOND - 120 * SECOND;
    let job = Job { key: KEY.into(), start: begin, world_size: 2, ..Job::default() };
    let rank = |rank| JobRank {
        job_key: KEY.into(),
        rank,
        pid: 5 + rank,
        start: begin,
        world_size: 2,
        host: "n1".into(),
        ..JobRank::default()
    };
    let batch =
        Batch { node: "n1".into(), jobs: vec![job], job_ranks: vec![rank(0), rank(1)], ..Batch::default() };
    let mut setup = Setup { writer: Writer::new(database.clone()), database, client, sequence: 0, begin };
    setup.write(batch).await;
    setup
}

async fn now(client: &mut Client) -> i64 {
    client.query_one("SELECT (extract(epoch FROM now()) * 1e9)::bigint", &[]).await.unwrap().get(0)
}

impl Setup {
    async fn write(&mut self, batch: Batch) {
        self.sequence += 1;
        let entry = entry(Uuid::from_u128(9), self.sequence, batch);
        let outcome = self.writer.write(&[entry]).await.unwrap();
        assert!(outcome.rejected.is_empty() && outcome.quarantined == 0, "{outcome:?}");
    }

    async fn request(&mut self, from: i64, to: i64) -> u64 {
        let job = self.client.query_one("SELECT id FROM internal.run", &[]).await.unwrap().get(0);
        let (from, to) = ((self.begin + from * SECOND) / 1_000_000, (self.begin + to * SECOND) / 1_000_000);
        let new = NewDetail {
            requested_by: "local:7".into(),
            turn: None,
            reason: DetailReason::Person,
            subject: DetailSubject::Job(job),
            from,
            to,
            resolution: 0.0,
        };
        let made = request_detail(&mut self.client, &new, &DetailLimits::default()).await.unwrap();
        made.unwrap().unsigned_abs()
    }

    /// What an attempt sends of the seconds from `from` to before `to`: of each rank a bin each 100 ms.
    async fn answer(&mut self, request: u64, attempt: u64, from: i64, to: i64, is_end: bool) {
        let bin = |rank: u32, number: i64| MpiRankBin {
            time: self.begin + number * SECOND / 10 + 1,
            epoch: self.begin,
            job_key: KEY.into(),
            rank,
            source: "pmpi".into(),
            cells: vec![cell("send", number, None), cell("recv", 2 * number, Some(7))],
        };
        let bins = (from * 10..to * 10).flat_map(|number| [bin(1, number), bin(0, number)]);
        let mpi_ops: Vec<MpiRankBin> = bins.collect();
        let part = DetailPart { request, attempt, end: None };
        let records = mpi_ops.len() as u64;
        let batch = Batch { node: "n1".into(), mpi_ops, detail: Some(part.clone()), ..Batch::default() };
        self.write(batch).await;
        if is_end {
            let recorded_from = self.begin;
            let end = Some(DetailEnd { records, recorded_from, ..DetailEnd::default() });
            let detail = Some(DetailPart { end, ..part });
            self.write(Batch { node: "n1".into(), detail, ..Batch::default() }).await;
        }
    }

    /// Cells of detail, different ones, and the sum of their calls; rows.
    async fn stored(&self) -> (i64, i64, i64, i64) {
        let sql = "SELECT count(*), count(DISTINCT (time, rank, operation)), sum(calls)::bigint,
                          (SELECT count(*) FROM internal.detail_mpi_bins) FROM internal.mpi_op_rows";
        let row = self.client.query_one(sql, &[]).await.unwrap();
        (row.get(0), row.get(1), row.get::<_, Option<i64>>(2).unwrap_or(0), row.get(3))
    }
}

fn cell(operation: &str, calls: i64, received_bytes: Option<u64>) -> MpiOpCell {
    MpiOpCell {
        operation: operation.into(),
        size_class_bytes: 64,
        calls: calls.unsigned_abs(),
        bytes: calls.unsigned_abs() * 64,
        elapsed_nanoseconds: calls.unsigned_abs() * 1000,
        received_bytes,
        ..MpiOpCell::default()
    }
}

#[tokio::test]
async fn seconds_of_a_rank_are_a_row_and_are_read_bin_by_bin() {
    let mut setup = setup().await;
    let request = setup.request(0, 100).await;
    setup.answer(request, 1, 0, 20, true).await;
    // 200 bins of two cells of two ranks, calls of 0 to 199 and twice that; a row for each rank and minute.
    let calls = 2 * (0..200).map(|number| 3 * number).sum::<i64>();
    let (cells, different, sum, rows) = setup.stored().await;
    assert_eq!((cells, different, sum), (800, 800, calls));
    assert!((2..=4).contains(&rows), "{rows}");
    let sql = "SELECT (extract(epoch FROM time) * 1e6)::bigint, bytes, elapsed_seconds, received_bytes, wait_seconds, stored_time >= time
               FROM internal.mpi_op_rows WHERE rank = 1 AND operation = 'recv' AND calls = 300";
    let row = setup.client.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), setup.begin / 1000 + 15_000_000);
    assert_eq!((row.get::<_, i64>(1), row.get::<_, f64>(2)), (19_200, 0.0003));
    assert_eq!((row.get::<_, i64>(3), row.get::<_, Option<f64>>(4), row.get::<_, bool>(5)), (7, None, true));
}

#[tokio::test]
async fn what_came_before_gives_way_to_an_answer_that_has_all_of_it() {
    let mut setup = setup().await;
    let first = setup.request(0, 100).await;
    // An attempt that was cut off, and the next one.
    setup.answer(first, 1, 0, 10, false).await;
    setup.answer(first, 2, 0, 30, true).await;
    let (cells, different, ..) = setup.stored().await;
    assert_eq!((cells, different), (1200, 1200));
    // All of the time again and more of it.
    let second = setup.request(0, 110).await;
    setup.answer(second, 3, 0, 40, true).await;
    let (cells, different, ..) = setup.stored().await;
    assert_eq!((cells, different), (1600, 1600));
    // A part of it alone: what is there stays, and nothing is lost.
    let third = setup.request(5, 15).await;
    setup.answer(third, 4, 5, 15, true).await;
    let (_, different, ..) = setup.stored().await;
    assert_eq!(different, 1600);
    let state = "SELECT state, records FROM internal.detail_request_node ORDER BY request_id";
    let states = setup.client.query(state, &[]).await.unwrap();
    let states: Vec<(String, i64)> = states.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(states, [("done".to_owned(), 600), ("done".to_owned(), 800), ("done".to_owned(), 200)]);
}

#[tokio::test]
async fn detail_goes_by_a_time_of_its_own() {
    let mut setup = setup().await;
    let request = setup.request(0, 100).await;
    setup.answer(request, 1, 0, 10, true).await;
    // The same as if of five hours ago, and a reading of that age.
    let old = "INSERT INTO internal.detail_mpi_bins SELECT (jsonb_populate_record(b, jsonb_build_object('time', time - interval '5 hours'))).*
               FROM internal.detail_mpi_bins b";
    let count = setup.client.execute(old, &[]).await.unwrap();
    let port = "INSERT INTO internal.ib_port_counters (time, port_id, epoch, source) VALUES (now() - interval '5 hours', 1, now(), 'mad')";
    setup.client.execute(port, &[]).await.unwrap();
    let retention = Retention::for_all(Duration::from_secs(86_400)).with_detail(Duration::from_secs(7200));
    assert_eq!(retention.of("detail_mpi_bins"), Duration::from_secs(7200));
    assert_eq!(retention.of("mpi_rank_rows"), Duration::from_secs(86_400));
    let client = setup.database.connect().await.unwrap();
    let outcome = apply_retention(&client, &retention, None).await.unwrap();
    if outcome.way == RetentionWay::Upkeep {
        assert!(outcome.dropped_chunks >= 1, "{outcome:?}");
        let left: i64 =
            client.query_one("SELECT count(*) FROM internal.detail_mpi_bins", &[]).await.unwrap().get(0);
        assert_eq!(left.unsigned_abs(), count, "the new ones");
        let ports: i64 =
            client.query_one("SELECT count(*) FROM internal.ib_port_counters", &[]).await.unwrap().get(0);
        assert_eq!(ports, 1, "readings are kept for longer");
    }
}
