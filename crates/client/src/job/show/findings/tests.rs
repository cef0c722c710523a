//! What is worth knowing of jobs, from their figures.

use super::*;
use std::time::Duration;
use throughline_api::jobs::{Job, LinkPeak, NodeBehind, Totals, mpi_time_share};

#[test]
fn totals_without_the_end_of_ranks_are_not_shown_as_final() {
    let mut report = Report::default();
    assert_eq!(incomplete(&report), None);
    assert!(super::super::text(&report, 100).contains("\nOperations\n"));
    report.identity.ranks_incomplete = 12;
    report.findings = of(&report);
    let text = super::super::text(&report, 100);
    assert!(text.contains("Operations, without the last calls of 12 ranks\n"), "{text}");
    assert!(text.contains("12 ranks ended while no agent ran there"), "{text}");
}

/// Two ranks of so many seconds each. They spent these seconds in MPI, in so many calls.
fn of_two(seconds: f64, inside: [f64; 2], calls: u64) -> Report {
    let rank = |rank: i32, mpi_seconds: f64| RankTotal {
        rank,
        calls,
        mpi_seconds,
        observed_seconds: Some(seconds),
        mpi_time_share: mpi_time_share(mpi_seconds, seconds),
        ..RankTotal::default()
    };
    let all = inside.iter().sum();
    let operation = |operation: &str, part: f64| Operation {
        operation: operation.into(),
        calls: 2 * calls,
        elapsed_seconds: all * part,
        time_share: Some(part),
        ..Operation::default()
    };
    let totals = Totals { mpi_seconds: all, observed_seconds: Some(2.0 * seconds), ..Totals::default() };
    Report {
        job: Job { ranks: 2, totals: Some(totals), ..Job::default() },
        ranks: vec![rank(0, inside[0]), rank(1, inside[1])],
        operations: vec![operation("allreduce", 0.75), operation("bcast", 0.25)],
        ..Report::default()
    }
}

#[test]
fn shares_of_times_have_one_basis() {
    let report = of_two(100.0, [40.0, 40.0], 1000);
    assert!(mpi_share(&report).unwrap().starts_with("MPI took 40.0 % of the ranks' time"));
    let heaviest = heaviest(&report).unwrap();
    assert!(heaviest.contains("heaviest operation: 30.0 % of the ranks' time in 2,000 calls"), "{heaviest}");
    assert!(heaviest.ends_with("bcast follows with 10.0 %."), "{heaviest}");
    let text = super::super::text(&report, 100);
    assert!(text.contains("OF RANKS'") && text.contains("30.0 %") && !text.contains("75.0 %"), "{text}");
}

#[test]
fn seconds_of_threads_are_not_divided_by_those_of_ranks() {
    let mut report = of_two(6.1, [45.0, 45.1], 1000);
    report.findings = of(&report);
    let text = super::super::text(&report, 200);
    assert!(text.contains("Threads spent 90.1 s in MPI, several of a rank at the same time"), "{text}");
    assert!(text.contains("OF MPI") && text.contains("75.0 % of the MPI time"), "{text}");
    assert!(!text.contains("of the ranks' time") && !text.contains("of 12.2 s"), "{text}");
}

#[test]
fn ranks_are_unequal_by_evidence_only() {
    let short = of_two(0.2, [0.15, 0.02], 1000);
    assert_eq!(unequal(&short), None, "starting up is most of it");
    assert_eq!(unequal(&of_two(30.0, [20.0, 5.0], 3)), None, "a few calls");
    assert_eq!(unequal(&of_two(8.0, [1.3, 0.8], 1000)), None, "half a second apart");
    let long = unequal(&of_two(30.0, [20.0, 5.0], 1000)).unwrap();
    assert!(long.starts_with("Rank 0 is the most unequal") || long.starts_with("Rank 1 is"), "{long}");
    assert!(unequal(&of_two(30.0, [5.0, 5.1], 1000)).unwrap().starts_with("The ranks are alike"));
}

#[test]
fn no_link_is_said_to_have_carried_more_than_it_can() {
    let of = |p95, max| {
        let link = LinkPeak {
            link: "leaf1[5]".into(),
            kind: "fabric".into(),
            direction: "out".into(),
            p95_utilisation: Some(p95),
            max_utilisation: Some(max),
            ..LinkPeak::default()
        };
        hottest(&Report { links: Some(vec![link]), ..Report::default() })
    };
    assert!(of(0.7, 0.9).unwrap().contains("at most 90.0 % of its speed"));
    let late = of(0.7, 2.43).unwrap();
    assert!(
        late.contains("70.0 % or less of its speed in 95 % of the time") && !late.contains("243"),
        "{late}"
    );
    assert_eq!(of(1.2, 2.43), None);
}

#[test]
fn calls_that_nobody_counted_and_a_matrix_that_is_missing() {
    let mut report = Report::default();
    report.job.ranks = 4;
    report.job.duration_seconds = Some(0.5);
    let at = |hours: u64| UNIX_EPOCH + Duration::from_secs(1_000_000 + hours * 3600);
    assert_eq!(bypassed(&report, at(0)), None, "it has only begun");
    report.job.duration_seconds = Some(60.0);
    assert_eq!(bypassed(&report, at(200)), None, "its agents may know of some");
    report.job.start_ms = Some(1_767_225_600_000);
    report.job.as_of = Some(AsOf { time_ms: 1_767_225_609_000, behind: Vec::new() });
    assert_eq!(bypassed(&report, at(200)), None, "too soon");
    report.job.as_of = Some(AsOf { time_ms: 1_767_225_630_000, behind: vec![NodeBehind::default()] });
    assert_eq!(bypassed(&report, at(200)), None, "a node may know of some");
    report.job.as_of = Some(AsOf { time_ms: 1_767_225_630_000, behind: Vec::new() });
    let said = bypassed(&report, at(200)).unwrap();
    assert!(said.contains("counted in 30.0 s, as of 2026-01-01 00:00:30 UTC: "), "{said}");
    report.job.as_of = None;
    report.job.end_ms = Some(1_000_000_000);
    assert!(bypassed(&report, at(0)).is_some());
    assert_eq!(bypassed(&report, at(169)), None, "what it called may have expired");
    report.job.end_ms = None;
    report.operations.push(Operation::default());
    assert_eq!(bypassed(&report, at(0)), None);
    assert_eq!(unmeasured(&report), None);
    report.settings.push(throughline_api::jobs::Setting { name: "pml".into(), value: "ob1".into() });
    assert!(unmeasured(&report).unwrap().ends_with("--mca pml ob1,monitoring."));
    report.settings[0].value = "^monitoring".into();
    assert!(unmeasured(&report).unwrap().ends_with("off that list."));
    report.settings.push(throughline_api::jobs::Setting { name: "wire".into(), value: "a reason".into() });
    assert!(unmeasured(&report).unwrap().ends_with("is missing: a reason."));
    report.operations.clear();
    report.job.end_ms = Some(1_000_000_000);
    assert!(bypassed(&report, at(0)).is_some() && tool_inside(&report).is_none());
    report
        .settings
        .push(throughline_api::jobs::Setting { name: "pmpi_tool".into(), value: "MPI_Send".into() });
    assert_eq!(bypassed(&report, at(0)), None, "another reason is known");
    assert!(tool_inside(&report).unwrap().contains("its own MPI_Send come before the shim"));
}
