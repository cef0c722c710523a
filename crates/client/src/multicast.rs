//! `throughline multicast`: multicast groups of all fabrics; members, tree and loss of one.

mod groups;
mod tree;

use crate::text::columns;
use crate::{Answer, Connection, Error, Server, answer};
use anyhow::Context;
use std::io::Write;
use std::process::ExitCode;
use throughline_api::multicast::{
    KnownGroup, MulticastGroups, MulticastLid, MulticastLoss, MulticastTree, SubnetNames,
};
use throughline_daemon::{ExitStatus, Failure};

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline multicast                         groups of all fabrics, with what is wrong first
  throughline multicast 0xc000                  one: members, tree, packets, loss
  throughline multicast 'IPoIB broadcast'       the same by its name, or by part of it or of its GID
  throughline multicast --fabric compute
  throughline multicast 0xc000 --json | jq '.members'

FOR is what the group's GID is known to be for. MEMBERS is by the subnet administrator's word, REACHED the ports that
the switches' tables lead to. PACKETS are those sent to the group: measured where a link carries no other group, else
a bound (≤). LOST are packets that a link's receiver counted less than its sender, or that a switch sent less than it
had to: at least so many. Ports count the packets of all groups together, and no bytes. More: docs/FABRIC.md.

Exit status: 0 done, 64 wrong usage, 69 no server or no database, 77 no permission, 1 no such group or any other
failure.";

/// Trees that a list reads for what is lost on them, those with the most packets first: each is a query over its ports.
const TREES_MAX: usize = 16;

/// Options of `multicast`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Which server.
    #[command(flatten)]
    pub connection: Connection,
    /// Choose the group: its LID (0xc000), or part of its name or GID [default: a list of all]
    #[arg(value_name = "GROUP")]
    pub group: Option<String>,
    /// Show this fabric only, by its name [default: all]
    #[arg(long, value_name = "PREFIX")]
    pub fabric: Option<String>,
    /// Print the answers of the API, one per line for each fabric
    #[arg(long)]
    pub json: bool,
}

/// Prints the list or the group.
///
/// # Errors
/// No such group (1); otherwise see [`Error`].
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let server = arguments.connection.server()?;
    let all = read(&server, arguments.fabric.as_deref()).map_err(Failure::from)?;
    let text = match &arguments.group {
        None if arguments.json => return printed(&all),
        None => {
            let all: Vec<MulticastGroups> = all.into_iter().map(|one| one.value).collect();
            groups::text(&all, &busiest(&server, &all).map_err(Failure::from)?, columns())
        }
        Some(name) => {
            let all: Vec<MulticastGroups> = all.into_iter().map(|one| one.value).collect();
            let found = matching(&all, name)?;
            let trees = found.iter().map(|(subnet, group)| tree_of(&server, subnet, group.mlid));
            let trees = trees.collect::<Result<Vec<_>, Error>>().map_err(Failure::from)?;
            if arguments.json {
                return printed(&trees);
            }
            let pages: Vec<String> = trees.iter().map(|one| tree::text(&one.value, columns())).collect();
            pages.join("\n")
        }
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush().context("writing the answer")?;
    Ok(ExitCode::SUCCESS)
}

fn printed<T>(answers: &[Answer<T>]) -> anyhow::Result<ExitCode> {
    answer::print(answers.iter().map(|one| one.body.as_str()))?;
    Ok(ExitCode::SUCCESS)
}

/// Groups of each subnet.
fn read(server: &Server, only: Option<&str>) -> Result<Vec<Answer<MulticastGroups>>, Error> {
    let subnets = match only {
        Some(only) => vec![only.to_owned()],
        None => {
            let known: SubnetNames = server.get(&["subnets"], &[])?;
            known.subnets.into_iter().map(|subnet| subnet.subnet).collect()
        }
    };
    subnets.iter().map(|subnet| server.answer(&["fabric", subnet, "groups"], &[])).collect()
}

fn tree_of(server: &Server, subnet: &str, mlid: u16) -> Result<Answer<MulticastTree>, Error> {
    server.answer(&["fabric", subnet, "groups", &format!("{mlid:#x}")], &[])
}

/// Trees of the groups with the most packets.
fn busiest(server: &Server, all: &[MulticastGroups]) -> Result<Vec<MulticastTree>, Error> {
    let of_subnet = |one: &'_ MulticastGroups| {
        let subnet = one.subnet.clone();
        one.groups
            .iter()
            .filter(|group| group.links > 0)
            .map(move |group| (group.packets_per_second.unwrap_or(0.0), subnet.clone(), group.mlid))
            .collect::<Vec<_>>()
    };
    let mut carried: Vec<(f64, String, u16)> = all.iter().flat_map(of_subnet).collect();
    carried.sort_by(|one, other| other.0.total_cmp(&one.0));
    let trees = carried.iter().take(TREES_MAX).map(|(_, subnet, mlid)| tree_of(server, subnet, *mlid));
    trees.map(|tree| tree.map(|tree| tree.value)).collect()
}

