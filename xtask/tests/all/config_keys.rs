//! Keys of all configurations: the quantity and its base unit first, the qualifier last (`memory_bytes_max`).

use std::path::Path;

/// Beginnings of keys that have the qualifier first.
const QUALIFIERS: [&str; 6] = ["max_", "min_", "most_", "least_", "limit_", "total_"];

/// Ends of keys whose unit is no base unit, or which have the qualifier inside.
const UNITS: [&str; 9] = ["_mb", "_mib", "_kb", "_kib", "_gb", "_ms", "_us", "_minutes", "_limit_bytes"];

/// Keys of an example, also the commented ones with their default.
fn keys(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.trim_start_matches('#').trim_start());
    let pairs = lines.filter_map(|line| line.split_once(" = "));
    pairs.map(|(key, _)| key).filter(|key| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
}

#[test]
fn a_key_has_its_base_unit_and_then_its_qualifier() {
    // Tests of the programs compare the examples with all keys and defaults that they have.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/config");
    let (mut wrong, mut found) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for key in keys(&text) {
            found += 1;
            let is_wrong = QUALIFIERS.iter().any(|begin| key.starts_with(begin))
                || UNITS.iter().any(|end| key.ends_with(end));
            if is_wrong {
                wrong.push(format!("{}: {key}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found > 100, "only {found} keys");
}
