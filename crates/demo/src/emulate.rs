//! `throughline demo --emulate`: a fabric of network namespaces with real congestion, on which two real MPI jobs and a sender
//! that no job knows share links, and the answer to whose bytes those are.
//!
//! opensm computes the forwarding tables. The kernel forwards by them and limits each cable, and its counters are the ports'.
//! Open MPI sends over TCP. So who sent what over which cable is known exactly, and `benches/emulate` compares.

pub mod counters;
pub mod emulation;
pub mod fabric;
pub mod jobs;
pub mod meter;
pub mod plan;
pub mod queues;
pub mod read;
mod reader_thread;
pub mod show;
pub mod space;
pub mod stream;

use crate::config::Server;
use crate::layout::Layout;
use crate::start::print_line;
use clap::Args;
use emulation::{Emulation, Prerequisites};
use jobs::Job;
use std::time::Duration;
use throughline_daemon::Failure;
use throughline_infiniband::topology::FatTree;
use tokio_util::sync::CancellationToken;

/// Fewest and most hosts: two jobs and a sender with its receiver, and what a machine of two cores forwards for.
const HOSTS: std::ops::RangeInclusive<usize> = 6..=64;
/// From one look at what ended to the next.
const ROUND: Duration = Duration::from_millis(500);
/// Lines about the busiest links are printed so often, in rounds.
const STATUS_ROUNDS: u32 = 20;
/// How long a job of the demo runs before the next one begins.
const JOB_SECONDS: u32 = 120;

/// Shape and speed of the emulated fabric.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Emulate a fabric of so many hosts
    #[arg(skip = 16_usize)]
    pub hosts: usize,
    /// Divide hosts between so many leaf switches, with --emulate
    #[arg(long, value_name = "N", default_value_t = 4, requires = "emulate")]
    pub leaves: usize,
    /// Emulate so many spine switches, with --emulate
    #[arg(long, value_name = "N", default_value_t = 2, requires = "emulate")]
    pub spines: usize,
    /// Give each link this speed in Mbit/s, with --emulate
    #[arg(long, value_name = "N", default_value_t = 20, requires = "emulate")]
    pub link_mbit: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { hosts: 16, leaves: 4, spines: 2, link_mbit: 20 }
    }
}

impl Shape {
    /// Whether it can be built.
    ///
    /// # Errors
    /// A number out of range (64).
    pub fn check(&self) -> Result<(), Failure> {
        if !HOSTS.contains(&self.hosts) {
            let (least, most) = (HOSTS.start(), HOSTS.end());
            return Err(Failure::usage(format!(
                "--hosts {}: an emulated fabric takes {least} to {most}",
                self.hosts
            )));
        }
        if !(2..=self.hosts).contains(&self.leaves) || !(1..=16).contains(&self.spines) {
            return Err(Failure::usage("--leaves: 2 to the number of hosts; --spines: 1 to 16"));
        }
        if !(1..=1000).contains(&self.link_mbit) {
            return Err(Failure::usage(format!("--link-mbit {}: 1 to 1000", self.link_mbit)));
        }
        self.tree().to_net().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(())
    }

    /// The tree: each leaf has a cable to each spine.
    #[must_use]
    pub fn tree(&self) -> FatTree {
        let Shape { hosts, leaves: leafs, spines, .. } = *self;
        FatTree { hosts, leafs, spines, uplinks: spines, ports: 36, host_link: "4xEDR", switch_link: "4xEDR" }
    }

    /// Speed of each direction of a link.
    #[must_use]
    pub fn link_bits_per_second(&self) -> u64 {
        self.link_mbit * 1_000_000
    }
}

/// Which hosts have what, as places in the order of names: every third host is of the second job, so that both use all
/// leaves; the last two hosts of different leaves are the sender that no job knows and its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    /// Hosts of the first job.
    pub first: Vec<usize>,
    /// Hosts of the second job.
    pub second: Vec<usize>,
    /// The sender that no job knows, and its receiver.
    pub stranger: (usize, usize),
}

impl Cast {
    /// Of a shape.
    #[must_use]
    pub fn of(shape: &Shape) -> Cast {
        let leaf = |host: usize| shape.tree().host_at(host).0;
        let from = shape.hosts - 1;
        // The first host of the leaf half-way round: away from the sender's.
        let to = (0..from).find(|host| leaf(*host) == shape.leaves / 2 - 1).unwrap_or(0);
        let rest: Vec<usize> = (0..shape.hosts).filter(|host| *host != from && *host != to).collect();
        let is_second = |place: &usize| place % 3 == 2;
        let part = |second: bool| {
            (0..rest.len()).filter(|place| is_second(place) == second).map(|place| rest[place]).collect()
        };
        Cast { first: part(false), second: part(true), stranger: (from, to) }
    }
}

