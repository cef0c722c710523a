//! Those of the site who have a right to send and misuse it.

use super::part::Part;
use super::probes;
use super::proxy::Proxy;
use super::site::{AGENTS, JOB, Site};
use crate::certificates::Authority;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The first user who is hostile: nobody has this number.
const HOSTILE_USER: u32 = 65_001;

impl Site {
    /// A node that is no agent, and sends past the faults of the network.
    pub fn start_hostile_node(&mut self, index: usize, authority: &Authority) -> anyhow::Result<()> {
        let mut part = Part::new(&format!("hostile-node-{index}"), "", &self.logs);
        authority.sign(&part.name)?;
        let proxy = self.runtime.block_on(Proxy::start(self.upstream.clone()))?;
        let victims = self.agents.iter().chain(&self.writers).map(|sender| sender.part.name.clone());
        let victims: Vec<String> = victims.collect();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("hostile-node").args(["--node", &part.name, "--victims", &victims.join(",")]);
        command.arg("--certificates").arg(&self.certificates).args(["--collector", &proxy.url()]);
        command.args(["--jobs", &jobs_of_others(), "--seed", &index.to_string()]);
        part.spawn(command)?;
        self.hostile.push(part);
        self.hostile_ways.push(proxy);
        Ok(())
    }

    pub fn start_hostile_user(&mut self, index: usize) -> anyhow::Result<()> {
        let mut part = Part::new(&format!("hostile-user-{index}"), "", &self.logs);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("hostile-user").arg("--socket").arg(self.socket_of_agent(index % AGENTS));
        command.args(["--jobs", &jobs_of_others(), "--seed", &index.to_string()]);
        if nix::unistd::geteuid().is_root() {
            let user = HOSTILE_USER + u32::try_from(index)?;
            command.uid(user).gid(user);
        }
        part.spawn(command)?;
        self.hostile.push(part);
        Ok(())
    }

    /// Ends the hostile ones, and prints what they did.
    pub fn finish_hostile(&mut self) -> anyhow::Result<()> {
        for part in &mut self.hostile {
            println!(
                "{}: {}",
                part.name,
                part.find_last("sent ").unwrap_or_else(|| "nothing was taken".into())
            );
            part.finish()?;
        }
        Ok(())
    }
}

/// Numbers of all jobs that are not hostile.
fn jobs_of_others() -> String {
    let jobs = std::iter::repeat_n(JOB, 20).chain(probes::FIRST_JOB..probes::FIRST_JOB + 40);
    jobs.map(|job| job.to_string()).collect::<Vec<_>>().join(",")
}
