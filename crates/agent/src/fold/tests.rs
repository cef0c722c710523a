use super::*;

mod account;
mod live;

use throughline_sample::wire::{
    Job, MpiOpCell, MpiPeerCell, MpiPvarSample, MpiRankPeers, MpiRankRegions, MpiRankScheduling,
    MpiRegionCell,
};

const SECOND: i64 = 1_000_000_000;
/// A whole multiple of both intervals.
const BEGIN: i64 = 60_000 * SECOND;
const INTERVALS: Intervals =
    Intervals { fold: 10 * SECOND, rank: 60 * SECOND, later: 300 * SECOND, repeat: 86_400 * SECOND };

fn cell(operation: &str, calls: u64, elapsed: u64) -> MpiOpCell {
    MpiOpCell {
        operation: operation.into(),
        size_class_bytes: 8,
        calls,
        bytes: 8 * calls,
        elapsed_nanoseconds: elapsed,
        longest_nanoseconds: elapsed / calls.max(1),
        received_bytes: (operation == "recv").then_some(8 * calls),
        ..MpiOpCell::default()
    }
}

fn bin(rank: u32, time: i64, cells: Vec<MpiOpCell>) -> MpiRankBin {
    MpiRankBin { time, epoch: BEGIN, job_key: "job".into(), rank, source: "pmpi".into(), cells }
}

fn ops(bins: Vec<MpiRankBin>) -> Batch {
    Batch { mpi_ops: bins, ..Batch::default() }
}

fn ranks(of: impl IntoIterator<Item = u32>, end: i64) -> Batch {
    let rank = |rank| JobRank { job_key: "job".into(), rank, start: BEGIN, end, ..JobRank::default() };
    Batch { job_ranks: of.into_iter().map(rank).collect(), ..Batch::default() }
}

/// What goes at once.
fn take(folder: &mut Folder, mut fragment: Batch, now: i64) -> Batch {
    folder.take(&mut fragment, now);
    fragment
}

fn with_ranks(count: u32) -> Folder {
    let mut folder = Folder::new(INTERVALS);
    take(&mut folder, ranks(0..count, 0), BEGIN + SECOND);
    folder
}

fn calls(row: &MpiRankBin) -> Vec<(&str, u64)> {
    row.cells.iter().map(|cell| (cell.operation.as_str(), cell.calls)).collect()
}

#[test]
fn ranks_of_a_node_are_one_row_an_interval_with_the_extremes() {
    let mut folder = with_ranks(3);
    for second in 1..=9 {
        let bins = (0..3).map(|rank| {
            let calls = u64::try_from(second).unwrap();
            bin(rank, BEGIN + second * SECOND, vec![cell("allreduce", calls, calls * (1 + u64::from(rank)))])
        });
        let passed = take(&mut folder, ops(bins.collect()), BEGIN + second * SECOND + 1);
        // First rows are made when a rank reports of a later time.
        assert_eq!(passed.mpi_rank_rows.len(), usize::from([3, 6].contains(&second)) * 3, "{second}");
        assert!(passed.mpi_ops.is_empty() && folder.due(BEGIN + second * SECOND).mpi_node_cells.is_empty());
    }
    let edge = BEGIN + 10 * SECOND;
    assert!(folder.due(edge + GRACE_NANOSECONDS - 1).mpi_node_cells.is_empty());
    let batch = folder.due(edge + GRACE_NANOSECONDS);
    let record = &batch.mpi_node_cells[0];
    assert_eq!((record.time, record.since, record.epoch), (edge, BEGIN + SECOND, BEGIN + SECOND));
    let one = &record.cells[0];
    let sums = one.sums.as_ref().unwrap();
    assert_eq!((sums.calls, sums.bytes, sums.elapsed_nanoseconds), (27, 216, 54));
    assert_eq!((one.ranks, one.least_rank, one.least_rank_nanoseconds), (3, 0, 9));
    assert_eq!((one.most_rank, one.most_rank_nanoseconds), (2, 27));
    assert_eq!(sums.received_bytes, None, "absent is not zero");
    assert_eq!(batch.mpi_rank_rows.len(), 0, "their third first row is as of this time and is made after it");
    assert_eq!(folder.due(edge + GRACE_NANOSECONDS + 1).mpi_rank_rows.len(), 3);
    // Nothing grew: up to when that is known, and no cell.
    let batch = folder.due(edge + 12 * SECOND);
    let quiet = &batch.mpi_node_cells[0];
    assert_eq!((quiet.time, quiet.since, quiet.cells.len()), (edge + 10 * SECOND, edge, 0));
    assert!(!quiet.is_whole && batch.mpi_rank_rows.is_empty());
}

