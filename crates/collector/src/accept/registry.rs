//! All connections of the collector, and which one goes when there are too many.
//!
//! Two stages. In handshake nobody has proved anything: there the address with the most connections gives way, so that
//! one host that opens thousands only takes from itself. Afterwards a connection counts against its sender: the name
//! in its certificate, or the local user.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{
    CONNECTION_LIMIT, CONNECTIONS_REJECTED, OPEN_CONNECTIONS, PENDING_HANDSHAKES,
};
use tokio_util::sync::CancellationToken;

use crate::SOURCE;
use crate::limits::{FIRST_STREAM_LIMIT, HANDSHAKE_GRACE, IDLE_LIMIT, Limits, STREAMS_PER_SENDER};

/// Why a connection was refused or closed, in the place of a metric's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many in handshake: this one was the oldest of the address that has most of them.
    HandshakesFull,
    /// No handshake within its time.
    HandshakeTime,
    /// Broken off, or no certificate of our authority.
    Handshake,
    /// It does not use HTTP/2.
    NotHttp2,
    /// Too many of one sender.
    SenderFull,
    /// Too many of all.
    Full,
    /// Nobody opened a stream for a long time.
    Idle,
    /// No descriptor left.
    Descriptors,
}

impl Refusal {
    pub fn name(self) -> &'static str {
        match self {
            Refusal::HandshakesFull => "handshakes_full",
            Refusal::HandshakeTime => "handshake_time",
            Refusal::Handshake => "handshake_failed",
            Refusal::NotHttp2 => "not_http2",
            Refusal::SenderFull => "sender_full",
            Refusal::Full => "connections_full",
            Refusal::Idle => "connection_idle",
            Refusal::Descriptors => "no_descriptors",
        }
    }
}

/// Where a connection comes from, before anything is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// A host, or a network of IPv6: a host has all addresses of its /64.
    Address(IpAddr),
    /// A user of this machine.
    User(Option<u32>),
}

impl Origin {
    pub fn of(address: IpAddr) -> Self {
        Origin::Address(match address.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
            ip => ip,
        })
    }
}

/// Whose connection it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SenderKey {
    /// The first name of its certificate.
    Name(String),
    /// A user of this machine who has proved nothing but that; a token may come with each request.
    User(Option<u32>),
    /// Users of this machine who may write.
    Trusted,
}

struct Pending {
    origin: Origin,
    since: Instant,
    drop: CancellationToken,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Open {
    key: SenderKey,
    began: Instant,
    streams: AtomicUsize,
    had_streams: AtomicUsize,
    /// Milliseconds from `began` to the end of the last stream.
    quiet_since: AtomicU64,
    /// Milliseconds from `began` to the last bytes received.
    last_read: AtomicU64,
    /// Cancelled when it has to go.
    pub drop: CancellationToken,
}

impl Open {
    fn age(&self) -> Duration {
        self.began.elapsed()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.age().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that bytes came.
    pub fn note_read(&self) {
        self.last_read.store(self.now(), Relaxed);
    }

    fn quiet(&self) -> Option<Duration> {
        let is_quiet = self.streams.load(Relaxed) == 0;
        is_quiet.then(|| self.age().saturating_sub(Duration::from_millis(self.quiet_since.load(Relaxed))))
    }

    fn unread(&self) -> Duration {
        self.age().saturating_sub(Duration::from_millis(self.last_read.load(Relaxed)))
    }

    /// The higher, the sooner it goes: first those without a stream, then those that sent nothing for longest.
    fn dispensable(&self) -> (bool, Duration) {
        self.quiet().map_or_else(|| (false, self.unread()), |quiet| (true, quiet))
    }

    fn is_idle(&self) -> bool {
        let limit = if self.had_streams.load(Relaxed) == 0 { FIRST_STREAM_LIMIT } else { IDLE_LIMIT };
        self.quiet().is_some_and(|quiet| quiet >= limit)
    }
}

#[derive(Default)]
struct Sender {
    connections: Vec<u64>,
    streams: usize,
}

#[derive(Default)]
struct Inner {
    next: u64,
    pending: BTreeMap<u64, Pending>,
    open: HashMap<u64, Arc<Open>>,
    senders: HashMap<SenderKey, Sender>,
}

/// All connections.
pub(crate) struct Registry {
    limits: Limits,
    metrics: SelfMetrics,
    inner: Mutex<Inner>,
}

/// Room for one handshake; given back when dropped.
pub(crate) struct Handshake {
    registry: Arc<Registry>,
    number: u64,
    /// Cancelled when another one takes its place.
    pub drop: CancellationToken,
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut inner = self.registry.lock();
        inner.pending.remove(&self.number);
        self.registry.show(&inner);
    }
}

/// An open connection's place; given back when dropped.
pub(crate) struct Place {
    registry: Arc<Registry>,
    number: u64,
    pub open: Arc<Open>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.registry.lock();
        inner.open.remove(&self.number);
        inner.leave(&self.open.key, |sender| sender.connections.retain(|number| *number != self.number));
        self.registry.show(&inner);
    }
}

