//! The exactness program: generated with random communicators, datatypes and sizes, it calls every wrapped
//! function; what the shim reports has to be what the generator reckons by the rules, to the last byte.
//!
//! `THROUGHLINE_SEED` repeats a run; each prints its seed where it fails.
//!
//! What a library itself fails in, without the shim too, is left out on that library; where it is, the reason stands.
//! Spawned processes are another program's world: spawn.rs.

mod between;
mod collectives;
mod files;
mod generator;
mod language;
mod messages;
mod model;
mod program;
mod windows;

use crate::mpi::sanitized::{Sanitizer, assert_clean};
use crate::mpi::support::*;
use generator::Generator;
pub use language::Language;
use model::{Model, Sums};
use program::{Library, generate};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use throughline_mpit_bridge::operations;

/// One run of a generated program.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    mpi: Mpi,
    language: Language,
    ranks: usize,
    threads: usize,
    seed: u64,
    /// First without the shim.
    plain_first: bool,
    /// With a shim that is checked so.
    sanitizer: Option<Sanitizer>,
}

/// What the library's own header and name say of it.
fn library(mpi: Mpi) -> Library {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("version.c");
    std::fs::write(&file, "#include <mpi.h>\nversion MPI_VERSION MPICH_NUMVERSION OMPI_MAJOR_VERSION\n")
        .unwrap();
    let said = stdout(&succeeded(Command::new(mpi.command("mpicc")).arg("-E").arg(&file)));
    let line = said.lines().find_map(|line| line.strip_prefix("version ")).unwrap();
    let mut words = line.split_whitespace();
    let newest = words.next().unwrap().parse::<u32>().unwrap() >= 4;
    // Eight digits; the first three are 4.00. The MPI-5 ABI's header has no such number.
    let mpich_4_0 = words.next().unwrap().parse().is_ok_and(|number: u32| number / 100_000 == 400);
    let open_mpi_5 = words.next().unwrap() == "5";
    // Open MPI 5 has no large counts yet.
    Library { newest, large: newest && mpi == Mpi::Mpich, mpich: mpi == Mpi::Mpich, mpich_4_0, open_mpi_5 }
}

fn seed() -> u64 {
    let given = std::env::var("THROUGHLINE_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| u64::try_from(utc()).unwrap() >> 10)
}

impl Run {
    pub fn new(mpi: Mpi, language: Language, ranks: usize, threads: usize) -> Self {
        Self { mpi, language, ranks, threads, seed: seed(), plain_first: false, sanitizer: None }
    }

    pub fn checked_by(self, sanitizer: Sanitizer) -> Self {
        Self { sanitizer: Some(sanitizer), ..self }
    }

    fn generate(&self) -> Generator {
        generate(self.seed, self.ranks, self.threads, self.language, library(self.mpi))
    }

    /// Writes and compiles it.
    fn compile(&self, g: &Generator, folder: &Path) -> PathBuf {
        let mut text = String::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/mpi/generated");
        let program = folder.join("generated");
        let mut command = match self.language {
            Language::C => {
                language::c(&g.body, &mut text);
                std::fs::write(folder.join("statements.c"), &text).unwrap();
                let mut command = Command::new(self.mpi.command("mpicc"));
                command
                    .arg("-pthread")
                    .arg(format!("-DTHREADS={}", self.threads))
                    .arg(source.join("frame.c"));
                command
            }
            other => {
                language::fortran(other, &g.body, &mut text);
                std::fs::write(folder.join("statements.f90"), &text).unwrap();
                let mut command = Command::new(self.mpi.command("mpif90"));
                command.args(["-ffree-line-length-none", "-fallow-argument-mismatch", "-w"]);
                command.arg(match other {
                    Language::Fortran77 => "-DF77",
                    Language::Fortran90 => "-DF90",
                    _ => "-DF08",
                });
                command.args(g.library.mpich_4_0.then_some("-DMPICH_4_0")).arg(source.join("frame.F90"));
                command
            }
        };
        succeeded(command.arg("-I").arg(folder).arg("-o").arg(&program));
        program
    }
}

/// All functions of the shim's table that this library has, as the generator writes them.
fn missing(g: &Generator) -> Vec<String> {
    let called: BTreeSet<String> = g.called.iter().map(|name| name.to_lowercase()).collect();
    let is_new = |name: &str| {
        name.ends_with("_init")
            && !["send_init", "bsend_init", "ssend_init", "rsend_init", "recv_init"].contains(&name)
            || ["isendrecv", "isendrecv_replace", "pready", "pready_range", "pready_list", "parrived"]
                .contains(&name)
    };
    let mut wanted = Vec::new();
    for (number, name) in operations() {
        if g.library.newest || !is_new(name) {
            wanted.push(name.to_owned());
            // Numbers below 128 have counts, and so a large-count form.
            wanted.extend((g.large && number < 128 && g.has_large(name)).then(|| format!("{name}_c")));
        }
    }
    wanted.retain(|name| name != "finalize"); // called by each program
    wanted.retain(|name| !is_of_frame(name.trim_end_matches("_c")));
    wanted.retain(|name| !called.contains(name) && !g.left_out.contains(name));
    wanted
}

/// What makes and frees communicators, windows and files: the frame of each program calls some of it, and made.c all.
fn is_of_frame(operation: &str) -> bool {
    let makes =
        ["comm_", "cart_", "graph_", "dist_graph_", "intercomm_", "win_create", "win_allocate", "win_free"];
    let others = [
        "file_set_info",
        "file_set_atomicity",
        "file_seek_shared",
        "file_set_view",
        "file_delete",
        "buffer_detach",
    ];
    makes.iter().any(|prefix| operation.starts_with(prefix)) || others.contains(&operation)
}

/// MPI_Win_test says how often it was called, as nobody can know before.
fn add_tests(model: &mut Model, output: &str) {
    for line in output.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["tests", rank, count] = words[..] {
            model.timed(rank.parse().unwrap(), "Win_test", count.parse().unwrap());
        }
    }
}

