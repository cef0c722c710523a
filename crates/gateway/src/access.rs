//! Who may read: on this machine root, the user of this process and the users that the configuration names, by the
//! kernel's word; everybody else with the token, from other machines over TLS; or those whom a reverse proxy lets through.
//!
//! Guarded is what has data: `/api/` (but for the document of the API) and `/metrics`. The pages themselves are files
//! without data, and ask for the token.

use crate::api::Problem;
use crate::origin::{self, Hosts};
use crate::tls::ServerTls;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use throughline_daemon::Failure;
use throughline_daemon::peer::{LocalUsers, user_of_loopback};
use tokio::sync::OnceCell;

/// Shortest token: 128 bits as hexadecimal digits are 32, as words fewer; below 16 characters it can be tried out.
const TOKEN_BYTES_MIN: usize = 16;

/// Largest file of a token.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// What needs no token of all that is guarded.
const DOCUMENT: &str = "/api/v1/openapi.yaml";

/// `proxy` of the configuration: a reverse proxy that knows its users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// The header in which it names the user.
    pub user_header: String,
    /// Addresses from which that header is believed; others are refused.
    pub addresses: BTreeSet<IpAddr>,
}

/// Who may ask, by the configuration.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Certificate and key of this server.
    pub tls: Option<ServerTls>,
    /// The file with the token.
    pub token_file: Option<PathBuf>,
    /// A reverse proxy in front.
    pub proxy: Option<Proxy>,
    /// Users of this machine who need no token: names, numbers, and groups with `@` before them.
    pub local_users: BTreeSet<String>,
    /// Names of this server that requests may be addressed to, beside its own and its addresses.
    pub hosts: BTreeSet<String>,
}

impl Access {
    /// Refuses an address on which anybody could read everything. Reads no file.
    ///
    /// # Errors
    /// 64: the message names the key and what to set.
    pub fn check(&self, address: SocketAddr, key: &str) -> Result<(), Failure> {
        if let Some(proxy) = &self.proxy {
            if proxy.addresses.is_empty() {
                let expected = "name the addresses that the proxy connects from, as [\"10.0.0.5\"]";
                return Err(Failure::usage(format!("query.proxy.addresses = []: {expected}")));
            }
            if axum::http::HeaderName::from_bytes(proxy.user_header.as_bytes()).is_err() {
                let name = &proxy.user_header;
                return Err(Failure::usage(format!(
                    "query.proxy.user_header = \"{name}\": this is no name of a header"
                )));
            }
        }
        if address.ip().is_loopback() || self.proxy.is_some() {
            return Ok(());
        }
        let missing = match (&self.tls, &self.token_file) {
            (Some(_), Some(_)) => return Ok(()),
            (None, Some(_)) => "the token would go in the clear without query.tls",
            (Some(_), None) => "anybody could read everything without query.token_file",
            (None, None) => "anybody could read everything",
        };
        Err(Failure::usage(format!(
            "{key} = \"{address}\": {missing}; use 127.0.0.1 or [::1], or set query.tls and query.token_file, or \
             query.proxy with the header and the addresses of a reverse proxy"
        )))
    }

    /// Reads the token.
    ///
    /// # Errors
    /// The file can't be read, others may read it (77), or what it has is no token (64).
    pub fn guard(&self) -> Result<Guard, Failure> {
        let token = self.token_file.as_deref().map(token).transpose()?;
        let users = LocalUsers::new("query.local_users", self.local_users.iter().map(String::as_str))?;
        let hosts = Hosts::new(&self.hosts, self.tls.is_none() && self.proxy.is_none());
        Ok(Guard { token, proxy: self.proxy.clone(), users, hosts })
    }
}

fn token(path: &Path) -> Result<String, Failure> {
    let what = || format!("query.token_file = \"{}\"", path.display());
    let failed = |error: std::io::Error| {
        let remedy = "name a file that this user may read; `openssl rand -hex 32` makes a token";
        Failure::from_io(what(), &error, remedy)
    };
    let facts = std::fs::metadata(path).map_err(failed)?;
    if facts.permissions().mode() & 0o007 != 0 {
        let why = "every user of this machine may use this file; chmod 600, or 640 with a group of its own";
        return Err(Failure::permission(format!("{}: {why}", what())));
    }
    if facts.len() > TOKEN_FILE_BYTES_MAX {
        let why = format!("{} bytes are more than a token has", facts.len());
        return Err(Failure::usage(format!("{}: {why}", what())));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let token = text.trim();
    let is_token = token.len() >= TOKEN_BYTES_MIN && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token {
        let expected = format!("expected one line of at least {TOKEN_BYTES_MIN} visible ASCII characters");
        return Err(Failure::usage(format!("{}: {expected}, as `openssl rand -hex 32` makes", what())));
    }
    Ok(token.to_owned())
}

/// Lets requests through or not.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    token: Option<String>,
    proxy: Option<Proxy>,
    users: LocalUsers,
    hosts: Hosts,
}

