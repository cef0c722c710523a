//! Operations of a job on a node: all cells in one row, as the same cells in rows of their own.

use crate::batches::{SECOND, START, entry};
use throughline_sample::wire::{Batch, Job, JobRank, MpiNodeCell, MpiNodeCells, MpiOpCell};
use throughline_store::{Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

/// A cell as of a record: its calls, and whether it grew.
type Figures = (&'static str, u64, bool);

/// Records of one node, and whether each has all cells.
const RECORDS: [(&[Figures], bool); 5] = [
    (&[("send", 10, true), ("recv", 5, true)], true),
    (&[("send", 30, true)], false),
    (&[("recv", 7, true), ("bcast", 1, true)], false),
    (&[("send", 31, true), ("recv", 7, false), ("bcast", 1, false)], true),
    (&[("send", 50, true)], false),
];

fn time_of(number: usize) -> i64 {
    START + 10 * SECOND * (1 + i64::try_from(number).unwrap())
}

/// The records of a job, some with all cells, or each with those that grew.
pub(crate) fn job(key: &str, has_whole: bool) -> Batch {
    let cell = |(operation, calls, has_grown): &Figures| MpiNodeCell {
        sums: Some(MpiOpCell {
            operation: (*operation).into(),
            size_class_bytes: 1024,
            calls: *calls,
            bytes: calls * 1024,
            elapsed_nanoseconds: calls * 1_000_000,
            wait_nanoseconds: (*operation == "recv").then_some(calls * 1000),
            received_bytes: (*operation != "send").then_some(calls * 1024),
            ..MpiOpCell::default()
        }),
        ranks: if *has_grown { 4 } else { 0 },
        least_rank: 1,
        least_rank_nanoseconds: 10,
        most_rank: 2,
        most_rank_nanoseconds: 20,
    };
    let record = |(number, (cells, is_whole)): (usize, &(&[Figures], bool))| MpiNodeCells {
        time: time_of(number),
        epoch: START,
        job_key: key.into(),
        since: time_of(number) - 10 * SECOND,
        source: "pmpi".into(),
        cells: cells.iter().filter(|(_, _, has_grown)| has_whole || *has_grown).map(cell).collect(),
        is_whole: has_whole && *is_whole,
        account: None,
    };
    Batch {
        node: "n1".into(),
        jobs: vec![Job { key: key.into(), start: START, world_size: 1, ..Job::default() }],
        job_ranks: vec![JobRank { job_key: key.into(), start: START, world_size: 1, ..JobRank::default() }],
        mpi_node_cells: RECORDS.iter().enumerate().map(record).collect(),
        ..Batch::default()
    }
}

/// Operation, calls, bytes, seconds inside, seconds waited, bytes received.
type Totals = Vec<(String, i64, i64, f64, Option<f64>, Option<i64>)>;

async fn totals(client: &Client, key: &str, from: &str) -> Totals {
    let sql = format!(
        "SELECT operation, calls, bytes, elapsed_seconds, wait_seconds, received_bytes
         FROM internal.run j CROSS JOIN LATERAL {from} c WHERE j.key = $1 ORDER BY operation"
    );
    let rows = client.query(&sql, &[&key]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4), row.get(5))).collect()
}

#[tokio::test]
async fn rows_of_all_cells_and_rows_of_those_that_grew_have_the_same_totals_and_course() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let mut writer = Writer::new(database);
    for (key, has_whole) in [("changes", false), ("wholes", true)] {
        writer.write(&[entry(Uuid::new_v4(), 1, job(key, has_whole))]).await.unwrap();
    }
    for number in 0..RECORDS.len() {
        let until = format!("to_timestamp({}::float8)", time_of(number) / SECOND);
        let function = format!("internal.mpi_node_op_cells(j.id, {until})");
        let series = format!(
            "(SELECT DISTINCT ON (operation) * FROM public.mpi_op_series s WHERE s.job_id = j.id AND s.time <= {until}
              ORDER BY operation, time DESC)"
        );
        let expected = totals(&client, "changes", &function).await;
        assert!(!expected.is_empty());
        for (key, from) in [("wholes", &function), ("changes", &series), ("wholes", &series)] {
            assert_eq!(totals(&client, key, from).await, expected, "{key} as of record {number}: {from}");
        }
    }
    let newest = "SELECT extract(epoch FROM last_time - since)::float8, operation
                  FROM internal.run j CROSS JOIN LATERAL internal.mpi_node_op_cells(j.id) WHERE j.key = $1 ORDER BY operation";
    let rows = client.query(newest, &[&"wholes"]).await.unwrap();
    let intervals: Vec<Option<f64>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        intervals,
        [None, None, Some(10.0)],
        "when bcast and recv grew is in no row since the whole one"
    );
    // The ranks with the least and the most time of each cell that grew.
    let extremes = "
        SELECT r.ranks, r.least_rank, r.least_rank_nanoseconds, r.most_rank, r.most_rank_nanoseconds, count(*)::integer
        FROM internal.mpi_node_rows m CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
        CROSS JOIN LATERAL internal.mpi_packed_round(m.rounds, p.number) r
        WHERE m.job_id = (SELECT id FROM internal.run WHERE key = 'wholes') GROUP BY 1, 2, 3, 4, 5 ORDER BY 1";
    let rows = client.query(extremes, &[]).await.unwrap();
    let ranks: Vec<[Option<i32>; 4]> =
        rows.iter().map(|row| [0, 1, 3, 5].map(|column| row.get(column))).collect();
    assert_eq!(ranks, [[Some(0), None, None, Some(2)], [Some(4), Some(1), Some(2), Some(7)]]);
    assert_eq!([2, 4].map(|column| rows[1].get::<_, i64>(column)), [10, 20]);
}

#[tokio::test]
async fn where_the_time_went_is_in_rows_without_operations_too() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let mut writer = Writer::new(database);
    let mut batch = job("quiet", false);
    batch.mpi_node_cells.truncate(2);
    // Of the second ten seconds nothing was called, and the row came a second late.
    batch.mpi_node_cells[1].cells = Vec::new();
    batch.mpi_node_cells[1].account = Some(crate::batches::account());
    writer.write(&[entry(Uuid::new_v4(), 1, batch)]).await.unwrap();
    let sums = "SELECT elapsed_seconds, computing_seconds, core_wait_seconds, off_processor_seconds, mpi_seconds, file_seconds, sleep_seconds,
                    extract(epoch FROM time - as_of)::float8, extract(epoch FROM time)::bigint
                FROM public.mpi_node_account";
    let rows = client.query(sums, &[]).await.unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    let figures: Vec<f64> = (0..8).map(|column| row.get(column)).collect();
    assert_eq!(figures, [8.0, 3.0, 0.5, 1.5, 3.0, 1.0, 0.0, 1.0]);
    assert_eq!(row.get::<_, i64>(8), time_of(1) / SECOND);
    // Its operations are those of the row before.
    let until = format!("internal.mpi_node_op_cells(j.id, to_timestamp({}::float8))", time_of(1) / SECOND);
    let known: Vec<(String, i64)> = totals(&client, "quiet", &until)
        .await
        .into_iter()
        .map(|(operation, calls, ..)| (operation, calls))
        .collect();
    assert_eq!(known, [("recv".to_owned(), 5), ("send".to_owned(), 10)]);
}
