//! Watches the queues of the emulated cables by `tc`: whether a port has data that it can't send, and packets that were lost.

use super::counters::{Queue, Waiting, read_queues};
use super::plan::Plan;
use super::reader_thread::join;
use super::space::FabricNamespaces;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use throughline_infiniband::topology::PortEnd;

/// From one look to the next: of a stretch at whose end data wait, all counts as waiting.
const STEP: Duration = Duration::from_millis(250);

/// The running thread. Dropped, it ends within a step.
pub struct Queues {
    stop: Arc<AtomicBool>,
    watched: QueueObservations,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// What was seen so far.
#[derive(Clone, Default)]
pub struct QueueObservations(Arc<Mutex<QueueTotals>>);

#[derive(Default)]
struct QueueTotals {
    waiting: BTreeMap<PortEnd, Waiting>,
    drops: u64,
}

/// `tc` in a node's namespace, which prints the counters of its ports for each line that it gets.
struct Reader {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Queues {
    /// Starts a reader in each namespace and the thread.
    ///
    /// # Errors
    /// One of them can't be started, or does not answer.
    pub fn start(plan: &Plan, spaces: &FabricNamespaces) -> anyhow::Result<Queues> {
        let mut readers = Vec::new();
        for node in 0..plan.nodes.len() {
            readers.push(Reader::start(&spaces.entering(spaces.pid(node)), spaces.tc())?);
        }
        let (stop, watched) = (Arc::new(AtomicBool::new(false)), QueueObservations::default());
        let (stopped, seen, speed) = (stop.clone(), watched.clone(), plan.bytes_per_second());
        let mut last = Instant::now();
        seen.look(&mut readers, &mut last, speed)?;
        let thread = std::thread::Builder::new().name("queues".into()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(STEP);
                seen.look(&mut readers, &mut last, speed)?;
            }
            Ok(())
        });
        let thread = thread.context("starting the thread that reads queues")?;
        Ok(Queues { stop, watched, thread: Some(thread) })
    }

    /// What was seen, for another thread.
    #[must_use]
    pub fn watched(&self) -> QueueObservations {
        self.watched.clone()
    }

    /// Packets that the cables lost so far.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.watched.lock().drops
    }

    /// Fails when the thread had to give up.
    ///
    /// # Errors
    /// What it could not read.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            join(&mut self.thread)
        } else {
            Ok(())
        }
    }

    /// Ends the thread and its readers.
    ///
    /// # Errors
    /// What it could not read before.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        join(&mut self.thread)
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl QueueObservations {
    /// Time in which a port had data and could not send it.
    #[must_use]
    pub fn waiting(&self, end: PortEnd) -> Waiting {
        self.lock().waiting.get(&end).copied().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, QueueTotals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, readers: &mut [Reader], last: &mut Instant, bytes_per_second: u64) -> anyhow::Result<()> {
        // All first, so that the answers are of nearly the same moment.
        for reader in &mut *readers {
            reader.request()?;
        }
        let mut queues = Vec::new();
        for (node, reader) in readers.iter_mut().enumerate() {
            queues.extend(reader.answer()?.into_iter().map(|(port, queue)| (PortEnd { node, port }, queue)));
        }
        let now = Instant::now();
        let elapsed = now - std::mem::replace(last, now);
        let mut seen = self.lock();
        seen.drops = queues.iter().map(|(_, queue)| queue.drops).sum();
        for (end, queue) in queues {
            seen.waiting.entry(end).or_default().pass(queue, elapsed, bytes_per_second);
        }
        Ok(())
    }
}

impl Reader {
    fn start(entering: &[String], tc: &Path) -> anyhow::Result<Reader> {
        let mut command = Command::new(&entering[0]);
        command.args(&entering[1..]).arg(tc).args(["-s", "-j", "-batch", "-"]);
        // Ctrl-C in a terminal is for the demo, which ends it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().with_context(|| format!("starting {}", tc.display()))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (commands, answers) = pipes.ok_or_else(|| anyhow!("{} has no pipes", tc.display()))?;
        Ok(Reader { process, commands, answers: BufReader::new(answers) })
    }

    fn request(&mut self) -> anyhow::Result<()> {
        self.commands.write_all(b"qdisc show\n").context("a namespace of the emulated fabric is gone")
    }

    fn answer(&mut self) -> anyhow::Result<Vec<(u8, Queue)>> {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.answers.read_line(&mut line).context("reading queues")?;
            anyhow::ensure!(read > 0, "tc ended: a namespace of the emulated fabric is gone");
            if !line.trim().is_empty() {
                return read_queues(line.trim()).with_context(|| format!("tc printed: {}", line.trim()));
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
