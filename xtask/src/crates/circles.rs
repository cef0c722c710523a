//! Files use each other one way: no circle of files in a crate, in the C of the shim and of the test doubles, or in the pages.
//!
//! In Rust a file uses another where it names a path into it: `crate::…`, `super::…`, `self::…`, or a child's name. What a child takes
//! from a parent is no use, nor what a parent hands on from its children (`pub use`). In C a source and its header are one
//! room, which uses those that it includes, and those that alone define a function that it calls. In TypeScript imports count.
#![allow(clippy::unwrap_used, missing_docs)]

use super::modules::{Graph, code, on_circles, paths};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders without sources of ours, and with tests.
const NO_SOURCES: [&str; 5] = ["target", "node_modules", ".git", "fuzz", "tests"];

/// A source file and the modules from the crate's root to it.
struct Module {
    path: Vec<String>,
    file: PathBuf,
    code: String,
    children: Vec<String>,
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// `mod name;` lines, each with the path that an attribute before it gives; those of tests left out.
fn declared(code: &str) -> Vec<(String, Option<String>)> {
    let (mut found, mut file, mut is_test) = (Vec::new(), None, false);
    for line in code.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            file = Some(path.to_owned());
        } else if line.starts_with("#[cfg(test)]") {
            is_test = true;
        } else if !line.starts_with("#[") {
            let name =
                line.split_once("mod ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
            if let Some(name) = name.and_then(|(_, name)| name.strip_suffix(';')).filter(|_| !is_test) {
                found.push((name.to_owned(), file.clone()));
            }
            (file, is_test) = (None, false);
        }
    }
    found
}

/// The module in a file and all below it.
fn modules(file: &Path, path: &[String], found: &mut Vec<Module>) {
    let code = code(&std::fs::read_to_string(file).unwrap());
    let (folder, stem) = (file.parent().unwrap(), file.file_stem().unwrap().to_str().unwrap());
    let below = if path.is_empty() || stem == "mod" { folder.to_owned() } else { folder.join(stem) };
    let mut children = Vec::new();
    for (name, given) in declared(&code) {
        let places = match given {
            Some(given) => vec![folder.join(given)],
            None => vec![below.join(format!("{name}.rs")), below.join(&name).join("mod.rs")],
        };
        if let Some(place) = places.iter().find(|place| place.is_file()) {
            let child: Vec<String> = path.iter().chain([&name]).cloned().collect();
            modules(place, &child, found);
        }
        children.push(name);
    }
    found.push(Module { path: path.to_vec(), file: file.to_owned(), code, children });
}

/// Paths that a module names, from the root of its crate, and whether each is handed on.
fn named(module: &Module) -> Vec<(Vec<String>, bool)> {
    let mut found = Vec::new();
    let first = ["crate", "super", "self"].into_iter().chain(module.children.iter().map(String::as_str));
    for word in first {
        for (at, _) in module.code.match_indices(&format!("{word}::")) {
            let before = &module.code[..at];
            if before.chars().next_back().is_some_and(|c| is_word(c) || c == ':') {
                continue;
            }
            let is_handed_on = before.ends_with("use ")
                && before.lines().next_back().is_some_and(|line| line.trim().starts_with("pub"));
            for (parts, _) in paths(&module.code[at..]) {
                let mut whole = module.path.clone();
                for part in parts {
                    match part.as_str() {
                        "crate" => whole.clear(),
                        "super" => drop(whole.pop()),
                        "self" => {}
                        _ => whole.push(part),
                    }
                }
                found.push((whole, is_handed_on));
            }
        }
    }
    found
}

/// The files of the crate with this root, each with those that it uses.
fn rust(root: &Path) -> Graph {
    let mut all = Vec::new();
    modules(root, &[], &mut all);
    let files: BTreeMap<&[String], String> =
        all.iter().map(|module| (module.path.as_slice(), module.file.display().to_string())).collect();
    let uses = |module: &Module| {
        let mut used = BTreeSet::new();
        for (path, is_handed_on) in named(module) {
            let target =
                (1..=path.len()).rev().map(|length| &path[..length]).find(|path| files.contains_key(path));
            let is_left_out = |target: &[String]| {
                module.path.starts_with(target) || is_handed_on && target.starts_with(&module.path)
            };
            let counts = |target: &&[String]| !is_left_out(target);
            used.extend(target.filter(counts).map(|target| files[target].clone()));
        }
        used
    };
    all.iter().map(|module| (module.file.display().to_string(), uses(module))).collect()
}

