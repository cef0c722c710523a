//! One connection: from HELLO to its end, and to the end of the process behind it.
//!
//! A rank has ended when it said so, or when its process has. A connection alone may end because the agent or the
//! shim closed it, and a forked child may hold one open behind its parent's end: then the process is asked.

use crate::frame::{FRAME_BYTES, Frame, Header, decode};
use crate::identity::{Hello, identify};
use crate::member::{Member, RankKey};
use crate::process::{Opener, Process};
use crate::rank::Rank;
use crate::receiver::Shared;
use crate::socket::{Received, receive, refuse_more, send, watch};
use crate::status::{Malformed, Reason, add};
use crate::throttle::Throttle;
use nix::sys::socket::UnixCredentials;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::unix::AsyncFd;
use tokio::time::{sleep, timeout_at};

/// Messages read from one connection before others get their turn.
const TURN: u32 = 16;

thread_local! {
    /// Buffers for each worker thread, not for each rank: a message is decoded before the next await.
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> =
        RefCell::new((vec![0; FRAME_BYTES + 1], nix::cmsg_space!(UnixCredentials)));
}

/// What one readiness of a connection led to.
enum Read {
    /// A message was read and this came of it.
    Message(Result<(), Malformed>),
    /// The peer has closed.
    Closed,
}

/// Serves one connection.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    connection: OwnedFd,
    mut opener: Opener,
) -> std::io::Result<()> {
    // Without a descriptor of it the process is not watched, and the connection's end is the rank's.
    let process = opener.handle.as_ref().and_then(|handle| watch(handle.try_clone().ok()?).ok());
    let mut session = Session::new(shared.clone(), opener.pid);
    let connection = watch(connection)?;
    let outcome = tokio::select! {
        () = shared.stop.cancelled() => {
            session.disconnected();
            return Ok(()); // the rank lives on: no end of it is recorded
        }
        outcome = session.read_all(&connection, &mut opener, process.as_ref()) => outcome,
    };
    drop(connection);
    session.disconnected();
    if session.rank.as_ref().is_some_and(|rank| rank.ended().is_none())
        && let Some(process) = &process
    {
        let ended_at = shared.moment().utc;
        tokio::select! {
            () = shared.stop.cancelled() => return Ok(()),
            () = ended(Some(process)) => session.left(shared.moment().utc),
            // It runs, and no shim in it speaks any more: it may have become another program.
            () = sleep(shared.config.limits.reconnect) => session.left(ended_at),
        }
    } else {
        session.left(shared.moment().utc);
    }
    outcome
}

/// Waits for the end of a process; for ever where it is not watched.
pub(crate) async fn ended(process: Option<&AsyncFd<OwnedFd>>) {
    let watched = match process {
        Some(process) => process.readable().await.is_ok(),
        None => false,
    };
    if !watched {
        std::future::pending::<()>().await;
    }
}

/// The state of one connection.
struct Session {
    shared: Arc<Shared>,
    pid: u32,
    number: u64,
    rank: Option<Rank>,
    key: Option<RankKey>,
    hello: Option<(Header, Hello)>,
    malformed: u32,
    throttle: Throttle,
    is_connected: bool,
}

impl Session {
    fn new(shared: Arc<Shared>, pid: u32) -> Self {
        let throttle = Throttle::new(shared.config.limits.frames_per_second, Instant::now());
        let number = shared.next_connection();
        Self {
            shared,
            pid,
            number,
            rank: None,
            key: None,
            hello: None,
            malformed: 0,
            throttle,
            is_connected: false,
        }
    }

    async fn read_all(
        &mut self,
        connection: &AsyncFd<OwnedFd>,
        opener: &mut Opener,
        process: Option<&AsyncFd<OwnedFd>>,
    ) -> std::io::Result<()> {
        let limits = self.shared.config.limits;
        let patience = Instant::now() + limits.hello;
        let mut turn = 0;
        loop {
            let read = if self.rank.is_some() {
                tokio::select! {
                    biased;
                    read = self.read(connection) => read?,
                    // A child of it may hold the connection open; what it has sent is there already.
                    () = ended(process) => match self.read_now(connection.get_ref()) {
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                        read => read?,
                    },
                }
            } else {
                match timeout_at(patience.into(), self.read(connection)).await {
                    Ok(read) => read?,
                    Err(_elapsed) => return self.close(Reason::Silent),
                }
            };
            match read {
                Read::Closed => return Ok(()),
                Read::Message(Ok(())) => {}
                Read::Message(Err(why)) => {
                    self.shared.counters.malformed(why);
                    self.malformed += 1;
                    if self.malformed >= limits.malformed_messages {
                        self.count_rest(connection.get_ref());
                        return self.close(Reason::Malformed);
                    }
                }
            }
            if let Some((header, hello)) = self.hello.take()
                && let Err(why) = self.welcome(connection, opener, header, hello).await
            {
                return self.close(why);
            }
            turn += 1;
            if turn % TURN == 0 {
                tokio::task::yield_now().await;
            }
            while let Err(pause) = self.throttle.take(Instant::now()) {
                sleep(pause).await;
            }
        }
    }

