//! The body of an answer, with something that is held until its last byte is on its way.

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// An answer goes to the connection in pieces of this size, so that it is not all handed over, and no longer held, while
/// the peer has taken nothing of it.
const PIECE_BYTES: usize = 64 << 10;

/// A body that holds `G`: what counts answers on their way.
pub struct HeldBody<G> {
    body: Body,
    rest: Bytes,
    _held: G,
}

impl<G> HeldBody<G> {
    /// Holds it.
    #[must_use]
    pub fn new(body: Body, held: G) -> Self {
        HeldBody { body, rest: Bytes::new(), _held: held }
    }
}

impl<G: Unpin> http_body::Body for HeldBody<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(http_body::Body::poll_frame(Pin::new(&mut self.body), context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && http_body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (http_body::Body::size_hint(&self.body), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use std::sync::Arc;

    #[tokio::test]
    async fn goes_in_pieces_and_holds_until_the_last() {
        let whole: Vec<u8> = (0..PIECE_BYTES * 2 + 5).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let held = Arc::new(());
        let mut body = HeldBody::new(Body::from(whole.clone()), held.clone());
        assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
        let mut taken = Vec::new();
        for pieces in 1.. {
            let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            let Some(frame) = frame else { break };
            taken.extend_from_slice(&frame.unwrap().into_data().unwrap());
            assert_eq!(body.size_hint().exact(), Some((whole.len() - taken.len()) as u64));
            assert_eq!((body.is_end_stream(), Arc::strong_count(&held)), (pieces == 3, 2));
        }
        assert!(taken == whole);
        drop(body);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