/// C without comments, and without what is in strings.
fn bare_c(text: &str) -> String {
    let (mut bare, mut rest) = (String::new(), text);
    while let Some(at) =
        rest.find(['"', '\'']).into_iter().chain(rest.find("/*")).chain(rest.find("//")).min()
    {
        bare.push_str(&rest[..at]);
        let (open, from) = (&rest[at..], at + 1);
        let end = match open {
            _ if open.starts_with("/*") => rest[from..].find("*/").map(|end| end + from + 2),
            _ if open.starts_with("//") => rest[from..].find('\n').map(|end| end + from),
            _ => {
                let quote = open.chars().next().unwrap();
                let mut is_escaped = false;
                let end = rest[from..].find(|c: char| {
                    let is_end = c == quote && !is_escaped;
                    is_escaped = c == '\\' && !is_escaped;
                    is_end
                });
                bare.push(' ');
                end.map(|end| end + from + 1)
            }
        };
        rest = end.map_or("", |end| &rest[end..]);
    }
    bare + rest
}

/// Names of the functions that a source defines, and whether each is for others.
fn defined(bare: &str) -> BTreeMap<String, bool> {
    // A macro is one line of the preprocessor.
    let whole = bare.replace("\\\n", " ");
    let lines: Vec<&str> = whole.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let (mut found, mut depth, mut head) = (BTreeMap::new(), 0_usize, String::new());
    for character in lines.join("\n").chars() {
        match character {
            '{' => {
                let name = head.split('(').next().unwrap_or_default().trim_end();
                let name = &name[name.rfind(|c| !is_word(c)).map_or(0, |at| at + 1)..];
                if depth == 0 && head.contains('(') && !head.contains('=') {
                    found.insert(name.to_owned(), !head.trim_start().starts_with("static"));
                }
                depth += 1;
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match character {
            '{' | '}' | ';' => head.clear(),
            _ if depth == 0 => head.push(character),
            _ => {}
        }
    }
    found
}

/// Names that are called.
fn called(bare: &str) -> BTreeSet<String> {
    let calls = bare.match_indices('(').map(|(at, _)| bare[..at].trim_end());
    calls.map(|before| before[before.rfind(|c| !is_word(c)).map_or(0, |at| at + 1)..].to_owned()).collect()
}

/// The sources of a folder by name without ending, each with those that it uses.
fn c(folder: &Path) -> Graph {
    let (mut graph, mut texts) = (Graph::new(), BTreeMap::new());
    for path in files(folder, &["c", "h"]) {
        let room = path.with_extension("").display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let included = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split_once(".h\""));
        let included = included.map(|(name, _)| folder.join(name).display().to_string());
        graph.entry(room.clone()).or_default().extend(included);
        if path.extension().is_some_and(|ending| ending == "c") {
            texts.insert(room, bare_c(&text));
        }
    }
    let mut definers: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for (room, text) in &texts {
        let public = defined(text).into_iter().filter(|(_, is_public)| *is_public);
        public.for_each(|(name, _)| definers.entry(name).or_default().push(room));
    }
    for (room, text) in &texts {
        let own = defined(text);
        let of_call = |name: String| {
            let rooms = definers.get(&name).filter(|rooms| rooms.len() == 1 && !own.contains_key(&name))?;
            Some(rooms[0].clone())
        };
        graph.get_mut(room).unwrap().extend(called(text).into_iter().filter_map(of_call));
    }
    tidied(graph)
}

/// The pages' sources, each with those that it imports.
fn typescript(folder: &Path) -> Graph {
    let mut graph = Graph::new();
    for path in files(folder, &["ts", "tsx"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let imported =
            text.split("from '").skip(1).filter_map(|rest| rest.split_once('\'').map(|(name, _)| name));
        let used = imported.filter(|name| name.starts_with('.')).filter_map(|name| {
            let place = path.parent().unwrap().join(name);
            let ending = ["", ".ts", ".tsx", "/index.ts", "/index.tsx"].into_iter();
            let mut places = ending.map(|ending| PathBuf::from(format!("{}{ending}", place.display())));
            places.find(|place| place.is_file())?.canonicalize().ok()
        });
        let used = used.map(|path| path.display().to_string()).collect();
        graph.insert(path.canonicalize().unwrap().display().to_string(), used);
    }
    tidied(graph)
}

/// Without uses of itself and of what has no source here.
fn tidied(mut graph: Graph) -> Graph {
    let rooms: BTreeSet<String> = graph.keys().cloned().collect();
    graph.iter_mut().for_each(|(room, used)| used.retain(|name| name != room && rooms.contains(name)));
    graph
}

/// Files with one of these endings below a folder, without tests.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !NO_SOURCES.contains(&name) {
                found.extend(files(&path, endings));
            }
        } else if path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted))
            && !name.contains(".test.")
        {
            found.push(path);
        }
    }
    found
}

