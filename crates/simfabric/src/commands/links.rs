//! Commands on cables and links, and on nodes as far as all their cables go.

use crate::counters::Counter;
use crate::liar::{FakeNeighbour, FakePort};
use crate::model::{End, Link};
use crate::parser::CommandWords;
use crate::world::World;

/// What is made up behind a port.
pub(super) fn lie(world: &mut World, name: &str, words: &mut CommandWords) -> Result<(), String> {
    if name == "honest" {
        world.liars.clear();
        return Ok(());
    }
    let end = words.end_of(&world.fabric)?;
    let lie = if name == "endless" {
        FakeNeighbour::Endless
    } else {
        FakeNeighbour::Claim(words.node(&world.fabric)?)
    };
    world.liars.push(FakePort { end, lie });
    Ok(())
}

pub(super) fn topology(
    world: &mut World,
    name: &str,
    words: &mut CommandWords,
    now: u64,
) -> Result<(), String> {
    let first = match name {
        "remove" | "restore" => {
            let node = words.node(&world.fabric)?;
            return remove(world, node, name == "remove", now);
        }
        _ => words.end_of(&world.fabric)?,
    };
    let peer = world.fabric.port(first).and_then(|port| port.peer);
    let both = [Some(first), peer];
    match name {
        "link" => {
            let is_up = match words.text("`down` or `up`")?.as_str() {
                "up" => true,
                "down" => false,
                other => return Err(format!("`{other}`: expected `down` or `up`")),
            };
            set_up(world, first, is_up);
        }
        "cable" => {
            let second = words.end_of(&world.fabric)?;
            if second == first {
                return Err("a cable has two ends".to_owned());
            }
            let there = world.fabric.port(second).and_then(|port| port.peer);
            world.fabric.connect(first, second);
            changed(world, &[both[0], both[1], Some(second), there]);
        }
        "uncable" => {
            world.fabric.disconnect(first);
            changed(world, &both);
        }
        _ => {
            let text = words.text("width and speed")?;
            let link =
                Link::parse(&text).ok_or_else(|| format!("`{text}` is no width and speed like 4xEDR"))?;
            for end in both.into_iter().flatten() {
                if let Some(port) = world.fabric.port_mut(end) {
                    port.link = link;
                }
            }
            changed(world, &both);
        }
    }
    world.topology_changed(now);
    Ok(())
}

/// Takes a link down or up; the ends of one that went down count it.
fn set_up(world: &mut World, end: End, is_up: bool) {
    let peer = world.fabric.port(end).and_then(|port| port.peer);
    let was_up = world.fabric.across(end).is_some();
    if let Some(port) = world.fabric.port_mut(end) {
        port.is_up = is_up;
    }
    if let (Some(peer), true) = (peer.and_then(|peer| world.fabric.port_mut(peer)), is_up) {
        peer.is_up = true;
    }
    for end in [Some(end), peer].into_iter().flatten() {
        if let Some(port) = world.fabric.port_mut(end) {
            port.state = crate::model::INITIALIZE;
            if was_up && !is_up {
                port.counters.add(Counter::LinkDowned, 1);
            }
        }
    }
    changed(world, &[Some(end), peer]);
}

/// Switches with such a port say that a port changed its state.
fn changed(world: &mut World, ends: &[Option<End>]) {
    for end in ends.iter().flatten() {
        world.fabric.nodes[end.node].is_changed = true;
    }
}

fn remove(world: &mut World, node: usize, is_removed: bool, now: u64) -> Result<(), String> {
    if world.fabric.nodes[node].is_removed == is_removed {
        return Err(format!("it is {} already", if is_removed { "removed" } else { "there" }));
    }
    world.fabric.nodes[node].is_removed = is_removed;
    for port in 1..=world.fabric.nodes[node].port_count() {
        let end = End { node, port };
        if world.fabric.port(end).is_some_and(|port| port.peer.is_some()) {
            set_up(world, end, !is_removed);
        }
    }
    world.topology_changed(now);
    Ok(())
}
