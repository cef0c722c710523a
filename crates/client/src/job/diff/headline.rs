//! The first lines of a comparison: which job took longer, and where most of the difference is. Pure.

use super::{Document, Row, Side, compute, times, world};
use crate::text::{age, clean, count, percent, seconds, size_class, thousands};
use throughline_api::JobState;
use throughline_api::jobs::Job;

/// Jobs whose durations differ by less took the same time: starting and ending vary by so much.
const SAME_WITHIN: f64 = 0.05;
/// A part of the ranks' time that changed by less is none that explains anything.
const CHANGED_BY: f64 = 0.02;

/// Two sentences, the answer first.
pub fn sentences(document: &Document) -> [String; 2] {
    [durations(document), difference(document)]
}

fn durations(document: &Document) -> String {
    let Document { a, b, .. } = document;
    let (Some(of_a), Some(of_b)) = (a.lasted_seconds(), b.lasted_seconds()) else {
        return "It is not known how long both took.".to_owned();
    };
    let lasted = format!("{} and {}", age(of_a), age(of_b));
    if [a, b].iter().any(|job| job.state == JobState::Running) {
        return format!("A and B have taken {lasted}; not both have ended.");
    }
    let (name, other, long, short) =
        if of_a >= of_b { ("A", "B", of_a, of_b) } else { ("B", "A", of_b, of_a) };
    let lost = [("A", a), ("B", b)].into_iter().filter(|(_, job)| job.state == JobState::Lost);
    let lost: Vec<String> = lost
        .map(|(name, job)| format!("{} of {name} ended without MPI_Finalize", count(job.ranks_lost, "rank")))
        .collect();
    let lost = if lost.is_empty() { String::new() } else { format!("; {}", lost.join(", ")) };
    if long <= short * (1.0 + SAME_WITHIN) {
        return format!("A and B took the same time within {}: {lasted}{lost}.", percent(Some(SAME_WITHIN)));
    }
    let ratio = times((short > 0.0).then(|| long / short));
    format!("{name} took {ratio} times as long as {other}: {} against {}{lost}.", age(long), age(short))
}

/// Where the ranks' time went otherwise, and by which operation.
fn difference(document: &Document) -> String {
    let Document { a, b, comparison } = document;
    if world(a) != world(b) {
        return format!(
            "They have {} and {}: only the time of a call compares (CALL).",
            count(world(a), "rank"),
            count(world(b), "rank")
        );
    }
    if [a, b].iter().any(|job| job.state == JobState::Running) {
        let share = |job: &Job| percent(job.mpi_time_share());
        return format!(
            "Until now {} of the ranks' time was in MPI in A, {} in B; only the time of a call compares (CALL).",
            share(a),
            share(b)
        );
    }
    let outside = comparison.compute_seconds[0].zip(comparison.compute_seconds[1]).map(|(a, b)| a - b);
    let inside = a.mpi_seconds().zip(b.mpi_seconds()).map(|(a, b)| a - b);
    let all = [a, b].into_iter().filter_map(whole).fold(0.0, f64::max);
    let is_much = |seconds: &f64| all > 0.0 && seconds.abs() > all * CHANGED_BY;
    let (outside, inside) = (outside.filter(is_much), inside.filter(is_much));
    let more = |seconds: f64| if seconds > 0.0 { "A" } else { "B" };
    let of_ranks = match (outside, inside) {
        (None, None) => {
            return match comparison.rows.first() {
                Some(row) if row.difference_seconds != 0.0 => {
                    format!(
                        "Neither computing nor MPI differs by more than {} of the ranks' time; most in MPI: {}.",
                        percent(Some(CHANGED_BY)),
                        operation(row)
                    )
                }
                _ => "Nothing differs in MPI.".to_owned(),
            };
        }
        (Some(outside), None) => {
            return format!(
                "Ranks of {} computed {} longer; their time in MPI is about the same.",
                more(outside),
                seconds(outside.abs())
            );
        }
        (Some(outside), Some(inside)) => format!(
            "Ranks of {} computed {} longer, those of {} were in MPI {} longer",
            more(outside),
            seconds(outside.abs()),
            more(inside),
            seconds(inside.abs())
        ),
        (None, Some(inside)) => {
            format!("Ranks of {} were in MPI {} longer", more(inside), seconds(inside.abs()))
        }
    };
    comparison
        .rows
        .first()
        .map_or_else(|| format!("{of_ranks}."), |row| format!("{of_ranks}, most of it {}.", operation(row)))
}

