//! Who may read: of users of this machine those who are named, by the kernel's word; from elsewhere those with the token,
//! over TLS, or those whom a reverse proxy lets through.
//!
//! Guarded is what has data: `/api/` (but for the document of the API) and `/metrics`. The pages themselves are files
//! without data, and request the token. [`crate::origin`] refuses what a web page of another site makes a browser send.

use crate::api_error::ApiError;
use crate::origin;
use crate::refusals::{AccessError, Refusals};
use crate::shares::{IN_FLIGHT_EACH_MAX, IN_FLIGHT_MAX, Reader, Shares};
use crate::tls::ServerTls;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use throughline_daemon::connections::{Counts, HeldBody};
use throughline_daemon::peer::{LocalUsers, user_of_loopback};
use throughline_daemon::{Failure, TokenFile};

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
    /// Users that the proxy runs as, where it is on this machine: anybody here could connect from such an address.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub local_users: BTreeSet<String>,
}

/// Who may read, by the configuration.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Certificate and key of this server.
    pub tls: Option<ServerTls>,
    /// The file with the token.
    pub token_file: Option<PathBuf>,
    /// A reverse proxy in front.
    pub proxy: Option<Proxy>,
    /// Names of this server, besides its addresses and those of loopback.
    pub hosts: BTreeSet<String>,
    /// Users of this machine, and groups behind `@`, who may read without a token.
    pub local_users: BTreeSet<String>,
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
            if proxy.local_users.is_empty() && proxy.addresses.iter().any(IpAddr::is_loopback) {
                let expected = "every user of this machine could connect from there and name any user; add \
                                query.proxy.local_users = [\"www-data\"], the user that the proxy runs as";
                return Err(Failure::usage(format!(
                    "query.proxy.addresses has a loopback address: {expected}"
                )));
            }
        }
        for host in &self.hosts {
            if !origin::is_name(host) {
                let expected = "expected a name, or a name and a port, as [\"throughline.example.org\"]";
                return Err(Failure::usage(format!("query.hosts has \"{host}\": {expected}")));
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
    /// The file can't be read, others may read it (77), what it has is no token, or there is no such user (64).
    pub fn guard(&self) -> Result<Guard, Failure> {
        let users = |key, names: &BTreeSet<String>| LocalUsers::new(key, names.iter().map(String::as_str));
        let proxy = match &self.proxy {
            Some(proxy) => Some((proxy.clone(), users("query.proxy.local_users", &proxy.local_users)?)),
            None => None,
        };
        Ok(Guard {
            token: self
                .token_file
                .as_deref()
                .map(|path| TokenFile::open("query.token_file", path).map(Arc::new))
                .transpose()?,
            proxy,
            hosts: self.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            local_users: users("query.local_users", &self.local_users)?,
        })
    }
}

/// Lets requests through or not.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    token: Option<Arc<TokenFile>>,
    /// With the users that it runs as.
    proxy: Option<(Proxy, LocalUsers)>,
    pub(crate) hosts: BTreeSet<String>,
    local_users: LocalUsers,
}

/// The other end of a connection, found out once.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// This server's.
    pub own: SocketAddr,
    /// The user of this machine that it belongs to, where the kernel says.
    pub user: Option<u32>,
    /// Whether that user may read without a token.
    pub is_local_reader: bool,
    /// Whether it may be the reverse proxy.
    pub is_proxy: bool,
}

/// By what right somebody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AccessRight {
    Token,
    Proxied(Arc<str>),
    Local(u32),
}

/// What all requests pass: rights, and shares of the parallel requests.
#[derive(Debug)]
pub struct Gate {
    guard: Guard,
    /// Of the API, and of remote-reads: each has connections of its own to the database.
    shares: [Arc<Shares>; 2],
    in_flight: Arc<Counts<Reader>>,
    refusals: Refusals,
}

impl Gate {
    /// With so many parallel requests of either kind.
    #[must_use]
    pub fn new(guard: Guard, parallel: usize, refusals: Refusals) -> Gate {
        let shares = [(); 2].map(|()| Shares::new(parallel));
        Gate { guard, shares, in_flight: Counts::new(IN_FLIGHT_MAX), refusals }
    }
}

