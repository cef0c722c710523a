//! Commands on the subnet manager: LIDs, its place, groups, traps.

use crate::model::End;
use crate::model::{FIRST_MLID, Group};
use crate::multicast::CAPACITY;
use crate::notices::Event;
use crate::parser::{self, CommandWords};
use crate::smp;
use crate::world::World;

pub(super) fn subnet(
    world: &mut World,
    name: &str,
    words: &mut CommandWords,
    now: u64,
) -> Result<(), String> {
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
        "forward" => {
            let node = words.node(&world.fabric)?;
            let lid = words.number("the LID")? as usize;
            let port = words.number("the port")?;
            if !world.fabric.nodes[node].is_switch() {
                return Err(format!("`{}` is no switch", world.fabric.nodes[node].description));
            }
            if !(1..0xC000).contains(&lid) {
                return Err("a LID is from 1 to 49151".to_owned());
            }
            let port = u8::try_from(port).ok().filter(|port| world.fabric.nodes[node].port(*port).is_some());
            let port = port.ok_or("the switch has no such port")?;
            let table = &mut world.fabric.nodes[node].forwarding;
            if table.len() <= lid {
                table.resize(lid + 1, crate::plan::NO_PORT);
            }
            table[lid] = port;
            world.redirect_traffic(now);
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
            let port = words.next().map_or(Ok(end_port), |word| parser::number(&word, "the port"))?;
            let end = End { node, port: u8::try_from(port).map_err(|_| "there is no such port")? };
            world.fabric.port(end).ok_or("there is no such port")?;
            let priority = words.next().map_or(Ok(0), |word| parser::number(&word, "the priority"))?;
            if world.fabric.manager != Some(end) {
                world.notices.discard();
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

pub(super) fn trap(world: &mut World, words: &mut CommandWords) -> Result<(), String> {
    let number = words.number("the trap's number")?;
    let node = words.node(&world.fabric)?;
    let (lid, guid) = (world.fabric.nodes[node].lid(), world.fabric.nodes[node].system_guid);
    world.notices.push(match number {
        128 => Event::LinkState { lid },
        144 => {
            let end = End { node, port: world.fabric.nodes[node].end_ports().start as u8 };
            let mask = smp::capability_mask(&world.fabric, end);
            Event::Capability { lid, mask, is_description: false }
        }
        145 => Event::SystemGuid { lid, guid },
        other => return Err(format!("trap {other} is not simulated: expected 128, 144 or 145")),
    });
    Ok(())
}
