//! What an engine did and what it cost the fabric, as counts.

use throughline_infiniband::mad::MAD_BYTES;

/// Bytes around a MAD on a link (IBTA volume 1, chapters 7 and 9): LRH 8, BTH 12, DETH 8, ICRC 4, VCRC 2.
/// MADs within a subnet have no GRH.
pub const WIRE_OVERHEAD_BYTES: u64 = 8 + 12 + 8 + 4 + 2;
/// Bytes of one MAD on each link that it crosses.
pub const WIRE_BYTES: u64 = MAD_BYTES as u64 + WIRE_OVERHEAD_BYTES;

/// What an engine did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// MADs sent, with repetitions.
    pub sent: u64,
    /// MADs received.
    pub received: u64,
    /// Links that directed-route SMPs crossed, there and back. A MAD by LID does not say its way: 0.
    pub hops: u64,
    /// Repetitions.
    pub retries: u64,
    /// Attempts that were lost for sure: a later one of the same request was answered.
    pub lost: u64,
    /// Answers to an attempt that had been taken for lost.
    pub late: u64,
    /// Replies that said that their agent is busy.
    pub busy: u64,
    /// Requests that got no answer within all attempts.
    pub timeouts: u64,
    /// Requests that were not sent because their node was silent.
    pub spared: u64,
    /// MADs that queried silent nodes whether they are back.
    pub probes: u64,
    /// Replies to nothing outstanding: late or duplicate.
    pub unexpected: u64,
    /// Replies that can't be true: versions, modifier or contents are not those of an answer.
    pub rejected: u64,
    /// Replies that were refused by their agent.
    pub refused: u64,
    /// Requests that their agent sent elsewhere.
    pub redirected: u64,
    /// Sends and receives that failed.
    pub transport_failures: u64,
    /// Waits for the budget of the process, or while giving way.
    pub paced: u64,
    /// Nodes that are silent now.
    pub silent_nodes: u64,
}

impl Stats {
    /// Bytes on the link of the local port, both directions, headers included. Each further hop carries them again.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        (self.sent + self.received) * WIRE_BYTES
    }

    /// Bytes on all links that directed-route SMPs crossed; 0 for MADs by LID.
    #[must_use]
    pub fn hop_bytes(&self) -> u64 {
        self.hops * WIRE_BYTES
    }
}

impl std::fmt::Display for Stats {
    /// One line: traffic first, then what went wrong, where anything did.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sent, received, bytes) = (self.sent, self.received, self.wire_bytes());
        write!(f, "{sent} MADs sent, {received} received, {bytes} bytes on the local link")?;
        if self.hops > 0 {
            write!(f, ", {} bytes over all hops", self.hop_bytes())?;
        }
        let troubles = [
            (self.retries, "repeated"),
            (self.lost, "lost"),
            (self.late, "late"),
            (self.busy, "busy"),
            (self.timeouts, "requests unanswered"),
            (self.spared, "spared"),
            (self.probes, "probes of silent nodes"),
            (self.unexpected, "unexpected"),
            (self.rejected, "not plausible"),
            (self.refused, "refused"),
            (self.redirected, "redirected"),
            (self.transport_failures, "transport failures"),
            (self.paced, "waits for the budget"),
        ];
        troubles
            .iter()
            .filter(|(count, _)| *count > 0)
            .try_for_each(|(count, what)| write!(f, ", {count} {what}"))
    }
}
