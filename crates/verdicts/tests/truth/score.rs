//! Precision and recall of each verdict.

use super::Case;
use std::collections::BTreeMap;
use throughline_verdicts::{Kind, Verdict};

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Said and true.
    pub right: usize,
    /// Said and not true.
    pub wrong: usize,
    /// True and not said.
    pub missed: usize,
}

impl Counts {
    pub fn precision(self) -> f64 {
        part(self.right, self.wrong)
    }

    pub fn recall(self) -> f64 {
        part(self.right, self.missed)
    }
}

/// 1 where nothing was to be found and nothing was said.
fn part(right: usize, other: usize) -> f64 {
    if right + other == 0 { 1.0 } else { right as f64 / (right + other) as f64 }
}

#[derive(Default)]
pub struct Score {
    pub by: BTreeMap<Kind, Counts>,
    /// What was wrong or missed, for people.
    pub notes: Vec<String>,
}

impl Score {
    pub fn add(&mut self, name: &str, case: &Case, said: &[Verdict]) {
        for (kind, subjects) in &case.expected {
            let found = said.iter().any(|one| one.kind == *kind && is_subject(subjects, &one.subject));
            let counts = self.by.entry(*kind).or_default();
            if found {
                counts.right += 1;
            } else {
                counts.missed += 1;
                self.notes.push(format!(
                    "{name}: missed {} of {subjects:?}, said {}",
                    kind.name(),
                    names(said)
                ));
            }
        }
        for one in said {
            let is_right =
                case.allowed.get(&one.kind).is_some_and(|subjects| is_subject(subjects, &one.subject))
                    || case
                        .expected
                        .iter()
                        .any(|(kind, subjects)| one.kind == *kind && is_subject(subjects, &one.subject));
            if !is_right {
                self.by.entry(one.kind).or_default().wrong += 1;
                self.notes.push(format!(
                    "{name}: wrong {} of {}: {}",
                    one.kind.name(),
                    one.subject,
                    one.observation
                ));
            }
        }
    }

    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<22}{:>7}{:>7}{:>8}{:>11}{:>8}\n",
            "verdict", "right", "wrong", "missed", "precision", "recall"
        );
        for (kind, counts) in &self.by {
            text += &format!(
                "{:<22}{:>7}{:>7}{:>8}{:>9.1} %{:>6.1} %\n",
                kind.name(),
                counts.right,
                counts.wrong,
                counts.missed,
                counts.precision() * 100.0,
                counts.recall() * 100.0
            );
        }
        text
    }
}

fn is_subject(subjects: &std::collections::BTreeSet<String>, subject: &str) -> bool {
    subjects.is_empty() || subjects.contains(subject)
}

fn names(said: &[Verdict]) -> String {
    said.iter().map(|one| format!("{} of {}", one.kind.name(), one.subject)).collect::<Vec<_>>().join(", ")
}
