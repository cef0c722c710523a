//! What can be told to a running fabric, one command a line. The same words stand in scenarios.

mod counters;
mod help;
mod links;
mod nodes;
mod subnet;
mod tell;

pub use help::HELP;

use crate::words::{self, Words};
use crate::world::{Jitter, World};

/// Runs one command at a moment; what it says.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn run(world: &mut World, line: &str, now: u64) -> Result<String, String> {
    let mut words = Words::of(line)?;
    let Some(name) = words.next() else { return Ok(String::new()) };
    let done = Ok(String::new());
    match name.as_str() {
        "help" => return Ok(HELP.to_owned()),
        "stats" => return Ok(tell::stats(world)),
        "nodes" => return Ok(tell::nodes(world)),
        "groups" => return Ok(tell::groups(world)),
        "latency" | "service" | "queue" | "loss" | "duplicate" | "late" | "busy" => {
            conduct(world, &name, &mut words)?;
        }
        "dead" | "alive" | "pma-dead" | "rename" | "mkey" | "pma" | "redirect" => {
            nodes::node(world, &name, &mut words)?;
        }
        "endless" | "claim" | "honest" => links::lie(world, &name, &mut words)?,
        "counter" | "clear" => counters::counter(world, &name, &mut words, now)?,
        "levels" | "traffic" | "clock" => counters::traffic(world, &name, &mut words, now)?,
        "link" | "cable" | "uncable" | "width" | "remove" | "restore" => {
            links::topology(world, &name, &mut words, now)?;
        }
        "trap" => subnet::trap(world, &mut words)?,
        "sm-key" => world.sm_key = words.number("the key")?,
        "lid" | "manager" | "sweep" | "group" => subnet::subnet(world, &name, &mut words, now)?,
        other => return Err(format!("there is no command `{other}`; `help` lists them")),
    }
    words.end()?;
    done
}

fn conduct(world: &mut World, name: &str, words: &mut Words) -> Result<(), String> {
    match name {
        "latency" => {
            world.conduct.round_trip = words.time("the round trip")?;
            world.conduct.jitter = match words.next().as_deref() {
                None => Jitter::None,
                Some("even") => Jitter::Even(words.time("the spread")?),
                Some("exponential") => Jitter::Exponential(words.time("the mean of the spread")?),
                Some(other) => return Err(format!("`{other}`: expected `even` or `exponential`")),
            };
        }
        "service" => {
            let time = words.time("the time per MAD")?;
            match words.next() {
                None => world.conduct.service = time,
                Some(nodes) => {
                    for node in words::nodes(&world.fabric, &nodes)? {
                        world.fabric.nodes[node].manners.service = Some(time);
                    }
                }
            }
        }
        "queue" => world.conduct.queue = words.number("the number of MADs")?,
        "loss" => world.conduct.loss = words.share("the share")?,
        "duplicate" => world.conduct.duplicate = words.share("the share")?,
        "busy" => world.conduct.busy = words.share("the share")?,
        _ => {
            world.conduct.late = words.share("the share")?;
            world.conduct.late_by = words.time("by how much")?;
        }
    }
    Ok(())
}
