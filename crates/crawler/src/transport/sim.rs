//! The transport to a simulated fabric in a process of its own (`throughline-simfabric`), over a Unix socket.
//!
//! The socket takes the place of a device file and [`wire`](super::wire) that of libibumad; what travels is the
//! same MADs. Sends gather in memory and go out in one call before a receive would wait, and one call reads as
//! many frames as there are: two processes pass a few hundred thousand MADs a second that way.

use super::on_the_way::OnTheWay;
use super::wire::{self, Frame, Hello, Kind, MadHead, SendHead, Welcome};
use super::{Arrival, Class, Destination, LocalPort, Message, Transport, TransportError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use throughline_infiniband::mad::sa::CLASS_ADMINISTRATION;
use throughline_infiniband::mad::{CLASS_PERFORMANCE, CLASS_SMP_DIRECTED, MAD_BYTES, Mad, PERMISSIVE_LID};
use throughline_sample::Guid;

/// Bytes read from the socket at once: some 120 MADs.
const READ_BYTES: usize = 32 << 10;
/// Bytes that may wait to be sent: more than any window makes. Beyond it the fabric does not read.
const MAX_UNSENT_BYTES: usize = 1 << 20;
/// An arrival as near as this is waited for by looking again and again, in nanoseconds: a sleep would miss it,
/// because waking takes some 50 us where the processor sleeps meanwhile.
const SPIN: u64 = 60_000;
/// How often the socket is looked at meanwhile, in nanoseconds.
const LOOK_AGAIN: u64 = 10_000;
/// Time for the fabric to answer a connection; it answers at once, and machines can be busy.
const GREETING_LIMIT: Duration = Duration::from_secs(20);

/// A simulated fabric can't be used: the socket and the reason.
#[derive(Debug, thiserror::Error)]
#[error(
    "simulated fabric {socket}: {cause}; start one with `throughline-simfabric run --socket {socket} ...`"
)]
pub struct SimError {
    /// The socket.
    pub socket: String,
    /// The reason.
    pub cause: String,
}

/// A port of a simulated fabric, ready to open transports on it.
pub struct SimPort {
    socket: PathBuf,
    local: LocalPort,
}

impl SimPort {
    /// Requests the port: of the node that `node` names by GUID, id or description, or of the first host.
    ///
    /// # Errors
    /// [`SimError`]: nothing listens, or there is no such node.
    pub fn find(socket: &Path, node: Option<&str>, port: u8) -> Result<SimPort, SimError> {
        let hello = Hello { class: wire::CLASS_NONE, port, node: node.unwrap_or_default().to_owned() };
        let (_, welcome) = connect(socket, &hello)?;
        Ok(SimPort { socket: socket.to_owned(), local: local_port(welcome) })
    }

    /// The local port as it is now: LIDs and state change with the subnet manager.
    ///
    /// # Errors
    /// As [`SimPort::find`].
    pub fn refreshed(&self) -> Result<LocalPort, SimError> {
        let node = self.local.device.clone();
        let (_, welcome) =
            connect(&self.socket, &Hello { class: wire::CLASS_NONE, port: self.local.port, node })?;
        Ok(local_port(welcome))
    }

    /// The local port.
    #[must_use]
    pub fn local(&self) -> &LocalPort {
        &self.local
    }

    /// Opens the transport of one class.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn open(&self, class: Class) -> Result<Box<dyn Transport>, SimError> {
        let class = match class {
            Class::Management => CLASS_SMP_DIRECTED,
            Class::Performance => CLASS_PERFORMANCE,
            Class::Administration => CLASS_ADMINISTRATION,
        };
        let hello = Hello { class, port: self.local.port, node: self.local.device.clone() };
        let (stream, _) = connect(&self.socket, &hello)?;
        Ok(Box::new(SimTransport::new(stream, &self.socket)?))
    }
}

fn local_port(welcome: Welcome) -> LocalPort {
    LocalPort {
        device: welcome.node,
        port: welcome.port,
        port_guid: Guid(welcome.port_guid),
        lid: welcome.lid,
        sm_lid: welcome.manager_lid,
        service_level: welcome.service_level,
        state: welcome.state,
        subnet_prefix: welcome.subnet_prefix,
    }
}

/// Connects, says hello and takes the answer.
fn connect(socket: &Path, hello: &Hello) -> Result<(UnixStream, Welcome), SimError> {
    let fail = |cause: String| SimError { socket: socket.display().to_string(), cause };
    let io = |error: std::io::Error| fail(error.to_string());
    let mut stream = UnixStream::connect(socket).map_err(io)?;
    stream.set_read_timeout(Some(GREETING_LIMIT)).map_err(io)?;
    let mut out = Vec::new();
    hello.put(&mut out);
    stream.write_all(&out).map_err(io)?;
    let mut bytes = Vec::new();
    loop {
        let malformed = |error: wire::Malformed| fail(format!("it answered with {error}"));
        match wire::take(&bytes).map_err(malformed)? {
            Some(Frame { kind: Kind::Welcome, body, .. }) => {
                return Ok((stream, Welcome::decode(body).map_err(malformed)?));
            }
            Some(Frame { kind: Kind::Refused, body, .. }) => {
                return Err(fail(String::from_utf8_lossy(body).into_owned()));
            }
            Some(_) => return Err(malformed(wire::Malformed::Body)),
            None => {}
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk) {
            Ok(0) => return Err(fail("it closed the connection".to_owned())),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(fail(format!("no answer within {GREETING_LIMIT:?}")));
            }
            Err(error) => return Err(io(error)),
        }
    }
}