#[test]
fn a_young_rank_has_rows_as_of_whole_seconds_that_have_all_of_the_time_before() {
    // Two ranks begin 0.3 s apart and have their rows together, the second one is quiet from its seventh second on.
    let mut folder = Folder::new(INTERVALS);
    let start = BEGIN + 3 * SECOND + 400_000_000;
    for (rank, later) in [(0, 0), (1, 300_000_000)] {
        let mut announced = ranks([rank], 0);
        announced.job_ranks[0].start = start + later;
        take(&mut folder, announced, start + 400_000_000);
    }
    let mut rows: Vec<(u32, i64, u64)> = Vec::new();
    for second in 4..120 {
        let now = BEGIN + second * SECOND;
        let calls = u64::try_from(second).unwrap();
        let one = MpiRankBin { epoch: start, ..bin(0, now, vec![cell("send", calls, calls)]) };
        let mut bins = vec![one];
        if second < 10 {
            let epoch = start + 300_000_000;
            bins.push(MpiRankBin { epoch, ..bin(1, now, vec![cell("recv", calls, calls)]) });
        }
        let mut batch = take(&mut folder, ops(bins), now + SECOND / 5);
        batch.mpi_rank_rows.append(&mut folder.due(now + SECOND / 2).mpi_rank_rows);
        let of = |row: &MpiRankBin| (row.rank, (row.time - BEGIN) / SECOND, row.cells[0].calls);
        rows.extend(batch.mpi_rank_rows.iter().map(of));
    }
    let of = |rank| rows.iter().filter(|row| row.0 == rank).map(|row| (row.1, row.2)).collect::<Vec<_>>();
    assert_eq!(of(0)[..5], [(6, 6), (9, 9), (14, 14), (24, 24), (44, 44)]);
    assert!((6..=7).contains(&of(0).len()), "{:?}", of(0));
    assert_eq!(of(1), [(6, 6), (9, 9)], "nothing has changed");
}

#[test]
fn first_rows_of_peers_come_with_those_of_the_rank() {
    let mut folder = with_ranks(1);
    let mut rows = Vec::new();
    for second in 1..15 {
        let now = BEGIN + second * SECOND;
        // A rank reports its peers first, a moment after the second; both come together or one after the other.
        let sent = MpiPeerCell { peer: 1, bytes: second.unsigned_abs(), messages: 1 };
        let peers = MpiRankPeers {
            time: now + 1_000_000,
            epoch: BEGIN,
            job_key: "job".into(),
            kind: "logical".into(),
            cells: vec![sent],
            ..MpiRankPeers::default()
        };
        let peers = Batch { mpi_peers: vec![peers], ..Batch::default() };
        let calls = second.unsigned_abs();
        let operations = ops(vec![bin(0, now, vec![cell("send", calls, calls)])]);
        let fragments = match second % 2 {
            0 => vec![peers, operations],
            _ => vec![Batch { mpi_ops: operations.mpi_ops, ..peers }],
        };
        for fragment in fragments {
            let made = take(&mut folder, fragment, now + SECOND / 5);
            let calls = made.mpi_rank_rows.iter().map(|row| row.cells[0].calls);
            rows.extend(calls.zip(made.mpi_peers.iter().map(|row| row.cells[0].bytes)));
        }
    }
    assert_eq!(rows, [(2, 2), (5, 5), (10, 10)]);
}

