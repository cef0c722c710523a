//! The clocks of all that is in the file, on one axis: ranks by their comparisons with rank 0, nodes by their ranks, all else by UTC.

use super::read::{Range, TracedRank};
use super::summary::{RankSummary, StepSummary, counted_calls, ending};
use throughline_api::jobs::JobRanks;
use throughline_api::lanes::LaneClock;
use throughline_waits::{AlignedTime, Alignment, Step};

/// A rank with its clock.
pub struct AlignedRank {
    /// What it recorded.
    pub traced: TracedRank,
    /// From its clock to rank 0's.
    pub alignment: Alignment,
    by: &'static str,
    /// Added after alignment: only for clocks that were never compared.
    shift: i64,
    /// Number of its process in the file.
    pub process: u32,
}

impl AlignedRank {
    /// A time of its clock on rank 0's.
    pub fn align(&self, clock: i64) -> AlignedTime {
        let aligned = self.alignment.align(clock);
        AlignedTime { time: aligned.time.saturating_add(self.shift), ..aligned }
    }

    /// A range on rank 0's clock as one of the rank's own, with room for what the offset does in it.
    pub fn range(&self, from: Option<i64>, to: Option<i64>) -> Range {
        const ROOM: i64 = 1_000_000_000;
        let own = |time: i64| time.saturating_sub(self.align(time).time.saturating_sub(time));
        Range {
            from: from.map_or(i64::MIN, |from| own(from).saturating_sub(ROOM)),
            to: to.map_or(i64::MAX, |to| own(to).saturating_add(ROOM)),
        }
    }

    /// How it was lined up, and how complete it is.
    pub fn summary(&self, zero: i64, all: &JobRanks) -> RankSummary {
        let is_compared = self.alignment.comparisons() > 0;
        let seconds = |clock: i64| (self.align(clock).time - zero) as f64 / 1e9;
        let step = |step: &Step| StepSummary {
            from_seconds: seconds(step.from),
            to_seconds: seconds(step.to),
            seconds: step.jump as f64 / 1e9,
        };
        RankSummary {
            rank: self.traced.rank,
            host: self.traced.host.clone(),
            records: self.traced.records,
            calls: self.traced.calls,
            counted_calls: counted_calls(self.traced.rank, all),
            lost: self.traced.lost,
            ending: ending(&self.traced, all),
            clock: self.by,
            comparisons: self.alignment.comparisons(),
            error_seconds: is_compared.then(|| self.alignment.error() as f64 / 1e9),
            drift_ppm: is_compared.then(|| self.alignment.drift_ppm()),
            steps: self.alignment.steps.iter().map(step).collect(),
        }
    }
}

/// Lines up all clocks. Ranks that compared theirs with rank 0's have what they need; one on rank 0's node shares
/// its clock; others are put where their node's UTC says.
pub fn line_up(ranks: Vec<TracedRank>, raw: bool) -> (Vec<AlignedRank>, i64) {
    let zero_rank = ranks.iter().find(|rank| rank.rank == 0).cloned();
    // Where rank 0 has no records, a comparison shows its clock as well.
    let from_comparison = |rank: &TracedRank| rank.points.first().map(|point| rank.utc_offset - point.offset);
    let reference = zero_rank.as_ref().map(|rank| rank.utc_offset);
    let reference = reference.or_else(|| ranks.iter().find_map(from_comparison));
    let reference = reference.or_else(|| ranks.first().map(|rank| rank.utc_offset)).unwrap_or(0);
    let lined = ranks.into_iter().zip(1..).map(|(mut traced, process)| {
        let points = std::mem::take(&mut traced.points);
        let same_node =
            zero_rank.as_ref().is_some_and(|zero| zero.host.is_some() && zero.host == traced.host);
        let (by, shift) = match traced.rank {
            _ if raw => ("nothing", 0),
            0 => ("rank 0 itself", 0),
            _ if !points.is_empty() => ("comparisons", 0),
            _ if same_node => ("same node", 0),
            _ => ("the node's UTC", traced.utc_offset - reference),
        };
        let alignment = Alignment::new(if by == "comparisons" { points } else { Vec::new() });
        AlignedRank { traced, alignment, by, shift, process }
    });
    (lined.collect(), reference)
}

impl AlignedRank {
    /// How its times are bounded, for people.
    pub fn bound(&self) -> String {
        match self.by {
            "comparisons" => format!(", within {}", short(self.alignment.error())),
            "same node" => ", rank 0's clock".to_owned(),
            "the node's UTC" => ", by its node's UTC".to_owned(),
            _ => String::new(),
        }
    }
}

/// Nanoseconds for people.
fn short(nanoseconds: i64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        ..1e-3 => format!("{:.1} µs", seconds * 1e6),
        1e-3..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// The axis of a file: nanoseconds since its zero.
pub struct Axis {
    /// Traced processes; none of a job that was not traced.
    pub ranks: Vec<AlignedRank>,
    /// Zero on rank 0's clock.
    pub zero: i64,
    /// UTC as the node of rank 0 had it, less rank 0's clock.
    pub reference: i64,
}

impl Axis {
    /// UTC nanoseconds of a time on the axis, as the node of rank 0 has it.
    pub fn utc(&self, time: i64) -> i64 {
        time.saturating_add(self.zero).saturating_add(self.reference)
    }

    /// The clock of a host with ranks, or that of anybody else.
    pub fn clock(&self, instance: &str) -> InstanceClock<'_> {
        let on_host = || self.ranks.iter().filter(|rank| rank.traced.host.as_deref() == Some(instance));
        let rank = on_host().find(|rank| rank.traced.rank == 0).or_else(|| on_host().next());
        InstanceClock { axis: self, rank }
    }
}

/// From UTC of a host, or of a crawler, to the axis.
pub struct InstanceClock<'a> {
    axis: &'a Axis,
    /// A rank whose node it is: both read one clock, whose distance from rank 0's is known.
    rank: Option<&'a AlignedRank>,
}

impl InstanceClock<'_> {
    /// A time of UTC in milliseconds, nanoseconds since the axis' zero.
    pub fn at(&self, utc_ms: i64) -> i64 {
        let utc = utc_ms.saturating_mul(1_000_000);
        let on_rank_0 = match self.rank {
            Some(rank) => rank.align(utc.saturating_sub(rank.traced.utc_offset)).time,
            None => utc.saturating_sub(self.axis.reference),
        };
        on_rank_0.saturating_sub(self.axis.zero)
    }

    /// How times of it are bounded, for people: by comparisons of clocks where there are, else by what its kernel says.
    pub fn bound(&self, clock: Option<&LaneClock>) -> String {
        if let Some(rank) = self.rank {
            // UTC is adjusted while a program runs.
            let adjusted = rank.traced.utc_offset_max.saturating_sub(rank.traced.utc_offset);
            return match rank.by {
                "rank 0 itself" | "same node" => format!("rank 0's clock ±{}", short(adjusted)),
                "comparisons" => {
                    format!("rank 0's clock ±{}", short(rank.alignment.error() + adjusted))
                }
                _ => Self::of_utc(clock),
            };
        }
        Self::of_utc(clock)
    }

    fn of_utc(clock: Option<&LaneClock>) -> String {
        match clock.and_then(|clock| clock.clock_error_seconds) {
            Some(error) => format!("UTC ±{}", short((error * 1e9) as i64)),
            None => "UTC ± unknown".to_owned(),
        }
    }
}
