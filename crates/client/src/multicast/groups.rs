//! The list of groups.

use super::{is_checked, losses, packets, purpose, unreached};
use crate::text::{ABSENT, Table, clean, count, folded, thousands};
use throughline_api::multicast::{MulticastGroups, MulticastLid, MulticastTree};

/// The page for people: what is wrong, then a row a LID, those with the most packets first. `trees` are those that were
/// read for what is lost on them.
pub fn text(all: &[MulticastGroups], trees: &[MulticastTree], width: usize) -> String {
    let lids: usize = all.iter().map(|one| one.groups.len()).sum();
    if lids == 0 {
        let why = if all.is_empty() {
            "No fabric has been discovered yet: run `throughline-fabric run` on a host with an adapter."
        } else {
            "No switch forwards a multicast group, and the subnet administrator has reported none."
        };
        return folded(why, width).join("\n").trim_start().to_owned() + "\n";
    }
    let mut text = String::new();
    for line in verdict(all, trees) {
        text.push_str(&(folded(&line, width).join("\n").trim_start().to_owned() + "\n"));
    }
    let subnets = count(all.len() as u64, "fabric");
    let seconds = all.iter().map(|one| one.window_seconds).fold(0.0, f64::max);
    let head = format!(
        "{} in {subnets}; packets in the last {seconds:.0} s or more; loss is known of {} of them",
        count(lids as u64, "multicast LID"),
        trees.iter().filter(|tree| is_checked(tree)).count(),
    );
    text.push_str(&(clean(&head, width) + "\n\n"));
    text.extend(table(all, trees).text().lines().map(|line| clean(line, width) + "\n"));
    text
}

/// What is wrong, a line each; that nothing is where something was checked.
fn verdict(all: &[MulticastGroups], trees: &[MulticastTree]) -> Vec<String> {
    let mut lines = Vec::new();
    for group in
        all.iter().flat_map(|one| &one.groups).filter(|group| is_without_tree(group)).take(WITHOUT_TREE_MAX)
    {
        let name = format!("{:#x} ({})", group.mlid, purpose(&group.known));
        lines.push(format!("NO SWITCH FORWARDS {name}, which has several members."));
    }
    for tree in trees {
        let name = format!("{:#x} ({})", tree.mlid, purpose(&tree.known));
        if let Some((place, loss)) = losses(tree).first() {
            lines.push(format!(
                "PACKETS ARE LOST {place}: at least {} of {} multicast packets in {:.0} s; it carries {name}.",
                thousands(loss.lost_packets.unsigned_abs()),
                thousands(loss.packets.unsigned_abs()),
                loss.seconds,
            ));
        }
        if tree.parts > 1 {
            lines.push(format!("THE TREE OF {name} IS TORN into {} parts.", tree.parts));
        }
        match unreached(tree) {
            0 => {}
            members => {
                lines.push(format!("The tree of {name} does not reach {}.", count(members as u64, "member")))
            }
        }
    }
    // The same link carries several groups: its loss once.
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| seen.insert(line.split("; it carries").next().unwrap_or(line).to_owned()));
    if lines.is_empty() {
        lines.push(match trees.iter().filter(|tree| is_checked(tree)).count() {
            0 if trees.is_empty() => {
                "Nothing is known to be wrong: no group has a tree, and with fewer than two members none needs one.".to_owned()
            }
            0 => "Nothing is known to be wrong; no loss could be checked: ports' multicast packets have not been read twice."
                .to_owned(),
            _ => "Nothing is wrong: no multicast packet is missing, and each member is reached.".to_owned(),
        });
    }
    lines
}

/// Groups that are named because no switch forwards them.
const WITHOUT_TREE_MAX: usize = 3;

/// Whether members of a group can't reach each other: nobody forwards it.
fn is_without_tree(group: &MulticastLid) -> bool {
    let members: i32 = group.known.iter().filter_map(|known| known.members).sum();
    members > 1 && group.links == 0
}

fn table(all: &[MulticastGroups], trees: &[MulticastTree]) -> Table {
    let is_several = all.len() > 1;
    let mut headings = vec!["GROUP", "FOR", "<MEMBERS", "<REACHED", "<LINKS", "<PACKETS", "<LOST"];
    if is_several {
        headings.insert(0, "FABRIC");
    }
    let mut rows: Vec<(&str, &MulticastLid)> =
        all.iter().flat_map(|one| one.groups.iter().map(|group| (one.subnet.as_str(), group))).collect();
    rows.sort_by(|(_, one), (_, other)| {
        other.packets_per_second.unwrap_or(-1.0).total_cmp(&one.packets_per_second.unwrap_or(-1.0))
    });
    let mut table = Table::new(&headings);
    for (subnet, group) in rows {
        let tree = trees.iter().find(|tree| tree.mlid == group.mlid && tree.subnet == subnet);
        let lost = tree.filter(|tree| is_checked(tree)).map(|tree| {
            losses(tree).first().map_or_else(
                || "0".to_owned(),
                |(_, loss)| format!("≥ {}", thousands(loss.lost_packets.unsigned_abs())),
            )
        });
        let members: Option<i32> =
            (!group.known.is_empty()).then(|| group.known.iter().map(|known| known.members).sum()).flatten();
        let bound = if group.packets_kind.as_deref() == Some("bound") { "≤ " } else { "" };
        let mut cells = vec![
            format!("{:#x}", group.mlid),
            purpose(&group.known),
            members.map_or(ABSENT.to_owned(), |members| members.to_string()),
            group.adapters.to_string(),
            group.links.to_string(),
            group.packets_per_second.map_or(ABSENT.to_owned(), |rate| format!("{bound}{}", packets(rate))),
            lost.unwrap_or_else(|| ABSENT.to_owned()),
        ];
        if is_several {
            cells.insert(0, subnet.to_owned());
        }
        table.row(cells);
    }
    table
}
