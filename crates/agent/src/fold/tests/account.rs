//! Where the time of a node's ranks went, in its records.

use super::*;
use throughline_sample::wire::{MpiAccountSums, MpiNodeAccount, MpiNodeCells};

/// A reading of a rank: half of its seconds in MPI, a quarter off the processor outside of it, most of that in a file.
fn reading(rank: u32, time: i64, seconds: u64) -> MpiRankScheduling {
    let part = |percent: u64| Some(seconds * percent * 10_000_000);
    MpiRankScheduling {
        time,
        epoch: BEGIN,
        job_key: "job".into(),
        rank,
        elapsed_nanoseconds: part(100),
        mpi_nanoseconds: part(50),
        off_outside_nanoseconds: part(25),
        queued_outside_nanoseconds: part(5),
        off_inside_nanoseconds: part(10),
        queued_inside_nanoseconds: part(4),
        file_samples: u32::try_from(seconds / 5 * 3).unwrap(),
        other_samples: u32::try_from(seconds / 5).unwrap(),
        ..MpiRankScheduling::default()
    }
}

fn readings(of: Vec<MpiRankScheduling>) -> Batch {
    Batch { mpi_scheduling: of, ..Batch::default() }
}

fn sums(record: &MpiNodeCells) -> MpiAccountSums {
    record.account.unwrap().grown.unwrap()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[test]
fn each_ten_seconds_have_the_sums_of_the_readings_that_end_them() {
    let mut folder = with_ranks(2);
    for second in [10, 20, 30_u64] {
        let edge = BEGIN + i64::try_from(second).unwrap() * SECOND;
        // One of them still has readings each second: what comes after the interval is of the next one.
        let late = reading(1, edge + SECOND + 50_000_000, second + 1);
        for of in
            [vec![reading(0, edge + 60_000_000, second), reading(1, edge + 50_000_000, second)], vec![late]]
        {
            let now = of[0].time;
            take(&mut folder, readings(of), now);
        }
        let batch = folder.due(edge + GRACE_NANOSECONDS);
        let [record] = batch.mpi_node_cells.as_slice() else { panic!("{batch:?}") };
        let account = record.account.unwrap();
        assert_eq!((record.time, account.behind_nanoseconds, account.before), (edge, 0, None));
        assert!(record.cells.is_empty(), "nothing was called");
        let sums = sums(record);
        let all = 2.0 * f64::from(u32::try_from(second).unwrap());
        assert_eq!((seconds(sums.elapsed_nanoseconds), seconds(sums.mpi_nanoseconds)), (all, all / 2.0));
        assert_eq!(
            (seconds(sums.off_outside_nanoseconds), seconds(sums.queued_outside_nanoseconds)),
            (all / 4.0, all / 20.0)
        );
        assert_eq!(
            (seconds(sums.file_nanoseconds), sums.sleep_nanoseconds),
            (all * 0.2 * 0.75, 0),
            "three of four samples"
        );
    }
    // No reading since: no account, and up to when the operations are known.
    let batch = folder.due(BEGIN + 40 * SECOND + GRACE_NANOSECONDS);
    let account = batch.mpi_node_cells[0].account.unwrap();
    assert_eq!(
        account.behind_nanoseconds, 9_000_000_000,
        "the last reading of one, a second after the interval"
    );
    assert_eq!(folder.due(BEGIN + 50 * SECOND + GRACE_NANOSECONDS).mpi_node_cells[0].account, None);
    // Their ends: all that there is, also of what came last.
    let end = BEGIN + 52 * SECOND;
    let mut last = ranks([0, 1], end);
    last.mpi_scheduling = vec![reading(0, end, 52), reading(1, end, 52)];
    let ended = take(&mut folder, last, end);
    let record = ended.mpi_node_cells.last().unwrap();
    assert_eq!(seconds(sums(record).elapsed_nanoseconds), 104.0);
}

#[test]
fn what_ranks_did_before_they_were_known_here_is_apart() {
    let mut folder = Folder::new(INTERVALS);
    // An agent that was started again: the rank has run for a hundred seconds.
    let now = BEGIN + 100 * SECOND;
    take(&mut folder, ranks([0], 0), now + SECOND);
    take(&mut folder, readings(vec![reading(0, now + 2 * SECOND, 102)]), now + 2 * SECOND);
    take(&mut folder, readings(vec![reading(0, now + 10 * SECOND, 110)]), now + 10 * SECOND);
    let first = folder.due(now + 10 * SECOND + GRACE_NANOSECONDS);
    let MpiNodeAccount { before, .. } = first.mpi_node_cells[0].account.unwrap();
    let grown = sums(&first.mpi_node_cells[0]);
    // Of the two readings of one interval the newest counts.
    assert_eq!(
        (seconds(grown.elapsed_nanoseconds), seconds(before.unwrap().elapsed_nanoseconds)),
        (0.0, 110.0)
    );
    take(&mut folder, readings(vec![reading(0, now + 20 * SECOND, 120)]), now + 20 * SECOND);
    let next = folder.due(now + 20 * SECOND + GRACE_NANOSECONDS);
    assert_eq!(seconds(sums(&next.mpi_node_cells[0]).elapsed_nanoseconds), 10.0);
    assert_eq!(next.mpi_node_cells[0].account.unwrap().before, before);
}

#[test]
fn while_somebody_looks_the_row_after_the_interval_has_it() {
    let mut folder = with_ranks(1);
    let edge = BEGIN + 10 * SECOND;
    folder.live(&[live::job(&[], false)], edge);
    take(&mut folder, readings(vec![reading(0, edge + 40_000_000, 10)]), edge + 40_000_000);
    assert!(folder.due(edge + GRACE_NANOSECONDS).mpi_node_cells.is_empty(), "the second has its row");
    let batch = folder.live(&[live::job(&[], false)], edge + SECOND);
    let account = batch.mpi_node_cells[0].account.unwrap();
    assert_eq!(account.behind_nanoseconds, 1_000_000_000);
    assert_eq!(seconds(sums(&batch.mpi_node_cells[0]).elapsed_nanoseconds), 10.0);
    let next = folder.live(&[live::job(&[], false)], edge + 2 * SECOND);
    assert_eq!(next.mpi_node_cells[0].account, None);
}

#[test]
fn what_a_stretch_turns_out_to_be_is_taken_out_of_what_it_seemed() {
    let mut folder = with_ranks(1);
    let edge = BEGIN + 10 * SECOND;
    take(&mut folder, readings(vec![reading(0, edge, 10)]), edge);
    folder.due(edge + GRACE_NANOSECONDS);
    let less = MpiRankScheduling {
        off_outside_nanoseconds: Some(1_000_000_000),
        ..reading(0, edge + 10 * SECOND, 20)
    };
    take(&mut folder, readings(vec![less]), edge + 10 * SECOND);
    let batch = folder.due(edge + 10 * SECOND + GRACE_NANOSECONDS);
    assert_eq!(sums(&batch.mpi_node_cells[0]).off_outside_nanoseconds, 1_000_000_000);
}
