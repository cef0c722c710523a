//! `docs/ADDING-A-COUNTER.md`: a counter takes the files that the page names, and no other.

use crate::top;
use std::collections::BTreeSet;
use std::process::Command;

/// Most files that one counter may take.
const FILES_MAX: usize = 3;

/// Names of the page's examples: the column, the constant of the catalogue, and what the device's standard calls it.
const EXAMPLES: [(&str, &[&str]); 2] = [
    ("## A counter of a fabric port", &["inactive_discards", "INACTIVE_DISCARDS", "PortInactiveDiscards"]),
    ("## A counter of an NVLink", &["recovery_failures", "NVLINK_RECOVERY_FAILURES", "RECOVERY_FAILURES"]),
];

/// Files of the tree that have one of the words: without tests and documents, without what is generated, and without
/// migrations, which made columns before the catalogue did.
fn files_with(words: &[&str]) -> BTreeSet<String> {
    let mut grep = Command::new("git");
    grep.args(["grep", "-l", "-w"]).args(words.iter().flat_map(|word| ["-e", word])).current_dir(top());
    let listed = String::from_utf8(grep.output().unwrap().stdout).unwrap();
    let counts = |file: &&str| {
        let is_code = file.ends_with(".rs") || file.ends_with(".sql") || file.ends_with(".c");
        let is_generated = file.ends_with("schema/current.sql");
        let is_test = file.contains("/tests/") || file.ends_with("tests.rs");
        is_code && !is_generated && !is_test && !file.contains("/migrations/")
    };
    listed.lines().filter(counts).map(str::to_owned).collect()
}

#[test]
fn a_counter_takes_the_files_of_the_page_and_at_most_three() {
    let page = std::fs::read_to_string(top().join("docs/ADDING-A-COUNTER.md")).unwrap();
    for (heading, words) in EXAMPLES {
        let (_, section) = page.split_once(heading).unwrap();
        let section = section.split("\n## ").next().unwrap();
        assert!(section.contains(&format!("`{}`", words[0])), "{heading}: the example is another one");
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let named: BTreeSet<String> = rows.map(|row| row.split('`').next().unwrap().to_owned()).collect();
        assert!((1..=FILES_MAX).contains(&named.len()), "{heading}: {named:?}");
        assert_eq!(files_with(words), named, "{heading}: `git grep -w {}`", words.join(" -e "));
    }
}