/// Groups with this LID, or this text in their names or GIDs.
fn matching<'a>(all: &'a [MulticastGroups], name: &str) -> Result<Vec<(&'a str, &'a MulticastLid)>, Failure> {
    let name = name.trim().to_lowercase();
    let mlid = name.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let has = |known: &KnownGroup| {
        known.mgid.contains(&name)
            || known.name.as_ref().is_some_and(|known| known.to_lowercase().contains(&name))
    };
    let fits = |group: &&MulticastLid| match mlid {
        Some(mlid) => group.mlid == mlid,
        None => group.known.iter().any(has),
    };
    let of_subnet = |one: &'a MulticastGroups| {
        one.groups.iter().filter(fits).map(|group| (one.subnet.as_str(), group)).collect::<Vec<_>>()
    };
    let found: Vec<_> = all.iter().flat_map(of_subnet).collect();
    // A name of several subnets, as that of the broadcast group, is one group of each.
    let of_one = |subnet: &str| found.iter().filter(|(known, _)| *known == subnet).count();
    if found.is_empty() {
        let message =
            format!("no multicast group {name}: `throughline multicast` lists those that there are");
        return Err(Failure::new(ExitStatus::Failed, message));
    }
    if let Some((subnet, _)) = found.iter().find(|(subnet, _)| of_one(subnet) > 1) {
        let listed: Vec<String> = found
            .iter()
            .filter(|(known, _)| known == subnet)
            .take(5)
            .map(|(_, group)| format!("{:#x} ({})", group.mlid, purpose(&group.known)))
            .collect();
        let message =
            format!("{} multicast LIDs fit {name}: {}; name one", of_one(subnet), listed.join(", "));
        return Err(Failure::new(ExitStatus::Failed, message));
    }
    Ok(found)
}

/// What the groups of a LID are for: the names of the first two.
fn purpose(known: &[KnownGroup]) -> String {
    let name = |group: &KnownGroup| group.name.clone().unwrap_or_else(|| group.mgid.clone());
    match known {
        [] => "not reported by the subnet administrator".to_owned(),
        [one] => name(one),
        [one, other] => format!("{}, {}", name(one), name(other)),
        [one, other, more @ ..] => format!("{}, {} and {} more", name(one), name(other), more.len()),
    }
}

/// What is lost on a tree: the links, with their direction, and switches at which packets are missing; the most first.
fn losses(tree: &MulticastTree) -> Vec<(String, MulticastLoss)> {
    let Some(traffic) = &tree.traffic else { return Vec::new() };
    let mut all = Vec::new();
    for (place, name) in tree.links.name.iter().enumerate() {
        let is_a_above = tree.links.is_a_above.get(place).copied().unwrap_or(true);
        let (down, up) = if is_a_above {
            (&traffic.loss.ab, &traffic.loss.ba)
        } else {
            (&traffic.loss.ba, &traffic.loss.ab)
        };
        let (above, below) = name.split_once(" → ").unwrap_or((name, ""));
        let of = |way: &[Option<MulticastLoss>]| way.get(place).copied().flatten();
        all.extend(of(down).map(|loss| (name.clone(), loss)));
        all.extend(of(up).map(|loss| (format!("{below} → {above}"), loss)));
    }
    all.extend(traffic.switches.iter().filter_map(|one| Some((format!("in {}", one.name), one.loss?))));
    all.retain(|(_, loss)| loss.lost_packets > 0);
    all.sort_by_key(|(_, loss)| std::cmp::Reverse(loss.lost_packets));
    all
}

/// Whether anything of a tree was read on both sides of a link or switch.
fn is_checked(tree: &MulticastTree) -> bool {
    let Some(traffic) = &tree.traffic else { return false };
    traffic.loss.ab.iter().chain(&traffic.loss.ba).any(Option::is_some)
        || traffic.switches.iter().any(|one| one.loss.is_some())
}

/// Members that should receive and that the tree does not reach.
fn unreached(tree: &MulticastTree) -> usize {
    tree.members.iter().filter(|member| member.is_reached == Some(false)).count()
}

/// Packets a second, few or many.
fn packets(rate: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rate of packets
    match rate {
        rate if rate >= 100.0 => format!("{}/s", crate::text::thousands(rate.round() as u64)),
        rate if rate >= 10.0 => format!("{rate:.0}/s"),
        rate if rate > 0.0 && rate < 0.05 => "< 0.1/s".to_owned(),
        rate => format!("{rate:.1}/s"),
    }
}

#[cfg(test)]
mod tests;
