//! From a listener to connections that have proved who they are. What waits in front of the proof is bounded in number
//! and time, and never holds up who comes after it.

mod connection;
mod gate;
mod registry;
mod socket;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

pub(crate) use connection::{Connection, Peer};
pub(crate) use gate::{Gate, sender};
pub(crate) use registry::{Registry, StreamPlace};
pub use socket::Socket;

use crate::limits::HANDSHAKE_LIMIT;
use registry::{Origin, Refusal};

/// After a failed accept: a pause, so that it is not tried in a circle.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often connections without a stream are looked for.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// Connections that are ready and that the server has not taken yet.
const READY_MAX: usize = 64;

/// A connection as it was accepted.
pub(crate) enum Raw {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Connections that are ready, from all listeners.
pub(crate) struct ConnectionAcceptor {
    gate: Arc<Gate>,
    registry: Arc<Registry>,
    stop: CancellationToken,
    ready: mpsc::Sender<Result<Connection, Infallible>>,
}

impl ConnectionAcceptor {
    /// The connections come out of the stream.
    pub fn new(
        gate: Gate,
        registry: Arc<Registry>,
        stop: CancellationToken,
    ) -> (Self, ReceiverStream<Result<Connection, Infallible>>) {
        let (ready, connections) = mpsc::channel(READY_MAX);
        let watched = registry.clone();
        let done = stop.clone();
        tokio::spawn(async move {
            while done.run_until_cancelled(tokio::time::sleep(IDLE_INTERVAL)).await.is_some() {
                watched.close_idle();
            }
        });
        (Self { gate: Arc::new(gate), registry, stop, ready }, ReceiverStream::new(connections))
    }

    /// Takes connections of this address.
    pub fn tcp(&self, listener: TcpListener) {
        let (mut starter, stop) = (self.handshake_starter(), self.stop.clone());
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        // An acknowledgement is small and awaited.
                        let _ = stream.set_nodelay(true);
                        starter.start(Raw::Tcp(stream), Origin::of(peer.ip())).await;
                    }
                    Err(error) => starter.failed(&error).await,
                }
            }
        }));
    }

    /// Takes connections of this socket.
    pub fn unix(&self, listener: UnixListener) -> impl Future<Output = ()> + use<> {
        let mut starter = self.handshake_starter();
        async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let user = throughline_daemon::peer::user_of_unix(&stream);
                        starter.start(Raw::Unix(stream), Origin::User(user)).await;
                    }
                    Err(error) => starter.failed(&error).await,
                }
            }
        }
    }

    fn handshake_starter(&self) -> HandshakeStarter {
        let (gate, registry, ready) = (self.gate.clone(), self.registry.clone(), self.ready.clone());
        HandshakeStarter { gate, registry, ready, has_failed: false }
    }
}

struct HandshakeStarter {
    gate: Arc<Gate>,
    registry: Arc<Registry>,
    ready: mpsc::Sender<Result<Connection, Infallible>>,
    has_failed: bool,
}

impl HandshakeStarter {
    /// Starts a handshake, when there is room for one.
    async fn start(&mut self, raw: Raw, origin: Origin) {
        self.has_failed = false;
        let handshake = loop {
            match self.registry.handshake(origin) {
                Ok(handshake) => break handshake,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        };
        let (gate, registry, ready) = (self.gate.clone(), self.registry.clone(), self.ready.clone());
        tokio::spawn(async move {
            let dropped = handshake.closed();
            let proved = tokio::select! {
                // Counted by the connection that took the place.
                () = dropped.cancelled() => return,
                proved = tokio::time::timeout(HANDSHAKE_LIMIT, gate.prove(raw)) => proved,
            };
            let admitted = match proved {
                Ok(Ok((io, proof))) => registry
                    .open(handshake, &gate.key(&proof))
                    .map(|place| Connection::new(io, proof, place, registry.clone())),
                Ok(Err(why)) => Err(why),
                Err(_elapsed) => Err(Refusal::HandshakeTime),
            };
            match admitted {
                Ok(connection) => _ = ready.send(Ok(connection)).await,
                Err(why) => {
                    registry.refused(why);
                    tracing::debug!(?origin, why = why.name(), "a connection was refused");
                }
            }
        });
    }

    /// No descriptor, or no memory: the oldest handshake gives its own back, and there is a pause.
    async fn failed(&mut self, error: &std::io::Error) {
        if !self.has_failed {
            tracing::warn!(%error, "a connection can't be accepted");
        }
        self.has_failed = true;
        self.registry.drop_one_handshake();
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
