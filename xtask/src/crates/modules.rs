//! Modules use each other one way: no circle among the top-level modules of any crate below `crates/`, and so none among
//! those that the code map names. What they use is read from the sources: `crate::…` and `super::…` outside comments and
//! unit tests. A name that the crate's root re-exports counts as the module that it comes from.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders that hold programs or unit tests of the crate, not modules of it.
const NO_MODULES: [&str; 3] = ["bin", "tests", "main"];

/// Modules or files, each with those that it uses.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// Source files below a folder, without those of unit tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "tests.rs" || name.ends_with("_tests.rs") || name == "tests" {
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
pub fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths of a `use` tree, from where its text begins to its `;`, or of a plain path: each as its parts, with the name
/// that it has here.
pub fn paths(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let end = tree.find(|c| !is_word(c)).unwrap_or(tree.len());
    let (word, rest) = (tree[..end].to_owned(), tree[end..].trim_start());
    if let Some(group) = tree.strip_prefix('{') {
        return members(group).into_iter().flat_map(paths).collect();
    }
    if let Some(below) = rest.strip_prefix("::") {
        let below = paths(below).into_iter();
        let prefixed = |(mut parts, name): (Vec<String>, String)| {
            parts.insert(0, word.clone());
            (parts, if name == "self" { word.clone() } else { name })
        };
        return below.map(prefixed).collect();
    }
    let name = rest.strip_prefix("as ").map(|name| name.trim_start());
    let name =
        name.map_or(word.as_str(), |name| name[..name.find(|c| !is_word(c)).unwrap_or(name.len())].trim());
    if word.is_empty() { Vec::new() } else { vec![(vec![word.clone()], name.to_owned())] }
}

/// The members of a group, whose text starts behind its opening brace.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut found, mut begin) = (0_usize, Vec::new(), 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                found.push(&group[begin..at]);
                begin = at + 1;
                if character == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

/// What a source at this module path uses of its crate's top level.
fn used(path: &[&str], code: &str) -> BTreeSet<String> {
    let to_root = "super::".repeat(path.len());
    let mut found = BTreeSet::new();
    for prefix in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            let is_whole = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
            let rest = &code[at + prefix.len()..];
            if is_whole && !rest.starts_with("super::") {
                found.extend(paths(rest).into_iter().map(|(mut parts, _)| parts.remove(0)));
            }
        }
    }
    found
}

/// Names that a crate's root has from its modules, each with the module.
fn reexports(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (at, _) in root.match_indices("use ") {
        for (parts, name) in paths(&root[at + 4..]) {
            let mut parts = parts.into_iter().skip_while(|part| part == "crate" || part == "self");
            found.extend(parts.next().filter(|module| modules.contains(module)).map(|module| (name, module)));
        }
    }
    found
}

/// The top-level modules of a crate, each with those that it uses.
fn graph(source: &Path) -> Graph {
    let (mut graph, mut root) = (Graph::new(), String::new());
    for path in sources(source) {
        let relative = path.strip_prefix(source).unwrap().with_extension("");
        let mut parts: Vec<&str> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        let code = code(&std::fs::read_to_string(&path).unwrap());
        if parts == ["lib"] || parts == ["main"] {
            root.push_str(&code);
            continue;
        }
        if NO_MODULES.contains(&parts[0]) {
            continue;
        }
        if parts.last() == Some(&"mod") {
            parts.pop();
        }
        graph.entry(parts[0].to_owned()).or_default().extend(used(&parts, &code));
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    let reexports = reexports(&root, &modules);
    for (module, used) in &mut graph {
        let of_root = |name: &String| reexports.get(name).filter(|_| !modules.contains(name)).cloned();
        *used = used.iter().map(|name| of_root(name).unwrap_or_else(|| name.clone())).collect();
        used.retain(|name| modules.contains(name) && name != module);
    }
    graph
}

/// Those that reach themselves.
pub fn on_circles(graph: &Graph) -> Vec<String> {
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
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&crates).unwrap() {
        let folder = entry.unwrap().path();
        let graph = graph(&folder.join("src"));
        let circles = on_circles(&graph);
        if !circles.is_empty() {
            let uses = |module: &String| {
                let used = graph[module].iter().filter(|name| circles.contains(name)).cloned();
                format!("  {module} uses {}", used.collect::<Vec<_>>().join(", "))
            };
            let lines: Vec<String> = circles.iter().map(uses).collect();
            found.push(format!("{}:\n{}", folder.file_name().unwrap().to_str().unwrap(), lines.join("\n")));
        }
    }
    assert!(
        found.is_empty(),
        "modules that use each other in a circle, of crates/{}",
        found.join("\nof crates/")
    );
    // The reader reads: the layers of a crate are found, and what a root re-exports is that of its module.
    let infiniband = graph(&crates.join("infiniband/src"));
    assert!(
        infiniband["route"].contains("topology") && infiniband["topology"].contains("mad"),
        "{infiniband:#?}"
    );
    let client = graph(&crates.join("client/src"));
    assert!(
        client["server"].contains("settings") && client["settings"].contains("connection"),
        "{client:#?}"
    );
}

#[test]
fn circles_are_found_in_all_ways_of_writing() {
    let code = code(
        "use crate::{a::B, c, d::{e, f}}; // crate::comment\nfn x() { crate::g::h(); super::super::i::j() }\n\
         use mycrate::k;\nuse super::sibling;\n#[cfg(test)]\nmod tests { use crate::l; }",
    );
    let expected = ["a", "c", "d", "g", "i"].map(str::to_owned);
    assert_eq!(used(&["m", "n"], &code), BTreeSet::from(expected));
    let folder = std::env::temp_dir().join(format!("throughline-modules-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("b")).unwrap();
    for (file, text) in [
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;\npub use d::{f::{self, G}, H as I};"),
        ("a.rs", "use super::b;"),
        ("b.rs", ""),
        ("b/mod.rs", "use super::c_of_b; use super::super::d;"),
        ("b/x.rs", "use crate::a::y;"),
        ("c.rs", "use crate::a;"),
        ("d.rs", "use crate::{c, e};"),
        ("e.rs", "use crate::{I};"),
        ("e_tests.rs", "use crate::c;"),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let circles = on_circles(&graph(&folder));
    std::fs::remove_dir_all(&folder).unwrap();
    // `e` uses `d` by a name that the root gives it.
    assert_eq!(circles, ["a", "b", "d", "e"]);
}
