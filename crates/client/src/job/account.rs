//! The section of `job show` on where the time of its ranks went.

use super::part;
use crate::text::{Table, clean, count, percent, seconds};
use throughline_api::account::{AccountLine, AccountTrend, JobAccount, RegionAccount};
use throughline_sample::to_rfc3339;

/// Lines below this part are left out of columns of ranks.
const SHOWN_MIN: f64 = 0.005;
/// Ranks that are listed: those that compute least, and most; and regions.
const RANKS: usize = 3;

/// For people.
fn name(line: &str) -> &str {
    match line {
        "computing" => "computing",
        "waiting_for_core" => "waiting for a core",
        "throttled" => "waiting for a core, as the CPU quota is used up (at least)",
        "in_file" => "in a file",
        "asleep" => "asleep",
        "at_lock" => "at a lock",
        "stopped" => "stopped by a signal",
        "off_processor" => "off the processor, reason not known",
        "waiting_for_ranks" => "in MPI: waiting for other ranks (by durations of calls)",
        "partner_without_core" => "in MPI: its partner is there, but it has no core (at least)",
        "in_open_calls" => "in MPI: in calls that have not returned",
        "starting_messages" => "in MPI: starting messages",
        "moving_data" => "in MPI: moving data",
        "in_mpi" => "in MPI",
        other => other,
    }
}

/// As of when, and of how many ranks.
pub(super) fn heading(account: &JobAccount) -> String {
    let clock = |ms: i64| to_rfc3339(ms.saturating_mul(1_000_000)).get(11..19).unwrap_or_default().to_owned();
    let at = match (account.oldest_ms, account.newest_ms) {
        _ if account.as_of.is_some() => {
            account.as_of.iter().map(|at| format!(", as of {}", clock(at.time_ms))).collect()
        }
        (Some(oldest), Some(newest)) if newest - oldest > 2_000 => {
            format!(", as of {} to {}", clock(oldest), clock(newest))
        }
        (_, Some(newest)) => format!(", as of {}", clock(newest)),
        _ => String::new(),
    };
    let without = match account.ranks_without {
        0 => String::new(),
        ranks => format!(", without {}", count(u64::from(ranks), "rank")),
    };
    format!("Where the time of its ranks went{at}{without}")
}

/// The section; empty where nothing is known.
pub(super) fn section(account: &JobAccount, width: usize) -> String {
    if account.lines.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["LINE", "<SHARE", "<TIME", "BETWEEN"]);
    for line in &account.lines {
        table.row(vec![
            name(&line.line).to_owned(),
            percent(part(line.seconds, account.elapsed_seconds)),
            seconds(line.seconds),
            between(line),
        ]);
    }
    let mut text: String = table.text().lines().map(|line| clean(line, width) + "\n").collect();
    for trend in &account.trends {
        text.push_str(&clean(&sentence(trend), width));
        text.push('\n');
    }
    text.push_str(&regions(account, width));
    text.push_str(&ranks(account, width));
    text
}

/// In which regions the time in MPI was, where the program names any.
fn regions(account: &JobAccount, width: usize) -> String {
    let all: f64 = account.regions.iter().map(|one| one.mpi_seconds).sum();
    let region = |one: &RegionAccount| {
        let name = if one.region.is_empty() { "outside of all regions" } else { &one.region };
        format!("{} {name}", percent(part(one.mpi_seconds, all)))
    };
    let shown: Vec<String> = account.regions.iter().take(RANKS).map(region).collect();
    if shown.is_empty() {
        String::new()
    } else {
        clean(&format!("In MPI by region: {}.", shown.join(", ")), width) + "\n"
    }
}

/// What changed over the run.
fn sentence(of: &AccountTrend) -> String {
    let (name, time) = (name(&of.line), to_rfc3339(of.time_ms.saturating_mul(1_000_000)));
    let time = time.get(..16).unwrap_or_default().replace('T', " ");
    let [before, since] = [of.before, of.since].map(|share| percent(Some(share)));
    match of.trend.as_str() {
        "grows" => format!("{name}: grows since {time} UTC: {since} of the time, {before} before."),
        "only_at_start" => {
            format!("{name}: only at the start: {before} of the time until {time} UTC, {since} since.")
        }
        _ => String::new(),
    }
}

fn between(line: &AccountLine) -> String {
    let (low, high) = (seconds(line.low), seconds(line.high));
    if low == high { String::new() } else { format!("{low} and {high}") }
}

