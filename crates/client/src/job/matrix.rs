//! `job matrix`: who sent how much to whom, drawn in the terminal.

mod draw;
mod empty;
mod grid;
mod headline;
mod unit;

use super::name::find;
use super::{as_of, live};
use crate::csv::text_field;
use crate::text::{bytes, columns, count, folded, thousands};
use crate::{Answer, Server, answer};
use grid::{Entry, Grid, UNKNOWN_NODE};
use jiff::Timestamp;
use std::io::Write;
use std::process::ExitCode;
use throughline_api::jobs::{JobDetail, JobPairs, JobRanks, NodePairs};
use throughline_daemon::Failure;

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job matrix last                       bytes from each rank to each other
  throughline job matrix last --messages            messages in place of bytes
  throughline job matrix 4711 --by node             summed over the ranks of each node
  throughline job matrix 4711 --kind wire           what the library really sent
  throughline job matrix 4711 --csv > pairs.csv     every pair: from,to,bytes,messages

The first lines say what crosses between nodes, and who sends or receives much more than the others.
A row is who sends, a column who receives. A world that is too large for numbers is drawn in shades;
one that is too large for a cell per rank in tiles of several ranks. --kind logical is what the
program meant for others by its calls: an allreduce of 8 KiB counts 8 KiB to each other rank, and what
a rank gets from another's window comes from that one. --kind wire is the messages that the library
sent, also inside collectives; ranks record it only with [mpi] wire = true in agent.toml, or
THROUGHLINE_WIRE=1 for a program. Open MPI does not report most one-sided operations there, nor 4.1
persistent sends.

Of a job that runs, of up to 64 ranks, it is of now, as `throughline job show --help` says.

Pairs of ranks are kept for as long as rows are ([retention] default_seconds of server.toml, a
week), pairs of nodes for as long as the job is known (jobs_seconds, a year).";

/// Options of `job matrix`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Choose the job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Show this view of the traffic
    #[arg(long, value_name = "KIND", default_value = "logical", value_parser = ["logical", "wire"])]
    kind: String,
    /// Draw bytes [default]
    #[arg(long, conflicts_with = "messages")]
    bytes: bool,
    /// Draw messages
    #[arg(long)]
    messages: bool,
    /// Make a row and a column of each rank or node
    #[arg(long, value_name = "WHAT", default_value = "rank", value_parser = ["rank", "node"])]
    by: String,
    /// Draw for this width [default: the terminal's, 100 where there is none]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    width: Option<u16>,
    /// Print each pair as a line of comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print the answers of the API with each pair of ranks, one per line
    #[arg(long, conflicts_with_all = ["by", "bytes", "messages"])]
    json: bool,
}

/// Prints the matrix.
///
/// # Errors
/// No such job, no matrix of this kind (69), or the database is gone.
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let key = find(server, &options.job)?;
    live::look(server, &key);
    let pages = pages(server, &key, &options.kind)?;
    let nodes = pages.iter().find_map(|page| page.value.nodes.as_ref());
    let entries = entries(&pages);
    if entries.is_empty() && nodes.is_none_or(|nodes| nodes.from.is_empty() && nodes.others_bytes == 0) {
        let detail: JobDetail = server.get(&["jobs", &key], &[])?;
        return Err(Failure::unavailable(empty::reason(&options.kind, &detail)).into());
    }
    if options.json {
        answer::print(pages.iter().map(|page| page.body.as_str()))?;
        return Ok(ExitCode::SUCCESS);
    }
    // By its own account.
    let world = pages.last().and_then(|page| page.value.world_size).map_or(0, rank);
    let is_by_node = options.by == "node" || nodes.is_some();
    let by_node = match nodes {
        Some(nodes) => Grid::of_nodes(nodes),
        None if is_by_node || !options.csv => Grid::by_node(&entries, &hosts(server, &key)?),
        None => Grid::default(),
    };
    let crossing = headline::InterNodeTraffic::of(&by_node);
    let grid = if is_by_node { by_node } else { Grid::by_rank(&entries, world) };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.csv {
        writeln!(out, "from,to,bytes,messages")?;
        for entry in &grid.entries {
            let (from, to) = (grid.name(entry.from), grid.name(entry.to));
            writeln!(out, "{},{},{},{}", text_field(from), text_field(to), entry.bytes, entry.messages)?;
        }
    } else {
        let width = options.width.map_or_else(columns, usize::from);
        let unit = if options.messages { unit::Unit::Messages } else { unit::Unit::Bytes };
        if let Some(nodes) = nodes {
            out.write_all(no_ranks(nodes, width).as_bytes())?;
        }
        out.write_all(draw::text(&key, &options.kind, &grid, &crossing, unit, width).as_bytes())?;
        if let Some(at) = pages.first().and_then(|page| page.value.as_of.as_ref()) {
            out.write_all(
                folded(&format!("The job runs: {}.", as_of::words(at)), width).join("\n").as_bytes(),
            )?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A rank as an index; the API has them signed, as MPI does.
fn rank(rank: i32) -> u32 {
    u32::try_from(rank).unwrap_or(0)
}

/// All pairs.
fn pages(server: &Server, key: &str, kind: &str) -> Result<Vec<Answer<JobPairs>>, Failure> {
    let mut pages: Vec<Answer<JobPairs>> = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let mut query = vec![("kind", kind)];
        query.extend(next.as_deref().map(|next| ("next", next)));
        let page: Answer<JobPairs> = server.answer(&["jobs", key, "pairs"], &query)?;
        next.clone_from(&page.value.next);
        pages.push(page);
        if next.is_none() {
            return Ok(pages);
        }
    }
}

fn entries(pages: &[Answer<JobPairs>]) -> Vec<Entry> {
    let of_page = |page: &Answer<JobPairs>| {
        let pairs = &page.value.pairs;
        let ends = pairs.from.iter().zip(&pairs.to);
        let all = ends.zip(pairs.bytes.iter().zip(&pairs.messages));
        let entry = |((from, to), (bytes, messages)): ((&i32, &i32), (&i64, &i64))| Entry {
            from: rank(*from),
            to: rank(*to),
            bytes: value(*bytes),
            messages: value(*messages),
        };
        all.map(entry).collect::<Vec<_>>()
    };
    pages.iter().flat_map(of_page).collect()
}

fn hosts(server: &Server, key: &str) -> Result<Vec<(u32, String)>, Failure> {
    let JobRanks { hosts, ranks, .. } = server.get(&["jobs", key, "ranks"], &[])?;
    let host = |place: usize| hosts.get(place).cloned().unwrap_or_default();
    let ranks = ranks.rank.into_iter().zip(ranks.host);
    Ok(ranks.map(|(number, place)| (rank(number), host(place))).collect())
}

/// Why there is no matrix of ranks.
fn no_ranks(nodes: &NodePairs, width: usize) -> String {
    let until = Timestamp::from_millisecond(nodes.ranks_until_ms)
        .map(|time| time.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let others = match nodes.others_rank_pairs {
        0 => String::new(),
        pairs => format!(
            " The {} pairs with the most bytes are by themselves; {} and {} of {} of ranks are at {UNKNOWN_NODE}.",
            thousands(nodes.from.len() as u64),
            bytes(value(nodes.others_bytes)),
            count(value(nodes.others_messages), "message"),
            count(value(pairs), "pair"),
        ),
    };
    let text = format!(
        "Pairs of ranks are no longer kept, they were until {}; this is what went between nodes.{others}",
        until.unwrap_or_default()
    );
    folded(&text, width).join("\n").trim_start().to_owned() + "\n"
}

/// A count of the API, which has them signed.
fn value(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