/// Refuses what may not be read; for `axum::middleware::from_fn_with_state`.
pub async fn guard(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let has_data = path.starts_with("/api/") || path.starts_with("/metrics");
    if !has_data || path == DOCUMENT {
        return next.run(request).await;
    }
    let share = match path {
        "/api/v1/read" => Some(&gate.shares[1]),
        _ => path.starts_with("/api/").then_some(&gate.shares[0]),
    };
    let reader = match gate.guard.lets_through(&peer, &request) {
        Ok(AccessRight::Local(user)) => Reader::Local(user),
        Ok(AccessRight::Proxied(user)) => Reader::Proxied(user),
        Ok(AccessRight::Token) => Reader::at(peer.address.ip()),
        Err((reason, error)) => {
            gate.refusals.count(reason, &peer.address);
            return error.into_response();
        }
    };
    let busy = |error: ApiError| {
        gate.refusals.count("busy", &peer.address);
        error.into_response()
    };
    let Some(counted) = gate.in_flight.enter(&reader, IN_FLIGHT_EACH_MAX) else {
        return busy(ApiError::busy(format!("{IN_FLIGHT_EACH_MAX} requests of this reader are under way")));
    };
    let held = match share {
        Some(share) => match share.enter(&reader).await {
            Ok(held) => Some(held),
            Err(error) => return busy(error),
        },
        None => None,
    };
    request.extensions_mut().insert(reader.clone());
    if let Some(held) = held.clone() {
        request.extensions_mut().insert(held);
    }
    let response = next.run(request).await;
    // An answer that is on its way is memory: it counts until its last byte has been taken.
    response.map(|body| Body::new(HeldBody::new(body, counted)))
}

impl Guard {
    /// Finds out who is at the other end. Reads files of the kernel and looks up names: not for a thread that polls
    /// sockets.
    #[must_use]
    pub fn peer(&self, address: SocketAddr, own: SocketAddr) -> Peer {
        let user = user_of_loopback(own, address);
        let is_local = address.ip().to_canonical().is_loopback();
        let is_proxy = self.proxy.as_ref().is_some_and(|(proxy, users)| {
            let is_its_user = !is_local || user.is_some_and(|user| users.contains(user));
            proxy.addresses.contains(&address.ip().to_canonical()) && is_its_user
        });
        let is_local_reader = user.is_some_and(|user| self.local_users.contains(user));
        Peer { address, own, user, is_local_reader, is_proxy }
    }

    fn lets_through(&self, peer: &Peer, request: &Request) -> Result<AccessRight, AccessError> {
        let headers = request.headers();
        let authority = request.uri().authority().map(axum::http::uri::Authority::as_str);
        let host = authority.unwrap_or_else(|| text(headers, "host"));
        let right = self.right(peer, headers);
        // Who has the token is no web page that a browser was tricked into; a proxy looks at names itself.
        let is_any_host = match &right {
            Ok(AccessRight::Token) => true,
            Ok(AccessRight::Proxied(_)) => self.hosts.is_empty(),
            _ => false,
        };
        let names = origin::Names { hosts: &self.hosts, is_any_host };
        names.check(host, headers)?;
        right
    }

    fn right(&self, peer: &Peer, headers: &HeaderMap) -> Result<AccessRight, AccessError> {
        let authorization = text(headers, "authorization");
        let scheme = authorization.split_once(' ').unwrap_or_default().0;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        if let Some(token) = self.token.as_ref().filter(|_| is_bearer) {
            return match token.current().is_in(authorization) {
                true => Ok(AccessRight::Token),
                false => Err(("token", Box::new(ApiError::unauthorized("the token is a wrong one")))),
            };
        }
        if let Some((proxy, _)) = self.proxy.as_ref().filter(|_| peer.is_proxy) {
            let user = text(headers, &proxy.user_header).trim();
            if !user.is_empty() {
                tracing::trace!(user, "a request through the reverse proxy");
                return Ok(AccessRight::Proxied(user.into()));
            }
            // The proxy's own user may have a right of its own only where it is named for that.
            let message = format!("the reverse proxy sent no user in {}", proxy.user_header);
            let remedy = "let the proxy authenticate users and set this header, query.proxy.user_header";
            return Err(("proxy", Box::new(ApiError::forbidden(message, remedy))));
        }
        if let Some(user) = peer.user.filter(|_| peer.is_local_reader) {
            return Ok(AccessRight::Local(user));
        }
        Err(("right", Box::new(self.no_right(peer))))
    }