fn compare(run: &Run, model: &Model, observed: &Observed) {
    let theirs: BTreeMap<_, _> = observed
        .cells
        .iter()
        .filter(|((_, operation, _), _)| !is_of_frame(operation))
        .map(|(key, cell)| {
            let received = cell.received_bytes.unwrap_or(0);
            (key.clone(), Sums { calls: cell.calls, bytes: cell.bytes, received })
        })
        .collect();
    let keys: BTreeSet<_> = theirs.keys().chain(model.cells.keys()).collect();
    let mut wrong = Vec::new();
    for key in keys {
        let (expected, counted) = (model.cells.get(key), theirs.get(key));
        if expected.copied().unwrap_or_default() != counted.copied().unwrap_or_default() {
            wrong.push(format!("{key:?}: expected {expected:?}, counted {counted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{run:?}\n{}", wrong.join("\n"));
    let ranks = u32::try_from(run.ranks).unwrap();
    assert_eq!(observed.matrix(ranks), model.matrix, "{run:?}");
}

/// Runs a command no longer than [`CHECKED_DEADLINE`], whatever it waits for.
fn limited(command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=10", &CHECKED_DEADLINE.as_secs().to_string()]).arg(command.get_program());
    limited.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    // More ranks than cores: who waits lets others run. MPICH has no such setting.
    limited.env("OMPI_MCA_mpi_yield_when_idle", "1");
    limited
}

/// MPICH 4.0's schedules of nonblocking collectives fail now and then among threads, without the shim too (3 ranks of
/// 4 threads: one run of three), and print this. Such a run shows nothing.
const BROKEN_SCHEDULE: &str = "MPIDU_Sched_progress_state";
/// How often a run is tried that the library broke off so.
const TRIES: usize = 8;

/// Whether the run came to its end; false if the library broke it off by a fault of its own.
fn came_to_its_end(run: &Run, output: &Output, how: &str) -> bool {
    let is_known = run.mpi == Mpi::Mpich && run.threads > 1 && stderr(output).contains(BROKEN_SCHEDULE);
    let reported = format!("{run:?} fails {how}: {}\n{}\n{}", output.status, stdout(output), stderr(output));
    assert!(output.status.success() || is_known, "{reported}");
    output.status.success()
}

/// What the library itself can't run says nothing about the shim.
fn runs_without_shim(run: &Run, program: &Path, folder: &Path) -> bool {
    let plain = || {
        let mut command = run.mpi.run(u32::try_from(run.ranks).unwrap());
        limited(command.arg(program).arg(folder)).output().unwrap()
    };
    (0..TRIES).any(|_| came_to_its_end(run, &plain(), "without the shim"))
}

/// Generates, runs and compares.
pub async fn exact(run: Run) {
    let folder = tempfile::tempdir().unwrap();
    let g = run.generate();
    assert_eq!(missing(&g), Vec::<String>::new(), "functions of the table that the generator does not know");
    let program = run.compile(&g, folder.path());
    if run.plain_first && !runs_without_shim(&run, &program, folder.path()) {
        throughline_test_support::left_out(format_args!(
            "the MPI library fails without the shim, {TRIES} times of {TRIES}: {run:?}"
        ));
        return;
    }
    for _ in 0..TRIES {
        if ran_exactly(&run, &g, &program, folder.path()).await {
            println!("exact: {run:?}");
            return;
        }
    }
    panic!("{run:?}: the library broke off {TRIES} runs");
}

/// One run under the shim; false if it did not come to its end by a fault of the library.
async fn ran_exactly(run: &Run, g: &Generator, program: &Path, folder: &Path) -> bool {
    // A socket of its own: an agent takes up what ranks of an earlier try left beside it.
    let place = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&place.path().join("s"));
    let ranks = u32::try_from(run.ranks).unwrap();
    let mut command = match run.sanitizer {
        None => run_with_shim(run.mpi, ranks, &agent.socket),
        Some(sanitizer) => sanitizer.run(run.mpi, ranks, &agent.socket),
    };
    let command = limited(command.arg(program).arg(folder));
    let output = agent.run_within(command, run.ranks, CHECKED_DEADLINE).await;
    if !came_to_its_end(run, &output, "under the shim") {
        agent.receiver.stop().await;
        return false;
    }
    if run.sanitizer.is_some() {
        assert_clean(&output);
    }
    let mut model = g.model.times(run.threads as u64);
    model.add(&g.once);
    add_tests(&mut model, &stdout(&output));
    compare(run, &model, &agent.observed);
    assert_eq!(agent.receiver.status().unknown_messages, model.unknown, "{run:?}");
    agent.receiver.stop().await;
    true
}

/// One test for each shape that is run always.
macro_rules! shapes {
    ($($name:ident $mpi:ident $language:ident $ranks:literal $threads:literal,)+) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let _alone = alone().await;
            exact(Run::new(Mpi::$mpi, Language::$language, $ranks, $threads)).await;
        }
    )+ };
}

