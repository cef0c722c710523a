//! Commands on nodes and their agents.

use crate::model::{
    ALL_PORT_SELECT, ERRORS_64, EXTENDED_WIDTH, EXTENDED_WITHOUT_CASTS, End, Pma, QP1_DROP, RS_FEC, Redirect,
    XMIT_WAIT,
};
use crate::notices::Event;
use crate::parser::{self, CommandWords};
use crate::smp;
use crate::world::World;

pub(super) fn node(world: &mut World, name: &str, words: &mut CommandWords) -> Result<(), String> {
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
            let end = End { node, port: world.fabric.nodes[node].end_ports().start as u8 };
            let mask = smp::capability_mask(&world.fabric, end);
            world.notices.push(Event::Capability { lid, mask, is_description: true });
        }
        "mkey" => {
            let key = words.number("the key")?;
            let protect = words.number("the protect bits")?;
            let nodes = words.next().unwrap_or_else(|| "all".to_owned());
            for node in parser::nodes(&world.fabric, &nodes)? {
                let manners = &mut world.fabric.nodes[node].manners;
                manners.m_key = key;
                manners.m_key_protect = protect.min(3) as u8;
            }
        }
        "adaptive" => {
            let nodes = chosen(world, words)?;
            let is_on = match words.text("`on`, `off` or `unknown`")?.as_str() {
                "on" => Some(true),
                "off" => Some(false),
                "unknown" => None,
                other => return Err(format!("`{other}`: expected `on`, `off` or `unknown`")),
            };
            if let Some(node) = nodes.iter().find(|node| !world.fabric.nodes[**node].is_switch()) {
                return Err(format!("`{}` is no switch", world.fabric.nodes[*node].description));
            }
            nodes.iter().for_each(|node| world.fabric.nodes[*node].manners.adaptive_routing = is_on);
        }
        "pma" => {
            let nodes = words.text("the nodes")?;
            let nodes = parser::nodes(&world.fabric, &nodes)?;
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
fn chosen(world: &mut World, words: &mut CommandWords) -> Result<Vec<usize>, String> {
    let first = words.text("the nodes")?;
    let Ok(share) = first.parse::<f64>() else { return parser::nodes(&world.fabric, &first) };
    let mut nodes = parser::nodes(&world.fabric, &words.text("the nodes")?)?;
    // The manager's node is the client's by default: without it nothing can be queried.
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
