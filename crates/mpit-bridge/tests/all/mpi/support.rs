//! Building shims and programs, running them on real MPI libraries, and gathering what the receiver makes of it.

use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use throughline_mpit_bridge::{Config, Receiver};
use throughline_sample::wire::{
    Batch, Event, Job, JobComm, JobRank, MpiClockPoint, MpiOpCell, MpiOpenCall, MpiPathCell, MpiPeerCell,
    MpiPvarSample, MpiRankScheduling, MpiRegionCell, MpiSampledCalls, MpiTraceRecord,
};
use tokio::sync::{Mutex, MutexGuard, mpsc};

/// Longest time for anything on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The same with a checker, or for 8 ranks of 4 threads: several times slower.
pub const CHECKED_DEADLINE: Duration = Duration::from_secs(400);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    Open,
    Mpich,
}

pub const BOTH: [Mpi; 2] = [Mpi::Open, Mpi::Mpich];

static ALONE: Mutex<()> = Mutex::const_new(());

/// MPI programs one after the other: 4 ranks that spin keep two cores busy enough.
pub async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}

/// [`alone`] for tests that are not asynchronous.
pub fn alone_blocking() -> MutexGuard<'static, ()> {
    ALONE.blocking_lock()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Folder with both objects, built once with the given extra make variables, whatever test needs it first.
pub fn shim(variant: &str, variables: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shim-{variant}"));
    make_shim(&folder, variables);
    folder
}

fn make_shim(folder: &Path, variables: &[&str]) {
    std::fs::create_dir_all(folder).unwrap();
    // Other test programs build the same.
    let lock = Flock::lock(File::create(folder.join(".lock")).unwrap(), FlockArg::LockExclusive).unwrap();
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(source("shim")).arg(format!("OUT={}", folder.display())).args(variables);
    succeeded(&mut make);
    drop(lock);
}

/// The ordinary objects, beside throughline-exec, where `make test` has them for all test programs: compiling them takes
/// half a minute of a processor.
pub fn plain_shim() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_throughline-exec")).with_file_name("lib/throughline");
        make_shim(&folder, &[]);
        folder
    })
}

