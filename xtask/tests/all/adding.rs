//! `docs/ADDING-A-*.md`: what each of these pages explains takes the files that the page names, and no other.

use crate::top;
use std::collections::BTreeSet;
use std::process::Command;

/// Most files that one thing may take.
const FILES_MAX: usize = 3;

/// A page's example.
struct Example {
    page: &'static str,
    /// What the section of the example begins with; `# ` where that is all of the page.
    heading: &'static str,
    /// Names of the example wherever it is needed: the column, the constant of the catalogue, the device's standard.
    /// The page has the first one.
    words: &'static [&'static str],
}

const EXAMPLES: [Example; 6] = [
    Example {
        page: "COUNTER",
        heading: "## A counter of a fabric port",
        words: &["inactive_discards", "INACTIVE_DISCARDS", "PortInactiveDiscards"],
    },
    Example {
        page: "COUNTER",
        heading: "## A counter of an NVLink",
        words: &["recovery_failures", "NVLINK_RECOVERY_FAILURES", "RECOVERY_FAILURES"],
    },
    Example {
        page: "COLUMN",
        heading: "## A column of a view or function",
        words: &["transmit_peak_utilisation"],
    },
    Example { page: "COLUMN", heading: "## A column of a table", words: &["cpu_hertz_readings"] },
    Example { page: "VERDICT", heading: "# ", words: &["affinity_changed", "AffinityChanged"] },
    // The path of the pages' server, as no other file writes it: the API has a route of the same name.
    Example { page: "PAGE", heading: "# ", words: &["NodesPage", "\"/nodes\", get(page"] },
];

/// Files of the tree that have one of the words: code without tests and generated files, and no rules of alerts, which use what
/// is there. Migrations made columns before the catalogue did: those of counters are left out.
fn files_with(words: &[&str], with_migrations: bool) -> BTreeSet<String> {
    let mut grep = Command::new("git");
    grep.args(["grep", "-l", "-w"]).args(words.iter().flat_map(|word| ["-e", word])).current_dir(top());
    let listed = String::from_utf8(grep.output().unwrap().stdout).unwrap();
    let counts = |file: &&str| {
        let (_, extension) = file.rsplit_once('.').unwrap_or_default();
        let is_code = ["rs", "sql", "c", "h", "proto", "yaml", "ts", "tsx"].contains(&extension);
        let is_generated = file.ends_with("schema/current.sql");
        let is_test = file.contains("/tests/") || file.ends_with("tests.rs") || file.ends_with(".test.ts");
        is_code && !is_generated && !is_test && (with_migrations || !file.contains("/migrations/"))
    };
    listed.lines().filter(counts).map(str::to_owned).collect()
}

#[test]
fn each_thing_takes_the_files_of_its_page_and_at_most_three() {
    for Example { page, heading, words } in EXAMPLES {
        let name = format!("docs/ADDING-A-{page}.md");
        let text = std::fs::read_to_string(top().join(&name)).unwrap();
        let (_, section) = text.split_once(heading).unwrap();
        let section = section.split("\n## ").next().unwrap();
        assert!(
            section.contains(&format!("`{}`", words[0])),
            "{name}, {heading}: the example is another one"
        );
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let named: BTreeSet<String> = rows.map(|row| row.split('`').next().unwrap().to_owned()).collect();
        assert!((1..=FILES_MAX).contains(&named.len()), "{name}, {heading}: {named:?}");
        let needed = files_with(words, page != "COUNTER");
        assert_eq!(needed, named, "{name}, {heading}: `git grep -w {}`", words.join(" -e "));
    }
}
