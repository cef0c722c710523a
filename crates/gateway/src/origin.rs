//! Requests that a web page of another site makes a browser send are refused: such a page has the rights of the person
//! who looks at it, on that person's machine (cross-site request forgery, and DNS rebinding: a name of the page's own that
//! suddenly has this server's address).
//!
//! A browser says what page a request comes from (Sec-Fetch-Site, Origin) and which name it was sent to (Host). Programs
//! such as Prometheus send Host only.

use crate::api_error::ApiError;
use crate::refusals::AccessError;
use axum::http::HeaderMap;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::LazyLock;
use throughline_sample::admission::clean_text;

/// Names in messages are cut here, bytes.
const SHOWN_BYTES: usize = 80;

/// This machine's name, whole and without its domain.
static NODE: LazyLock<[String; 2]> = LazyLock::new(|| {
    let name =
        nix::sys::utsname::uname().map(|names| names.nodename().to_string_lossy().to_ascii_lowercase());
    let name = name.unwrap_or_default();
    let short = name.split('.').next().unwrap_or_default().to_owned();
    [name, short]
});

/// Names of this server.
pub struct Names<'a> {
    /// `query.hosts`, in lower case.
    pub hosts: &'a BTreeSet<String>,
    /// Any name will do.
    pub is_any_host: bool,
}

/// Whether a text can be an entry of `query.hosts`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let (name, port) = parts(text);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !name.is_empty() && name.bytes().all(is_letter) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Name and port of an authority; an IPv6 address without its brackets.
fn parts(authority: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':'));
    }
    match authority.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => (name, Some(port)),
        _ => (authority, None),
    }
}

impl Names<'_> {
    /// Whether a request may have been sent on purpose by who sends it.
    ///
    /// # Errors
    /// A word for the counter, and the answer.
    pub fn check(&self, host: &str, headers: &HeaderMap) -> Result<(), AccessError> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let site = text("sec-fetch-site");
        if let Some(site @ ("cross-site" | "same-site")) = site {
            let message = format!("a page of another site asks for data (Sec-Fetch-Site: {site})");
            let remedy = "open the address itself, or read with a program; pages of other sites may link to this \
                          server's pages, and read nothing";
            return Err(("origin", Box::new(ApiError::forbidden(message, remedy))));
        }
        if let Some(origin) = text("origin")
            && !self.is_own_origin(origin, host, site == Some("same-origin"))
        {
            let message = format!("a page of {} asks for data of {}", shown(origin), shown(host));
            let remedy = "only this server's own pages may; let the administrator add a name that it is reached by to \
                          query.hosts in server.toml";
            return Err(("origin", Box::new(ApiError::forbidden(message, remedy))));
        }
        // A program of HTTP 1.0 sends no name; browsers always do.
        if !(self.is_any_host || host.is_empty() || self.is_own(host)) {
            let message = format!("this server is not known as {}", shown(host));
            let remedy = "use its address or localhost, or let the administrator add the name to query.hosts in \
                          server.toml";
            return Err(("host", Box::new(ApiError::misdirected(message, remedy))));
        }
        Ok(())
    }

    fn is_own(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let (name, _) = parts(&host);
        let name = name.strip_suffix('.').unwrap_or(name);
        // An address can't be made to lead elsewhere.
        if name.parse::<IpAddr>().is_ok() {
            return true;
        }
        let is_localhost = name == "localhost" || name.ends_with(".localhost");
        let is_node = !name.is_empty() && NODE.iter().any(|node| node == name);
        is_localhost || is_node || self.hosts.contains(name) || self.hosts.contains(&host)
    }

    /// `is_said` where the browser says that page and server are of one origin: a proxy may have written another Host.
    fn is_own_origin(&self, origin: &str, host: &str, is_said: bool) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let port = match scheme {
            "http" => "80",
            "https" => "443",
            _ => return false,
        };
        let whole = |authority: &str| {
            let (name, given) = parts(authority);
            (name.to_ascii_lowercase(), given.unwrap_or(port).to_owned())
        };
        let is_listed = || {
            let authority = authority.to_ascii_lowercase();
            self.hosts.contains(&authority) || self.hosts.contains(parts(&authority).0)
        };
        whole(authority) == whole(host) || is_listed() || (is_said && self.is_any_host)
    }
}

fn shown(name: &str) -> String {
    format!("'{}'", clean_text(name, SHOWN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, headers: &[(&'static str, &'static str)]) -> Result<(), &'static str> {
        let hosts =
            BTreeSet::from(["throughline.example.org".to_owned(), "other.example.org:8443".to_owned()]);
        let names = Names { hosts: &hosts, is_any_host: false };
        let header = |(name, value): &(&'static str, &'static str)| {
            let name = axum::http::HeaderName::from_static(name);
            (name, axum::http::HeaderValue::from_static(value))
        };
        names.check(host, &headers.iter().map(header).collect()).map_err(|(reason, _)| reason)
    }

    #[test]
    fn names_of_this_server() {
        for host in [
            "localhost",
            "LOCALHOST:9460",
            "localhost.:9460",
            "127.0.0.1:9460",
            "127.8.8.8",
            "[::1]:9460",
            "[::ffff:127.0.0.1]:1",
            "10.0.0.7:9460",
            "throughline.example.org",
            "throughline.example.org:443",
            "other.example.org:8443",
            &NODE[0],
        ] {
            assert_eq!(check(host, &[]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9460",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "other.example.org",
            "[::1",
            "10.0.0.8.evil.example",
        ] {
            assert_eq!(check(host, &[]), Err("host"), "{host}");
        }
    }

    #[test]
    fn pages_of_other_sites_read_nothing() {
        let host = "127.0.0.1:9460";
        for (headers, expected) in [
            (&[("sec-fetch-site", "same-origin")][..], Ok(())),
            (&[("sec-fetch-site", "none")], Ok(())),
            (&[("sec-fetch-site", "cross-site")], Err("origin")),
            (&[("sec-fetch-site", "same-site")], Err("origin")),
            (&[("origin", "http://127.0.0.1:9460")], Ok(())),
            (&[("origin", "http://127.0.0.1:3000")], Err("origin")),
            (&[("origin", "https://127.0.0.1:9460")], Ok(())),
            (&[("origin", "http://127.0.0.1")], Err("origin")),
            (&[("origin", "null")], Err("origin")),
            (&[("origin", "http://evil.example")], Err("origin")),
            (&[("origin", "file://")], Err("origin")),
            (&[("origin", "https://throughline.example.org")], Ok(())),
            (&[("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")], Err("origin")),
        ] {
            assert_eq!(check(host, headers), expected, "{headers:?}");
        }
        assert_eq!(check("localhost", &[("origin", "http://localhost:80")]), Ok(()));
    }

    #[test]
    fn what_a_name_is() {
        assert!(["a", "a.b:1", "[::1]:9460"].into_iter().all(is_name));
        assert!(["", "http://a", "a b", "a:x", "*"].into_iter().all(|text| !is_name(text)));
    }
}
