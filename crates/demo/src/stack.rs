//! Everything that the demo runs, and the one place where it is stopped, in order.
//!
//! Kept outside the future that starts things: when that is broken off by Ctrl-C, what was started is here.

use super::inject::Injector;
use super::layout::Layout;
use super::process::{Child, STOP_GRACE};
use std::sync::{Arc, Mutex, PoisonError};
use throughline_simfabric::ibsim::SimFabric;
use tokio::task::JoinHandle;

/// Log files that the simulator's programs write in its folder.
const SIMULATOR_LOGS: [&str; 3] = ["ibsim.log", "opensm.log", "opensm.err"];

/// The simulator, shared with the thread that writes to its console.
pub type SharedFabric = Arc<Mutex<SimFabric>>;

/// What runs.
#[derive(Default)]
pub struct Stack {
    /// ibsim and opensm while they are being started, which can't be broken off.
    pub starting: Option<JoinHandle<anyhow::Result<SimFabric>>>,
    /// ibsim and opensm.
    pub fabric: Option<SharedFabric>,
    /// Ids of their processes.
    pub fabric_pids: Vec<u32>,
    /// The thread that moves counters.
    pub injector: Option<Injector>,
    /// `throughline serve`.
    pub server: Option<Child>,
    /// `throughline-fabric run`.
    pub crawler: Option<Child>,
    /// `throughline-agent run`, one a rank.
    pub agents: Vec<Child>,
    /// The MPI program.
    pub mpi: Option<Child>,
}

impl Stack {
    /// An error that names what has died; the MPI program may end.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if let Some(injector) = &mut self.injector {
            injector.check()?;
        }
        for (pid, name) in self.fabric_pids.iter().zip(["ibsim", "opensm"]) {
            anyhow::ensure!(is_alive(*pid), "{name} (process {pid}) has ended; see its log");
        }
        self.daemons().try_for_each(Child::check)
    }

    /// All daemons that were started, in that order.
    pub fn daemons(&mut self) -> impl Iterator<Item = &mut Child> {
        self.server.iter_mut().chain(&mut self.crawler).chain(&mut self.agents)
    }

    /// Stops everything, those who send before those who take, and waits until it is gone. What could not be
    /// stopped cleanly is reported and killed; returns whether all went well.
    pub async fn stop(&mut self, layout: &Layout) -> bool {
        let mut clean = true;
        if let Some(mut mpi) = self.mpi.take() {
            clean &= mpi.stop(STOP_GRACE).await;
        }
        let agents: Vec<_> = self
            .agents
            .drain(..)
            .map(|mut agent| tokio::spawn(async move { agent.stop(STOP_GRACE).await }))
            .collect();
        for agent in agents {
            clean &= agent.await.unwrap_or(false);
        }
        for mut child in [self.crawler.take(), self.server.take()].into_iter().flatten() {
            clean &= child.stop(STOP_GRACE).await;
        }
        let injector = self.injector.take();
        let fabric = self.fabric.take();
        let half_started = match self.starting.take() {
            Some(starting) => starting.await.ok(),
            None => None,
        };
        // Waits for a thread and for processes.
        let stopped = tokio::task::spawn_blocking(move || {
            if let Some(Err(error)) = injector.map(Injector::stop) {
                tracing::warn!("moving counters: {error:#}");
            }
            drop((fabric, half_started));
        });
        clean &= stopped.await.is_ok();
        self.fabric_pids.clear();
        keep_simulator_logs(layout);
        clean
    }

    /// Runs lines on the simulator's console; for the injector.
    pub fn console(fabric: &SharedFabric) -> super::inject::Console {
        let fabric = fabric.clone();
        Box::new(move |text| {
            fabric.lock().unwrap_or_else(PoisonError::into_inner).console(text)?;
            Ok(())
        })
    }
}

/// Moves the simulator's logs to the others: its folder goes.
fn keep_simulator_logs(layout: &Layout) {
    for name in SIMULATOR_LOGS {
        let from = layout.run().join("sim").join(name);
        if from.exists()
            && let Err(error) = std::fs::rename(&from, layout.logs().join(name))
        {
            tracing::warn!("keeping {}: {error}", from.display());
        }
    }
}

/// Whether a process runs: it exists and is no zombie. Its state is the first field behind the name, which
/// is in parentheses and may have any character.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_is_not_alive() {
        assert!(is_alive(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }
}
