//! Traffic of a job between hosts, as `throughline job matrix --by node --csv` prints it.

use super::fabric::Fabric;
use anyhow::Context;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use throughline_daemon::Failure;
use throughline_infiniband::route::Target;
use throughline_shares::estimate::{Flow, Kind};
use throughline_shares::wire::counted_bytes;

/// MTU by which headers are counted: saved files do not have the ports' own.
const MTU_BYTES: u64 = 4096;

/// A pair of hosts.
#[derive(Deserialize)]
struct Pair {
    from: String,
    to: String,
    bytes: u64,
    #[serde(default)]
    messages: u64,
}

/// The flows of one file. Pairs within one host never reach the fabric and are none.
///
/// # Errors
/// 64: the file cannot be read, is no such table, or names a host that is not in the fabric.
pub fn read(path: &Path, fabric: &Fabric<'_>, contributor: u32, kind: Kind) -> anyhow::Result<Vec<Flow>> {
    let file = path.display();
    let usage = |text: String| Failure::usage(format!("{file}: {text}"));
    let mut reader = csv::Reader::from_path(path).map_err(|error| usage(error.to_string()))?;
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut flows = Vec::new();
    for pair in reader.deserialize() {
        let pair: Pair = pair.map_err(|error| {
            usage(format!("{error}; expected the columns from,to,bytes,messages of `throughline job matrix --by node --csv`"))
        })?;
        if pair.from == pair.to || pair.bytes == 0 && pair.messages == 0 {
            continue;
        }
        let mut port = |name: &str| -> anyhow::Result<usize> {
            if let Some(port) = known.get(name) {
                return Ok(*port);
            }
            let target: Target = name.parse().map_err(|error| usage(format!("'{name}': {error}")))?;
            let found = fabric.find(&target).map_err(|error| usage(error.to_string()))?;
            let port =
                found.with_context(|| usage(format!("'{name}' is no host with a cable")).to_string())?;
            known.insert(name.to_owned(), port);
            Ok(port)
        };
        let (from, to) = (port(&pair.from)?, port(&pair.to)?);
        let bytes = counted_bytes(pair.bytes, pair.messages, MTU_BYTES) as f64;
        flows.push(Flow { contributor, from, to, bytes, kind, error: kind.usual_error() });
    }
    Ok(flows)
}
