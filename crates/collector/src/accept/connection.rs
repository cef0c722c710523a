//! A connection that has proved who it is, as tonic reads and writes it.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use super::registry::{Open, OpenPlace, Registry, SenderKey, StreamPlace};
use crate::identity::Identity;

/// What each connection begins with (RFC 9113, 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes below.
pub(crate) enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What a connection has proved.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    /// This sender.
    Is(Identity),
    /// A user of this machine who may not write without a token; `None` where the kernel does not name the user.
    Needs { uid: Option<u32> },
}

/// Who is at the other end; each request carries it.
#[derive(Clone)]
pub(crate) struct Peer {
    pub proof: Arc<Proof>,
    key: SenderKey,
    open: Arc<Open>,
    registry: Arc<Registry>,
}

impl Peer {
    /// Whether only a token admits it.
    pub fn needs_token(&self) -> bool {
        matches!(*self.proof, Proof::Needs { .. })
    }

    /// The place of a stream; `None` where the sender has too many.
    pub fn stream(&self) -> Option<StreamPlace> {
        self.registry.stream(&self.key, &self.open)
    }
}

/// A connection.
pub(crate) struct Connection {
    io: Io,
    /// Bytes of [`PREFACE`] that are not handed on yet: they were read to see that it comes.
    preface: &'static [u8],
    dropped: Pin<Box<WaitForCancellationFutureOwned>>,
    place: OpenPlace,
    peer: Peer,
}

impl Connection {
    /// Of bytes whose preface was read.
    pub fn new(io: Io, proof: Proof, place: OpenPlace, registry: Arc<Registry>) -> Self {
        let dropped = Box::pin(place.closed().cancelled_owned());
        let peer =
            Peer { proof: Arc::new(proof), key: place.peer().clone(), open: place.used().clone(), registry };
        Self { io, preface: PREFACE, dropped, place, peer }
    }

    fn check(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        if self.dropped.as_mut().poll(context).is_ready() {
            return Err(Error::new(ErrorKind::ConnectionAborted, "closed in favour of another connection"));
        }
        Ok(())
    }

    fn io(&mut self) -> Pin<&mut (dyn AsyncReadWrite + Send + Unpin)> {
        match &mut self.io {
            Io::Tcp(stream) => Pin::new(stream),
            Io::Unix(stream) => Pin::new(stream),
            Io::Tls(stream) => Pin::new(&mut **stream),
        }
    }
}

trait AsyncReadWrite: AsyncRead + AsyncWrite {}
impl<T: AsyncRead + AsyncWrite> AsyncReadWrite for T {}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.check(context)?;
        if !self.preface.is_empty() {
            let (now, later) = self.preface.split_at(self.preface.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.preface = later;
            return Poll::Ready(Ok(()));
        }
        let read = self.io().poll_read(context, buffer);
        if read.is_ready() {
            self.place.used().note_read();
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.check(context)?;
        self.io().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.io().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.check(context)?;
        self.io().poll_shutdown(context)
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}
