//! Where the server is and what opens it: options, then the environment, then the user's and the site's `client.toml`.
//!
//! A token is sent only to the server that it belongs to: `token_file` and `ca_file` of a configuration go with the
//! `server` of the same file (the local one where it names none), and are not used for another.

use crate::Connection;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use throughline_daemon::{Failure, Token, config};
use ureq::http::Uri;

/// Where `throughline serve` listens unless it is configured otherwise.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:9460";

/// Name of the configuration in `/etc/throughline` and in the user's configuration folder.
const FILE: &str = "client.toml";

/// Keys of `client.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// URL of the server: scheme, host, port, and a path where a reverse proxy has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// File with the token of that server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) that the certificate of that server must lead to; without them those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

impl ClientConfig {
    /// Reads one file; `None` where it does not exist.
    ///
    /// # Errors
    /// 64 with file, line and key for a wrong one; 69 or 77 for one that cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let remedy = "let this user read it, or name the server with --server";
                return Err(Failure::from_io(format!("configuration {}", path.display()), &error, remedy));
            }
        };
        let config: Self = config::parse(&text, path, std::iter::empty())?;
        if let Some(server) = &config.server {
            check_url(server, &format!("server of {}", path.display()))?;
        }
        Ok(Some(config))
    }

    fn url(&self) -> &str {
        self.server.as_deref().unwrap_or(DEFAULT_SERVER)
    }
}

/// Environment variables and files; a test has its own.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `THROUGHLINE_SERVER`.
    pub server: Option<String>,
    /// `THROUGHLINE_TOKEN_FILE`.
    pub token_file: Option<PathBuf>,
    /// `THROUGHLINE_TOKEN`.
    pub token: Option<String>,
    /// `THROUGHLINE_CA_FILE`.
    pub ca_file: Option<PathBuf>,
    /// The user's and the site's configuration, in this order; not all need exist.
    pub files: Vec<PathBuf>,
}

impl Environment {
    /// That of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            server: text("THROUGHLINE_SERVER"),
            token_file: text("THROUGHLINE_TOKEN_FILE").map(Into::into),
            token: text("THROUGHLINE_TOKEN"),
            ca_file: text("THROUGHLINE_CA_FILE").map(Into::into),
            files: user_file().into_iter().chain([Path::new(config::DIRECTORY).join(FILE)]).collect(),
        }
    }
}

/// `$XDG_CONFIG_HOME/throughline/client.toml`, or the same below `~/.config`.
#[must_use]
pub fn user_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("throughline").join(FILE))
}

/// What to query and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// URL without a slash at its end.
    pub server: String,
    /// What opens it; none for a local server that knows this user by its socket.
    pub token: Option<Token>,
    /// What named the token, for messages.
    pub token_source: Option<String>,
    /// Certificates to trust in place of the system's.
    pub ca_file: Option<PathBuf>,
}

impl Settings {
    /// What the options, this process's environment and the configuration files come to.
    ///
    /// # Errors
    /// See [`Settings::from`].
    pub fn find(connection: &Connection) -> Result<Self, Failure> {
        Self::from(connection, &Environment::of_process())
    }

    /// As [`Settings::find`], with an environment of the caller's.
    ///
    /// # Errors
    /// 64: a URL or configuration that is wrong, a token that would travel unencrypted. 69, 77: a file that cannot be
    /// read.
    pub fn from(connection: &Connection, environment: &Environment) -> Result<Self, Failure> {
        let mut configs = Vec::new();
        for path in &environment.files {
            configs.extend(ClientConfig::read(path)?.map(|config| (path.display().to_string(), config)));
        }
        let server = match (&connection.server, &environment.server) {
            (Some(url), _) => checked(url, "--server")?,
            (None, Some(url)) => checked(url, "THROUGHLINE_SERVER")?,
            (None, None) => {
                let named = configs.iter().find_map(|(_, config)| config.server.clone());
                without_slash(&named.unwrap_or_else(|| DEFAULT_SERVER.to_owned()))
            }
        };
        let own = configs.iter().filter(|(_, config)| without_slash(config.url()) == server);
        let from_config = own.clone().find_map(|(path, config)| Some((path, config.token_file.as_ref()?)));
        let token = match (&connection.token_file, &environment.token_file, &environment.token, from_config) {
            (Some(file), ..) => Some(read_token("--token-file", file)?),
            (None, Some(file), ..) => Some(read_token("THROUGHLINE_TOKEN_FILE", file)?),
            (None, None, Some(text), _) => {
                let source = "THROUGHLINE_TOKEN";
                Some((Token::parse(source, text)?, source.to_owned()))
            }
            (None, None, None, Some((path, file))) => {
                Some(read_token(&format!("token_file of {path}"), file)?)
            }
            (None, None, None, None) => None,
        };
        if let Some((_, source)) = token.as_ref().filter(|_| !keeps_secrets(&server)) {
            return Err(Failure::usage(format!(
                "the token of {source} would travel unencrypted to {server}: use https:// there (query.tls of \
                 server.toml), or a tunnel to 127.0.0.1"
            )));
        }
        let (token, token_source) = token.unzip();
        let ca_file = connection.ca_file.clone().or_else(|| environment.ca_file.clone());
        let ca_file = ca_file.or_else(|| own.clone().find_map(|(_, config)| config.ca_file.clone()));
        Ok(Self { server, token, token_source, ca_file })
    }

    /// What holds, as TOML; a token itself is not in it.
    #[must_use]
    pub fn described(&self) -> String {
        let config = ClientConfig {
            server: Some(self.server.clone()),
            token_file: None,
            ca_file: self.ca_file.clone(),
        };
        let mut text = config::print(&config).unwrap_or_default();
        match &self.token_source {
            Some(source) => text.push_str(&format!("# the token is that of {source}\n")),
            None => text.push_str(
                "# no token: the server must know this user, or answer everybody behind its proxy\n",
            ),
        }
        text
    }

    /// Whether the server is this machine's.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.server.parse::<Uri>().is_ok_and(|uri| is_loopback(&uri))
    }
}

fn read_token(source: &str, path: &Path) -> Result<(Token, String), Failure> {
    Ok((Token::read(source, path)?, format!("{source} ({})", path.display())))
}

fn checked(url: &str, source: &str) -> Result<String, Failure> {
    check_url(url, source).map(|()| without_slash(url))
}

fn without_slash(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

/// Whether what is sent there is read by nobody on the way.
fn keeps_secrets(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https") || is_loopback(&uri))
}

fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `source` names where the URL comes from.
fn check_url(url: &str, source: &str) -> Result<(), Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!(
            "{source} = {url}: {why}; expected a URL like https://monitor.example:9460 or {DEFAULT_SERVER}"
        ))
    };
    let uri = url.parse::<Uri>().map_err(|error| wrong(&error.to_string()))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(scheme) => return Err(wrong(&format!("the scheme is {scheme}"))),
        None => return Err(wrong("there is no scheme")),
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(wrong("a name or password in a URL is not used"));
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return Err(wrong("only scheme, host, port and path are used"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
