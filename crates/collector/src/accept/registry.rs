//! All connections of the collector, and which one goes when there are too many: [`Places`] with the policies of this role.
//!
//! Two stages. In handshake nobody has proved anything: there the address with the most connections gives way, so that
//! one host that opens thousands only takes from itself. Afterwards a connection counts against its sender: the name
//! in its certificate, or the local user.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use throughline_daemon::SelfMetrics;
use throughline_daemon::connections::{
    CountGuard, Counts, EvictionCause, GivesWay, LastBytes, Place, Places, PlacesFullError, Usefulness,
};
use throughline_sample::catalogue::{
    CONNECTION_LIMIT, CONNECTIONS_REJECTED, Metric, OPEN_CONNECTIONS, PENDING_HANDSHAKES,
};

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

/// What an open connection does: its streams, and when bytes last came.
#[derive(Debug)]
pub(crate) struct Open {
    began: Instant,
    streams: AtomicUsize,
    had_streams: AtomicBool,
    /// Milliseconds from `began` to the end of the last stream.
    quiet_since: AtomicU64,
    /// Milliseconds from `began` to the last bytes received.
    last_read: AtomicU64,
}

impl Open {
    fn new() -> Self {
        Open {
            began: Instant::now(),
            streams: AtomicUsize::new(0),
            had_streams: AtomicBool::new(false),
            quiet_since: AtomicU64::new(0),
            last_read: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that bytes came.
    pub fn note_read(&self) {
        self.last_read.store(self.now(), Relaxed);
    }

    fn since(&self, milliseconds: &AtomicU64) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(milliseconds.load(Relaxed)))
    }

    fn quiet(&self) -> Option<Duration> {
        (self.streams.load(Relaxed) == 0).then(|| self.since(&self.quiet_since))
    }

    fn is_idle(&self) -> bool {
        let limit = if self.had_streams.load(Relaxed) { IDLE_LIMIT } else { FIRST_STREAM_LIMIT };
        self.quiet().is_some_and(|quiet| quiet >= limit)
    }
}

/// First those without a stream go, then those that sent nothing for longest.
impl Usefulness for Open {
    type Rank = Reverse<(bool, Duration)>;

    fn rank(&self) -> Self::Rank {
        Reverse(self.quiet().map_or_else(|| (false, self.since(&self.last_read)), |quiet| (true, quiet)))
    }

    fn is_spare(&self) -> bool {
        self.quiet().is_some()
    }
}

/// Room for one handshake.
pub(crate) type Handshake = Place<Origin>;

/// An open connection's place.
pub(crate) type OpenPlace = Place<SenderKey, Open>;

/// A stream, or a request in progress; given back when dropped.
pub(crate) struct StreamPlace {
    open: Arc<Open>,
    _counted: CountGuard<SenderKey>,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.open.quiet_since.store(self.open.now(), Relaxed);
        self.open.streams.fetch_sub(1, Relaxed);
    }
}

/// All connections.
pub(crate) struct Registry {
    limits: Limits,
    metrics: SelfMetrics,
    handshakes: Arc<Places<Origin>>,
    open: Arc<Places<SenderKey, Open>>,
    streams: Arc<Counts<SenderKey>>,
}

