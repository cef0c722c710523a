//! Which numbers of a record are times by its sender's clock, so that all of them can be moved alike. Pure.

use std::collections::HashMap;

use crate::wire::*;

/// A generation above this (2001-09-09 in nanoseconds) is a time.
pub const EARLIEST_TIME: i64 = 1_000_000_000_000_000_000;

/// From this on a clock is said to be off: half of the 10 s by whose multiples times are moved.
pub const CLOCK_BOUND_SECONDS: i64 = 5;

/// When a time was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// With its record, by the clock as it is in the span of the batch.
    Row,
    /// Perhaps long before: an epoch, a start, an end. The same number comes with later records, whatever happens to the clock.
    Origin,
    /// What is added to another clock of the record: UTC less that.
    Difference,
}

/// How times of a span are moved, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanMove {
    /// How far the clock was ahead: times are moved back by this.
    pub offset: i64,
    /// When the span began, by its own clock.
    pub from: i64,
    /// By how much less rows are moved at the beginning of the span. The offsets of two spans are rounded, so that the first rows of
    /// one could come to lie before the last rows of the span before, and a counter would seem to go backwards.
    pub slew: i64,
}

/// From the beginning of a span to where its rows are moved by its offset alone, at least.
const SLEW_NANOSECONDS: i64 = 60_000_000_000;
/// Rates are too high by one part in so many at most while rows are moved less and less.
const SLEW_PARTS: i64 = 8;

impl SpanMove {
    /// By this offset, whatever the time.
    #[must_use]
    pub fn by(offset: i64) -> Self {
        Self { offset, ..Self::default() }
    }

    /// Where a time of a record comes to lie. Later ones stay later.
    #[must_use]
    pub fn row(&self, time: i64) -> i64 {
        let moved = self.difference(time);
        if self.slew <= 0 {
            return moved;
        }
        let length = i128::from(SLEW_NANOSECONDS.max(self.slew.saturating_mul(SLEW_PARTS)));
        let left = (length - (i128::from(time) - i128::from(self.from))).clamp(0, length);
        // At most the slew.
        moved.saturating_add(i64::try_from(i128::from(self.slew) * left / length).unwrap_or(0))
    }

    /// The same of an epoch, or of what is added to another clock.
    #[must_use]
    pub fn difference(&self, time: i64) -> i64 {
        time.saturating_sub(self.offset)
    }
}

/// A record with times by its sender's clock.
pub trait ClockTimes {
    /// Calls `visit` with each; 0 is no time.
    fn visit_times(&mut self, visit: &mut impl FnMut(TimeKind, &mut i64));
}

macro_rules! clock_times {
    ($($record:ident: [$($row:ident),*] [$($origin:ident),*];)+) => {
        $(impl ClockTimes for $record {
            #[allow(unused_variables)] // Some have no time.
            fn visit_times(&mut self, visit: &mut impl FnMut(TimeKind, &mut i64)) {
                $(visit(TimeKind::Row, &mut self.$row);)*
                $(visit(TimeKind::Origin, &mut self.$origin);)*
            }
        })+
    };
}

clock_times! {
    IbPortSample: [time] [epoch];
    IbPortLanesSample: [time] [epoch];
    HostPortSample: [time] [epoch];
    GpuLinksSample: [time] [epoch];
    GpuPcieSample: [time] [epoch];
    GpuPmSample: [time] [epoch];
    GpuMetricsSample: [time] [epoch];
    MpiRankBin: [time] [epoch];
    MpiNodeCells: [time, since] [epoch];
    MpiRankRegions: [time] [epoch];
    MpiRankPeers: [time] [epoch];
    MpiNodeTraffic: [time, since] [epoch];
    MpiSampledCalls: [time] [];
    MpiPvarSample: [time] [];
    Event: [time] [];
    Coverage: [time, first_time] [];
    SelfStat: [time] [];
    NodeInfo: [boot_time] [];
    GpuInfo: [] [];
    GpuLinkInfo: [] [];
    GpuSurveyMark: [time] [];
    Job: [] [start, end, seen];
    JobComm: [time] [epoch];
    MpiOpenCall: [time, start] [epoch];
    MpiRankScheduling: [time] [epoch];
    JobSetting: [time] [];
}

