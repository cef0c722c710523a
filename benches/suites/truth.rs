//! What the shim reported beside what the counter wrote: calls and bytes by operation, rank by rank.

use anyhow::Context;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throughline_mpit_bridge::{Config, Receiver, operations};
use throughline_sample::wire::{Batch, JobRank};

/// How long a rank's last records may take after its end on a busy machine.
const ARRIVAL: Duration = Duration::from_secs(10);
/// The shim and the counter read the clock one after the other, on a busy machine.
const CLOCK_NANOSECONDS: i64 = 30_000_000_000;
/// How often it is looked whether they are there.
const LOOK: Duration = Duration::from_millis(20);

/// Calls and bytes.
type Sums = (u64, u64);
/// A rank of one run: job, epoch, rank.
type RankKey = (String, i64, u32);
/// Operation, size class, region, algorithm.
type CellKey = (String, u64, String, String);

/// Newest values of what the receiver passed on.
#[derive(Default)]
struct Observed {
    ranks: HashMap<(u32, i64), JobRank>,
    cells: HashMap<RankKey, HashMap<CellKey, Sums>>,
}

/// The receiver that ranks report to.
pub struct Agent {
    observed: Arc<Mutex<Observed>>,
    receiver: Receiver,
    runtime: tokio::runtime::Runtime,
}

/// What one rank counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    state: String,
    pid: u32,
    start: i64,
    rank: i64,
    has_fortran: bool,
    /// By operation as the shim names it, both forms of counts together.
    sums: BTreeMap<String, Sums>,
}

/// The comparison of one run.
#[derive(Debug, Default, Clone)]
pub struct Compared {
    /// Ranks that ended MPI and were compared.
    pub ranks: u64,
    /// Ranks whose counts can't be had: ended from outside, or with bindings of Fortran that pass C's functions by.
    pub not_compared: u64,
    /// Calls of the operations that the shim has, by the counter.
    pub calls: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// What is not equal.
    pub wrong: Vec<String>,
}

impl Agent {
    /// Starts it.
    pub fn start(socket: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let observed = Arc::new(Mutex::new(Observed::default()));
        let (sender, mut records) = tokio::sync::mpsc::channel(64);
        let config = Config { socket: socket.to_owned(), node: "bench".into(), ..Config::default() };
        let offset = utc() - monotonic()?;
        let entered = runtime.enter();
        let receiver = Receiver::start(config, Arc::new(move |time| time + offset), sender)?;
        drop(entered);
        let taken = observed.clone();
        runtime.spawn(async move {
            while let Some(batch) = records.recv().await {
                locked(&taken).take(batch);
            }
        });
        Ok(Self { observed, receiver, runtime })
    }

    /// Evicts what is known of earlier runs.
    pub fn clear(&self) {
        *locked(&self.observed) = Observed::default();
    }

    /// Compares what the ranks of the run that has just ended counted. Where it failed, its launcher may have killed ranks
    /// before they had sent all: those that are recorded as lost are left out.
    pub fn compare(&self, folder: &Path, has_failed: bool) -> anyhow::Result<Compared> {
        let mut compared = Compared::default();
        for entry in std::fs::read_dir(folder)?.filter_map(Result::ok) {
            if entry.path().extension().is_some_and(|extension| extension == "txt") {
                let text = std::fs::read_to_string(entry.path())?;
                let counted = counted(&text).with_context(|| format!("{}", entry.path().display()))?;
                self.compare_rank(&counted, has_failed, &mut compared);
            }
        }
        Ok(compared)
    }

    fn compare_rank(&self, counted: &Counted, has_failed: bool, compared: &mut Compared) {
        if counted.state != "finalized" || counted.has_fortran {
            compared.not_compared += 1;
            return;
        }
        let rank = self.rank(counted);
        if has_failed && rank.as_ref().is_none_or(|rank| rank.ending != "clean") {
            compared.not_compared += 1;
            return;
        }
        compared.ranks += 1;
        compared.calls += counted.sums.values().map(|sums| sums.0).sum::<u64>();
        compared.bytes += counted.sums.values().map(|sums| sums.1).sum::<u64>();
        let who = format!("rank {} (process {})", counted.rank, counted.pid);
        let Some(rank) = rank else {
            compared.wrong.push(format!("{who} is not among the ranks that reported"));
            return;
        };
        if rank.end == 0 || rank.ending != "clean" {
            compared.wrong.push(format!("{who} called MPI_Finalize and is recorded as {:?}", rank.ending));
        }
        if i64::from(rank.rank) != counted.rank && counted.rank >= 0 {
            compared.wrong.push(format!("{who} is recorded as rank {}", rank.rank));
        }
        let reported = self.sums(&rank);
        let names: std::collections::BTreeSet<_> = counted.sums.keys().chain(reported.keys()).collect();
        for name in names {
            let of = |sums: &BTreeMap<String, Sums>| sums.get(name).copied().unwrap_or_default();
            let (expected, found) = (of(&counted.sums), of(&reported));
            if expected != found {
                compared.wrong.push(format!(
                    "{who}, {name}: {} calls, {} bytes recorded instead of {} calls, {} bytes",
                    found.0, found.1, expected.0, expected.1
                ));
            }
        }
    }

