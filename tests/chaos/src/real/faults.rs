//! Which faults there are, how each begins and how it ends.

use super::part::Part;
use super::proxy::Network;
use super::site::{Sender, Site};
use anyhow::Context;
use clap::ValueEnum;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use throughline_store::{ClusterOptions, ClusterStatus, Lifetime, PrivateCluster};

/// Until the spool writes again after a full disk: the longest pause of its writer, and some.
const DISK_RECOVERY: Duration = Duration::from_secs(12);
/// How long the network is silent before a spool is damaged, so that there is something in it.
const TEAR_GATHER: Duration = Duration::from_secs(5);
/// A user without rights, whom attacks come from.
const NOBODY: u32 = 65_534;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum FaultKind {
    Kill,
    Stop,
    Terminate,
    KillServe,
    StopServe,
    RestartServe,
    KillDatabase,
    KillBackend,
    StopDatabase,
    DatabaseAway,
    KillBoth,
    KillFabric,
    Partition,
    HalfOpen,
    Cut,
    SlowNetwork,
    FullDisk,
    Tear,
    Attack,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// Each kind as often as it stands here.
const DRAWN: [FaultKind; 31] = {
    use FaultKind::*;
    [
        Kill,
        Kill,
        Kill,
        Kill,
        Stop,
        Stop,
        Stop,
        Terminate,
        Terminate,
        KillServe,
        KillServe,
        StopServe,
        RestartServe,
        KillDatabase,
        KillBackend,
        StopDatabase,
        DatabaseAway,
        KillBoth,
        KillFabric,
        Partition,
        Partition,
        HalfOpen,
        HalfOpen,
        Cut,
        Cut,
        SlowNetwork,
        FullDisk,
        FullDisk,
        Tear,
        Tear,
        Attack,
    ]
};

/// One fault as it was drawn.
pub struct Fault {
    pub kind: FaultKind,
    /// Which of the senders that it can hit.
    target: usize,
    lasts: Duration,
    seed: u64,
}

/// How a fault ends.
pub enum Undo {
    StartSender(usize),
    StartServe,
    StartFabric,
    GoOn(usize),
    GoOnServe,
    GoOnDatabase(Vec<i32>),
    StartDatabase,
    Network(usize),
    EmptyDisk(usize),
    TearNow(usize, u64),
}

impl Fault {
    pub fn draw(random: &mut fastrand::Rng, site: &Site) -> Self {
        let kind = DRAWN[random.usize(..DRAWN.len())];
        let senders = match kind {
            // Crawlers have no disk of their own here.
            FaultKind::FullDisk | FaultKind::Tear => site.agents.len() + site.writers.len(),
            _ => site.agents.len() + site.writers.len() + site.crawlers.len(),
        };
        let target = random.usize(..senders);
        let lasts = Duration::from_secs_f64(0.2 + 7.0 * random.f64() * random.f64());
        Self { kind, target, lasts, seed: random.u64(..) }
    }
}

impl Site {
    fn sender(&mut self, target: usize) -> &mut Sender {
        let (agents, writers) = (self.agents.len(), self.writers.len());
        if target < agents {
            &mut self.agents[target]
        } else if target < agents + writers {
            &mut self.writers[target - agents]
        } else {
            &mut self.crawlers[target - agents - writers]
        }
    }

    fn start_sender(&mut self, target: usize) -> anyhow::Result<()> {
        let (agents, writers) = (self.agents.len(), self.writers.len());
        if target < agents {
            self.start_agent(target)
        } else if target < agents + writers {
            self.start_writer(target - agents)
        } else {
            self.start_crawler(target - agents - writers)
        }
    }

    /// Begins a fault; says what it did, or nothing where its target has another one already.
    pub fn apply(&mut self, fault: &Fault) -> anyhow::Result<Option<String>> {
        use FaultKind::*;
        match fault.kind {
            Kill | Stop | Terminate | FullDisk | Tear => self.apply_to_sender(fault),
            Partition | HalfOpen | Cut | SlowNetwork => Ok(self.apply_to_network(fault)),
            KillServe | StopServe | RestartServe | KillDatabase | KillBackend | StopDatabase
            | DatabaseAway | KillBoth => self.apply_to_server(fault),
            KillFabric => {
                if !self.busy.insert("fabric".into()) {
                    return Ok(None);
                }
                self.fabric.kill();
                self.after(fault.lasts, Undo::StartFabric);
                Ok(Some(format!("fabric for {:.1} s", fault.lasts.as_secs_f64())))
            }
            Attack => self.attack(fault.seed).map(Some),
        }
    }

    fn after(&mut self, time: Duration, undo: Undo) {
        self.undo.push((Instant::now() + time, undo));
    }

    fn apply_to_sender(&mut self, fault: &Fault) -> anyhow::Result<Option<String>> {
        let target = fault.target;
        let name = self.sender(target).part.name.clone();
        if self.busy.contains(&name)
            || (fault.kind == FaultKind::Tear && self.busy.contains(&format!("net {name}")))
        {
            return Ok(None);
        }
        self.sender(target).read_counters();
        let part = &mut self.sender(target).part;
        let mut lasts = fault.lasts;
        let undo = match fault.kind {
            FaultKind::Kill => {
                part.kill();
                Undo::StartSender(target)
            }
            FaultKind::Terminate => {
                part.terminate()?;
                Undo::StartSender(target)
            }
            FaultKind::Stop => {
                part.stop();
                Undo::GoOn(target)
            }
            FaultKind::FullDisk => {
                if !self.sender(target).mounted {
                    return Ok(None);
                }
                self.sender(target).part.pauses.begin();
                fill(&self.sender(target).folder);
                Undo::EmptyDisk(target)
            }
            _ => {
                self.sender(target).proxy.set(Network::Silent);
                self.busy.insert(format!("net {name}"));
                lasts = TEAR_GATHER;
                Undo::TearNow(target, fault.seed)
            }
        };
        self.busy.insert(name.clone());
        self.after(lasts, undo);
        Ok(Some(format!("{name} for {:.1} s", lasts.as_secs_f64())))
    }

    fn apply_to_network(&mut self, fault: &Fault) -> Option<String> {
        let name = self.sender(fault.target).part.name.clone();
        if !self.busy.insert(format!("net {name}")) {
            return None;
        }
        let network = match fault.kind {
            FaultKind::Partition => Network::Silent,
            FaultKind::HalfOpen => Network::NoReplies,
            FaultKind::Cut => Network::Cut,
            _ => Network::Slow(Duration::from_millis(20 + fault.seed % 400)),
        };
        self.sender(fault.target).proxy.set(network);
        self.after(fault.lasts * 2, Undo::Network(fault.target));
        Some(format!("{network:?} at {name} for {:.1} s", fault.lasts.as_secs_f64() * 2.0))
    }

    fn apply_to_server(&mut self, fault: &Fault) -> anyhow::Result<Option<String>> {
        let postmaster = match PrivateCluster::status_of(&self.database_folder()) {
            ClusterStatus::Running { pid } => pid,
            _ => return Ok(None),
        };
        if !self.busy.insert("server".into()) {
            return Ok(None);
        }
        let undo = match fault.kind {
            FaultKind::KillServe | FaultKind::RestartServe | FaultKind::KillBoth => {
                *self.upstream.lock().unwrap_or_else(PoisonError::into_inner) = None;
                if fault.kind == FaultKind::RestartServe {
                    self.serve.terminate()?;
                } else {
                    self.serve.kill();
                }
                if fault.kind == FaultKind::KillBoth {
                    signal(postmaster, Signal::SIGKILL);
                }
                Undo::StartServe
            }
            FaultKind::StopServe => {
                self.serve.stop();
                Undo::GoOnServe
            }
            FaultKind::KillDatabase => {
                signal(postmaster, Signal::SIGKILL);
                Undo::GoOnDatabase(Vec::new())
            }
            FaultKind::KillBackend => {
                let backends = children_of(postmaster);
                if let Some(pid) = backends.get(fault.seed as usize % backends.len().max(1)) {
                    signal(*pid, Signal::SIGKILL);
                }
                Undo::GoOnDatabase(Vec::new())
            }
            FaultKind::StopDatabase => {
                let mut pids = children_of(postmaster);
                pids.push(postmaster);
                pids.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
                Undo::GoOnDatabase(pids)
            }
            _ => {
                self.runtime.block_on(PrivateCluster::stop_in(&self.database_folder()))?;
                Undo::StartDatabase
            }
        };
        // The database comes back by itself within this time; a next fault waits for it.
        let rest = Duration::from_secs(4);
        self.after(
            fault.lasts + if matches!(undo, Undo::GoOnDatabase(_)) { rest } else { Duration::ZERO },
            undo,
        );
        Ok(Some(format!("for {:.1} s", fault.lasts.as_secs_f64())))
    }

    fn attack(&mut self, seed: u64) -> anyhow::Result<String> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("attack")
            .args(["--seed", &seed.to_string()])
            .arg("--socket")
            .arg(self.socket_of_agent(0));
        let collect = *self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
        let addresses =
            [collect.map(|address| address.to_string()), self.query.clone(), self.agents[0].http.clone()];
        for address in addresses.into_iter().flatten() {
            command.args(["--address", &address]);
        }
        command.stdin(Stdio::null());
        if nix::unistd::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        // It ends by itself within seconds.
        let mut child = command.spawn().context("the attacker")?;
        std::thread::spawn(move || child.wait());
        Ok("garbage at every socket".into())
    }

    /// Ends the faults whose time is over.
    pub fn undo_due(&mut self, now: Instant) -> anyhow::Result<()> {
        while let Some(at) = self.undo.iter().position(|(due, _)| *due <= now) {
            let (_, undo) = self.undo.remove(at);
            self.end_fault(undo)?;
        }
        Ok(())
    }

    /// Ends all faults now.
    pub fn undo_all(&mut self) -> anyhow::Result<()> {
        while let Some((_, undo)) = self.undo.pop() {
            self.end_fault(undo)?;
        }
        Ok(())
    }

    fn end_fault(&mut self, undo: Undo) -> anyhow::Result<()> {
        let free = match undo {
            Undo::StartSender(target) => {
                self.start_sender(target)?;
                self.sender(target).part.name.clone()
            }
            Undo::GoOn(target) => {
                self.sender(target).part.go_on();
                self.sender(target).part.name.clone()
            }
            Undo::EmptyDisk(target) => {
                std::fs::remove_file(self.sender(target).folder.join("filler"))?;
                self.sender(target).part.pauses.end(Instant::now() + DISK_RECOVERY);
                self.sender(target).part.name.clone()
            }
            Undo::TearNow(target, seed) => {
                let sender = self.sender(target);
                sender.read_counters();
                sender.part.kill();
                if let Some(what) = tear(sender, seed)? {
                    println!("         {}: {what}", sender.part.name);
                    sender.torn += 1;
                }
                self.start_sender(target)?;
                self.sender(target).proxy.set(Network::Well);
                let name = self.sender(target).part.name.clone();
                self.busy.remove(&format!("net {name}"));
                name
            }
            Undo::Network(target) => {
                self.sender(target).proxy.set(Network::Well);
                format!("net {}", self.sender(target).part.name)
            }
            Undo::StartServe => {
                self.start_serve()?;
                "server".into()
            }
            Undo::GoOnServe => {
                Part::go_on(&mut self.serve);
                "server".into()
            }
            Undo::GoOnDatabase(pids) => {
                pids.iter().for_each(|pid| signal(*pid, Signal::SIGCONT));
                "server".into()
            }
            Undo::StartDatabase => {
                let options = ClusterOptions { state_dir: self.database_folder(), pg_bin: None };
                let cluster = PrivateCluster::find(&options)?;
                // serve may have started it by itself meanwhile.
                if let Err(error) = self.runtime.block_on(cluster.start(Lifetime::Detached)) {
                    println!("         the database was not started: {error}");
                }
                "server".into()
            }
            Undo::StartFabric => {
                self.start_fabric()?;
                "fabric".into()
            }
        };
        self.busy.remove(&free);
        Ok(())
    }
}

fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

fn children_of(parent: i32) -> Vec<i32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Writes a file until the disk takes no more; bounded by the disk's size.
fn fill(folder: &std::path::Path) {
    let Ok(mut file) = std::fs::File::create(folder.join("filler")) else { return };
    let zeros = vec![0; 1 << 16];
    while file.write_all(&zeros).is_ok() {}
    while file.write_all(&zeros[..512]).is_ok() {}
}

/// Damages one segment of a sender that does not run: flips, zeros, garbage, a cut, or emptied.
fn tear(sender: &Sender, seed: u64) -> anyhow::Result<Option<String>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut segments: Vec<_> = std::fs::read_dir(&sender.spool)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "seg"))
        .filter(|path| path.metadata().is_ok_and(|data| data.len() > 0))
        .collect();
    segments.sort();
    if segments.is_empty() {
        return Ok(None);
    }
    let path = &segments[random.usize(..segments.len())];
    let file = std::fs::File::options().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let what = match random.u8(..6) {
        0 => {
            file.set_len(0)?;
            "emptied".to_owned()
        }
        1 => {
            let to = random.u64(..length);
            file.set_len(to)?;
            format!("cut to {to}")
        }
        kind => {
            let spots = if kind == 2 { 1 } else { random.usize(1..4) };
            let count = if kind == 2 { 4096 } else { 16 };
            for _ in 0..spots {
                let at = random.u64(..length);
                let bytes: Vec<u8> =
                    (0..count.min(length - at)).map(|_| if kind == 2 { 0 } else { random.u8(..) }).collect();
                file.write_at(&bytes, at)?;
            }
            format!("{spots} of {count} bytes overwritten")
        }
    };
    Ok(Some(format!("{} of {length} bytes {what}", path.file_name().unwrap_or_default().display())))
}
