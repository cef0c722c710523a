//! ARCHITECTURE.md: short enough to be read first, and every path of it is there.

use crate::top;

/// What a new reader takes in at once.
const BYTES_MAX: usize = 8192;

#[test]
fn the_map_is_short_and_its_paths_are_there() {
    let map = std::fs::read_to_string(top().join("ARCHITECTURE.md")).unwrap();
    assert!(map.len() <= BYTES_MAX, "ARCHITECTURE.md has {} bytes of at most {BYTES_MAX}", map.len());
    let is_there = |path: &str| top().join(path).exists() || top().join("crates").join(path).exists();
    let rows = map.lines().filter(|line| line.starts_with("| "));
    let named = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let missing: Vec<&str> =
        named.filter(|path| path.trim_matches('/').contains('/') && !is_there(path)).collect();
    assert!(missing.is_empty(), "paths that ARCHITECTURE.md names: {missing:?}");
    let linked = map.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let missing: Vec<&str> = linked.filter(|path| !is_there(path)).collect();
    assert!(missing.is_empty(), "links of ARCHITECTURE.md: {missing:?}");
}
