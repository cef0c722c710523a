//! One connected rank: turns its frames into records.
//!
//! Pure but for the shared counters: time and identity come from the caller, so tests feed recorded frames.

use crate::frame::{Bin, Cell, Field, Frame, Header, Name, Peer, PeerKind, Region, Variable, number};
use crate::member::Member;
use crate::names::Names;
use crate::operations::operation_name;
use crate::status::{Counters, Malformed, add};
use crate::trace::{Comparisons, Kind, Record, Trace};
use std::sync::Arc;
use throughline_sample::catalogue::{MPI_BYTES, MPI_CALLS, PEER_BYTES, PEER_MESSAGES};
use throughline_sample::wire::{
    Batch, JobComm, JobSetting, MpiOpCell, MpiPeerCell, MpiPvarSample, MpiRankBin, MpiRankClock,
    MpiRankPeers, MpiRankRegions, MpiRankTrace, MpiRegionCell, MpiTraceRecord,
};

/// Name of the source of counts taken around calls.
const SOURCE: &str = "pmpi";
/// Name of the source of messages that really went.
const WIRE_SOURCE: &str = "pml";
/// Name of the source of performance variables.
const VARIABLE_SOURCE: &str = "mpi_t";
/// Longest plausible way of a message through the socket; a larger difference of clocks is a time namespace.
const DELAY_NANOSECONDS: i64 = 60_000_000_000;
/// Tags of STATUS that have a meaning or may get one.
const STATUS_TAGS: usize = 64;

/// A moment on both clocks of the agent, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub monotonic: i64,
    pub utc: i64,
}

/// A rank's state between its frames.
#[derive(Debug)]
pub(crate) struct Rank {
    member: Member,
    next_sequence: u32,
    ended: Option<&'static str>,
    /// Figures of its shim already added to the counters, by tag.
    told: [u64; STATUS_TAGS],
    names: Names,
    counters: Arc<Counters>,
}

impl Rank {
    pub(crate) fn new(member: Member, header: Header, counters: Arc<Counters>) -> Self {
        let next_sequence = header.sequence.wrapping_add(1);
        Self { member, next_sequence, ended: None, told: [0; STATUS_TAGS], names: Names::default(), counters }
    }

