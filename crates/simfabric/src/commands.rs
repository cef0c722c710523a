//! What can be told to a running fabric, one command a line. The same words stand in scenarios.

use crate::counters::Counter;
use crate::model::{
    ALL_PORT_SELECT, ERRORS_64, EXTENDED_WIDTH, EXTENDED_WITHOUT_CASTS, End, Link, Pma, QP1_DROP, RS_FEC,
    Redirect, XMIT_WAIT,
};
use crate::multicast::{CAPACITY, FIRST_MLID, Group};
use crate::notices::Event;
use crate::traffic::Demand;
use crate::words::{self, Words};
use crate::world::{Jitter, World};
use std::fmt::Write;

/// What `help` says.
pub const HELP: &str = "\
Times are numbers with ns, us, ms or s; rates are bytes per second, with k, M or G; shares are from 0 to 1. A node
is named by id, GUID or description, in quotes where that has blanks. NODES is `all`, `hosts`, `switches`, a node,
or a pattern with * on ids and descriptions.

MADs
  latency TIME [even TIME|exponential TIME]   round trip without service; spread beyond it
  service TIME [NODES]        time per MAD of a node, which works on one after the other
  queue NUMBER                MADs that may wait at a node; more are dropped
  loss SHARE                  exchanges that are lost
  duplicate SHARE             replies that come twice
  late SHARE TIME             replies that come late by so much
  busy SHARE                  replies that only say `busy`
Nodes
  dead NODES, alive NODES     agents fall silent or answer again; switches forward all the same
  dead SHARE NODES            so many of them, chosen by the scenario's seed
  pma-dead NODES              only performance agents fall silent
  remove NODE, restore NODE   all cables out, or in again
  rename NODE TEXT            another NodeDescription
  mkey KEY PROTECT [NODES]    M_Key and its protect bits (2 and 3: Gets without the key get no answer)
  pma NODES WORD...           extended, without-casts, classic, errors64, wait, no-wait, qp1, fec, details, no-details,
                              flow, no-flow, levels, no-levels, no-info
  redirect NODE TO announced|refused|off   TO answers for NODE's performance agent
Links
  link NODE PORT down|up      the link trains no more, or again
  cable NODE PORT NODE PORT   plugs a cable in; what was in either socket is out
  uncable NODE PORT
  width NODE PORT 4xEDR       width and speed of a link, at both ends
Subnet
  lid NODE PORT LID           another LID
  manager NODE [PORT] [PRIORITY]   the subnet manager moves there; `manager none`: it is gone
  sweep auto|off|now          whether the manager acts on each change at once
  group MGID MLID [NODE...]   a multicast group; without nodes, every host
Counters
  counter NODE PORT NAME VALUE|+EVENTS|EVENTS/s   names as perfquery writes them
  clear NODE PORT|all         back to 0, as if somebody else had cleared them
  levels SL=SHARE...          how traffic is divided among service levels
  traffic off                 none; the others add to what there is
  traffic pair NODE NODE RATE | all-to-all RATE | ring RATE | incast NODE RATE
  clock freeze|run|advance TIME   the time that counters see
  trap 128|144|145 NODE       as if the node had sent it to the manager
  sm-key KEY                  what the administrator takes as trust (1 at first); another one gets no answer
  stats, nodes, groups, help
";

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
        "stats" => return Ok(stats(world)),
        "nodes" => return Ok(nodes(world)),
        "groups" => return Ok(groups(world)),
        "latency" | "service" | "queue" | "loss" | "duplicate" | "late" | "busy" => {
            conduct(world, &name, &mut words)?;
        }
        "dead" | "alive" | "pma-dead" | "rename" | "mkey" | "pma" | "redirect" => {
            node(world, &name, &mut words)?;
        }
        "counter" | "clear" => counter(world, &name, &mut words, now)?,
        "levels" | "traffic" | "clock" => traffic(world, &name, &mut words, now)?,
        "link" | "cable" | "uncable" | "width" | "remove" | "restore" => {
            topology(world, &name, &mut words, now)?;
        }
        "trap" => trap(world, &mut words)?,
        "sm-key" => world.sm_key = words.number("the key")?,
        "lid" | "manager" | "sweep" | "group" => subnet(world, &name, &mut words, now)?,
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

