//! MPI calls that go on in ranks of this node, for `/metrics`: by job and operation how many ranks are in one and since when.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use throughline_daemon::Page;
use throughline_sample::catalogue::{OPEN_CALL_RANKS, OPEN_CALL_SECONDS};
use throughline_sample::wire::{Batch, MpiOpenCall};

/// Most calls cached, one a thread; the database has all the same.
const CALLS_MAX: usize = 8192;
/// A shorter one is what programs do.
const SECONDS_MIN: f64 = 1.0;
/// One that is not repeated for so long is gone with its rank: ranks repeat what goes on every 10 s at least.
const REPEATED_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Open {
    operation: String,
    /// How long it had gone on when it was reported.
    seconds: f64,
    reported: Instant,
}

/// What is open, by job, rank and thread.
#[derive(Debug, Default)]
pub struct OpenCalls {
    calls: HashMap<(String, u32, u32), Open>,
}

impl OpenCalls {
    /// Takes over what ranks sent.
    pub fn observe(&mut self, batch: &Batch, now: Instant) {
        for call in &batch.mpi_open_calls {
            let key = (call.job_key.clone(), call.rank, call.thread);
            if call.has_returned {
                self.calls.remove(&key);
            } else if self.calls.len() < CALLS_MAX || self.calls.contains_key(&key) {
                self.calls.insert(key, open(call, now));
            }
        }
        for rank in batch.job_ranks.iter().filter(|rank| rank.end != 0) {
            self.calls.retain(|(job, number, _), _| *job != rank.job_key || *number != rank.rank);
        }
        if !batch.mpi_open_calls.is_empty() {
            self.calls.retain(|_, open| now.saturating_duration_since(open.reported) < REPEATED_WITHIN);
        }
    }

    /// Adds the series.
    pub fn expose(&self, page: &mut Page, now: Instant) {
        let mut groups: BTreeMap<(&str, &str), (f64, BTreeSet<u32>)> = BTreeMap::new();
        for ((job, rank, _), open) in &self.calls {
            let since = now.saturating_duration_since(open.reported);
            let seconds = open.seconds + since.as_secs_f64();
            if since >= REPEATED_WITHIN || seconds < SECONDS_MIN {
                continue;
            }
            let (longest, ranks) = groups.entry((job, &open.operation)).or_default();
            *longest = seconds.max(*longest);
            ranks.insert(*rank);
        }
        for ((job, operation), (longest, ranks)) in groups {
            let labels = [("job_key", job), ("operation", operation)];
            page.gauge(OPEN_CALL_SECONDS.name, OPEN_CALL_SECONDS.help, &labels, longest);
            page.gauge(OPEN_CALL_RANKS.name, OPEN_CALL_RANKS.help, &labels, ranks.len() as u64);
        }
    }
}

fn open(call: &MpiOpenCall, now: Instant) -> Open {
    let nanoseconds = u64::try_from(call.time.saturating_sub(call.start)).unwrap_or_default();
    let seconds = Duration::from_nanos(nanoseconds).as_secs_f64();
    Open { operation: call.operation.clone(), seconds, reported: now }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use throughline_daemon::Format;
    use throughline_sample::wire::JobRank;

    fn barrier(rank: u32, seconds: i64) -> MpiOpenCall {
        let job_key = "slurm:1".to_owned();
        let time = seconds * 1_000_000_000;
        MpiOpenCall { job_key, rank, operation: "barrier".into(), time, ..MpiOpenCall::default() }
    }

    fn text(open: &OpenCalls, now: Instant) -> String {
        let mut page = Page::default();
        open.expose(&mut page, now);
        page.encode(Format::Text)
    }

    #[test]
    fn what_goes_on_until_it_returns_or_its_rank_ends() {
        let (mut open, now) = (OpenCalls::default(), Instant::now());
        let observe = |open: &mut OpenCalls, calls: Vec<MpiOpenCall>| {
            open.observe(&Batch { mpi_open_calls: calls, ..Batch::default() }, now);
        };
        let short = MpiOpenCall { time: 600_000_000, operation: "recv".into(), ..barrier(3, 0) };
        observe(&mut open, vec![barrier(0, 138), barrier(1, 137), short]);
        let labels = "{job_key=\"slurm:1\",operation=\"barrier\"}";
        let shown = text(&open, now + Duration::from_secs(2));
        assert!(shown.contains(&format!("throughline_job_open_call_seconds{labels} 140.0\n")), "{shown}");
        assert!(shown.contains(&format!("throughline_job_open_call_ranks{labels} 2\n")), "{shown}");
        assert!(!text(&open, now).contains("recv"), "shorter than a second");
        observe(&mut open, vec![MpiOpenCall { has_returned: true, ..barrier(0, 139) }]);
        assert!(text(&open, now).contains(&format!("throughline_job_open_call_ranks{labels} 1\n")));
        let ended = JobRank { job_key: "slurm:1".into(), rank: 1, end: 1, ..JobRank::default() };
        open.observe(&Batch { job_ranks: vec![ended], ..Batch::default() }, now);
        assert!(!text(&open, now).contains("barrier"));
        observe(&mut open, vec![barrier(0, 138)]);
        assert!(!text(&open, now + REPEATED_WITHIN).contains("barrier"), "nobody repeats it");
    }
}
