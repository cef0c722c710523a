//! `cargo xtask crates`: the crates and the crates that they use, as a text picture, into ARCHITECTURE.md between its two
//! markers. The tests hold the picture against the workspace, and products free of simulators.

use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::tree::{self, root};

#[cfg(test)]
mod circles;
#[cfg(test)]
mod modules;

const DOCUMENT: &str = "ARCHITECTURE.md";
/// The line before the picture in ARCHITECTURE.md, and the one behind it.
const MARKERS: (&str, &str) = ("<!-- crates -->\n", "<!-- /crates -->\n");
/// What the names of most packages begin with; the picture leaves it out, as the folders do.
const PREFIX: &str = "throughline-";

/// Crates below `crates/` with the crates there that they use: normal dependencies, not those of tests and builds.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// Writes the picture.
pub fn run() -> anyhow::Result<()> {
    tree::write(DOCUMENT, &with_picture(&tree::read(DOCUMENT)?, &picture(&uses()?)?)?)
}

/// What the workspace says, by `cargo metadata`.
fn uses() -> anyhow::Result<Uses> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(root());
    let output = command.output().context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    read(&serde_json::from_slice(&output.stdout).context("reading cargo metadata")?)
}

fn read(metadata: &serde_json::Value) -> anyhow::Result<Uses> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let short = |name: String| name.strip_prefix(PREFIX).unwrap_or(&name).to_owned();
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let ours: Vec<_> = packages
        .iter()
        .filter(|package| {
            let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default()).parent();
            folder.and_then(Path::parent).is_some_and(|parent| parent.ends_with("crates"))
        })
        .collect();
    let names: BTreeSet<String> = ours.iter().map(|package| short(text(&package["name"]))).collect();
    let of_package = |package: &&serde_json::Value| {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
        let used = normal.map(|dependency| short(text(&dependency["name"])));
        (short(text(&package["name"])), used.filter(|name| names.contains(name)).collect())
    };
    Ok(ours.iter().map(of_package).collect())
}

/// All that a crate uses, directly or through others; itself where it is on a circle.
fn closure<'a>(uses: &'a Uses, name: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = uses.get(name).into_iter().flatten().map(String::as_str).collect();
    while let Some(name) = next.pop() {
        if found.insert(name) {
            next.extend(uses.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    found
}

/// The picture: a line for each crate, users above what they use, so that each arrow points down. An arrow that follows
/// from two others is left out. Crates of one height are in the order of their names.
fn picture(uses: &Uses) -> anyhow::Result<String> {
    let on_circle: Vec<&str> =
        uses.keys().map(String::as_str).filter(|name| closure(uses, name).contains(name)).collect();
    ensure!(on_circle.is_empty(), "a circle of crates goes through {}", on_circle.join(", "));
    let height = |name: &str| longest(uses, name);
    let mut lines: Vec<(usize, &str, Vec<&str>)> = Vec::new();
    for (name, used) in uses {
        let follows =
            |other: &String| used.iter().any(|between| closure(uses, between).contains(other.as_str()));
        let mut direct: Vec<&str> = used.iter().filter(|other| !follows(other)).map(String::as_str).collect();
        direct.sort_by_key(|other| (std::cmp::Reverse(height(other)), *other));
        lines.push((height(name), name, direct));
    }
    lines.sort_by_key(|(height, name, _)| (std::cmp::Reverse(*height), *name));
    let width = lines.iter().map(|(_, name, direct)| if direct.is_empty() { 0 } else { name.len() }).max();
    let (leaves, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(_, _, direct)| direct.is_empty());
    let mut text: String = others
        .iter()
        .map(|(_, name, direct)| {
            format!("{name:<width$} → {}\n", direct.join(" "), width = width.unwrap_or(0))
        })
        .collect();
    let leaves: Vec<&str> = leaves.iter().map(|(_, name, _)| *name).collect();
    text.push_str(&format!("{}\n", leaves.join(" ")));
    Ok(text)
}

/// Arrows on the longest way down. The workspace has no circle here.
fn longest(uses: &Uses, name: &str) -> usize {
    uses.get(name).into_iter().flatten().map(|used| longest(uses, used) + 1).max().unwrap_or(0)
}

/// The document with this picture between its markers.
fn with_picture(document: &str, picture: &str) -> anyhow::Result<String> {
    let (begin, end) = MARKERS;
    let (before, rest) = document.split_once(begin).context("ARCHITECTURE.md has no line <!-- crates -->")?;
    let (_, after) = rest.split_once(end).context("ARCHITECTURE.md has no line <!-- /crates -->")?;
    Ok(format!("{before}{begin}```text\n{picture}```\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Crates of programs that are installed.
    const PRODUCTS: [&str; 4] = ["agent", "cli", "fabric", "mpit-bridge"];
    /// Crates with simulators and test doubles.
    const DOUBLES: [&str; 3] = ["demo", "doubles", "simfabric"];

    fn made(pairs: &[(&str, &[&str])]) -> Uses {
        let used = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        pairs.iter().map(|(name, names)| ((*name).to_owned(), used(names))).collect()
    }

    #[test]
    fn architecture_shows_the_crates_as_they_are() {
        let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
        let drawn = with_picture(&document, &picture(&uses().unwrap()).unwrap()).unwrap();
        assert!(document == drawn, "the crates changed: run `cargo xtask crates`");
    }

    #[test]
    fn products_contain_no_simulator() {
        let uses = uses().unwrap();
        for product in PRODUCTS {
            assert!(uses.contains_key(product), "{product} is no crate");
            let all = closure(&uses, product);
            for double in DOUBLES {
                assert!(uses.contains_key(double), "{double} is no crate");
                assert!(!all.contains(double), "{product} depends on {double}");
            }
        }
    }

    #[test]
    fn a_picture_leaves_out_what_follows_and_refuses_circles() {
        let uses = made(&[("top", &["middle", "low"]), ("middle", &["low"]), ("low", &[]), ("alone", &[])]);
        assert_eq!(picture(&uses).unwrap(), "top    → middle\nmiddle → low\nalone low\n");
        let circle = made(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]);
        assert_eq!(picture(&circle).unwrap_err().to_string(), "a circle of crates goes through a, b, c");
    }

    #[test]
    fn only_normal_dependencies_within_crates_count() {
        let package = |name: &str, dependencies: &str| {
            format!(
                r#"{{"name":"{name}","manifest_path":"/x/crates/{name}/Cargo.toml","dependencies":[{dependencies}]}}"#
            )
        };
        let dependency = |name: &str, kind: &str| format!(r#"{{"name":"{name}","kind":{kind}}}"#);
        let used = [("b", "null"), ("c", "\"dev\""), ("c", "\"build\""), ("serde", "null")];
        let used: Vec<String> = used.map(|(name, kind)| dependency(name, kind)).into();
        let packages = [package("throughline-a", &used.join(",")), package("b", ""), package("c", "")];
        let text = format!(
            r#"{{"packages":[{},{{"name":"d","manifest_path":"/x/tests/d/Cargo.toml","dependencies":[]}}]}}"#,
            packages.join(",")
        );
        let found = read(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(found, made(&[("a", &["b"]), ("b", &[]), ("c", &[])]));
    }
}
