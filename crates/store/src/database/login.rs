//! A connection string, as people write it for libpq: what is for TLS and for the password is taken out of it, the rest
//! is the driver's.

use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{Check, TlsSettings};
use crate::error::Error;

/// What a connection string says.
#[derive(Debug)]
pub(super) struct Login {
    pub config: Config,
    pub tls: Option<TlsSettings>,
    /// `passfile`.
    pub password_file: Option<PathBuf>,
}

/// Parameters that the driver does not know, or knows less of than libpq.
const OWN: [&str; 5] = ["sslmode", "sslrootcert", "sslcert", "sslkey", "passfile"];

/// What is to be written where nothing says how a server on another machine is reached.
const REMEDY: &str = "add sslmode=verify-full (and sslrootcert=FILE where the site has an authority of its own), \
                      sslmode=require for TLS that doesn't check whose certificate it is, or sslmode=disable for plain \
                      text";

impl Login {
    /// Reads a URL or `KEY=VALUE` pairs.
    ///
    /// # Errors
    /// It is no connection string, or it would send passwords and data in plain text to another machine without saying so.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
        let (rest, own) = if is_url { split_url(text) } else { split_pairs(text) };
        let mut config: Config = rest.parse().map_err(Error::Url)?;
        let value =
            |key: &str| own.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        let far = far_host(&config);
        let refused = |why: String| Error::UrlTls(why);
        let mode = value("sslmode");
        let check = match (mode.as_deref(), &far) {
            (Some("disable"), _) | (None, None) => None,
            (Some("allow" | "prefer"), None) => Some((SslMode::Prefer, Check::Nothing)),
            (Some("require"), _) => Some((SslMode::Require, Check::Nothing)),
            (Some("verify-ca"), _) => Some((SslMode::Require, Check::Authority)),
            (Some("verify-full"), _) => Some((SslMode::Require, Check::AuthorityAndName)),
            (None, Some(host)) => {
                return Err(refused(format!(
                    "the database's host {host} is another machine, and sslmode is missing: {REMEDY}"
                )));
            }
            (Some(weak @ ("allow" | "prefer")), Some(host)) => {
                return Err(refused(format!(
                    "sslmode={weak} may send plain text to {host}, another machine: {REMEDY}"
                )));
            }
            (Some(other), _) => {
                return Err(refused(format!(
                    "sslmode={other}: expected disable, prefer, require, verify-ca or verify-full"
                )));
            }
        };
        let identity = match (value("sslcert"), value("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            _ => {
                return Err(refused("sslcert and sslkey belong together: one of them is missing".to_owned()));
            }
        };
        // libpq has no TLS on Unix sockets either, whatever sslmode says.
        let on_socket = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
            && config.get_hostaddrs().is_empty();
        let check = check.filter(|_| !on_socket);
        config.ssl_mode(check.map_or(SslMode::Disable, |(mode, _)| mode));
        let authorities = value("sslrootcert").map(PathBuf::from);
        let tls = check.map(|(_, check)| TlsSettings { check, authorities, identity });
        Ok(Self { config, tls, password_file: value("passfile").map(PathBuf::from) })
    }
}

/// The first host that is not this machine, judged without asking a name server.
fn far_host(config: &Config) -> Option<String> {
    let addresses = config.get_hostaddrs();
    if let Some(far) = addresses.iter().find(|address| !address.is_loopback()) {
        return Some(far.to_string());
    }
    if !addresses.is_empty() {
        return None; // They hold, whatever the hosts are called.
    }
    config.get_hosts().iter().find_map(|host| match host {
        Host::Unix(_) => None,
        Host::Tcp(name) if name == "localhost" => None,
        Host::Tcp(name) if name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()) => None,
        Host::Tcp(name) => Some(name.clone()),
    })
}

/// Parameters that are ours, not the driver's: key and value.
type OwnParameters = Vec<(String, String)>;

/// Takes our parameters out of a URL's query.
fn split_url(url: &str) -> (String, OwnParameters) {
    let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), Vec::new()) };
    let (mut rest, mut own) = (Vec::new(), Vec::new());
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if OWN.contains(&key) {
            own.push((key.to_owned(), percent_decoded(value)));
        } else {
            rest.push(pair);
        }
    }
    let rest = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    (rest, own)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Takes our parameters out of `KEY=VALUE` pairs; values may be in single quotes, with backslashes.
