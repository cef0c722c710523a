//! The network between a sender and the collector: a TCP proxy that passes, delays, holds or cuts.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Where the collector is now.
pub type Upstream = Arc<Mutex<Option<SocketAddr>>>;

/// What the network does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Passes them on.
    Well,
    /// Passes each piece on after this long.
    Slow(Duration),
    /// Passes nothing on, in both directions, and closes nothing.
    Silent,
    /// Requests arrive, and no reply gets back.
    NoReplies,
    /// Ends all connections and takes no new ones.
    Cut,
}

/// One sender's way to the collector.
pub struct Proxy {
    pub address: SocketAddr,
    network: watch::Sender<Network>,
}

impl Proxy {
    pub async fn start(upstream: Upstream) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (network, watched) = watch::channel(Network::Well);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let to = *upstream.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(to) = to.filter(|_| *watched.borrow() != Network::Cut) {
                    tokio::spawn(connect(client, to, watched.clone()));
                }
            }
        });
        Ok(Self { address, network })
    }

    /// As a collector's URL, with the name in its certificate.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

async fn connect(client: TcpStream, to: SocketAddr, network: watch::Receiver<Network>) {
    let Ok(server) = TcpStream::connect(to).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    // The first direction to end takes the other with it: both sockets close.
    tokio::select! {
        () = pump(from_client, to_server, network.clone(), false) => {}
        () = pump(from_server, to_client, network.clone(), true) => {}
        () = cut(network) => {}
    }
}

async fn cut(mut network: watch::Receiver<Network>) {
    let _ = network.wait_for(|network| *network == Network::Cut).await;
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
    replies: bool,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let held =
            |network: &Network| *network == Network::Silent || (replies && *network == Network::NoReplies);
        if network.wait_for(|network| !held(network)).await.is_err() {
            return;
        }
        let present = *network.borrow();
        if let Network::Slow(time) = present {
            tokio::time::sleep(time).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
