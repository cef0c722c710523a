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
    writer.write(&[entry(Uuid::new_v4(), 1, job("old", true))]).await.unwrap();
    assert_eq!(client.execute(AS_ARRAYS, &[]).await.unwrap(), 5);
    for (table, rows) in [("mpi_node_cells", 7_i64), ("mpi_node_rows", 10)] {
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
        let others = ["arrays", "old"].map(|key| (key, &function));
        for (key, from) in others.into_iter().chain(["rows", "arrays", "old"].map(|key| (key, &series))) {
            assert_eq!(totals(&client, key, from).await, expected, "{key} as of record {number}: {from}");
        }
    }
    let newest = "SELECT extract(epoch FROM last_time - since)::float8, operation
                  FROM job j CROSS JOIN LATERAL mpi_node_op_cells(j.id) WHERE j.key = $1 ORDER BY operation";
    for key in ["arrays", "old"] {
        let rows = client.query(newest, &[&key]).await.unwrap();
        let intervals: Vec<Option<f64>> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(
            intervals,
            [None, None, Some(10.0)],
            "{key}: when bcast and recv grew is in no row since the whole one"
        );
    }
    // The ranks with the least and the most time of each cell that grew.
    let extremes = "
        SELECT r.ranks, r.least_rank, r.least_rank_nanoseconds, r.most_rank, r.most_rank_nanoseconds, count(*)::integer
        FROM mpi_node_rows m CROSS JOIN LATERAL mpi_packed_cells(m.cells) p
        CROSS JOIN LATERAL mpi_packed_round(m.rounds, p.number) r GROUP BY 1, 2, 3, 4, 5 ORDER BY 1";
    let rows = client.query(extremes, &[]).await.unwrap();
    let ranks: Vec<[Option<i32>; 4]> =
        rows.iter().map(|row| [0, 1, 3, 5].map(|column| row.get(column))).collect();
    assert_eq!(ranks, [[Some(0), None, None, Some(2)], [Some(4), Some(1), Some(2), Some(7)]]);
    assert_eq!([2, 4].map(|column| rows[1].get::<_, i64>(column)), [10, 20]);
}

/// Rows of the job `old` in the form that they had before schema 45.
const AS_ARRAYS: &str = "
    UPDATE mpi_node_rows m SET operations = a.operations, size_classes_bytes = a.sizes, regions = a.texts, algorithms = a.texts,
        algorithm_sources = a.texts, calls = a.calls, bytes = a.bytes, elapsed_nanoseconds = a.elapsed,
        longest_nanoseconds = a.elapsed, wait_nanoseconds = a.waits, received_bytes = a.received, least_nanoseconds = a.elapsed,
        ranks = a.ranks, least_ranks = a.ranks, least_rank_nanoseconds = a.elapsed, most_ranks = a.ranks,
        most_rank_nanoseconds = a.elapsed, cells = NULL, rounds = NULL
    FROM (SELECT r.job_id, r.time, array_agg(k.operation ORDER BY number) AS operations,
              array_agg(k.size_class_bytes ORDER BY number) AS sizes, array_agg(''::text ORDER BY number) AS texts,
              array_agg(p.calls ORDER BY number) AS calls, array_agg(p.bytes ORDER BY number) AS bytes,
              array_agg(p.elapsed_nanoseconds ORDER BY number) AS elapsed, array_agg(p.wait_nanoseconds ORDER BY number) AS waits,
              array_agg(p.received_bytes ORDER BY number) AS received, array_agg(g.ranks ORDER BY number) AS ranks
          FROM mpi_node_rows r
          CROSS JOIN LATERAL mpi_packed_cells(r.cells) p
          CROSS JOIN LATERAL mpi_packed_round(r.rounds, p.number) g
          JOIN mpi_cell_key k ON k.id = p.cell_id
          JOIN job j ON j.id = r.job_id AND j.key = 'old'
          GROUP BY r.job_id, r.time) a
    WHERE (m.job_id, m.time) = (a.job_id, a.time)";
