//! What went on: counters of the receiver, one for each way in which something can fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use throughline_sample::admission::Rejection;

/// Declares an enumeration whose values have a name and count separately.
macro_rules! counted {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident => $text:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$inner])* $variant,)+ }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// A name for logs and labels.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

counted! {
    /// Why a message was refused.
    Malformed {
        /// Shorter than a header.
        Short => "short",
        /// Longer than any frame.
        TooLong => "too_long",
        /// Does not begin with the protocol's magic number.
        Magic => "magic",
        /// Another version of the protocol.
        Version => "version",
        /// A type that only the agent sends.
        Type => "type",
        /// The length in the header is not the message's.
        Length => "length",
        /// The body ends early or holds impossible values.
        Body => "body",
        /// A field has a wrong length, or a needed one is not there.
        Field => "field",
        /// Another frame before HELLO.
        NoHello => "no_hello",
        /// A second HELLO, or anything after BYE.
        Order => "order",
        /// A rank outside its world.
        Rank => "rank",
        /// Sent by another process than the one that connected: a forked child that has the descriptor.
        Sender => "sender",
        /// Well-formed, but its connection had sent too many that were not.
        GivenUp => "given_up",
    }
}

counted! {
    /// Why a connection was closed by the receiver or not taken.
    Reason {
        /// More connections than the limit.
        TooMany => "too_many_connections",
        /// A user has as many as are still free.
        TooManyOfUser => "too_many_connections_of_user",
        /// A user opens them faster than his quota.
        TooFast => "connection_rate_of_user",
        /// Too many malformed messages.
        Malformed => "malformed",
        /// No HELLO in time.
        Silent => "no_hello_in_time",
        /// The kernel did not say who it is.
        Unknown => "peer_unknown",
        /// It claims a job that its cgroup says is another.
        WrongJob => "job_contradicted_by_cgroup",
        /// accept(2) failed, mostly for want of file descriptors.
        Accept => "accept_failed",
    }
}

counted! {
    /// What a user may have a share or a rate of.
    Quota {
        /// Connections at once, of all users: nobody's fault alone.
        AllConnections => "connections_of_all",
        /// Connections at once.
        Connections => "connections",
        /// Connections a second.
        Connects => "connection_rate",
        /// HELLOs a second.
        Ranks => "rank_rate",
        /// Ranks without a connection that may come back.
        Ghosts => "lost_connections",
        /// Bytes that wait for the agent.
        Bytes => "bytes_waiting",
        /// Bytes of names.
        Names => "names",
        /// Names a second that were not reported on the node before.
        NewNames => "new_names",
        /// Bytes of traffic by operation and peer.
        Traffic => "traffic",
        /// Readings of performance variables a second.
        Pvars => "pvars",
        /// Rows a second.
        Rows => "rows",
        /// Rows a second of one job.
        JobRows => "rows_of_job",
        /// Trace records a second, or bytes of them that wait.
        Traces => "trace_records",
    }
}

