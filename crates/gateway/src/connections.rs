//! How many connections are open at once. When all places are taken the connection that was silent for the longest time
//! is closed for the new one: whoever holds connections open without using them loses them first, and takes none from
//! those who ask.

use crate::access::Peer;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Connections at once: browsers hold six each, Prometheus one. Descriptors of the process are left for the collector.
pub const CONNECTIONS_MAX: usize = 512;

/// After a failed accept (too many open files): a pause, so that it is not tried in a circle.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The open connections.
#[derive(Clone, Debug)]
pub struct Connections {
    table: Arc<Mutex<Table>>,
    most: usize,
    begun: Instant,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Milliseconds since `Connections::begun` when bytes last went either way.
    active: Arc<AtomicU64>,
    close: CancellationToken,
}

impl Connections {
    /// None yet, and at most so many.
    #[must_use]
    pub fn new(most: usize) -> Connections {
        Connections { table: Arc::default(), most, begun: Instant::now() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A place for a new connection; where there is none the longest silent connection is closed.
    pub fn admit<S>(&self, stream: S) -> Counted<S> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.open.len() >= self.most {
            let silent = table.open.iter().min_by_key(|(id, entry)| (entry.active.load(Relaxed), **id));
            if let Some(id) = silent.map(|(id, _)| *id)
                && let Some(entry) = table.open.remove(&id)
            {
                entry.close.cancel();
                tracing::debug!(most = self.most, "the longest silent connection is closed for a new one");
            }
        }
        let (id, active, close) =
            (table.next, Arc::new(AtomicU64::new(self.now())), CancellationToken::new());
        table.next += 1;
        table.open.insert(id, Entry { active: active.clone(), close: close.clone() });
        Counted { stream, id, active, closed: Box::pin(close.cancelled_owned()), all: self.clone() }
    }
}

/// A connection that has a place.
#[derive(Debug)]
pub struct Counted<S> {
    stream: S,
    id: u64,
    active: Arc<AtomicU64>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    all: Connections,
}

impl<S> Counted<S> {
    /// The connection.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Notes activity, or says that the place was given to another one.
    fn progress<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.active.store(self.all.now(), Relaxed);
        }
        polled
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.all.table.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&self.id);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.progress(polled)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.progress(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.progress(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Accepts connections, each with its place.
#[derive(Debug)]
pub struct CountedListener {
    listener: TcpListener,
    connections: Connections,
}

impl CountedListener {
    /// At most [`CONNECTIONS_MAX`] of this listener's.
    #[must_use]
    pub fn new(listener: TcpListener) -> CountedListener {
        CountedListener { listener, connections: Connections::new(CONNECTIONS_MAX) }
    }
}

impl Listener for CountedListener {
    type Io = Counted<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => return (self.connections.admit(stream), peer),
                Err(error) => {
                    tracing::debug!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, CountedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, CountedListener>) -> Peer {
        Peer::new(*stream.remote_addr(), stream.io().get_ref().local_addr().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn the_longest_silent_one_goes_first() {
        let connections = Connections::new(2);
        let (mut ends, mut all) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (near, far) = tokio::io::duplex(64);
            all.push(connections.admit(near));
            ends.push(far);
        }
        // The first one was active last.
        tokio::time::sleep(Duration::from_millis(5)).await;
        ends[0].write_all(b"x").await.unwrap();
        all[0].read_u8().await.unwrap();
        let (near, _far) = tokio::io::duplex(64);
        let third = connections.admit(near);
        let error = all[1].read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        ends[0].write_all(b"y").await.unwrap();
        assert_eq!(all[0].read_u8().await.unwrap(), b'y');
        drop((third, all));
        assert!(connections.table.lock().unwrap().open.is_empty());
    }
}
