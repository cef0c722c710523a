//! All pairs for readers: links by use, and what is wrong with the tables, as text and as JSON.

use super::{AllPairs, Fault, Finding, LaneVerdict, LinkUse};
use crate::topology::{PortEnd, Topology, aligned, label};
use serde_json::{Value, json};
use std::fmt::Write;

/// Findings reported one by one in text; JSON has all that were kept.
const FINDINGS_SHOWN: usize = 20;

impl Topology {
    /// Totals of a pass: `pairs`, `reached`, `unreached`, `looping`, `links_passed` (sum of the lengths of all
    /// ways), `lengths` (`[{links, pairs}]`).
    fn totals_json(pairs: &AllPairs) -> Value {
        let lengths = pairs.lengths.iter().enumerate().filter(|(_, pairs)| **pairs > 0);
        let lengths: Vec<Value> =
            lengths.map(|(links, pairs)| json!({"links": links, "pairs": pairs})).collect();
        json!({
            "pairs": pairs.pairs, "reached": pairs.reached, "unreached": pairs.unreached,
            "looping": pairs.looping, "links_passed": pairs.links_passed, "lengths": lengths,
        })
    }

    /// The totals and `links`: `[{guid, port, remote_guid, remote_port, pairs}]`, one for each direction of a link
    /// given.
    #[must_use]
    pub fn usage_json(&self, pairs: &AllPairs, links: &[LinkUse]) -> Value {
        let links: Vec<Value> = links
            .iter()
            .map(|link| {
                json!({
                    "guid": self.nodes[link.from.node].guid, "port": link.from.port,
                    "remote_guid": self.nodes[link.to.node].guid, "remote_port": link.to.port,
                    "pairs": link.pairs,
                })
            })
            .collect();
        let mut document = Topology::totals_json(pairs);
        document["links"] = Value::Array(links);
        document
    }

    /// The links given as a table, and the totals.
    #[must_use]
    pub fn usage_text(&self, pairs: &AllPairs, links: &[LinkUse]) -> String {
        let mut rows = vec![["FROM", "PORT", "TO", "PORT", "PAIRS", "SHARE"].map(str::to_owned)];
        rows.extend(links.iter().map(|link| {
            [
                self.name_of(link.from),
                link.from.port.to_string(),
                self.name_of(link.to),
                link.to.port.to_string(),
                link.pairs.to_string(),
                share(link.pairs, pairs.reached),
            ]
        }));
        self.totals_text(pairs) + &aligned(&rows)
    }

