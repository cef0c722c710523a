//! How many connections the collector takes, how long each may take, and what a site may set of it.

use std::time::Duration;

use throughline_daemon::Failure;

/// Streams at once: twice a site of 8,000 nodes, should one collector be left of several.
pub const STREAMS_MAX: usize = 16 * 1024;

/// Connections at once, as streams: twice a site of 8,000 nodes, should one collector be left of several.
pub const CONNECTIONS_MAX: usize = STREAMS_MAX;

/// Most connections that a configuration may set: beyond this ephemeral ports and memory end first.
pub const CONNECTIONS_CEILING: usize = 256 * 1024;

/// Connections at once that have not proved who they are. When a site starts again, all its nodes connect within
/// seconds; a handshake takes a millisecond of CPU, so that more at once would only wait longer.
pub const HANDSHAKES_MAX: usize = 1024;

/// Time for TLS and the first bytes of HTTP/2: a few round trips, with a sender that is busy.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// A handshake is never dropped in favour of another one before this age: an honest one that just came has the time of
/// some hundred others.
pub const HANDSHAKE_GRACE: Duration = Duration::from_millis(200);

/// Connections of one certificate: an agent has one, a crawler two, a host may crawl several subnets, and after a cut
/// the server notices that the old ones are gone half a minute later.
pub const CONNECTIONS_PER_SENDER: usize = 16;

/// Streams of entries, and requests in progress, of one certificate over all its connections.
pub const STREAMS_PER_SENDER: usize = 16;

/// Streams of one connection: one for entries, one for a crawler's lease, and as many again that are just ending.
pub const STREAMS_PER_CONNECTION: u32 = 8;

/// A connection on which nobody ever opened a stream is closed after this time: senders open one at once.
pub const FIRST_STREAM_LIMIT: Duration = Duration::from_secs(30);

/// One whose last stream ended is closed after this time: longer than the longest lease, within which a crawler requests one
/// several times.
pub const IDLE_LIMIT: Duration = Duration::from_secs(900);

/// Longest message: an entry of a spool with its name. Also what one stream holds at most before it is decoded.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Longest list of headers of a request: ours have some 300 bytes.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Largest frame of HTTP/2: the smallest that the protocol allows (RFC 9113, 4.2).
pub const FRAME_BYTES_MAX: u32 = 16 << 10;

/// Bytes in flight on one connection: two full streams.
pub const CONNECTION_WINDOW_BYTES: u32 = 128 << 10;

/// Streams that a sender opened and reset before they were looked at (CVE-2023-44487), and streams that broke the
/// protocol: beyond this the connection is closed.
pub const RESET_STREAMS_MAX: usize = 32;

/// Open files that connections must leave: database, readers of the pages, logs, libraries.
pub const DESCRIPTORS_RESERVED: u64 = 1024;

/// Of a small limit of open files at least half is for connections.
const RESERVED_SHARE: u64 = 2;

/// With fewer connections than this a collector is of no use.
const CONNECTIONS_MIN: usize = 32;

/// Of those that fit, the part that may be in handshake.
const HANDSHAKES_SHARE: usize = 4;

/// What a site may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that have proved who they are.
    pub connections: usize,
    /// Connections that have not.
    pub handshakes: usize,
    /// Of `connections` those of one certificate.
    pub per_sender: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: CONNECTIONS_MAX, handshakes: HANDSHAKES_MAX, per_sender: CONNECTIONS_PER_SENDER }
    }
}

impl Limits {
    /// Open files that these limits need.
    #[must_use]
    pub fn descriptors(&self) -> u64 {
        (self.connections + self.handshakes) as u64 + DESCRIPTORS_RESERVED
    }

    /// The limits that fit into so many open files. Accepting never takes the descriptors of the rest of the process.
    ///
    /// # Errors
    /// Too few for a collector (69).
    pub fn within(self, descriptors: u64) -> Result<Self, Failure> {
        if descriptors >= self.descriptors() {
            return Ok(self);
        }
        let reserved = DESCRIPTORS_RESERVED.min(descriptors / RESERVED_SHARE);
        let all = usize::try_from(descriptors - reserved).unwrap_or(usize::MAX);
        let handshakes = self.handshakes.min(all / HANDSHAKES_SHARE);
        let connections = self.connections.min(all - handshakes);
        if connections < CONNECTIONS_MIN {
            return Err(Failure::unavailable(format!(
                "the limit of open files is {descriptors}, which leaves room for {connections} connections; raise it to \
                 {}: LimitNOFILE= in the unit, or `ulimit -n`",
                self.descriptors()
            )));
        }
        Ok(Self { connections, handshakes, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        let usual = Limits::default();
        assert_eq!(usual.within(usual.descriptors()).unwrap(), usual);
        for descriptors in [64, 256, 1024, 4096, 20_000] {
            let Ok(fits) = usual.within(descriptors) else {
                assert!(descriptors < 128, "{descriptors}");
                continue;
            };
            let taken = (fits.connections + fits.handshakes) as u64;
            assert!(
                descriptors - taken >= (descriptors / 2).min(DESCRIPTORS_RESERVED),
                "{descriptors}: {fits:?}"
            );
            assert!(fits.handshakes >= 16, "{descriptors}: {fits:?}");
        }
        let error = usual.within(40).unwrap_err().to_string();
        assert!(
            error.contains("LimitNOFILE=") && error.contains(&usual.descriptors().to_string()),
            "{error}"
        );
    }
}