/// A stream, or a request in progress; given back when dropped.
pub(crate) struct StreamPlace {
    registry: Arc<Registry>,
    open: Arc<Open>,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.open.quiet_since.store(self.open.now(), Relaxed);
        self.open.streams.fetch_sub(1, Relaxed);
        let mut inner = self.registry.lock();
        inner.leave(&self.open.key, |sender| sender.streams = sender.streams.saturating_sub(1));
    }
}

impl Inner {
    fn leave(&mut self, key: &SenderKey, change: impl FnOnce(&mut Sender)) {
        if let Some(sender) = self.senders.get_mut(key) {
            change(sender);
            if sender.connections.is_empty() && sender.streams == 0 {
                self.senders.remove(key);
            }
        }
    }

    /// The oldest handshake of the origin that has most of them.
    fn first_to_go(&self) -> Option<u64> {
        let mut origins: HashMap<Origin, (usize, u64)> = HashMap::new();
        for (number, pending) in &self.pending {
            origins.entry(pending.origin).or_insert((0, *number)).0 += 1;
        }
        origins
            .values()
            .max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)))
            .map(|(_, oldest)| *oldest)
    }
}

impl Registry {
    pub fn new(limits: Limits, metrics: SelfMetrics) -> Arc<Self> {
        #[allow(clippy::cast_precision_loss)] // Far below 2^53.
        metrics.set(SOURCE, &CONNECTION_LIMIT, limits.connections as f64);
        let registry = Self { limits, metrics, inner: Mutex::default() };
        registry.show(&registry.lock());
        Arc::new(registry)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, inner: &Inner) {
        #[allow(clippy::cast_precision_loss)] // Far below 2^53.
        let count = |number: usize| number as f64;
        self.metrics.set(SOURCE, &PENDING_HANDSHAKES, count(inner.pending.len()));
        self.metrics.set(SOURCE, &OPEN_CONNECTIONS, count(inner.open.len()));
    }

    /// Counts a refusal.
    pub fn refused(&self, why: Refusal) {
        self.metrics.add((SOURCE, why.name()), &CONNECTIONS_REJECTED, 1);
    }

    /// Room for another handshake, taken from the origin that has most where there is none; or after what time to try
    /// again.
    pub fn handshake(self: &Arc<Self>, origin: Origin) -> Result<Handshake, Duration> {
        let mut inner = self.lock();
        if inner.pending.len() >= self.limits.handshakes
            && let Some(number) = inner.first_to_go()
        {
            let age = inner.pending[&number].since.elapsed();
            if age < HANDSHAKE_GRACE {
                return Err(HANDSHAKE_GRACE - age);
            }
            self.drop_pending(&mut inner, number, Refusal::HandshakesFull);
        }
        let (number, drop) = (inner.next, CancellationToken::new());
        inner.next += 1;
        inner.pending.insert(number, Pending { origin, since: Instant::now(), drop: drop.clone() });
        self.show(&inner);
        std::mem::drop(inner);
        Ok(Handshake { registry: self.clone(), number, drop })
    }

