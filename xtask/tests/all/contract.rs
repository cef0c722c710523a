//! One contract: a job and the site's status are serialised by one type each, those of `crates/api`; help is imperative in all
//! programs.
//!
//! A second type is found by its keys, whatever it is called: one that derives `Serialize` and has half or more of the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::top;

/// The types of the API, with the file of each.
const TYPES: [(&str, &str); 2] = [("Job", "crates/api/src/jobs.rs"), ("Status", "crates/api/src/status.rs")];

/// A type that derives `Serialize`: its file, its name and its keys in JSON.
#[derive(Clone, Debug)]
struct Serialised {
    file: String,
    name: String,
    keys: BTreeSet<String>,
    /// Types whose keys stand among its own.
    flattened: Vec<String>,
}

/// Structs of a source file that derive `Serialize`.
fn types_of(file: &str, source: &str) -> Vec<Serialised> {
    let mut types = Vec::new();
    let mut lines = source.lines().map(str::trim);
    let (mut derives, mut attributes) = (false, String::new());
    while let Some(line) = lines.next() {
        if line.starts_with("#[") {
            derives |= line.starts_with("#[derive(") && line.contains("Serialize");
            continue;
        }
        let words = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        let name = words.trim_start_matches("pub ").strip_prefix("struct ");
        if let Some(name) = name.filter(|_| derives && line.ends_with('{')) {
            let name = name.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
            let (mut keys, mut flattened) = (BTreeSet::new(), Vec::new());
            for line in lines.by_ref().take_while(|line| *line != "}") {
                if line.starts_with("#[serde(") {
                    attributes.push_str(line);
                } else if let Some((field, kind)) = line.split_once(": ").filter(|_| !line.starts_with("//"))
                {
                    let renamed =
                        attributes.split_once("rename = \"").and_then(|(_, rest)| rest.split_once('"'));
                    let key = renamed.map_or(field, |(key, _)| key).rsplit(' ').next().unwrap_or_default();
                    if attributes.contains("flatten") {
                        let kind =
                            kind.trim_end_matches([',', '>']).rsplit([':', '<']).next().unwrap_or_default();
                        flattened.push(kind.to_owned());
                    } else if !attributes.contains("skip)") {
                        keys.insert(key.to_owned());
                    }
                    attributes.clear();
                }
            }
            types.push(Serialised { file: file.to_owned(), name: name.to_owned(), keys, flattened });
        }
        derives &= line.is_empty() || line.starts_with("//");
    }
    types
}

/// Those with half or more of the keys of one of [`TYPES`], but for these themselves.
fn second_types(types: &[Serialised]) -> Vec<String> {
    let named: BTreeMap<&str, &Serialised> = types.iter().map(|one| (one.name.as_str(), one)).collect();
    let all_keys = |one: &Serialised| {
        let inner = one.flattened.iter().filter_map(|name| named.get(name.as_str()));
        inner.flat_map(|inner| inner.keys.clone()).chain(one.keys.clone()).collect::<BTreeSet<_>>()
    };
    let mut second = Vec::new();
    for (name, file) in TYPES {
        let is_first = |one: &&Serialised| one.name == name && one.file == file;
        let first = types.iter().find(is_first).unwrap_or_else(|| panic!("no {name} in {file}"));
        for one in types.iter().filter(|one| !is_first(one)) {
            let same = all_keys(one).intersection(&first.keys).count();
            if 2 * same >= first.keys.len() {
                second.push(format!("{} of {}: {same} keys of {name}", one.name, one.file));
            }
        }
    }
    second
}

fn types_of_the_tree() -> Vec<Serialised> {
    let listed = Command::new("git").args(["ls-files", "*.rs"]).current_dir(top()).output().unwrap();
    let files = String::from_utf8(listed.stdout).unwrap();
    // One that was deleted and not committed yet is still listed.
    let read = |file: &str| std::fs::read_to_string(top().join(file)).map(|source| types_of(file, &source));
    files.lines().filter_map(|file| read(file).ok()).flatten().collect()
}

#[test]
fn a_job_and_the_status_are_serialised_by_one_type_each() {
    let types = types_of_the_tree();
    assert!(types.len() > 100, "{} types that derive Serialize", types.len());
    assert_eq!(second_types(&types), [""; 0]);
}

