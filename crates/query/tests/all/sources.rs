//! Where SQL may stand: in the store and here; and that the client of the API has no database driver.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Crates whose sources may have SQL. That of the demo prints a statement for people to try.
const MAY: [&str; 3] = ["store", "query", "demo"];

/// What a statement begins with.
const BEGINS: [&str; 10] = [
    "SELECT ",
    "INSERT INTO ",
    "DELETE FROM ",
    "UPDATE ",
    "WITH ",
    "COPY ",
    "CREATE TABLE ",
    "ALTER ",
    "GRANT ",
    "SET statement_timeout",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let is_test = name == "tests" || name.ends_with("tests.rs") || name == "node_modules";
        if is_test {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// The begins of string literals of a source, without its tests at the end and its comments.
fn literals(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    code.split('"')
        .skip(1)
        .map(|part| part.trim_start_matches(['\\', '\n', ' ']).chars().take(40).collect())
        .collect()
}

#[test]
fn sql_stands_in_the_store_and_in_query_only() {
    let mut wrong = Vec::new();
    let mut all = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap().map(Result::unwrap) {
        let folder = entry.path().join("src");
        if !folder.is_dir() {
            continue;
        }
        let may = MAY.iter().any(|name| entry.file_name() == *name);
        let mut files = Vec::new();
        sources(&folder, &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for literal in literals(&text) {
                let is_sql = BEGINS.iter().any(|begin| literal.starts_with(begin));
                all += usize::from(is_sql);
                if is_sql && !may {
                    wrong.push(format!("{}: {literal}", file.display()));
                }
            }
        }
    }
    assert!(all > 100, "the search finds what there is: {all}");
    assert!(wrong.is_empty(), "SQL belongs into crates/query (reading) or crates/store: {wrong:#?}");
}

/// All packages that one needs to be built, by `cargo tree`.
fn dependencies(package: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none", "--package", package]);
    let output = tree.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_client_has_no_database_driver() {
    let of_client = dependencies("throughline-client");
    assert!(of_client.contains("throughline-api") && of_client.contains("ureq"), "{of_client:?}");
    let forbidden = ["tokio-postgres", "postgres-protocol", "throughline-store", "throughline-query"];
    assert!(forbidden.iter().all(|name| !of_client.contains(*name)), "{of_client:?}");
    assert!(dependencies("throughline-query").contains("tokio-postgres"));
}