impl Registry {
    pub fn new(limits: Limits, metrics: SelfMetrics) -> Arc<Self> {
        #[allow(clippy::cast_precision_loss)] // Far below 2^53.
        metrics.set(SOURCE, &CONNECTION_LIMIT, limits.connections as f64);
        let shown = |metric: &'static Metric| {
            let metrics = metrics.clone();
            #[allow(clippy::cast_precision_loss)] // Far below 2^53.
            move |count: usize| metrics.set(SOURCE, metric, count as f64)
        };
        let oldest = GivesWay::OfGreediest(HANDSHAKE_GRACE);
        let handshakes = Places::new(limits.handshakes, oldest, shown(&PENDING_HANDSHAKES));
        let open = Places::new(limits.connections, GivesWay::Spare, shown(&OPEN_CONNECTIONS));
        Arc::new(Self { limits, handshakes, open, streams: Counts::new(usize::MAX), metrics })
    }

    /// Counts a refusal.
    pub fn refused(&self, why: Refusal) {
        self.metrics.add((SOURCE, why.name()), &CONNECTIONS_REJECTED, 1);
    }

    /// Room for another handshake, taken from the origin that has most where there is none; or after what time to try
    /// again.
    pub fn handshake(&self, origin: Origin) -> Result<Handshake, Duration> {
        match self.handshakes.enter(&origin, usize::MAX, LastBytes::default()) {
            Ok((handshake, evicted)) => {
                if evicted.is_some() {
                    self.refused(Refusal::HandshakesFull);
                }
                Ok(handshake)
            }
            Err(PlacesFullError(wait)) => Err(wait.unwrap_or(HANDSHAKE_GRACE)),
        }
    }

    /// Gives up one handshake, as no descriptor is left.
    pub fn drop_one_handshake(&self) {
        if self.handshakes.evict_one() {
            self.refused(Refusal::Descriptors);
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
    pub fn open(&self, handshake: Handshake, key: &SenderKey) -> Result<OpenPlace, Refusal> {
        drop(handshake);
        let entered = self.open.enter(key, self.share(key), Open::new());
        let (place, evicted) = entered.map_err(|_: PlacesFullError| Refusal::Full)?;
        match evicted {
            Some(EvictionCause::OfPeer) => self.refused(Refusal::SenderFull),
            Some(EvictionCause::OfAll) => self.refused(Refusal::Full),
            None => {}
        }
        Ok(place)
    }

    /// The place of a stream; `None` where its sender has too many.
    pub fn stream(&self, key: &SenderKey, open: &Arc<Open>) -> Option<StreamPlace> {
        let each = if *key == SenderKey::Trusted { usize::MAX } else { STREAMS_PER_SENDER };
        let counted = self.streams.enter(key, each)?;
        open.streams.fetch_add(1, Relaxed);
        open.had_streams.store(true, Relaxed);
        Some(StreamPlace { open: open.clone(), _counted: counted })
    }

    /// Closes connections without a stream that are beyond their time.
    pub fn close_idle(&self) {
        for _ in 0..self.open.evict_where(Open::is_idle) {
            self.refused(Refusal::Idle);
        }
    }

    /// Closes all.
    pub fn close_all(&self) {
        self.open.evict_where(|_| true);
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

    fn open(registry: &Arc<Registry>, who: &str) -> Result<OpenPlace, Refusal> {
        registry.open(registry.handshake(from(1)).unwrap(), &name(who))
    }

    #[test]
    fn the_address_with_most_handshakes_gives_way() {
        let (registry, metrics) = registry(10, 4, 2);
        let many: Vec<_> = (0..3).map(|_| registry.handshake(from(1)).ok().unwrap()).collect();
        let other = registry.handshake(from(2)).ok().unwrap();
        let wait = registry.handshake(from(3)).err().unwrap();
        assert!(wait <= HANDSHAKE_GRACE && many.iter().all(|m| !m.closed().is_cancelled()));
        std::thread::sleep(wait + Duration::from_millis(5));
        let third = registry.handshake(from(3)).ok().unwrap();
        let dropped: Vec<bool> = many.iter().map(|m| m.closed().is_cancelled()).collect();
        assert_eq!(dropped, [true, false, false], "the oldest of the one who has most");
        assert!(!other.closed().is_cancelled() && !third.closed().is_cancelled());
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
        let _stream = registry.stream(busy.peer(), busy.used()).unwrap();
        let quiet = open(&registry, "a").ok().unwrap();
        let third = open(&registry, "a").ok().unwrap();
        assert!(quiet.closed().is_cancelled(), "the one without a stream");
        assert!(!busy.closed().is_cancelled() && !stranger.closed().is_cancelled());
        assert_eq!(metrics.get((SOURCE, "sender_full"), &CONNECTIONS_REJECTED), Some(1.0));
        drop((quiet, third, busy, stranger));
        assert_eq!(metrics.get(SOURCE, &OPEN_CONNECTIONS), Some(0.0));
    }

    #[test]
    fn where_all_places_are_taken_one_without_a_stream_goes() {
        let (registry, _) = registry(2, 4, 2);
        let quiet = open(&registry, "a").ok().unwrap();
        let busy = open(&registry, "b").ok().unwrap();
        let _stream = registry.stream(busy.peer(), busy.used()).unwrap();
        let third = open(&registry, "c").ok().unwrap();
        assert!(quiet.closed().is_cancelled() && !busy.closed().is_cancelled());
        drop(quiet);
        let _stream = registry.stream(third.peer(), third.used()).unwrap();
        assert_eq!(open(&registry, "d").err(), Some(Refusal::Full));
    }

    #[test]
    fn streams_of_a_sender_are_bounded_over_all_its_connections() {
        let (registry, _) = registry(10, 4, 4);
        let places: Vec<_> = (0..2).map(|_| open(&registry, "a").ok().unwrap()).collect();
        let mut streams: Vec<_> = (0..STREAMS_PER_SENDER)
            .map(|n| registry.stream(places[n % 2].peer(), places[n % 2].used()).unwrap())
            .collect();
        assert!(registry.stream(places[0].peer(), places[0].used()).is_none());
        streams.pop();
        assert!(registry.stream(places[1].peer(), places[1].used()).is_some());
        let other = open(&registry, "b").ok().unwrap();
        assert!(registry.stream(other.peer(), other.used()).is_some());
        drop((streams, places, other));
        let again = open(&registry, "a").ok().unwrap();
        let streams = (0..STREAMS_PER_SENDER).map(|_| registry.stream(again.peer(), again.used()));
        assert!(streams.collect::<Option<Vec<_>>>().is_some(), "all were given back");
    }
}
