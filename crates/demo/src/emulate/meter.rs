//! Reads what the emulated cables carried, twenty times a second, and shows it as the ports' counters: in the simulated
//! fabric, which answers the crawler's MADs, and in the hosts' `/sys` trees.
//!
//! `/proc/PID/net/dev` has the counters of a whole namespace and takes no lock. Trees are files on a disk that the database
//! writes to as well: the thread that reads doesn't write them, or counters stand for up to two seconds.

use super::counters::{DeviceCounters, fabric_commands, port_counters, read_devices};
use super::plan::Plan;
use super::queues::{QueueObservations, Queues};
use super::reader_thread::join;
use super::space::FabricNamespaces;
use crate::counters::PortCounters;
use crate::doubles::Sysfs;
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use throughline_infiniband::topology::PortEnd;

/// From one reading to the next: a sweep that falls between two is at most so old.
const STEP: Duration = Duration::from_millis(50);
/// From one writing of the hosts' `/sys` trees to the next: agents read them once a second.
const SYSFS_STEP: Duration = Duration::from_millis(250);

/// What is shown, for the thread that writes trees: files wait for the disk, and readings may not.
type ShownCounters = Arc<Mutex<BTreeMap<PortEnd, PortCounters>>>;

/// The running thread. Dropped, it ends within a step.
pub struct Meter {
    stop: Arc<AtomicBool>,
    queues: Queues,
    oldest: Arc<AtomicU64>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    trees: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Meter {
    /// Starts to read. `sysfs` holds the trees of hosts, by position in the plan.
    ///
    /// # Errors
    /// A thread or process can't be started, or the first values can't be read.
    pub fn start(
        plan: &Plan,
        spaces: &FabricNamespaces,
        fabric: &Path,
        sysfs: Vec<(usize, Sysfs)>,
    ) -> anyhow::Result<Meter> {
        let queues = Queues::start(plan, spaces)?;
        let mut work = Work {
            plan: plan.clone(),
            devices: (0..plan.nodes.len()).map(|node| devices(spaces.pid(node))).collect(),
            fabric: fabric.to_owned(),
            watched: queues.watched(),
            shown: ShownCounters::default(),
        };
        work.step()?;
        write_trees(&sysfs, &work.shown)?;
        let (stop, oldest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, values) = (stop.clone(), work.shown.clone());
        let trees = std::thread::Builder::new().name("trees".into()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(SYSFS_STEP);
                write_trees(&sysfs, &values)?;
            }
            Ok(())
        });
        let trees = Some(trees.context("starting the thread that writes trees")?);
        let (stopped, age) = (stop.clone(), oldest.clone());
        let thread = std::thread::Builder::new().name("cables".into()).spawn(move || {
            let (mut next, mut shown) = (Instant::now(), Instant::now());
            loop {
                next = (next + STEP).max(Instant::now());
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                if stopped.load(Ordering::Relaxed) {
                    return Ok(());
                }
                work.step()?;
                // What was shown last stood until now.
                let stood = u64::try_from(shown.elapsed().as_millis()).unwrap_or(u64::MAX);
                age.fetch_max(stood, Ordering::Relaxed);
                shown = Instant::now();
            }
        });
        let thread = thread.context("starting the thread that reads cables")?;
        Ok(Meter { stop, queues, oldest, thread: Some(thread), trees })
    }

    /// Packets that the cables lost so far: none where the emulation is right.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.queues.drops()
    }

    /// How long counters that were shown stood at most since this was read last. What a sweep reads is at most so old.
    #[must_use]
    pub fn take_oldest(&self) -> Duration {
        Duration::from_millis(self.oldest.swap(0, Ordering::Relaxed))
    }

    /// Fails when a thread had to give up.
    ///
    /// # Errors
    /// What it could not read or show.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.queues.check()?;
        for thread in [&mut self.thread, &mut self.trees] {
            if thread.as_ref().is_some_and(JoinHandle::is_finished) {
                join(thread)?;
            }
        }
        Ok(())
    }

    /// Ends the threads and their processes.
    ///
    /// # Errors
    /// What they could not do before.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let queues = self.queues.stop();
        let trees = join(&mut self.trees);
        join(&mut self.thread).and(queues).and(trees)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The file with the counters of all devices of a process's network namespace.
#[must_use]
pub fn devices(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/net/dev"))
}

/// What the thread has.
struct Work {
    plan: Plan,
    /// Of each node, in the plan's order.
    devices: Vec<PathBuf>,
    fabric: PathBuf,
    watched: QueueObservations,
    shown: ShownCounters,
}

impl Work {
    /// One reading of all ports.
    fn step(&mut self) -> anyhow::Result<()> {
        let mut sent: BTreeMap<PortEnd, DeviceCounters> = BTreeMap::new();
        for (node, path) in self.devices.iter().enumerate() {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("{}: a namespace of the emulated fabric is gone", path.display()))?;
            sent.extend(read_devices(&text).into_iter().map(|(port, sent)| (PortEnd { node, port }, sent)));
        }
        let of = |end: PortEnd| sent.get(&end).copied().unwrap_or_default();
        let mut text = String::new();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for cable in &self.plan.cables {
            for (here, there) in [(cable.a, cable.b), (cable.b, cable.a)] {
                let values = port_counters(of(here), of(there), self.watched.waiting(here));
                if shown.insert(here, values) != Some(values) {
                    fabric_commands(self.plan.nodes[here.node].guid, here.port, &values, &mut text);
                }
            }
        }
        drop(shown);
        if !text.is_empty() {
            throughline_simfabric::control(&self.fabric, &text)
                .context("showing counters in the simulated fabric")?;
        }
        Ok(())
    }
}

/// Shows the counters of hosts' ports in their trees.
fn write_trees(sysfs: &[(usize, Sysfs)], shown: &ShownCounters) -> anyhow::Result<()> {
    for (node, sysfs) in sysfs {
        let own = {
            let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.iter().find(|(end, _)| end.node == *node).map(|(_, values)| *values)
        };
        let written = own.map_or(Ok(()), |values| sysfs.show(&values, true));
        written.with_context(|| format!("writing counters in {}", sysfs.root().display()))?;
    }
    Ok(())
}