    fn no_right(&self, peer: &Peer) -> ApiError {
        let is_local = peer.address.ip().to_canonical().is_loopback();
        let who = match peer.user {
            Some(user) => {
                format!("user {user} of this machine may not read here: the jobs are those of all users")
            }
            None if is_local => "the kernel does not say which user of this machine this is".to_owned(),
            None => format!("{} may not read here without a token", peer.address.ip()),
        };
        if self.token.is_some() {
            return ApiError::unauthorized(match is_local {
                true => {
                    format!("{who}; query.local_users of server.toml names those who may without a token")
                }
                false => who,
            });
        }
        match (&self.proxy, is_local) {
            (Some((proxy, _)), _) if !peer.is_proxy => ApiError::forbidden(
                format!("{who}, and {} is not the reverse proxy", peer.address.ip()),
                &format!(
                    "ask through the reverse proxy, whose {} is believed, or let the administrator change \
                     query.proxy or query.local_users in server.toml",
                    proxy.user_header
                ),
            ),
            _ => ApiError::forbidden(
                who,
                "let the administrator add the user (or @GROUP) to query.local_users in server.toml, or set \
                 query.token_file there and give you the token",
            ),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
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

    const OWN: ([u8; 4], u16) = ([10, 0, 0, 1], 9460);

    fn proxy() -> Proxy {
        let addresses = BTreeSet::from([[10, 0, 0, 5].into(), [127, 0, 0, 1].into()]);
        Proxy { user_header: "X-Forwarded-User".into(), addresses, local_users: ["4000".to_owned()].into() }
    }

    fn read(token: &str) -> Arc<TokenFile> {
        let file = tempfile::NamedTempFile::new().unwrap(); // Only this user may read it.
        std::fs::write(file.path(), token).unwrap();
        Arc::new(TokenFile::open("query.token_file", file.path()).unwrap())
    }

    fn guard_of(token: Option<&str>, proxy: Option<Proxy>) -> Guard {
        let users =
            |proxy: &Proxy| LocalUsers::new("users", proxy.local_users.iter().map(String::as_str)).unwrap();
        let proxy = proxy.map(|proxy| (proxy.clone(), users(&proxy)));
        let local_users = LocalUsers::new("query.local_users", ["4242"]).unwrap();
        Guard { token: token.map(read), proxy, local_users, ..Guard::default() }
    }

    /// The status for a request from another machine.
    async fn status(rules: &Guard, from: [u8; 4], path: &str, headers: &[(&str, &str)]) -> u16 {
        status_of(rules, rules.peer((from, 1).into(), OWN.into()), path, headers).await
    }

    async fn status_of(rules: &Guard, peer: Peer, path: &str, headers: &[(&str, &str)]) -> u16 {
        let all = ["/", "/api/v1/jobs", DOCUMENT, "/metrics", "/healthz"];
        let router = all.iter().fold(Router::new(), |router, path| router.route(path, get(async || "ok")));
        let gate = Gate::new(rules.clone(), 8, Refusals::new(throughline_daemon::SelfMetrics::default()));
        let layer = axum::middleware::from_fn_with_state(Arc::new(gate), guard);
        let mut request = axum::http::Request::get(path).header("host", "localhost:9460");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        router.layer(layer).layer(MockConnectInfo(peer)).oneshot(request).await.unwrap().status().as_u16()
    }

    /// A connection over loopback, by the kernel's word.
    fn local(rules: &Guard, user: Option<u32>) -> Peer {
        let is_local_reader = user.is_some_and(|user| rules.local_users.contains(user));
        let is_proxy =
            user.is_some_and(|user| rules.proxy.as_ref().is_some_and(|(_, users)| users.contains(user)));
        let address = ([127, 0, 0, 1], 50_000).into();
        Peer { address, own: ([127, 0, 0, 1], 9460).into(), user, is_local_reader, is_proxy }
    }

    #[tokio::test]
    async fn a_token_opens_what_has_data() {
        let rules = guard_of(Some(TOKEN), None);
        let bearer = format!("Bearer {TOKEN}");
        for path in ["/api/v1/jobs", "/metrics"] {
            let request = async |headers: Option<(&str, &str)>| {
                status(&rules, [10, 0, 0, 1], path, headers.as_slice()).await
            };
            assert_eq!(request(None).await, 401);
            assert_eq!(request(Some(("authorization", &bearer))).await, 200);
            for wrong in
                ["Bearer 0123456789abcdee", "Bearer 0123456789abcde", "Bearer", "Basic 0123456789abcdef"]
            {
                assert_eq!(request(Some(("authorization", wrong))).await, 401, "{wrong}");
            }
            assert_eq!(
                request(Some(("x-forwarded-user", "ada"))).await,
                401,
                "the server is not configured to trust it"
            );
            // Who has the token may know the server by any name, and yet is no page of another site.
            let named = [("authorization", bearer.as_str()), ("host", "a.example")];
            assert_eq!(status(&rules, [10, 0, 0, 1], path, &named).await, 200);
            let page = [("authorization", bearer.as_str()), ("origin", "http://a.example")];
            assert_eq!(status(&rules, [10, 0, 0, 1], path, &page).await, 403);
        }
        for path in ["/", DOCUMENT, "/healthz"] {
            assert_eq!(status(&rules, [10, 0, 0, 1], path, &[]).await, 200);
        }
    }

    #[tokio::test]
    async fn a_proxy_is_believed_from_its_own_address_only() {
        let rules = guard_of(None, Some(proxy()));
        let request = async |from, headers| status(&rules, from, "/api/v1/jobs", headers).await;
        let ada = [("X-Forwarded-User", "ada")];
        assert_eq!(request([10, 0, 0, 5], &ada).await, 200);
        assert_eq!(request([10, 0, 0, 5], &[]).await, 403);
        assert_eq!(request([10, 0, 0, 6], &ada).await, 403);
        // Of this machine only the user that the proxy runs as.
        for (user, expected) in [(Some(4000), 200), (Some(4001), 403), (None, 403)] {
            assert_eq!(
                status_of(&rules, local(&rules, user), "/api/v1/jobs", &ada).await,
                expected,
                "{user:?}"
            );
        }
        // Prometheus may have a token beside the people behind the proxy.
        let both = guard_of(Some(TOKEN), Some(proxy()));
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(status(&both, [10, 0, 0, 6], "/metrics", &[("authorization", &bearer)]).await, 200);
        assert_eq!(status(&Guard::default(), [10, 0, 0, 6], "/metrics", &[]).await, 403);
    }

    #[tokio::test]
    async fn of_this_machines_users_those_who_are_named() {
        for (rules, refused) in [(guard_of(None, None), 403), (guard_of(Some(TOKEN), None), 401)] {
            for (user, expected) in [
                (Some(0), 200),
                (Some(nix::unistd::geteuid().as_raw()), 200),
                (Some(4242), 200),
                (Some(4243), refused),
                (None, refused),
            ] {
                for path in ["/api/v1/jobs", "/api/v1/nothing", "/metrics"] {
                    let status = status_of(&rules, local(&rules, user), path, &[]).await;
                    let expected = if path.ends_with("nothing") && expected == 200 { 404 } else { expected };
                    assert_eq!(status, expected, "{user:?} {path}");
                }
                for path in ["/", DOCUMENT, "/healthz"] {
                    assert_eq!(status_of(&rules, local(&rules, user), path, &[]).await, 200);
                }
            }
        }
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
}