fn node(world: &mut World, name: &str, words: &mut Words) -> Result<(), String> {
    match name {
        "dead" | "alive" | "pma-dead" => {
            for node in chosen(world, words)? {
                let manners = &mut world.fabric.nodes[node].manners;
                match name {
                    "dead" => manners.is_dead = true,
                    "pma-dead" => manners.is_pma_dead = true,
                    _ => (manners.is_dead, manners.is_pma_dead) = (false, false),
                }
            }
        }
        "rename" => {
            let node = words.node(&world.fabric)?;
            world.fabric.nodes[node].description = words.text("the new description")?;
            world.fabric.name_nodes();
            let lid = world.fabric.nodes[node].lid();
            world.notices.push(Event::Capability { lid, mask: 0, is_description: true });
        }
        "mkey" => {
            let key = words.number("the key")?;
            let protect = words.number("the protect bits")?;
            let nodes = words.next().unwrap_or_else(|| "all".to_owned());
            for node in words::nodes(&world.fabric, &nodes)? {
                let manners = &mut world.fabric.nodes[node].manners;
                manners.m_key = key;
                manners.m_key_protect = protect.min(3) as u8;
            }
        }
        "pma" => {
            let nodes = words.text("the nodes")?;
            let nodes = words::nodes(&world.fabric, &nodes)?;
            let abilities: Vec<String> = std::iter::from_fn(|| words.next()).collect();
            for node in nodes {
                for word in &abilities {
                    ability(&mut world.fabric.nodes[node].pma, word)?;
                }
            }
        }
        _ => {
            let (node, to) = (words.node(&world.fabric)?, words.node(&world.fabric)?);
            let way = words.text("`announced`, `refused` or `off`")?;
            let redirect = |is_announced| Some(Redirect { node: to, is_announced });
            world.redirected.retain(|known| *known != node);
            world.fabric.nodes[node].pma.redirect = match way.as_str() {
                "announced" => redirect(true),
                "refused" => redirect(false),
                "off" => return Ok(()),
                other => return Err(format!("`{other}`: expected `announced`, `refused` or `off`")),
            };
            world.redirected.push(node);
        }
    }
    Ok(())
}

/// `NODES`, or `SHARE NODES`.
fn chosen(world: &mut World, words: &mut Words) -> Result<Vec<usize>, String> {
    let first = words.text("the nodes")?;
    let Ok(share) = first.parse::<f64>() else { return words::nodes(&world.fabric, &first) };
    let mut nodes = words::nodes(&world.fabric, &words.text("the nodes")?)?;
    // The manager's node is the client's by default: without it nothing can be asked.
    nodes.retain(|node| world.fabric.manager.is_none_or(|manager| manager.node != *node));
    world.random.shuffle(&mut nodes);
    nodes.truncate((nodes.len() as f64 * share.clamp(0.0, 1.0)).round() as usize);
    Ok(nodes)
}

fn ability(pma: &mut Pma, word: &str) -> Result<(), String> {
    let widths = EXTENDED_WIDTH | EXTENDED_WITHOUT_CASTS;
    match word {
        "extended" => pma.capabilities = pma.capabilities & !widths | EXTENDED_WIDTH,
        "without-casts" => pma.capabilities = pma.capabilities & !widths | EXTENDED_WITHOUT_CASTS,
        "classic" => {
            pma.capabilities &= !widths;
            pma.capabilities_2 &= !ERRORS_64;
        }
        "errors64" => pma.capabilities_2 |= ERRORS_64,
        "wait" => pma.capabilities |= XMIT_WAIT,
        "no-wait" => pma.capabilities &= !XMIT_WAIT,
        "qp1" => pma.capabilities |= QP1_DROP,
        "all-ports" => pma.capabilities |= ALL_PORT_SELECT,
        "fec" => {
            pma.has_speeds = true;
            pma.capabilities |= RS_FEC;
        }
        "details" | "no-details" => pma.has_details = word == "details",
        "flow" | "no-flow" => pma.has_flow = word == "flow",
        "levels" | "no-levels" => pma.has_levels = word == "levels",
        "no-info" => pma.is_without_info = true,
        other => return Err(format!("`{other}` is no ability of a performance agent; `help` lists them")),
    }
    Ok(())
}

