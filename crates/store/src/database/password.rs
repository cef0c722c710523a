//! The password of a login whose connection string has none, as libpq finds it: `PGPASSWORD`, else a password file
//! (`passfile`, else `PGPASSFILE`, else `~/.pgpass`).

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::error::Error;

/// Largest password file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Bits of a mode that let others than the owner use the file.
const OTHERS: u32 = 0o077;

/// The port where none is written.
const PORT: u16 = 5432;

/// The file that nobody named was warned of.
static WARNED: Once = Once::new();

/// Gives the login its password, if it has none and there is one for it. Read at each connection, so that a new one holds
/// from the next connection on.
///
/// A file that nobody named is left out where it can't be used, with a warning, as libpq does: it may be another user's, whose
/// `HOME` this process has.
///
/// # Errors
/// A password file that was named can't be used, or others than its owner may use it.
pub(super) fn complete(config: &mut Config, named: Option<&Path>) -> Result<(), Error> {
    if config.get_password().is_some() {
        return Ok(());
    }
    if let Some(password) = std::env::var_os("PGPASSWORD").filter(|password| !password.is_empty()) {
        config.password(password.to_string_lossy().as_bytes());
        return Ok(());
    }
    let variable = std::env::var_os("PGPASSFILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let (path, is_named) = match named.map(Path::to_owned).or(variable) {
        Some(path) => (path, true),
        None => match std::env::home_dir() {
            Some(home) => (home.join(".pgpass"), false),
            None => return Ok(()),
        },
    };
    complete_from(config, &path, is_named)
}

fn complete_from(config: &mut Config, path: &Path, is_named: bool) -> Result<(), Error> {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if is_named => {
            let path = path.display();
            return Err(Error::Place(format!("password file {path}: {error}")));
        }
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                // It is read at each connection.
                WARNED.call_once(|| {
                    tracing::warn!(file = %path.display(), %error, "the password file is left out");
                });
            }
            return Ok(());
        }
    };
    if let Some(password) = find(&text, config) {
        config.password(password);
    }
    Ok(())
}

fn read(path: &Path) -> std::io::Result<String> {
    let facts = std::fs::metadata(path)?;
    if !facts.is_file() || facts.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it is no file of passwords"));
    }
    if facts.permissions().mode() & OTHERS != 0 {
        let why = "others than its owner may use it: chmod 600";
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why));
    }
    std::fs::read_to_string(path)
}

/// The password of the first line that fits: `HOST:PORT:DATABASE:USER:PASSWORD`, where `*` fits all, and a backslash
/// stands before a colon or a backslash.
fn find(text: &str, config: &Config) -> Option<String> {
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let port = config.get_ports().first().unwrap_or(&PORT).to_string();
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => String::new(),
    };
    let is_socket = matches!(config.get_hosts().first(), Some(Host::Unix(_)));
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [of_host, of_port, of_database, of_user, password] = &fields[..] else { return None };
        let fits = |field: &str, value: &str| field == "*" || field == value;
        let host_fits = fits(of_host, &host) || (is_socket && of_host == "localhost");
        let all = host_fits && fits(of_port, &port) && fits(of_database, database) && fits(of_user, user);
        all.then(|| password.clone())
    })
}

/// Five fields; colons in the last need no backslash.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_escaped) = (vec![String::new()], false);
    for c in line.chars() {
        let is_last = fields.len() == 5;
        let Some(field) = fields.last_mut() else { break };
        match c {
            _ if is_escaped => {
                field.push(c);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            ':' if !is_last => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let file = "# a comment\ndb:5433:x:me:other\ndb:*:x:me:a\\:b\\\\c:d\n*:*:*:*:all\n";
        let password = |text: &str| find(file, &config(text));
        assert_eq!(password("host=db user=me dbname=x"), Some("a:b\\c:d".into()));
        assert_eq!(password("host=db port=5433 user=me dbname=x"), Some("other".into()));
        assert_eq!(password("host=elsewhere user=me"), Some("all".into()));
        assert_eq!(find("db:5432:x:me\n", &config("host=db user=me dbname=x")), None);
        assert_eq!(find("localhost:*:me:me:s", &config("host=/tmp user=me")), Some("s".into()));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        std::fs::write(&path, "*:*:*:*:secret").unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let mut login = config("host=db user=me");
            complete(&mut login, Some(&path)).map(|()| login.get_password().map(<[u8]>::to_vec))
        };
        assert_eq!(mode(0o600).unwrap(), Some(b"secret".to_vec()));
        let error = mode(0o640).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && !error.contains("secret"), "{error}");
        // One that nobody named is left out, whatever is wrong with it.
        let mut login = config("host=db user=me");
        complete_from(&mut login, &path, false).unwrap();
        complete_from(&mut login, &path.join("below"), false).unwrap();
        assert_eq!(login.get_password(), None);
        let mut own = config("host=db user=me password=own");
        complete(&mut own, Some(Path::new("/nonexistent"))).unwrap();
        assert_eq!(own.get_password(), Some(&b"own"[..]));
    }
}