#[test]
fn rows_of_each_second_begin_at_once() {
    let mut folder = Folder::new(Intervals { fold: SECOND, rank: SECOND, ..INTERVALS });
    take(&mut folder, ranks([0], 0), BEGIN + SECOND / 2);
    let mut seconds = Vec::new();
    for second in 1..8 {
        let now = BEGIN + second * SECOND;
        let calls = second.unsigned_abs();
        take(&mut folder, ops(vec![bin(0, now, vec![cell("send", calls, calls)])]), now + SECOND / 5);
        let rows = folder.due(now + GRACE_NANOSECONDS).mpi_rank_rows;
        seconds.extend(rows.iter().map(|row| row.cells[0].calls));
    }
    assert_eq!(seconds, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_clock_that_is_set_stops_no_rows_and_moves_what_is_held() {
    for step in [-300 * SECOND, 300 * SECOND] {
        let mut folder = with_ranks(1);
        let edge = BEGIN + 10 * SECOND;
        take(&mut folder, ops(vec![bin(0, edge - SECOND, vec![cell("send", 5, 5)])]), edge - SECOND);
        let before = folder.due(edge + GRACE_NANOSECONDS);
        assert_eq!(before.mpi_node_cells[0].time, edge);
        folder.step(step);
        let now = edge + step + 3 * SECOND;
        take(&mut folder, ops(vec![bin(0, now, vec![cell("send", 9, 9)])]), now);
        let edge = edge + 10 * SECOND + step;
        let after = folder.due(edge + GRACE_NANOSECONDS);
        let record = &after.mpi_node_cells[0];
        // The row before, by the clock as it is now, is where this one begins; its counting began as it did.
        assert_eq!((record.time, record.since, record.epoch), (edge, edge - 10 * SECOND, BEGIN + SECOND));
        let last = folder.finish();
        assert_eq!((last.mpi_rank_rows[0].time, last.mpi_rank_rows[0].epoch), (now, BEGIN));
    }
}

#[test]
fn a_record_has_all_cells_or_those_that_grew() {
    let mut folder = with_ranks(1);
    let mut records = Vec::new();
    for interval in 0..4 {
        // In the first one all of twenty cells grow, then one of them.
        let calls = u64::try_from(interval).unwrap() + 1;
        let cells = (0..20).map(|at| {
            let calls = if at == 0 { calls } else { 1 };
            MpiOpCell { region: format!("r{at}"), ..cell("send", calls, calls) }
        });
        let now = BEGIN + (interval * 10 + 5) * SECOND;
        take(&mut folder, ops(vec![bin(0, now, cells.collect())]), now);
        records.append(&mut folder.due(BEGIN + (interval * 10 + 12) * SECOND).mpi_node_cells);
    }
    let found: Vec<_> = records.iter().map(|record| (record.is_whole, record.cells.len())).collect();
    assert_eq!(found, [(true, 20), (false, 1), (false, 1), (true, 20)]);
    let whole: Vec<_> = records[3].cells.iter().map(|cell| cell.ranks).collect();
    assert_eq!((whole[0], whole[1..].iter().sum::<u32>()), (1, 0), "one grew");
}

#[test]
fn bins_after_the_edge_are_of_the_next_interval() {
    let mut folder = with_ranks(1);
    let edge = BEGIN + 10 * SECOND;
    take(&mut folder, ops(vec![bin(0, edge, vec![cell("send", 5, 5)])]), edge + 1);
    take(&mut folder, ops(vec![bin(0, edge + SECOND, vec![cell("send", 9, 9)])]), edge + SECOND);
    let sums = |batch: &Batch| batch.mpi_node_cells[0].cells[0].sums.as_ref().unwrap().calls;
    assert_eq!(sums(&folder.due(edge + 2 * SECOND)), 5);
    let next = folder.due(edge + 12 * SECOND);
    assert_eq!((sums(&next), next.mpi_node_cells[0].since), (9, edge));
    assert_eq!(next.mpi_node_cells[0].cells[0].least_rank_nanoseconds, 4, "of the interval");
}

#[test]
fn a_rank_that_ends_has_an_exact_row_and_the_last_one_ends_the_job() {
    let mut folder = with_ranks(2);
    let time = BEGIN + 3 * SECOND;
    let bins = vec![
        bin(0, time, vec![cell("send", 5, 5), cell("recv", 7, 7)]),
        bin(1, time, vec![cell("send", 1, 1)]),
    ];
    take(&mut folder, ops(bins), time);
    // Its last bin and its end come together; the bin is beyond the edge.
    let late = BEGIN + 11 * SECOND;
    let mut last = ranks([0], late);
    last.mpi_ops.push(bin(0, late, vec![cell("send", 6, 6)]));
    let batch = take(&mut folder, last, late);
    let [first, last] = &batch.mpi_rank_rows[..] else { panic!("{:?}", batch.mpi_rank_rows) };
    assert_eq!((first.time, calls(first)), (time, vec![("send", 5), ("recv", 7)]), "its first row");
    assert_eq!((last.time, calls(last)), (late, vec![("send", 6), ("recv", 7)]));
    assert_eq!(batch.mpi_node_cells.len(), 0);
    let batch = take(&mut folder, ranks([1], late), late);
    assert_eq!(calls(&batch.mpi_rank_rows[0]), [("send", 1)]);
    let sums: Vec<u64> =
        batch.mpi_node_cells[0].cells.iter().map(|cell| cell.sums.as_ref().unwrap().calls).collect();
    assert_eq!(sums, [7, 7]);
    assert_eq!(
        (folder.jobs.len(), folder.ranks, folder.cells, folder.waiting, folder.peers),
        (0, 0, 0, 0, 0)
    );
    // What comes after its end passes.
    let passed = take(&mut folder, ops(vec![bin(1, late + 1, vec![cell("send", 2, 2)])]), late);
    assert_eq!(passed.mpi_ops.len(), 1);
}

#[test]
fn rows_of_a_rank_come_once_a_minute_in_its_jobs_turn() {
    let mut folder = with_ranks(1);
    let mut times = Vec::new();
    for second in 1..=360 {
        let now = BEGIN + second * SECOND;
        let calls = u64::try_from(second).unwrap();
        let mut rows =
            take(&mut folder, ops(vec![bin(0, now, vec![cell("send", calls, calls)])]), now).mpi_rank_rows;
        rows.append(&mut folder.due(now).mpi_rank_rows);
        times.extend(rows.iter().map(|row| (row.time - BEGIN) / SECOND));
        assert!(
            rows.iter().all(|row| row.cells[0].calls == u64::try_from((row.time - BEGIN) / SECOND).unwrap())
        );
    }
    assert_eq!(times[..5], [2, 5, 10, 20, 40], "soon after it began");
    assert!((10..=11).contains(&times.len()), "{times:?}");
    assert!(times[5..].windows(2).all(|pair| pair[1] - pair[0] == 60), "{times:?}");
}

/// When a rank that reports each second has rows until then, in seconds, while somebody looks at it in some of them; and how often it
/// has readings of its process.
fn rows_of_a_long_run(until: i64, is_watched: impl Fn(i64) -> bool) -> (Vec<i64>, usize) {
    let mut folder = with_ranks(1);
    let (mut times, mut readings) = (Vec::new(), 0);
    for second in 1..=until {
        let now = BEGIN + second * SECOND;
        let calls = u64::try_from(second).unwrap();
        let reading =
            MpiRankScheduling { time: now, epoch: BEGIN, job_key: "job".into(), ..Default::default() };
        let fragment = Batch {
            mpi_ops: vec![bin(0, now, vec![cell("send", calls, calls)])],
            mpi_scheduling: vec![reading],
            ..Batch::default()
        };
        let mut due = take(&mut folder, fragment, now);
        let mut at_edges = folder.due(now);
        due.mpi_rank_rows.append(&mut at_edges.mpi_rank_rows);
        due.mpi_scheduling.append(&mut at_edges.mpi_scheduling);
        times.extend(due.mpi_rank_rows.iter().map(|row| (row.time - BEGIN) / SECOND));
        readings += due.mpi_scheduling.len();
        if is_watched(second) {
            folder.live(&[live::job(&[], false)], now);
        }
    }
    // Its end, between two rows.
    let now = BEGIN + until * SECOND + 1;
    let end = take(&mut folder, ranks([0], now), now);
    assert_eq!(calls(&end.mpi_rank_rows[0]), [("send", u64::try_from(until).unwrap())], "exact at its end");
    (times, readings)
}

#[test]
fn a_rank_that_runs_for_long_has_rows_less_often_and_an_exact_one_at_its_end() {
    let (times, readings) = rows_of_a_long_run(3633, |_| false);
    let (young, old): (Vec<i64>, Vec<i64>) = times.iter().partition(|time| **time < 600);
    assert!((13..=15).contains(&young.len()), "{young:?}");
    assert!((9..=11).contains(&old.len()), "{old:?}");
    assert!(old[1..].windows(2).all(|pair| pair[1] - pair[0] == 300), "{old:?}");
    // The first one goes at once, and five go with the first rows.
    assert!((63..=68).contains(&readings), "{readings} readings of the process: each minute as ever");
}

#[test]
fn while_somebody_looks_rows_come_each_minute() {
    let (times, _) = rows_of_a_long_run(3633, |second| (1800..2400).contains(&second));
    let watched = times.iter().filter(|time| (1800..2400).contains(*time)).count();
    assert!((9..=11).contains(&watched), "{times:?}");
    let after: Vec<i64> = times.iter().copied().filter(|time| *time > 2460).collect();
    assert!(after.windows(2).all(|pair| pair[1] - pair[0] == 300), "{after:?}");
}

#[test]
fn with_many_cells_rows_are_rarer() {
    let mut folder = with_ranks(1);
    let mut rows = 0;
    for second in 1..=600 {
        let now = BEGIN + second * SECOND;
        let calls = u64::try_from(second).unwrap();
        let cells = (0..150).map(|at| MpiOpCell { region: format!("r{at}"), ..cell("send", calls, calls) });
        take(&mut folder, ops(vec![bin(0, now, cells.collect())]), now);
        rows += folder.due(now).mpi_rank_rows.len();
    }
    // Of its first rows those at the ends of intervals are among them.
    assert!((6..=7).contains(&rows), "{rows} rows in ten minutes: one in three");
}

#[test]
fn what_a_rank_did_before_it_was_known_is_in_its_row_alone() {
    let mut folder = Folder::new(INTERVALS);
    let now = BEGIN + 601 * SECOND; // the agent has begun anew
    take(&mut folder, ranks([0], 0), now);
    take(&mut folder, ops(vec![bin(0, now, vec![cell("send", 500, 500)])]), now);
    take(&mut folder, ops(vec![bin(0, now + SECOND, vec![cell("send", 510, 520), cell("recv", 3, 3)])]), now);
    let batch = folder.due(now + 12 * SECOND);
    assert_eq!(calls(&batch.mpi_rank_rows[0]), [("send", 510), ("recv", 3)]);
    let cells = &batch.mpi_node_cells[0].cells;
    let sums: Vec<_> = cells.iter().filter_map(|cell| cell.sums.as_ref()).map(|sums| sums.calls).collect();
    assert_eq!(sums, [10, 3]);
}

#[test]
fn other_reports_wait_for_the_row_and_the_newest_counts() {
    let mut folder = with_ranks(1);
    let peers = |time, bytes| MpiRankPeers {
        time,
        epoch: BEGIN,
        job_key: "job".into(),
        kind: "logical".into(),
        cells: vec![MpiPeerCell { peer: 1, bytes, messages: 1 }],
        ..MpiRankPeers::default()
    };
    let regions = |time, visits| MpiRankRegions {
        time,
        epoch: BEGIN,
        job_key: "job".into(),
        cells: vec![MpiRegionCell { region: "solve".into(), visits, ..MpiRegionCell::default() }],
        ..MpiRankRegions::default()
    };
    let variable =
        |value| MpiPvarSample { job_key: "job".into(), name: "v".into(), value, ..Default::default() };
    let reading =
        |time| MpiRankScheduling { time, epoch: BEGIN, job_key: "job".into(), ..Default::default() };
    let report = |second: i64, value: u64| Batch {
        mpi_peers: vec![peers(BEGIN + second * SECOND, value)],
        mpi_regions: vec![regions(BEGIN + second * SECOND, value)],
        mpi_pvars: vec![variable(7.0)],
        mpi_scheduling: vec![reading(BEGIN + second * SECOND)],
        ..Batch::default()
    };
    let first = take(&mut folder, report(1, 1), BEGIN + SECOND);
    assert_eq!((first.mpi_peers.len(), first.mpi_scheduling.len()), (0, 1), "the first reading of a process");
    let second = take(&mut folder, report(2, 2), BEGIN + 2 * SECOND);
    assert_eq!((second.mpi_regions.len(), second.mpi_scheduling.len()), (0, 0));
    let stopped = MpiRankScheduling { is_stopped: true, ..reading(BEGIN + 3 * SECOND) };
    for is_new in [true, false] {
        let batch = Batch { mpi_scheduling: vec![stopped.clone()], ..Batch::default() };
        let at_once = take(&mut folder, batch, BEGIN + 3 * SECOND).mpi_scheduling.len();
        assert_eq!(
            at_once,
            usize::from(is_new),
            "that it was stopped does not wait, and is no row each second"
        );
    }
    assert_eq!((folder.waiting, folder.peers), (rank::REGION + rank::VARIABLE, 1));
    let batch = folder.due(BEGIN + 12 * SECOND);
    assert_eq!((batch.mpi_peers[0].cells[0].bytes, batch.mpi_regions[0].cells[0].visits), (2, 2));
    assert_eq!((batch.mpi_pvars.len(), batch.mpi_scheduling[0].time), (1, BEGIN + 3 * SECOND));
    assert_eq!(folder.waiting, 0);
    // A variable that has not changed has no row.
    let goes_on = take(&mut folder, report(13, 3), BEGIN + 13 * SECOND);
    assert_eq!(goes_on.mpi_scheduling.len(), 1, "neither does that it goes on");
    take(&mut folder, report(14, 3), BEGIN + 14 * SECOND);
    let end = take(&mut folder, ranks([0], BEGIN + 14 * SECOND), BEGIN + 14 * SECOND);
    assert_eq!((end.mpi_pvars.len(), end.mpi_peers.len(), end.mpi_scheduling.len()), (0, 1, 1));
}

#[test]
fn what_has_no_place_passes_and_a_stop_loses_nothing() {
    let mut folder = with_ranks(1);
    folder.cells = CELLS_MAX;
    let passed =
        take(&mut folder, ops(vec![bin(0, BEGIN + SECOND, vec![cell("send", 5, 5)])]), BEGIN + SECOND);
    assert_eq!(calls(&passed.mpi_ops[0]), [("send", 5)]);
    folder.cells = 0;
    take(&mut folder, ops(vec![bin(0, BEGIN + 2 * SECOND, vec![cell("send", 6, 6)])]), BEGIN + 2 * SECOND);
    // Another kind of record is left alone.
    let other =
        take(&mut folder, Batch { jobs: vec![Job::default()], ..Batch::default() }, BEGIN + 2 * SECOND);
    assert_eq!(other.jobs.len(), 1);
    let batch = folder.finish();
    assert_eq!(calls(&batch.mpi_rank_rows[0]), [("send", 6)]);
    assert_eq!(batch.mpi_node_cells.len(), 1);
    assert!(folder.finish().mpi_rank_rows.is_empty());
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_rows() {
    let mut folder = with_ranks(1);
    let back = BEGIN - 3600 * SECOND;
    assert!(folder.due(back).mpi_node_cells.is_empty());
    take(&mut folder, ops(vec![bin(0, back + SECOND, vec![cell("send", 5, 5)])]), back + SECOND);
    let batch = folder.due(back + 12 * SECOND);
    assert_eq!(calls(&batch.mpi_rank_rows[0]), [("send", 5)]);
    assert!(batch.mpi_node_cells.is_empty(), "of an interval before counting began");
}

#[test]
fn the_only_row_of_a_young_rank_goes_twice_and_with_its_owners() {
    let mut folder = with_ranks(2);
    let bins = (0..2).map(|rank| bin(rank, BEGIN + SECOND, vec![cell("allreduce", 5, 50)]));
    take(&mut folder, ops(bins.collect()), BEGIN + SECOND);
    let job = Job { key: "job".into(), ..Job::default() };
    let fragment = Batch { jobs: vec![job], ..ranks([0], BEGIN + 2 * SECOND) };
    let sent = take(&mut folder, fragment, BEGIN + 2 * SECOND);
    assert_eq!(calls(&sent.mpi_rank_rows[0]), [("allreduce", 5)]);
    let same_entry = folder.due(BEGIN + 2 * SECOND);
    assert!(same_entry.mpi_rank_rows.is_empty(), "damage would take both");
    let again = folder.due(BEGIN + 3 * SECOND);
    let (one, other) = (&sent.mpi_rank_rows[0], &again.mpi_rank_rows[0]);
    assert_eq!((again.jobs.len(), again.job_ranks.len()), (1, 1));
    assert!(other.time > one.time && other.cells == one.cells, "a row of its own, and the same sums");
    // One that had a row before has its last one once.
    folder.due(BEGIN + 12 * SECOND);
    let more = vec![bin(1, BEGIN + 13 * SECOND, vec![cell("allreduce", 9, 90)])];
    take(&mut folder, ops(more), BEGIN + 13 * SECOND);
    assert_eq!(
        take(&mut folder, ranks([1], BEGIN + 14 * SECOND), BEGIN + 14 * SECOND).mpi_rank_rows.len(),
        1
    );
    for second in 14..17 {
        assert!(folder.due(BEGIN + second * SECOND).mpi_rank_rows.is_empty());
    }
}

/// Rows of one rank: operations, peers, regions, each with its time.
fn times(batch: &Batch) -> [Vec<i64>; 3] {
    let seconds = |time: i64| (time - BEGIN) / SECOND;
    [
        batch.mpi_rank_rows.iter().map(|row| seconds(row.time)).collect(),
        batch.mpi_peers.iter().filter(|row| row.is_whole).map(|row| seconds(row.time)).collect(),
        batch.mpi_regions.iter().map(|row| seconds(row.time)).collect(),
    ]
}

#[test]
fn all_that_is_known_of_a_quiet_rank_comes_once_a_day_and_at_its_end() {
    let mut folder = with_ranks(64);
    let report = |rank| Batch {
        mpi_ops: vec![bin(rank, BEGIN + SECOND, vec![cell("send", 5, 5)])],
        mpi_peers: vec![MpiRankPeers {
            time: BEGIN + SECOND,
            epoch: BEGIN,
            job_key: "job".into(),
            rank,
            kind: "logical".into(),
            cells: vec![MpiPeerCell { peer: 1, bytes: 40, messages: 5 }],
            ..MpiRankPeers::default()
        }],
        mpi_regions: vec![MpiRankRegions {
            time: BEGIN + SECOND,
            epoch: BEGIN,
            job_key: "job".into(),
            rank,
            cells: vec![MpiRegionCell { region: "init".into(), visits: 3, ..MpiRegionCell::default() }],
            ..MpiRankRegions::default()
        }],
        ..Batch::default()
    };
    (0..64).for_each(|rank| drop(take(&mut folder, report(rank), BEGIN + SECOND)));
    assert_eq!(folder.due(BEGIN + 12 * SECOND).mpi_regions.len(), 64);
    let (mut days, mut most) = ([0; 3], 0);
    for tick in 2..3 * 8640 {
        let batch = folder.due(BEGIN + (tick * 10 + 2) * SECOND);
        let [rows, peers, regions] = times(&batch);
        assert!(rows == peers && peers == regions, "{rows:?} {peers:?} {regions:?}");
        assert!(rows.iter().all(|time| *time == tick * 10), "as of then");
        most = most.max(rows.len());
        days[usize::try_from(tick / 8640).unwrap()] += rows.len();
    }
    assert!(days[0] >= 60 && days[1..] == [64, 64], "each rank once a day: {days:?}");
    assert!(most <= 4, "{most} at a time");
    // It ends without MPI_Finalize; nothing has changed since its first second.
    let now = BEGIN + 260_000 * SECOND;
    let end = take(&mut folder, ranks([7], now), now);
    assert_eq!(times(&end), [vec![260_000], vec![260_000], vec![260_000]]);
    assert_eq!(calls(&end.mpi_rank_rows[0]), [("send", 5)]);
    assert_eq!((end.mpi_peers[0].cells[0].bytes, end.mpi_regions[0].cells[0].visits), (40, 3));
    assert_eq!((folder.peers, folder.regions, folder.waiting), (63, 63, 0));
}
