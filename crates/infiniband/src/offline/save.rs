//! Writes a fabric in the formats of the standard tools: what `ibnetdiscover` and `dump_fts` (also with -M) would have
//! printed, so that a support case can be read again, by `--saved` or by any program that reads those (ibsim takes the first as
//! a net). Deterministic: nodes by GUID, no dates. Pure: text in memory.

use crate::mad::{LFT_NO_PORT, NodeKind};
use crate::multicast::MulticastTables;
use crate::topology::{Node, Port, PortEnd, Topology};
use std::fmt::Write;

/// Letter of an identifier, heading and key of a kind.
const fn words(kind: NodeKind) -> (char, &'static str, &'static str) {
    match kind {
        NodeKind::Switch => ('S', "Switch", "switchguid"),
        NodeKind::Ca => ('H', "Ca", "caguid"),
        NodeKind::Router => ('R', "Rt", "rtguid"),
    }
}

/// Nodes and cables as `ibnetdiscover` prints them. States of ports and ports without a cable have no place there.
#[must_use]
pub fn ibnetdiscover(topology: &Topology) -> String {
    // Writing to a String can't fail, here and below.
    let mut text = String::from("#\n# Topology file\n#\n");
    if let Some(end) = topology.local {
        let node = &topology.nodes[end.node];
        let port = node.port(end.port).and_then(|port| port.guid).unwrap_or(node.guid);
        let _ = writeln!(text, "# Initiated from node {:016x} port {:016x}", node.guid.0, port.0);
    }
    for node in &topology.nodes {
        let (letter, heading, key) = words(node.kind);
        let own = node.port(0).filter(|_| node.kind == NodeKind::Switch);
        let _ = writeln!(text, "\nvendid={:#x}\ndevid={:#x}", node.vendor_id, node.device_id);
        let _ = writeln!(text, "sysimgguid={:#x}", node.system_guid.0);
        let _ = write!(text, "{key}={:#x}", node.guid.0);
        if let Some(guid) = own.and_then(|port| port.guid) {
            let _ = write!(text, "({:x})", guid.0);
        }
        let id = format!("\"{letter}-{:016x}\"", node.guid.0);
        let _ = write!(text, "\n{heading}\t{} {id}\t\t# \"{}\"", node.port_count, node.description);
        if let Some(port) = own {
            let is_enhanced = node.switch.is_some_and(|switch| switch.enhanced_port_0);
            let (lid, lmc) = lid_of(node, port);
            let kind = if is_enhanced { "enhanced" } else { "base" };
            let _ = write!(text, " {kind} port 0 lid {lid} lmc {lmc}");
        }
        text.push('\n');
        for port in node.physical_ports() {
            if let Some(far) = port.remote {
                cable(&mut text, topology, node, port, far);
            }
        }
    }
    text
}

fn lid_of(node: &Node, port: &Port) -> (u16, u8) {
    (node.lid_of(port), port.info.map_or(0, |info| info.lmc))
}

fn cable(text: &mut String, topology: &Topology, node: &Node, port: &Port, far: PortEnd) {
    let other = &topology.nodes[far.node];
    let _ = write!(text, "[{}]", port.number);
    if let Some(guid) = port.guid.filter(|_| node.kind != NodeKind::Switch) {
        let _ = write!(text, "({:x}) ", guid.0);
    }
    let _ = write!(text, "\t\"{}-{:016x}\"[{}]", words(other.kind).0, other.guid.0, far.port);
    let far_port = other.port(far.port);
    if let Some(guid) = far_port.and_then(|port| port.guid).filter(|_| other.kind != NodeKind::Switch) {
        let _ = write!(text, "({:x}) ", guid.0);
    }
    text.push_str("\t\t# ");
    if node.kind != NodeKind::Switch {
        let (lid, lmc) = lid_of(node, port);
        let _ = write!(text, "lid {lid} lmc {lmc} ");
    }
    let far_lid = far_port.map_or(0, |port| other.lid_of(port));
    let link = node.link_of(port).map_or("??".to_owned(), |(w, s)| format!("{}{}", w.name(), s.name()));
    let _ = writeln!(text, "\"{}\" lid {far_lid} {link}", other.description);
}

/// Forwarding tables as `dump_fts --no_dests` prints them.
#[must_use]
pub fn tables(topology: &Topology) -> String {
    let mut text = String::new();
    for node in topology.nodes.iter().filter(|node| !node.forwarding.is_empty()) {
        // As far as there is an entry: a table that was read may have whole blocks.
        let top = node.forwarding.iter().rposition(|port| *port != LFT_NO_PORT).unwrap_or(0);
        let _ = writeln!(text, "Unicast lids [0x0-{top:#x}] of switch Lid {} {}", node.lid(), named(node));
        text.push_str("  Lid  Out   Destination\n       Port     Info \n");
        let entries = node.forwarding.iter().enumerate().filter(|(_, port)| **port != LFT_NO_PORT);
        let mut count = 0;
        for (lid, port) in entries {
            let _ = writeln!(text, "{lid:#06x} {port:03} ");
            count += 1;
        }
        let _ = writeln!(text, "{count} valid lids dumped ");
    }
    text
}

fn named(node: &Node) -> String {
    format!("guid {} ({}):", node.guid, node.description)
}

/// Multicast forwarding tables as `dump_fts -M` prints them.
#[must_use]
pub fn multicast(topology: &Topology, tables: &MulticastTables) -> String {
    let mut text = String::new();
    for (index, node) in topology.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Switch) {
        let Some(table) = tables.of(index) else { continue };
        let _ =
            writeln!(text, "Multicast mlids [0xc000-0xfffe] of switch Lid {} {}", node.lid(), named(node));
        let columns = 0..=u32::from(node.port_count);
        let tens =
            columns.clone().map(|port| if port % 10 == 0 { (port / 10).to_string() } else { " ".to_owned() });
        let tens: String = tens.map(|digit| format!("{digit:<2}")).collect();
        let ones: String = columns.clone().map(|port| format!("{} ", port % 10)).collect();
        let _ = writeln!(text, "            {tens}\n     Ports: {ones}\n MLid");
        for (mlid, ports) in table {
            let marks: String =
                columns.clone().map(|port| if ports.contains(port as u8) { "x " } else { "  " }).collect();
            let _ = writeln!(text, "{mlid:#06x}      {marks}");
        }
        let _ = writeln!(text, "{} valid mlids dumped ", table.len());
    }
    text
}
