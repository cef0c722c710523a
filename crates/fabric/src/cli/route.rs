//! `route`: the way from one node to another, all ways, or what is wrong with them.

use super::FabricOptions;
use super::source::{DiscoveryNeeds, Source};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use throughline_crawler::stop::Stop;
use throughline_daemon::Failure;
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::route::{
    LaneVerdict, Route, RouteDocument, RouteError, Scope, Target, TargetError, is_aggregation_node,
};
use throughline_infiniband::topology::{PortEnd, SwitchRouting, Topology};
use throughline_sample::Guid;

/// Exit status of a check that found something.
const FOUND: u8 = 2;

/// Options of `route`.
#[derive(Args)]
pub struct Options {
    /// Begin at this node: a GUID (0x…), a LID, or a node's name
    #[arg(value_name = "SOURCE", required_unless_present_any = ["all", "check"])]
    source: Option<Target>,
    /// End at this node: a GUID (0x…), a LID, or a node's name
    #[arg(value_name = "DESTINATION", required_unless_present_any = ["all", "check"])]
    destination: Option<Target>,
    /// Show the way to this one of the destination's LIDs [default: its first]
    #[arg(long, value_name = "LID", conflicts_with_all = ["all", "check"])]
    lid: Option<u16>,
    /// Show the ways to each of a destination's LIDs (2^LMC of them)
    #[arg(long, conflicts_with = "lid")]
    all_lids: bool,
    /// Take all pairs of hosts: how many there are and how long their ways; with --json each way on a line
    #[arg(long, conflicts_with_all = ["source", "destination", "check"])]
    all: bool,
    /// Look for pairs without a way and for table entries that let packets circle; status 2 if there are any
    #[arg(long, conflicts_with_all = ["source", "destination"])]
    check: bool,
    /// Print one JSON document; with --all one for each pair, with --all-lids one for each LID
    #[arg(long)]
    json: bool,
}

/// What is known of a subnet's routes.
struct SubnetRouting {
    topology: Topology,
    switches: BTreeMap<Guid, SwitchRouting>,
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, an unknown or ambiguous node (64), no route.
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let topology = source.discover(DiscoveryNeeds { tables: true }, &stop)?.topology;
    configured(&topology)?;
    let switches = if options.check { BTreeMap::new() } else { source.routing(&topology, &stop)? };
    let known = SubnetRouting { topology, switches };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let status = match (&options.source, &options.destination) {
        (Some(source), Some(destination)) => one(&known, options, source, destination, &mut out)?,
        _ if options.check => check(&known, options, (&source, &stop), &mut out)?,
        _ => all(&known, options, &mut out)?,
    };
    out.flush()?;
    Ok(status)
}

/// Routes are between LIDs, which a subnet manager gives.
///
/// # Errors
/// No host has one (69).
pub fn configured(topology: &Topology) -> Result<(), Failure> {
    if topology.nodes.iter().any(|node| node.kind != NodeKind::Switch && node.lid() != 0) {
        return Ok(());
    }
    let message = "no host of this subnet has a LID, so there are no routes; is a subnet manager running?";
    Err(Failure::unavailable(message))
}

/// Where the user's words do not fit the subnet: wrong usage.
fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    Failure::usage(error.to_string()).into()
}

/// The way from one node to another, or the ways to each LID.
fn one(
    known: &SubnetRouting,
    options: &Options,
    source: &Target,
    destination: &Target,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let topology = &known.topology;
    let find = |target: &Target| {
        topology.find(target).map_err(|error| match error {
            TargetError::Route(RouteError::NoLid(_)) => Failure::unavailable(error.to_string()).into(),
            other => usage(other),
        })
    };
    let (from, to) = (find(source)?, find(destination)?);
    // A LID that was named is the one that is meant, also where a port has several.
    let named = options.lid.or(match destination {
        Target::Lid(lid) => Some(*lid),
        _ => None,
    });
    let lids: Vec<Option<u16>> = match topology.lids_of(to) {
        Some(lids) if options.all_lids => lids.map(Some).collect(),
        _ => vec![named],
    };
    for lid in lids {
        let route = topology.route_between(from, to, lid).map_err(|error| match error {
            RouteError::NotItsLid { .. } => usage(error),
            other => other.into(),
        })?;
        let kind = topology.route_kind(&route, &known.switches);
        if options.json {
            line(out, &topology.route_document(&route, kind))?;
        } else {
            write!(out, "{}", topology.route_text(&route, kind))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(
    known: &SubnetRouting,
    options: &Options,
    (source, stop): (&Source, &Stop),
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let topology = &known.topology;
    let pairs = topology.all_pairs(&Scope { all_ends: true, all_lids: true, ..Scope::default() });
    // Only what hosts send can fill buffers for long.
    let scope = Scope { all_lids: true, credit_loops: true, ..Scope::default() };
    let credit_loop = topology.all_pairs(&scope).credit_loop;
    let verdict = credit_loop.as_ref().map(|_| source.lanes(topology, stop)).transpose()?;
    let credit_loop = credit_loop.as_deref().zip(verdict.as_ref());
    if options.json {
        line(out, &topology.check_json(&pairs, credit_loop))?;
    } else {
        write!(out, "{}", topology.check_text(&pairs, credit_loop))?;
    }
    // What is not known is said and is no finding.
    let is_sound = pairs.findings_total == 0 && !matches!(verdict, Some(LaneVerdict::Remains { .. }));
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

/// A pair in the stream of `--all --json`.
#[derive(Serialize)]
struct Pair<'a> {
    source: Guid,
    destination: Guid,
    #[serde(flatten)]
    route: Option<RouteDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lid: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

fn all(known: &SubnetRouting, options: &Options, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let topology = &known.topology;
    if !options.json {
        let pairs = topology.all_pairs(&Scope { all_lids: options.all_lids, ..Scope::default() });
        write!(out, "{}", topology.totals_text(&pairs))?;
        return Ok(ExitCode::SUCCESS);
    }
    let hosts = || {
        let nodes = topology.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.kind == NodeKind::Ca && !is_aggregation_node(node)).flat_map(
            |(index, node)| node.ports.iter().map(move |port| PortEnd { node: index, port: port.number }),
        )
    };
    for to in hosts() {
        let Some(lids) = topology.lids_of(to) else { continue };
        let last = if options.all_lids { *lids.end() } else { *lids.start() };
        for lid in *lids.start()..=last {
            for from in hosts().filter(|from| *from != to && topology.lids_of(*from).is_some()) {
                let found: Result<Route, RouteError> = topology.route_between(from, to, Some(lid));
                let said = found.as_ref().err().map(ToString::to_string);
                let route = found.ok().map(|route| {
                    let kind = topology.route_kind(&route, &known.switches);
                    topology.route_document(&route, kind)
                });
                let (source, destination) = (topology.nodes[from.node].guid, topology.nodes[to.node].guid);
                let lid = said.is_some().then_some(lid);
                line(out, &Pair { source, destination, route, lid, error: said.as_deref() })?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(out: &mut impl Write, document: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, document).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
