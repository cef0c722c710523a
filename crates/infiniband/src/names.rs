//! Names of nodes from a file, as infiniband-diags and opensm read it: one `0xGUID "name"` a line.
//!
//! Where the file lists a node, the name there takes the place of its NodeDescription everywhere. The format is
//! that of `man ib-node-name-map` style files (opensm's `complib/cl_nodenamemap`): blanks around, `#` begins a
//! comment, the name is between quotes. Reads a file and nothing else.

use crate::topology::Node;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use throughline_sample::Guid;

/// Where is looked when nothing else is said: as infiniband-diags of rdma-core do, then as opensm and older diags.
const DEFAULT_PATHS: [&str; 2] = ["/etc/rdma/ib-node-name-map", "/etc/opensm/ib-node-name-map"];
/// Largest file: 65,536 nodes with names of 256 bytes.
const BYTES_MAX: u64 = 16 << 20;

/// A file of names that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    /// It can't be read.
    #[error("reading the node-name map {}: {cause}; name another one with --node-name-map", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{}, line {line}: {what}; expected 0xGUID \"name\"", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// Names by node GUID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameMap {
    names: HashMap<Guid, String>,
}

impl NameMap {
    /// Reads the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// [`NamesError::Line`] for the first line that is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<NameMap, NamesError> {
        let mut names = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |what| NamesError::Line { path: path.to_owned(), line: index + 1, what };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (guid, rest) =
                line.split_once(char::is_whitespace).ok_or_else(|| wrong("there is no name"))?;
            let digits = guid.strip_prefix("0x").or_else(|| guid.strip_prefix("0X")).unwrap_or(guid);
            let guid =
                u64::from_str_radix(digits, 16).map_err(|_| wrong("the GUID is no hexadecimal number"))?;
            let rest = rest.trim_start();
            let name = rest.strip_prefix('"').ok_or_else(|| wrong("the name is not between quotes"))?;
            let (name, after) =
                name.split_once('"').ok_or_else(|| wrong("the name's second quote is missing"))?;
            let after = after.trim_start();
            if !after.is_empty() && !after.starts_with('#') {
                return Err(wrong("there is something behind the name"));
            }
            // The first line of a GUID wins, as in opensm.
            names.entry(Guid(guid)).or_insert_with(|| printable(name));
        }
        Ok(NameMap { names })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`NamesError`].
    pub fn read(path: &Path) -> Result<NameMap, NamesError> {
        let failed = |cause| NamesError::Read { path: path.to_owned(), cause };
        let length = std::fs::metadata(path).map_err(failed)?.len();
        if length > BYTES_MAX {
            return Err(failed(std::io::Error::other(format!("{length} bytes are more than {BYTES_MAX}"))));
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        NameMap::parse(&String::from_utf8_lossy(&bytes), path)
    }

    /// Names in the map.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it names nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Gives nodes their names.
    pub fn apply(&self, nodes: &mut [Node]) {
        for node in nodes.iter_mut().filter(|_| !self.names.is_empty()) {
            if let Some(name) = self.names.get(&node.guid) {
                node.description.clone_from(name);
            }
        }
    }
}

fn printable(name: &str) -> String {
    name.chars()
        .map(|c| if throughline_sample::admission::is_deceptive(c) { '\u{FFFD}' } else { c })
        .collect()
}

/// A map that follows its file.
#[derive(Debug, Default)]
pub struct NameFile {
    path: Option<PathBuf>,
    /// Whether the file was named, and not only looked for.
    is_named: bool,
    read: Option<(SystemTime, u64)>,
    map: NameMap,
}

impl NameFile {
    /// The file with this name, which must be there; without one the default, which may be missing.
    ///
    /// # Errors
    /// [`NamesError`]: it is not there or wrong.
    pub fn open(path: Option<&Path>) -> Result<NameFile, NamesError> {
        let [first, second] = DEFAULT_PATHS.map(Path::new);
        let chosen = path.unwrap_or(if first.exists() { first } else { second });
        let mut file =
            NameFile { path: Some(chosen.to_owned()), is_named: path.is_some(), ..NameFile::default() };
        file.refresh()?;
        Ok(file)
    }

    /// Reads the file again if it changed. Whether it did.
    ///
    /// # Errors
    /// [`NamesError`]; the names before stay, and the same state of the file is not complained of again.
    pub fn refresh(&mut self) -> Result<bool, NamesError> {
        let Some(path) = &self.path else { return Ok(false) };
        let state = match std::fs::metadata(path) {
            Ok(data) => Some((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), data.len())),
            Err(_) if !self.is_named => None,
            Err(cause) if self.read.is_none() => return Err(NamesError::Read { path: path.clone(), cause }),
            // Being replaced, perhaps: its names stay.
            Err(_) => return Ok(false),
        };
        if state == self.read {
            return Ok(false);
        }
        self.read = state;
        self.map = if state.is_some() { NameMap::read(path)? } else { NameMap::default() };
        Ok(true)
    }

    /// The names.
    #[must_use]
    pub fn map(&self) -> &NameMap {
        &self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NameMap, String> {
        NameMap::parse(text, Path::new("map")).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_as_infiniband_diags_read_them() {
        let map = parse(
            "# switches\n\n0x0002c90000000001 \"leaf 1\"\n  0xABC\t\"leaf 2\"   # rack 7\n0xabc \"later\"\n",
        )
        .unwrap();
        assert_eq!(map.len(), 2);
        assert_eq!(map.names[&Guid(0x0002_c900_0000_0001)], "leaf 1");
        assert_eq!(map.names[&Guid(0xabc)], "leaf 2", "the first line wins");
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, words) in [
            ("0x1 \"a\"\n0x2\n", ["map, line 2", "no name"]),
            ("0xzz \"a\"\n", ["line 1", "hexadecimal"]),
            ("\n0x1 a\n", ["line 2", "quotes"]),
            ("0x1 \"a\n", ["line 1", "second quote"]),
            ("0x1 \"a\" b\n", ["line 1", "behind"]),
        ] {
            let error = parse(text).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn it_follows_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        assert!(NameFile::open(Some(&path)).unwrap_err().to_string().contains("--node-name-map"));
        std::fs::write(&path, "0x1 \"one\"\n").unwrap();
        let mut file = NameFile::open(Some(&path)).unwrap();
        assert!(!file.refresh().unwrap());
        std::fs::write(&path, "0x1 \"uno\"\n0x2 \"due\"\n").unwrap();
        assert!(file.refresh().unwrap());
        assert_eq!(file.map().len(), 2);
        std::fs::write(&path, "nonsense of another length\n").unwrap();
        assert!(file.refresh().is_err());
        assert!(!file.refresh().unwrap(), "reported once");
        assert_eq!(file.map().len(), 2, "the names before stay");
    }
}