shapes! {
    c_program Open C 3 1,
    c_program_with_threads Open C 2 4,
    fortran_77_program Open Fortran77 2 1,
    fortran_90_program Open Fortran90 2 1,
    fortran_2008_program Open Fortran2008 2 1,
    c_program_on_mpich Mpich C 3 1,
    c_program_on_mpich_with_threads Mpich C 2 4,
    fortran_77_program_on_mpich Mpich Fortran77 2 1,
    fortran_90_program_on_mpich Mpich Fortran90 2 1,
    fortran_2008_program_on_mpich Mpich Fortran2008 2 1,
}

/// `make soak`: 1 to 8 ranks, one thread and four, every binding; `THROUGHLINE_SHAPES` names other numbers of ranks.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs some minutes: all numbers of ranks, with and without threads; make soak runs it"]
async fn all_shapes() {
    let _alone = alone().await;
    let given = std::env::var("THROUGHLINE_SHAPES").unwrap_or_else(|_| "1 2 3 4 5 6 7 8".into());
    for ranks in given.split_whitespace().map(|word| word.parse().unwrap()) {
        for mpi in BOTH {
            let fortran = [Language::Fortran77, Language::Fortran90, Language::Fortran2008][ranks % 3];
            for (language, threads) in [(Language::C, 1), (Language::C, 4), (fortran, 1)] {
                let run = Run { plain_first: true, ..Run::new(mpi, language, ranks, threads) };
                exact(run).await;
            }
        }
    }
}
