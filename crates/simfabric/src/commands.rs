//! Commands to a running fabric, one a line. Scenarios have the same words.

mod counters;
mod help;
mod links;
mod nodes;
mod show;
mod subnet;

pub use help::HELP;

use crate::parser::{self, CommandWords};
use crate::world::{Jitter, World};

/// Runs one command at a moment; what it says.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn run(world: &mut World, line: &str, now: u64) -> Result<String, String> {
    let mut words = CommandWords::of(line)?;
    let Some(name) = words.next() else { return Ok(String::new()) };
    let done = Ok(String::new());
    match name.as_str() {
        "help" => return Ok(HELP.to_owned()),
        "stats" => return Ok(show::stats(world)),
        "nodes" => return Ok(show::nodes(world)),
        "groups" => return Ok(show::groups(world)),
        "latency" | "service" | "queue" | "loss" | "duplicate" | "late" | "busy" => {
            faults(world, &name, &mut words)?;
        }
        "dead" | "alive" | "pma-dead" | "rename" | "mkey" | "adaptive" | "pma" | "redirect" => {
            nodes::node(world, &name, &mut words)?;
        }
        "endless" | "claim" | "honest" => links::lie(world, &name, &mut words)?,
        "counter" | "clear" => counters::counter(world, &name, &mut words, now)?,
        "levels" | "traffic" | "clock" => counters::traffic(world, &name, &mut words, now)?,
        "link" | "cable" | "uncable" | "width" | "remove" | "restore" => {
            links::topology(world, &name, &mut words, now)?;
        }
        "trap" => subnet::trap(world, &mut words)?,
        "prefix" => world.fabric.prefix = words.number("the prefix")?,
        "sm-key" => world.sm_key = words.number("the key")?,
        "lid" | "forward" | "manager" | "sweep" | "group" => subnet::subnet(world, &name, &mut words, now)?,
        other => return Err(format!("there is no command `{other}`; `help` lists them")),
    }
    words.end()?;
    done
}

fn faults(world: &mut World, name: &str, words: &mut CommandWords) -> Result<(), String> {
    match name {
        "latency" => {
            world.faults.round_trip = words.time("the round trip")?;
            world.faults.jitter = match words.next().as_deref() {
                None => Jitter::None,
                Some("even") => Jitter::Even(words.time("the spread")?),
                Some("exponential") => Jitter::Exponential(words.time("the mean of the spread")?),
                Some(other) => return Err(format!("`{other}`: expected `even` or `exponential`")),
            };
        }
        "service" => {
            let time = words.time("the time per MAD")?;
            match words.next() {
                None => world.faults.service = time,
                Some(nodes) => {
                    for node in parser::nodes(&world.fabric, &nodes)? {
                        world.fabric.nodes[node].manners.service = Some(time);
                    }
                }
            }
        }
        "queue" => world.faults.queue = words.number("the number of MADs")?,
        "loss" => world.faults.loss = words.share("the share")?,
        "duplicate" => world.faults.duplicate = words.share("the share")?,
        "busy" => world.faults.busy = words.share("the share")?,
        _ => {
            world.faults.late = words.share("the share")?;
            world.faults.late_by = words.time("by how much")?;
        }
    }
    Ok(())
}