impl ClockTimes for JobRank {
    fn visit_times(&mut self, visit: &mut impl FnMut(TimeKind, &mut i64)) {
        visit(TimeKind::Origin, &mut self.start);
        visit(TimeKind::Origin, &mut self.end);
        for gpu in &mut self.gpus {
            visit(TimeKind::Origin, &mut gpu.first_seen);
            visit(TimeKind::Origin, &mut gpu.last_seen);
        }
    }
}

impl ClockTimes for MpiRankTrace {
    fn visit_times(&mut self, visit: &mut impl FnMut(TimeKind, &mut i64)) {
        visit(TimeKind::Difference, &mut self.utc_offset);
        visit(TimeKind::Origin, &mut self.epoch);
    }
}

impl ClockTimes for MpiRankClock {
    fn visit_times(&mut self, visit: &mut impl FnMut(TimeKind, &mut i64)) {
        visit(TimeKind::Difference, &mut self.utc_offset);
        visit(TimeKind::Origin, &mut self.epoch);
    }
}

macro_rules! with_generation {
    ($($record:ident: [$($row:ident),*];)+) => {
        $(impl ClockTimes for $record {
            fn visit_times(&mut self, visit: &mut impl FnMut(TimeKind, &mut i64)) {
                $(visit(TimeKind::Row, &mut self.$row);)*
                if self.generation > EARLIEST_TIME {
                    visit(TimeKind::Origin, &mut self.generation);
                }
            }
        })+
    };
}

with_generation! {
    IbNodeInfo: [];
    IbMulticastTable: [];
    IbMulticastGroup: [];
    IbMulticastMark: [];
    IbTopologyMark: [time];
}

/// Calls `visit` with each time of a batch but 0.
pub fn visit_times(batch: &mut Batch, mut visit: impl FnMut(TimeKind, &mut i64)) {
    let mut visit = |kind, time: &mut i64| {
        if *time != 0 {
            visit(kind, time);
        }
    };
    macro_rules! visit_all {
        ($($kind:ident),+) => {
            $(batch.$kind.iter_mut().for_each(|record| record.visit_times(&mut visit));)+
        };
    }
    crate::record_kinds!(visit_all);
}

/// The newest time that was made with a record of the batch; `None` where none was. Conversions of monotonic clocks are not looked
/// at.
#[must_use]
pub fn newest_row(batch: &mut Batch) -> Option<i64> {
    let mut newest = None;
    visit_times(batch, |kind, time| {
        if kind == TimeKind::Row {
            newest = newest.max(Some(*time));
        }
    });
    newest
}