/// Where a connection comes from.
#[derive(Clone, Debug)]
pub struct Peer {
    address: SocketAddr,
    /// This server's end; absent where it is not known.
    own: Option<SocketAddr>,
    /// The user of this machine at the other end, looked up at most once a connection.
    user: Arc<OnceCell<Option<u32>>>,
}

impl Peer {
    /// A connection between these ends.
    #[must_use]
    pub fn new(address: SocketAddr, own: Option<SocketAddr>) -> Peer {
        Peer { address, own, user: Arc::default() }
    }

    /// The user of this machine at the other end; `None` for another machine's.
    async fn user(&self) -> Option<u32> {
        let (address, own) = (self.address, self.own?);
        let look_up = async || {
            // Reads a file as long as the machine has connections.
            let found = tokio::task::spawn_blocking(move || user_of_loopback(own, address)).await;
            found.unwrap_or_default()
        };
        *self.user.get_or_init(look_up).await
    }
}

/// Refuses what may not be asked; for `axum::middleware::from_fn_with_state`.
pub async fn guard(
    State(guard): State<Arc<Guard>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let has_data = path.starts_with("/api/") || path.starts_with("/metrics");
    if has_data && path != DOCUMENT {
        let allowed = guard.hosts.check(request.headers());
        let allowed = match allowed {
            Ok(()) => guard.lets_through(&peer, request.headers()).await,
            refused => refused,
        };
        if let Err(problem) = allowed {
            return origin::seal(problem.into_response());
        }
    }
    origin::seal(next.run(request).await)
}

impl Guard {
    async fn lets_through(&self, peer: &Peer, headers: &HeaderMap) -> Result<(), Problem> {
        let address = peer.address.ip();
        // A proxy on this machine may run as root, and its connections are everybody's.
        let is_proxy =
            self.proxy.as_ref().is_some_and(|proxy| proxy.addresses.contains(&address.to_canonical()));
        // Who sends a token is judged by it.
        let is_token_sent = self.token.is_some() && headers.contains_key("authorization");
        if !(is_proxy || is_token_sent)
            && let Some(user) = peer.user().await
            && self.users.contains(user)
        {
            return Ok(());
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (scheme, sent) = text("authorization").split_once(' ').unwrap_or_default();
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        if let Some(token) = self.token.as_ref().filter(|_| is_bearer) {
            return match is_equal(token.as_bytes(), sent.trim().as_bytes()) {
                true => Ok(()),
                false => Err(Problem::unauthorized("the token is a wrong one")),
            };
        }
        let Some(proxy) = &self.proxy else {
            return Err(Problem::unauthorized(match self.token {
                Some(_) => "this server wants a token",
                None => "this server answers its own user, root and the users in query.local_users",
            }));
        };
        if !is_proxy {
            let message = format!("{address} is not the address of the reverse proxy");
            let remedy =
                "ask through the reverse proxy, or add the address to query.proxy.addresses in server.toml";
            return Err(Problem::forbidden(message, remedy));
        }
        match text(&proxy.user_header).trim() {
            "" => {
                let message = format!("the reverse proxy sent no user in {}", proxy.user_header);
                let remedy = "let the proxy authenticate users and set this header, query.proxy.user_header";
                Err(Problem::forbidden(message, remedy))
            }
            user => {
                tracing::trace!(user, "a request through the reverse proxy");
                Ok(())
            }
        }
    }
}

/// Compares in a time that depends on the length only.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::extract::connect_info::MockConnectInfo;
    use axum::routing::get;
    use tower::ServiceExt;

    const TOKEN: &str = "0123456789abcdef";

    fn proxy() -> Proxy {
        Proxy { user_header: "X-Forwarded-User".into(), addresses: BTreeSet::from([[10, 0, 0, 5].into()]) }
    }

