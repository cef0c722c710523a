//! The first lines of the page: is something wrong, and what.

use crate::job::verdict_name;
use crate::text::{clock, folded};
use throughline_api::jobs::Job;
use throughline_api::verdicts::JobVerdict;

/// Most verdicts on the page; all are in the JSON document.
const SHOWN: usize = 5;

const NOT_YET: &str =
    "Not judged yet: jobs are judged within 20 s of their start and each minute, after their first 5 s.";

/// Also right for as long as nothing else is said.
const NOT_JUDGED: &str = "No verdict: a job is judged a minute after its end, or when its records come. One that ran for less than 5 s, or \
                          whose records came when others of its time had expired, has none.";

/// A job is judged for the last time 45 s after its end: what was said sooner after it, by clocks that may differ, was said while it ran.
const LAST_AFTER_MS: i64 = 20_000;

/// Each verdict as a sentence with what to do, and when the job was judged where that was while it ran: its figures are of then. One line
/// where nothing is said yet.
pub fn text(verdicts: &[JobVerdict], job: &Job, width: usize) -> String {
    if verdicts.is_empty() {
        return if job.end_ms.is_some() { folded(NOT_JUDGED, width).join("\n") } else { NOT_YET.to_owned() }
            + "\n";
    }
    let mut text = String::new();
    for one in verdicts.iter().take(SHOWN) {
        let judged = format!("judged {}", clock(one.last_ms));
        let is_last = job.end_ms.is_some_and(|end| one.last_ms >= end + LAST_AFTER_MS);
        let head = match (one.kind.as_str(), is_last) {
            ("nothing_found", true) => String::new(),
            ("nothing_found", false) => format!("({judged}) "),
            (kind, true) => format!("{} ({}): ", verdict_name(kind).to_uppercase(), one.confidence),
            (kind, false) => {
                format!("{} ({}, {judged}): ", verdict_name(kind).to_uppercase(), one.confidence)
            }
        };
        text.push_str(&(folded(&format!("{head}{}", one.observation), width).join("\n") + "\n"));
        text.push_str(&(folded(&format!("→ {}", one.remedy), width).join("\n") + "\n"));
    }
    if verdicts.len() > SHOWN {
        text.push_str(&format!("and {} more (--json)\n", verdicts.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_stands_before_what_to_do() {
        let one = JobVerdict {
            kind: "slow_rank".into(),
            confidence: "certain".into(),
            observation: "The others wait for rank 3.".into(),
            remedy: "Bind it.".into(),
            ..JobVerdict::default()
        };
        let (running, ended) = (Job::default(), Job { end_ms: Some(1), ..Job::default() });
        let judged = text(std::slice::from_ref(&one), &running, 120);
        assert!(
            judged.contains("SLOW RANK (certain, judged 1970-01-01 00:00:00 UTC): The others"),
            "{judged}"
        );
        assert!(
            text(std::slice::from_ref(&one), &ended, 120).contains("(certain, judged"),
            "of before its end"
        );
        let text = text(&[JobVerdict { last_ms: 60_000, ..one }], &ended, 80);
        assert!(text.contains("SLOW RANK (certain): The others wait for rank 3."), "{text}");
        assert!(text.find("→ Bind it.") > text.find("SLOW RANK"), "{text}");
        assert!(super::text(&[], &running, 80).starts_with("Not judged yet"));
        assert!(super::text(&[], &ended, 80).contains("No verdict"), "nothing that is over soon");
    }
}
