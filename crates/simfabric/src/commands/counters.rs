//! Commands on counters, traffic and the clock.

use crate::counters::Counter;
use crate::parser::{self, CommandWords};
use crate::traffic::TrafficDemand;
use crate::world::World;

pub(super) fn counter(
    world: &mut World,
    name: &str,
    words: &mut CommandWords,
    now: u64,
) -> Result<(), String> {
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
        port.counters.add(counter, parser::number(events, "the events")?);
    } else if let Some(rate) = text.strip_suffix("/s") {
        let rate = rate.parse().map_err(|_| format!("`{rate}` is no number"))?;
        port.counters.set_rate(counter, rate, at);
    } else {
        port.counters.set(counter, parser::number(&text, "the value")?, at);
    }
    Ok(())
}

pub(super) fn traffic(
    world: &mut World,
    name: &str,
    words: &mut CommandWords,
    now: u64,
) -> Result<(), String> {
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
                    Some(TrafficDemand::Pair(from, to, words.rate()?))
                }
                "all-to-all" => Some(TrafficDemand::AllToAll(words.rate()?)),
                "ring" => Some(TrafficDemand::Ring(words.rate()?)),
                "incast" => {
                    let to = words.host(&world.fabric)?;
                    Some(TrafficDemand::Incast(to, words.rate()?))
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
