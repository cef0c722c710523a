//! One connected rank: turns its frames into records.
//!
//! Pure but for the shared counters: time and identity come from the caller, so tests feed recorded frames.

use crate::account_frame::Account;
use crate::devices_frame::{Devices, devices};
use crate::frame::{Bin, Cell, Frame, Header, Name, Peer, PeerKind, Variable, number};
use crate::ledger::Report;
use crate::member::Member;
use crate::moment::Moment;
use crate::names::{NameError, Names};
use crate::open_calls::OpenCalls;
use crate::operations::operation_name;
use crate::quota::{Quotas, User};
use crate::shim_status::ShimStatus;
use crate::status::{Counters, Malformed, Quota, add};
use crate::variables::{AllowList, ELEMENTS_MAX, Variables};
use crate::window::{Window, WindowLimits};
use std::sync::Arc;
use throughline_sample::admission::Rejection;
use throughline_sample::catalogue::{MPI_BYTES, MPI_CALLS, PEER_BYTES, PEER_MESSAGES};
use throughline_sample::wire::{
    Batch, JobComm, JobSetting, MpiOpCell, MpiPeerCell, MpiPvarSample, MpiRankBin, MpiRankPeers,
};

/// Name of the source of counts taken around calls.
const SOURCE: &str = "pmpi";
/// Name of the source of messages that really went.
const WIRE_SOURCE: &str = "pml";
/// Name of the source of performance variables.
const VARIABLE_SOURCE: &str = "mpi_t";
/// Longest plausible way of a message through the socket; a larger difference of clocks is a time namespace.
const DELAY_NANOSECONDS: i64 = 60_000_000_000;
/// Most members of a communicator, and most communicators: what an `integer` column holds.
const COMM_MAX: u32 = i32::MAX as u32;

/// What a rank's frames are judged by.
#[derive(Clone, Debug)]
pub(crate) struct Judges {
    pub counters: Arc<Counters>,
    pub quotas: Arc<Quotas>,
    pub user: Arc<User>,
    pub variables: AllowList,
    pub window: WindowLimits,
}

/// A rank's state between its frames.
#[derive(Debug)]
pub(crate) struct Rank {
    job_key: String,
    rank: u32,
    world_size: u32,
    /// Its epoch, in its records.
    start: i64,
    next_sequence: u32,
    /// What its CLOCK_MONOTONIC is behind the agent's: 0 but in a time namespace.
    behind: i64,
    ended: Option<&'static str>,
    status: ShimStatus,
    names: Names,
    variables: Variables,
    /// The record after which nothing follows in a trace has come.
    trace_ended: bool,
    /// Traffic of the frame taken last, until somebody takes it.
    traffic: Option<Report>,
    open_calls: OpenCalls,
    /// Of the frame taken last, until somebody takes it.
    account: Option<Box<Account>>,
    devices: Option<Box<Devices>>,
    window: Window,
    counters: Arc<Counters>,
    user: Arc<User>,
}

/// Which rank it is, in its records.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub job_key: String,
    pub rank: u32,
    pub world_size: u32,
    /// Its epoch.
    pub start: i64,
    /// When its process started, UTC nanoseconds, as far as it is known.
    pub process_start: Option<i64>,
    pub status: ShimStatus,
}

impl From<&Member> for Origin {
    fn from(member: &Member) -> Self {
        Self {
            job_key: member.identity.job_key.clone(),
            rank: member.hello.rank,
            world_size: member.hello.world_size,
            start: member.start,
            process_start: member.process_start,
            status: member.status.clone(),
        }
    }
}

impl Rank {
    /// A rank whose HELLO had this header and came then.
    pub(crate) fn new(member: &Member, header: Header, came: Moment, judges: Judges) -> Self {
        Self::with(&member.into(), header, behind(header, came), came, judges)
    }

    /// A rank that has ended and left its frames, beginning with a HELLO of this header.
    pub(crate) fn left(origin: &Origin, header: Header, now: Moment, judges: Judges) -> Self {
        // How old they are nobody knows: the sender's own two clocks say how they are apart.
        let apart = |realtime: i64, monotonic: i64| realtime.saturating_sub(monotonic);
        let behind = apart(header.realtime, header.monotonic).saturating_sub(apart(now.utc, now.monotonic));
        let behind = if behind.saturating_abs() < DELAY_NANOSECONDS { 0 } else { behind };
        Self::with(origin, header, behind, now, judges)
    }