    /// The record of a rank, once it has ended.
    fn rank(&self, counted: &Counted) -> Option<JobRank> {
        let end = Instant::now() + ARRIVAL;
        loop {
            let found = locked(&self.observed).rank(counted);
            if found.as_ref().is_some_and(|rank| rank.end != 0) || Instant::now() >= end {
                return found;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn sums(&self, rank: &JobRank) -> BTreeMap<String, Sums> {
        let observed = locked(&self.observed);
        let mut sums = BTreeMap::<String, Sums>::new();
        for ((operation, ..), (calls, bytes)) in
            observed.cells.get(&(rank.job_key.clone(), rank.start, rank.rank)).into_iter().flatten()
        {
            let sum = sums.entry(operation.clone()).or_default();
            *sum = (sum.0 + calls, sum.1 + bytes);
        }
        sums
    }

    /// Frames that were lost or could not be read, all runs together; stops the receiver.
    pub fn stop(self) -> (u64, u64) {
        let status = self.receiver.status();
        self.runtime.block_on(self.receiver.stop());
        (status.lost_frames, status.malformed_messages())
    }
}

impl Observed {
    fn take(&mut self, batch: Batch) {
        for rank in batch.job_ranks {
            self.ranks.insert((rank.pid, rank.start), rank);
        }
        for bin in batch.mpi_ops {
            let cells = self.cells.entry((bin.job_key, bin.epoch, bin.rank)).or_default();
            for cell in bin.cells {
                let key = (cell.operation, cell.size_class_bytes, cell.region, cell.algorithm);
                cells.insert(key, (cell.calls, cell.bytes));
            }
        }
    }

    fn rank(&self, counted: &Counted) -> Option<JobRank> {
        let is_same = |(pid, start): &(u32, i64)| {
            *pid == counted.pid && start.abs_diff(counted.start) < CLOCK_NANOSECONDS.unsigned_abs()
        };
        self.ranks.iter().find(|(key, _)| is_same(key)).map(|(_, rank)| rank.clone())
    }
}

fn locked(observed: &Mutex<Observed>) -> MutexGuard<'_, Observed> {
    observed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what the counter wrote: the operations that the shim records, by its own table of them.
fn counted(text: &str) -> Option<Counted> {
    let known: std::collections::HashSet<_> = operations().map(|(_, name)| name).collect();
    let mut counted = Counted::default();
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["state", state] => counted.state = state.to_owned(),
            ["pid", pid] => counted.pid = pid.parse().ok()?,
            ["start", start] => counted.start = start.parse().ok()?,
            ["rank", rank] => counted.rank = rank.parse().ok()?,
            ["fortran", flag] => counted.has_fortran = flag != "0",
            [function, calls, bytes] => {
                let name = crate::rules::without_form(function.strip_prefix("MPI_")?).to_lowercase();
                if known.contains(name.as_str()) {
                    let sum = counted.sums.entry(name).or_default();
                    *sum = (sum.0 + calls.parse::<u64>().ok()?, sum.1 + bytes.parse::<u64>().ok()?);
                }
            }
            _ => {}
        }
    }
    Some(counted).filter(|counted| counted.pid != 0)
}

fn utc() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

fn monotonic() -> anyhow::Result<i64> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
    Ok(now.tv_sec() * 1_000_000_000 + now.tv_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_by_operation_in_both_forms() {
        let text = "state finalized\npid 7\nstart 9\nrank 1\nsize 2\nfortran 0\nMPI_Send 2 24\nMPI_Send_c 1 8\n\
                    MPI_Type_commit 5 0\nMPI_Barrier 1 0\n";
        let counted = counted(text).unwrap();
        assert_eq!((counted.state.as_str(), counted.pid, counted.rank), ("finalized", 7, 1));
        let expected = [("barrier".to_owned(), (1, 0)), ("send".to_owned(), (3, 32))];
        assert_eq!(counted.sums, BTreeMap::from(expected));
    }
}
