//! Waiting between two prints of a command that goes on until Ctrl-C.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use std::os::fd::AsFd;
use std::time::Duration;

/// Waits; `true` where SIGINT or SIGTERM came meanwhile, after which the program ends with 0. At other times either signal
/// ends it at once. Needs a program without threads of its own: these would take the signals.
///
/// # Errors
/// The system has no descriptor left.
pub fn until_stopped(time: Duration) -> std::io::Result<bool> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    let descriptor = SignalFd::new(&signals)?;
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    let came = poll(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], timeout);
    if matches!(came, Ok(0)) {
        signals.thread_unblock()?;
    }
    match came {
        Ok(count) => Ok(count > 0),
        Err(nix::errno::Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
