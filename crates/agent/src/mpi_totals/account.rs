//! Where the time of the ranks of this node went, for `/metrics`: by job, summed over its ranks. Measured lines only; what of the time in MPI
//! was waiting is estimated by the server.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use throughline_daemon::Page;
use throughline_sample::catalogue::ACCOUNT_SECONDS;
use throughline_sample::wire::{Batch, MpiRankScheduling};

/// Most ranks; the database has all the same.
const RANKS_MAX: usize = 8192;

/// Lines, in the order of [`seconds`].
const LINES: [&str; 4] = ["computing", "waiting_for_core", "off_processor", "in_mpi"];

type Lines = [f64; LINES.len()];

/// By job, rank and start.
#[derive(Debug, Default)]
pub struct Accounts {
    ranks: HashMap<(String, u32, i64), Lines>,
}

impl Accounts {
    /// Takes over what was read of ranks of jobs that are shown. The sums of one stay until all of its ranks have ended.
    pub fn observe(&mut self, batch: &Batch, is_running: impl Fn(&str) -> bool) {
        for reading in &batch.mpi_scheduling {
            let Some(lines) = seconds(reading).filter(|_| is_running(&reading.job_key)) else { continue };
            let key = (reading.job_key.clone(), reading.rank, reading.epoch);
            if self.ranks.len() < RANKS_MAX || self.ranks.contains_key(&key) {
                let known = self.ranks.entry(key).or_default();
                // A stretch that is not over may turn out to be of another line; a counter does not fall.
                known.iter_mut().zip(lines).for_each(|(known, line)| *known = line.max(*known));
            }
        }
        if batch.job_ranks.iter().any(|rank| rank.end != 0) {
            self.ranks.retain(|(job, _, _), _| is_running(job));
        }
    }

    /// Adds the series.
    pub fn expose(&self, page: &mut Page) {
        let mut jobs: BTreeMap<&str, Lines> = BTreeMap::new();
        for ((job, _, _), lines) in &self.ranks {
            let sums = jobs.entry(job).or_default();
            sums.iter_mut().zip(lines).for_each(|(sum, line)| *sum += line);
        }
        for (job, sums) in jobs {
            for (line, sum) in LINES.into_iter().zip(sums) {
                let labels = [("job_key", job), ("line", line)];
                page.counter(ACCOUNT_SECONDS.name, ACCOUNT_SECONDS.help, &labels, sum);
            }
        }
    }
}

/// The lines of a reading; `None` where its shim reports no account.
fn seconds(reading: &MpiRankScheduling) -> Option<Lines> {
    let of = |nanoseconds: Option<u64>| nanoseconds.map(|sum| Duration::from_nanos(sum).as_secs_f64());
    let (elapsed, mpi) = (of(reading.elapsed_nanoseconds)?, of(reading.mpi_nanoseconds)?);
    let (off, queued) = (of(reading.off_outside_nanoseconds)?, of(reading.queued_outside_nanoseconds)?);
    Some([(elapsed - mpi - off).max(0.0), queued, (off - queued).max(0.0), mpi])
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_daemon::Format;
    use throughline_sample::wire::JobRank;

    fn reading(rank: u32, second: u64) -> MpiRankScheduling {
        let part = |tenths: u64| Some(second * tenths * 100_000_000);
        MpiRankScheduling {
            job_key: "slurm:1".into(),
            rank,
            elapsed_nanoseconds: part(10),
            mpi_nanoseconds: part(3),
            off_outside_nanoseconds: part(5),
            queued_outside_nanoseconds: part(1),
            ..MpiRankScheduling::default()
        }
    }

    fn text(accounts: &Accounts) -> String {
        let mut page = Page::default();
        accounts.expose(&mut page);
        page.encode(Format::Text)
    }

    #[test]
    fn sums_of_a_job_until_its_last_rank_ends() {
        let mut accounts = Accounts::default();
        let batch = |readings| Batch { mpi_scheduling: readings, ..Batch::default() };
        let silent = MpiRankScheduling { job_key: "slurm:2".into(), ..MpiRankScheduling::default() };
        accounts.observe(&batch(vec![reading(0, 10), reading(1, 20), silent]), |_| true);
        let of = |line: &str| {
            format!("throughline_job_account_seconds_total{{job_key=\"slurm:1\",line=\"{line}\"}}")
        };
        for (line, value) in
            [("computing", "6.0"), ("waiting_for_core", "3.0"), ("off_processor", "12.0"), ("in_mpi", "9.0")]
        {
            assert!(text(&accounts).contains(&format!("{} {value}\n", of(line))), "{}", text(&accounts));
        }
        assert!(!text(&accounts).contains("slurm:2"));
        // A call that was open is over, and was shorter than it seemed.
        let less = MpiRankScheduling { mpi_nanoseconds: Some(5_000_000_000), ..reading(1, 20) };
        let ended = JobRank { job_key: "slurm:1".into(), rank: 0, end: 1, ..JobRank::default() };
        accounts.observe(&Batch { job_ranks: vec![ended.clone()], ..batch(vec![less]) }, |_| true);
        assert!(text(&accounts).contains(&format!("{} 9.0\n", of("in_mpi"))));
        accounts.observe(&Batch { job_ranks: vec![ended], ..Batch::default() }, |_| false);
        assert!(!text(&accounts).contains("slurm:1"));
    }
}
