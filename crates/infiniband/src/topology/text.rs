//! The topology as a table for people.

use super::Topology;
use std::fmt::Write;

impl Topology {
    /// One line per port with a link: both ends, LIDs, width and speed; and a line of totals.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut rows =
            vec![["NODE", "TYPE", "LID", "PORT", "STATE", "LINK", "REMOTE", "PORT"].map(str::to_owned)];
        for node in &self.nodes {
            for port in node.physical_ports().filter(|port| port.info.is_some_and(|info| info.is_linked())) {
                let link = node.link_of(port);
                let remote = port.remote.map(|remote| &self.nodes[remote.node]);
                rows.push([
                    label(&node.description, node.guid),
                    node.kind.name().to_owned(),
                    node.lid_of(port).to_string(),
                    port.number.to_string(),
                    port.info.and_then(|info| info.state).map_or("?", |state| state.name()).to_owned(),
                    link.map_or("?".to_owned(), |(width, speed)| format!("{}{}", width.name(), speed.name())),
                    remote.map_or("?".to_owned(), |node| label(&node.description, node.guid)),
                    port.remote.map_or("?".to_owned(), |remote| remote.port.to_string()),
                ]);
            }
        }
        let mut text = aligned(&rows);
        let switches = self.nodes.iter().filter(|node| node.kind == crate::mad::NodeKind::Switch).count();
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "{} nodes: {switches} switches, {} others; {} cables",
            self.nodes.len(),
            self.nodes.len() - switches,
            self.cables().count()
        );
        text
    }
}

/// GUID and description of a node, for people.
#[must_use]
pub fn label(description: &str, guid: throughline_sample::Guid) -> String {
    if description.is_empty() { guid.to_string() } else { format!("{guid} {description}") }
}

/// Columns padded to their widest entry, two blanks apart.
#[must_use]
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            text.push_str(cell);
            if column + 1 < N {
                text.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
            }
        }
        text.push('\n');
    }
    text
}
