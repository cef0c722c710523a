//! `multicast`: multicast groups, their members, and the tree that carries each.

use super::FabricOptions;
use super::source::DiscoveryNeeds;
use clap::Args;
use std::io::Write;
use std::net::Ipv6Addr;
use std::process::ExitCode;
use std::str::FromStr;
use throughline_daemon::Failure;
use throughline_infiniband::mad::{MAX_MULTICAST_LID, MIN_MULTICAST_LID};
use throughline_infiniband::multicast::{Group, group_document, group_text, groups_table};

/// Exit status of a check that found something.
const FOUND: u8 = 2;

/// Options of `multicast`.
#[derive(Args)]
pub struct Options {
    /// Show this group only: its MGID (an IPv6 address) or MLID (0xc000 to 0xfffe) [default: all, as a table]
    #[arg(value_name = "MGID|MLID")]
    group: Option<Name>,
    /// End with status 2 where a tree is torn, circles, or misses a member
    #[arg(long)]
    check: bool,
    /// Print one JSON document per line and group
    #[arg(long)]
    json: bool,
}

/// A group as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Mgid(u128),
    Mlid(u16),
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Name, String> {
        if text.contains(':') {
            let address: Ipv6Addr = text.parse().map_err(|_| format!("'{text}' is no IPv6 address"))?;
            return Ok(Name::Mgid(address.into()));
        }
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u16::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let range = MIN_MULTICAST_LID..=MAX_MULTICAST_LID;
        number.filter(|mlid| range.contains(mlid)).map(Name::Mlid).ok_or_else(|| {
            format!(
                "expected an MGID (ff12:…) or an MLID from {MIN_MULTICAST_LID:#x} to {MAX_MULTICAST_LID:#x}"
            )
        })
    }
}

/// Runs the command.
///
/// # Errors
/// No device, no permission, no answer, a group that is not there (64).
pub fn run(fabric: &FabricOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let topology = source.discover(DiscoveryNeeds::default(), &stop)?.topology;
    let tables = source.multicast(&topology, &stop)?;
    let reported = source.groups(&topology, &tables, &stop)?;
    let mut groups = Group::all(&topology, &tables, reported.as_ref());
    if let Some(name) = options.group {
        groups.retain(|group| match name {
            Name::Mgid(mgid) => group.record.is_some_and(|record| record.group == mgid),
            Name::Mlid(mlid) => group.mlid == mlid,
        });
        if groups.is_empty() {
            return Err(Failure::usage("no such group; `throughline-fabric multicast` lists them").into());
        }
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.json {
        for group in &groups {
            let document = group_document(&topology, group);
            serde_json::to_writer(&mut out, &document).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    } else if options.group.is_some() {
        for group in &groups {
            write!(out, "{}", group_text(&topology, group))?;
        }
    } else {
        write!(out, "{}", groups_table(&topology, &groups))?;
    }
    out.flush()?;
    let is_sound = groups.iter().all(Group::is_sound);
    Ok(if is_sound || !options.check { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}
