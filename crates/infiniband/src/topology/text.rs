//! The topology as text for people: a summary, then switch by switch what each port is cabled to.

use super::{Node, NodeIndex, Port, Topology};
use crate::mad::NodeKind;
use std::collections::BTreeSet;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Columns of a switch's ports.
const HEADING: [&str; 6] = ["  PORT", "STATE", "LINK", "REMOTE", "PORT", "LID"];

impl Topology {
    /// A line of totals; then for each switch a heading and one line per port with a link. Switches with hosts come
    /// first, by name. A cable between two switches is in both groups, any other cable in one.
    #[must_use]
    pub fn to_text(&self) -> String {
        let is_switch = |node: NodeIndex| self.nodes[node].kind == NodeKind::Switch;
        let switches = (0..self.nodes.len()).filter(|node| is_switch(*node));
        let mut groups: Vec<Group> = switches.map(|node| self.group(node)).collect();
        groups.sort_by_key(|group| {
            let node = &self.nodes[group.node];
            (group.hosts == 0, node.description.clone(), node.guid)
        });
        // What no switch shows: adapters cabled to each other, and ends whose other end is not known.
        let others = (0..self.nodes.len()).filter(|node| {
            let mut linked = linked_ports(&self.nodes[*node]);
            !is_switch(*node) && linked.any(|port| port.remote.is_none_or(|end| !is_switch(end.node)))
        });
        let others: Vec<Group> = others.map(|node| self.group(node)).collect();
        let (with_hosts, all) = (groups.iter().filter(|group| group.hosts > 0).count(), groups.len());
        // Writing to a String can't fail, here and below.
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} nodes: {all} switches, {} others; {} cables",
            self.nodes.len(),
            self.nodes.len() - all,
            self.cables().count()
        );
        let _ = writeln!(text, "{with_hosts} switches with hosts, {} without", all - with_hosts);
        for group in groups.iter().chain(&others) {
            self.write_group(&mut text, group);
        }
        text
    }

    fn group(&self, node: NodeIndex) -> Group {
        let remotes = linked_ports(&self.nodes[node]).filter_map(|port| port.remote.map(|end| end.node));
        let (mut hosts, mut neighbours, mut links) = (BTreeSet::new(), BTreeSet::new(), 0);
        for remote in remotes {
            match self.nodes[remote].kind {
                NodeKind::Switch => {
                    neighbours.insert(remote);
                    links += 1;
                }
                _ => {
                    hosts.insert(remote);
                }
            }
        }
        Group { node, hosts: hosts.len(), neighbours: neighbours.len(), links }
    }

    fn write_group(&self, text: &mut String, group: &Group) {
        let node = &self.nodes[group.node];
        let name = label(&node.description, node.guid);
        let _ = write!(text, "\n{name}: {}, LID {}", node.kind.name(), node.lid());
        if node.kind == NodeKind::Switch {
            let Group { hosts, neighbours, links, .. } = group;
            let _ = write!(text, ", {hosts} hosts, {links} links to {neighbours} switches");
        }
        text.push('\n');
        let rows: Vec<[String; 6]> = linked_ports(node).map(|port| self.row(node, port)).collect();
        if rows.is_empty() {
            text.push_str("  no link\n");
            return;
        }
        let mut table = vec![HEADING.map(str::to_owned)];
        table.extend(rows);
        text.push_str(&aligned(&table));
    }

    fn row(&self, node: &Node, port: &Port) -> [String; 6] {
        let unknown = || "?".to_owned();
        let link = node.link_of(port);
        let remote = port.remote.map(|end| (&self.nodes[end.node], end.port));
        let lid = |(node, number): (&Node, u8)| node.port(number).map(|port| node.lid_of(port).to_string());
        [
            format!("  {}", port.number),
            port.info.and_then(|info| info.state).map_or("?", |state| state.name()).to_owned(),
            link.map_or_else(unknown, |(width, speed)| format!("{}{}", width.name(), speed.name())),
            remote.map_or_else(unknown, |(node, _)| label(&node.description, node.guid)),
            remote.map_or_else(unknown, |(_, port)| port.to_string()),
            remote.and_then(lid).unwrap_or_else(unknown),
        ]
    }
}

/// A node whose ports are shown together.
struct Group {
    node: NodeIndex,
    /// Nodes at it that are no switches.
    hosts: usize,
    /// Other switches at it, and cables to them.
    neighbours: usize,
    links: usize,
}

fn linked_ports(node: &Node) -> impl Iterator<Item = &Port> {
    node.physical_ports().filter(|port| port.info.is_some_and(|info| info.is_linked()))
}

/// GUID and description of a node, for people.
#[must_use]
pub fn label(description: &str, guid: throughline_sample::Guid) -> String {
    if description.is_empty() { guid.to_string() } else { format!("{guid} {description}") }
}

/// Columns padded to their widest entry, two blanks apart. Widths are those of a terminal, where most Chinese, Japanese and
/// Korean characters take two cells.
#[must_use]
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            text.push_str(cell);
            if column + 1 < N {
                text.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_are_aligned() {
        let rows = [["計算ノード1", "1", "x"], ["node1", "22", "y"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "計算ノード1  1   x\nnode1        22  y\n");
    }
}
