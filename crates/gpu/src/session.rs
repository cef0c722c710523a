//! One sampler's life as its parent observes it: start, frames with a deadline, end.
//!
//! Never waits without a bound: a sampler that a driver holds in an uninterruptible call can't even be killed.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::frame::{Body, FrameReader, Problem};
use crate::status::End;

/// How long a killed sampler may take to go away before it counts as held by the driver.
const KILL_WAIT: Duration = Duration::from_secs(2);
/// From one look at a killed sampler to the next.
const KILL_POLL: Duration = Duration::from_millis(5);
/// Bytes taken from the pipe at a time: its capacity on Linux.
const READ_BYTES: usize = 1 << 16;

/// A running sampler.
pub(crate) struct Session {
    child: Child,
    out: ChildStdout,
    orders: ChildStdin,
    frames: FrameReader,
    buffer: Vec<u8>,
}

/// What came next.
pub(crate) enum SessionEvent {
    /// A frame.
    Frame(Body),
    /// The source got an order, or has to stop.
    Requested,
    /// Nothing more will come; why, in one word and for people.
    End(End, String),
}

impl Session {
    /// Starts a sampler by a command.
    ///
    /// The calling thread must outlive the sampler: the kernel ends the child with the *thread* that made it.
    pub(crate) fn start(mut command: Command) -> std::io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: Ctrl-C in a terminal is the parent's to handle.
            .process_group(0)
            .spawn()?;
        let out = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let orders = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        // A sampler that the driver holds reads nothing: nobody waits for it.
        let flags = OFlag::from_bits_retain(fcntl(&orders, FcntlArg::F_GETFL)?) | OFlag::O_NONBLOCK;
        fcntl(&orders, FcntlArg::F_SETFL(flags))?;
        Ok(Self { child, out, orders, frames: FrameReader::default(), buffer: vec![0; READ_BYTES] })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the sampler an order; one that reads nothing is not waited for.
    pub(crate) fn report(&mut self, order: u8) {
        let _ = self.orders.write(&[order]);
    }

    /// The next frame, or the end. `requested` becomes readable when the source gets an order or is dropped.
    pub(crate) fn next(&mut self, deadline: Instant, requested: BorrowedFd<'_>) -> SessionEvent {
        loop {
            match self.frames.next_frame() {
                Ok(Some(Body::Problem(problem))) => return reported(&problem),
                Ok(Some(body)) => return SessionEvent::Frame(body),
                Ok(None) => {}
                Err(error) => return SessionEvent::End(End::BadFrame, error.to_string()),
            }
            match wait(self.out.as_fd(), requested, deadline) {
                WaitOutcome::Data => {}
                WaitOutcome::Requested => return SessionEvent::Requested,
                WaitOutcome::Deadline => {
                    let text = "the sampler said nothing until its deadline: the driver may be hung; see the \
                                kernel's log for Xid lines";
                    return SessionEvent::End(End::Silent, text.into());
                }
            }
            match self.out.read(&mut self.buffer) {
                Ok(0) => return SessionEvent::End(End::Crashed, self.exit_text()),
                Ok(read) => self.frames.push(&self.buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return SessionEvent::End(End::Crashed, format!("its pipe fails: {error}")),
            }
        }
    }

    /// Kills the sampler by its process id and waits for its end, but not for ever: one that the driver holds
    /// is given back.
    pub(crate) fn end(mut self) -> Option<Child> {
        // It can only fail because the process has ended already.
        let _ = self.child.kill();
        match wait_bounded(&mut self.child) {
            Some(_) => None,
            None => Some(self.child),
        }
    }

    fn exit_text(&mut self) -> String {
        match wait_bounded(&mut self.child) {
            Some(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("the sampler died of signal {signal} in the vendor's library"),
                (None, Some(code)) => format!("the sampler ended with status {code} and gave no reason"),
                (None, None) => "the sampler ended".into(),
            },
            None => "the sampler closed its pipe and does not end".into(),
        }
    }
}

fn reported(problem: &Problem) -> SessionEvent {
    SessionEvent::End(End::from(problem.kind()), problem.text.clone())
}

enum WaitOutcome {
    Data,
    Requested,
    Deadline,
}

fn wait(out: BorrowedFd<'_>, requested: BorrowedFd<'_>, deadline: Instant) -> WaitOutcome {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return WaitOutcome::Deadline;
        }
        // Rounded up, so that it does not spin in the last millisecond; a long deadline is waited in pieces.
        let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        let mut watched = [PollFd::new(out, PollFlags::POLLIN), PollFd::new(requested, PollFlags::POLLIN)];
        match poll(&mut watched, PollTimeout::from(milliseconds)) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) => {}
            // No such thing can be waited for: no frame will come.
            Err(_) => return WaitOutcome::Deadline,
        }
        if watched[1].any().unwrap_or(true) {
            return WaitOutcome::Requested;
        }
        if watched[0].any().unwrap_or(true) {
            return WaitOutcome::Data;
        }
    }
}

fn wait_bounded(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + KILL_WAIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(KILL_POLL),
            Ok(None) | Err(_) => return None,
        }
    }
}
