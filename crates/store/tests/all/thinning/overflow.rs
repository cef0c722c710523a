//! What an agent does not fold, in old chunks: each row may have the only value of a cell, so all of them stay.

use super::{TOTALS, hours_ago, job, lines, number, rank_row, thin, write};
use crate::batches::SECOND;
use throughline_store::testing;

/// Cells beyond the limits of the agent, which change in turn.
const CELLS: i64 = 50;

#[tokio::test]
async fn rows_that_are_not_folded_stay() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    let begin = hours_ago(&client, 6).await + 5 * SECOND;
    let mut batches = job("a", begin, 3000, Some(7));
    let mut expected = vec![0; usize::try_from(CELLS).unwrap()];
    for (tick, batch) in (1..).zip(batches.iter_mut().skip(1)) {
        let mut bin = rank_row("a", 0, begin + tick * 10 * SECOND, begin);
        // A rank has one row of a time.
        bin.time += 1000;
        bin.cells.truncate(1);
        bin.cells[0].region = format!("region {}", tick % CELLS);
        expected[usize::try_from(tick % CELLS).unwrap()] = bin.cells[0].calls;
        batch.mpi_ops.push(bin);
    }
    write(&database, batches).await;
    let calls = "SELECT sum(calls)::bigint FROM internal.mpi_op_cell_totals WHERE region <> ''";
    assert_eq!(number(&client, calls).await, expected.iter().sum::<u64>().cast_signed());
    let course =
        "SELECT time, rank, operation, region, calls FROM public.mpi_op_series WHERE node_id IS NULL";
    let (totals, before) = (lines(&client, TOTALS).await, lines(&client, course).await);
    assert_eq!(before.len(), 300);
    let folded = "SELECT count(*) FROM internal.mpi_rank_rows WHERE is_folded";
    let rows = number(&client, folded).await;
    assert!(thin(&mut client).await.chunks > 0);
    assert!(number(&client, folded).await < rows);
    assert_eq!(lines(&client, TOTALS).await, totals);
    assert_eq!(lines(&client, course).await, before);
}
