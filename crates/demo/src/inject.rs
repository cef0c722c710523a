//! Makes the simulated ports count: a thread that lets the counters advance in small steps and writes them to
//! the simulator's console and to the agents' `/sys` trees.
//!
//! Small steps, because a sweep that fell between two large ones would see none or two of them. A thread of its
//! own, because writing to the simulator may block when that is busy.

use super::counters::{Counters, console_lines};
use super::doubles::Sysfs;
use super::flows::{Load, Network, PortId};
use anyhow::Context;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use throughline_sample::Guid;

/// From one step to the next. A sweep every 2 s is then at most 2.5 % off, and the simulator's console needs
/// 14 microseconds a line (measured), with some 30 ports 2 % of a core.
pub const STEP: Duration = Duration::from_millis(50);

/// Packets and waiting are written every so many steps only.
const STEPS_PER_FULL_WRITE: u32 = 10;

/// Runs lines on the simulator's console.
pub type Console = Box<dyn FnMut(&str) -> anyhow::Result<()> + Send>;

/// What is written where.
pub struct Plan {
    /// Routes and links.
    pub network: Network,
    /// What the simulator calls each node.
    pub node_names: BTreeMap<Guid, String>,
    /// The simulator's console.
    pub console: Console,
    /// Hosts' own ports and their `/sys` trees.
    pub hosts: Vec<(PortId, Sysfs)>,
}

/// The running thread. Dropped without [`Injector::stop`], it ends within a step.
pub struct Injector {
    shared: Arc<InjectorState>,
    thread: Option<std::thread::JoinHandle<anyhow::Result<()>>>,
}

struct InjectorState {
    stop: AtomicBool,
    loads: Mutex<Vec<Load>>,
}

impl Injector {
    /// Writes the first values and starts the thread; nothing flows until [`Injector::set`].
    ///
    /// # Errors
    /// The first values can't be written, or no thread can be started.
    pub fn start(mut plan: Plan) -> anyhow::Result<Self> {
        let mut counters = Counters::new(plan.network.links());
        plan.write(&counters, true)?;
        let shared = Arc::new(InjectorState {
            stop: AtomicBool::new(false),
            loads: Mutex::new(plan.network.load(&Vec::new())),
        });
        let seen = shared.clone();
        let thread = std::thread::Builder::new().name("counters".into()).spawn(move || {
            let mut last = Instant::now();
            for step in 1_u32.. {
                std::thread::sleep(STEP);
                if seen.stop.load(Ordering::Relaxed) {
                    break;
                }
                let now = Instant::now();
                let loads = seen.loads.lock().unwrap_or_else(PoisonError::into_inner).clone();
                counters.advance(plan.network.links(), &loads, now - last);
                last = now;
                plan.write(&counters, step % STEPS_PER_FULL_WRITE == 0)?;
            }
            Ok(())
        });
        Ok(Self { shared, thread: Some(thread.context("starting the thread that moves counters")?) })
    }

    /// The loads from now on, one for each link of the plan's network.
    pub fn set(&self, loads: Vec<Load>) {
        *self.shared.loads.lock().unwrap_or_else(PoisonError::into_inner) = loads;
    }

    /// Fails when the thread had to give up.
    ///
    /// # Errors
    /// What it could not write.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if self.thread.as_ref().is_some_and(std::thread::JoinHandle::is_finished) {
            return self.join();
        }
        Ok(())
    }

    /// Ends the thread. The simulator must still read its console, or be gone.
    ///
    /// # Errors
    /// What it could not write before.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    fn join(&mut self) -> anyhow::Result<()> {
        match self.thread.take().map(std::thread::JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_panic)) => Err(anyhow::anyhow!("the thread that moves counters broke off")),
        }
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Plan {
    fn write(&mut self, counters: &Counters, all: bool) -> anyhow::Result<()> {
        let mut text = String::new();
        for (port, values) in counters.ports() {
            if let Some(name) = self.node_names.get(&port.guid) {
                console_lines(name, port.port, &values, all, &mut text);
            }
        }
        (self.console)(&text).context("writing to the simulator's console")?;
        for (port, sysfs) in &self.hosts {
            if let Some(values) = counters.port(*port) {
                sysfs
                    .show(&values, all)
                    .with_context(|| format!("writing counters in {}", sysfs.root().display()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::tests::{SPEED, two_leaves};
    use std::sync::mpsc;

    fn plan(lines: mpsc::Sender<String>) -> Plan {
        let network = two_leaves();
        let node_names =
            network.links().iter().map(|link| (link.id.from.guid, link.id.from.guid.to_string()));
        let console: Console = Box::new(move |text| Ok(lines.send(text.to_owned())?));
        Plan { node_names: node_names.collect(), network, console, hosts: Vec::new() }
    }

    #[test]
    fn traffic_reaches_the_console_until_it_is_stopped() {
        let (console, lines) = mpsc::channel();
        let plan = plan(console);
        let mut demand = vec![vec![0.0; 4]; 4];
        demand[0][1] = SPEED;
        let loads = plan.network.load(&demand);
        let mut injector = Injector::start(plan).unwrap();
        injector.set(loads);
        let value = |text: &str| {
            let field = format!("\"{}\"[1] PortCountersExtended.PortXmitData=", Guid(0));
            let (_, rest) = text.split_once(&field).expect("host 0's port is written");
            rest.lines().next().unwrap().parse::<u64>().unwrap()
        };
        let first = value(&lines.recv().unwrap());
        let second = value(&lines.recv().unwrap());
        assert!(second > first);
        injector.check().unwrap();
        injector.stop().unwrap();
    }

    #[test]
    fn a_console_that_is_gone_is_reported() {
        let (console, lines) = mpsc::channel();
        let mut injector = Injector::start(plan(console)).unwrap();
        drop(lines);
        let error = loop {
            match injector.check() {
                Ok(()) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("console"), "{error}");
    }
}
