//! `links`: every cable with both of its ends, its present state and what it could be, like `iblinkinfo`.

use super::FabricOptions;
use super::nodes::Pattern;
use super::source::DiscoveryNeeds;
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use throughline_infiniband::capability::{Capability, Link, link_name};
use throughline_infiniband::link::rate_bytes_per_second;
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::topology::{PortEnd, Topology, aligned, label};
use throughline_sample::Guid;

/// Options of `links`.
#[derive(Args)]
pub struct Options {
    /// Show links of these nodes only: a GUID, a LID, or part of a name; may be repeated
    #[arg(long = "switch", visible_alias = "node", value_name = "NODE")]
    nodes: Vec<Pattern>,
    /// Show ports of switches without a link instead
    #[arg(long, conflicts_with = "degraded")]
    down: bool,
    /// Show only links that came up narrower or slower than both ends are set to
    #[arg(long)]
    degraded: bool,
    /// Print one JSON object per line and cable
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, no answer, a node that is not there (64).
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let topology = super::source::open(fabric)?.discover(DiscoveryNeeds::default(), &stop)?.topology;
    let selection = super::nodes::select(&topology, &options.nodes)?;
    let links: Vec<Line> = lines(&topology)
        .filter(|line| selection.has(line.here.node) || line.there.is_some_and(|end| selection.has(end.node)))
        .filter(|line| line.is_down(&topology) == options.down)
        .filter(|line| !options.degraded || line.capability.is_degraded())
        .collect();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.json {
        for line in &links {
            serde_json::to_writer(&mut out, &line.document(&topology)).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    } else {
        write!(out, "{}", table(&topology, &links, options))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// One cable, or one port of a switch that has none.
struct Line {
    here: PortEnd,
    there: Option<PortEnd>,
    capability: Capability,
}

/// All cables and all ports of switches without one. A cable between a switch and something else begins at the
/// switch.
fn lines(topology: &Topology) -> impl Iterator<Item = Line> + '_ {
    topology.nodes.iter().enumerate().flat_map(move |(index, node)| {
        node.physical_ports().filter_map(move |port| {
            let here = PortEnd { node: index, port: port.number };
            let is_switch = |end: PortEnd| topology.nodes[end.node].kind == NodeKind::Switch;
            match port.remote {
                // Seen from both ends: reported once.
                Some(there) => {
                    topology.begins_at(here, there).then(|| Line::new(topology, here, Some(there)))
                }
                // A link whose other end did not answer has no neighbour; an adapter's port without a link is
                // not in this subnet.
                None => (is_switch(here) || port.info.is_some_and(|info| info.is_linked()))
                    .then(|| Line::new(topology, here, None)),
            }
        })
    })
}

impl Line {
    fn new(topology: &Topology, here: PortEnd, there: Option<PortEnd>) -> Line {
        Line { here, there, capability: Capability::of(topology, here, there) }
    }

    fn is_down(&self, topology: &Topology) -> bool {
        let info = topology.nodes[self.here.node].port(self.here.port).and_then(|port| port.info);
        self.there.is_none() && !info.is_some_and(|info| info.is_linked())
    }

    fn document(&self, topology: &Topology) -> Document {
        let [active, enabled, supported] =
            [self.capability.active, self.capability.enabled, self.capability.supported]
                .map(|link| link.map(LinkDocument::of));
        Document {
            a: EndDocument::of(topology, self.here),
            b: self.there.map(|end| EndDocument::of(topology, end)),
            active,
            enabled,
            supported,
            degraded: active.and(enabled).map(|_| self.capability.is_degraded()),
        }
    }
}

/// A cable as a JSON line.
#[derive(Serialize)]
struct Document {
    a: EndDocument,
    /// Null where there is no cable, or the other end did not answer.
    b: Option<EndDocument>,
    active: Option<LinkDocument>,
    enabled: Option<LinkDocument>,
    supported: Option<LinkDocument>,
    /// Null where it is not known.
    degraded: Option<bool>,
}

#[derive(Serialize)]
struct EndDocument {
    guid: Guid,
    r#type: &'static str,
    description: String,
    lid: u16,
    num: u8,
    state: Option<&'static str>,
    physical_state: Option<&'static str>,
}

impl EndDocument {
    fn of(topology: &Topology, end: PortEnd) -> EndDocument {
        let node = &topology.nodes[end.node];
        let port = node.port(end.port);
        let info = port.and_then(|port| port.info);
        EndDocument {
            guid: node.guid,
            r#type: node.kind.name(),
            description: node.description.clone(),
            lid: port.map_or(0, |port| node.lid_of(port)),
            num: end.port,
            state: info.and_then(|info| info.state).map(|state| state.name()),
            physical_state: info.map(|info| info.physical_state.name()),
        }
    }
}

#[derive(Clone, Copy, Serialize)]
struct LinkDocument {
    width: &'static str,
    speed: &'static str,
    rate_bytes_per_second: u64,
}

impl LinkDocument {
    fn of((width, speed): Link) -> LinkDocument {
        LinkDocument {
            width: width.name(),
            speed: speed.name(),
            rate_bytes_per_second: rate_bytes_per_second(width, speed),
        }
    }
}

fn table(topology: &Topology, links: &[Line], options: &Options) -> String {
    let heading = ["NODE", "LID", "PORT", "STATE", "LINK", "COULD BE", "REMOTE", "LID", "PORT"];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(links.iter().map(|line| row(topology, line)));
    let degraded = links.iter().filter(|line| line.capability.is_degraded()).count();
    let limited = links.iter().filter(|line| line.capability.is_limited()).count();
    let total = match (options.down, options.degraded) {
        (true, _) => format!("switch ports without a link: {}", links.len()),
        (_, true) => format!("degraded links: {degraded}"),
        _ => format!("links: {}, degraded: {degraded}, limited by a port's setting: {limited}", links.len()),
    };
    format!("{total}\n{}", aligned(&rows))
}

fn row(topology: &Topology, line: &Line) -> [String; 9] {
    let end = |end: PortEnd| {
        let node = &topology.nodes[end.node];
        let lid = node.port(end.port).map_or(0, |port| node.lid_of(port));
        [label(&node.description, node.guid), lid.to_string(), end.port.to_string()]
    };
    let [node, lid, port] = end(line.here);
    let [remote, remote_lid, remote_port] =
        line.there.map_or_else(|| ["-", "-", "-"].map(str::to_owned), end);
    let info = topology.nodes[line.here.node].port(line.here.port).and_then(|port| port.info);
    let state = info.map_or_else(
        || "not read".to_owned(),
        |info| {
            let logical = info.state.map_or("?", |state| state.name());
            format!("{logical}/{}", info.physical_state.name())
        },
    );
    let Capability { active, enabled, supported } = line.capability;
    let could_be = match (enabled, supported) {
        _ if line.capability.is_degraded() => format!("{} DEGRADED", name(enabled)),
        _ if active.is_none() => name(supported),
        _ if line.capability.is_limited() => format!("{} (set to {})", name(supported), name(enabled)),
        _ => "-".to_owned(),
    };
    [node, lid, port, state, name(active), could_be, remote, remote_lid, remote_port]
}

fn name(link: Option<Link>) -> String {
    link.map_or_else(|| "-".to_owned(), link_name)
}
