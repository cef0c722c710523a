//! Reads net files in `ibnetdiscover`'s text format, as ibsim takes them. Text to fabric; no files here.

use crate::model::{AgentBehaviour, End, Fabric, Kind, Link, Node, Pma, Port};
use std::collections::HashMap;

/// A net file that can't be understood: where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct NetError {
    /// Line number from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Most ports of a switch: 254 (IBTA volume 1, 14.2.5.3); 255 is "no port".
const MAX_PORTS: usize = 254;
/// Vendor of nodes that do not say theirs: Mellanox's organisation number, as in ibsim's examples.
const DEFAULT_VENDOR: u32 = 0x2c9;

/// A cable as one end reports it.
struct NamedCable {
    line: usize,
    here: End,
    there: (String, u8),
    link: Link,
}

#[derive(Default)]
struct Reader {
    /// Number of the line in hand.
    line: usize,
    fabric: Fabric,
    ids: HashMap<String, usize>,
    cables: Vec<NamedCable>,
    /// `key=value` lines before a node's own.
    vendor: Option<u32>,
    device: Option<u16>,
    system_guid: Option<u64>,
    guid: Option<u64>,
    current: Option<usize>,
}

/// Reads a net.
pub(crate) fn read(text: &str) -> Result<Fabric, NetError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader.line = index + 1;
        reader.take(line.trim()).map_err(|reason| NetError { line: index + 1, reason })?;
    }
    reader.finish()
}

impl Reader {
    fn take(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') || line.starts_with('@') {
            return Ok(());
        }
        if line.starts_with('[') {
            return self.port_line(line);
        }
        if let Some((key, value)) = line.split_once('=').filter(|(key, _)| !key.contains('"')) {
            return self.key_line(key.trim(), value.trim());
        }
        self.node_line(line)
    }

    fn key_line(&mut self, key: &str, value: &str) -> Result<(), String> {
        let value = value.split('(').next().unwrap_or_default().trim();
        let number = || hex(value).ok_or_else(|| format!("`{value}` is no number"));
        match key {
            "vendid" => self.vendor = Some(number()? as u32),
            "devid" => self.device = Some(number()? as u16),
            "sysimgguid" => self.system_guid = Some(number()?),
            "switchguid" | "caguid" | "rtguid" | "nodeguid" => self.guid = Some(number()?),
            _ => {} // Tools and versions write further keys.
        }
        Ok(())
    }

    fn node_line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let kind = match words.next() {
            Some("Switch") => Kind::Switch,
            Some("Ca" | "Hca") => Kind::Ca,
            Some("Rt") => Kind::Router,
            _ => return Err("expected `Switch`, `Ca`, `Rt`, a port in brackets or `key=value`".to_owned()),
        };
        let ports = words.next().and_then(|word| word.parse::<usize>().ok());
        let ports = ports.filter(|ports| (1..=MAX_PORTS).contains(ports));
        let ports = ports.ok_or("expected the number of ports after the kind of node")?;
        let mut quoted = line.split('"').skip(1).step_by(2);
        let id = quoted.next().ok_or("expected the node's id in quotes")?.to_owned();
        let description = quoted.next().unwrap_or(&id).to_owned();
        let own = || id.split_once('-').and_then(|(_, digits)| hex(digits));
        let guid = self.guid.take().or_else(own).ok_or_else(|| format!("`{id}` has no GUID"))?;
        let first = if kind == Kind::Switch { guid } else { 0 };
        let port_guid = |number: usize| match (kind, number) {
            (_, 0) => first,
            (Kind::Switch, _) => guid,
            _ => guid + number as u64,
        };
        let index = self.fabric.nodes.len();
        if self.ids.insert(id.clone(), index).is_some() {
            return Err(format!("a second node `{id}`"));
        }
        self.fabric.nodes.push(Node {
            kind,
            guid,
            system_guid: self.system_guid.take().unwrap_or(guid),
            description,
            vendor: self.vendor.take().unwrap_or(DEFAULT_VENDOR),
            device: self.device.take().unwrap_or(0),
            ports: (0..=ports).map(|number| Port::new(port_guid(number))).collect(),
            manners: AgentBehaviour::default(),
            pma: Pma::default(),
            forwarding: Vec::new(),
            multicast: Vec::new(),
            is_changed: false,
            is_removed: false,
            busy_until: 0,
            id,
        });
        self.current = Some(index);
        Ok(())
    }

    /// `[3](guid) "S-…"[7](guid) # "name" lid 0 4xEDR`; the GUID stands at ports of adapters.
    fn port_line(&mut self, line: &str) -> Result<(), String> {
        let node = self.current.ok_or("a port before any node")?;
        let (own, rest) = line.split_once('"').ok_or("expected the neighbour's id in quotes")?;
        let (id, rest) = rest.split_once('"').ok_or("expected the neighbour's id in quotes")?;
        let number = bracket(own).ok_or("expected a port number in brackets")?;
        let there = bracket(rest).ok_or("expected the neighbour's port in brackets")?;
        let here = End { node, port: number };
        if number == 0 || self.fabric.port(here).is_none() {
            return Err(format!("the node has no port {number}"));
        }
        let guid = own.split_once('(').and_then(|(_, rest)| hex(rest.split(')').next()?));
        if let (Some(guid), Some(port)) = (guid, self.fabric.port_mut(here)) {
            port.guid = guid;
        }
        let link = line.split_whitespace().rev().find_map(Link::parse).unwrap_or(Link::DEFAULT);
        self.cables.push(NamedCable { line: self.line, here, there: (id.to_owned(), there), link });
        Ok(())
    }

    fn finish(mut self) -> Result<Fabric, NetError> {
        for reported in std::mem::take(&mut self.cables) {
            let fail = |reason: String| NetError { line: reported.line, reason };
            let (id, port) = &reported.there;
            let node = self.ids.get(id).copied().ok_or_else(|| fail(format!("there is no node `{id}`")))?;
            let there = End { node, port: *port };
            let known = self.fabric.port(there).is_some() && *port != 0;
            if !known {
                return Err(fail(format!("`{id}` has no port {port}")));
            }
            let peer = self.fabric.port(reported.here).and_then(|port| port.peer);
            if peer != Some(there) {
                self.fabric.connect(reported.here, there);
            }
            for end in [reported.here, there] {
                if let Some(port) = self.fabric.port_mut(end) {
                    port.link = reported.link;
                    port.supported = reported.link;
                }
            }
        }
        self.fabric.name_nodes();
        Ok(self.fabric)
    }
}

