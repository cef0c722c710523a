//! `cargo xtask words`: sentence forms that nobody says aloud, in documents, comments, help and messages. Each place is listed with
//! its line.

use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::tree::{read, root};

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

pub fn run() -> anyhow::Result<ExitCode> {
    let found = found()?;
    found.iter().for_each(|place| println!("{place}"));
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// All places: file, line and form.
fn found() -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for file in files()? {
        let places = places(&read(&file)?);
        found.extend(places.into_iter().map(|(line, form)| format!("{file}:{line}: {form}")));
    }
    Ok(found)
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
    fn no_file_has_one() {
        let found = found().unwrap();
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_form_is_found_over_the_ends_of_lines_and_not_over_punctuation() {
        let text = "/// Ranks, most of\n/// Which wait.\nlet of_which = which(of, which);\n-- What it is.\n";
        assert_eq!(places(text), [(1, "of which".to_owned()), (4, "what it is".to_owned())]);
    }
}