pub fn succeeded(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; install it with apt"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

impl Mpi {
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// A command of this MPI: with a suffix, as Debian names it, or from the folder in `THROUGHLINE_TEST_OPENMPI` or
    /// `THROUGHLINE_TEST_MPICH` (benches/mpi-matrix.sh), where `THROUGHLINE_TEST_MPICC` may name MPICH's other compiler.
    pub fn command(self, name: &str) -> String {
        let Some(folder) = self.folder() else { return format!("{name}.{}", self.name()) };
        let other =
            std::env::var("THROUGHLINE_TEST_MPICC").ok().filter(|_| self == Self::Mpich && name == "mpicc");
        format!("{folder}/bin/{}", other.as_deref().unwrap_or(name))
    }

    fn folder(self) -> Option<String> {
        let variable = match self {
            Self::Open => "THROUGHLINE_TEST_OPENMPI",
            Self::Mpich => "THROUGHLINE_TEST_MPICH",
        };
        std::env::var(variable).ok()
    }

    /// A Python whose mpi4py is of this library: Debian's is Open MPI's; in a virtual environment it is the one there.
    pub fn python(self) -> Option<String> {
        match self.folder() {
            Some(folder) => {
                Some(format!("{folder}/bin/python3")).filter(|python| Path::new(python).is_file())
            }
            None => (self == Self::Open).then(|| "/usr/bin/python3".to_owned()),
        }
    }

    /// What the shim's object for this library is called, by the library's header.
    pub fn object(self) -> String {
        let header = || {
            let mut command = Command::new(self.command("mpicc"));
            command.args(["-E", "-dM", "-include", "mpi.h", "-x", "c", "/dev/null"]);
            stdout(&succeeded(&mut command))
        };
        let is_first = self == Self::Mpich || header().contains("#define OMPI_MAJOR_VERSION 4\n");
        format!("libthroughline-{}{}.so", self.name(), if is_first { "" } else { "5" })
    }

    /// A program from tests/programs or demo, compiled for this MPI.
    pub fn compile(self, file: &str, into: &Path) -> PathBuf {
        let path = source(file);
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let program = into.join(format!("{stem}.{}", self.name()));
        // mpif.h itself is full of what Fortran compilers warn of.
        let modules = into.to_str().unwrap();
        let (compiler, flags): (_, &[&str]) = match path.extension().and_then(|kind| kind.to_str()) {
            Some("f90") => ("mpif90", &["-J", modules]),
            // Open MPI's headers for C++ cast functions.
            Some("cpp") => ("mpicxx", &["-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type"]),
            _ => ("mpicc", &["-Wall", "-Wextra", "-Werror"]),
        };
        let mut command = Command::new(self.command(compiler));
        command.args(flags).args(["-O1", "-pthread", "-o"]).arg(&program).arg(path).arg("-lm");
        succeeded(&mut command);
        program
    }

    /// `mpirun -n RANKS` of this MPI, for a program behind it.
    pub fn run(self, ranks: u32) -> Command {
        // With these two alone, Open MPI 4.1 makes no window of one rank ("invalid window").
        self.run_over(if ranks == 1 { "^openib" } else { "self,vader" }, ranks)
    }

    /// The same, Open MPI by these of its transports.
    pub fn run_over(self, transports: &str, ranks: u32) -> Command {
        let mut command = Command::new(self.command("mpirun"));
        command.arg("-n").arg(ranks.to_string());
        command.env_remove("LD_PRELOAD").env_remove("THROUGHLINE_SOCKET");
        if self == Self::Open {
            command.args(["--oversubscribe", "--mca", "btl", transports]);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command
    }
}

/// The program under test, as an installation has it: beside the objects.
pub fn exec() -> Command {
    Command::new(env!("CARGO_BIN_EXE_throughline-exec"))
}

/// `mpirun -n RANKS throughline-exec`, reporting to `socket`.
pub fn run_with_shim(mpi: Mpi, ranks: u32, socket: &Path) -> Command {
    with_shim(mpi.run(ranks), socket)
}

/// The same of a launcher's command that has no program yet.
pub fn with_shim(mut command: Command, socket: &Path) -> Command {
    command.env("THROUGHLINE_SOCKET", socket).env("THROUGHLINE_LIB_DIR", plain_shim());
    command.arg(env!("CARGO_BIN_EXE_throughline-exec"));
    command
}

/// A receiver and what came of it.
pub struct Agent {
    pub receiver: Receiver,
    pub socket: PathBuf,
    records: mpsc::Receiver<Batch>,
    pub observed: Observed,
}

/// The newest values of everything.
#[derive(Debug, Default)]
pub struct Observed {
    pub jobs: BTreeMap<String, Job>,
    pub ranks: BTreeMap<(String, u32), JobRank>,
    /// By rank, operation and size class, over regions and algorithms.
    pub cells: BTreeMap<(u32, String, u64), MpiOpCell>,
    /// By rank, operation, size class, region and algorithm.
    pub parts: BTreeMap<(u32, String, u64, String, String), MpiOpCell>,
    /// By rank and peer: logical.
    pub peers: BTreeMap<(u32, u32), MpiPeerCell>,
    /// By rank and peer: what really went.
    pub wire: BTreeMap<(u32, u32), MpiPeerCell>,
    /// What one-sided operations read: by who did, and from whom.
    pub read: BTreeMap<(u32, u32), MpiPeerCell>,
    /// By operation, kind, direction and peer, over the ranks of the node: bytes and messages.
    pub traffic: BTreeMap<(String, String, String, u32), (u64, u64)>,
    /// By rank and name.
    pub regions: BTreeMap<(u32, String), MpiRegionCell>,
    /// MPI_Finalize of each rank, which is in none of the other sums.
    pub finalize: BTreeMap<u32, MpiOpCell>,
    /// Of the receiver itself.
    pub events: Vec<Event>,
    pub paths: BTreeMap<(u32, String), MpiPathCell>,
    /// The last reading of each rank.
    pub scheduling: BTreeMap<u32, MpiRankScheduling>,
    /// Calls that went on for long, each report of them.
    pub open_calls: Vec<MpiOpenCall>,
    /// Single calls of collectives.
    pub sampled: Vec<MpiSampledCalls>,
    /// By rank and number.
    pub comms: BTreeMap<(u32, u32), JobComm>,
    /// Settings of the MPI library.
    pub settings: BTreeMap<String, String>,
    pub variables: Vec<MpiPvarSample>,
    pub bin_times: Vec<i64>,
    /// Each cell of each bin, as it came.
    pub steps: Vec<Step>,
    /// By rank and number.
    pub traces: BTreeMap<(u32, u64), MpiTraceRecord>,
    /// By rank and number.
    pub clocks: BTreeMap<(u32, u64), MpiClockPoint>,
}

/// A cell's sum at the end of a bin.
#[derive(Debug)]
pub struct Step {
    pub time: i64,
    pub calls: u64,
}

impl Agent {
    pub fn start(socket: &Path) -> Self {
        Self::start_with(Config { socket: socket.to_owned(), node: "n1".into(), ..Config::default() })
    }

    pub fn start_with(config: Config) -> Self {
        let (sender, records) = mpsc::channel(64);
        let socket = config.socket.clone();
        let offset = utc() - monotonic();
        let receiver = Receiver::start(config, Arc::new(move |time| time + offset), sender).unwrap();
        Self { receiver, socket, records, observed: Observed::default() }
    }

    /// Takes records until `enough`.
    pub async fn until(&mut self, what: &str, enough: impl Fn(&Observed) -> bool) {
        self.until_within(DEADLINE, what, enough).await;
    }

    async fn until_within(&mut self, limit: Duration, what: &str, enough: impl Fn(&Observed) -> bool) {
        let result = tokio::time::timeout(limit, async {
            while !enough(&self.observed) {
                let batch = self.records.recv().await.expect("the receiver lives");
                self.observed.take(batch);
            }
        });
        let result = result.await;
        assert!(result.is_ok(), "{what}: {:?}\n{:?}", self.observed.ranks, self.receiver.status());
    }

    /// Until `count` ranks have ended.
    pub async fn until_ended(&mut self, count: usize) {
        self.until("ranks end", |observed| observed.ended() == count).await;
    }

    /// Runs a command beside it, on a thread of its own, until its ranks have ended.
    pub async fn run(&mut self, command: Command, ranks: usize) -> Output {
        self.run_within(command, ranks, DEADLINE).await
    }

    /// The same, for what takes longer. A program that fails is waited for no further.
    pub async fn run_within(&mut self, mut command: Command, ranks: usize, limit: Duration) -> Output {
        let count = self.observed.ended() + ranks;
        let mut program = tokio::task::spawn_blocking(move || command.output().unwrap());
        let until_ended = self.until_within(limit, "ranks end", |observed| observed.ended() == count);
        tokio::pin!(until_ended);
        tokio::select! {
            () = &mut until_ended => program.await.unwrap(),
            output = &mut program => {
                let output = output.unwrap();
                if output.status.success() {
                    until_ended.await;
                }
                output
            }
        }
    }
}

impl Observed {
    fn take(&mut self, batch: Batch) {
        self.jobs.extend(batch.jobs.into_iter().map(|job| (job.key.clone(), job)));
        let ranks = batch.job_ranks.into_iter().map(|rank| ((rank.job_key.clone(), rank.rank), rank));
        self.ranks.extend(ranks);
        for bin in batch.mpi_ops {
            self.bin_times.push(bin.time);
            let rank = bin.rank;
            for cell in bin.cells {
                if cell.operation == "finalize" {
                    self.finalize.insert(rank, cell); // every program's, in a time of its library's own
                    continue;
                }
                self.steps.push(Step { time: bin.time, calls: cell.calls });
                let key = (rank, cell.operation.clone(), cell.size_class_bytes);
                let part = (key.0, key.1.clone(), key.2, cell.region.clone(), cell.algorithm.clone());
                self.parts.insert(part, cell);
                let sum = self.sum(&key);
                self.cells.insert(key, sum);
            }
        }
        self.scheduling.extend(batch.mpi_scheduling.into_iter().map(|reading| (reading.rank, reading)));
        for peers in batch.mpi_peers {
            let to = match peers.kind.as_str() {
                "wire" => &mut self.wire,
                "read" => &mut self.read,
                _ => &mut self.peers,
            };
            to.extend(peers.cells.into_iter().map(|cell| ((peers.rank, cell.peer), cell)));
        }
        for row in batch.mpi_traffic {
            for cell in &row.cells {
                let key = (row.operation.clone(), row.kind.clone(), row.direction.clone(), cell.peer);
                self.traffic.insert(key, (cell.bytes, cell.messages));
            }
        }
        for regions in batch.mpi_regions {
            let paths = regions.paths.into_iter();
            self.paths.extend(paths.map(|cell| ((regions.rank, cell.path.clone()), cell)));
            let cells = regions.cells.into_iter();
            self.regions.extend(cells.map(|cell| ((regions.rank, cell.region.clone()), cell)));
        }
        self.open_calls.extend(batch.mpi_open_calls);
        self.events.extend(batch.events);
        self.sampled.extend(batch.mpi_sampled_calls);
        self.comms.extend(batch.job_comms.into_iter().map(|comm| ((comm.rank, comm.comm), comm)));
        self.settings.extend(batch.job_settings.into_iter().map(|one| (one.name, one.value)));
        self.variables.extend(batch.mpi_pvars);
        for trace in batch.mpi_traces {
            let rank = trace.rank;
            self.traces
                .extend((trace.number..).zip(trace.records).map(|(number, record)| ((rank, number), record)));
        }
        for clock in batch.mpi_clocks {
            let rank = clock.rank;
            self.clocks
                .extend((clock.number..).zip(clock.points).map(|(number, point)| ((rank, number), point)));
        }
    }

    /// All that a rank did in one operation and size class, wherever and however.
    fn sum(&self, key: &(u32, String, u64)) -> MpiOpCell {
        let mut sum = MpiOpCell::default();
        let parts = self.parts.iter().filter(|(part, _)| (part.0, &part.1, part.2) == (key.0, &key.1, key.2));
        for (_, cell) in parts {
            let add = |a: Option<u64>, b: Option<u64>| {
                if a.or(b).is_some() { Some(a.unwrap_or(0) + b.unwrap_or(0)) } else { None }
            };
            sum = MpiOpCell {
                calls: sum.calls + cell.calls,
                bytes: sum.bytes + cell.bytes,
                elapsed_nanoseconds: sum.elapsed_nanoseconds + cell.elapsed_nanoseconds,
                longest_nanoseconds: sum.longest_nanoseconds.max(cell.longest_nanoseconds),
                wait_nanoseconds: add(sum.wait_nanoseconds, cell.wait_nanoseconds),
                received_bytes: add(sum.received_bytes, cell.received_bytes),
                least_nanoseconds: add(sum.least_nanoseconds, cell.least_nanoseconds),
                ..cell.clone()
            };
        }
        sum
    }

    pub fn ended(&self) -> usize {
        self.ranks.values().filter(|rank| rank.end != 0).count()
    }

    /// Calls and bytes of a rank's operation in one size class.
    pub fn cell(&self, rank: u32, operation: &str, class: u64) -> Option<(u64, u64)> {
        let cell = self.cells.get(&(rank, operation.to_owned(), class))?;
        Some((cell.calls, cell.bytes))
    }

    /// A rank's row of the matrix: bytes and messages to each rank, what that one reads among them; zeros where there is no row.
    pub fn row(&self, rank: u32, ranks: u32) -> Vec<(u64, u64)> {
        let cell = |peer| {
            let both = [self.peers.get(&(rank, peer)), self.read.get(&(peer, rank))];
            both.into_iter().flatten().fold((0, 0), |sum, cell| (sum.0 + cell.bytes, sum.1 + cell.messages))
        };
        (0..ranks).map(cell).collect()
    }

    /// All rows.
    pub fn matrix(&self, ranks: u32) -> Vec<Vec<(u64, u64)>> {
        (0..ranks).map(|rank| self.row(rank, ranks)).collect()
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a program shows of itself.
pub fn shown(output: &Output) -> (String, String, Option<i32>) {
    (stdout(output), stderr(output), output.status.code())
}

/// What a run printed, the lines of its errors and its status.
pub type Comparable = (String, usize, Option<i32>);

/// The same without what differs in each run: MPI libraries explain an end with pids, in an order that differs, and
/// complain of themselves with times.
pub fn comparable(output: &Output) -> Comparable {
    let (out, err, status) = shown(output);
    // Of two ranks that crash at once, one may be killed before UCX has shown where it was.
    let changes =
        ["=   PID", "UCX  ERROR", "PMIX ERROR", "==== backtrace", "================================="];
    let changing = |line: &&str| !changes.iter().any(|part| line.contains(part));
    let out = out.lines().filter(changing).flat_map(|line| [line, "\n"]).collect();
    // UCX prints where a crash was, in which the shim is a step.
    (
        out,
        err.lines().filter(changing).filter(|line| !line.is_empty() && !line.contains("0x")).count(),
        status,
    )
}

fn clock(id: nix::time::ClockId) -> i64 {
    let time = nix::time::clock_gettime(id).unwrap();
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

pub fn utc() -> i64 {
    clock(nix::time::ClockId::CLOCK_REALTIME)
}

pub fn monotonic() -> i64 {
    clock(nix::time::ClockId::CLOCK_MONOTONIC)
}