/// Counters shared by all connections.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub frames: AtomicU64,
    pub connected: AtomicU64,
    pub records: AtomicU64,
    pub dropped: AtomicU64,
    pub dropped_traces: AtomicU64,
    pub lost_frames: AtomicU64,
    pub unknown_frames: AtomicU64,
    pub unknown_operations: AtomicU64,
    pub unknown_messages: AtomicU64,
    pub refused_threads: AtomicU64,
    pub missing_variables: AtomicU64,
    pub refused_regions: AtomicU64,
    pub mismatched_regions: AtomicU64,
    pub lost_rows: AtomicU64,
    pub unknown_names: AtomicU64,
    pub reclaimed: AtomicU64,
    pub unseen: AtomicU64,
    pub recovered: AtomicU64,
    pub unsaved: AtomicU64,
    pub quota_events: AtomicU64,
    pub unlisted_variables: AtomicU64,
    pub contested: AtomicU64,
    rejected: [AtomicU64; Rejection::ALL.len()],
    quotas: [AtomicU64; Quota::ALL.len()],
    unknown_places: Mutex<[BTreeMap<&'static str, u64>; 2]>,
    malformed: [AtomicU64; Malformed::ALL.len()],
    closed: [AtomicU64; Reason::ALL.len()],
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn malformed(&self, why: Malformed) {
        add(&self.malformed[why as usize], 1);
    }

    pub(crate) fn closed(&self, why: Reason) {
        add(&self.closed[why as usize], 1);
    }

    /// Counts records that may not be stored.
    pub(crate) fn rejected(&self, why: Rejection, records: u64) {
        if let Some(at) = Rejection::ALL.iter().position(|one| *one == why) {
            add(&self.rejected[at], records);
        }
    }

    /// Counts what a quota held up or left out.
    pub(crate) fn quota(&self, quota: Quota, amount: u64) {
        add(&self.quotas[quota as usize], amount);
    }

    fn places(&self) -> MutexGuard<'_, [BTreeMap<&'static str, u64>; 2]> {
        self.unknown_places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts why the GPUs and the adapter ports of a rank that has ended are not known.
    pub(crate) fn unknown_places(&self, reasons: [Option<&'static str>; 2]) {
        let mut counts = self.places();
        for (counts, reason) in counts.iter_mut().zip(reasons) {
            if let Some(reason) = reason {
                *counts.entry(reason).or_default() += 1;
            }
        }
    }

    pub(crate) fn status(&self) -> Status {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [unknown_gpus, unknown_ports] = self.places().clone();
        Status {
            connected: read(&self.connected),
            frames: read(&self.frames),
            records: read(&self.records),
            dropped_records: read(&self.dropped),
            dropped_trace_records: read(&self.dropped_traces),
            lost_frames: read(&self.lost_frames),
            unknown_frames: read(&self.unknown_frames),
            unknown_operations: read(&self.unknown_operations),
            unknown_messages: read(&self.unknown_messages),
            refused_threads: read(&self.refused_threads),
            missing_variables: read(&self.missing_variables),
            refused_regions: read(&self.refused_regions),
            mismatched_regions: read(&self.mismatched_regions),
            lost_rows: read(&self.lost_rows),
            unknown_names: read(&self.unknown_names),
            running_jobs: 0, // the receiver's to report, as are those over quota
            over_quota_users: 0,
            over_quota: Vec::new(),
            bypassed: Vec::new(),
            waiting_bytes: 0,
            unlisted_variables: read(&self.unlisted_variables),
            contested_claims: read(&self.contested),
            rejected: Rejection::ALL
                .iter()
                .zip(&self.rejected)
                .map(|(why, count)| (*why, read(count)))
                .collect(),
            quotas: Quota::ALL.iter().map(|quota| (*quota, read(&self.quotas[*quota as usize]))).collect(),
            reclaimed_ranks: read(&self.reclaimed),
            unseen_ends: read(&self.unseen),
            recovered_ends: read(&self.recovered),
            failed_saves: read(&self.unsaved),
            unknown_gpus,
            unknown_ports,
            malformed: Malformed::ALL
                .iter()
                .map(|why| (*why, read(&self.malformed[*why as usize])))
                .collect(),
            closed: Reason::ALL.iter().map(|why| (*why, read(&self.closed[*why as usize]))).collect(),
        }
    }
}

/// The receiver's figures at one moment. Counts are since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Ranks now connected that have said who they are.
    pub connected: u64,
    /// Frames taken.
    pub frames: u64,
    /// Records handed on.
    pub records: u64,
    /// Records dropped because the agent did not take them in time.
    pub dropped_records: u64,
    /// Records of trace mode beyond one of its limits.
    pub dropped_trace_records: u64,
    /// Frames that shims could not send: gaps in their numbering.
    pub lost_frames: u64,
    /// Frames of types that this version does not know.
    pub unknown_frames: u64,
    /// Cells of operations that this version does not know.
    pub unknown_operations: u64,
    /// Messages whose peer shims could not name.
    pub unknown_messages: u64,
    /// Threads beyond the shims' limit, whose calls are not counted.
    pub refused_threads: u64,
    /// Performance variables requested that ranks do not have.
    pub missing_variables: u64,
    /// Entries into regions beyond the shims' limits, counted in the region around them.
    pub refused_regions: u64,
    /// Ends of regions that were not the innermost one.
    pub mismatched_regions: u64,
    /// Calls that shims had no memory to count.
    pub lost_rows: u64,
    /// Cells and regions whose number no frame of names had explained.
    pub unknown_names: u64,
    /// Jobs with a rank that runs here, connected or not.
    pub running_jobs: u64,
    /// Ranks known from an earlier agent that still ran.
    pub reclaimed_ranks: u64,
    /// Ranks that ended while no agent listened.
    pub unseen_ends: u64,
    /// Ranks whose last totals came from the file that they left.
    pub recovered_ends: u64,
    /// Times that what is known of ranks could not be saved for the next agent.
    pub failed_saves: u64,
    /// Ended ranks whose GPUs never became known, by reason.
    pub unknown_gpus: BTreeMap<&'static str, u64>,
    /// Ended ranks whose adapter ports never became known, by reason.
    pub unknown_ports: BTreeMap<&'static str, u64>,
    /// Users who are over a quota now.
    pub over_quota_users: u64,
    /// The first of them.
    pub over_quota: Vec<OverQuota>,
    /// Programs of the last hour whose MPI calls pass by the shim, with what to do, for people.
    pub bypassed: Vec<String>,
    /// Bytes of records that wait for the agent.
    pub waiting_bytes: u64,
    /// Readings of performance variables that the agent's list does not name.
    pub unlisted_variables: u64,
    /// Claims of a job that by the kernel is another user's.
    pub contested_claims: u64,
    /// Records that were not admitted, by reason.
    pub rejected: Vec<(Rejection, u64)>,
    /// How often a quota held something up or left something out.
    pub quotas: Vec<(Quota, u64)>,
    /// Refused messages by reason.
    pub malformed: Vec<(Malformed, u64)>,
    /// Closed or refused connections by reason.
    pub closed: Vec<(Reason, u64)>,
}

impl Status {
    /// Records that were not admitted for one reason.
    #[must_use]
    pub fn rejected_for(&self, why: Rejection) -> u64 {
        self.rejected.iter().find(|(reason, _)| *reason == why).map_or(0, |(_, count)| *count)
    }

    /// How often one quota held something up or left something out.
    #[must_use]
    pub fn held_up_by(&self, quota: Quota) -> u64 {
        self.quotas.iter().find(|(one, _)| *one == quota).map_or(0, |(_, count)| *count)
    }

    /// All refused messages.
    #[must_use]
    pub fn malformed_messages(&self) -> u64 {
        self.malformed.iter().map(|(_, count)| count).sum()
    }

    /// All connections closed or refused by the receiver.
    #[must_use]
    pub fn closed_connections(&self) -> u64 {
        self.closed.iter().map(|(_, count)| count).sum()
    }

    /// How many connections were closed for one reason.
    #[must_use]
    pub fn closed_for(&self, why: Reason) -> u64 {
        self.closed.iter().find(|(reason, _)| *reason == why).map_or(0, |(_, count)| *count)
    }
}

/// A user who is over a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverQuota {
    /// User id.
    pub uid: u32,
    /// Name, empty where he has none here.
    pub user: String,
    /// Which quotas, by their names.
    pub quotas: Vec<&'static str>,
    /// How often something of his was held up or left out since it began.
    pub times: u64,
}
