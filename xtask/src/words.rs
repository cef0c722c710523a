//! `cargo xtask words`: sentence forms that nobody says aloud, in documents, comments, help and messages. Each place is listed with
//! its line. `xtask/words.txt` lists the files that may still have some, and how many; a test compares, so that the list only shrinks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::tree::{read, root, write};

/// The forms, each as its words.
const FORMS: [&[&str]; 12] = [
    &["of", "which"],
    &["stands", "in"],
    &["stand", "in"],
    &["what", "it", "is"],
    &["what", "they", "are"],
    &["whoever"],
    &["told"],
    &["tells"],
    &["speaks", "with"],
    &["speaks", "of"],
    &["speak", "with"],
    &["speak", "of"],
];

/// Names of files end so.
const ENDINGS: [&str; 18] = [
    ".md", ".rs", ".sql", ".c", ".h", ".ts", ".tsx", ".mjs", ".css", ".html", ".sh", ".py", ".toml", ".yaml",
    ".yml", ".proto", ".service", "Makefile",
];

/// Written from files that are looked through; and this file.
const LEFT_OUT: [&str; 6] = [
    "docs/METRICS.md",
    "docs/TABLES.md",
    "crates/store/schema/current.sql",
    "deploy/prometheus/rules/throughline.yml",
    "deploy/grafana/provisioning/alerting/throughline.yml",
    "xtask/src/words.rs",
];

const ALLOWED: &str = "xtask/words.txt";

#[derive(clap::Args)]
pub struct Arguments {
    /// Write xtask/words.txt anew where files have fewer places than it allows.
    #[arg(long)]
    shrink: bool,
}

/// How many places each file has, or may have.
type Counts = BTreeMap<String, usize>;

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut found = Counts::new();
    for file in files()? {
        let places = places(&read(&file)?);
        for (line, form) in &places {
            println!("{file}:{line}: {form}");
        }
        if !places.is_empty() {
            found.insert(file, places.len());
        }
    }
    let allowed = allowed()?;
    if arguments.shrink {
        let fewer = found.iter().filter_map(|(file, count)| Some((file, *allowed.get(file)?.min(count))));
        let mut list = String::new();
        for (file, count) in fewer {
            let _ = writeln!(list, "{count} {file}");
        }
        write(ALLOWED, &list)?;
    }
    let faults = faults(&found, &allowed);
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    Ok(if faults.is_empty() || arguments.shrink { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Files that have another number of places than they may have.
fn faults(found: &Counts, allowed: &Counts) -> Vec<String> {
    let of = |counts: &Counts, file: &str| counts.get(file).copied().unwrap_or(0);
    let mut faults = Vec::new();
    for (file, count) in found.iter().filter(|(file, count)| **count > of(allowed, file)) {
        faults.push(format!("{file}: {count} places of {}: cargo xtask words lists them", of(allowed, file)));
    }
    for (file, count) in allowed.iter().filter(|(file, count)| **count > of(found, file)) {
        faults.push(format!("{file}: fewer than its {count} places: cargo xtask words --shrink"));
    }
    faults
}

fn allowed() -> anyhow::Result<Counts> {
    let list = read(ALLOWED)?;
    let entries = list.lines().map(|line| {
        let (count, file) = line.split_once(' ').with_context(|| format!("{ALLOWED}: {line}"))?;
        Ok((file.to_owned(), count.parse().with_context(|| format!("{ALLOWED}: {line}"))?))
    });
    entries.collect()
}

/// Text files that are written by hand.
fn files() -> anyhow::Result<Vec<String>> {
    let listed = Command::new("git").arg("ls-files").current_dir(root()).output().context("git ls-files")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    let listed = String::from_utf8(listed.stdout).context("git ls-files")?;
    let is_text = |file: &&str| {
        ENDINGS.iter().any(|ending| file.ends_with(ending))
            && !LEFT_OUT.contains(file)
            && root().join(file).is_file()
    };
    Ok(listed.lines().filter(is_text).map(str::to_owned).collect())
}

/// Where a text has one of the forms: the line that it begins in, and the form. Marks of comments and the ends of lines do not
/// part the words of a form, punctuation does.
fn places(text: &str) -> Vec<(usize, String)> {
    let mut tokens: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line =
            line.trim().trim_end_matches('\\').trim_start_matches(['/', '!', '-', '#', '*', ' ', '\t']);
        let mut is_word = false;
        for character in line.chars() {
            let continues = character.is_alphanumeric() || character == '_' || character == '\'';
            match tokens.last_mut() {
                Some((_, word)) if is_word && continues => word.extend(character.to_lowercase()),
                _ if character.is_whitespace() => {}
                _ => tokens.push((number, character.to_lowercase().collect())),
            }
            is_word = continues;
        }
    }
    let begins = |at: usize, form: &[&str]| {
        let words = tokens.get(at..at + form.len());
        words.is_some_and(|words| words.iter().zip(form).all(|((_, word), expected)| word == expected))
    };
    (0..tokens.len())
        .flat_map(|at| FORMS.iter().filter(move |form| begins(at, form)).map(move |form| (at, form)))
        .map(|(at, form)| (tokens[at].0, form.join(" ")))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_have_no_more_places_than_they_may() {
        let counted = files().unwrap().into_iter().map(|file| {
            let count = places(&read(&file).unwrap()).len();
            (file, count)
        });
        let found: Counts = counted.filter(|(_, count)| *count > 0).collect();
        let faults = faults(&found, &allowed().unwrap());
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn a_form_is_found_over_the_ends_of_lines_and_not_over_punctuation() {
        let text = "/// Ranks, most of\n/// Which wait.\nlet of_which = which(of, which);\n-- What it is.\n";
        assert_eq!(places(text), [(1, "of which".to_owned()), (4, "what it is".to_owned())]);
    }

    #[test]
    fn a_file_may_not_have_more_and_a_list_not_too_much() {
        let counts = |entries: &[(&str, usize)]| -> Counts {
            entries.iter().map(|(file, count)| ((*file).to_owned(), *count)).collect()
        };
        assert!(faults(&counts(&[("a", 1)]), &counts(&[("a", 1)])).is_empty());
        assert_eq!(faults(&counts(&[("a", 2), ("b", 1)]), &counts(&[("a", 1)])).len(), 2);
        assert_eq!(faults(&counts(&[]), &counts(&[("a", 1)])).len(), 1);
    }
}
