//! `throughline link`: whose bytes are on a link, in both directions.

pub mod contributors;

use crate::detail::{self, Subject};
use crate::text::{ABSENT, bytes, clean, columns, folded, percent, used};
use crate::{Answer, Connection, Error, Server, answer, text};
use anyhow::Context;
use std::io::Write;
use std::process::ExitCode;
use throughline_api::link_shares::{DirectionShares, LinkEnd, LinkName, LinkShares};
use throughline_daemon::arguments::{duration, time};
use throughline_daemon::{ExitStatus, Failure};

/// Codes of answers that are no fault of the server: no such link, or several.
const NO_LINK: [&str; 2] = ["not_found", "ambiguous"];

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline link leaf1[5]                     the last 10 minutes of the cable at port 5 of leaf1
  throughline link leaf1 5                      the same
  throughline link leaf1 spine1                 the cable between two nodes, if there is one
  throughline link n07                          of a host with one cable
  throughline link 0x0002c90300000001/7         by GUID and port
  throughline link leaf1[5] --last 1h
  throughline link leaf1[5] --fabric storage   where several fabrics have such a name
  throughline link leaf1[5] --to 2026-11-20T08:00:00Z --last 1m
  throughline link leaf1[5] --json | jq '.ab.contributors[0]'
  throughline link leaf1[5] --fetch --last 2m --wait     fetch each reading of both its ports
  throughline link leaf1[5] --fetch --list               what was fetched of it, and what came

The first line says whether the link is a bottleneck: full is more than 90 % used, busy more than 80 %.
SHARE is the part of what the sending port counted, and all shares of a direction add up to 100 %.
It is fitted to the counters; AT LEAST and AT MOST are what is certain. KIND is how the bytes are known,
by the least certain part:
  measured      messages that the MPI library reported
  modelled      operations, laid out by the algorithm that carries them out
  logical       send buffers, to the members that they are meant for
  unreported    found in the counters alone: nobody reported it
  ..., bound    some of it may have taken other links (adaptive routing, several LIDs or ports of a
                host): believe AT LEAST and AT MOST, the share is one possibility
`routing` is how the fabric's switches choose links, by their own word: static (by their tables alone),
adaptive (any of them by load), or not reported (shares then follow the tables).
A contributor below 1 % is in `others`. `rest` is what was counted and belongs to nobody known.

Shares are made of windows of 10 s, some 15 s after the end of each. A direction that carries less than
64 KiB/s has none. More: docs/LINKS.md.

--fetch fetches from the crawler each reading of both ports, also those that left out or thinned rows lack, into
the table detail_ib_ports for a day. Crawlers keep an hour or 512 MB (docs/RECORDER.md); requests are within
quotas ([detail] of server.toml).

Exit status: 0 done, 64 wrong usage, 69 no server or no database, 77 no permission, 1 no such link or
any other failure.";

/// Options of `link`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Which server.
    #[command(flatten)]
    pub connection: Connection,
    /// Choose the link: an end with its port, two nodes, a host with one cable, the GUID of
    /// an adapter's port, or a node's GUID and a port
    #[arg(value_name = "NAME", required = true)]
    pub name: Vec<String>,
    /// Show the time up to this one: 2026-11-20T08:00:00Z, a day, or an age as 2h [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub to: Option<jiff::Timestamp>,
    /// Show the last so much before it: 30s, 10m, 2h, 1d
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub last: jiff::SignedDuration,
    /// Show links of this fabric only, by its name [default: all]
    #[arg(long, value_name = "PREFIX")]
    pub fabric: Option<String>,
    /// Fetch the full resolution of its ports from the crawler into the database, in place of showing it
    #[arg(long)]
    pub fetch: bool,
    /// Wait at most SECONDS until all is there, with --fetch
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", requires = "fetch")]
    pub wait: Option<u64>,
    /// List earlier requests and request nothing, with --fetch
    #[arg(long, requires = "fetch", conflicts_with_all = ["wait", "last", "to"])]
    pub list: bool,
    /// Print the answer of the API
    #[arg(long)]
    pub json: bool,
}

