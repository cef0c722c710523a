//! What the demo takes from the configuration of `throughline serve`: where PostgreSQL's programs are. Everything else of
//! it is about a site's own database and ports, which the demo leaves alone.

use std::path::{Path, PathBuf};
use throughline_daemon::Failure;

/// Read where no file is named, if it exists.
const DEFAULT: &str = "/etc/throughline/server.toml";

/// The part that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Folder of PostgreSQL's programs; `None` to look for it.
    pub pg_bin: Option<PathBuf>,
}

impl Server {
    /// Reads a configuration file, or the one of this machine.
    ///
    /// # Errors
    /// It can't be read or is no TOML (64). An unreadable default file is left alone: it belongs to the site.
    pub fn load(file: Option<&Path>) -> Result<Server, Failure> {
        let path = file.unwrap_or(Path::new(DEFAULT));
        let text = match (std::fs::read_to_string(path), file) {
            (Ok(text), _) => text,
            (Err(_), None) => return Ok(Server::default()),
            (Err(error), Some(_)) => return Err(Failure::usage(format!("{}: {error}", path.display()))),
        };
        Server::parse(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    }

    fn parse(text: &str) -> Result<Server, toml::de::Error> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct File {
            database: Database,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Database {
            pg_bin: Option<PathBuf>,
        }
        let file: File = toml::from_str(text)?;
        Ok(Server { pg_bin: file.database.pg_bin })
    }

    /// The demo's own configuration of `serve`: free ports on loopback, and this PostgreSQL.
    #[must_use]
    pub fn own_file(&self) -> String {
        let ports = "[query]\nlisten = \"127.0.0.1:0\"\n\n[collect]\nlisten = \"127.0.0.1:0\"\n";
        match &self.pg_bin {
            None => ports.to_owned(),
            Some(folder) => {
                let folder = toml::Value::String(folder.to_string_lossy().into_owned());
                format!("[database]\npg_bin = {folder}\n\n{ports}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folder_of_postgresql_is_taken() {
        let text = "[database]\nurl = 'postgres://db/site'\npg_bin = '/opt/pg/bin'\n[collect]\nlisten = '[::]:9464'\n";
        let server = Server::parse(text).unwrap();
        assert_eq!(server, Server { pg_bin: Some("/opt/pg/bin".into()) });
        let own = server.own_file();
        assert_eq!(Server::parse(&own).unwrap(), server);
        assert!(!own.contains("postgres://") && !own.contains("9464"), "{own}");
        assert_eq!(Server::parse("").unwrap(), Server::default());
    }

    #[test]
    fn a_named_file_must_be_there() {
        let error = Server::load(Some(Path::new("/nonexistent/server.toml"))).unwrap_err();
        assert!(
            error.status as u8 == 64 && error.to_string().contains("/nonexistent/server.toml"),
            "{error}"
        );
    }
}
