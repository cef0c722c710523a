//! Rows of jobs that somebody looks at.

use super::*;
use std::sync::Arc;

/// The job, shown with these ranks.
pub(super) fn job(ranks: &[u32], is_all_ranks: bool) -> (String, LiveJob) {
    ("job".to_owned(), LiveJob { until: i64::MAX, ranks: Arc::from(ranks), is_all_ranks })
}

/// Time, begin of the interval, calls of all cells and ranks that called, of the only record of a node.
fn node_row(batch: &Batch) -> (i64, i64, u64, u32) {
    let [row] = batch.mpi_node_cells.as_slice() else { panic!("{:?}", batch.mpi_node_cells) };
    let calls = row.cells.iter().filter_map(|cell| cell.sums.as_ref()).map(|sums| sums.calls).sum();
    let at = |time: i64| (time - BEGIN) / SECOND;
    (at(row.time), at(row.since), calls, row.cells.iter().map(|cell| cell.ranks).max().unwrap_or(0))
}

#[test]
fn each_second_has_its_sums_over_the_edge_of_an_interval_and_while_nothing_is_called() {
    let mut folder = with_ranks(2);
    let mut rows = Vec::new();
    for second in 1..=25_i64 {
        let at = BEGIN + second * SECOND;
        // Nothing is called in seconds 14 to 18.
        if !(14..=18).contains(&second) {
            let calls = u64::try_from(second).unwrap();
            let bins = (0..2).map(|rank| bin(rank, at, vec![cell("send", calls, calls)]));
            take(&mut folder, ops(bins.collect()), at + 1);
        }
        let now = at + 600_000_000;
        let due = folder.due(now);
        assert!(due.mpi_node_cells.is_empty(), "what is shown each second has no other rows: {due:?}");
        let batch = folder.live(&[job(&[], false)], at);
        if second > 1 {
            rows.push(node_row(&batch));
        }
        assert!(batch.mpi_rank_rows.is_empty());
    }
    for (row, second) in rows.iter().zip(2_i64..) {
        // Where nothing grew there is no cell: the row says that there is no more.
        let (calls, who) =
            if (14..=18).contains(&second) { (0, 0) } else { (2 * u64::try_from(second).unwrap(), 2) };
        assert_eq!(*row, (second, second - 1, calls, who), "{rows:?}");
    }
    // The same second once more, and a job that is not here.
    assert!(folder.live(&[job(&[], false)], BEGIN + 25 * SECOND).mpi_node_cells.is_empty());
    assert_eq!(folder.live(&[("other".to_owned(), job(&[], true).1)], BEGIN + 26 * SECOND), Batch::default());
    // Nobody looks any more: the interval goes on from the last second.
    let at = BEGIN + 27 * SECOND;
    take(&mut folder, ops(vec![bin(0, at, vec![cell("send", 40, 40)])]), at);
    assert_eq!(node_row(&folder.due(BEGIN + 31_500_000_000)), (30, 25, 65, 1));
}

#[test]
fn ranks_that_are_shown_have_rows_where_they_changed() {
    let mut folder = with_ranks(4);
    folder.due(BEGIN + 12 * SECOND);
    let report = |second: i64, of: &[u32]| {
        let calls = u64::try_from(second).unwrap();
        ops(of
            .iter()
            .map(|rank| bin(*rank, BEGIN + second * SECOND, vec![cell("send", calls, calls)]))
            .collect())
    };
    let rows = |batch: &Batch| batch.mpi_rank_rows.iter().map(|row| row.rank).collect::<Vec<_>>();
    take(&mut folder, report(13, &[0, 1, 2, 3]), BEGIN + 13 * SECOND);
    let mut shown = rows(&folder.live(&[job(&[1, 3, 900], false)], BEGIN + 13 * SECOND));
    shown.sort_unstable();
    assert_eq!(shown, [1, 3]);
    take(&mut folder, report(14, &[1]), BEGIN + 14 * SECOND);
    assert_eq!(rows(&folder.live(&[job(&[1, 3], false)], BEGIN + 14 * SECOND)), [1]);
    let mut shown = rows(&folder.live(&[job(&[], true)], BEGIN + 15 * SECOND));
    shown.sort_unstable();
    assert_eq!(shown, [0, 2], "those that were not shown so far");
    // What has ended was exact at its end.
    take(&mut folder, report(16, &[0, 1]), BEGIN + 16 * SECOND);
    take(&mut folder, ranks([0], BEGIN + 16 * SECOND), BEGIN + 16 * SECOND);
    assert_eq!(rows(&folder.live(&[job(&[], true)], BEGIN + 16 * SECOND)), [1]);
}
