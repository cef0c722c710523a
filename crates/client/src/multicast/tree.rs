//! One group: what is wrong with it, who is in it, and the links that carry it.

use super::{is_checked, losses, packets, purpose, unreached};
use crate::text::{ABSENT, Table, bytes, clean, count, folded, thousands};
use throughline_api::multicast::{MulticastLoss, MulticastTree};

/// Rows of members and links; all are in the JSON document and on the pages.
const ROWS: usize = 50;

/// The page for people.
pub fn text(tree: &MulticastTree, width: usize) -> String {
    let mut text = String::new();
    for line in verdict(tree) {
        text.push_str(&(folded(&line, width).join("\n").trim_start().to_owned() + "\n"));
    }
    let head = format!("Multicast LID {:#x}: {}, fabric {}", tree.mlid, purpose(&tree.known), tree.subnet);
    text.push_str(&(clean(&head, width) + "\n"));
    let mut section = |title: String, table: Table| {
        text.push_str(&format!("\n{title}\n"));
        text.extend(table.text().lines().map(|line| clean(line, width) + "\n"));
    };
    if !tree.known.is_empty() {
        let title =
            format!("{}, as the subnet administrator reported", count(tree.known.len() as u64, "group"));
        section(title, groups(tree));
    }
    if !tree.members.is_empty() {
        let shown = tree.members.len().min(ROWS);
        section(format!("{shown} of {}", count(tree.members.len() as u64, "member")), members(tree));
    }
    if !tree.links.name.is_empty() {
        let shown = tree.links.name.len().min(ROWS);
        let of = count(tree.links.name.len() as u64, "link");
        section(format!("{shown} of {of}, from the root down; packets of all groups of a link"), links(tree));
    }
    text
}

fn verdict(tree: &MulticastTree) -> Vec<String> {
    let mut lines = Vec::new();
    for (place, loss) in losses(tree).iter().take(3) {
        lines.push(format!("PACKETS ARE LOST {place}: at least {}.", loss_text(loss)));
    }
    if tree.parts > 1 {
        lines.push(format!(
            "ITS TREE IS TORN into {} parts: members of one do not receive what is sent in another.",
            tree.parts
        ));
    }
    match unreached(tree) {
        0 => {}
        members => lines.push(format!(
            "The tree does not reach {} that should receive: look at the subnet manager's log.",
            count(members as u64, "member")
        )),
    }
    if lines.is_empty() {
        let checked = match (is_checked(tree), tree.traffic.is_some()) {
            _ if tree.links.name.is_empty() => "it has no tree, and with fewer than two members needs none",
            (true, _) => "no packet is missing on its links and in its switches",
            (false, true) => {
                "whether packets are lost is not known: ports' multicast packets have not been read twice"
            }
            (false, false) => "its tree has too many ports for figures of all its links",
        };
        lines.push(format!("Nothing is known to be wrong: {checked}."));
    }
    lines
}

/// `12 of 3,456 in 60 s`.
fn loss_text(loss: &MulticastLoss) -> String {
    let number = |packets: i64| thousands(packets.unsigned_abs());
    format!("{} of {} in {:.0} s", number(loss.lost_packets), number(loss.packets), loss.seconds)
}

fn groups(tree: &MulticastTree) -> Table {
    let mut table = Table::new(&["GID", "FOR", "PARTITION", "<MTU", "<RATE", "<SL", "<MEMBERS"]);
    for group in tree.known.iter().take(ROWS) {
        table.row(vec![
            group.mgid.clone(),
            group.name.clone().unwrap_or_else(|| ABSENT.to_owned()),
            format!("{:#06x}", group.pkey),
            group.mtu_bytes.map_or(ABSENT.to_owned(), |mtu| mtu.to_string()),
            group.rate_bytes_per_second.map_or(ABSENT.to_owned(), |rate| bytes(rate.unsigned_abs()) + "/s"),
            group.service_level.to_string(),
            group.members.map_or("not reported".to_owned(), |members| members.to_string()),
        ]);
    }
    table
}

fn members(tree: &MulticastTree) -> Table {
    let mut all: Vec<_> = tree.members.iter().collect();
    // Those that miss what is sent first.
    all.sort_by_key(|member| (member.is_reached != Some(false), member.name.clone(), member.port));
    let mut table = Table::new(&["NODE", "<PORT", "GUID", "STATE", "REACHED"]);
    for member in all.into_iter().take(ROWS) {
        table.row(vec![
            member.name.clone().unwrap_or_else(|| "not found by a discovery".to_owned()),
            member.port.map_or(ABSENT.to_owned(), |port| port.to_string()),
            member.port_guid.clone(),
            member.state.clone(),
            member.is_reached.map_or(ABSENT, |is| if is { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    table
}

fn links(tree: &MulticastTree) -> Table {
    let mut table = Table::new(&["LINK", "<DOWN", "<UP", "<LOST DOWN", "<LOST UP", "<GROUPS"]);
    for (place, name) in tree.links.name.iter().enumerate().take(ROWS) {
        let depth = tree.links.depth.get(place).copied().unwrap_or(0);
        let is_a_above = tree.links.is_a_above.get(place).copied().unwrap_or(true);
        let mut cells = vec![format!("{}{name}", "  ".repeat(depth.min(8)))];
        let traffic = tree.traffic.as_ref();
        for is_ab in [is_a_above, !is_a_above] {
            let rate = traffic.and_then(|traffic| {
                let way = if is_ab { &traffic.packets_per_second.ab } else { &traffic.packets_per_second.ba };
                way.get(place).copied().flatten()
            });
            cells.push(rate.map_or(ABSENT.to_owned(), packets));
        }
        for is_ab in [is_a_above, !is_a_above] {
            let loss = traffic.and_then(|traffic| {
                let way = if is_ab { &traffic.loss.ab } else { &traffic.loss.ba };
                way.get(place).copied().flatten()
            });
            cells.push(loss.map_or(ABSENT.to_owned(), |loss| match loss.lost_packets {
                0 => "0".to_owned(),
                lost => format!("≥ {}", thousands(lost.unsigned_abs())),
            }));
        }
        let groups = traffic.and_then(|traffic| traffic.mlids.get(place));
        cells.push(groups.map_or(ABSENT.to_owned(), ToString::to_string));
        table.row(cells);
    }
    table
}
