//! Where a daemon delivers to, as its configuration says it.

use crate::grpc::{TOKEN_KEY, UNIX};
use crate::{GrpcSink, TlsFiles, UrlError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::path::{Path, PathBuf};
use throughline_daemon::{Failure, Token, paths};

/// Name of the socket on which `throughline serve` takes batches, in the run-time folder.
pub const COLLECT_SOCKET: &str = "collect.sock";

/// URLs of collectors, checked while the configuration is read: `unix:PATH` on the same machine, where the kernel says
/// who sends (a relative path lies in the run-time folder), `https://HOST:PORT`, or `http://HOST:PORT` on loopback. One text,
/// or a list of the collectors of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Vec<String>);

/// More than any site has: a list with more is a mistake.
const COLLECTORS_MAX: usize = 64;

impl Endpoint {
    /// Checks a URL as far as it can be done without connecting.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(text: &str) -> Result<Self, String> {
        Self::of(vec![text.to_owned()])
    }

    /// Checks the URLs of a list.
    ///
    /// # Errors
    /// What is wrong with the first that is wrong, or with the list, in words.
    pub fn of(urls: Vec<String>) -> Result<Self, String> {
        if urls.is_empty() || urls.len() > COLLECTORS_MAX {
            let count = urls.len();
            return Err(format!("{count} collectors: expected from 1 to {COLLECTORS_MAX} URLs"));
        }
        for (at, url) in urls.iter().enumerate() {
            if urls[..at].contains(url) {
                return Err(format!("'{url}' stands twice in the list of collectors: remove one"));
            }
            match GrpcSink::new(url) {
                // Whether there are certificates stands elsewhere in the configuration.
                Ok(_) | Err(UrlError::NoCertificates(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(Self(urls))
    }

    /// The sink that delivers there. The files of certificates and token are read once to see that they can be.
    ///
    /// # Errors
    /// URL and certificates do not go together (64), or a file can't be used.
    pub fn sink(
        &self,
        run_dir: &Path,
        tls: Option<&TlsFiles>,
        token_file: Option<&Path>,
    ) -> Result<GrpcSink, Failure> {
        let whole =
            |url: &String| match url.strip_prefix(UNIX).map(Path::new).filter(|path| path.is_relative()) {
                Some(path) => format!("{UNIX}{}", run_dir.join(path).display()),
                None => url.clone(),
            };
        let urls: Vec<String> = self.0.iter().map(whole).collect();
        let sink = GrpcSink::to_all(&urls, tls);
        let sink = sink.map_err(|error| Failure::usage(format!("delivery.collector: {error}")))?;
        for path in urls.iter().filter_map(|url| url.strip_prefix(UNIX)) {
            paths::check_socket_path(Path::new(path))?;
        }
        tls.map_or(Ok(()), TlsFiles::check)?;
        token_file.map_or(Ok(()), |path| Token::read(TOKEN_KEY, path).map(drop))?;
        Ok(sink.with_token(token_file.map(PathBuf::from)))
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self(vec![format!("{UNIX}{COLLECT_SOCKET}")])
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => serializer.serialize_str(one),
            all => all.serialize(serializer),
        }
    }
}

/// As it is written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the URL of a collector, or a list of URLs")]
enum ConfiguredUrls {
    One(String),
    All(Vec<String>),
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let urls = match ConfiguredUrls::deserialize(deserializer)? {
            ConfiguredUrls::One(url) => vec![url],
            ConfiguredUrls::All(urls) => urls,
        };
        Self::of(urls).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let run = Path::new("/run/throughline");
        for good in ["http://127.0.0.1:9463", "http://[::1]:9463/", "unix:collect.sock", "unix:/x/y"] {
            assert!(Endpoint::new(good).unwrap().sink(run, None, None).is_ok(), "{good}");
        }
        let usual = Endpoint::default().sink(run, None, None).unwrap();
        assert_eq!(crate::Sink::name(&usual), "unix:/run/throughline/collect.sock");
        let long = Endpoint::new(&format!("unix:/{}", "x".repeat(200))).unwrap();
        assert!(long.sink(run, None, None).unwrap_err().to_string().contains("107"));
        let none = Endpoint::default().sink(run, None, Some(Path::new("/nonexistent"))).unwrap_err();
        assert!(none.to_string().contains("delivery.token_file"), "{none}");
        for bad in ["127.0.0.1:9463", "http://localhost", "http://", "", "unix:", "http://far.example:1"] {
            assert!(Endpoint::new(bad).unwrap_err().contains(bad), "{bad}");
        }
        let encrypted = Endpoint::new("https://far.example:1").unwrap();
        assert!(encrypted.sink(run, None, None).unwrap_err().to_string().contains("[delivery.tls]"));
        assert!(Endpoint::new(&Endpoint::default().to_string()).is_ok());
    }

    #[test]
    fn one_or_a_list_of_several() {
        #[derive(Debug, Serialize, Deserialize)]
        struct Section {
            collector: Endpoint,
        }
        let read = |text: &str| toml::from_str::<Section>(text);
        let one = "collector = \"http://127.0.0.1:1\"\n";
        assert_eq!(toml::to_string(&read(one).unwrap()).unwrap(), one);
        let several = "collector = [\"https://a.example:1\", \"https://b.example:1\"]\n";
        let section = read(several).unwrap();
        assert_eq!(toml::to_string(&section).unwrap(), several);
        assert_eq!(section.collector.to_string(), "https://a.example:1, https://b.example:1");
        for (wrong, why) in [
            ("collector = []", "0 collectors"),
            ("collector = ['http://127.0.0.1:1', 'http://127.0.0.1:1']", "stands twice"),
            ("collector = ['http://127.0.0.1:1', 'http://far:1']", "unencrypted"),
            ("collector = 3", "or a list"),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
        // Certificates are for those of a list that are encrypted.
        let none = Path::new("/nonexistent");
        let tls = TlsFiles { ca: none.into(), certificate: none.into(), key: none.into() };
        let mixed = ["unix:/run/collect.sock", "https://b.example:1"];
        assert!(GrpcSink::to_all(&mixed, Some(&tls)).is_ok());
        assert!(GrpcSink::to_all(&mixed[..1], Some(&tls)).is_err());
    }
}
