//! Where the series of an answer go: into one message, or piece by piece into a stream.

use super::Refusal;
use super::answer::{self, ReadResponseBuilder};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use throughline_query::history::{Family, HistoryError, Samples, Series, SeriesSink};
use tokio::sync::mpsc;

/// Series are sent together up to so much: each piece is a handful of system calls here and there.
const PIECE_BYTES: usize = 64 << 10;

/// Where an answer's series go.
pub(super) enum AnswerOutput {
    Stream(Pieces),
    Whole(ReadResponseBuilder),
}

/// A stream under construction.
pub(super) struct Pieces {
    to: mpsc::Sender<Result<Bytes, Refusal>>,
    /// Something was sent.
    begun: Arc<AtomicBool>,
    /// What is not sent yet.
    open: BytesMut,
    /// What was sent, the first one first: memory that is used again costs less than new one, page by page.
    sent: VecDeque<Bytes>,
}

impl Pieces {
    /// Nothing sent yet.
    pub fn new(to: mpsc::Sender<Result<Bytes, Refusal>>, begun: Arc<AtomicBool>) -> Pieces {
        Pieces { to, begun, open: BytesMut::with_capacity(PIECE_BYTES * 2), sent: VecDeque::new() }
    }

    /// Sends what is there.
    pub async fn send(&mut self) -> Result<(), HistoryError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let is_done = self.sent.front().is_some_and(Bytes::is_unique);
        let done = if is_done { self.sent.pop_front() } else { None };
        let mut next = match done.map(Bytes::try_into_mut) {
            Some(Ok(done)) => done,
            _ => BytesMut::with_capacity(PIECE_BYTES * 2),
        };
        next.clear();
        let piece = std::mem::replace(&mut self.open, next).freeze();
        self.sent.push_back(piece.clone());
        self.begun.store(true, Relaxed);
        self.to.send(Ok(piece)).await.map_err(|_| HistoryError::Gone)
    }
}

impl AnswerOutput {
    /// Adds a series, with its samples or without any.
    pub async fn put(
        &mut self,
        query: usize,
        family: &Family,
        series: &Series,
        samples: Option<&Samples>,
    ) -> Result<(), HistoryError> {
        match self {
            AnswerOutput::Whole(whole) => {
                whole.add(family, series, samples).map_err(|_| HistoryError::TooLarge)?
            }
            AnswerOutput::Stream(pieces) => {
                answer::streamed(query, family, series, samples, &mut pieces.open);
                if pieces.open.len() >= PIECE_BYTES {
                    pieces.send().await?;
                }
            }
        }
        Ok(())
    }
}

/// Puts the series of one family into an answer.
pub(super) struct FamilyWriter<'a> {
    pub out: &'a mut AnswerOutput,
    pub query: usize,
    pub family: &'a Family,
}

impl SeriesSink for FamilyWriter<'_> {
    async fn take(&mut self, series: &Series, samples: &Samples) -> Result<(), HistoryError> {
        self.out.put(self.query, self.family, series, Some(samples)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_of_pieces_that_are_gone_is_used_again_and_none_that_is_not() {
        let (to, mut taken) = mpsc::channel(16);
        let mut pieces = Pieces::new(to, Arc::default());
        let mut waiting = VecDeque::new();
        for round in 0..100u8 {
            pieces.open.resize(PIECE_BYTES + usize::from(round), round);
            pieces.send().await.unwrap();
            waiting.push_back((round, taken.recv().await.unwrap().unwrap()));
            // Some are held for a while, as the network does.
            if waiting.len() > usize::from(round % 7) {
                let (round, piece): (u8, Bytes) = waiting.pop_front().unwrap();
                assert_eq!(piece.len(), PIECE_BYTES + usize::from(round));
                assert!(piece.iter().all(|byte| *byte == round));
            }
        }
        assert!(pieces.sent.len() <= 10, "{}", pieces.sent.len());
    }
}