    fn with(origin: &Origin, header: Header, behind: i64, came: Moment, judges: Judges) -> Self {
        let Judges { counters, quotas, user, variables, window } = judges;
        Self {
            job_key: origin.job_key.clone(),
            rank: origin.rank,
            world_size: origin.world_size,
            start: origin.start,
            next_sequence: header.sequence.wrapping_add(1),
            behind,
            ended: None,
            status: origin.status.clone(),
            names: Names::new(&quotas, &user),
            variables: Variables::new(variables),
            trace_ended: false,
            traffic: None,
            open_calls: OpenCalls::default(),
            account: None,
            devices: None,
            window: Window::new(origin.process_start.unwrap_or(came.utc), window),
            counters,
            user,
        }
    }

    /// When a frame was sent, UTC nanoseconds.
    pub(crate) fn sent(&self, header: Header, now: Moment) -> i64 {
        header.monotonic.saturating_add(now.utc.saturating_sub(now.monotonic)).saturating_add(self.behind)
    }

    /// How it ended, once it has said so.
    pub(crate) fn ended(&self) -> Option<&'static str> {
        self.ended
    }

    /// Where its time went, if the last frame said so.
    pub(crate) fn take_account(&mut self) -> Option<Account> {
        self.account.take().map(|account| *account)
    }

    /// The device files that it has open, if the last frame said so; times are UTC.
    pub(crate) fn take_devices(&mut self) -> Option<Devices> {
        self.devices.take().map(|devices| *devices)
    }

    pub(crate) fn number(&self) -> u32 {
        self.rank
    }

    pub(crate) fn job_key(&self) -> &str {
        &self.job_key
    }

    /// Records of one frame.
    pub(crate) fn take(&mut self, header: Header, frame: Frame<'_>, now: Moment) -> Result<Batch, Malformed> {
        if self.ended.is_some() || matches!(frame, Frame::Hello(_) | Frame::Bypass(_)) {
            return Err(Malformed::Order);
        }
        let times =
            Times { offset: now.utc.saturating_sub(now.monotonic).saturating_add(self.behind), now: now.utc };
        let mut batch = Batch::default();
        match frame {
            Frame::Ops(bins) => batch.mpi_ops = self.bins(&bins, &times),
            Frame::Peers(time, peers) => {
                let records = self.peers(times.utc(time), &peers)?;
                batch.mpi_peers =
                    if self.is_admitted(times.utc(time), &times) { records } else { Vec::new() };
            }
            Frame::Pvars(time, variables) => {
                if self.is_admitted(times.utc(time), &times) {
                    batch.mpi_pvars = self.variables(times.utc(time), &variables);
                }
            }
            Frame::Names(time, names) => self.names(times.utc(time), &times, names, &mut batch),
            Frame::Regions(time, regions) => {
                if self.is_admitted(times.utc(time), &times) {
                    batch.mpi_regions.extend(self.regions(times.utc(time), &regions));
                }
            }
            Frame::Paths(time, paths) => {
                if self.is_admitted(times.utc(time), &times) {
                    batch.mpi_regions.extend(self.paths(times.utc(time), &paths));
                }
            }
            Frame::Traffic(time, all) => self.traffic = Some(self.traffic_of(time, all)?),
            Frame::Groups(parts) => self.traffic = Some(Report::Groups(parts)),
            Frame::OwnGroups(parts) => self.traffic = Some(Report::OwnGroups(parts)),
            Frame::Collectives(time, all) => self.traffic = Some(self.collectives(time, &all)?),
            Frame::Samples(all) => self.traffic = Some(self.samples(&all)?),
            Frame::Account(account) => self.account = Some(Box::new(account.shifted(self.behind))),
            Frame::Devices(fields) => {
                let all = devices(&fields)?;
                let (time, before) = (times.utc(all.time), times.utc(all.before));
                if self.is_admitted(time, &times) && self.is_admitted(before, &times) {
                    self.devices = Some(Box::new(Devices { time, before, ..all }));
                }
            }
            Frame::Open(time, calls) => batch.mpi_open_calls = self.open_calls(time, calls, &times)?,
            Frame::Trace(trace) => batch.mpi_traces = self.trace(trace, &times)?,
            Frame::Clock(all) => batch.mpi_clocks = self.comparisons(all, &times),
            Frame::Status(fields) => self.status.take(&fields, &self.counters)?,
            Frame::Bye(fields) => {
                self.status.take(&fields, &self.counters)?;
                batch.mpi_open_calls = self.open_calls.end(times.utc(header.monotonic));
                let reason = fields.iter().find(|(tag, _)| *tag == 32).map(|(_, data)| number(data));
                self.ended = Some(if reason.transpose()? == Some(1) { "clean" } else { "lost" });
            }
            Frame::Unknown(_) => add(&self.counters.unknown_frames, 1),
            Frame::Hello(_) | Frame::Bypass(_) => {} // refused above
        }
        // Only frames that were taken count for the sequence: a gap is what the shim could not send.
        let gap = header.sequence.wrapping_sub(self.next_sequence);
        if gap < u32::MAX / 2 {
            add(&self.counters.lost_frames, u64::from(gap));
        }
        self.next_sequence = header.sequence.wrapping_add(1);
        Ok(batch)
    }

    /// Whether a record of this time may be stored; counts it if not.
    fn is_admitted(&self, time: i64, times: &Times) -> bool {
        self.judge(time, times).map_err(|why| self.counters.rejected(why, 1)).is_ok()
    }

    fn judge(&self, time: i64, times: &Times) -> Result<(), Rejection> {
        if self.window.check(time, times.now)? { self.user.past(time) } else { Ok(()) }
    }

    fn bins(&self, bins: &[Bin], times: &Times) -> Vec<MpiRankBin> {
        let known = bins.iter().filter(|bin| !bin.cells.is_empty());
        let known = known.filter(|bin| self.is_admitted(times.utc(bin.end), times));
        let bins = known.map(|bin| MpiRankBin {
            time: on_grid(times.utc(bin.end)),
            epoch: self.start,
            job_key: self.job_key.clone(),
            rank: self.rank,
            source: SOURCE.to_owned(),
            cells: self.cells(&bin.cells),
        });
        bins.filter(|bin| !bin.cells.is_empty()).collect()
    }

    fn cells(&self, cells: &[Cell]) -> Vec<MpiOpCell> {
        let mut all = Vec::with_capacity(cells.len());
        all.extend(cells.iter().filter_map(|cell| self.cell(cell)));
        if all.len() < cells.len() {
            all.shrink_to_fit(); // what waits is weighed by what it holds
        }
        all
    }

    fn cell(&self, cell: &Cell) -> Option<MpiOpCell> {
        let Some(name) = operation_name(cell.operation) else {
            add(&self.counters.unknown_operations, 1);
            return None;
        };
        let named = self.names.region(cell.region).zip(self.names.algorithm(cell.algorithm));
        let Some((region, algorithm)) = named else {
            add(&self.counters.unknown_names, 1);
            return None;
        };
        Some(MpiOpCell {
            operation: name.to_owned(),
            size_class_bytes: cell.size_class_bytes,
            calls: MPI_CALLS.width.reduce(cell.calls),
            bytes: MPI_BYTES.width.reduce(cell.bytes),
            elapsed_nanoseconds: MPI_CALLS.width.reduce(cell.elapsed_nanoseconds),
            longest_nanoseconds: MPI_CALLS.width.reduce(cell.longest_nanoseconds),
            region,
            algorithm,
            algorithm_source: cell.algorithm_source.name().to_owned(),
            least_nanoseconds: cell.least_nanoseconds.map(|least| MPI_CALLS.width.reduce(least)),
            wait_nanoseconds: cell.wait_nanoseconds.map(|wait| MPI_CALLS.width.reduce(wait)),
            received_bytes: cell.received_bytes.map(|bytes| MPI_BYTES.width.reduce(bytes)),
        })
    }

    /// One record for each kind of traffic.
    fn peers(&self, time: i64, peers: &[Peer]) -> Result<Vec<MpiRankPeers>, Malformed> {
        if peers.iter().any(|peer| peer.peer >= self.world_size) {
            return Err(Malformed::Rank);
        }
        let kinds = [
            (PeerKind::Logical, "logical", SOURCE),
            (PeerKind::Read, "read", SOURCE),
            (PeerKind::Wire, "wire", WIRE_SOURCE),
        ];
        let rows = kinds.into_iter().map(|(kind, name, source)| MpiRankPeers {
            time,
            epoch: self.start,
            job_key: self.job_key.clone(),
            rank: self.rank,
            kind: name.to_owned(),
            source: source.to_owned(),
            cells: peers.iter().filter(|peer| peer.kind == kind).map(peer_cell).collect(),
            is_whole: false,
        });
        Ok(rows.filter(|row| !row.cells.is_empty()).collect())
    }

    /// Stores what numbers mean, and records what is reported for the database.
    fn names(&mut self, time: i64, times: &Times, names: Vec<Name>, batch: &mut Batch) {
        let mut is_admitted = None;
        for name in names {
            match self.names.learn(&name, &self.user) {
                Ok(()) => {}
                Err(NameError::TooFast) => self.user.exceeds(Quota::NewNames, 1),
                Err(NameError::TooMany) => add(&self.counters.unknown_names, 1),
                Err(NameError::OfUser) => {
                    self.counters.rejected(Rejection::Quota, 1);
                    self.user.exceeds(Quota::Names, 1);
                }
            }
            if matches!(name, Name::Region(..) | Name::Algorithm(..) | Name::Path(..)) {
                continue; // they are part of other records
            }
            if !*is_admitted.get_or_insert_with(|| self.is_admitted(time, times)) {
                continue;
            }
            let (job_key, rank) = (self.job_key.clone(), self.rank);
            match name {
                Name::Communicator(comm, _, size, place)
                    if comm > COMM_MAX || size > COMM_MAX || place.is_some_and(|place| place >= size) =>
                {
                    self.counters.rejected(Rejection::Number, 1);
                }
                Name::Communicator(comm, name, size, rank_in_comm) => {
                    let epoch = self.start;
                    let named = JobComm { time, epoch, job_key, rank, comm, name, size, rank_in_comm };
                    batch.job_comms.push(named);
                }
                Name::Setting(name, _) if name.is_empty() => self.counters.rejected(Rejection::Name, 1),
                Name::Setting(name, value) => {
                    batch.job_settings.push(JobSetting { time, job_key, rank, name, value });
                }
                Name::Region(..) | Name::Algorithm(..) | Name::Path(..) => {}
            }
        }
    }

    /// A value that is no number can't be stored and means nothing: absent. So are variables that the agent did not query
    /// for, and what exceeds the user's quota: the next reading comes soon.
    fn variables(&mut self, time: i64, variables: &[Variable]) -> Vec<MpiPvarSample> {
        let mut samples = Vec::new();
        for variable in variables {
            let elements = variable.elements.len();
            if !self.variables.admit(&variable.name) {
                add(&self.counters.unlisted_variables, elements as u64);
                self.counters.rejected(Rejection::Name, elements as u64);
                continue;
            }
            let taken = self.user.pvars(elements);
            if taken < elements {
                self.counters.rejected(Rejection::Quota, (elements - taken) as u64);
                self.user.exceeds(Quota::Pvars, (elements - taken) as u64);
            }
            for &(element, value) in &variable.elements[..taken] {
                if element >= ELEMENTS_MAX {
                    self.counters.rejected(Rejection::Number, 1);
                } else if value.is_finite() {
                    samples.push(self.variable(time, variable, element, value));
                }
            }
        }
        samples
    }

    fn variable(&self, time: i64, variable: &Variable, element: u32, value: f64) -> MpiPvarSample {
        MpiPvarSample {
            time,
            job_key: self.job_key.clone(),
            rank: self.rank,
            name: variable.name.clone(),
            element,
            value,
            source: VARIABLE_SOURCE.to_owned(),
            variable_class: variable.class.to_owned(),
        }
    }
}