fn split_pairs(text: &str) -> (String, OwnParameters) {
    let (mut rest, mut own) = (String::new(), Vec::new());
    let mut left = text.trim_start();
    while !left.is_empty() {
        let Some((key, behind)) = left.split_once('=') else {
            rest.push_str(left); // The driver says what is wrong with it.
            break;
        };
        let (key, behind) = (key.trim(), behind.trim_start());
        let (value, end) = pair_value(behind);
        if OWN.contains(&key) {
            own.push((key.to_owned(), value));
        } else {
            rest.push_str(&format!("{key}={} ", &behind[..end]));
        }
        left = behind[end..].trim_start();
    }
    (rest, own)
}

/// A value without its quotes and backslashes, and where it ends.
fn pair_value(text: &str) -> (String, usize) {
    let is_quoted = text.starts_with('\'');
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in text.char_indices().skip(usize::from(is_quoted)) {
        match c {
            _ if is_escaped => {
                value.push(c);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '\'' if is_quoted => return (value, at + 1),
            c if !is_quoted && c.is_whitespace() => return (value, at),
            c => value.push(c),
        }
    }
    (value, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(text: &str) -> Result<Option<(Check, SslMode)>, String> {
        let login = Login::parse(text).map_err(|error| error.to_string())?;
        Ok(login.tls.map(|tls| (tls.check, login.config.get_ssl_mode())))
    }

    #[test]
    fn plain_text_to_another_machine_has_to_be_written_out() {
        for text in [
            "postgresql://me@db.example/x",
            "postgresql://me@10.0.0.1/x?sslmode=prefer",
            "host=db.example user=me sslmode=allow",
            "host=localhost hostaddr=192.0.2.1 user=me",
            "host=/tmp,db.example user=me",
        ] {
            let error = tls(text).unwrap_err();
            assert!(
                error.contains("sslmode=verify-full") && error.contains("sslmode=disable"),
                "{text}: {error}"
            );
        }
        for text in [
            "postgresql://me@db.example/x?sslmode=disable",
            "postgresql://me@127.0.0.1/x",
            "postgresql://me@[::1]/x",
            "postgresql://me@localhost/x",
            "host=/tmp user=me sslmode=verify-full",
            "host=anything hostaddr=127.0.0.1 user=me",
        ] {
            assert_eq!(tls(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn the_modes_are_those_of_libpq() {
        for (mode, check) in [
            ("require", Check::Nothing),
            ("verify-ca", Check::Authority),
            ("verify-full", Check::AuthorityAndName),
        ] {
            let expected = Ok(Some((check, SslMode::Require)));
            assert_eq!(tls(&format!("postgresql://me@db.example/x?sslmode={mode}")), expected);
            assert_eq!(tls(&format!("host=db.example sslmode = '{mode}' user=me")), expected);
        }
        let prefer = tls("host=localhost user=me sslmode=prefer");
        assert_eq!(prefer, Ok(Some((Check::Nothing, SslMode::Prefer))));
        assert!(tls("host=localhost user=me sslmode=full").unwrap_err().contains("expected disable"));
        assert!(tls("host=localhost user=me sslmode=require sslcert=/x").unwrap_err().contains("sslkey"));
    }

    #[test]
    fn parameters_stand_between_others_in_both_forms() {
        let url = "postgresql://me@db/x?application_name=a&sslrootcert=%2Fetc%2Fca.pem&sslmode=verify-ca&options=-c%20a%3Db";
        let pairs = "host=db user=me sslrootcert='/etc/ca.pem' dbname=x sslmode=verify-ca options='-c a=b' passfile=/p\\ q";
        for text in [url, pairs] {
            let login = Login::parse(text).unwrap();
            assert_eq!(login.tls.unwrap().authorities, Some(PathBuf::from("/etc/ca.pem")));
            assert_eq!(login.config.get_options(), Some("-c a=b"));
            assert_eq!(login.config.get_dbname(), Some("x"));
        }
        assert_eq!(Login::parse(pairs).unwrap().password_file, Some(PathBuf::from("/p q")));
    }
}