/// Prints contributors of both directions.
///
/// # Errors
/// No such link or several (1), with those that fit or are similar; otherwise see [`Error`].
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let server = arguments.connection.server()?;
    let link = find(&server, arguments)?;
    if arguments.fetch {
        return fetch(&server, arguments, &link);
    }
    let Answer { value: mut shares, body } = read(&server, arguments, &link)?;
    if arguments.json {
        answer::print([body.as_str()])?;
        return Ok(ExitCode::SUCCESS);
    }
    // The end that was named sends first.
    if format!("{}.{}", shares.ab.from.guid, shares.ab.from.port) != link.link {
        std::mem::swap(&mut shares.ab, &mut shares.ba);
        (shares.link, shares.name) = (link.link, link.name);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text(&shares, columns()).as_bytes())?;
    out.flush().context("writing the answer")?;
    Ok(ExitCode::SUCCESS)
}

/// Requests each reading of its ports.
fn fetch(server: &Server, arguments: &Arguments, link: &LinkName) -> anyhow::Result<ExitCode> {
    let list = format!("throughline link {} --fetch --list", arguments.name.join(" "));
    let path = ["fabric", &link.subnet, "links", &link.link];
    let subject = Subject { path: &path, name: &link.name, list: &list };
    if arguments.list {
        return detail::list_earlier(server, subject, arguments.json);
    }
    let last = arguments.last.as_secs().max(1).to_string();
    let to = arguments.to.map(|at| at.as_millisecond().to_string());
    let mut query = vec![("last_seconds", last.as_str())];
    query.extend(to.as_deref().map(|to| ("to", to)));
    detail::request(server, subject, &query, arguments.wait, arguments.json)
}

fn find(server: &Server, arguments: &Arguments) -> Result<LinkName, Failure> {
    let name = arguments.name.join(" ");
    let at = arguments.to.map(|at| at.as_millisecond().to_string());
    let at = at.iter().map(|at| ("at", at.as_str()));
    let query: Vec<(&str, &str)> =
        at.chain(arguments.fabric.iter().map(|fabric| ("subnet", fabric.as_str()))).collect();
    server.get(&["link-names", &name], &query).map_err(|error| match error {
        Error::Api { error, .. } if NO_LINK.contains(&error.code.as_str()) => {
            Failure::new(ExitStatus::Failed, error.text())
        }
        error => error.into(),
    })
}

fn read(server: &Server, arguments: &Arguments, link: &LinkName) -> Result<Answer<LinkShares>, Failure> {
    let to = arguments.to.unwrap_or_else(jiff::Timestamp::now).as_millisecond();
    let last = i64::try_from(arguments.last.as_millis()).unwrap_or(i64::MAX);
    let (from, to) = (to.saturating_sub(last).max(0).to_string(), to.to_string());
    let query = [("from", from.as_str()), ("to", to.as_str()), ("points", "60")];
    Ok(server.answer(&["fabric", &link.subnet, "links", &link.link, "shares"], &query)?)
}

/// The page for people.
fn text(shares: &LinkShares, width: usize) -> String {
    let time = |ms: i64| text::time(ms).replace(".000000Z", "Z");
    let mut text = folded(&verdict(shares), width).join("\n").trim_start().to_owned() + "\n";
    text.push_str(&(clean(&shares.name, width) + "\n"));
    let routing = shares.routing.as_deref().unwrap_or(NOT_REPORTED);
    for line in [
        format!("fabric {}, routing {routing}", shares.subnet),
        format!("{} to {}, windows of 10 s", time(shares.from_ms), time(shares.to_ms)),
    ] {
        text.push_str(&(clean(&line, width) + "\n"));
    }
    match shares.computed_until_ms {
        None => {
            let why = "No window has been made yet: `throughline serve` makes them with its role upkeep once a crawler \
                       reports a fabric.";
            text.push_str(&(folded(why, width).join("\n") + "\n"));
        }
        Some(until) if until < shares.to_ms - LAGGING_MS => {
            text.push_str(&(clean(&format!("windows are made until {}", time(until)), width) + "\n"));
        }
        Some(_) => {}
    }
    for direction in [&shares.ab, &shares.ba] {
        text.push('\n');
        text.push_str(&direction_text(direction, width));
    }
    text
}

