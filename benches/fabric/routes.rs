//! Routes from forwarding tables against `ibtracert`, pair by pair.

use crate::client::Client;
use anyhow::Context;
use std::process::Stdio;
use throughline_simfabric::ibsim::SimFabric;

/// Compares so many pairs; whether all agree.
pub fn compare(fabric: &SimFabric, host: &str, pairs: usize) -> anyhow::Result<bool> {
    let mut client = Client::start(crate::own(fabric, host)?, &[])?;
    let (mut agreed, mut compared, mut state) = (0, 0, 1u64);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    while compared < pairs {
        let answer = client.ask(&format!("route {} {}", next(), next()))?;
        let (from, rest) = answer.text.split_once(' ').context("route")?;
        let (to, ours) = rest.split_once(' ').context("route")?;
        if from == to {
            continue;
        }
        let mut command = fabric.tool("ibtracert", Some(host))?;
        let output = command.args([from, to]).stderr(Stdio::null()).output()?;
        let theirs = read(&String::from_utf8_lossy(&output.stdout));
        compared += 1;
        if same(ours, &theirs) {
            agreed += 1;
        } else {
            println!("  LID {from} to {to}: ours {ours}, ibtracert {theirs:?}");
        }
    }
    println!("routes: {agreed} of {compared} random pairs agree with ibtracert");
    Ok(agreed == compared)
}

/// `(GUID, in, out)` of each node on the way; GUIDs of end ports.
fn read(text: &str) -> Vec<(u64, u64, u64)> {
    let mut way: Vec<(u64, u64, u64)> = Vec::new();
    for line in text.lines() {
        let guid = line
            .split(['{', '}'])
            .nth(1)
            .and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        let bracket =
            |index: usize| line.split(['[', ']']).nth(index).and_then(|text| text.parse().ok()).unwrap_or(0);
        match guid {
            Some(guid) if line.starts_with("From ") => way.push((guid, 0, 0)),
            Some(guid) if line.starts_with('[') => {
                if let Some(last) = way.last_mut() {
                    last.2 = bracket(1);
                }
                way.push((guid, bracket(3), 0));
            }
            _ => {}
        }
    }
    way
}

/// Ours name nodes; ibtracert names an end by its port's GUID, which in these nets is the node's plus one.
fn same(ours: &str, theirs: &[(u64, u64, u64)]) -> bool {
    let ours: Vec<(u64, u64, u64)> = ours
        .split(';')
        .filter_map(|hop| {
            let mut parts = hop.split(',');
            let guid = u64::from_str_radix(parts.next()?.trim_start_matches("0x"), 16).ok()?;
            Some((guid, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        })
        .collect();
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(a, b)| (b.0 == a.0 || b.0 == a.0 + 1) && (a.1, a.2) == (b.1, b.2))
}