fn topology(world: &mut World, name: &str, words: &mut Words, now: u64) -> Result<(), String> {
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

fn subnet(world: &mut World, name: &str, words: &mut Words, now: u64) -> Result<(), String> {
    match name {
        "lid" => {
            let end = words.end_of(&world.fabric)?;
            let lid = words.number("the LID")?;
            let lid = u16::try_from(lid).ok().filter(|lid| (1..0xC000).contains(lid));
            let lid = lid.ok_or("a LID is from 1 to 49151")?;
            if world.fabric.by_lid(lid).is_some_and(|other| other != end) {
                return Err(format!("LID {lid} is taken"));
            }
            crate::manager::assign(&mut world.fabric, end, lid);
            world.reconfigure(now);
        }
        "manager" => {
            let first = words.peek().ok_or("expected a node, or `none`")?;
            if first == "none" {
                words.next();
                world.fabric.manager = None;
                return Ok(());
            }
            let node = words.node(&world.fabric)?;
            let end_port = world.fabric.nodes[node].end_ports().start as u64;
            let port = words.next().map_or(Ok(end_port), |word| words::number(&word, "the port"))?;
            let end = End { node, port: u8::try_from(port).map_err(|_| "there is no such port")? };
            world.fabric.port(end).ok_or("there is no such port")?;
            let priority = words.next().map_or(Ok(0), |word| words::number(&word, "the priority"))?;
            if world.fabric.manager != Some(end) {
                world.notices.forget();
            }
            world.fabric.manager = Some(end);
            world.fabric.manager_priority = priority.min(15) as u8;
            world.reconfigure(now);
        }
        "sweep" => match words.text("`auto`, `off` or `now`")?.as_str() {
            "auto" => world.is_sweeping = true,
            "off" => world.is_sweeping = false,
            "now" => world.reconfigure(now),
            other => return Err(format!("`{other}`: expected `auto`, `off` or `now`")),
        },
        _ => {
            let text = words.text("the MGID")?;
            let mgid = u128::from_str_radix(text.trim_start_matches("0x"), 16);
            let mgid = mgid.map_err(|_| format!("`{text}` is no MGID: 32 hex digits"))?;
            let mlid = words.number("the MLID")?;
            let range = u64::from(FIRST_MLID)..u64::from(FIRST_MLID + CAPACITY);
            let mlid = Some(mlid).filter(|mlid| range.contains(mlid));
            let mlid = mlid.ok_or_else(|| format!("an MLID is within {range:#x?}"))? as u16;
            let mut members = Vec::new();
            while words.peek().is_some() {
                let node = words.node(&world.fabric)?;
                members.push(End { node, port: world.fabric.nodes[node].end_ports().start as u8 });
            }
            world.fabric.groups.retain(|group| group.mlid != mlid);
            world.notices.push(Event::Group { mgid, is_made: true });
            let members = (!members.is_empty()).then_some(members);
            world.fabric.groups.push(Group { mgid, mlid, members });
            world.reconfigure(now);
        }
    }
    Ok(())
}

fn trap(world: &mut World, words: &mut Words) -> Result<(), String> {
    let number = words.number("the trap's number")?;
    let node = words.node(&world.fabric)?;
    let (lid, guid) = (world.fabric.nodes[node].lid(), world.fabric.nodes[node].system_guid);
    world.notices.push(match number {
        128 => Event::LinkState { lid },
        144 => Event::Capability { lid, mask: 0, is_description: false },
        145 => Event::SystemGuid { lid, guid },
        other => return Err(format!("trap {other} is not simulated: expected 128, 144 or 145")),
    });
    Ok(())
}

fn counter(world: &mut World, name: &str, words: &mut Words, now: u64) -> Result<(), String> {
    let at = world.clock.at(now);
    if name == "clear" && words.peek() == Some("all") {
        words.next();
        for port in world.fabric.nodes.iter_mut().flat_map(|node| &mut node.ports) {
            crate::counters::NAMES.iter().for_each(|(_, counter)| port.counters.set(*counter, 0, at));
        }
        return Ok(());
    }
    let end = words.end_of(&world.fabric)?;
    let Some(port) = world.fabric.port_mut(end) else { return Err("there is no such port".to_owned()) };
    if name == "clear" {
        crate::counters::NAMES.iter().for_each(|(_, counter)| port.counters.set(*counter, 0, at));
        return Ok(());
    }
    let text = words.text("the counter's name")?;
    let counter = Counter::by_name(&text).ok_or_else(|| format!("there is no counter `{text}`"))?;
    let text = words.text("the value")?;
    if let Some(events) = text.strip_prefix('+') {
        port.counters.add(counter, words::number(events, "the events")?);
    } else if let Some(rate) = text.strip_suffix("/s") {
        let rate = rate.parse().map_err(|_| format!("`{rate}` is no number"))?;
        port.counters.set_rate(counter, rate, at);
    } else {
        port.counters.set(counter, words::number(&text, "the value")?, at);
    }
    Ok(())
}

fn traffic(world: &mut World, name: &str, words: &mut Words, now: u64) -> Result<(), String> {
    match name {
        "levels" => {
            let mut levels = [0.0; 16];
            while let Some(word) = words.next() {
                let known = word.split_once('=').and_then(|(level, share)| {
                    Some((levels.get_mut(level.parse::<usize>().ok()?)?, share.parse::<f64>().ok()?))
                });
                let (place, share) = known.ok_or_else(|| format!("`{word}`: expected SL=SHARE"))?;
                *place = share;
            }
            world.levels = levels;
        }
        "clock" => match words.text("`freeze`, `run` or `advance`")?.as_str() {
            "freeze" => world.clock.freeze(now),
            "run" => world.clock.thaw(now),
            "advance" => world.clock.advance(words.time("by how much")?),
            other => return Err(format!("`{other}`: expected `freeze`, `run` or `advance`")),
        },
        _ => {
            let demand = match words.text("what traffic")?.as_str() {
                "off" => None,
                "pair" => {
                    let (from, to) = (words.host(&world.fabric)?, words.host(&world.fabric)?);
                    Some(Demand::Pair(from, to, words.rate()?))
                }
                "all-to-all" => Some(Demand::AllToAll(words.rate()?)),
                "ring" => Some(Demand::Ring(words.rate()?)),
                "incast" => {
                    let to = words.host(&world.fabric)?;
                    Some(Demand::Incast(to, words.rate()?))
                }
                other => return Err(format!("`{other}` is no traffic; `help` lists them")),
            };
            match demand {
                None => world.demands.clear(),
                Some(demand) => world.demands.push(demand),
            }
            world.redirect_traffic(now);
        }
    }
    Ok(())
}

fn stats(world: &World) -> String {
    let c = &world.counts;
    format!(
        "received {}\nanswered {}\nlost {}\nunreachable {}\nsilent {}\noverflowed {}\nkey_refused {}\n\
         reports_answered {}\nmalformed {}\n",
        c.received,
        c.answered,
        c.lost,
        c.unreachable,
        c.silent,
        c.overflowed,
        c.key_refused,
        c.reports_answered,
        c.malformed
    )
}

fn nodes(world: &World) -> String {
    let mut text = String::new();
    for node in world.fabric.nodes.iter().filter(|node| !node.is_removed) {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{} lid {} \"{}\"", node.id, node.lid(), node.description);
    }
    text
}

fn groups(world: &World) -> String {
    let mut text = String::new();
    for group in &world.fabric.groups {
        let members = group.ends(&world.fabric).len();
        // Writing to a String can't fail.
        let _ = writeln!(text, "{:#x} {:032x} {members} members", group.mlid, group.mgid);
    }
    text
}