/// One class on one connection.
struct SimTransport {
    stream: UnixStream,
    unsent: Vec<u8>,
    /// What was read, up to `filled`: whole frames are taken out at once, so it begins with a frame.
    inbox: Vec<u8>,
    filled: usize,
    way: OnTheWay,
}

impl SimTransport {
    fn new(stream: UnixStream, socket: &Path) -> Result<SimTransport, SimError> {
        stream
            .set_nonblocking(true)
            .map_err(|error| SimError { socket: socket.display().to_string(), cause: error.to_string() })?;
        let inbox = vec![0; READ_BYTES];
        Ok(SimTransport { stream, unsent: Vec::new(), inbox, filled: 0, way: OnTheWay::default() })
    }

    /// Hands over what is unsent, as far as the socket takes it.
    fn push_out(&mut self) -> Result<(), TransportError> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(0) => return Err(closed()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(failed(&error)),
            }
        }
        self.unsent.drain(..sent);
        Ok(())
    }

    /// Reads what there is.
    fn pull_in(&mut self) -> Result<(), TransportError> {
        loop {
            if self.inbox.len() - self.filled < READ_BYTES / 2 {
                // A frame is as long as wire::take allows, so this is bounded by it.
                self.inbox.resize(self.filled + READ_BYTES.max(self.filled), 0);
            }
            match self.stream.read(&mut self.inbox[self.filled..]) {
                Ok(0) => return Err(closed()),
                Ok(count) => {
                    self.filled += count;
                    let was_all = self.filled < self.inbox.len();
                    self.take_frames()?;
                    if was_all {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// Puts what is whole on its way.
    fn take_frames(&mut self) -> Result<(), TransportError> {
        let malformed = |error: wire::Malformed| TransportError(format!("simulated fabric: {error}"));
        let mut taken = 0;
        while let Some(frame) = wire::take(&self.inbox[taken..self.filled]).map_err(malformed)? {
            taken += frame.bytes;
            if matches!(frame.kind, Kind::Mad | Kind::GivenUp) {
                let (head, _) = MadHead::decode(frame.body).map_err(malformed)?;
                self.way.put(head.arrives, frame.kind, frame.body);
            }
        }
        self.inbox.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        Ok(())
    }

    /// Waits until something can be read, or written where it has to be.
    fn wait(&self, wait: Duration) -> Result<(), TransportError> {
        let mut events = PollFlags::POLLIN;
        if !self.unsent.is_empty() {
            events |= PollFlags::POLLOUT;
        }
        let mut polled = [PollFd::new(self.stream.as_fd(), events)];
        match ppoll(&mut polled, Some(TimeSpec::from_duration(wait)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(TransportError(format!("simulated fabric: poll: {error}"))),
        }
    }

    /// Returns once a MAD has arrived, or after `wait`.
    fn arrive(&mut self, wait: Duration) -> Result<(), TransportError> {
        let mut now = wire::monotonic();
        if self.way.has_arrived(now) {
            return Ok(());
        }
        let until = now.saturating_add(wait.as_nanos() as u64);
        loop {
            self.push_out()?;
            self.pull_in()?;
            let look_again = now + LOOK_AGAIN;
            now = wire::monotonic();
            if self.way.has_arrived(now) || now >= until {
                return Ok(());
            }
            let wake = self.way.next_at().unwrap_or(u64::MAX).min(until);
            match (wake - now).checked_sub(SPIN) {
                Some(sleep) if sleep > 0 => self.wait(Duration::from_nanos(sleep))?,
                _ => {
                    while now < wake.min(look_again) {
                        std::hint::spin_loop();
                        now = wire::monotonic();
                    }
                }
            }
        }
    }
}

fn arrival(kind: Kind) -> Arrival {
    if kind == Kind::GivenUp { Arrival::GivenUp } else { Arrival::Reply }
}

fn closed() -> TransportError {
    TransportError("the simulated fabric closed the connection".to_owned())
}

fn failed(error: &std::io::Error) -> TransportError {
    TransportError(format!("simulated fabric: {error}"))
}

impl Transport for SimTransport {
    fn send(&mut self, mad: &Mad, to: Destination, timeout: Duration) -> Result<(), TransportError> {
        let (lid, service_level) = match to {
            Destination::Directed => (PERMISSIVE_LID, 0),
            Destination::Lid { lid, service_level } => (lid, service_level),
            Destination::Agent(agent) => (agent.lid, agent.service_level),
        };
        if self.unsent.len() > MAX_UNSENT_BYTES {
            return Err(TransportError("the simulated fabric does not read what is sent to it".to_owned()));
        }
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let sent = wire::monotonic();
        let head = SendHead { lid, service_level, timeout_milliseconds: milliseconds, sent };
        head.put(&mut self.unsent, mad);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.push_out()
    }

    fn receive(&mut self, mad: &mut Mad, wait: Duration) -> Result<Arrival, TransportError> {
        self.arrive(wait)?;
        let Some((kind, body)) = self.way.take(wire::monotonic()) else { return Ok(Arrival::Nothing) };
        let (_, bytes) = MadHead::decode(body).unwrap_or_default();
        let length = bytes.len().min(MAD_BYTES);
        mad[..length].copy_from_slice(&bytes[..length]);
        mad[length..].fill(0);
        Ok(arrival(kind))
    }

    fn receive_message(&mut self, message: &mut Message, wait: Duration) -> Result<Arrival, TransportError> {
        message.bytes.clear();
        self.arrive(wait)?;
        let Some((kind, body)) = self.way.take(wire::monotonic()) else { return Ok(Arrival::Nothing) };
        let (head, bytes) = MadHead::decode(body).unwrap_or_default();
        message.bytes.extend_from_slice(bytes);
        (message.from_lid, message.from_service_level) = (head.lid, head.service_level);
        Ok(arrival(kind))
    }
}
