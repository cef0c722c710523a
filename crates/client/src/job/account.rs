//! The section of `job show` on where the time of its ranks went.

use super::part;
use crate::text::{Table, clean, count, percent, seconds};
use throughline_api::account::{AccountLine, JobAccount};
use throughline_sample::to_rfc3339;

/// Lines below this part are left out of columns of ranks.
const SHOWN_MIN: f64 = 0.005;
/// Ranks that are listed: those that compute least, and most.
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
    text.push_str(&ranks(account, width));
    text
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
        let of = |names: &[&str]| {
            let sum: f64 = one
                .lines
                .iter()
                .filter(|line| names.contains(&line.line.as_str()))
                .map(|line| line.seconds)
                .sum();
            let share = sum / one.elapsed_seconds.max(f64::MIN_POSITIVE);
            if share < SHOWN_MIN { "-".to_owned() } else { percent(Some(share)) }
        };
        table.row(vec![
            one.rank.to_string(),
            one.node.clone(),
            of(&["computing"]),
            of(&["waiting_for_core", "throttled"]),
            of(&["in_file", "asleep", "at_lock", "stopped", "off_processor"]),
            of(&[
                "waiting_for_ranks",
                "partner_without_core",
                "starting_messages",
                "in_open_calls",
                "moving_data",
                "in_mpi",
            ]),
        ]);
    }
    "\n".to_owned() + &table.text().lines().map(|line| clean(line, width) + "\n").collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::account::RankAccount;

    fn line(name: &str, seconds: f64) -> AccountLine {
        AccountLine { line: name.into(), seconds, low: seconds, high: seconds }
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
}