    /// Totals of a pass, a few lines.
    #[must_use]
    pub fn totals_text(&self, pairs: &AllPairs) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = write!(text, "{} pairs, {} with a way", pairs.pairs, pairs.reached);
        if pairs.unreached + pairs.looping > 0 {
            let _ = write!(text, ", {} without, {} in loops", pairs.unreached, pairs.looping);
        }
        let _ = writeln!(text, "; {} links passed in all", pairs.links_passed);
        for (links, count) in pairs.lengths.iter().enumerate().filter(|(_, count)| **count > 0) {
            let _ = writeln!(text, "  {links} links: {count} pairs, {}", share(*count, pairs.reached));
        }
        text
    }

    /// The totals, `findings`, `findings_total`, `credit_loop` (`null`, or `[{guid, port}]`: links as if they had one virtual
    /// lane) and, where there is one, `credit_loop_lanes`: `{verdict}` with `broken`, `remains` or `unknown`; with `cycle`
    /// (`[{guid, port, lane}]`) of one that remains, with `reason` where lanes are not known.
    #[must_use]
    pub fn check_json(&self, pairs: &AllPairs, credit_loop: Option<(&[PortEnd], &LaneVerdict)>) -> Value {
        let ends = |ends: &[PortEnd]| -> Vec<Value> {
            ends.iter().map(|end| json!({"guid": self.nodes[end.node].guid, "port": end.port})).collect()
        };
        let finding = |finding: &Finding| {
            let (fault, port, cycle) = match &finding.fault {
                Fault::NoEntry => ("no_entry", None, None),
                Fault::NoNeighbour { port } => ("no_neighbour", Some(*port), None),
                Fault::WrongEnd { port } => ("wrong_end", Some(*port), None),
                Fault::Loop { cycle } => ("loop", cycle.first().map(|end| end.port), Some(ends(cycle))),
            };
            json!({
                "fault": fault, "guid": self.nodes[finding.node].guid, "lid": finding.lid, "port": port,
                "destination": self.nodes[finding.destination.node].guid, "pairs": finding.pairs,
                "cycle": cycle,
            })
        };
        let mut document = Topology::totals_json(pairs);
        document["findings"] = pairs.findings.iter().map(finding).collect();
        document["findings_total"] = json!(pairs.findings_total);
        document["credit_loop"] = credit_loop.map_or(Value::Null, |(cycle, _)| Value::Array(ends(cycle)));
        if let Some((_, verdict)) = credit_loop {
            document["credit_loop_lanes"] = match verdict {
                LaneVerdict::Broken => json!({"verdict": "broken"}),
                LaneVerdict::Unknown(reason) => json!({"verdict": "unknown", "reason": reason}),
                LaneVerdict::Remains { cycle } => {
                    let link = |(end, lane): &(PortEnd, u8)| json!({"guid": self.nodes[end.node].guid, "port": end.port, "lane": lane});
                    json!({"verdict": "remains", "cycle": cycle.iter().map(link).collect::<Vec<_>>()})
                }
            };
        }
        document
    }

    /// What is wrong, one a line, and the totals.
    #[must_use]
    pub fn check_text(&self, pairs: &AllPairs, credit_loop: Option<(&[PortEnd], &LaneVerdict)>) -> String {
        let mut text = String::new();
        for finding in pairs.findings.iter().take(FINDINGS_SHOWN) {
            let _ = writeln!(text, "{}", self.finding_text(finding));
        }
        let reported = pairs.findings.len().min(FINDINGS_SHOWN) as u64;
        if pairs.findings_total > reported {
            let _ = writeln!(text, "and {} more entries like these", pairs.findings_total - reported);
        }
        if let Some((cycle, verdict)) = credit_loop {
            let _ = match verdict {
                LaneVerdict::Broken => writeln!(
                    text,
                    "virtual lanes break a circle of links that would wait for each other's buffers: {}",
                    self.cycle_text(cycle)
                ),
                LaneVerdict::Unknown(reason) => writeln!(
                    text,
                    "these links can wait for each other's buffers in a circle (credit loop), unless virtual lanes \
                     separate their traffic, which is not known ({reason}): {}",
                    self.cycle_text(cycle)
                ),
                LaneVerdict::Remains { cycle } => {
                    let ends: Vec<PortEnd> = cycle.iter().map(|(end, _)| *end).collect();
                    let lane = cycle.first().map_or(0, |(_, lane)| *lane);
                    writeln!(
                        text,
                        "these links can wait for each other's buffers in a circle (credit loop), from virtual lane \
                         {lane} on: {}",
                        self.cycle_text(&ends)
                    )
                }
            };
        }
        text + &self.totals_text(pairs)
    }

    fn finding_text(&self, finding: &Finding) -> String {
        let node = self.name_of(PortEnd { node: finding.node, port: 0 });
        let (lid, to) = (finding.lid, self.name_of(finding.destination));
        let what = match &finding.fault {
            Fault::NoEntry => format!("{node} has no entry for LID {lid}, {to}"),
            Fault::NoNeighbour { port } => {
                format!("{node} sends LID {lid}, {to}, to port {port}, behind which no neighbour is known")
            }
            Fault::WrongEnd { port: 0 } => format!("{node} keeps LID {lid} for itself, which is {to}'s"),
            Fault::WrongEnd { port } => {
                format!("{node} sends LID {lid}, {to}, to port {port}, behind which somebody else is")
            }
            Fault::Loop { cycle } => format!("LID {lid}, {to}, circles: {}", self.cycle_text(cycle)),
        };
        format!("{what} ({} pairs without a way)", finding.pairs)
    }

    fn cycle_text(&self, cycle: &[PortEnd]) -> String {
        let hops: Vec<String> =
            cycle.iter().map(|end| format!("{} port {}", self.name_of(*end), end.port)).collect();
        hops.join(" -> ")
    }

    fn name_of(&self, end: PortEnd) -> String {
        let node = &self.nodes[end.node];
        label(&node.description, node.guid)
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2} %", part as f64 * 100.0 / whole as f64) }
}