/// Time of all ranks.
fn whole(job: &Job) -> Option<f64> {
    compute(job).zip(job.mpi_seconds()).map(|(outside, inside)| outside + inside).or(job.mpi_seconds())
}

/// `allreduce of up to 8 KiB, 4.00 s in A and 2.00 s in B (50 calls and 100)`.
fn operation(row: &Row) -> String {
    let class = row
        .size_class_bytes
        .filter(|bytes| *bytes > 0)
        .map_or(String::new(), |bytes| format!(" of up to {}", size_class(bytes)));
    let name = clean(&row.operation, 24);
    let of = |side: &Side| seconds(side.elapsed_seconds);
    let figures = match (&row.a, &row.b) {
        (Some(a), Some(b)) if row.calls_differ => {
            format!(
                "{} in A and {} in B, {} calls and {}",
                of(a),
                of(b),
                thousands(a.calls),
                thousands(b.calls)
            )
        }
        (Some(a), Some(b)) => format!("{} in A and {} in B, as many calls", of(a), of(b)),
        (Some(a), None) => format!("{} in A only", of(a)),
        (None, Some(b)) => format!("{} in B only", of(b)),
        (None, None) => String::new(),
    };
    format!("{name}{class} ({figures})")
}

#[cfg(test)]
mod tests {
    use super::super::Comparison;
    use super::*;
    use throughline_api::jobs::Totals;

    fn document(durations: [f64; 2], mpi: [f64; 2]) -> Document {
        let job = |duration: f64, inside: f64| Job {
            ranks: 4,
            state: JobState::Ended,
            duration_seconds: Some(duration),
            totals: Some(Totals {
                mpi_seconds: inside,
                observed_seconds: Some(4.0 * duration),
                ..Totals::default()
            }),
            ..Job::default()
        };
        let [a, b] = [job(durations[0], mpi[0]), job(durations[1], mpi[1])];
        let side = |seconds| Some(Side { calls: 50, elapsed_seconds: seconds, ..Side::default() });
        let row = Row {
            operation: "allreduce".into(),
            size_class_bytes: Some(8192),
            a: side(mpi[0]),
            b: side(mpi[1]),
            difference_seconds: mpi[0] - mpi[1],
            ..Row::default()
        };
        let compute_seconds = [compute(&a), compute(&b)];
        let comparison = Comparison { compute_seconds, rows: vec![row], ..Comparison::default() };
        Document { a, b, comparison }
    }

    #[test]
    fn the_longer_job_and_what_made_it_so() {
        let [longer, why] = sentences(&document([50.0, 40.0], [60.0, 20.0]));
        assert_eq!(longer, "A took 1.25 times as long as B: 50 s against 40 s.");
        assert_eq!(
            why,
            "Ranks of A were in MPI 40.0 s longer, most of it allreduce of up to 8 KiB (60.0 s in A and 20.0 s in B, as many calls)."
        );
        let [longer, why] = sentences(&document([40.0, 60.0], [20.0, 20.0]));
        assert_eq!(longer, "B took 1.50 times as long as A: 60 s against 40 s.");
        assert_eq!(why, "Ranks of B computed 80.0 s longer; their time in MPI is about the same.");
    }

    #[test]
    fn equal_ones_are_called_so() {
        let [same, why] = sentences(&document([50.0, 51.0], [20.0, 21.0]));
        assert_eq!(same, "A and B took the same time within 5.0 %: 50 s and 51 s.");
        assert!(why.starts_with("Neither computing nor MPI differs"), "{why}");
        assert_eq!(sentences(&document([50.0, 50.0], [20.0, 20.0]))[1], "Nothing differs in MPI.");
    }

    #[test]
    fn what_cannot_be_compared_is_not() {
        let mut two = document([50.0, 40.0], [60.0, 20.0]);
        two.b.ranks = 8;
        assert!(sentences(&two)[1].contains("4 ranks and 8 ranks: only the time of a call"));
        two.a.state = JobState::Running;
        assert!(sentences(&two)[0].ends_with("not both have ended."));
        two.b.ranks = 4;
        let [_, running] = sentences(&two);
        assert!(
            running.starts_with("Until now 30.0 % of the ranks' time was in MPI in A, 12.5 % in B;"),
            "{running}"
        );
        two.a.duration_seconds = None;
        assert_eq!(sentences(&two)[0], "It is not known how long both took.");
    }
}
