//! What was written, for people and programs: calls, messages, how clocks were lined up, and what is missing.

use super::read::TracedRank;
use serde::Serialize;
use throughline_api::jobs::JobRanks;
use throughline_sample::to_rfc3339;

/// What was written.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The job's key.
    pub job_key: String,
    /// UTC of the trace's zero, by the node of rank 0: nanoseconds since 1970.
    pub start_ns: i64,
    /// From there to the end of the last record.
    pub seconds: f64,
    /// Whether calls were traced; else operations are shares of steps.
    pub is_traced: bool,
    /// Length of these steps.
    pub step_seconds: Option<f64>,
    /// Length of the longest of them: of the row of a rank where its node's record is not there.
    pub longest_step_seconds: Option<f64>,
    /// What was fetched from the nodes, for people.
    pub fetched: String,
    /// Events in the file.
    pub events: u64,
    /// Ranks that have more than fits.
    pub cut_off: Vec<i32>,
    /// What stands beside the ranks, and how well it is aligned.
    pub lanes: Vec<LaneSummary>,
    /// What was not written because there was too much of it, for people.
    pub left_out: Vec<String>,
    /// Calls.
    pub calls: u64,
    /// Beginnings of arrows: messages sent.
    pub sent: u64,
    /// Ends of arrows: messages received.
    pub received: u64,
    /// Messages without an arrow, as their number is not known.
    pub unnumbered: u64,
    /// Records that were lost on their way.
    pub lost: u64,
    /// Each process.
    pub ranks: Vec<RankSummary>,
    /// Ranks whose calls were counted and that have nothing in the trace.
    pub untraced: Vec<UntracedRank>,
}

/// Lanes of one node, or of one subnet.
#[derive(Clone, Debug, Serialize)]
pub struct LaneSummary {
    /// As the file names them.
    pub name: String,
    /// How many.
    pub lanes: usize,
    /// Length of a step of theirs.
    pub step_seconds: f64,
}

/// A rank without a record.
#[derive(Clone, Debug, Serialize)]
pub struct UntracedRank {
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// Calls that the tables count.
    pub calls: i64,
}

/// How the clock of one rank was lined up.
#[derive(Clone, Debug, Serialize)]
pub struct RankSummary {
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// Its node.
    pub host: Option<String>,
    /// Records there are.
    pub records: i64,
    /// Calls among them.
    pub calls: i64,
    /// Calls that the tables count, failed tests and probes among them, which have no record.
    pub counted_calls: Option<i64>,
    /// Records that were lost on their way.
    pub lost: i64,
    /// How its records end: `complete`, `limit` (of records), `running` as of now, or `missing`: what it did last is not there.
    pub ending: &'static str,
    /// By what: `rank 0 itself`, `comparisons`, `same node`, `the node's UTC`, `nothing`.
    pub clock: &'static str,
    /// Comparisons with rank 0 that were used.
    pub comparisons: usize,
    /// Largest bound of them.
    pub error_seconds: Option<f64>,
    /// How fast rank 0's clock goes ahead of it.
    pub drift_ppm: Option<f64>,
    /// Steps of the clock.
    pub steps: Vec<StepSummary>,
}

/// A stretch in which a clock stepped, in seconds from the trace's zero.
#[derive(Clone, Debug, Serialize)]
pub struct StepSummary {
    /// The comparison before.
    pub from_seconds: f64,
    /// The comparison after.
    pub to_seconds: f64,
    /// By how much.
    pub seconds: f64,
}

