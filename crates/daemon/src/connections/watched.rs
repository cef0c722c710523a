//! A connection that must move: its other end takes what is sent to it and, where required, sends something.

use super::places::{Peer, Place};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a peer may take nothing of what is sent to it.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);

/// A stream whose other end must take what is sent to it and, where required, send something.
pub struct WatchedStream<S, K: Peer> {
    inner: S,
    place: Place<K>,
    write: Stall,
    read: Option<Stall>,
}

/// How long nothing has happened.
struct Stall {
    most: Duration,
    since: Option<Pin<Box<Sleep>>>,
}

impl<S, K: Peer> WatchedStream<S, K> {
    /// Of a connection that has this place.
    pub fn new(inner: S, place: Place<K>) -> Self {
        WatchedStream { inner, place, write: Stall { most: WRITE_STALL_MAX, since: None }, read: None }
    }

    /// From now on it may be silent for so long only.
    pub fn watch_reading(&mut self, most: Duration) {
        self.read = Some(Stall { most, since: None });
    }
}

impl Stall {
    fn check<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.since = None;
            return done;
        }
        let since = self.since.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.most)));
        ready!(since.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin, K: Peer> AsyncRead for WatchedStream<S, K> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_read(context, buffer);
        if done.is_ready() {
            self.place.touch();
        }
        match &mut self.read {
            Some(stall) => stall.check(context, done),
            None => done,
        }
    }
}

impl<S: AsyncWrite + Unpin, K: Peer> AsyncWrite for WatchedStream<S, K> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(context, bytes);
        if done.is_ready() {
            self.place.touch();
        }
        self.write.check(context, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_flush(context);
        self.write.check(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_shutdown(context);
        self.write.check(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        if done.is_ready() {
            self.place.touch();
        }
        self.write.check(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::{GivesWay, LastBytes, Places};
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_of_what_is_sent_is_given_up() {
        const READ_STALL: Duration = Duration::from_secs(60);
        let (near, _far) = tokio::io::duplex(64);
        let places = Places::new(1, GivesWay::OfGreediest(Duration::ZERO), |_| ());
        let (place, _) = places.enter(&1, 1, LastBytes::default()).unwrap();
        let mut watched = WatchedStream::new(near, place);
        watched.watch_reading(READ_STALL);
        let begun = tokio::time::Instant::now();
        let error = watched.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, WRITE_STALL_MAX));
        let error = watched.read_u8().await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, WRITE_STALL_MAX + READ_STALL));
    }
}
