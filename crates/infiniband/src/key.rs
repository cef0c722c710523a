//! Management keys from files: M_Key and SM_Key are secrets, so they are never on a command line and never printed.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest key file that is read: a key is 18 characters.
const FILE_BYTES_MAX: u64 = 4096;
/// Permissions that nobody but the owner may have.
const OTHERS: u32 = 0o077;

/// A management key of 64 bits. It prints as nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Key(u64);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 == 0 { "Key(none)" } else { "Key(not shown)" })
    }
}

/// A key can't be taken from its file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file can't be read.
    #[error("key file {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// Others than its owner may read or write it.
    #[error("key file {path} is open to others than its owner (mode {mode:04o}); `chmod 600 {path}`")]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It holds something else.
    #[error("key file {path} does not hold one key: expected a number such as 0x0123456789abcdef")]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

impl Key {
    /// A key by its number; 0 is none.
    #[must_use]
    pub const fn new(number: u64) -> Key {
        Key(number)
    }

    /// The number, to be put into a MAD and nowhere else.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Reads a file that only its owner may read: one number, decimal or with 0x, and comments after `#`.
    ///
    /// # Errors
    /// [`KeyFileError`]; it never says what is in the file.
    pub fn from_file(path: &Path) -> Result<Key, KeyFileError> {
        let failed = |cause| KeyFileError::Read { path: path.to_owned(), cause };
        let about = std::fs::metadata(path).map_err(failed)?;
        let mode = about.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(KeyFileError::Open { path: path.to_owned(), mode });
        }
        let malformed = || KeyFileError::Malformed { path: path.to_owned() };
        if !about.is_file() || about.len() > FILE_BYTES_MAX {
            return Err(malformed());
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        parse(&text).map(Key).ok_or_else(malformed)
    }
}

/// The number in a key file's text.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let words = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut words = words.flat_map(str::split_whitespace);
    let (word, None) = (words.next()?, words.next()) else { return None };
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_one_number_and_is_not_shown() {
        assert_eq!(parse("# M_Key of the subnet\n0x00000000deadbeef\n"), Some(0xdead_beef));
        assert_eq!(parse("17 # decimal"), Some(17));
        assert_eq!(parse(""), None);
        assert_eq!(parse("1 2"), None);
        assert_eq!(parse("0xg"), None);
        assert!(!format!("{:?}", Key::new(0xdead_beef)).contains("dead"));
    }

    #[test]
    fn files_open_to_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m_key");
        std::fs::write(&path, "0x1234\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Key::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && error.contains("0640") && !error.contains("1234"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Key::from_file(&path).unwrap().number(), 0x1234);
        std::fs::write(&path, "secret").unwrap();
        let error = Key::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("one key") && !error.contains("secret"), "{error}");
        assert!(matches!(
            Key::from_file(folder.path().join("none").as_path()),
            Err(KeyFileError::Read { .. })
        ));
    }
}
