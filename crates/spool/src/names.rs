//! Names of the files in the folder.

/// The meta file.
pub(crate) const META_NAME: &str = "meta";
/// The copy of the entries in memory that a clean stop leaves.
pub(crate) const TAIL_NAME: &str = "tail";

/// A segment.
pub(crate) fn segment_name(index: u64) -> String {
    format!("{index:016x}.seg")
}

/// A segment that could not be read.
pub(crate) fn quarantine_name(index: u64) -> String {
    format!("{index:016x}.bad")
}

/// The index in a name with this ending.
pub(crate) fn index_of(name: &str, ending: &str) -> Option<u64> {
    let hex = name.strip_suffix(ending)?;
    if hex.len() == 16 { u64::from_str_radix(hex, 16).ok() } else { None }
}
