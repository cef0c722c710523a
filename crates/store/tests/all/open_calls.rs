//! Calls that go on: the newest report of each thread, the time in them as time in MPI, and of killed ranks up to their last
//! report.

use crate::batches::{SECOND, entry};
use std::time::SystemTime;
use throughline_sample::wire::{Batch, Job, JobComm, JobRank, MpiOpCell, MpiOpenCall, MpiRankBin};
use throughline_store::{Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

const KEY: &str = "slurm:1.0";

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap() / 1000 * 1000
}

/// A rank that began 200 s ago.
fn rank(rank: u32, start: i64, end: i64) -> JobRank {
    let ending = if end == 0 { "" } else { "lost" }.to_owned();
    JobRank { job_key: KEY.into(), rank, start, end, ending, host: "n1".into(), ..JobRank::default() }
}

/// A barrier of a rank since 62 s after its start, as reported then.
fn barrier(rank: u32, start: i64, reported: i64) -> MpiOpenCall {
    MpiOpenCall {
        time: start + reported * SECOND,
        epoch: start,
        job_key: KEY.into(),
        rank,
        operation: "barrier".into(),
        start: start + 62 * SECOND,
        is_on_world: true,
        comm_size: Some(4),
        ..MpiOpenCall::default()
    }
}

/// Five calls in 2 s of MPI until 60 s after the start.
fn calls(rank: u32, start: i64) -> MpiRankBin {
    let cell = MpiOpCell {
        operation: "send".into(),
        calls: 5,
        elapsed_nanoseconds: 2_000_000_000,
        ..MpiOpCell::default()
    };
    MpiRankBin {
        time: start + 60 * SECOND,
        epoch: start,
        job_key: KEY.into(),
        rank,
        source: "pmpi".into(),
        cells: vec![cell],
    }
}

async fn read(client: &Client, sql: &str) -> Vec<(i32, f64)> {
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn time_in_a_call_that_goes_on_is_time_in_mpi() {
    let start = now() - 200 * SECOND;
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let named = MpiOpenCall { is_on_world: false, comm: Some(2), peer: Some(3), ..barrier(2, start, 200) };
    let first = Batch {
        node: "n1".into(),
        jobs: vec![Job { key: KEY.into(), user: "ada".into(), start, world_size: 4, ..Job::default() }],
        // Rank 1 was killed a second after its last report; rank 3 is silent since longer.
        job_ranks: [(0, 0), (1, 151), (2, 0), (3, 0)]
            .map(|(number, end)| rank(number, start, if end == 0 { 0 } else { start + end * SECOND }))
            .into(),
        mpi_ops: vec![calls(0, start), calls(1, start)],
        job_comms: vec![JobComm {
            time: start,
            epoch: start,
            job_key: KEY.into(),
            rank: 2,
            comm: 2,
            name: "rows".into(),
            size: 4,
            rank_in_comm: Some(1),
        }],
        mpi_open_calls: vec![
            barrier(0, start, 200),
            barrier(1, start, 150),
            named.clone(),
            barrier(3, start, 100),
        ],
        ..Batch::default()
    };
    let spool = Uuid::from_u128(1);
    writer.write(&[entry(spool, 1, first)]).await.unwrap();
    // A report that comes late is none.
    let late = Batch { node: "n1".into(), mpi_open_calls: vec![barrier(0, start, 180)], ..Batch::default() };
    writer.write(&[entry(spool, 2, late)]).await.unwrap();

    let client = database.connect_reader().await.unwrap();
    let open = read(&client, "SELECT rank, seconds FROM internal.mpi_open_calls ORDER BY rank").await;
    assert_eq!(open, [(0, 138.0), (1, 88.0), (2, 138.0)]);
    let row =
        client.query_one("SELECT comm, peer FROM internal.mpi_open_calls WHERE rank = 2", &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), ("rows", 3));
    let row =
        client.query_one("SELECT comm, peer FROM internal.mpi_open_calls WHERE rank = 0", &[]).await.unwrap();
    assert_eq!((row.get(0), row.get::<_, Option<i32>>(1)), ("MPI_COMM_WORLD", None));
    let totals = "SELECT rank, elapsed_seconds FROM public.mpi_rank_totals ORDER BY rank";
    // Rank 2 has returned from no call yet.
    assert_eq!(read(&client, totals).await, [(0, 140.0), (1, 90.0), (2, 138.0)]);
    let observed = "SELECT rank, observed_seconds FROM public.mpi_rank_totals ORDER BY rank";
    assert_eq!(read(&client, observed).await, [(0, 200.0), (1, 151.0), (2, 200.0)]);
    let row = client.query_one("SELECT sum(calls)::bigint FROM public.mpi_rank_totals", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 10);

    let returned = MpiOpenCall { has_returned: true, ..named };
    let last = Batch { node: "n1".into(), mpi_open_calls: vec![returned], ..Batch::default() };
    writer.write(&[entry(spool, 3, last)]).await.unwrap();
    assert_eq!(read(&client, totals).await, [(0, 140.0), (1, 90.0)]);
    assert_eq!(
        read(&client, "SELECT count(*)::integer, 0.0::float8 FROM internal.mpi_open_call").await,
        [(4, 0.0)]
    );
}
