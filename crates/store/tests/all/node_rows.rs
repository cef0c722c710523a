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

/// The records of a job, each cell that grew a row of its own, or all in one row.
fn job(key: &str, are_arrays: bool) -> Batch {
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
        cells: cells.iter().filter(|(_, _, has_grown)| are_arrays || *has_grown).map(cell).collect(),
        is_whole: are_arrays.then_some(*is_whole),
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
         FROM job j CROSS JOIN LATERAL {from} c WHERE j.key = $1 ORDER BY operation"
    );
    let rows = client.query(&sql, &[&key]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4), row.get(5))).collect()
}

#[tokio::test]
async fn cells_in_one_row_have_the_totals_and_the_course_of_single_rows() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let mut writer = Writer::new(database);
    for (key, are_arrays) in [("rows", false), ("arrays", true)] {
        writer.write(&[entry(Uuid::new_v4(), 1, job(key, are_arrays))]).await.unwrap();
    }
    for (table, rows) in [("mpi_node_cells", 7_i64), ("mpi_node_rows", 5)] {
        let count: i64 =
            client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0);
        assert_eq!(count, rows, "{table}");
    }
    for number in 0..RECORDS.len() {
        let until = format!("to_timestamp({}::float8)", time_of(number) / SECOND);
        let function = format!("mpi_node_op_cells(j.id, {until})");
        let series = format!(
            "(SELECT DISTINCT ON (operation) * FROM mpi_op_series s WHERE s.job_id = j.id AND s.time <= {until}
              ORDER BY operation, time DESC)"
        );
        let expected = totals(&client, "rows", &function).await;
        assert!(!expected.is_empty());
        for (key, from) in [("arrays", &function), ("rows", &series), ("arrays", &series)] {
            assert_eq!(totals(&client, key, from).await, expected, "{key} as of record {number}: {from}");
        }
    }
    let newest = "SELECT extract(epoch FROM last_time - since)::float8, operation
                  FROM job j CROSS JOIN LATERAL mpi_node_op_cells(j.id) WHERE j.key = 'arrays' ORDER BY operation";
    let rows = client.query(newest, &[]).await.unwrap();
    let intervals: Vec<Option<f64>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        intervals,
        [None, None, Some(10.0)],
        "bcast and recv: when they grew is in no row since the whole one"
    );
}
