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
use nix::sys::signal::Signal;

use crate::frame::{Body, FrameReader, Problem};
use crate::output::Output;
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
    output: Output,
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
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C in a terminal is the parent's to handle.
            .process_group(0)
            .spawn()?;
        let out = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let orders = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        // A sampler that the driver holds reads nothing: nobody waits for it.
        let flags = OFlag::from_bits_retain(fcntl(&orders, FcntlArg::F_GETFL)?) | OFlag::O_NONBLOCK;
        fcntl(&orders, FcntlArg::F_SETFL(flags))?;
        let output = Output::new(child.stderr.take())?;
        Ok(Self { child, out, orders, output, frames: FrameReader::default(), buffer: vec![0; READ_BYTES] })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it prints.
    pub(crate) fn output(&mut self) -> &mut Output {
        &mut self.output
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
            match wait(self.out.as_fd(), self.output.descriptor(), requested, deadline) {
                WaitOutcome::Data => {}
                WaitOutcome::Output => {
                    self.output.take();
                    continue;
                }
                WaitOutcome::Requested => return SessionEvent::Requested,
                WaitOutcome::Deadline => {
                    let text = "the sampler said nothing until its deadline: the driver may be hung; see the \
                                kernel's log for Xid lines";
                    return SessionEvent::End(End::Silent, text.into());
                }
            }
            match self.out.read(&mut self.buffer) {
                Ok(0) => return self.exit(),
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

    /// How a sampler ended that gave no reason.
    fn exit(&mut self) -> SessionEvent {
        let (end, text) = match wait_bounded(&mut self.child) {
            Some(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => died(signal),
                (None, Some(code)) => {
                    (End::Crashed, format!("the sampler ended with status {code} and gave no reason"))
                }
                (None, None) => (End::Crashed, "the sampler ended".into()),
            },
            None => (End::Crashed, "the sampler closed its pipe and does not end".into()),
        };
        self.output.take();
        let words =
            self.output.last_words().map_or_else(String::new, |words| format!("; it printed: {words}"));
        SessionEvent::End(end, text + &words)
    }
}

/// What a signal says that ended a sampler. Those that no fault of a program makes came from outside.
fn died(signal: i32) -> (End, String) {
    let known = Signal::try_from(signal);
    let name = known.map_or("unknown", Signal::as_str);
    match known {
        Ok(Signal::SIGKILL) => {
            let text = format!(
                "the sampler was killed from outside (signal {signal}, {name}): by the kernel for want of memory, \
                 see its log, or by a person"
            );
            (End::Killed, text)
        }
        Ok(Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT) => {
            (End::Killed, format!("the sampler was ended from outside (signal {signal}, {name})"))
        }
        _ => (End::Crashed, format!("the sampler died of signal {signal} ({name}) in the vendor's library")),
    }
}

fn reported(problem: &Problem) -> SessionEvent {
    SessionEvent::End(End::from(problem.kind()), problem.text.clone())
}

enum WaitOutcome {
    Data,
    Output,
    Requested,
    Deadline,
}

fn wait(
    out: BorrowedFd<'_>,
    output: Option<BorrowedFd<'_>>,
    requested: BorrowedFd<'_>,
    deadline: Instant,
) -> WaitOutcome {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return WaitOutcome::Deadline;
        }
        // Rounded up, so that it does not spin in the last millisecond; a long deadline is waited in pieces.
        let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        let request = PollFd::new(requested, PollFlags::POLLIN);
        // Where there is no third one, the second is watched twice.
        let mut watched = [
            request,
            PollFd::new(out, PollFlags::POLLIN),
            PollFd::new(output.unwrap_or(out), PollFlags::POLLIN),
        ];
        match poll(&mut watched, PollTimeout::from(milliseconds)) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) => {}
            // No such thing can be waited for: no frame will come.
            Err(_) => return WaitOutcome::Deadline,
        }
        let [request, out, printed] = watched.map(|one| one.any().unwrap_or(true));
        if request {
            return WaitOutcome::Requested;
        }
        if out {
            return WaitOutcome::Data;
        }
        if printed && output.is_some() {
            return WaitOutcome::Output;
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