/// A direction is full above this share of its speed, as InfinibandLinkSaturated fires and verdicts of jobs have it.
const FULL_ABOVE: f64 = 0.9;
/// Busy above this share, as that alert is held.
const BUSY_ABOVE: f64 = 0.8;

/// Whether the link is a bottleneck in the time that is shown, and by whom.
fn verdict(shares: &LinkShares) -> String {
    let used = |direction: &&DirectionShares| direction.utilisation.unwrap_or(-1.0);
    let both = [&shares.ab, &shares.ba];
    let Some(most) = both.into_iter().max_by(|one, other| used(one).total_cmp(&used(other))) else {
        return String::new();
    };
    let name = format!("{} → {}", end(&most.from), end(&most.to));
    let by = most.contributors.first().map_or(String::new(), |first| {
        format!(", mostly by {} ({})", first.label, percent(first.figures.share))
    });
    let peak = most.peak_utilisation.unwrap_or(0.0);
    match most.utilisation {
        None if both.iter().all(|direction| direction.windows == 0) => {
            "Not a bottleneck: it carried less than 64 KiB/s in each window that is made.".to_owned()
        }
        None => {
            "How full it is is not known: its ports were not read, or their speed is not known.".to_owned()
        }
        Some(share) if share > FULL_ABOVE => format!("FULL: {name} is {} used{by}.", self::used(Some(share))),
        Some(share) if peak > FULL_ABOVE => format!(
            "FULL AT TIMES: {name} is {} used on the mean and up to {} in 10 s{by}.",
            self::used(Some(share)),
            self::used(Some(peak)),
        ),
        Some(share) if share > BUSY_ABOVE => format!("BUSY: {name} is {} used{by}.", self::used(Some(share))),
        Some(share) => format!(
            "Not a bottleneck: at most {} used in either direction, {} in 10 s.",
            self::used(Some(share)),
            self::used(Some(peak.max(share))),
        ),
    }
}

/// For a subnet where not all switches report how they route.
pub const NOT_REPORTED: &str = "not reported";

/// Windows are made within a minute.
const LAGGING_MS: i64 = 60_000;

fn direction_text(direction: &DirectionShares, width: usize) -> String {
    let name = format!("{} → {}", end(&direction.from), end(&direction.to));
    if direction.windows == 0 {
        return clean(&format!("{name}: less than 64 KiB/s in each window that is made"), width) + "\n";
    }
    let counted = direction.counted_bytes.map_or_else(
        || "its port was not read, shares are as reported".to_owned(),
        |counted| {
            let part = match direction.windows - direction.counted_windows.min(direction.windows) {
                0 => String::new(),
                _ => format!(" in {} of {} windows", direction.counted_windows, direction.windows),
            };
            format!("{} counted{part}", bytes(counted.unsigned_abs()))
        },
    );
    let used = match direction.utilisation {
        Some(share) => {
            format!("{} used, at most {}, ", used(Some(share)), used(direction.peak_utilisation))
        }
        None => String::new(),
    };
    let above = match direction.is_above_speed {
        true => " (more was counted than it carries: readings are not exactly of their times)",
        false => "",
    };
    let speed = match direction.bytes_per_second {
        speed if speed > 0 => format!(" of {}/s", bytes(speed.unsigned_abs())),
        _ => format!(" of {ABSENT}"),
    };
    let head = format!("{name}: {used}{counted}{speed}{above}");
    folded(&head, width).iter().map(|line| line.trim_start().to_owned() + "\n").collect::<String>()
        + &contributors::text(&direction.contributors, width)
}