    fn drop_pending(&self, inner: &mut Inner, number: u64, why: Refusal) {
        if let Some(pending) = inner.pending.remove(&number) {
            pending.drop.cancel();
            self.refused(why);
        }
    }

    /// Gives up one handshake, as no descriptor is left.
    pub fn drop_one_handshake(&self) {
        let mut inner = self.lock();
        if let Some(number) = inner.first_to_go() {
            self.drop_pending(&mut inner, number, Refusal::Descriptors);
        }
    }

    fn share(&self, key: &SenderKey) -> usize {
        match key {
            SenderKey::Name(_) | SenderKey::User(_) => self.limits.per_sender.min(self.limits.connections),
            // Other machines' connections have the other half.
            SenderKey::Trusted => self.limits.connections.div_ceil(2),
        }
    }

    /// The place of a connection that has proved who it is. A sender over its share loses its least useful connection;
    /// where all places are taken, one without a stream goes.
    pub fn open(self: &Arc<Self>, handshake: Handshake, key: SenderKey) -> Result<Place, Refusal> {
        drop(handshake);
        let mut inner = self.lock();
        let Inner { senders, open, .. } = &mut *inner;
        let own = senders.get(&key).map_or(&[][..], |sender| &sender.connections);
        if own.len() >= self.share(&key) {
            let least =
                own.iter().filter_map(|number| open.get(number)).filter(|open| !open.drop.is_cancelled());
            if let Some(least) = least.max_by_key(|open| open.dispensable()) {
                least.drop.cancel();
                self.refused(Refusal::SenderFull);
            }
        } else if open.len() >= self.limits.connections {
            let live = open.values().filter(|open| !open.drop.is_cancelled());
            let quiet = live.max_by_key(|open| open.dispensable()).filter(|open| open.quiet().is_some());
            let Some(quiet) = quiet else { return Err(Refusal::Full) };
            quiet.drop.cancel();
            self.refused(Refusal::Full);
        }
        let number = inner.next;
        inner.next += 1;
        let open = Arc::new(Open {
            key: key.clone(),
            began: Instant::now(),
            streams: AtomicUsize::new(0),
            had_streams: AtomicUsize::new(0),
            quiet_since: AtomicU64::new(0),
            last_read: AtomicU64::new(0),
            drop: CancellationToken::new(),
        });
        inner.open.insert(number, open.clone());
        inner.senders.entry(key).or_default().connections.push(number);
        self.show(&inner);
        drop(inner);
        Ok(Place { registry: self.clone(), number, open })
    }

    /// The place of a stream; `None` where its sender has too many.
    pub fn stream(self: &Arc<Self>, open: &Arc<Open>) -> Option<StreamPlace> {
        let mut inner = self.lock();
        let sender = inner.senders.entry(open.key.clone()).or_default();
        if open.key != SenderKey::Trusted && sender.streams >= STREAMS_PER_SENDER {
            return None;
        }
        sender.streams += 1;
        drop(inner);
        open.streams.fetch_add(1, Relaxed);
        open.had_streams.store(1, Relaxed);
        Some(StreamPlace { registry: self.clone(), open: open.clone() })
    }

    /// Closes connections without a stream that are beyond their time.
    pub fn close_idle(&self) {
        let inner = self.lock();
        for open in inner.open.values().filter(|open| !open.drop.is_cancelled() && open.is_idle()) {
            open.drop.cancel();
            self.refused(Refusal::Idle);
        }
    }

