//! The table of docs/GPU.md that says which test shows what: each test that it names is there.

use std::path::Path;

/// Appends all Rust sources below the folder.
fn read_sources(folder: &Path, text: &mut String) {
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            read_sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *text += &std::fs::read_to_string(path).unwrap();
        }
    }
}

#[test]
fn tests_that_the_document_names_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests = String::new();
    for name in ["gpu", "agent", "store"] {
        read_sources(&root.join("crates").join(name).join("tests"), &mut tests);
    }
    let document = std::fs::read_to_string(root.join("docs/GPU.md")).unwrap();
    let (_, section) = document.split_once("## What the tests show").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    // Names of functions are the quoted words that hold no dot and no slash.
    let words = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let names: Vec<&str> = words.filter(|word| !word.contains(['.', '/'])).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(tests.contains(&format!("fn {name}(")), "no test is named {name}");
    }
}
