//! The shim with AddressSanitizer and UndefinedBehaviorSanitizer, and with ThreadSanitizer, under real MPI: programs
//! that were not built for them, into which they are loaded before the shim, which was. With ThreadSanitizer also over
//! a stub MPI that was built for it, so that it sees what the library's threads share, too.

use crate::mpi::generated::{Language, Run, exact};
use crate::mpi::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the shim is checked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    /// AddressSanitizer and UndefinedBehaviorSanitizer.
    Address,
    Thread,
}

/// A library of the compiler's.
fn runtime(name: &str) -> PathBuf {
    let output = succeeded(Command::new("cc").arg(format!("-print-file-name={name}")));
    let path = PathBuf::from(stdout(&output).trim());
    path.canonicalize().unwrap_or_else(|error| panic!("{name}: {error}; install the compiler's sanitizers"))
}

impl Sanitizer {
    /// The shim's object for this library, built with the checker.
    fn object(self, mpi: Mpi) -> PathBuf {
        let (variant, flags) = match self {
            Self::Address => ("asan", "SANITIZE=address,undefined"),
            Self::Thread => ("tsan", "SANITIZE=thread"),
        };
        let name = mpi.object();
        let which = name.strip_prefix("libthroughline-").unwrap().strip_suffix(".so").unwrap();
        shim(variant, &[flags, &format!("OBJECTS={which}")]).join(&name)
    }

    /// `mpirun -n RANKS` with checker and shim in the ranks, reporting to `socket`. The ranks only: launchers leak on
    /// purpose, and so do MPI libraries. Races between threads of the MPI library or the program are their own.
    pub fn run(self, mpi: Mpi, ranks: u32, socket: &Path) -> Command {
        let runtimes: &[&str] = match self {
            Self::Address => &["libasan.so", "libubsan.so"],
            Self::Thread => &["libtsan.so"],
        };
        let object = self.object(mpi);
        let mut preload: Vec<_> = runtimes.iter().map(|name| runtime(name).display().to_string()).collect();
        preload.push(object.display().to_string());
        let mut command = mpi.run(ranks);
        // Addresses are laid out as a ThreadSanitizer of some age expects.
        command.args(["setarch", "-R", "env"]).arg(format!("LD_PRELOAD={}", preload.join(":")));
        command.env("ASAN_OPTIONS", "detect_leaks=0").env("UBSAN_OPTIONS", "halt_on_error=1");
        command.env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1");
        // UCX replaces madvise, by which a thread ends in a place where ThreadSanitizer has left it already.
        command.env("UCX_MEM_EVENTS", "n");
        command.env("THROUGHLINE_SOCKET", socket);
        command.env("THROUGHLINE_PUSH_MS", "10").env("THROUGHLINE_BIN_MS", "10");
        command
    }
}

