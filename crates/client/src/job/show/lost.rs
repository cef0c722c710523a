//! Who ended first without MPI_Finalize: mostly the cause, as launchers end the others.

use crate::text::{count, seconds, time};
use throughline_api::jobs::LostRank;

/// The sentence.
pub fn text(lost: &LostRank) -> String {
    let call = match (&lost.operation, lost.operation_seconds) {
        (Some(operation), Some(inside)) => format!(", in {operation} for {}", seconds(inside)),
        (Some(operation), None) => format!(", in {operation}"),
        _ => String::new(),
    };
    let others = match (lost.ranks.saturating_sub(1), lost.next_after_seconds) {
        (0, _) | (_, None) => String::new(),
        (others, Some(after)) => {
            format!("; {} more followed, the first {} later", count(others, "rank"), seconds(after))
        }
    };
    let first = if lost.ranks > 1 { "ended first without" } else { "ended without" };
    format!(
        "Rank {} on {} {first} MPI_Finalize, at {}{call}{others}.",
        lost.rank,
        lost.host,
        time(lost.end_ms)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_and_a_single_one() {
        let lost = LostRank {
            rank: 3,
            host: "n2".into(),
            end_ms: 1_790_000_000_250,
            operation: Some("recv".into()),
            operation_seconds: Some(12.0),
            ranks: 4,
            next_after_seconds: Some(0.4),
        };
        let several = text(&lost);
        assert!(
            several.starts_with("Rank 3 on n2 ended first without MPI_Finalize, at 2026-09-21T"),
            "{several}"
        );
        assert!(several.contains(", in recv for 12.0 s; 3 ranks more followed, the first"), "{several}");
        let single = LostRank { ranks: 1, next_after_seconds: None, operation: None, ..lost };
        assert!(text(&single).contains("T14:13:20.25"), "{}", text(&single));
        assert!(!text(&single).contains("first"));
    }
}
