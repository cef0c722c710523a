//! Groups and trees for readers: a table of groups, one group drawn, JSON.

use super::{Group, Tree, TreeLink, mtu_bytes, purpose, rate_name};
use crate::topology::{NodeIndex, PortEnd, Topology, aligned, label};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;

/// A multicast GID as saquery prints it: an IPv6 address.
fn gid(group: u128) -> String {
    std::net::Ipv6Addr::from(group).to_string()
}

/// All groups as a table.
#[must_use]
pub fn groups_table(topology: &Topology, groups: &[Group]) -> String {
    let head = ["MLID", "MGID", "P_KEY", "MTU", "RATE", "SL", "MEMBERS", "SWITCHES", "HOSTS", "STATE", "FOR"];
    let mut rows = vec![head.map(str::to_owned)];
    let dash = || "-".to_owned();
    for group in groups {
        let record = group.record.as_ref();
        rows.push([
            format!("{:#06x}", group.mlid),
            record.map_or_else(dash, |record| gid(record.group)),
            record.map_or_else(dash, |record| format!("{:#06x}", record.pkey)),
            record.and_then(|record| mtu_bytes(record.mtu)).map_or_else(dash, |bytes| bytes.to_string()),
            record.and_then(|record| rate_name(record.rate)).map_or_else(dash, |rate| format!("{rate} Gb/s")),
            record.map_or_else(dash, |record| record.service_level.to_string()),
            group.members.as_ref().map_or_else(|| "?".to_owned(), |members| members.len().to_string()),
            group.tree.switches.len().to_string(),
            group.tree.hosts.len().to_string(),
            state(topology, group),
            record.and_then(|record| purpose(record.group)).unwrap_or_else(dash),
        ]);
    }
    let plural = if groups.len() == 1 { "" } else { "s" };
    aligned(&rows) + &format!("{} group{plural}\n", groups.len())
}

/// What is wrong with a group in a few words.
fn state(topology: &Topology, group: &Group) -> String {
    let problems = problems(topology, group);
    match problems.as_slice() {
        [] if group.tree.switches.is_empty() => "no tree".to_owned(),
        [] => "ok".to_owned(),
        [one] => one.split(':').next().unwrap_or(one).to_owned(),
        several => format!("{} problems", several.len()),
    }
}

