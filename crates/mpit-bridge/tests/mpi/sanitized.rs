//! The shim with AddressSanitizer and UndefinedBehaviorSanitizer under real MPI, and with ThreadSanitizer over a
//! stub MPI, as a real one is not built for it.

use crate::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library of the compiler's.
fn runtime(name: &str) -> PathBuf {
    let output = succeeded(Command::new("cc").arg(format!("-print-file-name={name}")));
    let path = PathBuf::from(stdout(&output).trim());
    path.canonicalize().unwrap_or_else(|error| panic!("{name}: {error}; install the compiler's sanitizers"))
}

#[tokio::test(flavor = "multi_thread")]
async fn address_and_undefined_behaviour() {
    let folder = tempfile::tempdir().unwrap();
    let built = shim("asan", &["SANITIZE=address,undefined", "OBJECTS=openmpi mpich"]);
    let _alone = alone().await;
    for (mpi, ranks, file, argument) in [
        (Mpi::Open, 4, "tests/programs/communicators.c", ""),
        (Mpi::Mpich, 4, "tests/programs/communicators.c", ""),
        (Mpi::Mpich, 2, "tests/programs/threads.c", ""),
        (Mpi::Open, 4, "tests/programs/collectives.c", "forward"),
        (Mpi::Mpich, 4, "tests/programs/collectives.c", "rooted"),
        (Mpi::Open, 2, "tests/programs/conduct.c", "children"),
        (Mpi::Mpich, 2, "tests/programs/conduct.c", "replace"),
    ] {
        let program = mpi.compile(file, folder.path());
        let mut agent = Agent::start(&folder.path().join("s"));
        let mut command = mpi.run(ranks);
        let object = built.join(format!("libthroughline-{}.so", mpi.name()));
        let (asan, ubsan) = (runtime("libasan.so"), runtime("libubsan.so"));
        let preload = format!("{}:{}:{}", asan.display(), ubsan.display(), object.display());
        // Only the ranks: launchers leak on purpose. Leaks of MPI libraries are their own.
        command.arg("env").arg(format!("LD_PRELOAD={preload}"));
        command.env("ASAN_OPTIONS", "detect_leaks=0").env("UBSAN_OPTIONS", "halt_on_error=1");
        command
            .env("THROUGHLINE_SOCKET", &agent.socket)
            .env("THROUGHLINE_PUSH_MS", "10")
            .env("THROUGHLINE_BIN_MS", "10");
        command.arg(program).arg(argument);
        let clean = |seen: &Seen| seen.ranks.values().filter(|rank| rank.ending == "clean").count();
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        agent.until("ranks end", |seen| clean(seen) == ranks as usize).await;
        let output = running.await.unwrap();
        let text = stderr(&output);
        assert!(
            output.status.success() && !text.contains("Sanitizer") && !text.contains("runtime error"),
            "{text}"
        );
        agent.receiver.stop().await;
    }
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
    let built = shim("tsan", &["SANITIZE=thread", "OBJECTS=mpich"]);
    let _alone = alone().await;
    let driver = stub_driver(&built, folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    // Addresses are laid out as the sanitizer of this age expects.
    let mut command = Command::new("setarch");
    command.arg("-R").arg(driver).args(["4", "20000"]);
    command
        .env("THROUGHLINE_SOCKET", &agent.socket)
        .env("THROUGHLINE_PUSH_MS", "10")
        .env("THROUGHLINE_BIN_MS", "10");
    let output = agent.run(command, 1).await;
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("ThreadSanitizer"), "{}", stderr(&output));
    assert_eq!(agent.seen.cell(0, "send", 8), Some((80_000, 640_000)));
    assert_eq!(agent.seen.cell(0, "allreduce", 8), Some((80_000, 640_000)));
    let sent: u64 = agent.seen.row(0, 64).iter().map(|cell| cell.1).sum();
    assert_eq!(sent, 80_000 + 80_000 * 63, "sends, and allreduces to 63 others");
}