/// Moves all times of a batch back by how far the clock was ahead when they were made: those of its own span as `own` has it,
/// those that it lists as earlier by what `earlier` has of their spans. Ends come to lie no earlier than their starts: where a
/// clock was set back, only now the two can be compared.
pub fn move_times(batch: &mut Batch, own: SpanMove, earlier: &HashMap<u64, i64>) {
    let listed = batch.clock.take().map(|clock| clock.earlier).unwrap_or_default();
    let offsets: HashMap<i64, i64> = listed
        .into_iter()
        .flat_map(|of| of.time.into_iter().map(move |time| (time, of.span)))
        .filter_map(|(time, span)| Some((time, *earlier.get(&span)?)))
        .collect();
    if own != SpanMove::default() || offsets.values().any(|offset| *offset != 0) {
        visit_times(batch, |kind, time| {
            if *time <= 0 {
                return;
            }
            let moved = match kind {
                TimeKind::Row => own.row(*time),
                TimeKind::Difference => own.difference(*time),
                TimeKind::Origin => match offsets.get(time) {
                    Some(offset) => time.saturating_sub(*offset),
                    None => own.difference(*time),
                },
            };
            *time = moved.max(1);
        });
        let end = batch.detail.as_mut().and_then(|detail| detail.end.as_mut());
        if let Some(end) = end.filter(|end| end.recorded_from > 0) {
            end.recorded_from = own.row(end.recorded_from).max(1);
        }
    }
    for rank in batch.job_ranks.iter_mut().filter(|rank| rank.end != 0) {
        rank.end = rank.end.max(rank.start);
    }
    for job in batch.jobs.iter_mut().filter(|job| job.end != 0) {
        job.end = job.end.max(job.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const NOW: i64 = 1_790_000_000 * SECOND;

    #[test]
    fn rows_move_with_their_batch_and_epochs_with_their_span() {
        let bin = |time, epoch| MpiRankBin { time, epoch, ..MpiRankBin::default() };
        let (old, new) = (NOW + 250 * SECOND, NOW - 10 * SECOND);
        let mut batch = Batch {
            mpi_ops: vec![bin(NOW, old), bin(NOW, new)],
            job_ranks: vec![JobRank {
                start: old,
                end: NOW,
                gpus: vec![RankGpu { first_seen: old, ..RankGpu::default() }],
                ..JobRank::default()
            }],
            jobs: vec![Job { start: old, ..Job::default() }],
            coverage: vec![Coverage { time: NOW, ..Coverage::default() }],
            ib_topology_marks: vec![IbTopologyMark { generation: 3, time: NOW, ..IbTopologyMark::default() }],
            clock: Some(BatchClock { span: 2, earlier: vec![EarlierTimes { span: 1, time: vec![old] }] }),
            ..Batch::default()
        };
        assert_eq!(newest_row(&mut batch), Some(NOW));
        move_times(&mut batch, SpanMove::default(), &HashMap::from([(1, 300 * SECOND)]));
        let began = NOW - 50 * SECOND;
        assert_eq!((batch.mpi_ops[0].time, batch.mpi_ops[0].epoch), (NOW, began));
        assert_eq!((batch.mpi_ops[1].time, batch.mpi_ops[1].epoch), (NOW, new));
        assert_eq!((batch.job_ranks[0].start, batch.job_ranks[0].end), (began, NOW));
        assert_eq!((batch.job_ranks[0].gpus[0].first_seen, batch.job_ranks[0].gpus[0].last_seen), (began, 0));
        assert_eq!((batch.jobs[0].start, batch.jobs[0].end), (began, 0), "what is absent stays so");
        assert_eq!((batch.coverage[0].first_time, batch.clock), (0, None));
        assert_eq!(batch.ib_topology_marks[0].generation, 3, "no time");
    }

    #[test]
    fn rows_stay_in_their_order_over_the_beginning_of_a_span() {
        for slew in [1, 9 * SECOND, 240 * SECOND] {
            let span = SpanMove { offset: 0, from: NOW, slew };
            assert_eq!((span.row(NOW), span.row(NOW - SECOND)), (NOW + slew, NOW - SECOND + slew));
            let rows: Vec<i64> = (0..3000).map(|second| span.row(NOW + second * SECOND)).collect();
            let steps: Vec<i64> = rows.windows(2).map(|two| two[1] - two[0]).collect();
            assert!(steps.iter().all(|step| (875_000_000 - 1..=SECOND + 1).contains(step)), "{slew}");
            assert_eq!(rows[2999], NOW + 2999 * SECOND);
            assert_eq!(span.difference(NOW), NOW);
        }
        assert_eq!(SpanMove { offset: 5, from: i64::MIN, slew: 1 }.row(i64::MAX), i64::MAX - 5);
    }

    #[test]
    fn extreme_times_stay_extreme_and_ends_lie_behind_starts() {
        let event = |time| Event { time, ..Event::default() };
        let mut batch = Batch {
            events: vec![event(i64::MAX), event(i64::MIN), event(5)],
            job_ranks: vec![JobRank { start: NOW, end: NOW - SECOND, ..JobRank::default() }],
            ..Batch::default()
        };
        move_times(&mut batch, SpanMove::by(-SECOND), &HashMap::new());
        let times: Vec<i64> = batch.events.iter().map(|event| event.time).collect();
        assert_eq!(times, [i64::MAX, i64::MIN, SECOND + 5]);
        assert_eq!(batch.job_ranks[0].end, batch.job_ranks[0].start);
        move_times(&mut batch, SpanMove::by(SECOND + 100), &HashMap::new());
        assert_eq!(batch.events[2].time, 1, "a time stays one");
    }
}
