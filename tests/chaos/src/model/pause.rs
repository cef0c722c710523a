//! SIGSTOP: a task that is not polled while its process is stopped. Its timers run on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Stops the tasks that it guards. Clones are the same one.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    /// Stops, or lets go on.
    pub fn set(&self, is_paused: bool) {
        let mut gate = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        gate.0 = is_paused;
        if !is_paused {
            gate.1.drain(..).for_each(Waker::wake);
        }
    }

    /// A future that this gate stops.
    pub fn guard<F: Future>(&self, future: F) -> Guarded<F> {
        Guarded { gate: self.clone(), future: Box::pin(future) }
    }
}

pub struct Guarded<F> {
    gate: Gate,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Guarded<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        {
            let mut gate = self.gate.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if gate.0 {
                gate.1.push(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.future.as_mut().poll(context)
    }
}
