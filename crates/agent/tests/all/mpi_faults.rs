//! The real agent stopped, killed and replaced, and out of disk, while MPI ranks push to it: the program's output and
//! status are what they would have been, and what did not arrive is counted.

use crate::bench::{Node, shim};
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

const RANKS: u64 = 2;

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpit-bridge").join(file)
}

#[derive(Clone, Copy)]
enum Library {
    Mpich,
    OpenMpi,
}

const BOTH: [Library; 2] = [Library::Mpich, Library::OpenMpi];

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }

    /// `allreduce CALLS PAUSE_MS STATUS FILE` of the shim's own tests.
    fn program(self) -> &'static Path {
        static BUILT: [OnceLock<PathBuf>; 2] = [OnceLock::new(), OnceLock::new()];
        BUILT[self as usize].get_or_init(|| {
            let name = format!("agent-allreduce.{}", self.name());
            let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            let mut compiler = Command::new(format!("mpicc.{}", self.name()));
            compiler.arg("-O1").arg("-o").arg(&program).arg(source("tests/programs/allreduce.c"));
            assert!(compiler.status().expect("both libraries are installed (make deps)").success());
            program
        })
    }

    fn launcher(self) -> Command {
        let mut run = Command::new(format!("mpirun.{}", self.name()));
        if let Self::OpenMpi = self {
            run.args(["--oversubscribe", "--mca", "btl", "self,vader"]);
            run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        run
    }
}

/// Starts it with the shim, pushing as often as it can. It makes the file `late` when most of its calls are done.
fn start(library: Library, socket: &Path, calls: u64, pause_ms: u64) -> Child {
    let object = shim().join(format!("libthroughline-{}.so", library.name()));
    let mut run = library.launcher();
    run.args(["-n", &RANKS.to_string(), "env"])
        .arg(format!("LD_PRELOAD={}", object.display()))
        .arg(library.program());
    run.args([&calls.to_string(), &pause_ms.to_string(), "0"])
        .arg(late(socket))
        .env("THROUGHLINE_SOCKET", socket);
    run.env("THROUGHLINE_PUSH_MS", "10").env("THROUGHLINE_BIN_MS", "10").env_remove("LD_PRELOAD");
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn late(socket: &Path) -> PathBuf {
    socket.with_file_name("late")
}

/// Waits for the program and holds what it shows against what it shows by itself.
fn unharmed(running: Child) {
    let output = running.wait_with_output().unwrap();
    let shown = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((shown.0.as_ref(), shown.1.as_ref(), output.status.code()), ("sum 3\n", "", Some(0)));
}

/// All calls have arrived: sums, whatever was lost on the way.
fn all_calls(calls: u64) -> String {
    format!("throughline_mpi_calls_total{{operation=\"allreduce\"}} {}", RANKS * calls)
}

/// SIGSTOP for longer than its queue holds, some hundred frames: frames are lost and counted, and the sums are whole
/// after SIGCONT.
#[test]
fn stopped_and_continued() {
    let node = Node::bare();
    let agent = node.run();
    let running = start(Library::Mpich, &node.socket(), 2000, 5);
    agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 2"]);
    agent.signal(SIGSTOP);
    // However fast the machine is, the program has lived long enough for four frames to every one that fits.
    while !late(&node.socket()).exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    agent.signal(SIGCONT);
    unharmed(running);
    let metrics = agent.wait_for(&[&all_calls(2000), "throughline_connected_ranks{source=\"mpi\"} 0"]);
    assert!(lost(&metrics) > 0.0, "{metrics}");
}

/// Frames that ranks could not send, as they said at their end.
fn lost(metrics: &str) -> f64 {
    let lines =
        metrics.lines().filter(|line| line.starts_with("throughline_failed_reads_total{source=\"mpi\"}"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn stopped_until_the_program_has_ended() {
    for library in BOTH {
        let node = Node::bare();
        let agent = node.run();
        let running = start(library, &node.socket(), 40, 20);
        agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 2"]);
        agent.signal(SIGSTOP);
        unharmed(running);
        agent.signal(SIGCONT);
        agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 0"]);
    }
}

#[test]
fn killed_and_restarted() {
    for library in BOTH {
        let node = Node::bare();
        let mut agent = node.run();
        let running = start(library, &node.socket(), 200, 20);
        agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 2"]);
        agent.kill();
        let agent = node.run();
        unharmed(running);
        agent.wait_for(&[&all_calls(200), "throughline_connected_ranks{source=\"mpi\"} 0"]);
    }
}

/// The program ends between two agents: the second one takes over what its ranks left, and removes it.
#[test]
fn killed_and_started_when_the_program_has_ended() {
    for library in BOTH {
        let node = Node::bare();
        let mut agent = node.run();
        let running = start(library, &node.socket(), 100, 20);
        agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 2"]);
        agent.kill();
        unharmed(running);
        let left = || std::fs::read_dir(node.state().join("run/mpi.sock.last")).unwrap().count();
        assert_eq!(left(), 2);
        let mut agent = node.run();
        agent.wait_for(&[
            &all_calls(100),
            "throughline_recovered_ends_total{source=\"mpi\"} 2",
            "throughline_unobserved_ends_total{source=\"mpi\"} 0",
        ]);
        let begin = std::time::Instant::now();
        while left() > 0 {
            assert!(begin.elapsed() < crate::bench::PATIENCE, "the files stay");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        agent.wait_for(&["throughline_running_jobs{source=\"mpi\"} 0"]);
        assert!(agent.stop().0.success());
        let batches = node.spooled();
        let ends = crate::bench::ended_ranks(&batches);
        assert_eq!(ends.iter().map(|rank| rank.ending.as_str()).collect::<Vec<_>>(), ["clean", "clean"]);
        assert!(ends.iter().all(|rank| rank.end > rank.start && rank.pid != 0), "{ends:?}");
    }
}

/// No agent was there while the program ran.
#[test]
fn started_when_the_program_has_ended() {
    let node = Node::bare();
    // It makes the folder.
    let mut agent = node.run();
    agent.kill();
    unharmed(start(Library::Mpich, &node.socket(), 20, 20));
    let agent = node.run();
    agent.wait_for(&[&all_calls(20), "throughline_running_jobs{source=\"mpi\"} 0"]);
}

/// The agent has been sent all of it, and is killed before it has put anything into its spool.
#[test]
fn killed_at_the_goodbye() {
    let slow = Node::bare().with("DELIVERY__BATCH_INTERVAL_SECONDS", "60");
    let mut agent = slow.run();
    let running = start(Library::Mpich, &slow.socket(), 30, 20);
    agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 2"]);
    unharmed(running);
    agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 0"]);
    agent.kill();
    let node = slow.with_variable("THROUGHLINE__DELIVERY__BATCH_INTERVAL_SECONDS", "0.05");
    let agent = node.run();
    agent.wait_for(&[&all_calls(30), "throughline_running_jobs{source=\"mpi\"} 0"]);
}

/// Its spool can grow no further (RLIMIT_FSIZE, as a full disk): ranks notice nothing, the agent lives on, says so, and
/// still shows what it cannot keep.
#[test]
fn no_space_for_the_spool() {
    let node = Node::bare();
    let agent = node.run_with_file_limit(16 * 1024);
    let running = start(Library::Mpich, &node.socket(), 100, 20);
    unharmed(running);
    agent.wait_for(&[&all_calls(100), "throughline_connected_ranks{source=\"mpi\"} 0"]);
    agent.wait_for(&["throughline_spool_"]);
}