#[test]
fn a_second_type_is_found_whatever_it_is_called() {
    let mut types = types_of_the_tree();
    let job = types.iter().find(|one| one.name == "Job" && one.file == TYPES[0].1).unwrap();
    let half: Vec<&String> = job.keys.iter().take(job.keys.len().div_ceil(2)).collect();
    let (renamed, others) = half.split_first().unwrap();
    let fields: String = others.iter().map(|key| format!("    /// It.\n    pub {key}: u64,\n")).collect();
    let seeded = format!(
        "/// What runs.\n#[derive(Clone, Serialize)]\npub struct Run {{\n    #[serde(rename = \"{renamed}\")]\n    other: u64,\n{fields}}}\n\
         #[derive(Debug, serde::Serialize)]\nstruct Page {{\n    #[serde(flatten)]\n    run: Option<Run>,\n}}\n\
         #[derive(Clone)]\nstruct Plain {{\n{fields}}}\n"
    );
    types.extend(types_of("crates/x/src/run.rs", &seeded));
    let found = second_types(&types);
    let names: Vec<&str> = found.iter().filter_map(|one| one.split(' ').next()).collect();
    assert_eq!(names, ["Run", "Page"], "{found:?}");
}

/// Programs whose help is checked, by the folders of their command lines.
const PROGRAMS: [&str; 7] = ["agent", "cli", "client", "daemon", "demo", "detail", "fabric"];

/// What the help of a subcommand or an option begins with.
const VERBS: [&str; 50] = [
    "Accept",
    "Assume",
    "Begin",
    "Check",
    "Choose",
    "Clear",
    "Compare",
    "Count",
    "Discover",
    "Divide",
    "Draw",
    "Emulate",
    "End",
    "Fetch",
    "Find",
    "Give",
    "Have",
    "Judge",
    "Keep",
    "Leave",
    "List",
    "Look",
    "Make",
    "Manage",
    "Observe",
    "Overwrite",
    "Pass",
    "Predict",
    "Print",
    "Refuse",
    "Put",
    "Query",
    "Read",
    "Report",
    "Run",
    "Send",
    "Set",
    "Show",
    "Simulate",
    "Sort",
    "Start",
    "Stop",
    "Sweep",
    "Take",
    "Trust",
    "Use",
    "Wait",
    "Walk",
    "Watch",
    "Write",
];

/// First lines of help in a source file: documentation of what clap shows, options and variants of subcommands.
fn help_lines(source: &str) -> Vec<String> {
    let (mut found, mut text, mut is_commands) = (Vec::new(), None, false);
    let mut derives_commands = false;
    for line in source.lines() {
        let trimmed = line.trim();
        if let Some(words) = trimmed.strip_prefix("/// ") {
            text.get_or_insert_with(|| words.to_owned());
            continue;
        }
        let is_variant = is_commands
            && line.starts_with("    ")
            && trimmed.starts_with(|first: char| first.is_ascii_uppercase());
        if trimmed.starts_with("#[arg(") || is_variant {
            found.extend(text.take());
        }
        derives_commands |= trimmed.starts_with("#[derive(") && trimmed.contains("Subcommand");
        if derives_commands && (trimmed.starts_with("enum ") || trimmed.starts_with("pub enum ")) {
            (is_commands, derives_commands) = (true, false);
        }
        is_commands &= line != "}";
        if !trimmed.starts_with("#[") {
            text = None;
        }
    }
    found
}

#[test]
fn help_is_imperative() {
    let listed = Command::new("git").args(["ls-files", "crates/*.rs"]).current_dir(top()).output().unwrap();
    let files = String::from_utf8(listed.stdout).unwrap();
    let is_program =
        |file: &&str| PROGRAMS.iter().any(|name| file.starts_with(&format!("crates/{name}/src/")));
    let mut lines = 0;
    let mut wrong = Vec::new();
    for file in files.lines().filter(is_program) {
        let Ok(source) = std::fs::read_to_string(top().join(file)) else { continue };
        for line in help_lines(&source) {
            lines += 1;
            if !line
                .split(|letter: char| !letter.is_alphabetic())
                .next()
                .is_some_and(|word| VERBS.contains(&word))
            {
                wrong.push(format!("{file}: {line}"));
            }
        }
    }
    assert!(lines > 150, "{lines} lines of help");
    assert!(
        wrong.is_empty(),
        "begin with a verb that says what the option or command does:\n{}",
        wrong.join("\n")
    );
}