impl Summary {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = match self.step_seconds {
            None => format!(
                "{}: {:.3} s from {}, {} ranks, {} calls, {} messages sent, {} received\n",
                self.job_key,
                self.seconds,
                to_rfc3339(self.start_ns),
                self.ranks.len(),
                self.calls,
                self.sent,
                self.received
            ),
            Some(step) => format!(
                "{}: {:.3} s from {}. It was not traced (throughline-exec --trace): operations are shares of time in steps of {}, \
                 of {} calls\n",
                self.job_key,
                self.seconds,
                to_rfc3339(self.start_ns),
                self.lengths(step),
                self.calls
            ),
        };
        if !self.fetched.is_empty() {
            text.push_str(&format!("{}\n", self.fetched));
        }
        if self.unnumbered > 0 {
            text.push_str(&format!(
                "{} messages have no arrow: their number is not known\n",
                self.unnumbered
            ));
        }
        if self.lost > 0 {
            text.push_str(&format!("{} records were lost on their way; the file says where\n", self.lost));
        }
        if !self.cut_off.is_empty() {
            let ranks: Vec<String> = self.cut_off.iter().map(i32::to_string).collect();
            text.push_str(&format!(
                "the file is full before the end of ranks {}: give --ranks, --from-seconds and --to-seconds, or a larger --limit\n",
                ranks.join(", ")
            ));
        }
        for rank in &self.untraced {
            text.push_str(&format!(
                "rank {} has no record: {} calls of it are counted and not in the file\n",
                rank.rank, rank.calls
            ));
        }
        for rank in &self.ranks {
            text.push_str(&rank.end());
        }
        for rank in self.ranks.iter().filter(|rank| rank.clock != "rank 0 itself") {
            text.push_str(&rank.text());
        }
        for lane in &self.lanes {
            text.push_str(&format!(
                "{}: {} lanes in steps of {} s\n",
                lane.name, lane.lanes, lane.step_seconds
            ));
        }
        for what in &self.left_out {
            text.push_str(&format!("left out: {what}\n"));
        }
        text
    }
}

impl Summary {
    /// Lengths of steps.
    fn lengths(&self, step: f64) -> String {
        match self.longest_step_seconds {
            Some(longest) if longest > step => format!("{step} to {longest} s"),
            _ => format!("{step} s"),
        }
    }
}

/// How the records of a process end.
pub fn ending(rank: &TracedRank, all: &JobRanks) -> &'static str {
    let has_ended = |place: usize| all.ranks.end_ms.get(place).is_some_and(Option::is_some);
    match rank.ending.as_deref() {
        Some("complete") => "complete",
        Some(_) => "limit",
        None if all.ranks.rank.iter().position(|known| *known == rank.rank).is_some_and(has_ended) => {
            "missing"
        }
        None => "running",
    }
}

/// Calls that the tables count of a rank.
pub fn counted_calls(rank: i32, all: &JobRanks) -> Option<i64> {
    let place = all.ranks.rank.iter().position(|known| *known == rank)?;
    all.ranks.calls.get(place).copied().flatten()
}

/// Ranks with calls and without a record.
pub fn untraced(traced: &[TracedRank], all: &JobRanks, is_wanted: impl Fn(i32) -> bool) -> Vec<UntracedRank> {
    let known = all.ranks.rank.iter().zip(&all.ranks.calls);
    let has_none = |rank: i32| traced.iter().all(|traced| traced.rank != rank);
    known
        .filter(|(rank, _)| is_wanted(**rank) && has_none(**rank))
        .filter_map(|(rank, calls)| {
            Some(UntracedRank { rank: *rank, calls: (*calls).filter(|calls| *calls > 0)? })
        })
        .collect()
}

impl RankSummary {
    /// What is missing at its end; empty where nothing is.
    fn end(&self) -> String {
        let calls = match self.counted_calls {
            Some(counted) => format!("{} of {counted} calls are in the file", self.calls),
            None => format!("{} calls are in the file", self.calls),
        };
        let what = match self.ending {
            "limit" => "its limit of records was reached",
            "missing" => "what it did last is not there: it was killed, or its agent was away",
            "running" => "it runs on",
            _ => return String::new(),
        };
        format!("rank {}: {what}; {calls}\n", self.rank)
    }

    fn text(&self) -> String {
        let mut text = format!("rank {}: clock lined up by {}", self.rank, self.clock);
        if let (Some(error), Some(drift)) = (self.error_seconds, self.drift_ppm) {
            text.push_str(&format!(
                ", {} comparisons within {:.1} µs, drift {drift:+.1} ppm",
                self.comparisons,
                error * 1e6
            ));
        }
        for step in &self.steps {
            text.push_str(&format!(
                "; stepped by {:+.3} ms between {:.3} and {:.3} s",
                step.seconds * 1e3,
                step.from_seconds,
                step.to_seconds
            ));
        }
        text.push('\n');
        text
    }
}