/// Circles of files below a folder of a tree like ours, as lines.
fn circles(root: &Path) -> Vec<String> {
    let roots = files(root, &["rs"]).into_iter().filter(|path| {
        let name = path.file_name().unwrap();
        (name == "lib.rs" || name == "main.rs") && path.parent().unwrap().ends_with("src")
    });
    let mut graphs: Vec<Graph> = roots.map(|path| tidied(rust(&path))).collect();
    let folders: BTreeSet<PathBuf> =
        files(root, &["c"]).iter().map(|path| path.parent().unwrap().to_owned()).collect();
    graphs.extend(folders.iter().map(|folder| c(folder)));
    graphs.push(typescript(root));
    let mut lines = Vec::new();
    for graph in graphs {
        let found = on_circles(&graph);
        let uses = |file: &String| {
            let used: Vec<&str> =
                graph[file].iter().filter(|name| found.contains(name)).map(String::as_str).collect();
            format!("{file} uses {}", used.join(", "))
        };
        lines.extend(found.iter().map(uses));
    }
    lines
}

#[test]
fn no_circle_among_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let found = circles(&root);
    assert!(found.is_empty(), "files that use each other in a circle:\n{}", found.join("\n"));
    // The reader reads: arrows that are there are found.
    let crawler = rust(&root.join("crates/crawler/src/lib.rs"));
    let walk = &crawler[&root.join("crates/crawler/src/discover/walk.rs").display().to_string()];
    assert!(
        walk.contains(&root.join("crates/crawler/src/discover/limits.rs").display().to_string()),
        "{walk:#?}"
    );
    let shim = c(&root.join("crates/mpit-bridge/shim"));
    let lifecycle = &shim[&root.join("crates/mpit-bridge/shim/lifecycle").display().to_string()];
    assert!(
        lifecycle.contains(&root.join("crates/mpit-bridge/shim/threads").display().to_string()),
        "{lifecycle:#?}"
    );
    let pages = typescript(&root.join("crates/gateway/web/src"));
    assert!(pages.values().filter(|used| !used.is_empty()).count() > 20, "{pages:#?}");
}

#[test]
fn a_seeded_circle_is_found_in_each_language() {
    let folder = std::env::temp_dir().join(format!("throughline-circles-{}", std::process::id()));
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("a/src/lib.rs", "mod one;\nmod two;\nmod parent;\n#[path = \"other_file.rs\"]\nmod other;\n");
    write("a/src/one.rs", "use super::two::Two; // crate::other");
    write(
        "a/src/two.rs",
        "fn two() -> crate::other::Other {}\n#[cfg(test)]\nmod tests { use crate::one::One; }",
    );
    write("a/src/other_file.rs", "// not super::one");
    // What children take from a parent, and what a parent hands on, is no circle.
    write("a/src/parent.rs", "mod child;\npub use child::Child;\nuse child::Grown;");
    write("a/src/parent/child.rs", "use super::Parent;");
    write("b/one.c", "#include \"one.h\"\nint one(void)\n{\n\treturn 1;\n}\n");
    write("b/one.h", "int one(void);\n");
    write("b/two.c", "#include \"one.h\"\n/* three() */\nint two(void) { return one(); }\n");
    write("web/one.ts", "import { two } from './two.tsx'");
    write("web/two.tsx", "import type { Preact } from 'preact'");
    assert_eq!(circles(&folder), Vec::<String>::new());
    let seeded = |file: &str, text: &str| {
        let before = std::fs::read_to_string(folder.join(file)).unwrap();
        write(file, text);
        let found = circles(&folder).len();
        write(file, &before);
        found
    };
    assert_eq!(seeded("a/src/other_file.rs", "use super::{one::{self, One}};"), 3);
    assert_eq!(seeded("a/src/parent/child.rs", "use crate::two::Two; use super::super::one;"), 0);
    assert_eq!(seeded("a/src/one.rs", "use super::two::Two; fn f() { crate::parent::child::Child }"), 0);
    assert_eq!(seeded("b/one.h", "#include \"two.h\"\n"), 2);
    assert_eq!(seeded("b/one.c", "int two(void);\nint one(void) { return two(); }\n"), 2);
    assert_eq!(seeded("web/two.tsx", "import { one } from './one.ts'"), 2);
    std::fs::remove_dir_all(&folder).unwrap();
}
