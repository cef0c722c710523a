//! The thread that keeps one sampler running: start, frames, bounds, end, pause, and again.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::incidents::{Incidents, Life, Next};
use super::outlet::{Interruption, Outlet};
use super::usage::Watched;
use super::{FrameKind, Kind, Pace, WAKE};
use crate::frame::Body;
use crate::session::{Session, SessionEvent};
use crate::status::{End, State};

/// From one look at reasons to give way to the next: a profiler that starts gets the GPU within a second.
const LOOK: Duration = Duration::from_millis(200);
/// From one look at what a sampler uses to the next.
const WATCH: Duration = Duration::from_secs(1);
/// How long a sampler may take to give the GPUs back before it is killed.
const QUIT_WAIT: Duration = Duration::from_millis(500);

/// Why a sampler's life ended.
enum SamplerEnd {
    By(End, String),
    /// The keeper wants it to end, for a time.
    GaveWay(Interruption),
}

/// Keeps a sampler running until it has to stop.
pub(super) struct Keeper<K> {
    kind: K,
    pace: Pace,
    outlet: Outlet,
    requested: UnixStream,
    wedged: Option<Child>,
    incidents: Incidents,
    /// Whether the present sampler has printed more than the log takes.
    is_flooded: bool,
}

impl<K: Kind> Keeper<K> {
    pub(super) fn new(kind: K, pace: Pace, outlet: Outlet, requested: UnixStream) -> Self {
        let incidents = Incidents::new(&pace);
        Self { kind, pace, outlet, requested, wedged: None, incidents, is_flooded: false }
    }

    pub(super) fn keep(mut self) {
        loop {
            if let Some(reason) = self.kind.reason_to_give_way(&self.outlet) {
                self.give_way(reason);
                if self.stopped_within(LOOK) {
                    return;
                }
                continue;
            }
            self.outlet.interrupt(None);
            let mut life = Life::begin();
            let ended = if self.is_wedged() {
                SamplerEnd::By(
                    End::Silent,
                    "a sampler that was killed is still held by the driver".to_owned(),
                )
            } else {
                self.run_sampler(&mut life)
            };
            let (end, text) = match ended {
                SamplerEnd::GaveWay(_) => {
                    self.outlet.status().gave_way += 1;
                    continue;
                }
                SamplerEnd::By(end, text) => (end, text),
            };
            let next = self.incidents.ended(&self.pace, end, &life);
            self.note_end(end, &text, next);
            if end == End::Stopped || self.stopped_within(next.pause) {
                return;
            }
        }
    }

    fn give_way(&self, reason: Interruption) {
        {
            let mut status = self.outlet.status();
            status.state = if self.wedged.is_some() { State::Wedged } else { State::Paused };
            status.detail = Some(reason.reason.clone());
            status.pid = self.wedged.as_ref().map(Child::id);
        }
        self.outlet.interrupt(Some(reason));
    }

    /// Whether a killed sampler is still there; a second one would hang beside it.
    fn is_wedged(&mut self) -> bool {
        let is_there = matches!(self.wedged.as_mut().map(Child::try_wait), Some(Ok(None)));
        if !is_there {
            self.wedged = None;
        }
        is_there
    }

    /// One sampler from start to end.
    fn run_sampler(&mut self, life: &mut Life) -> SamplerEnd {
        let command = self.kind.command();
        let program = command.get_program().to_owned();
        let mut session = match Session::start(command) {
            Ok(session) => session,
            Err(error) => {
                let text = format!("cannot start {} for the sampler: {error}", program.display());
                return SamplerEnd::By(End::SpawnFailed, text);
            }
        };
        self.kind.started();
        self.is_flooded = false;
        {
            let mut status = self.outlet.status();
            status.starts += 1;
            status.state = State::Starting;
            status.pid = Some(session.pid());
        }
        let ended = self.listen(&mut session, life);
        match &ended {
            SamplerEnd::GaveWay(reason) => {
                // First: what the source shows goes with the reading that is not made.
                self.outlet.interrupt(Some(reason.clone()));
                self.let_go(&mut session);
            }
            SamplerEnd::By(End::Stopped, _) => self.let_go(&mut session),
            SamplerEnd::By(..) => {}
        }
        self.note_output(&mut session);
        self.wedged = session.end();
        ended
    }

    /// Takes frames until the sampler ends or is to end.
    fn listen(&mut self, session: &mut Session, life: &mut Life) -> SamplerEnd {
        let watched = Watched::open(session.pid()).ok();
        let mut deadline = Instant::now() + self.pace.start_deadline;
        let mut look_at = Instant::now() + WATCH;
        let step = if K::GIVES_WAY { LOOK } else { WATCH };
        loop {
            match session.next(deadline.min(Instant::now() + step), self.requested.as_fd()) {
                SessionEvent::Requested => match self.orders() {
                    Some(orders) => orders.into_iter().for_each(|order| session.report(order)),
                    None => return SamplerEnd::By(End::Stopped, "the source is no longer wanted".to_owned()),
                },
                // `next` gives a problem as an end.
                SessionEvent::Frame(body) => match self.kind.frame(body, &self.outlet) {
                    FrameKind::Other => {}
                    FrameKind::Empty => deadline = Instant::now() + self.pace.silence,
                    FrameKind::Reading => {
                        deadline = Instant::now() + self.pace.silence;
                        life.read(Instant::now());
                    }
                },
                // Only the time of a look is over.
                SessionEvent::End(End::Silent, _) if Instant::now() < deadline => {}
                SessionEvent::End(end, text) => {
                    self.look(watched.as_ref(), life);
                    return SamplerEnd::By(end, text);
                }
            }
            if Instant::now() >= look_at {
                look_at = Instant::now() + WATCH;
                self.note_output(session);
                if let Some((end, text)) = self.look(watched.as_ref(), life) {
                    return SamplerEnd::By(end, text);
                }
            }
            if let Some(reason) = self.kind.reason_to_give_way(&self.outlet) {
                return SamplerEnd::GaveWay(reason);
            }
        }
    }