/// What is wrong with a group, one line each: what, then who.
fn problems(topology: &Topology, group: &Group) -> Vec<String> {
    let name = |end: &PortEnd| {
        let node = &topology.nodes[end.node];
        format!("{} port {}", label(&node.description, node.guid), end.port)
    };
    let list =
        |what: &str, names: Vec<String>| (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")));
    let tree = &group.tree;
    let torn = (tree.roots.len() > 1).then(|| format!("torn into {} parts", tree.roots.len()));
    let member_name = |guid: &throughline_sample::Guid| match topology.port_by_guid(*guid) {
        Some(end) => label(&topology.nodes[end.node].description, *guid),
        None => guid.to_string(),
    };
    [
        torn,
        list("members not reached", group.missed.iter().map(member_name).collect()),
        list("reached though no members", group.strangers.iter().map(name).collect()),
        list("circles", tree.circles.iter().map(name).collect()),
        list("passes one way only", tree.one_way.iter().map(name).collect()),
        list("leads nowhere", tree.nowhere.iter().map(name).collect()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// One group: its description, its tree, and what is wrong with it.
#[must_use]
pub fn group_text(topology: &Topology, group: &Group) -> String {
    let mut text = format!("MLID {:#06x}", group.mlid);
    // Writing to a String can't fail.
    if let Some(record) = &group.record {
        let mtu = mtu_bytes(record.mtu).map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
        let _ = write!(
            text,
            "  MGID {}\nP_Key {:#06x}  Q_Key {}  MTU {mtu}  rate {} Gb/s  SL {}",
            gid(record.group),
            record.pkey,
            record.queue_key.map_or_else(|| "?".to_owned(), |key| format!("{key:#010x}")),
            rate_name(record.rate).unwrap_or("?"),
            record.service_level
        );
        if let Some(name) = purpose(record.group) {
            let _ = write!(text, "\n{name}");
        }
    }
    text.push('\n');
    match &group.members {
        Some(members) => {
            let send_only = members.iter().filter(|member| !member.receives()).count();
            let _ = writeln!(text, "{} members, {send_only} of them only send", members.len());
        }
        None => text
            .push_str("members are not reported (without the SM_Key, or without a subnet administrator)\n"),
    }
    if group.is_shared {
        text.push_str("other groups have the same MLID: the tree is for the members of all\n");
    }
    let tree = &group.tree;
    let _ = writeln!(
        text,
        "{} switches, {} links, {} hosts reached",
        tree.switches.len(),
        tree.link_count(),
        tree.hosts.len()
    );
    draw(&mut text, topology, group);
    for problem in problems(topology, group) {
        text.push_str(&problem);
        text.push('\n');
    }
    text
}

/// The tree, two blanks deeper each level: `OUT -> IN node`. Switches come in the order of [`Tree::switches`].
fn draw(text: &mut String, topology: &Topology, group: &Group) {
    let tree = &group.tree;
    let above: HashMap<NodeIndex, &TreeLink> =
        tree.links.iter().map(|link| (link.lower.node, link)).collect();
    let states: HashMap<(NodeIndex, u8), &'static str> = group
        .members
        .iter()
        .flatten()
        .filter_map(|member| Some((key(member.end?), member.state_name())))
        .collect();
    let mut depths: HashMap<NodeIndex, usize> = HashMap::new();
    for (switch, ports) in &tree.switches {
        let node = &topology.nodes[*switch];
        let name = label(&node.description, node.guid);
        let own = if ports.contains(0) { " (itself a receiver)" } else { "" };
        let depth = match above.get(switch) {
            Some(link) => {
                let depth = depths.get(&link.upper.node).copied().unwrap_or(0) + 1;
                let indent = "  ".repeat(depth);
                let _ = writeln!(text, "{indent}{} -> {} {name}{own}", link.upper.port, link.lower.port);
                depth
            }
            None => {
                let _ = writeln!(text, "{name}{own}");
                0
            }
        };
        depths.insert(*switch, depth);
        let indent = "  ".repeat(depth + 1);
        for (from, host) in tree.hosts.iter().filter(|(from, _)| from.node == *switch) {
            let node = &topology.nodes[host.node];
            let state = match (states.get(&key(*host)), &group.members) {
                (Some(state), _) => format!(" ({state})"),
                (None, Some(_)) => " (no member)".to_owned(),
                (None, None) => String::new(),
            };
            let name = label(&node.description, node.guid);
            let _ = writeln!(text, "{indent}{} -> {} {name}{state}", from.port, host.port);
        }
    }
}

fn key(end: PortEnd) -> (NodeIndex, u8) {
    (end.node, end.port)
}

/// One group as JSON: `mlid`, `group` (`mgid`, `pkey`, `qkey`, `mtu_bytes`, `rate_gbps`, `sl`, `scope`, `name`, or
/// `null`),
/// `members` (`[{port_guid, guid, name, state, proxy}]`, `null` where they are not reported), `tree` (`switches`,
/// `links`, `hosts`, `parts`, `circles`, `one_way`, `nowhere`), `missed`, `strangers`, `ok`.
#[must_use]
pub fn group_document(topology: &Topology, group: &Group) -> Value {
    let node = |index: NodeIndex| topology.nodes[index].guid;
    let members = group.members.as_ref().map(|members| {
        let member = |member: &super::Member| {
            let at = member.end.map(|end| &topology.nodes[end.node]);
            json!({
                "port_guid": member.port_guid, "guid": at.map(|node| node.guid),
                "name": at.map(|node| &node.description), "state": member.state_name(),
                "join_state": member.join_state, "proxy": member.is_proxy,
            })
        };
        members.iter().map(member).collect::<Vec<Value>>()
    });
    let record = group.record.map(|record| {
        json!({
            "mgid": gid(record.group), "pkey": record.pkey, "qkey": record.queue_key,
            "mtu_bytes": mtu_bytes(record.mtu), "rate_gbps": rate_name(record.rate),
            "sl": record.service_level, "scope": record.scope, "name": purpose(record.group),
        })
    });
    let strangers: Vec<Value> =
        group.strangers.iter().map(|end| json!({"guid": node(end.node), "port": end.port})).collect();
    json!({
        "mlid": group.mlid, "group": record, "members": members, "tree": tree_document(topology, &group.tree),
        "shared_mlid": group.is_shared, "missed": group.missed, "strangers": strangers,
        "ok": group.is_sound(),
    })
}

fn tree_document(topology: &Topology, tree: &Tree) -> Value {
    let end = |end: &PortEnd| json!({"guid": topology.nodes[end.node].guid, "port": end.port});
    let ends = |ends: &[PortEnd]| ends.iter().map(end).collect::<Vec<Value>>();
    let pair = |from: &PortEnd, to: &PortEnd| {
        json!({
            "guid": topology.nodes[from.node].guid, "port": from.port,
            "remote_guid": topology.nodes[to.node].guid, "remote_port": to.port,
        })
    };
    let switch = |(index, ports): &(NodeIndex, super::PortSet)| json!({"guid": topology.nodes[*index].guid, "ports": ports.iter().collect::<Vec<u8>>()});
    json!({
        "switches": tree.switches.iter().map(switch).collect::<Vec<Value>>(),
        "links": tree.links.iter().map(|link| pair(&link.upper, &link.lower)).collect::<Vec<Value>>(),
        "hosts": tree.hosts.iter().map(|(from, to)| pair(from, to)).collect::<Vec<Value>>(),
        "parts": tree.roots.len(),
        "circles": ends(&tree.circles), "one_way": ends(&tree.one_way), "nowhere": ends(&tree.nowhere),
    })
}
