//! Ratios, order and text of a comparison.

use super::*;
use throughline_api::jobs::{OperationSize, Totals};

/// Operations by size class, calls and time.
fn operations(sizes: &[(&str, u64, u64, f64)]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for (name, class, calls, time) in sizes {
        let (size_class_bytes, calls, elapsed_seconds) = (*class, *calls, *time);
        let algorithms = vec!["ring".to_owned()];
        let bytes = calls * size_class_bytes;
        let size = OperationSize { size_class_bytes, calls, bytes, elapsed_seconds, algorithms };
        match operations.iter_mut().find(|operation| operation.operation == *name) {
            Some(operation) => operation.sizes.push(size),
            None => operations.push(Operation {
                operation: (*name).to_owned(),
                sizes: vec![size],
                ..Operation::default()
            }),
        }
    }
    operations
}

fn job(ranks: u64) -> Job {
    let (state, totals) = (JobState::Ended, Some(Totals { calls: 1, ..Totals::default() }));
    Job { ranks, world_size: Some(ranks), state, totals, ..Job::default() }
}

fn totals(mpi_seconds: f64) -> Option<Totals> {
    Some(Totals { mpi_seconds, observed_seconds: Some(100.0), ..Totals::default() })
}

fn document(ranks: [u64; 2]) -> Document {
    let a = operations(&[("allreduce", 8, 100, 1.0), ("allreduce", 8192, 50, 4.0), ("send", 64, 5, 0.1)]);
    let b = operations(&[("allreduce", 8, 100, 2.0), ("allreduce", 8192, 100, 2.0), ("bcast", 64, 5, 0.5)]);
    let library = vec!["X".to_owned()];
    compare(ranks.map(job), [&library, &library], [sides(&a, true), sides(&b, true)])
}

#[test]
fn ratios_counts_and_order() {
    let document = document([4, 4]);
    let names: Vec<_> =
        document.comparison.rows.iter().map(|row| (row.operation.as_str(), row.size_class_bytes)).collect();
    // By the difference in time: 2 s, 1 s, 0.5 s, 0.1 s.
    let expected =
        [("allreduce", Some(8192)), ("allreduce", Some(8)), ("bcast", Some(64)), ("send", Some(64))];
    assert_eq!(names, expected);
    let large = &document.comparison.rows[0];
    assert_eq!((large.call_time_ratio, large.time_ratio, large.calls_differ), (Some(4.0), Some(2.0), true));
    let small = &document.comparison.rows[1];
    assert_eq!((small.call_time_ratio, small.time_ratio, small.calls_differ), (Some(0.5), Some(0.5), false));
    // What only one did has no ratio, and is no zero.
    assert_eq!((document.comparison.rows[2].time_ratio, &document.comparison.rows[2].a), (None, &None));
    assert_eq!(document.comparison.caveats.len(), 1);
    assert!(document.comparison.caveats[0].contains("3 of 4 lines"), "{:?}", document.comparison.caveats);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let document = document([4, 8]);
    assert!(
        document.comparison.caveats[0].contains("A has 4 ranks, B 8"),
        "{:?}",
        document.comparison.caveats
    );
    for width in [80, 160] {
        let text = text(&document, 40, width);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        for part in ["can't be compared", "8 KiB", "4.00", "!"] {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(part), "{part} is not in\n{text}");
        }
    }
    assert!(text(&document, 1, 80).contains("and 3 lines that differ less"));
}

#[test]
fn computing_stands_beside_mpi_and_places_above_caveats() {
    let mut document = document([4, 4]);
    document.a.totals = totals(20.0);
    document.b.totals = totals(60.0);
    document.comparison.compute_seconds = [compute(&document.a), compute(&document.b)];
    document.comparison.placement = vec!["The CPUs of 1 of 4 ranks differ.".into()];
    let text = text(&document, 40, 100);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["computing", "80.0", "s", "40.0", "s", "2.00"]), "{text}");
    assert!(lines.contains(&vec!["in", "MPI", "20.0", "s", "60.0", "s", "0.33"]), "{text}");
    assert!(text.find("The CPUs of").unwrap() < text.find("The numbers of calls").unwrap(), "{text}");
    // Seconds of threads are no part of seconds of ranks.
    document.a.totals = totals(300.0);
    assert_eq!(compute(&document.a), None);
}

#[test]
fn whole_operations() {
    let sides = sides(&operations(&[("allreduce", 8, 100, 1.0), ("allreduce", 8192, 50, 4.0)]), false);
    assert_eq!(sides.len(), 1);
    let whole = &sides[&("allreduce".to_owned(), None)];
    assert_eq!((whole.calls, &whole.algorithms), (150, &vec!["ring".to_owned()]));
}