    /// Closes all.
    pub fn close_all(&self) {
        self.lock().open.values().for_each(|open| open.drop.cancel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(connections: usize, handshakes: usize, per_sender: usize) -> (Arc<Registry>, SelfMetrics) {
        let metrics = SelfMetrics::default();
        (Registry::new(Limits { connections, handshakes, per_sender }, metrics.clone()), metrics)
    }

    fn from(last: u8) -> Origin {
        Origin::of([10, 0, 0, last].into())
    }

    fn name(text: &str) -> SenderKey {
        SenderKey::Name(text.to_owned())
    }

    fn open(registry: &Arc<Registry>, who: &str) -> Result<Place, Refusal> {
        registry.open(registry.handshake(from(1)).ok().unwrap(), name(who))
    }

    #[test]
    fn the_address_with_most_handshakes_gives_way() {
        let (registry, metrics) = registry(10, 4, 2);
        let many: Vec<_> = (0..3).map(|_| registry.handshake(from(1)).ok().unwrap()).collect();
        let other = registry.handshake(from(2)).ok().unwrap();
        let wait = registry.handshake(from(3)).err().unwrap();
        assert!(wait <= HANDSHAKE_GRACE && many.iter().all(|m| !m.drop.is_cancelled()));
        std::thread::sleep(wait + Duration::from_millis(5));
        let third = registry.handshake(from(3)).ok().unwrap();
        let dropped: Vec<bool> = many.iter().map(|m| m.drop.is_cancelled()).collect();
        assert_eq!(dropped, [true, false, false], "the oldest of the one who has most");
        assert!(!other.drop.is_cancelled() && !third.drop.is_cancelled());
        assert_eq!(metrics.get((SOURCE, "handshakes_full"), &CONNECTIONS_REJECTED), Some(1.0));
        assert_eq!(metrics.get(SOURCE, &PENDING_HANDSHAKES), Some(4.0));
        drop((many, other, third));
        assert_eq!(metrics.get(SOURCE, &PENDING_HANDSHAKES), Some(0.0));
    }

    #[test]
    fn a_host_has_all_addresses_of_its_network() {
        let one = Origin::of("2001:db8::1".parse().unwrap());
        assert_eq!(one, Origin::of("2001:db8::ffff:2".parse().unwrap()));
        assert_ne!(one, Origin::of("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(Origin::of("::ffff:10.0.0.1".parse().unwrap()), from(1));
    }

    #[test]
    fn a_sender_over_its_share_loses_a_connection_of_its_own() {
        let (registry, metrics) = registry(10, 4, 2);
        let stranger = open(&registry, "b").ok().unwrap();
        let busy = open(&registry, "a").ok().unwrap();
        let _stream = registry.stream(&busy.open).unwrap();
        let quiet = open(&registry, "a").ok().unwrap();
        let third = open(&registry, "a").ok().unwrap();
        assert!(quiet.open.drop.is_cancelled(), "the one without a stream");
        assert!(!busy.open.drop.is_cancelled() && !stranger.open.drop.is_cancelled());
        assert_eq!(metrics.get((SOURCE, "sender_full"), &CONNECTIONS_REJECTED), Some(1.0));
        drop((quiet, third, busy, stranger));
        assert_eq!(metrics.get(SOURCE, &OPEN_CONNECTIONS), Some(0.0));
    }

    #[test]
    fn where_all_places_are_taken_one_without_a_stream_goes() {
        let (registry, _) = registry(2, 4, 2);
        let quiet = open(&registry, "a").ok().unwrap();
        let busy = open(&registry, "b").ok().unwrap();
        let _stream = registry.stream(&busy.open).unwrap();
        let third = open(&registry, "c").ok().unwrap();
        assert!(quiet.open.drop.is_cancelled() && !busy.open.drop.is_cancelled());
        drop(quiet);
        let _stream = registry.stream(&third.open).unwrap();
        assert_eq!(open(&registry, "d").err(), Some(Refusal::Full));
    }

    #[test]
    fn streams_of_a_sender_are_bounded_over_all_its_connections() {
        let (registry, _) = registry(10, 4, 4);
        let places: Vec<_> = (0..2).map(|_| open(&registry, "a").ok().unwrap()).collect();
        let mut streams: Vec<_> =
            (0..STREAMS_PER_SENDER).map(|n| registry.stream(&places[n % 2].open).unwrap()).collect();
        assert!(registry.stream(&places[0].open).is_none());
        streams.pop();
        assert!(registry.stream(&places[1].open).is_some());
        let other = open(&registry, "b").ok().unwrap();
        assert!(registry.stream(&other.open).is_some());
        drop((streams, places, other));
        assert!(registry.lock().senders.is_empty());
    }
}
