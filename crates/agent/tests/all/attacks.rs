//! Attacks of one user of a node on the agent as a process: its memory stays within 64 MB, and the rows of another user
//! arrive, every one. Attackers and their victim are processes of this test, started again as other users.

use crate::bench::{Agent, Node};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The agent's own memory under attack, at any moment: the 64 MB of docs/SECURITY.md without the pages of its file and
/// libraries, 12 to 17 MB of the program that is shipped (as it starts, and all of it). Of the one under test, which is not optimized, they
/// are 26.
const RSS_BYTES_MAX: u64 = 47 << 20;
/// What the process started again does: this variable names the attack, and the socket is in the next.
const ATTACK: &str = "THROUGHLINE_TEST_ATTACK";
const SOCKET: &str = "THROUGHLINE_TEST_SOCKET";
/// How long an attack lasts.
const LASTS: Duration = Duration::from_secs(5);
/// The attackers and the victim. No account of a machine has these numbers.
const ATTACKERS: [u32; 2] = [64_001, 64_002];
const VICTIM: u32 = 64_003;
/// Ranks of the victim, and the calls that each reports in the end.
const VICTIM_RANKS: u32 = 4;
const VICTIM_CALLS: u64 = 40;

fn now(clock: nix::time::ClockId) -> i64 {
    let time = nix::time::clock_gettime(clock).unwrap();
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

fn frame(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
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

fn fields(all: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (tag, data) in all {
        body.extend(tag.to_le_bytes());
        body.extend(u16::try_from(data.len()).unwrap().to_le_bytes());
        body.extend(*data);
    }
    body
}

fn hello(rank: u32, size: u32, launcher: &str) -> Vec<u8> {
    hello_of(now(nix::time::ClockId::CLOCK_REALTIME), rank, size, launcher)
}

fn hello_of(epoch: i64, rank: u32, size: u32, launcher: &str) -> Vec<u8> {
    let epoch = epoch.to_le_bytes();
    let all = [(2, &rank.to_le_bytes()[..]), (3, &size.to_le_bytes()), (4, &epoch), (9, launcher.as_bytes())];
    frame(1, 0, &fields(&all))
}

/// One bin with these cells: operation, size class, region, calls.
fn operations(sequence: u32, cells: impl Iterator<Item = (u16, u16, u16, u64)>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut count = 0_u32;
    for (operation, class, region, calls) in cells {
        all.extend([operation, class, region, 0, 0, 0].map(u16::to_le_bytes).concat());
        all.extend([0; 4]);
        all.extend([calls, calls * 8, 1000, 100, 0, 0].map(u64::to_le_bytes).concat());
        count += 1;
    }
    let mut body = now(nix::time::ClockId::CLOCK_MONOTONIC).to_le_bytes().to_vec();
    body.extend([count.to_le_bytes(), 0_u32.to_le_bytes()].concat());
    body.extend(all);
    frame(3, sequence, &body)
}

/// Names of 64 regions from this number on, each as long as a name may be.
fn regions(sequence: u32, first: u32) -> Vec<u8> {
    let mut body = now(nix::time::ClockId::CLOCK_MONOTONIC).to_le_bytes().to_vec();
    for number in first..first + 64 {
        let text = format!("{number:05}{}", "r".repeat(250));
        body.extend(2_u16.to_le_bytes());
        body.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        body.extend([number, 0, 0].map(u32::to_le_bytes).concat());
        body.extend(text.as_bytes());
    }
    frame(8, sequence, &body)
}

/// Performance variables with 2,000 elements each.
fn variables(sequence: u32, of: u64) -> Vec<u8> {
    let mut body = now(nix::time::ClockId::CLOCK_MONOTONIC).to_le_bytes().to_vec();
    for variable in 0..2 {
        let name = format!("variable_{of}_{variable}");
        body.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        body.extend(name.as_bytes());
        body.extend(6_u16.to_le_bytes());
        body.extend(2000_u32.to_le_bytes());
        for element in 0..2000_u32 {
            body.extend(element.to_le_bytes());
            body.extend((of as f64 + f64::from(element)).to_le_bytes());
        }
    }
    frame(5, sequence, &body)
}

fn connection(path: &Path) -> Option<OwnedFd> {
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    connect(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).ok()?;
    Some(socket)
}

/// Waits for the agent's answer; false where it closes the connection.
fn is_welcome(socket: &OwnedFd) -> bool {
    recv(socket.as_raw_fd(), &mut [0; 4096], MsgFlags::empty()).is_ok_and(|length| length > 0)
}

fn push(socket: &OwnedFd, message: &[u8]) -> nix::Result<usize> {
    send(socket.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT)
}

/// Not a test of its own: what an attacker or the victim does, in a process of its own.
#[test]
#[ignore = "needs its parent: the tests below run it as another user"]
fn another_user() {
    let attack = std::env::var_os(ATTACK).unwrap();
    let path = PathBuf::from(std::env::var_os(SOCKET).unwrap());
    let end = Instant::now() + LASTS;
    match attack.to_str().unwrap() {
        "victim" => victim(&path),
        "cells" => flood(&path, end, |rank, round| {
            let region = u32::try_from(round % 60).unwrap();
            if round % 2 == 0 {
                return regions(2, region * 64 + 1);
            }
            let cell = |n: u64| {
                (
                    (n % 60) as u16 + 1,
                    (n % 40) as u16,
                    (region * 64 + 1) as u16 + (n % 64) as u16,
                    rank + round,
                )
            };
            operations(2, (0..900).map(cell))
        }),
        "pvars" => flood(&path, end, |rank, round| variables(2, rank * 100_000 + round)),
        "files" => files(&path),
        "malformed" => flood(&path, end, |rank, round| {
            let mut message = operations(2, (0..900).map(|n| (n, n, n, 1)));
            let length = message.len() as u64;
            message[(rank * 7919 + round * 104_729) as usize % length as usize] ^= 0x5a;
            message
        }),
        "storm" => {
            while Instant::now() < end {
                let Some(socket) = connection(&path) else { continue };
                let _ = push(&socket, &hello(0, 1, "storm"));
            }
        }
        other => panic!("{other}"),
    }
}

/// Many ranks that push as fast as the agent reads, anew whenever they are thrown out.
fn flood(path: &Path, end: Instant, message: impl Fn(u64, u64) -> Vec<u8>) {
    let mut ranks: Vec<Option<OwnedFd>> = (0..900).map(|_| None).collect();
    for round in 0.. {
        for (rank, slot) in ranks.iter_mut().enumerate() {
            if Instant::now() > end {
                return;
            }
            if slot.is_none() {
                *slot = connection(path);
                if let Some(socket) = slot {
                    let _ = push(socket, &hello(rank as u32, 100_000, &format!("flood {rank}")));
                }
            }
            let gone = |error| error != nix::errno::Errno::EAGAIN;
            if let Some(socket) = slot
                && push(socket, &message(rank as u64, round)).is_err_and(gone)
            {
                *slot = None;
            }
        }
    }
}

/// Fills the folder of last totals: files that hold nothing for a MiB, a GiB, anything at all, as much as a file may hold
/// of rows, and no files. All look old, so that the agent takes them at once.
fn files(path: &Path) {
    let folder = PathBuf::from(format!("{}.last", path.display()));
    let end = Instant::now() + 3 * LASTS;
    let epoch = now(nix::time::ClockId::CLOCK_REALTIME);
    for number in 0.. {
        if Instant::now() > end {
            return;
        }
        let name = folder.join(format!("{epoch}-{number}"));
        if number % 5 == 4 {
            let _ = nix::unistd::mkfifo(&name, nix::sys::stat::Mode::S_IRWXU);
            continue;
        }
        let Ok(file) = std::fs::File::create_new(&name) else { continue };
        let _ = match number % 5 {
            0 => file.set_len(1 << 20),
            1 => file.set_len(1 << 30),
            2 if number < 100 => {
                let cell = |n: u64| ((n % 60) as u16 + 1, (n % 40) as u16, 0, 1);
                let frames = (1..16).map(|sequence| operations(sequence, (0..900).map(cell)));
                let whole = [hello_of(epoch, number, 100_000, "files")].into_iter().chain(frames);
                std::io::Write::write_all(&mut &file, &whole.flatten().collect::<Vec<_>>())
            }
            _ => std::io::Write::write_all(&mut &file, &[0x5a; 4000]),
        };
        let _ = file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60));
        if number > 3000 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A job of four ranks: each reports one call more at a time, connects anew where it was refused, and says goodbye.
fn victim(path: &Path) {
    let begin = Instant::now();
    let ranks: Vec<_> = (0..VICTIM_RANKS)
        .map(|rank| {
            loop {
                assert!(begin.elapsed() < crate::bench::PATIENCE, "the victim finds no place");
                let Some(socket) = connection(path) else { continue };
                if push(&socket, &hello(rank, VICTIM_RANKS, "victim")).is_ok() && is_welcome(&socket) {
                    break socket;
                }
            }
        })
        .collect();
    eprintln!("all ranks were welcome after {:?}", begin.elapsed());
    for calls in 1..=VICTIM_CALLS {
        for (rank, socket) in ranks.iter().enumerate() {
            let report = operations(calls as u32, std::iter::once((17, 14, 0, calls)));
            while let Err(error) = push(socket, &report) {
                assert_eq!(error, nix::errno::Errno::EAGAIN, "rank {rank} was closed");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        std::thread::sleep(LASTS / 2 / VICTIM_CALLS as u32);
    }
    for socket in &ranks {
        let bye = frame(7, VICTIM_CALLS as u32 + 1, &fields(&[(32, &1_u32.to_le_bytes())]));
        while push(socket, &bye) == Err(nix::errno::Errno::EAGAIN) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// This test again as another user.
fn start(attack: &str, uid: u32, socket: &Path) -> Child {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program
        .args(["--exact", "attacks::another_user", "--ignored", "--nocapture"])
        .env(ATTACK, attack)
        .env(SOCKET, socket);
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    program.uid(uid).gid(uid);
    program.spawn().unwrap()
}

/// Resident memory of the agent's process itself, without pages of files.
fn rss(agent: &Agent) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

/// Runs attacks side by side with the victim.
fn attacked(attacks: &[&str]) {
    attacked_in_turn(&[attacks]);
}

/// Runs several attacks one after the other on one agent, the last of them side by side with the victim.
fn attacked_in_turn(rounds: &[&[&str]]) {
    if !throughline_test_support::is_root("to be other users") {
        return;
    }
    let node = Node::bare();
    std::fs::set_permissions(node.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let run = node.path().join("run");
    let node = node.with("RUN_DIR", run.to_str().unwrap()).with("SPOOL__BYTES_MAX", "268435456");
    let socket = run.join("mpi.sock");
    let mut agent = node.run();
    let idle = rss(&agent);
    let (mut highest, mut victim) = (idle, None);
    for (round, attacks) in rounds.iter().enumerate() {
        let mut others: Vec<Child> =
            attacks.iter().zip(ATTACKERS).map(|(attack, uid)| start(attack, uid, &socket)).collect();
        if round + 1 == rounds.len() {
            victim = Some(start("victim", VICTIM, &socket));
        }
        let mut of_round = 0;
        while others.iter_mut().any(|other| other.try_wait().unwrap().is_none()) {
            of_round = rss(&agent).max(of_round);
            std::thread::sleep(Duration::from_millis(20));
        }
        for other in others {
            let output = other.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        println!("{attacks:?}: {} kB idle, {} kB at most", idle / 1024, of_round / 1024);
        highest = highest.max(of_round);
    }
    let victim = victim.unwrap();
    let output = victim.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    // Connections are taken in their order: once this one is welcome, all before it were taken.
    let last = connection(&socket).unwrap();
    push(&last, &hello(0, 1, "last")).unwrap();
    assert!(is_welcome(&last));
    std::thread::sleep(Duration::from_millis(300));
    let figures = agent.wait_for(&[
        "throughline_connected_ranks{source=\"mpi\"} 1",
        "throughline_running_jobs{source=\"mpi\"} 1",
        "throughline_waiting_bytes{source=\"mpi\"} 0",
    ]);
    let welcome = words.lines().find(|line| line.contains("welcome")).unwrap_or_default();
    highest = highest.max(rss(&agent));
    let (status, log) = agent.stop();
    assert!(status.success() && !log.contains("panicked"));
    println!("{rounds:?}: {welcome}; {} kB in the end", highest / 1024);
    assert!(highest <= RSS_BYTES_MAX, "{rounds:?}: the agent took {} kB", highest / 1024);
    let losses = ["throughline_records_discarded_total", "throughline_entries_discarded_total"];
    let losses = figures.lines().filter(|line| losses.iter().any(|name| line.starts_with(name)));
    check_victim(&node, &losses.collect::<Vec<_>>().join("\n"));
}

/// The victim's totals, exactly: each of its ranks with every call, and none lost or doubled.
fn check_victim(node: &Node, figures: &str) {
    let batches = node.spooled();
    let job = batches.iter().flat_map(|batch| &batch.jobs).find(|job| job.uid == VICTIM).unwrap();
    let mut calls: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let rows = batches.iter().flat_map(|batch| batch.mpi_ops.iter().chain(&batch.mpi_rank_rows));
    for bin in rows.filter(|bin| bin.job_key == job.key) {
        calls.entry(bin.rank).or_default().extend(bin.cells.iter().map(|cell| cell.calls));
    }
    let newest: Vec<_> = calls.iter().map(|(rank, calls)| (*rank, calls.last().copied())).collect();
    let expected = (0..VICTIM_RANKS).map(|rank| (rank, Some(VICTIM_CALLS)));
    assert_eq!(newest, expected.collect::<Vec<_>>(), "{figures}");
    assert!(calls.values().all(|calls| calls.is_sorted()), "{figures}");
    let ends = crate::bench::ended_ranks(&batches).into_iter().filter(|rank| rank.job_key == job.key);
    assert_eq!(ends.filter(|rank| rank.ending == "clean").count(), VICTIM_RANKS as usize);
}

#[test]
fn attack_03_one_user_fills_the_agent() {
    attacked(&["cells", "cells"]);
}

#[test]
fn attack_10_performance_variables_of_one_user() {
    attacked(&["pvars", "malformed"]);
}

#[test]
fn attack_11_two_users_connect_and_close() {
    attacked(&["storm", "storm"]);
}

/// What one attack leaves is not the beginning of the next: the bound is that of the process, not of an attack.
#[test]
fn attack_27_attacks_in_turn_on_one_agent() {
    attacked_in_turn(&[&["storm", "storm"], &["pvars", "malformed"], &["cells", "cells"]]);
}

#[test]
fn attack_15_two_users_fill_the_folder_of_last_totals() {
    attacked(&["files", "files"]);
}

/// The agent as a user of its own, where /proc hides other users' processes, with the one capability that it needs: it
/// knows a rank's user, command, CPUs, start and job by the kernel's word, GPUs and ports, and has no other capability.
#[test]
fn without_root_and_under_hidepid_everything_is_read() {
    if !throughline_test_support::is_root("to be other users and to mount /proc") {
        return;
    }
    const AGENT: u32 = 64_004;
    let node = Node::bare();
    std::fs::set_permissions(node.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let run = node.path().join("run");
    for folder in [&run, &node.state()] {
        std::fs::create_dir(folder).unwrap();
        std::os::unix::fs::chown(folder, Some(AGENT), Some(AGENT)).unwrap();
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let node = node.with("RUN_DIR", run.to_str().unwrap());
    let node = node.with_gpus("hgx-h200").with_adapter("mlx5_0", throughline_sample::Guid(0xab));
    // More than needed is given, as by a careless unit.
    let caps = "+sys_ptrace,+net_admin,+dac_override";
    let line = |caps: &str| {
        format!(
            "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid {AGENT} --regid {AGENT} --clear-groups \
             --inh-caps -all,{caps} --ambient-caps -all,{caps} --bounding-set -all,{caps} \"$@\""
        )
    };
    let job = Cgroup::create();
    let mut agent = node.run_by(&line(caps));
    let of = |pid: i32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let value = |name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        (value("CapPrm:"), value("CapEff:"), value("CapAmb:"))
    };
    const SYS_PTRACE: &str = "0000000000080000";
    const NONE: &str = "0000000000000000";
    assert_eq!(of(agent.pid()), (SYS_PTRACE.into(), SYS_PTRACE.into(), NONE.into()));
    agent.wait_for(&[
        "throughline_gpu_info{",
        "node_infiniband_port_data_transmitted_bytes_total{device=\"mlx5_0\"",
    ]);
    let samplers = children(agent.pid());
    assert!(!samplers.is_empty());
    for sampler in samplers {
        println!("agent {:?}, sampler {:?}", of(agent.pid()), of(sampler));
        assert_eq!(of(sampler), (NONE.into(), NONE.into(), NONE.into()), "a sampler");
    }
    let mut victim = match &job {
        Some(job) => job.start("victim", VICTIM, &run.join("mpi.sock")),
        None => start("victim", VICTIM, &run.join("mpi.sock")),
    };
    assert!(victim.wait().unwrap().success());
    agent.wait_for(&["throughline_running_jobs{source=\"mpi\"} 0"]);
    let health = agent.page("/healthz");
    assert!(!health.contains("hidepid"), "{health}");
    let (status, log) = agent.stop();
    assert!(status.success(), "{log}");
    check_victim(&node, "");
    let batches = node.spooled();
    let known = batches.iter().flat_map(|batch| &batch.jobs).find(|job| job.uid == VICTIM).unwrap();
    assert!(known.command.contains("another_user"), "{known:?}");
    if job.is_some() {
        assert_eq!((&*known.evidence, &*known.native_id), ("cgroup", "771"), "{known:?}");
    } else {
        throughline_test_support::skipped(
            "the job by its control group: none can be made below /sys/fs/cgroup; mount it writable",
        );
    }
    let rank =
        batches.iter().flat_map(|batch| &batch.job_ranks).find(|rank| rank.job_key == known.key).unwrap();
    assert!(!rank.cpus.is_empty(), "{rank:?}");

    // Without the capability the page says what is missing.
    let agent = node.run_by(&line("-sys_ptrace"));
    let health = agent.page("/healthz");
    assert!(health.starts_with("degraded\n") && health.contains("CAP_SYS_PTRACE"), "{health}");
}

/// The children of all threads of a process.
fn children(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists =
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// A control group as Slurm makes one for job 771.
struct Cgroup(PathBuf);

impl Cgroup {
    fn create() -> Option<Self> {
        let roots = ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup"].map(PathBuf::from);
        let root = roots.into_iter().find(|root| root.join("cgroup.procs").exists())?;
        let folder = root.join("system.slice/slurmstepd.scope/job_771/step_0/user/task_0");
        std::fs::create_dir_all(&folder).ok()?;
        Some(Self(folder))
    }

    /// As [`start`], in the group from the first instruction on.
    fn start(&self, attack: &str, uid: u32, socket: &Path) -> Child {
        let line = "echo $$ > \"$0\" && exec setpriv --reuid \"$1\" --regid \"$1\" --clear-groups \"$2\" --ignored --exact attacks::another_user";
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).arg(self.0.join("cgroup.procs")).arg(uid.to_string());
        shell.arg(std::env::current_exe().unwrap()).env(ATTACK, attack).env(SOCKET, socket);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // As many of the folders as are its own and empty.
        for folder in self.0.ancestors().take(6) {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
