//! A listener whose address may be taken by somebody else when the daemon starts.
//!
//! On a machine with many users anyone may hold a port above 1023. That must not keep a daemon from its work: it goes
//! on without this page, reports the address as taken, and binds it as soon as it is free.

use crate::{Condition, Failure, Health, connections, http};
use axum::Router;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Between two attempts to bind an address that is taken: soon after it is free, and no load while it isn't.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// A role's address, bound or still taken.
#[derive(Debug)]
pub struct Listening {
    role: &'static str,
    address: SocketAddr,
    key: &'static str,
    listener: Option<TcpListener>,
    state: BoundState,
}

/// Whether the address is bound now; cheap to clone.
#[derive(Clone, Debug)]
pub struct BoundState {
    address: SocketAddr,
    key: &'static str,
    is_bound: Arc<AtomicBool>,
}

impl BoundState {
    /// Whether the address is bound.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.is_bound.load(Relaxed)
    }
}

impl Health for BoundState {
    fn conditions(&self) -> Vec<Condition> {
        // For other ways to the same conditions than the page that can't be reached.
        let taken = || Condition::degraded(format!("{} is taken: {}", self.address, remedy(self.key)));
        (!self.is_bound()).then(taken).into_iter().collect()
    }
}

fn remedy(key: &str) -> String {
    format!("stop what holds it, or set {key} to a free address")
}

impl Listening {
    /// Binds the address, or begins without it where another process has it. `key` is the configuration's.
    ///
    /// # Errors
    /// The address can't be used at all: not this machine's, or not permitted (69, 77).
    pub async fn begin(role: &'static str, address: SocketAddr, key: &'static str) -> Result<Self, Failure> {
        let listener = match http::bind(address).await {
            Ok(listener) => Some(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                let holder = holder_of(address);
                tracing::warn!(
                    %address, role,
                    "another process{holder} has the address of /metrics and /healthz; the daemon runs without them until it is free: {}",
                    remedy(key)
                );
                None
            }
            Err(error) => return Err(http::failure(role, address, key, &error)),
        };
        if let Some(listener) = &listener {
            http::announce(role, listener).map_err(|error| http::failure(role, address, key, &error))?;
        }
        let is_bound = Arc::new(AtomicBool::new(listener.is_some()));
        Ok(Self { role, address, key, listener, state: BoundState { address, key, is_bound } })
    }

    /// Whether it is bound, now and later.
    #[must_use]
    pub fn state(&self) -> BoundState {
        self.state.clone()
    }

    /// Serves until `stop` is cancelled, from the moment on at which the address could be bound.
    pub async fn serve(mut self, router: Router, stop: CancellationToken) {
        let listener = loop {
            if let Some(listener) = self.listener.take() {
                break listener;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
            }
            if let Ok(listener) = http::bind(self.address).await {
                tracing::info!(address = %self.address, role = self.role, key = self.key, "the address is free: serving");
                // A listener that was just bound has its address.
                let _ = http::announce(self.role, &listener);
                self.state.is_bound.store(true, Relaxed);
                self.listener = Some(listener);
            }
        };
        connections::serve(listener, router, stop).await;
    }
}

/// Whose process listens there, for the log; empty where the kernel doesn't show it.
fn holder_of(address: SocketAddr) -> String {
    crate::peer::user_of_listener(address).map_or_else(String::new, |uid| format!(" (of user {uid})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlwaysHealthy;
    use crate::SelfMetrics;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn attack_14_an_address_that_is_taken_is_served_once_it_is_free() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = other.local_addr().unwrap();
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!(crate::peer::user_of_listener(address), Some(own));
        let listening = Listening::begin("test", address, "http.listen").await.unwrap();
        let state = listening.state();
        assert!(!state.is_bound());
        assert!(state.conditions()[0].text.contains("http.listen"));
        let stop = CancellationToken::new();
        let router = http::metrics_router(Arc::new(SelfMetrics::default()), Arc::new(AlwaysHealthy));
        let task = tokio::spawn(listening.serve(router, stop.clone()));
        tokio::time::sleep(RETRY_INTERVAL * 3).await;
        assert!(!state.is_bound());
        drop(other);
        while !state.is_bound() {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        assert!(state.conditions().is_empty());
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("ok\n"), "{answer}");
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_a_mistake() {
        let address = "192.0.2.1:9461".parse().unwrap();
        let error = Listening::begin("test", address, "http.listen").await.unwrap_err();
        assert!(error.to_string().contains("http.listen"), "{error}");
    }
}
