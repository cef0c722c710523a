//! The channel to the agent, bounded in bytes as well: what lies in it is no longer here and not yet there.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use throughline_sample::wire::Batch;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Permit, Sender};

/// Most bytes in the channel: what an agent takes between two looks of its batcher, many times over.
const BYTES_MAX: usize = 2 << 20;

/// The agent's end is closed.
#[derive(Debug)]
pub(crate) struct PipeClosedError;

/// The channel, and the weights of the fragments in it.
#[derive(Debug)]
pub(crate) struct Pipe {
    to: Sender<Batch>,
    weights: Mutex<VecDeque<usize>>,
}

/// Leave to send one fragment.
#[derive(Debug)]
pub(crate) struct SendPermit<'a> {
    permit: Permit<'a, Batch>,
    pipe: &'a Pipe,
}

impl SendPermit<'_> {
    /// Sends it.
    pub fn send(self, batch: Batch, bytes: usize) {
        self.pipe.lock().push_back(bytes);
        self.permit.send(batch);
    }
}

impl Pipe {
    pub fn new(to: Sender<Batch>) -> Self {
        Self { to, weights: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<usize>> {
        // No code holding it can panic halfway.
        self.weights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leave to send, unless the channel is full or holds too many bytes.
    pub fn permit(&self) -> Result<Option<SendPermit<'_>>, PipeClosedError> {
        let waiting = self.to.max_capacity() - self.to.capacity();
        let permit = match self.to.try_reserve() {
            Ok(permit) => permit,
            Err(TrySendError::Full(())) => return Ok(None),
            Err(TrySendError::Closed(())) => return Err(PipeClosedError),
        };
        let mut weights = self.lock();
        while weights.len() > waiting {
            weights.pop_front();
        }
        let is_full = weights.iter().sum::<usize>() >= BYTES_MAX;
        drop(weights);
        Ok((!is_full).then_some(SendPermit { permit, pipe: self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_in_bytes_and_in_fragments() {
        let (to, mut from) = tokio::sync::mpsc::channel(3);
        let pipe = Pipe::new(to);
        pipe.permit().unwrap().unwrap().send(Batch::default(), BYTES_MAX - 1);
        pipe.permit().unwrap().unwrap().send(Batch::default(), BYTES_MAX);
        assert!(pipe.permit().unwrap().is_none(), "too many bytes");
        from.try_recv().unwrap();
        assert!(pipe.permit().unwrap().is_none());
        from.try_recv().unwrap();
        for _ in 0..3 {
            pipe.permit().unwrap().unwrap().send(Batch::default(), 1);
        }
        assert!(pipe.permit().unwrap().is_none(), "too many fragments");
        drop(from);
        assert!(pipe.permit().is_err());
    }
}