fn peer_cell(peer: &Peer) -> MpiPeerCell {
    MpiPeerCell {
        peer: peer.peer,
        bytes: PEER_BYTES.width.reduce(peer.bytes),
        messages: PEER_MESSAGES.width.reduce(peer.messages),
    }
}

/// How much a sender's CLOCK_MONOTONIC is behind: nothing, unless a container has a time namespace. Then its HELLO
/// counts as just sent. Later frames may have waited for long in a socket, and are as old as they say.
fn behind(hello: Header, came: Moment) -> i64 {
    let delay = came.monotonic.saturating_sub(hello.monotonic);
    if (-1_000_000..DELAY_NANOSECONDS).contains(&delay) { 0 } else { delay }
}

/// Bins end at whole milliseconds of the sender's UTC, whatever their length.
const MILLISECOND: i64 = 1_000_000;

/// The end of a bin by the sender's clock, which is a little beside this one: what belongs to a second has a time of it, not one of the
/// next.
fn on_grid(time: i64) -> i64 {
    time.saturating_add(MILLISECOND / 2).div_euclid(MILLISECOND) * MILLISECOND
}

/// Turns a sender's times into UTC.
struct Times {
    /// Added to the sender's CLOCK_MONOTONIC.
    offset: i64,
    /// The agent's present, UTC.
    now: i64,
}

impl Times {
    fn utc(&self, monotonic: i64) -> i64 {
        monotonic.saturating_add(self.offset).max(0)
    }
}

mod open_calls;
mod regions;
mod trace_records;
mod traffic;

#[cfg(test)]
mod tests;