fn end(end: &LinkEnd) -> String {
    format!("{}[{}]", end.name, end.port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::link_shares::{LinkContributor, ShareFigures};

    fn contributor(label: &str, share: f64, kind: &str, is_bound: bool) -> LinkContributor {
        let bytes = (share * 1e9) as i64;
        let figures = ShareFigures {
            bytes,
            low_bytes: bytes / 2,
            high_bytes: bytes * 2,
            share: Some(share),
            low_share: Some(share / 2.0),
            high_share: Some((share * 2.0).min(1.0)),
            kind: kind.into(),
            is_bound,
        };
        LinkContributor { label: label.into(), figures, ..LinkContributor::default() }
    }

    fn shares() -> LinkShares {
        let end = |name: &str, port| LinkEnd { name: name.into(), port, ..LinkEnd::default() };
        let (leaf, spine) = (end("leaf1", 5), end("spine1", 1));
        let contributors = vec![
            contributor("alltoall of job 4711 (alice)", 0.62, "modelled", true),
            contributor("unmonitored host n07", 0.36, "unreported", false),
            contributor("rest: nobody known", 0.02, "unreported", false),
        ];
        LinkShares {
            subnet: "0xfe80000000000000".into(),
            name: "leaf1[5] - spine1[1]".into(),
            from_ms: 1_767_225_600_000,
            to_ms: 1_767_226_200_000,
            computed_until_ms: Some(1_767_226_190_000),
            ab: DirectionShares {
                from: leaf.clone(),
                to: spine.clone(),
                bytes_per_second: 25_000_000_000,
                windows: 60,
                counted_windows: 60,
                counted_bytes: Some(1_000_000_000),
                utilisation: Some(0.971),
                peak_utilisation: Some(1.0),
                contributors,
                ..DirectionShares::default()
            },
            ba: DirectionShares { from: spine, to: leaf, ..DirectionShares::default() },
            ..LinkShares::default()
        }
    }

    #[test]
    fn both_directions_with_kinds_and_bounds() {
        let text = text(&shares(), 100);
        let verdict =
            "FULL: leaf1[5] → spine1[1] is 97.1 % used, mostly by alltoall of job 4711 (alice) (62.0 %).";
        assert_eq!(text.lines().next(), Some(verdict));
        for part in [
            "leaf1[5] - spine1[1]\n",
            "2026-01-01T00:00:00Z to 2026-01-01T00:10:00Z, windows of 10 s\n",
            "leaf1[5] → spine1[1]: 97.1 % used, at most 100 %, 1.0 GB counted of 25.0 GB/s\n",
            "spine1[1] → leaf1[5]: less than 64 KiB/s in each window that is made\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let alice = text.lines().find(|line| line.trim_start().starts_with("alltoall")).unwrap();
        let cells: Vec<&str> = alice.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(
            cells,
            ["alltoall of job 4711 (alice)", "62.0 %", "31.0 %", "100 %", "620.0 MB", "modelled, bound"]
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn the_first_line_says_whether_it_is_a_bottleneck() {
        let of = |utilisation, peak_utilisation| {
            let mut shares = shares();
            (shares.ab.utilisation, shares.ab.peak_utilisation) = (utilisation, peak_utilisation);
            text(&shares, 200).lines().next().unwrap_or_default().to_owned()
        };
        assert!(
            of(Some(0.5), Some(0.95))
                .starts_with("FULL AT TIMES: leaf1[5] → spine1[1] is 50.0 % used on the mean")
        );
        assert!(of(Some(0.85), Some(0.9)).starts_with("BUSY: leaf1[5]"));
        let idle = "Not a bottleneck: at most 10.0 % used in either direction, 30.0 % in 10 s.";
        assert_eq!(of(Some(0.1), Some(0.3)), idle);
        assert!(of(None, None).starts_with("How full it is is not known"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let none = LinkShares { computed_until_ms: None, ..shares() };
        assert!(text(&none, 100).contains("No window has been made yet"));
        let late = LinkShares { computed_until_ms: Some(1_767_226_000_000), ..shares() };
        assert!(text(&late, 100).contains("windows are made until 2026-01-01T00:06:40Z"));
        let mut above = shares();
        above.ab.is_above_speed = true;
        assert!(text(&above, 200).contains("more was counted than it carries"));
        above.ab.counted_bytes = None;
        above.ab.utilisation = None;
        assert!(text(&above, 200).contains("its port was not read"));
    }
}
