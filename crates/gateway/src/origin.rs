//! Where a request says that it comes from, and the headers that keep answers where they belong.
//!
//! A browser sends its user's access along with whatever any web page asks for. Two ways lead from a foreign page to
//! this server: a request across origins, which browsers mark (`Origin`, `Sec-Fetch-Site`), and a foreign name that is
//! made to resolve to this machine (DNS rebinding), which shows in `Host`. Both are refused for what has data.

use crate::api::Problem;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Names under which this server is addressed.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    names: BTreeSet<String>,
    /// Whether `Host` matters: behind TLS with a token, or behind a proxy, no access comes with the connection.
    is_checked: bool,
}

impl Hosts {
    /// The machine's own name, and those of the configuration.
    #[must_use]
    pub fn new(configured: &BTreeSet<String>, is_checked: bool) -> Hosts {
        let mut names: BTreeSet<String> = configured.iter().map(|name| name.to_ascii_lowercase()).collect();
        if let Ok(system) = nix::sys::utsname::uname() {
            names.insert(system.nodename().to_string_lossy().to_ascii_lowercase());
        }
        Hosts { names, is_checked }
    }

    /// Refuses what a foreign page sent.
    ///
    /// # Errors
    /// 403; the message names the header.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(header::HOST);
        if let Some(host) = host.filter(|host| self.is_checked && !self.is_own(host)) {
            let message = format!("'{}' is no name of this server", host.escape_debug());
            let remedy = "ask by its address or as localhost, or add the name to query.hosts in server.toml";
            return Err(Problem::forbidden(message, remedy));
        }
        if let Some(origin) = text(header::ORIGIN) {
            let is_same = origin.split_once("://").is_some_and(|(_, from)| Some(from) == host);
            if !is_same {
                let message = format!("a page of {} asked for it", origin.escape_debug());
                return Err(Problem::forbidden(message, "open the page that this server serves"));
            }
        }
        let site = text(HeaderName::from_static("sec-fetch-site")).unwrap_or("none");
        if !matches!(site, "none" | "same-origin") {
            let remedy = "open the page that this server serves";
            return Err(Problem::forbidden("a page of another site asked for it", remedy));
        }
        Ok(())
    }

    /// An address can't be made to resolve to another one.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        let name = name.to_ascii_lowercase();
        name.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.names.contains(&name)
    }
}

/// Sets the headers that every answer has: content is what its type says, nobody else frames or reads it.
pub fn seal(mut response: Response) -> Response {
    const ALL: [(HeaderName, &str); 5] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "SAMEORIGIN"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    for (name, value) in ALL {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Data and errors load nothing; pages have a policy of their own.
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(nothing);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(headers: &[(&'static str, &str)]) -> bool {
        let hosts = Hosts::new(&BTreeSet::from(["Metrics.example.org".to_owned()]), true);
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        hosts.check(&headers.iter().map(pair).collect()).is_err()
    }

    #[test]
    fn attack_07_a_web_page_cannot_ask() {
        for own in [
            "127.0.0.1:9460",
            "[::1]:9460",
            "localhost",
            "a.localhost:1",
            "metrics.example.org:9460",
            "10.1.2.3",
        ] {
            assert!(!refused(&[("host", own)]), "{own}");
        }
        for foreign in
            ["evil.example", "evil.example:9460", "127.0.0.1.evil.example", "", "localhost.evil", "a"]
        {
            assert!(refused(&[("host", foreign)]), "{foreign}");
        }
        assert!(!refused(&[]), "a program of HTTP 1.0");
        assert!(!refused(&[("host", "localhost:1"), ("origin", "http://localhost:1")]));
        for origin in ["http://evil.example", "null", "http://localhost:2", "localhost:1"] {
            assert!(refused(&[("host", "localhost:1"), ("origin", origin)]), "{origin}");
        }
        assert!(refused(&[("host", "localhost"), ("sec-fetch-site", "cross-site")]));
        assert!(refused(&[("host", "localhost"), ("sec-fetch-site", "same-site")]));
        assert!(!refused(&[("host", "localhost"), ("sec-fetch-site", "same-origin")]));
    }
}
