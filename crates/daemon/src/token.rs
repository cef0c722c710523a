//! A token in a file: a secret that both ends of a connection know.

use crate::{Failure, ReloadingValue};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Shortest token: 128 bits are 32 hexadecimal digits, as words fewer; below 16 characters it can be tried out.
const TOKEN_BYTES_MIN: usize = 16;

/// Largest file of a token.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// How long a token that was replaced may still hold: its file is looked at no more often.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// A token. Prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the file that `key` of the configuration names.
    ///
    /// # Errors
    /// It can't be read, every user may read or write it (77), or what it has is no token (64).
    pub fn read(key: &str, path: &Path) -> Result<Self, Failure> {
        let what = || format!("{key} = \"{}\"", path.display());
        let failed = |error: std::io::Error| {
            let remedy = "name a file that this user may read; `openssl rand -hex 32` makes a token";
            Failure::from_io(what(), &error, remedy)
        };
        let facts = std::fs::metadata(path).map_err(failed)?;
        if facts.permissions().mode() & 0o007 != 0 {
            let why =
                "every user of this machine may use this file; chmod 600, or 640 with a group of its own";
            return Err(Failure::permission(format!("{}: {why}", what())));
        }
        if facts.len() > TOKEN_FILE_BYTES_MAX {
            let why = format!("{} bytes are more than a token has", facts.len());
            return Err(Failure::usage(format!("{}: {why}", what())));
        }
        Self::parse(&what(), &std::fs::read_to_string(path).map_err(failed)?)
    }

    /// A token from a text; `source` says where that comes from. White space around it does not count.
    ///
    /// # Errors
    /// The text is no token (64); the message does not contain it.
    pub fn parse(source: &str, text: &str) -> Result<Self, Failure> {
        let token = text.trim();
        if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let expected =
                format!("expected one line of at least {TOKEN_BYTES_MIN} visible ASCII characters");
            return Err(Failure::usage(format!("{source}: {expected}, as `openssl rand -hex 32` makes")));
        }
        Ok(Self(token.to_owned()))
    }

    /// The value of the header `authorization` that carries it.
    #[must_use]
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether a header `authorization` carries it, compared in a time that depends on lengths only.
    #[must_use]
    pub fn is_in(&self, authorization: &str) -> bool {
        let (scheme, sent) = authorization.split_once(' ').unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && is_equal(self.0.as_bytes(), sent.trim().as_bytes())
    }
}

/// A token in a file that may be replaced while the process runs: from [`LOOK_INTERVAL`] afterwards on the new one holds, and
/// the old one does not. While the file can't be used, what it had before does.
#[derive(Debug)]
pub struct TokenFile {
    file: ReloadingValue<Token>,
    current: RwLock<Arc<Token>>,
    looked: Mutex<Instant>,
}

impl TokenFile {
    /// Reads the file that `key` of the configuration names.
    ///
    /// # Errors
    /// As [`Token::read`].
    pub fn open(key: &str, path: &Path) -> Result<Self, Failure> {
        let (key, path) = (key.to_owned(), path.to_owned());
        let file = ReloadingValue::new(vec![path.clone()], move || Token::read(&key, &path))?;
        let current = RwLock::new(file.current());
        Ok(Self { file, current, looked: Mutex::new(Instant::now()) })
    }

    /// The token that holds now. One caller of all looks at the file every few seconds; the others do not wait for it.
    #[must_use]
    pub fn current(&self) -> Arc<Token> {
        if let Ok(mut looked) = self.looked.try_lock()
            && looked.elapsed() >= LOOK_INTERVAL
        {
            *looked = Instant::now();
            self.look();
        }
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn look(&self) {
        let token = self.file.current();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = token;
    }
}

fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_private_and_has_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read("collect.token_file", &path)
        };
        let token = read("0123456789abcdef\n", 0o600).unwrap();
        assert!(token.is_in("Bearer 0123456789abcdef") && token.is_in("bearer  0123456789abcdef"));
        assert!(token.is_in(&token.authorization()));
        for wrong in ["", "Bearer", "Bearer 0123456789abcdeF", "Basic 0123456789abcdef", "0123456789abcdef"] {
            assert!(!token.is_in(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token");
        let refused = |text, mode| read(text, mode).unwrap_err().to_string();
        assert!(refused("0123456789abcdef", 0o644).contains("chmod 600"));
        assert!(refused("short", 0o600).contains("at least 16"));
        assert!(refused(&"x".repeat(5000), 0o600).contains("5000 bytes"));
    }

    #[test]
    fn attack_25_a_token_that_was_replaced_holds_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("0123456789abcdef");
        let file = TokenFile::open("query.token_file", &path).unwrap();
        write("fedcba9876543210+");
        assert!(file.current().is_in("Bearer 0123456789abcdef"), "not looked at yet");
        *file.looked.lock().unwrap() = Instant::now().checked_sub(LOOK_INTERVAL).unwrap();
        assert!(file.current().is_in("Bearer fedcba9876543210+"));
        assert!(!file.current().is_in("Bearer 0123456789abcdef"));
        write("short");
        file.look();
        assert!(file.current().is_in("Bearer fedcba9876543210+"), "what can't be used changes nothing");
    }
}
