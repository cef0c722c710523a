//! All libraries that a program will load: the closure of what it needs, found as the dynamic loader finds it.

use super::elf::Elf;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// Most libraries followed: the largest programs load some hundred.
const LIBRARIES: usize = 1024;
/// Largest cache file read; Debian's has some hundred kilobytes.
const CACHE_BYTES: usize = 64 << 20;
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// How the loader looks for libraries, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Folders of `LD_LIBRARY_PATH`.
    pub environment: Vec<PathBuf>,
    /// Paths by name, from `/etc/ld.so.cache`.
    pub cache: HashMap<String, PathBuf>,
    /// Folders that are always searched.
    pub standard: Vec<PathBuf>,
}

impl Search {
    /// That of this machine and the given `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn of_system(library_path: &str) -> Self {
        let folders = |list: &str| {
            list.split([':', ';']).filter(|folder| !folder.is_empty()).map(PathBuf::from).collect()
        };
        Self {
            environment: folders(library_path),
            cache: std::fs::read("/etc/ld.so.cache").map(|bytes| cache(&bytes)).unwrap_or_default(),
            standard: folders("/lib64:/usr/lib64:/lib:/usr/lib"),
        }
    }

    /// All libraries that `program` needs, itself and through others: names, and where they are. One that is not
    /// found is listed and not followed: whether the program starts is for the loader to say.
    #[must_use]
    pub fn closure(&self, program: &Path, elf: &Elf) -> BTreeMap<String, Option<PathBuf>> {
        let mut names = BTreeMap::new();
        let mut waiting = VecDeque::from([(program.to_owned(), elf.clone())]);
        while let Some((path, elf)) = waiting.pop_front() {
            let folders = own_folders(&path, &elf);
            for name in elf.needed {
                if names.len() >= LIBRARIES || names.contains_key(&name) {
                    continue;
                }
                let found = self.find(&name, &folders);
                names.insert(name, found.clone());
                waiting.extend(found.and_then(|path| Elf::read(&path).map(|elf| (path, elf))));
            }
        }
        names
    }

    fn find(&self, name: &str, own: &[PathBuf]) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name));
        }
        let in_folders =
            |folders: &[PathBuf]| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        in_folders(own)
            .or_else(|| in_folders(&self.environment))
            .or_else(|| self.cache.get(name).cloned())
            .or_else(|| in_folders(&self.standard))
    }
}

/// RUNPATH and RPATH with `$ORIGIN` filled in.
fn own_folders(path: &Path, elf: &Elf) -> Vec<PathBuf> {
    let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let origin = origin.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let filled = elf.search.iter().filter(|folder| !folder.is_empty());
    filled
        .map(|folder| PathBuf::from(folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin)))
        .collect()
}

/// Names and paths of `/etc/ld.so.cache` in its current format (glibc's dl-cache.h): a header of 48 bytes,
/// entries of 24 bytes with the offsets of name and path, then the texts. Later entries of a name are for
/// other processors.
fn cache(bytes: &[u8]) -> HashMap<String, PathBuf> {
    let mut found = HashMap::new();
    if bytes.len() > CACHE_BYTES {
        return found;
    }
    // An older format may come first; the offsets count from the new header.
    let Some(start) = bytes.windows(CACHE_MAGIC.len()).position(|window| window == CACHE_MAGIC) else {
        return found;
    };
    let bytes = &bytes[start..];
    let number = |at: usize| -> Option<usize> {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(four)).ok()
    };
    let text = |at: usize| {
        let rest = bytes.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    };
    for entry in 0..number(20).unwrap_or(0).min(bytes.len() / 24) {
        let at = 48 + 24 * entry;
        let pair = number(at + 4).and_then(text).zip(number(at + 8).and_then(text));
        if let Some((name, path)) = pair {
            found.entry(name.to_owned()).or_insert_with(|| PathBuf::from(path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closure_of_this_program() {
        let path = std::env::current_exe().unwrap();
        let names = Search::of_system("").closure(&path, &Elf::read(&path).unwrap());
        assert!(names.keys().any(|name| name.starts_with("libc.so")), "{names:?}");
        assert!(names.keys().any(|name| name.starts_with("ld-")), "libc needs the loader: {names:?}");
    }

    #[test]
    fn origin_is_the_programs_folder() {
        let elf = Elf { search: vec!["$ORIGIN/../lib".into(), "/opt".into()], ..Elf::default() };
        let folders = own_folders(Path::new("/nowhere/bin/a"), &elf);
        assert_eq!(folders, [PathBuf::from("/nowhere/bin/../lib"), PathBuf::from("/opt")]);
    }

    #[test]
    fn damaged_caches_are_empty_or_read_without_harm() {
        assert!(cache(b"").is_empty());
        assert!(cache(CACHE_MAGIC).is_empty());
        let mut bytes = CACHE_MAGIC.to_vec();
        bytes.extend([255; 60]);
        assert!(cache(&bytes).is_empty());
    }
}
