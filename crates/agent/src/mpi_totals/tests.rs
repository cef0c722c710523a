//! Totals over ranks, their bounds, and what is exposed and recorded of them.

use super::*;
use throughline_daemon::Format;

fn bin(rank: u32, epoch: i64, calls: u64) -> Batch {
    let cell = |size_class_bytes| MpiOpCell {
        operation: "allreduce".into(),
        size_class_bytes,
        calls,
        bytes: calls * 8,
        elapsed_nanoseconds: calls * 1_000_000_000,
        longest_nanoseconds: 500_000_000,
        region: "r".into(),
        received_bytes: (size_class_bytes == 8).then_some(calls),
        ..Default::default()
    };
    let bin =
        MpiRankBin { job_key: "j".into(), rank, epoch, cells: vec![cell(8), cell(16)], ..Default::default() };
    Batch { mpi_ops: vec![bin], ..Batch::default() }
}

fn rank(rank: u32, end: i64) -> Batch {
    let rank = JobRank { job_key: "j".into(), rank, end, ..Default::default() };
    Batch { job_ranks: vec![rank], ..Batch::default() }
}

fn text(totals: &MpiTotals) -> String {
    let mut page = Page::default();
    totals.expose(&mut page, true);
    page.encode(Format::Text)
}

#[test]
fn totals_are_over_ranks_and_never_fall() {
    let (mut totals, now) = (MpiTotals::default(), Instant::now());
    totals.observe(&bin(0, 1, 5), now);
    totals.observe(&bin(1, 1, 5), now);
    totals.observe(&bin(0, 1, 7), now);
    totals.observe(&bin(0, 1, 6), now); // late
    totals.observe(&bin(1, 2, 3), now); // a new epoch counts from 0
    let text = text(&totals);
    for line in [
        "throughline_mpi_calls_total{operation=\"allreduce\"} 30\n",
        "throughline_mpi_bytes_total{operation=\"allreduce\"} 240\n",
        "throughline_mpi_elapsed_seconds_total{operation=\"allreduce\"} 30.0\n",
        "throughline_mpi_longest_seconds{operation=\"allreduce\"} 0.5\n",
        "throughline_mpi_received_bytes_total{operation=\"allreduce\"} 15\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("wait_seconds"), "absent is not zero");
}

#[test]
fn records_have_what_changed_and_at_times_everything() {
    let (mut totals, now) = (MpiTotals::default(), Instant::now());
    totals.observe(&bin(0, 1, 5), now);
    let reported = |totals: &mut MpiTotals, all| {
        let records = totals.records(9, all);
        assert!(
            records.iter().all(|record| (record.time, record.source.as_str(), record.label.as_str())
                == (9, "mpi", "allreduce"))
        );
        records.into_iter().map(|record| (record.name, record.value)).collect::<Vec<_>>()
    };
    let all = [
        ("mpi_calls", 10.0),
        ("mpi_bytes", 80.0),
        ("mpi_elapsed_seconds", 10.0),
        ("mpi_received_bytes", 5.0),
        ("mpi_longest_seconds", 0.5),
    ];
    let all: Vec<(String, f64)> = all.map(|(name, value)| (name.to_owned(), value)).to_vec();
    assert_eq!(reported(&mut totals, false), all);
    assert_eq!(reported(&mut totals, false), []);
    assert_eq!(reported(&mut totals, true), all);
    totals.observe(&bin(0, 1, 6), now);
    assert_eq!(reported(&mut totals, false).len(), 4, "all but the longest");
}

#[test]
fn regions_and_algorithms_are_cells_of_their_own() {
    let (mut totals, now) = (MpiTotals::default(), Instant::now());
    let mut batch = bin(0, 1, 5);
    for cell in bin(0, 1, 5).mpi_ops.remove(0).cells {
        batch.mpi_ops[0].cells.push(MpiOpCell { algorithm: "ring".into(), ..cell.clone() });
        batch.mpi_ops[0].cells.push(MpiOpCell { region: String::new(), ..cell });
    }
    totals.observe(&batch, now);
    totals.observe(&batch, now);
    assert!(text(&totals).contains("throughline_mpi_calls_total{operation=\"allreduce\"} 30\n"));
}

#[test]
fn a_job_is_shown_while_it_has_ranks_here() {
    let (mut totals, now) = (MpiTotals::default(), Instant::now());
    let job = Job { key: "j".into(), user: "ada".into(), command: "a\nb".into(), ..Default::default() };
    totals.observe(&Batch { jobs: vec![job.clone()], ..Batch::default() }, now);
    assert!(!text(&totals).contains("throughline_job_info"));
    totals.observe(&rank(0, 0), now);
    totals.observe(&rank(1, 0), now);
    let shown = text(&totals);
    assert!(shown.contains("job_key=\"j\"") && shown.contains("user=\"ada\""), "{shown}");
    assert!(shown.contains("command=\"a\\nb\""), "{shown}");
    let mut page = Page::default();
    totals.expose(&mut page, false);
    let others = page.encode(Format::Text);
    assert!(
        others.contains("job_key=\"j\"") && !others.contains("ada") && !others.contains("a\\nb"),
        "{others}"
    );
    totals.observe(&rank(0, 9), now);
    assert!(text(&totals).contains("throughline_job_info"));
    totals.observe(&rank(1, 9), now);
    assert!(!text(&totals).contains("throughline_job_info"));
}

#[test]
fn ranks_are_bounded() {
    let (mut totals, now) = (MpiTotals::default(), Instant::now());
    let cells = || vec![MpiOpCell { operation: "send".into(), calls: 1, ..Default::default() }];
    let bins = (0..RANKS_MAX as u32 + 5)
        .map(|rank| MpiRankBin { rank, cells: cells(), ..Default::default() })
        .collect();
    totals.observe(&Batch { mpi_ops: bins, ..Batch::default() }, now);
    assert_eq!(totals.ranks.len(), RANKS_MAX);
    totals.observe(&Batch::default(), now + EVICT_AFTER);
    assert!(totals.ranks.is_empty() && totals.cells.is_empty() && totals.cells_of_all == 0);
    assert!(text(&totals).contains("throughline_mpi_calls_total{operation=\"send\"} 8192\n"));
}

/// A user with as many ranks and cells as there can be leaves others theirs.
#[test]
fn attack_03_one_users_cells_leave_others_theirs() {
    let (mut totals, now) = (MpiTotals::default(), Instant::now());
    let job = |key: &str, uid| Job { key: key.into(), uid, ..Job::default() };
    let cells = |operation: &str, count: u64| -> Vec<MpiOpCell> {
        let cell = |size_class_bytes| MpiOpCell {
            operation: operation.into(),
            size_class_bytes,
            calls: 1,
            ..Default::default()
        };
        (0..count).map(cell).collect()
    };
    let jobs = vec![job("greedy", 7), job("honest", 8)];
    totals.observe(&Batch { jobs, ..Batch::default() }, now);
    for rank in 0..200 {
        let bin =
            MpiRankBin { job_key: "greedy".into(), rank, cells: cells("send", 1000), ..Default::default() };
        totals.observe(&Batch { mpi_ops: vec![bin], ..Batch::default() }, now);
    }
    for rank in 0..50 {
        let bin =
            MpiRankBin { job_key: "honest".into(), rank, cells: cells("bcast", 200), ..Default::default() };
        totals.observe(&Batch { mpi_ops: vec![bin], ..Batch::default() }, now);
    }
    assert!(text(&totals).contains("throughline_mpi_calls_total{operation=\"bcast\"} 10000\n"));
    assert!(totals.cells_of_all < CELLS_MAX && totals.left_out() > 100_000, "{}", totals.cells_of_all);
    // Jobs, too.
    let jobs = (0..2 * JOBS_MAX).map(|i| job(&format!("j{i}"), 7)).collect();
    totals.observe(&Batch { jobs, ..Batch::default() }, now);
    assert!(totals.jobs.len() < JOBS_MAX);
    totals.observe(&Batch { jobs: vec![job("late", 9)], ..Batch::default() }, now);
    assert!(totals.jobs.contains_key("late"));
    totals.observe(&Batch::default(), now + EVICT_AFTER);
    assert!(totals.cells.is_empty() && totals.cells_of_all == 0);
}

#[test]
fn attack_27_cells_of_ended_ranks_are_given_back_in_seconds() {
    let (mut totals, now) = (MpiTotals::default(), Instant::now());
    let count = 6000;
    for number in 0..count {
        totals.observe(&bin(number, 0, 5), now);
    }
    assert!(totals.cells_of_all > CELLS_MAX / 8);
    let before = text(&totals);
    (0..count / 2).for_each(|number| totals.observe(&rank(number, 7), now));
    let later = now + EVICT_ENDED_AFTER;
    totals.observe(&bin(count, 0, 1), later);
    let running = 2 * (totals.ranks.len() - 1);
    assert_eq!(
        (totals.ranks.values().filter(|rank| rank.has_ended).count(), totals.cells_of_all),
        (0, running + 2)
    );
    let calls = |text: &str| {
        text.lines().find(|line| line.starts_with("throughline_mpi_calls_total")).map(str::to_owned)
    };
    assert!(calls(&before) < calls(&text(&totals)), "totals never fall");
}
