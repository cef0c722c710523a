//! `usage`: how many pairs of hosts pass each link.

use super::FabricOptions;
use super::nodes::Pattern;
use super::source::DiscoveryNeeds;
use clap::Args;
use std::cmp::Reverse;
use std::io::Write;
use std::process::ExitCode;
use throughline_infiniband::route::{LinkUse, Scope};

/// Links shown where nothing else is requested: a screen.
const TOP: usize = 20;

/// Options of `usage`.
#[derive(Args)]
pub struct Options {
    /// Show only the most used links; 0 for all of them
    #[arg(long, value_name = "NUMBER", default_value_t = TOP)]
    top: usize,
    /// Count only pairs between two groups of nodes, in both directions: each a GUID, a LID, or part of a name
    #[arg(long, num_args = 2, value_names = ["NODES", "NODES"])]
    between: Vec<Pattern>,
    /// Count each LID of a destination (2^LMC of them), not only its first
    #[arg(long)]
    all_lids: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, no answer, nodes that are not there (64).
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let topology = super::source::open(fabric)?.discover(DiscoveryNeeds { tables: true }, &stop)?.topology;
    super::route::configured(&topology)?;
    let set = |pattern: &Pattern| -> anyhow::Result<Vec<bool>> {
        let selected = super::nodes::select(&topology, std::slice::from_ref(pattern))?;
        Ok((0..topology.nodes.len()).map(|node| selected.has(node)).collect())
    };
    let between = match options.between.as_slice() {
        [first, second] => Some((set(first)?, set(second)?)),
        _ => None,
    };
    let pairs = topology.all_pairs(&Scope { between, all_lids: options.all_lids, ..Scope::default() });
    let mut links: Vec<LinkUse> = pairs.usage().to_vec();
    // By GUID and port where equally many pass.
    links.sort_by_key(|link| Reverse(link.pairs));
    links.truncate(if options.top == 0 { usize::MAX } else { options.top });
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.json {
        serde_json::to_writer(&mut out, &topology.usage_json(&pairs, &links))
            .map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", topology.usage_text(&pairs, &links))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
