//! Modules of the fabric's crates use each other one way: no circle among the top-level modules of a crate. What they use
//! is read from the sources: `crate::…` and `super::…` outside comments and unit tests.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates that the code map divides into modules.
const CRATES: [&str; 3] = ["infiniband", "crawler", "fabric"];

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Source files below a folder, without those of unit tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "tests.rs" || name == "tests" {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found
}

/// A source without comments and without the unit tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Names at the beginning of the paths in `text`, which starts behind `crate::`: one, or those of a group in braces.
fn heads(text: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = text.strip_prefix('{') else { return vec![word(text)] };
    let (mut depth, mut names, mut is_start) = (0_usize, Vec::new(), true);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            character if is_start && !character.is_whitespace() => {
                names.push(word(&group[at..]));
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

/// What a source at this module path uses of its crate's top level.
fn used(path: &[&str], code: &str) -> Vec<String> {
    let to_root = "super::".repeat(path.len());
    let mut found = Vec::new();
    for prefix in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            let is_whole = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
            let rest = &code[at + prefix.len()..];
            if is_whole && !rest.starts_with("super::") {
                found.extend(heads(rest));
            }
        }
    }
    found
}

fn graph(source: &Path) -> Graph {
    let mut graph = Graph::new();
    for path in sources(source) {
        let relative = path.strip_prefix(source).unwrap().with_extension("");
        let parts: Vec<&str> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        let module = parts[0];
        if module == "lib" || module == "main" {
            continue;
        }
        let names = used(&parts, &code(&std::fs::read_to_string(&path).unwrap()));
        graph.entry(module.to_owned()).or_default().extend(names);
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, used) in &mut graph {
        used.retain(|name| modules.contains(name) && name != module);
    }
    graph
}

/// Modules that reach themselves.
fn on_circles(graph: &Graph) -> Vec<String> {
    let reaches_itself = |module: &&String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut next: Vec<&String> = graph[*module].iter().collect();
        while let Some(name) = next.pop() {
            if seen.insert(name) {
                next.extend(&graph[name]);
            }
        }
        seen.contains(module)
    };
    graph.keys().filter(reaches_itself).cloned().collect()
}

#[test]
fn no_circle_among_modules() {
    for name in CRATES {
        let graph = graph(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(name).join("src"));
        assert!(!graph.is_empty(), "{name} has no modules");
        let circles = on_circles(&graph);
        assert!(circles.is_empty(), "crates/{name}: these modules use each other: {circles:?}\n{graph:#?}");
    }
    // The reader reads: the crate's layers are found.
    let infiniband = graph(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/infiniband/src"));
    assert!(
        infiniband["route"].contains("topology") && infiniband["topology"].contains("mad"),
        "{infiniband:#?}"
    );
}

#[test]
fn circles_are_found_in_all_ways_of_writing() {
    let code = code(
        "use crate::{a::B, c, d::{e, f}}; // crate::comment\nfn x() { crate::g::h(); super::super::i::j() }\n\
         use mycrate::k;\nuse super::sibling;\n#[cfg(test)]\nmod tests { use crate::l; }",
    );
    assert_eq!(used(&["m", "n"], &code), ["a", "c", "d", "g", "i"]);
    let folder = std::env::temp_dir().join(format!("throughline-modules-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("b")).unwrap();
    for (file, text) in [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use super::b;"),
        ("b.rs", ""),
        ("b/x.rs", "use crate::a::y;"),
        ("c.rs", "use crate::a;"),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let circles = on_circles(&graph(&folder));
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(circles, ["a", "b"]);
}