    /// How it ended, once it has said so.
    pub(crate) fn ended(&self) -> Option<&'static str> {
        self.ended
    }

    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// Records of one frame.
    pub(crate) fn take(&mut self, header: Header, frame: Frame<'_>, now: Moment) -> Result<Batch, Malformed> {
        if self.ended.is_some() || matches!(frame, Frame::Hello(_)) {
            return Err(Malformed::Order);
        }
        let times = Times::new(header, now);
        let mut batch = Batch::default();
        match frame {
            Frame::Ops(bins) => batch.mpi_ops = self.bins(&bins, &times),
            Frame::Peers(time, peers) => batch.mpi_peers = self.peers(times.utc(time), &peers)?,
            Frame::Pvars(time, variables) => batch.mpi_pvars = self.variables(times.utc(time), &variables),
            Frame::Names(time, names) => self.names(times.utc(time), names, &mut batch),
            Frame::Regions(time, regions) => {
                batch.mpi_regions.extend(self.regions(times.utc(time), &regions));
            }
            Frame::Trace(trace) => batch.mpi_traces.extend(self.trace(trace, header, &times)?),
            Frame::Clock(all) => batch.mpi_clocks.extend(self.comparisons(all, header, &times)?),
            Frame::Status(fields) => self.told(&fields)?,
            Frame::Bye(fields) => {
                self.told(&fields)?;
                let reason = fields.iter().find(|(tag, _)| *tag == 32).map(|(_, data)| number(data));
                self.ended = Some(if reason.transpose()? == Some(1) { "clean" } else { "lost" });
            }
            Frame::Unknown(_) => add(&self.counters.unknown_frames, 1),
            Frame::Hello(_) => {} // refused above
        }
        // Only frames that were taken count for the sequence: a gap is what the shim could not send.
        let gap = header.sequence.wrapping_sub(self.next_sequence);
        if gap < u32::MAX / 2 {
            add(&self.counters.lost_frames, u64::from(gap));
        }
        self.next_sequence = header.sequence.wrapping_add(1);
        Ok(batch)
    }

    fn bins(&self, bins: &[Bin], times: &Times) -> Vec<MpiRankBin> {
        let known = bins.iter().filter(|bin| !bin.cells.is_empty());
        known
            .map(|bin| MpiRankBin {
                time: times.utc(bin.end),
                epoch: self.member.start,
                job_key: self.member.identity.job_key.clone(),
                rank: self.member.hello.rank,
                source: SOURCE.to_owned(),
                cells: bin.cells.iter().filter_map(|cell| self.cell(cell)).collect(),
            })
            .collect()
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
            wait_nanoseconds: cell.wait_nanoseconds.map(|wait| MPI_CALLS.width.reduce(wait)),
            received_bytes: cell.received_bytes.map(|bytes| MPI_BYTES.width.reduce(bytes)),
        })
    }

    /// One record for each kind of traffic.
    fn peers(&self, time: i64, peers: &[Peer]) -> Result<Vec<MpiRankPeers>, Malformed> {
        if peers.iter().any(|peer| peer.peer >= self.member.hello.world_size) {
            return Err(Malformed::Rank);
        }
        let kinds = [(PeerKind::Logical, "logical", SOURCE), (PeerKind::Wire, "wire", WIRE_SOURCE)];
        let rows = kinds.into_iter().map(|(kind, name, source)| MpiRankPeers {
            time,
            epoch: self.member.start,
            job_key: self.member.identity.job_key.clone(),
            rank: self.member.hello.rank,
            kind: name.to_owned(),
            source: source.to_owned(),
            cells: peers.iter().filter(|peer| peer.kind == kind).map(peer_cell).collect(),
        });
        Ok(rows.filter(|row| !row.cells.is_empty()).collect())
    }

    /// Keeps what numbers mean, and records what is told for the database.
    fn names(&mut self, time: i64, names: Vec<Name>, batch: &mut Batch) {
        for name in names {
            if !self.names.learn(&name) {
                add(&self.counters.unknown_names, 1);
            }
            let (job_key, rank) = (self.member.identity.job_key.clone(), self.member.hello.rank);
            match name {
                Name::Communicator(comm, name, size, rank_in_comm) => {
                    let epoch = self.member.start;
                    let named = JobComm { time, epoch, job_key, rank, comm, name, size, rank_in_comm };
                    batch.job_comms.push(named);
                }
                Name::Setting(name, value) => {
                    batch.job_settings.push(JobSetting { time, job_key, rank, name, value });
                }
                Name::Region(..) | Name::Algorithm(..) => {}
            }
        }
    }

    fn regions(&self, time: i64, regions: &[Region]) -> Option<MpiRankRegions> {
        let cell = |region: &Region| {
            let Some(name) = self.names.region(region.region) else {
                add(&self.counters.unknown_names, 1);
                return None;
            };
            let reduce = |value| MPI_CALLS.width.reduce(value);
            Some(MpiRegionCell {
                region: name,
                visits: reduce(region.visits),
                elapsed_nanoseconds: reduce(region.elapsed_nanoseconds),
                own_nanoseconds: reduce(region.own_nanoseconds),
                mpi_calls: reduce(region.mpi_calls),
                mpi_nanoseconds: reduce(region.mpi_nanoseconds),
            })
        };
        let cells: Vec<_> = regions.iter().filter_map(cell).collect();
        (!cells.is_empty()).then(|| MpiRankRegions {
            time,
            epoch: self.member.start,
            job_key: self.member.identity.job_key.clone(),
            rank: self.member.hello.rank,
            source: SOURCE.to_owned(),
            cells,
        })
    }

    /// Records of trace mode. A beginning after the frame was sent is impossible, and would be a row that no
    /// retention reaches.
    fn trace(&self, trace: Trace, header: Header, times: &Times) -> Result<Option<MpiRankTrace>, Malformed> {
        let latest = header.monotonic.saturating_add(DELAY_NANOSECONDS);
        if trace.records.iter().any(|record| record.start > latest) {
            return Err(Malformed::Body);
        }
        let world = self.member.hello.world_size;
        if trace.records.iter().any(|record| record.peer.is_some_and(|peer| peer >= world)) {
            return Err(Malformed::Rank);
        }
        let records: Vec<_> = trace.records.into_iter().map(|record| self.trace_record(record)).collect();
        Ok((!records.is_empty()).then(|| MpiRankTrace {
            epoch: self.member.start,
            job_key: self.member.identity.job_key.clone(),
            rank: self.member.hello.rank,
            utc_offset: times.offset,
            number: trace.number,
            records,
        }))
    }

    /// Nothing is left out, as that would shift the numbers of what follows.
    fn trace_record(&self, record: Record) -> MpiTraceRecord {
        let region = self.names.region(record.region).unwrap_or_default();
        let operation = operation_name(record.operation).unwrap_or_else(|| {
            if record.kind != Kind::End {
                add(&self.counters.unknown_operations, 1);
            }
            ""
        });
        record.to_wire(operation, &region)
    }

    fn comparisons(
        &self,
        all: Comparisons,
        header: Header,
        times: &Times,
    ) -> Result<Option<MpiRankClock>, Malformed> {
        let latest = header.monotonic.saturating_add(DELAY_NANOSECONDS);
        if all.points.iter().any(|point| point.time > latest) {
            return Err(Malformed::Body);
        }
        Ok((!all.points.is_empty()).then(|| MpiRankClock {
            epoch: self.member.start,
            job_key: self.member.identity.job_key.clone(),
            rank: self.member.hello.rank,
            utc_offset: times.offset,
            number: all.number,
            points: all.points.into_iter().map(Into::into).collect(),
        }))
    }

    /// A value that is no number can't be stored and says nothing: absent.
    fn variables(&self, time: i64, variables: &[Variable]) -> Vec<MpiPvarSample> {
        let each = variables.iter().flat_map(|variable| {
            let finite = variable.elements.iter().filter(|(_, value)| value.is_finite());
            finite.map(move |(element, value)| (variable, *element, *value))
        });
        each.map(|(variable, element, value)| MpiPvarSample {
            time,
            job_key: self.member.identity.job_key.clone(),
            rank: self.member.hello.rank,
            name: variable.name.clone(),
            element,
            value,
            source: VARIABLE_SOURCE.to_owned(),
            variable_class: variable.class.to_owned(),
        })
        .collect()
    }

    /// Adds what a shim says about itself: sums, of which the part already told is left out.
    fn told(&mut self, fields: &[Field<'_>]) -> Result<(), Malformed> {
        for (tag, data) in fields {
            let value = number(data)?;
            let Some(before) = self.told.get_mut(usize::from(*tag)) else { continue };
            let more = value.saturating_sub(*before);
            *before = value.max(*before);
            match tag {
                2 => add(&self.counters.unknown_messages, more),
                3 => add(&self.counters.refused_threads, more),
                5 => add(&self.counters.missing_variables, more),
                6 => add(&self.counters.refused_regions, more),
                7 => add(&self.counters.mismatched_regions, more),
                8 => add(&self.counters.lost_rows, more),
                _ => {}
            }
        }
        Ok(())
    }
}

fn peer_cell(peer: &Peer) -> MpiPeerCell {
    MpiPeerCell {
        peer: peer.peer,
        bytes: PEER_BYTES.width.reduce(peer.bytes),
        messages: PEER_MESSAGES.width.reduce(peer.messages),
    }
}

/// Turns a sender's times into UTC.
struct Times {
    /// Added to the sender's CLOCK_MONOTONIC.
    offset: i64,
}

impl Times {
    fn new(header: Header, now: Moment) -> Self {
        let delay = now.monotonic.saturating_sub(header.monotonic);
        // One clock for both, unless a container has a time namespace: then the frame counts as just sent.
        let shift = if (-1_000_000..DELAY_NANOSECONDS).contains(&delay) { 0 } else { delay };
        Self { offset: now.utc.saturating_sub(now.monotonic).saturating_add(shift) }
    }

    fn utc(&self, monotonic: i64) -> i64 {
        monotonic.saturating_add(self.offset).max(0)
    }
}

#[cfg(test)]
#[path = "rank_tests.rs"]
mod tests;