/// Runs the demo until `stop`.
///
/// # Errors
/// 69 and 77 as [`Prerequisites::find`]; 1 when a part fails.
pub async fn run(
    shape: Shape,
    server: Server,
    layout: Layout,
    stop: CancellationToken,
) -> anyhow::Result<bool> {
    shape.check()?;
    let found = Prerequisites::find(server)?;
    let mut emulation = Emulation::new(&found, layout);
    let result = tokio::select! {
        result = demonstrate(&mut emulation, &found, shape) => result,
        () = stop.cancelled() => Ok(()),
    };
    print_line(&format!("Stopping; the data stays in {}", emulation.layout.server().display()));
    let clean = emulation.stop().await;
    emulation.layout.clean()?;
    result?;
    Ok(clean)
}

async fn demonstrate(emulation: &mut Emulation, found: &Prerequisites, shape: Shape) -> anyhow::Result<()> {
    print_line(
        "Throughline demo: emulated fabric (network namespaces), real MPI over TCP, opensm's routes, MADs, database",
    );
    emulation.start(found, shape).await?;
    let cast = Cast::of(&shape);
    let hosts = emulation.plan.hosts();
    let (from, to) = cast.stranger;
    // A third of a link.
    emulation.start_stream(hosts[from], hosts[to], shape.link_bits_per_second() / 8 / 3)?;
    print_line(&show::cast(&emulation.plan, &cast));
    let (mut is_suggested, mut shown) = (false, String::new());
    for round in 0_u32.. {
        for job in demo_jobs(&cast, &hosts) {
            if !emulation.runs(&job.name) {
                emulation.start_job(&job)?;
            }
        }
        tokio::time::sleep(ROUND).await;
        emulation.check()?;
        if round % STATUS_ROUNDS != STATUS_ROUNDS - 1 {
            continue;
        }
        let shares = show::shares(emulation.server_address, &emulation.plan).await?;
        if let Some(busiest) = shares.first().filter(|_| !is_suggested) {
            print_line(&show::suggestions(emulation.server_address, found.throughline(), busiest));
            is_suggested = true;
        }
        let table = show::table_of(&shares);
        if table != shown {
            print_line(&table);
            shown = table;
        }
    }
    Ok(())
}

/// The jobs of the demo: an alltoall that fills links, and an allreduce that waits for them.
fn demo_jobs(cast: &Cast, hosts: &[usize]) -> [Job; 2] {
    let on = |places: &[usize]| places.iter().map(|place| hosts[*place]).collect();
    let first = Job::of_operation("aggressor", on(&cast.first), "alltoall", 32 << 10, JOB_SECONDS, 0);
    let second = Job::of_operation("victim", on(&cast.second), "allreduce", 16 << 10, JOB_SECONDS, 2);
    [Job { is_measured: true, ..first }, second]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_hosts_of_his_own_and_the_stranger_crosses_leaves() {
        for (hosts, leaves, spines) in [(16, 4, 2), (10, 3, 3), (6, 2, 1), (13, 5, 2), (24, 2, 2)] {
            let shape = Shape { hosts, leaves, spines, ..Shape::default() };
            shape.check().unwrap();
            let cast = Cast::of(&shape);
            let mut all = cast.first.clone();
            all.extend(&cast.second);
            all.extend([cast.stranger.0, cast.stranger.1]);
            all.sort_unstable();
            assert_eq!(all, (0..hosts).collect::<Vec<_>>(), "{shape:?}");
            assert!(cast.first.len() >= 2 && !cast.second.is_empty(), "{cast:?}");
            let leaf = |host| shape.tree().host_at(host).0;
            assert_ne!(leaf(cast.stranger.0), leaf(cast.stranger.1), "{shape:?}");
        }
    }

    #[test]
    fn shapes_that_can_not_be_are_refused() {
        for shape in [
            Shape { hosts: 4, ..Shape::default() },
            Shape { hosts: 65, ..Shape::default() },
            Shape { leaves: 1, ..Shape::default() },
            Shape { spines: 0, ..Shape::default() },
            Shape { link_mbit: 0, ..Shape::default() },
        ] {
            assert_eq!(shape.check().unwrap_err().status as u8, 64, "{shape:?}");
        }
    }
}
