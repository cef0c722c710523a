//! Jobs and ranks as the real agent keeps them: over its own end, at a job's edges, with their places. Ranks here are
//! processes of a small program of the tests: this one, started again.
#![allow(clippy::unwrap_used, missing_docs)]

mod bench;

use bench::{Node, PATIENCE};
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

fn frame(kind: u16, sequence: u32, fields: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (tag, data) in fields {
        body.extend(tag.to_le_bytes());
        body.extend(u16::try_from(data.len()).unwrap().to_le_bytes());
        body.extend(*data);
    }
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

/// Not a test of its own: what [`Rank::start`] runs in another process. Connects, says hello, and again whenever the
/// agent has gone, until its standard input is closed; then it says goodbye if it can.
#[test]
fn a_rank() {
    let Some(path) = std::env::var_os(AS_RANK) else { return };
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
        let rank = std::env::var("RANK").unwrap().parse::<u32>().unwrap().to_le_bytes();
        let hello = frame(1, 0, &[(2, &rank), (3, &4_u32.to_le_bytes()), (4, &epoch), (9, b"one launcher")]);
        send(socket.as_raw_fd(), &hello, MsgFlags::MSG_NOSIGNAL).ok()?;
        Some(socket)
    };
    let mut connection = None;
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
            let _ =
                send(socket.as_raw_fd(), &frame(7, 2, &[(32, &1_u32.to_le_bytes())]), MsgFlags::MSG_NOSIGNAL);
            return;
        }
        if send(socket.as_raw_fd(), &frame(6, 1, &[]), MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT)
            .is_err_and(|error| error != nix::errno::Errno::EAGAIN)
        {
            connection = None;
        }
    }
}

/// A rank in a process of its own.
struct Rank(Child);

impl Rank {
    fn start(node: &Node, rank: u32) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "a_rank"]).env(AS_RANK, node.socket()).env("RANK", rank.to_string());
        program.stdin(Stdio::piped()).stdout(Stdio::null());
        Self(program.spawn().unwrap())
    }

    /// Says goodbye and ends.
    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
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

fn ranks(batches: &[Batch]) -> Vec<&JobRank> {
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
        "throughline_unseen_ends_total{source=\"mpi\"} 1",
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
    let mut ends: Vec<_> =
        all.iter().filter(|rank| rank.end != 0).map(|rank| (rank.rank, &*rank.ending)).collect();
    ends.sort_unstable();
    assert_eq!(ends, [(0, "unseen"), (1, "clean"), (2, "lost")]);
    let keys: BTreeSet<_> = all.iter().map(|rank| &rank.job_key).collect();
    assert_eq!(keys.len(), 1);
    let uid = nix::unistd::getuid();
    assert!(keys.first().unwrap().ends_with(&format!("@{uid}")), "{keys:?}");
    let job_ends = batches.iter().flat_map(|batch| &batch.jobs).filter(|job| job.end != 0).count();
    assert_eq!(job_ends, 1, "the job ends once, with its last rank");
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
    // The job and two ranks; then both ranks with their places.
    agent.wait_for(&["throughline_records_total{source=\"mpi\"} 5"]);
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
    assert_eq!(end(0).gpus.as_ref().unwrap().name, [uuid(2), uuid(3)]);
    assert!(end(1).gpus.as_ref().unwrap().name.is_empty(), "known to have used none");
    assert!(!end(0).cpus.is_empty());
}
