//! Jobs and ranks as the real agent keeps them: over its own end, at a job's edges, with their places. Ranks here are
//! processes of a small program of the tests: this one, started again.

use crate::bench::{Node, PATIENCE};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};
use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use throughline_sample::wire::{Batch, JobRank};

/// The name of the test that is a rank when this variable names its socket.
const AS_RANK: &str = "THROUGHLINE_TEST_RANK_SOCKET";

fn now(clock: nix::time::ClockId) -> i64 {
    let time = nix::time::clock_gettime(clock).unwrap();
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

/// A bin with one cell of allreduce.
fn operation(calls: u64) -> Vec<u8> {
    let mut body = now(nix::time::ClockId::CLOCK_MONOTONIC).to_le_bytes().to_vec();
    body.extend([1_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat());
    body.extend([17_u16.to_le_bytes(), 14_u16.to_le_bytes()].concat());
    body.extend([0; 12]); // no region, algorithm or flags
    body.extend([calls, calls * 8192, 1000, 100, 0, 0].map(u64::to_le_bytes).concat());
    whole(3, 1, &body)
}

fn frame(kind: u16, sequence: u32, fields: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (tag, data) in fields {
        body.extend(tag.to_le_bytes());
        body.extend(u16::try_from(data.len()).unwrap().to_le_bytes());
        body.extend(*data);
    }
    whole(kind, sequence, &body)
}

fn whole(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(throughline_mpit_bridge::frame::MAGIC.to_le_bytes());
    bytes.extend(throughline_mpit_bridge::frame::VERSION.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(u32::try_from(32 + body.len()).unwrap().to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(now(nix::time::ClockId::CLOCK_MONOTONIC).to_le_bytes());
    bytes.extend(now(nix::time::ClockId::CLOCK_REALTIME).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Not a test of its own: what [`Rank::start`] runs in another process. Connects, sends its HELLO, and again whenever the
/// agent has gone, until its standard input is closed; then it says goodbye if it can.
#[test]
#[ignore = "needs its parent: the tests below run it as a rank"]
fn a_rank() {
    let path = std::env::var_os(AS_RANK).unwrap();
    let address = UnixAddr::new(Path::new(&path)).unwrap();
    let epoch = now(nix::time::ClockId::CLOCK_REALTIME).to_le_bytes();
    let (closed, is_closed) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        closed.send(()).unwrap();
    });
    let connected = || {
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        connect(socket.as_raw_fd(), &address).ok()?;
        let launcher = format!("one launcher{}", std::env::var("JOB").unwrap_or_default());
        let rank = std::env::var("RANK").unwrap().parse::<u32>().unwrap().to_le_bytes();
        let hello =
            frame(1, 0, &[(2, &rank), (3, &4_u32.to_le_bytes()), (4, &epoch), (9, launcher.as_bytes())]);
        send(socket.as_raw_fd(), &hello, MsgFlags::MSG_NOSIGNAL).ok()?;
        Some(socket)
    };
    let pushes = std::env::var_os("PUSHES").is_some();
    let (mut connection, mut calls) = (None, 0);
    loop {
        connection = connection.or_else(connected);
        let over = is_closed.recv_timeout(Duration::from_millis(20)).is_ok();
        let Some(socket) = &connection else {
            if over {
                return;
            }
            continue;
        };
        if over {
            if pushes {
                calls += 1;
                let _ = send(socket.as_raw_fd(), &operation(calls), MsgFlags::MSG_NOSIGNAL);
                println!("calls {calls}.");
            }
            let _ =
                send(socket.as_raw_fd(), &frame(7, 2, &[(32, &1_u32.to_le_bytes())]), MsgFlags::MSG_NOSIGNAL);
            return;
        }
        // Sums, as a shim sends them: what the agent has no space for is in the next ones.
        calls += 1;
        let push = if pushes { operation(calls) } else { frame(6, 1, &[]) };
        let sent = send(socket.as_raw_fd(), &push, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT);
        if sent.is_err_and(|error| error != nix::errno::Errno::EAGAIN) {
            connection = None;
        }
    }
}

/// A rank in a process of its own.
pub struct Rank(pub Child);

impl Rank {
    fn start(node: &Node, rank: u32) -> Self {
        Self(Self::program(node, rank).spawn().unwrap())
    }

    /// One of another job.
    pub fn of_job(node: &Node, job: &str) -> Self {
        Self(Self::program(node, 0).env("JOB", job).spawn().unwrap())
    }

    /// One that pushes operations, too, 50 times a second.
    fn start_pushing(node: &Node, rank: u32) -> Self {
        Self(Self::program(node, rank).env("PUSHES", "1").spawn().unwrap())
    }

    fn program(node: &Node, rank: u32) -> Command {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "ranks::a_rank", "--ignored", "--nocapture"]);
        program.env(AS_RANK, node.socket()).env("RANK", rank.to_string());
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        program
    }

    /// Says goodbye and ends; gives its calls.
    pub fn end(mut self) -> u64 {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout);
        let calls = text.split_once("calls ").and_then(|(_, rest)| rest.split_once('.'));
        calls.map_or(0, |(calls, _)| calls.parse().unwrap())
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A figure of one source, 0 where it is not there.
fn number(metrics: &str, name: &str, source: &str) -> f64 {
    let begin = format!("{name}{{source=\"{source}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&begin));
    line.map_or(0.0, |value| value.parse().unwrap())
}

pub fn ranks(batches: &[Batch]) -> Vec<&JobRank> {
    batches.iter().flat_map(|batch| &batch.job_ranks).collect()
}

/// Three ranks: one ends while no agent runs, one connects anew, one ends later. None is lost and none is two.
#[test]
fn ranks_over_the_agents_end() {
    let node = Node::bare();
    let mut agent = node.run();
    let (gone, back, killed) = (Rank::start(&node, 0), Rank::start(&node, 1), Rank::start(&node, 2));
    agent.wait_for(&[
        "throughline_connected_ranks{source=\"mpi\"} 3",
        "throughline_running_jobs{source=\"mpi\"} 1",
    ]);
    // What it knows is on disk a second after the last change; all three are in it when the file says so.
    let state = node.state().join("mpi-ranks");
    let begin = Instant::now();
    let launcher_known =
        || std::fs::read(&state).map_or(0, |bytes| bytes.windows(6).filter(|w| w == b"local:").count());
    while launcher_known() < 6 {
        assert!(begin.elapsed() < PATIENCE, "{} keys in {}", launcher_known(), state.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    agent.kill();
    gone.kill();
    let mut agent = node.run();
    agent.wait_for(&[
        "throughline_connected_ranks{source=\"mpi\"} 2",
        "throughline_reclaimed_ranks_total{source=\"mpi\"} 2",
        "throughline_unobserved_ends_total{source=\"mpi\"} 1",
    ]);
    killed.kill();
    agent.wait_for(&[
        "throughline_connected_ranks{source=\"mpi\"} 1",
        "throughline_running_jobs{source=\"mpi\"} 1",
    ]);
    back.end();
    agent.wait_for(&["throughline_running_jobs{source=\"mpi\"} 0"]);
    assert!(agent.stop().0.success());

    let batches = node.spooled();
    let all = ranks(&batches);
    let starts: BTreeSet<(u32, i64)> = all.iter().map(|rank| (rank.rank, rank.start)).collect();
    assert_eq!(
        starts.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(),
        [0, 1, 2],
        "no rank is two: {starts:?}"
    );
    let ended = crate::bench::ended_ranks(&batches);
    let mut ends: Vec<_> = ended.iter().map(|rank| (rank.rank, &*rank.ending)).collect();
    ends.sort_unstable();
    assert_eq!(ends, [(0, "unseen"), (1, "clean"), (2, "lost")]);
    let keys: BTreeSet<_> = all.iter().map(|rank| &rank.job_key).collect();
    assert_eq!(keys.len(), 1);
    let uid = nix::unistd::getuid();
    assert!(keys.first().unwrap().ends_with(&format!("@{uid}")), "{keys:?}");
    let ended = batches.iter().flat_map(|batch| &batch.jobs).filter(|job| job.end != 0);
    let ends: BTreeSet<i64> = ended.map(|job| job.end).collect();
    assert_eq!(ends.len(), 1, "the job ends once, with its last rank: {ends:?}");
}

/// Links and ports are read when a job begins and when it ends, however long their interval is.
#[test]
fn a_jobs_edges_are_sampled() {
    let node = Node::bare()
        .with_gpus("hgx-h200")
        .with_adapter("mlx5_0", throughline_sample::Guid(0x40))
        .with("NVML__INTERVAL_SECONDS", "3600")
        .with("SYSFS__INTERVAL_SECONDS", "3600")
        .with("MPI__EDGE_SAMPLES_PER_SECOND", "50");
    let mut agent = node.run();
    agent
        .wait_for(&["throughline_source_up{source=\"nvml\"} 1", "throughline_source_up{source=\"sysfs\"} 1"]);
    let records =
        || ["nvml", "sysfs"].map(|source| number(&agent.metrics(), "throughline_records_total", source));
    let until_more = |before: [f64; 2]| {
        let begin = Instant::now();
        loop {
            let now = records();
            if now.iter().zip(before).all(|(now, before)| *now > before) {
                return now;
            }
            assert!(begin.elapsed() < PATIENCE, "{before:?} {now:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let before = until_more([0.0; 2]);
    let rank = Rank::start(&node, 0);
    let during = until_more(before);
    rank.end();
    until_more(during);
    agent.wait_for(&[
        "throughline_extra_samples_total{source=\"nvml\"} 2",
        "throughline_extra_samples_total{source=\"sysfs\"} 2",
    ]);
    assert!(agent.stop().0.success());
    let batches = node.spooled();
    let all = ranks(&batches);
    let end = all.iter().find(|rank| rank.end != 0).unwrap();
    let after =
        |times: Vec<i64>, edge: i64| times.into_iter().filter(|time| *time >= edge).min().unwrap_or(i64::MAX);
    let links =
        || batches.iter().flat_map(|batch| &batch.gpu_links).map(|sample| sample.time).collect::<Vec<_>>();
    let ports =
        || batches.iter().flat_map(|batch| &batch.host_ports).map(|sample| sample.time).collect::<Vec<_>>();
    for (what, times) in [("links", links()), ("ports", ports())] {
        let first = after(times.clone(), end.start);
        assert!(first < end.end, "{what}: a reading between beginning and end: {first} {}", end.end);
        assert!(after(times, end.end) < i64::MAX, "{what}: a reading after the end");
    }
}

/// A rank's GPUs and adapter ports, by its process id.
#[test]
fn ranks_have_places() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("scenario");
    let hgx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/scenarios/hgx-h200.scenario");
    let write = |processes: &str| {
        let text = format!("include {}\ninclude processes\n", hgx.display());
        std::fs::write(&scenario, text).unwrap();
        std::fs::write(folder.path().join("processes"), processes).unwrap();
    };
    write("");
    let node = Node::bare()
        .with_gpus("hgx-h200")
        .with_variable("THROUGHLINE_NVML_SCENARIO", scenario.to_str().unwrap());
    let (one, two) = (Rank::start(&node, 0), Rank::start(&node, 1));
    write(&format!("process 2-3 {}\n", one.0.id()));
    let mut agent = node.run();
    agent.wait_for(&[
        "throughline_connected_ranks{source=\"mpi\"} 2",
        "throughline_source_up{source=\"nvml\"} 1",
    ]);
    wait_for_records(&node, |all| {
        [0, 1]
            .iter()
            .all(|number| all.iter().any(|rank| rank.rank == *number && rank.gpu_evidence == "driver"))
    });
    one.end();
    two.end();
    agent.wait_for(&["throughline_running_jobs{source=\"mpi\"} 0"]);
    assert!(agent.stop().0.success());
    let batches = node.spooled();
    let uuids: Vec<_> =
        batches.iter().flat_map(|batch| &batch.gpus).map(|gpu| (gpu.index, &gpu.uuid)).collect();
    let uuid = |index: u32| uuids.iter().find(|(found, _)| *found == index).unwrap().1.clone();
    let all = ranks(&batches);
    let end = |number: u32| *all.iter().find(|rank| rank.rank == number && rank.end != 0).unwrap();
    let used = |rank: &JobRank| -> Vec<_> {
        let driver = rank.gpus.iter().filter(|gpu| gpu.evidence == "driver");
        driver.map(|gpu| (gpu.gpu_uuid.clone(), gpu.minor)).collect()
    };
    assert_eq!(used(end(0)), [(uuid(2), Some(2)), (uuid(3), Some(3))]);
    assert!(end(0).gpus.iter().all(|gpu| gpu.first_seen > end(0).start && gpu.first_seen < end(0).end));
    assert_eq!((used(end(1)), end(1).gpu_evidence.as_str()), (vec![], "driver"), "known to have used none");
    assert!(!end(0).cpus.is_empty());
}

/// Waits until records of ranks in the spool of an agent that runs are as wanted.
fn wait_for_records(node: &Node, is_there: impl Fn(&[&JobRank]) -> bool) {
    let begin = Instant::now();
    loop {
        let batches = node.spooled();
        let all = ranks(&batches);
        if is_there(&all) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{all:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where a library does not report processes, a rank's GPUs are unknown, which is not none.
#[test]
fn ranks_on_gpus_whose_library_reports_no_processes() {
    let library = crate::bench::nvml_double().parent().unwrap().join("libamd_smi.so");
    // NVML is switched on as on every node, and finds nothing.
    let node = Node::bare()
        .with_gpus("mi300x")
        .with("NVML__LIBRARY", "libthroughline-no-such-library.so.1")
        .with("AMD_SMI__ENABLED", "true")
        .with("AMD_SMI__LIBRARY", library.to_str().unwrap());
    let mut agent = node.run();
    agent.wait_for(&[
        "throughline_source_up{source=\"amd_smi\"} 1",
        "throughline_source_info{source=\"nvml\",state=\"library_missing\"} 1",
    ]);
    // Agents look for the places of ranks now and then: one that ends before counts as not looked for.
    let unknown = "throughline_unknown_rank_gpus_total{source=\"mpi\",reason=\"not_told_by_library\"} 1";
    for seconds in [2, 4, 8, 16, 32] {
        let rank = Rank::start(&node, 0);
        agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 1"]);
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        rank.end();
        let text = agent.wait_for(&["throughline_running_jobs{source=\"mpi\"} 0"]);
        if text.lines().any(|line| line.starts_with(unknown)) {
            break;
        }
        assert!(seconds < 32, "{text}");
    }
    assert!(agent.stop().0.success());
    let batches = node.spooled();
    let is_unknown = |rank: &&JobRank| rank.gpus.is_empty() && rank.gpu_evidence.is_empty();
    assert!(ranks(&batches).iter().all(is_unknown), "{:?}", ranks(&batches));
}

fn signal(agent: &crate::bench::Agent, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(agent.pid()), signal).unwrap();
}

/// The newest sum of calls in a spool.
fn calls(batches: &[Batch]) -> u64 {
    let rows = batches.iter().flat_map(|batch| batch.mpi_ops.iter().chain(&batch.mpi_rank_rows));
    let cells = rows.flat_map(|bin| &bin.cells);
    cells.map(|cell| cell.calls).max().unwrap_or(0)
}

/// A series of the page: its value once it is there and not 0.
fn until_counted(agent: &crate::bench::Agent, name: &str, source: &str) {
    let begin = Instant::now();
    while number(&agent.metrics(), name, source) == 0.0 {
        assert!(begin.elapsed() < PATIENCE, "{name} of {source}: {}", agent.metrics());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stopped for longer than its socket has space, the agent has all sums in the end, and no rank ended by it.
#[test]
fn a_stopped_agent_loses_nothing_but_fine_time() {
    let node = Node::bare();
    let mut agent = node.run();
    let rank = Rank::start_pushing(&node, 0);
    agent.wait_for(&["throughline_mpi_calls_total{operation=\"allreduce\"}"]);
    signal(&agent, nix::sys::signal::Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(2));
    signal(&agent, nix::sys::signal::Signal::SIGCONT);
    let reported = rank.end();
    agent.wait_for(&["throughline_running_jobs{source=\"mpi\"} 0"]);
    assert!(agent.stop().0.success());
    let batches = node.spooled();
    assert_eq!(calls(&batches), reported);
    let ends = crate::bench::ended_ranks(&batches);
    assert_eq!(ends.iter().map(|rank| rank.ending.as_str()).collect::<Vec<_>>(), ["clean"]);
}

/// The disk is full under spool and state file: ranks are served, it is counted, and when there is space again the
/// newest sums are there. On a small file system of its own.
#[test]
fn a_full_disk_under_the_agent() {
    let node = Node::bare();
    std::fs::create_dir_all(node.state()).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"]).arg(node.state()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        throughline_test_support::skip!("no small file system can be mounted; run the tests as root");
    }
    let unmount = Unmount(node.state());
    let mut agent = node.run();
    let filler = node.state().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    let rank = Rank::start_pushing(&node, 0);
    agent.wait_for(&[
        "throughline_connected_ranks{source=\"mpi\"} 1",
        "throughline_mpi_calls_total{operation=",
    ]);
    until_counted(&agent, "throughline_spool_errors_total", "spool");
    until_counted(&agent, "throughline_state_failures_total", "mpi");
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    let reported = rank.end();
    agent.wait_for(&["throughline_running_jobs{source=\"mpi\"} 0"]);
    assert!(agent.stop().0.success());
    let batches = node.spooled();
    assert_eq!(calls(&batches), reported);
    assert!(ranks(&batches).iter().any(|rank| rank.ending == "clean"));
    drop(unmount);
}

/// A file system that is taken away at the end of a test, however it ends.
struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