/// The ranks that compute least and most, where they differ.
fn ranks(account: &JobAccount, width: usize) -> String {
    let all = &account.by_rank;
    if all.len() < 2 {
        return String::new();
    }
    let share = |at: usize| {
        let of = all[at].lines.iter().find(|line| line.line == "computing").map_or(0.0, |line| line.seconds);
        of / all[at].elapsed_seconds.max(f64::MIN_POSITIVE)
    };
    if share(all.len() - 1) - share(0) < 0.05 {
        return String::new();
    }
    let mut table = Table::new(&["<RANK", "NODE", "<COMPUTING", "<FOR A CORE", "<OFF", "<IN MPI"]);
    let last = all.len().saturating_sub(RANKS).max(RANKS.min(all.len()));
    for one in all.iter().take(RANKS).chain(&all[last..]) {
        let of = |group: &str| {
            let lines = one.lines.iter().filter(|line| line.group == group);
            let sum: f64 = lines.map(|line| line.seconds).sum();
            let share = sum / one.elapsed_seconds.max(f64::MIN_POSITIVE);
            if share < SHOWN_MIN { "-".to_owned() } else { percent(Some(share)) }
        };
        table.row(vec![
            one.rank.to_string(),
            one.node.clone(),
            of("computing"),
            of("waiting_for_core"),
            of("off_processor"),
            of("in_mpi"),
        ]);
    }
    "\n".to_owned() + &table.text().lines().map(|line| clean(line, width) + "\n").collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::account::RankAccount;

    fn line(name: &str, seconds: f64) -> AccountLine {
        let group = if name == "computing" { name } else { "in_mpi" };
        AccountLine { line: name.into(), group: group.into(), seconds, low: seconds, high: seconds }
    }

    fn account() -> JobAccount {
        let rank = |rank, computing: f64| RankAccount {
            rank,
            node: "n1".into(),
            elapsed_seconds: 100.0,
            lines: vec![line("computing", computing), line("waiting_for_ranks", 100.0 - computing)],
        };
        JobAccount {
            newest_ms: Some(1_700_000_000_000),
            oldest_ms: Some(1_700_000_000_000),
            ranks: 3,
            ranks_without: 1,
            elapsed_seconds: 200.0,
            lines: vec![
                line("computing", 120.0),
                AccountLine { low: 70.0, high: 80.0, ..line("waiting_for_ranks", 80.0) },
            ],
            by_rank: vec![rank(1, 30.0), rank(0, 90.0)],
            ..JobAccount::default()
        }
    }

    #[test]
    fn lines_have_shares_and_bounds() {
        assert_eq!(heading(&account()), "Where the time of its ranks went, as of 22:13:20, without 1 rank");
        let text = section(&account(), 120);
        assert!(text.contains("60.0 %") && text.contains("70.0 s and 80.0 s"), "{text}");
        assert!(text.contains("90.0 %") && text.contains("30.0 %"), "both ranks: {text}");
        assert_eq!(section(&JobAccount::default(), 120), "");
    }

    #[test]
    fn what_changed_is_a_sentence() {
        let trend = |trend: &str| AccountTrend {
            line: "in_file".into(),
            trend: trend.into(),
            time_ms: 1_700_000_000_000,
            before: 0.125,
            since: 0.5,
        };
        let of = JobAccount { trends: vec![trend("grows"), trend("only_at_start")], ..account() };
        let text = section(&of, 120);
        assert!(
            text.contains(
                "in a file: grows since 2023-11-14 22:13 UTC: 50.0 % of the time, 12.5 % before.\n"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "in a file: only at the start: 12.5 % of the time until 2023-11-14 22:13 UTC, 50.0 % since.\n"
            ),
            "{text}"
        );
        let region = |region: &str, mpi_seconds| RegionAccount {
            region: region.into(),
            mpi_seconds,
            starting_seconds: 0.0,
        };
        let of = JobAccount { regions: vec![region("solve", 30.0), region("", 10.0)], ..account() };
        let text = section(&of, 120);
        assert!(text.contains("In MPI by region: 75.0 % solve, 25.0 % outside of all regions.\n"), "{text}");
        let as_of = throughline_api::jobs::AsOf { time_ms: 1_700_000_010_000, behind: Vec::new() };
        let newer = JobAccount { as_of: Some(as_of), ..account() };
        assert_eq!(heading(&newer), "Where the time of its ranks went, as of 22:13:30, without 1 rank");
    }
}
