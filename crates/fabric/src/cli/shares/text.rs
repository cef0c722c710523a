//! Shares of links as a table and as JSON.

use super::fabric::Fabric;
use serde_json::{Value, json};
use std::fmt::Write;
use throughline_infiniband::topology::label;
use throughline_shares::estimate::{Contributor, Kind, LinkShares};

/// Shares below this part of a link are summed up in a table.
const SMALL: f64 = 0.01;

/// One direction of a link and who used it.
pub struct LinkText {
    from: String,
    from_port: u8,
    to: String,
    to_port: Option<u8>,
    counted: Option<f64>,
    bytes: f64,
    rest: f64,
    shares: Vec<ShareText>,
}

struct ShareText {
    name: String,
    kind: &'static str,
    bytes: f64,
    low: f64,
    high: f64,
}

/// Links that carried something, the fullest first; all of them where `top` is 0.
pub fn links(fabric: &Fabric<'_>, names: &[String], shares: &[LinkShares], top: usize) -> Vec<LinkText> {
    let nodes = &fabric.topology().nodes;
    let name = |node: usize| label(&nodes[node].description, nodes[node].guid);
    let mut links: Vec<LinkText> = shares
        .iter()
        .enumerate()
        .filter(|(_, link)| !link.shares.is_empty() || link.counted.is_some_and(|counted| counted > 0.0))
        .map(|(number, link)| {
            let (from, to) = fabric.ends(number);
            let shares = link.shares.iter().map(|share| ShareText {
                name: match share.contributor {
                    Contributor::Reported(job) => names.get(job as usize).cloned().unwrap_or_default(),
                    Contributor::Unreported { port } => {
                        format!("unreported, from {}", name(fabric.host(port).node))
                    }
                },
                kind: kind(share.kind),
                bytes: share.bytes,
                low: share.low,
                high: share.high,
            });
            LinkText {
                from: name(from.node),
                from_port: from.port,
                to: to.map(|end| name(end.node)).unwrap_or_default(),
                to_port: to.map(|end| end.port),
                counted: link.counted,
                bytes: link.counted.unwrap_or_else(|| link.shares.iter().map(|share| share.bytes).sum()),
                rest: link.rest,
                shares: shares.collect(),
            }
        })
        .collect();
    links.sort_by(|one, other| other.bytes.total_cmp(&one.bytes).then_with(|| one.from.cmp(&other.from)));
    links.truncate(if top == 0 { usize::MAX } else { top });
    links
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Measured => "measured",
        Kind::Modelled => "modelled",
        Kind::Logical => "logical",
        Kind::Unreported => "unreported",
    }
}

/// The table for people.
pub fn table(links: &[LinkText], is_fitted: bool) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    for link in links {
        let port = link.to_port.map(|port| format!("[{port}]")).unwrap_or_default();
        let what = if link.counted.is_some() { "counted" } else { "reported" };
        let _ = writeln!(
            text,
            "{}[{}] > {}{port}  {} {what}",
            link.from,
            link.from_port,
            link.to,
            size(link.bytes)
        );
        let (shown, small): (Vec<_>, Vec<_>) =
            link.shares.iter().partition(|share| share.bytes >= link.bytes * SMALL);
        for share in shown {
            let part = |bytes: f64| bytes / link.bytes * 100.0;
            let bounds = if is_fitted && link.counted.is_some() {
                format!(" ({:.0} to {:.0} %)", part(share.low), part(share.high))
            } else {
                String::new()
            };
            let kind = if share.kind == "unreported" { String::new() } else { format!(", {}", share.kind) };
            let bytes = size(share.bytes);
            let _ = writeln!(text, "    {:5.1} %{bounds}  {}{kind}: {bytes}", part(share.bytes), share.name);
        }
        let rest = link.rest + small.iter().map(|share| share.bytes).sum::<f64>();
        if rest > link.bytes * SMALL {
            let _ = writeln!(text, "    {:5.1} %  rest: {}", rest / link.bytes * 100.0, size(rest));
        }
    }
    if links.is_empty() {
        text.push_str("no link carried anything of these files\n");
    }
    if !is_fitted {
        text.push_str(
            "bytes as the files have them: the folder has no two readings of the counters to fit them to\n",
        );
    }
    text.push_str(
        "routes by the forwarding tables: where switches route adaptively, other links are used too\n",
    );
    text
}

/// The same as JSON, bytes as numbers.
pub fn document(links: &[LinkText], is_fitted: bool) -> Value {
    let whole = |bytes: f64| bytes.round();
    let links: Vec<Value> = links
        .iter()
        .map(|link| {
            let shares: Vec<Value> = link
                .shares
                .iter()
                .map(|share| {
                    json!({
                        "contributor": share.name, "kind": share.kind, "bytes": whole(share.bytes),
                        "low_bytes": whole(share.low), "high_bytes": whole(share.high),
                    })
                })
                .collect();
            json!({
                "from": link.from, "from_port": link.from_port, "to": link.to, "to_port": link.to_port,
                "counted_bytes": link.counted.map(whole), "rest_bytes": whole(link.rest), "shares": shares,
            })
        })
        .collect();
    json!({ "is_fitted": is_fitted, "links": links })
}

/// Bytes with three digits and a decimal prefix.
fn size(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}