    /// Looks at what the sampler uses; why it has to end, where it is beyond a bound.
    fn look(&self, watched: Option<&Watched>, life: &mut Life) -> Option<(End, String)> {
        let usage = watched?.read()?;
        life.processor = usage.processor;
        self.outlet.status().memory_bytes = usage.memory_bytes;
        let Pace { memory_bytes_max, start_processor_max, .. } = self.pace;
        if usage.memory_bytes > memory_bytes_max {
            let mebibytes = |bytes: u64| bytes >> 20;
            let (used, most) = (mebibytes(usage.memory_bytes), mebibytes(memory_bytes_max));
            let text = format!(
                "the sampler occupied {used} MiB of memory, {most} are allowed, and was killed: the vendor's library leaks"
            );
            return Some((End::Memory, text));
        }
        if life.readings.is_none() && usage.processor > start_processor_max {
            let seconds = usage.processor.as_secs_f64();
            let text = format!(
                "the sampler used {seconds:.0} s of processor time, gave no reading and was killed: the vendor's \
                 library spins; see whether its own tool works on this node"
            );
            return Some((End::ProcessorTime, text));
        }
        None
    }

    /// Logs what the sampler printed, within bounds, and counts the rest; an event when more comes than the log takes.
    fn note_output(&mut self, session: &mut Session) {
        let source = self.kind.name();
        for line in session.output().lines() {
            tracing::warn!(source, "the vendor's library printed: {line}");
        }
        let dropped = session.output().dropped();
        if dropped == 0 {
            return;
        }
        self.outlet.status().dropped_output_bytes += dropped;
        if !std::mem::replace(&mut self.is_flooded, true) {
            let text = format!(
                "the vendor's library prints more than the log takes: {dropped} bytes were dropped so far, and are \
                 counted from now on (throughline_unlogged_output_bytes_total)"
            );
            tracing::warn!(source, "{text}");
            self.outlet.event("source.output", "warning", text);
        }
    }

    /// Has the sampler give the GPUs back by itself, for a bounded time.
    fn let_go(&self, session: &mut Session) {
        let Some(quit) = K::QUIT else { return };
        session.report(quit);
        let deadline = Instant::now() + QUIT_WAIT;
        // A socket on which nothing ever comes: the reason to end is known.
        let Ok((quiet, _other)) = UnixStream::pair() else { return };
        while Instant::now() < deadline {
            match session.next(deadline, quiet.as_fd()) {
                SessionEvent::Frame(Body::CuptiBye(bye)) => {
                    let seconds = bye.end_nanoseconds as f64 / 1e9;
                    tracing::info!(source = self.kind.name(), seconds, "the GPUs are given back");
                    self.outlet.status().end_seconds = Some(seconds);
                    return;
                }
                SessionEvent::Frame(_) | SessionEvent::Requested => {}
                SessionEvent::End(..) => return,
            }
        }
    }

    /// The source's orders since the last look, each order once; nothing where it is to stop.
    fn orders(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; 64];
        let read = match self.requested.read(&mut bytes) {
            Ok(0) => return None,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(_) => return None,
        };
        let mut orders: Vec<u8> = bytes[..read].iter().copied().filter(|byte| *byte != WAKE).collect();
        orders.sort_unstable();
        orders.dedup();
        Some(orders)
    }

    /// Counts an end, logs it, and sends an event where it is a new incident.
    fn note_end(&mut self, end: End, text: &str, next: Next) {
        {
            let mut status = self.outlet.status();
            *status.ends.entry(end).or_default() += 1;
            status.pid = self.wedged.as_ref().map(Child::id);
            status.state = if self.wedged.is_some() { State::Wedged } else { end.state_after() };
            status.detail = Some(text.to_owned());
            status.fruitless = next.fruitless;
        }
        let (source, reason) = (self.kind.name(), end.name());
        match (end, end.is_nothing_to_read()) {
            (End::Stopped, _) => return,
            (_, true) if next.is_repeated => tracing::debug!(source, reason, "no GPU readings: {text}"),
            (_, true) => tracing::info!(source, reason, "no GPU readings: {text}"),
            (_, false) => tracing::warn!(source, reason, "GPU readings interrupted: {text}"),
        }
        // What another profiler held is not held any more, as far as is known.
        self.outlet.interrupt(None);
        if next.is_incident {
            self.outlet.event(&format!("source.{reason}"), "warning", text.to_owned());
        }
    }

    /// Waits, but not longer than until the source is dropped or there is a new reason to give way; true where it is
    /// dropped.
    fn stopped_within(&mut self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        let gives_way = self.kind.reason_to_give_way(&self.outlet).is_some();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // One that may have to give way looks for a reason meanwhile: a lease is a file, which wakes nobody.
            let step = if K::GIVES_WAY { left.min(LOOK) } else { left };
            let milliseconds = u16::try_from(step.as_millis() + 1).unwrap_or(u16::MAX);
            let mut watched = [PollFd::new(self.requested.as_fd(), PollFlags::POLLIN)];
            // Orders that come while no sampler runs are for nobody.
            if let Ok(1..) = poll(&mut watched, PollTimeout::from(milliseconds))
                && self.orders().is_none()
            {
                return true;
            }
            if K::GIVES_WAY && self.kind.reason_to_give_way(&self.outlet).is_some() != gives_way {
                return false;
            }
        }
    }
}