    /// The status for a request from an address.
    async fn status(rules: &Guard, from: [u8; 4], path: &str, headers: &[(&str, &str)]) -> u16 {
        let peer = MockConnectInfo(Peer::new((from, 1).into(), None));
        let all = ["/", "/api/v1/jobs", DOCUMENT, "/metrics", "/healthz"];
        let router = all.iter().fold(Router::new(), |router, path| router.route(path, get(async || "ok")));
        let layer = axum::middleware::from_fn_with_state(Arc::new(rules.clone()), guard);
        let mut request = axum::http::Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        router.layer(layer).layer(peer).oneshot(request).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn a_token_opens_what_has_data() {
        let rules = Guard { token: Some(TOKEN.into()), ..Guard::default() };
        let bearer = format!("Bearer {TOKEN}");
        for path in ["/api/v1/jobs", "/metrics"] {
            let ask = async |headers: Option<(&str, &str)>| {
                status(&rules, [10, 0, 0, 1], path, headers.as_slice()).await
            };
            assert_eq!(ask(None).await, 401);
            assert_eq!(ask(Some(("authorization", &bearer))).await, 200);
            for wrong in
                ["Bearer 0123456789abcdee", "Bearer 0123456789abcde", "Bearer", "Basic 0123456789abcdef"]
            {
                assert_eq!(ask(Some(("authorization", wrong))).await, 401, "{wrong}");
            }
            assert_eq!(ask(Some(("x-forwarded-user", "ada"))).await, 401, "nobody is told to believe it");
        }
        for path in ["/", DOCUMENT, "/healthz"] {
            assert_eq!(status(&rules, [10, 0, 0, 1], path, &[]).await, 200);
        }
    }

    #[tokio::test]
    async fn a_proxy_is_believed_from_its_own_address_only() {
        let rules = Guard { proxy: Some(proxy()), ..Guard::default() };
        let ask = async |from, headers| status(&rules, from, "/api/v1/jobs", headers).await;
        assert_eq!(ask([10, 0, 0, 5], &[("X-Forwarded-User", "ada")]).await, 200);
        assert_eq!(ask([10, 0, 0, 5], &[]).await, 403);
        assert_eq!(ask([10, 0, 0, 6], &[("X-Forwarded-User", "ada")]).await, 403);
        assert_eq!(ask([127, 0, 0, 1], &[("X-Forwarded-User", "ada")]).await, 403);
        // Prometheus may have a token beside the people behind the proxy.
        let both = Guard { token: Some(TOKEN.into()), ..rules.clone() };
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(status(&both, [10, 0, 0, 6], "/metrics", &[("authorization", &bearer)]).await, 200);
        assert_eq!(status(&Guard::default(), [10, 0, 0, 6], "/metrics", &[]).await, 401);
    }

    #[test]
    fn an_open_address_needs_more_and_the_message_says_what() {
        let tls = ServerTls { certificate: "a".into(), key: "b".into() };
        let (open, closed): (SocketAddr, SocketAddr) = (([0, 0, 0, 0], 1).into(), ([127, 0, 0, 1], 1).into());
        let refused = |access: &Access| access.check(open, "query.listen").unwrap_err().to_string();
        let (token_file, proxy) = (Some(PathBuf::from("t")), Some(proxy()));
        assert!(Access::default().check(closed, "query.listen").is_ok());
        let said = refused(&Access::default());
        assert!(
            said.contains("query.listen") && said.contains("query.tls") && said.contains("query.proxy"),
            "{said}"
        );
        assert!(
            refused(&Access { tls: Some(tls.clone()), ..Access::default() })
                .contains("without query.token_file")
        );
        assert!(
            refused(&Access { token_file: token_file.clone(), ..Access::default() }).contains("in the clear")
        );
        assert!(
            Access { tls: Some(tls), token_file, ..Access::default() }.check(open, "query.listen").is_ok()
        );
        assert!(Access { proxy: proxy.clone(), ..Access::default() }.check(open, "query.listen").is_ok());
        let nobody = proxy.map(|proxy| Proxy { addresses: BTreeSet::new(), ..proxy });
        assert!(refused(&Access { proxy: nobody, ..Access::default() }).contains("query.proxy.addresses"));
    }

    #[test]
    fn a_file_of_a_token_is_private_and_has_one() {
        let folder = std::env::temp_dir().join(format!("throughline-token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("token");
        let read = |text: &str, mode| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            token(&file).map_err(|failure| failure.to_string())
        };
        assert_eq!(read(&format!("{TOKEN}\n"), 0o600).unwrap(), TOKEN);
        assert!(read(TOKEN, 0o644).unwrap_err().contains("chmod 600"));
        assert!(read("short", 0o600).unwrap_err().contains("at least 16"));
        assert!(read("0123456789 abcdef", 0o600).unwrap_err().contains("openssl rand"));
        assert!(read(&"x".repeat(5000), 0o600).unwrap_err().contains("more than a token"));
        assert!(token(&folder.join("none")).unwrap_err().to_string().contains("query.token_file"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
