//! Reads what the emulated cables carried, several times a second, and shows it as the ports' counters: in the simulated
//! fabric, which answers the crawler's MADs, and in the hosts' `/sys` trees.

use super::counters::{Sent, Waiting, fabric_commands, port_counters, read_line};
use super::plan::Plan;
use super::space::Spaces;
use crate::counters::PortCounters;
use crate::doubles::Sysfs;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use throughline_infiniband::topology::PortEnd;

/// From one reading to the next: a sweep that falls between two is at most so old.
const STEP: Duration = Duration::from_millis(100);
/// The hosts' `/sys` trees are written every so many steps: agents read them once a second.
const STEPS_PER_SYSFS: u32 = 5;

/// The running thread. Dropped, it ends within a step.
pub struct Meter {
    stop: Arc<AtomicBool>,
    drops: Arc<AtomicU64>,
    oldest: Arc<AtomicU64>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// `tc` in a node's namespace, which prints the counters of its ports for each line that it gets.
struct Reader {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Meter {
    /// Starts a reader in each namespace and the thread. `sysfs` holds the trees of hosts, by position in the plan.
    ///
    /// # Errors
    /// A reader can't be started, or the first values can't be read.
    pub fn start(
        plan: &Plan,
        spaces: &Spaces,
        fabric: &Path,
        sysfs: Vec<(usize, Sysfs)>,
    ) -> anyhow::Result<Meter> {
        let mut readers = Vec::new();
        for node in 0..plan.nodes.len() {
            readers.push(Reader::start(&spaces.entering(spaces.pid(node)), spaces.tc())?);
        }
        let mut work = Work {
            plan: plan.clone(),
            readers,
            fabric: fabric.to_owned(),
            sysfs,
            waiting: BTreeMap::new(),
            shown: BTreeMap::new(),
            last: Instant::now(),
        };
        work.step(true)?;
        let (stop, drops) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, lost) = (stop.clone(), drops.clone());
        let oldest = Arc::new(AtomicU64::new(0));
        let age = oldest.clone();
        let thread = std::thread::Builder::new().name("cables".into()).spawn(move || {
            let mut next = Instant::now();
            let mut shown = Instant::now();
            for step in 1_u32.. {
                next = (next + STEP).max(Instant::now());
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                lost.store(work.step(step.is_multiple_of(STEPS_PER_SYSFS))?, Ordering::Relaxed);
                // What was shown last stood until now.
                let stood = u64::try_from(shown.elapsed().as_millis()).unwrap_or(u64::MAX);
                age.fetch_max(stood, Ordering::Relaxed);
                shown = Instant::now();
            }
            Ok(())
        });
        Ok(Meter {
            stop,
            drops,
            oldest,
            thread: Some(thread.context("starting the thread that reads cables")?),
        })
    }

    /// Packets that the cables lost so far: none where the emulation is right.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.drops.load(Ordering::Relaxed)
    }

    /// How long counters that were shown stood at most since this was read last. What a sweep reads is at most so old.
    #[must_use]
    pub fn take_oldest(&self) -> Duration {
        Duration::from_millis(self.oldest.swap(0, Ordering::Relaxed))
    }

    /// Fails when the thread had to give up.
    ///
    /// # Errors
    /// What it could not read or show.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) { self.join() } else { Ok(()) }
    }

    /// Ends the thread and its readers.
    ///
    /// # Errors
    /// What it could not do before.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    fn join(&mut self) -> anyhow::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_panic)) => Err(anyhow!("the thread that reads cables broke off")),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What the thread has.
struct Work {
    plan: Plan,
    readers: Vec<Reader>,
    fabric: PathBuf,
    sysfs: Vec<(usize, Sysfs)>,
    waiting: BTreeMap<PortEnd, Waiting>,
    shown: BTreeMap<PortEnd, PortCounters>,
    last: Instant,
}

impl Work {
    /// One reading of all ports; packets lost so far.
    fn step(&mut self, with_sysfs: bool) -> anyhow::Result<u64> {
        // All first, so that the answers are of nearly the same moment.
        for reader in &mut self.readers {
            reader.request()?;
        }
        let mut sent: BTreeMap<PortEnd, Sent> = BTreeMap::new();
        for (node, reader) in self.readers.iter_mut().enumerate() {
            sent.extend(reader.answer()?.into_iter().map(|(port, sent)| (PortEnd { node, port }, sent)));
        }
        let now = Instant::now();
        let (elapsed, speed) = (now - self.last, self.plan.bytes_per_second());
        self.last = now;
        let mut text = String::new();
        for cable in self.plan.cables.clone() {
            for (here, there) in [(cable.a, cable.b), (cable.b, cable.a)] {
                let none = Sent::default();
                let (own, other) = (sent.get(&here).unwrap_or(&none), sent.get(&there).unwrap_or(&none));
                let waiting = self.waiting.entry(here).or_default();
                waiting.pass(own, elapsed, speed);
                let values = port_counters(own, other, waiting);
                if self.shown.insert(here, values) != Some(values) {
                    fabric_commands(self.plan.nodes[here.node].guid, here.port, &values, &mut text);
                }
            }
        }
        if !text.is_empty() {
            throughline_simfabric::control(&self.fabric, &text)
                .context("showing counters in the simulated fabric")?;
        }
        for (node, sysfs) in self.sysfs.iter().filter(|_| with_sysfs) {
            let own = self.shown.iter().find(|(end, _)| end.node == *node);
            let shown = own.map_or(Ok(()), |(_, values)| sysfs.show(values, true));
            shown.with_context(|| format!("writing counters in {}", sysfs.root().display()))?;
        }
        Ok(sent.values().map(|sent| sent.drops).sum())
    }
}

impl Reader {
    fn start(entering: &[String], tc: &Path) -> anyhow::Result<Reader> {
        let mut command = Command::new(&entering[0]);
        command.args(&entering[1..]).arg(tc).args(["-s", "-j", "-batch", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().with_context(|| format!("starting {}", tc.display()))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (commands, answers) = pipes.ok_or_else(|| anyhow!("{} has no pipes", tc.display()))?;
        Ok(Reader { process, commands, answers: BufReader::new(answers) })
    }

    fn request(&mut self) -> anyhow::Result<()> {
        self.commands.write_all(b"qdisc show\n").context("a namespace of the emulated fabric is gone")
    }

    fn answer(&mut self) -> anyhow::Result<Vec<(u8, Sent)>> {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.answers.read_line(&mut line).context("reading queues")?;
            anyhow::ensure!(read > 0, "tc ended: a namespace of the emulated fabric is gone");
            if !line.trim().is_empty() {
                return read_line(line.trim()).with_context(|| format!("tc printed: {}", line.trim()));
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It has no state to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
