//! The first lines of the page: is something wrong, and what.

use crate::job::verdict_name;
use crate::text::folded;
use throughline_api::verdicts::JobVerdict;

/// Most verdicts on the page; all are in the JSON document.
const SHOWN: usize = 5;

const NOT_YET: &str =
    "Not judged yet: jobs are judged within 20 s of their start and each minute, after their first 5 s.";

/// Also right for as long as nothing else is said.
const NOT_JUDGED: &str = "No verdict: a job is judged a minute after its end, or when its records come. One that ran for less than 5 s, or \
                          whose records came when others of its time had expired, has none.";

/// Each verdict as a sentence with what to do; one line where nothing is said yet.
pub fn text(verdicts: &[JobVerdict], has_ended: bool, width: usize) -> String {
    if verdicts.is_empty() {
        return if has_ended { folded(NOT_JUDGED, width).join("\n") } else { NOT_YET.to_owned() } + "\n";
    }
    let mut text = String::new();
    for one in verdicts.iter().take(SHOWN) {
        let head = if one.kind == "nothing_found" {
            String::new()
        } else {
            format!("{} ({}): ", verdict_name(&one.kind).to_uppercase(), one.confidence)
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
        let text = text(&[one], false, 80);
        assert!(text.contains("SLOW RANK (certain): The others wait for rank 3."), "{text}");
        assert!(text.find("→ Bind it.") > text.find("SLOW RANK"), "{text}");
        assert!(super::text(&[], false, 80).starts_with("Not judged yet"));
        assert!(super::text(&[], true, 80).contains("No verdict"), "nothing that is over soon");
    }
}