/// The number in the first brackets.
fn bracket(text: &str) -> Option<u8> {
    text.split_once('[')?.1.split_once(']')?.0.trim().parse().ok()
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_infiniband::topology::FatTree;

    #[test]
    fn generated_nets_are_read() {
        let tree = FatTree::HOSTS_146;
        let fabric = read(&tree.to_net().unwrap()).unwrap();
        assert_eq!(fabric.nodes.len(), tree.nodes());
        let host = fabric.find("node0001 mlx5_0").unwrap();
        assert_eq!(fabric.nodes[host].ports[1].guid, FatTree::host_port_guid(0).0);
        let leaf = fabric.find("leaf001").unwrap();
        assert_eq!(fabric.nodes[host].ports[1].peer, Some(End { node: leaf, port: 1 }));
        assert_eq!(fabric.find(&format!("{:#x}", FatTree::host_guid(0).0)), Some(host));
        let cables = fabric.nodes.iter().flat_map(|node| &node.ports).filter(|port| port.peer.is_some());
        assert_eq!(cables.count(), 2 * (tree.hosts + tree.leafs * tree.uplinks));
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, line, word) in [
            ("Switch x \"S-1\"", 1, "ports"),
            ("\nHub 3 \"S-1\"", 2, "Switch"),
            ("Ca 1 \"H-1\"\n[2] \"S-2\"[1]", 2, "no port 2"),
            ("[1] \"S-2\"[1]", 1, "before any node"),
            ("Ca 1 \"H-1\"\n\nCa 1 \"H-1\"", 3, "second"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(read("Ca 1 \"H-1\"\n[1] \"S-2\"[1]").unwrap_err().to_string().contains("no node `S-2`"));
    }
}