    /// Counts what a given-up connection has sent already. It ends: no more can come, and the queue is short.
    fn count_rest(&self, connection: &OwnedFd) {
        refuse_more(connection);
        BUFFERS.with_borrow_mut(|(buffer, control)| {
            while let Ok(Received { length, .. }) = receive(connection, buffer, control) {
                let why = match buffer.get(..length).map(decode) {
                    Some(Ok(_)) if length > 0 => Malformed::GivenUp,
                    Some(Err(why)) if length > 0 => why,
                    None => Malformed::TooLong,
                    _ => break,
                };
                self.shared.counters.malformed(why);
            }
        });
    }

    fn close(&self, why: Reason) -> std::io::Result<()> {
        self.shared.counters.closed(why);
        tracing::debug!(pid = self.pid, reason = why.name(), "closed an MPI rank's connection");
        Ok(())
    }

    async fn read(&mut self, connection: &AsyncFd<OwnedFd>) -> std::io::Result<Read> {
        loop {
            let mut ready = connection.readable().await?;
            match ready.try_io(|connection| self.read_now(connection.get_ref())) {
                Ok(read) => return read,
                Err(_would_block) => {}
            }
        }
    }

    fn read_now(&mut self, connection: &OwnedFd) -> std::io::Result<Read> {
        BUFFERS.with_borrow_mut(|(buffer, control)| {
            let Received { length, sender } = receive(connection, buffer, control)?;
            Ok(match length {
                0 => Read::Closed,
                _ if sender.is_some_and(|sender| sender != self.pid) => Read::Message(Err(Malformed::Sender)),
                _ if length > FRAME_BYTES => Read::Message(Err(Malformed::TooLong)),
                _ => Read::Message(self.message(&buffer[..length])),
            })
        })
    }

    fn message(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let (header, frame) = decode(bytes)?;
        match (&mut self.rank, frame) {
            (None, Frame::Hello(fields)) => self.hello = Some((header, Hello::read(&fields)?)),
            (None, _) => return Err(Malformed::NoHello),
            (Some(rank), frame) => {
                let mut batch = rank.take(header, frame, self.shared.moment())?;
                self.shared.traces.take(&mut batch, Instant::now());
                self.shared.outbox.put(batch);
            }
        }
        add(&self.shared.counters.frames, 1);
        Ok(())
    }

    /// Finds out whose rank it is and answers it.
    async fn welcome(
        &mut self,
        connection: &AsyncFd<OwnedFd>,
        opener: &mut Opener,
        header: Header,
        hello: Hello,
    ) -> Result<(), Reason> {
        // Names of users may come over the network, and /proc of a dying process may take its time.
        let (shared, pid, uid) = (self.shared.clone(), opener.pid, opener.uid);
        let opener = Opener { pid, uid, handle: opener.handle.take() };
        let found = tokio::task::spawn_blocking(move || {
            let config = &shared.config;
            let process = Process::read(&config.proc, &shared.topology, &opener);
            let identity = identify(&hello, &process, &config.node, &config.kernel);
            identity.map(|identity| Member::new(identity, hello, process, &config.node, shared.moment().utc))
        });
        let mut member = found.await.map_err(|_| Reason::Unknown)?.map_err(|_| Reason::WrongJob)?;
        let (start, told) = self.shared.jobs().join(&member, self.number);
        member.start = start;
        self.shared.tell(told);
        self.key = Some(member.key());
        self.rank = Some(Rank::new(member, header, self.shared.counters.clone()));
        add(&self.shared.counters.connected, 1);
        self.is_connected = true;
        let answer = self.shared.answer();
        // A shim that can't take it goes on with its own settings.
        let _ = send(connection.get_ref(), &answer);
        Ok(())
    }

    /// The rank has gone: its end, and the job's if it was the last.
    fn left(&mut self, now: i64) {
        let (Some(rank), Some(key)) = (&self.rank, &self.key) else { return };
        let job_key = &rank.member().identity.job_key;
        let ending = rank.ended().unwrap_or("lost");
        let told = self.shared.jobs().leave(job_key, key, Some(self.number), now, ending);
        self.shared.tell(told.unwrap_or_default());
    }

    fn disconnected(&mut self) {
        if std::mem::take(&mut self.is_connected) {
            self.shared.counters.connected.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