/// Nothing was found: ThreadSanitizer's own exit status does not come through every launcher.
pub fn assert_clean(output: &std::process::Output) {
    let text = stderr(output);
    let found = ["Sanitizer", "runtime error"].iter().any(|word| text.contains(word));
    assert!(output.status.success() && !found, "{}\n{text}", output.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn address_and_undefined_behaviour() {
    let folder = tempfile::tempdir().unwrap();
    let _alone = alone().await;
    for (mpi, ranks, file, argument) in [
        (Mpi::Open, 4, "tests/programs/communicators.c", ""),
        (Mpi::Mpich, 4, "tests/programs/communicators.c", ""),
        (Mpi::Mpich, 2, "tests/programs/threads.c", ""),
        (Mpi::Open, 4, "tests/programs/guarded.c", ""),
        (Mpi::Mpich, 4, "tests/programs/guarded.c", ""),
        (Mpi::Open, 4, "tests/programs/freed.c", ""),
        (Mpi::Mpich, 4, "tests/programs/freed.c", ""),
        (Mpi::Open, 4, "tests/programs/collectives.c", "forward"),
        (Mpi::Mpich, 4, "tests/programs/collectives.c", "rooted"),
        (Mpi::Open, 2, "tests/programs/program_state.c", "children"),
        (Mpi::Mpich, 2, "tests/programs/program_state.c", "replace"),
        (Mpi::Open, 2, "tests/programs/nvtx.c", ""),
    ] {
        let program = mpi.compile(file, folder.path());
        // A socket of its own: an agent takes up what ranks of an earlier one left beside it.
        let place = tempfile::tempdir().unwrap();
        let mut agent = Agent::start(&place.path().join("s"));
        let mut command = Sanitizer::Address.run(mpi, ranks, &agent.socket);
        command.arg(program).arg(argument);
        assert_clean(&agent.run_within(command, ranks as usize, CHECKED_DEADLINE).await);
        let endings: Vec<_> = agent.observed.ranks.values().map(|rank| rank.ending.as_str()).collect();
        assert_eq!(endings, vec!["clean"; ranks as usize], "{file} {argument}");
        agent.receiver.stop().await;
    }
}

/// Ranges that other threads end.
#[tokio::test(flavor = "multi_thread")]
async fn threads_of_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let _alone = alone().await;
    let program = Mpi::Open.compile("tests/programs/nvtx.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command = Sanitizer::Thread.run(Mpi::Open, 2, &agent.socket);
    command.arg(program);
    assert_clean(&agent.run_within(command, 2, CHECKED_DEADLINE).await);
    assert_eq!(agent.observed.regions[&(1, "elsewhere".to_owned())].mpi_calls, 10);
}

/// The generated program, which calls every wrapped function, with a checker: exact all the same.
macro_rules! generated {
    ($($name:ident $sanitizer:ident $mpi:ident $language:ident $threads:literal,)+) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let _alone = alone().await;
            let run = Run::new(Mpi::$mpi, Language::$language, 2, $threads);
            exact(run.checked_by(Sanitizer::$sanitizer)).await;
        }
    )+ };
}

generated! {
    addresses_of_generated_program Address Open C 4,
    addresses_of_generated_program_on_mpich Address Mpich C 4,
    addresses_of_fortran_2008_program Address Open Fortran2008 1,
    addresses_of_fortran_2008_program_on_mpich Address Mpich Fortran2008 1,
    threads_of_generated_program Thread Open C 4,
    threads_of_generated_program_on_mpich Thread Mpich C 4,
}

/// The stub library and its driver, both with ThreadSanitizer, linked behind the shim.
fn stub_driver(shim: &Path, folder: &Path) -> PathBuf {
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let flags = ["-O1", "-g", "-fsanitize=thread", "-Wall", "-Wextra", "-Werror", "-pthread"];
    let library = folder.join("libmpistub.so");
    let mut command = Command::new("cc");
    command.args(flags).args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source("stub_mpi.c"));
    succeeded(&mut command);
    let driver = folder.join("driver");
    let mut command = Command::new("cc");
    command.args(flags).arg("-o").arg(&driver).arg(source("stub_driver.c"));
    command.arg("-Wl,--no-as-needed").arg(shim.join("libthroughline-mpich.so")).arg(library);
    command.arg(format!("-Wl,-rpath,{},-rpath,{}", shim.display(), folder.display()));
    succeeded(&mut command);
    driver
}

#[tokio::test(flavor = "multi_thread")]
async fn threads() {
    let folder = tempfile::tempdir().unwrap();
    let object = Sanitizer::Thread.object(Mpi::Mpich);
    let _alone = alone().await;
    let driver = stub_driver(object.parent().unwrap(), folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    // Addresses are laid out as the sanitizer of this age expects.
    let mut command = Command::new("setarch");
    command.arg("-R").arg(driver).args(["4", "20000"]);
    command
        .env("THROUGHLINE_SOCKET", &agent.socket)
        .env("THROUGHLINE_PUSH_MS", "10")
        .env("THROUGHLINE_BIN_MS", "10");
    let output = agent.run(command, 1).await;
    assert_clean(&output);
    assert_eq!(agent.observed.cell(0, "send", 8), Some((80_000, 640_000)));
    assert_eq!(agent.observed.cell(0, "allreduce", 8), Some((80_000, 640_000)));
    let sent: u64 = agent.observed.row(0, 64).iter().map(|cell| cell.1).sum();
    assert_eq!(sent, 80_000 + 80_000 * 63, "sends, and allreduces to 63 others");
}
