//! `check`: what is wrong with the fabric, one finding a line; exit status 2 where there is something.

use super::FabricOptions;
use super::error_scan::scan;
use super::errors::ErrorCriteria;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use throughline_daemon::{ExitStatus, Failure};
use throughline_infiniband::check::{self, Finding, Kind, port_ranges};
use throughline_infiniband::reading::Sets;
use throughline_infiniband::topology::{Topology, aligned, label};
use throughline_sample::catalogue::TRANSMIT_WAIT;

/// Options of `check`.
#[derive(Args)]
pub struct Options {
    /// Judge what was counted within this time instead of since the counters were cleared
    #[arg(long, value_name = "SECONDS", value_parser = super::sweep::seconds, allow_negative_numbers = true)]
    interval: Option<Duration>,
    #[command(flatten)]
    judged: ErrorCriteria,
    /// Print one JSON object per line and finding
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// No device, no answer (69), no permission (77), wrong thresholds (64).
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let mut thresholds = options.judged.thresholds()?;
    if !options.judged.has_file() {
        // Waiting is congestion, not a fault; a site that wants it judged says from where on.
        thresholds.suppress(&TRANSMIT_WAIT);
    }
    let Some(look) = scan(fabric, options.interval, Sets::USUAL)? else {
        return Err(Failure::unavailable("stopped before the end: nothing is said about the fabric").into());
    };
    let nodes = options.judged.nodes(&look.topology)?;
    let mut findings = check::of_topology(&look.topology, &look.failures);
    findings.extend(look.manager.and_then(|answer| check::of_manager(&look.topology, answer)));
    // What is wrong with the manager is wrong with every node.
    let is_selected = |finding: &Finding| finding.node.is_none_or(|node| nodes.has(node));
    findings.retain(|finding| finding.kind == Kind::SubnetManagerAbsent || is_selected(finding));
    findings.extend(check::of_counters(&look.errors(&nodes, &thresholds), &look.unread(&nodes)));
    check::merge_unmanaged(&look.topology, &mut findings);
    findings.sort_by_key(|finding| (finding.kind.severity(), finding.kind, finding.node));
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.json {
        for finding in &findings {
            serde_json::to_writer(&mut out, &document(&look.topology, finding))
                .map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    } else {
        let (checked, cables) = (look.topology.nodes.len(), look.topology.cables().count());
        writeln!(
            out,
            "nodes: {checked}, links: {cables}, ports: {}, findings: {}{}",
            look.expected(&nodes),
            findings.len(),
            if findings.is_empty() { ": nothing is wrong" } else { "" }
        )?;
        write!(out, "{}", table(&look.topology, &findings))?;
    }
    out.flush()?;
    if findings.is_empty() { Ok(ExitCode::SUCCESS) } else { Ok(ExitCode::from(ExitStatus::Found as u8)) }
}

fn table(topology: &Topology, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut rows = vec![["FINDING", "WHERE", "WHAT"].map(str::to_owned)];
    rows.extend(
        findings
            .iter()
            .map(|finding| [finding.kind.name().to_owned(), place(topology, finding), finding.what.clone()]),
    );
    let mut text = aligned(&rows);
    let mut kinds: Vec<Kind> = findings.iter().map(|finding| finding.kind).collect();
    kinds.dedup();
    let remedies: Vec<[String; 2]> =
        kinds.into_iter().map(|kind| [kind.name().to_owned(), kind.remedy().to_owned()]).collect();
    text.push_str("\nWhat to do:\n");
    text.push_str(&aligned(&remedies));
    text
}

/// Node, ports and, of a single port, the other end of its cable.
fn place(topology: &Topology, finding: &Finding) -> String {
    let Some(index) = finding.node else { return "subnet".to_owned() };
    let node = &topology.nodes[index];
    let node_name = label(&node.description, node.guid);
    match finding.ports.as_slice() {
        [] => node_name,
        [port] => {
            let remote = node.port(*port).and_then(|port| port.remote).map(|end| {
                let far = &topology.nodes[end.node];
                let far_name =
                    if far.description.is_empty() { far.guid.to_string() } else { far.description.clone() };
                format!(" (to {far_name} port {})", end.port)
            });
            format!("{node_name} port {port}{}", remote.unwrap_or_default())
        }
        ports => format!("{node_name} ports {}", port_ranges(ports)),
    }
}

fn document(topology: &Topology, finding: &Finding) -> Value {
    let node = finding.node.map(|node| &topology.nodes[node]);
    json!({
        "kind": finding.kind.name(),
        "severity": finding.kind.severity().name(),
        "guid": node.map(|node| node.guid),
        "description": node.map(|node| &node.description),
        "ports": finding.ports,
        "what": finding.what,
        "remedy": finding.kind.remedy(),
    })
}
