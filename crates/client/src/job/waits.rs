//! `job waits`: what of a job's time in MPI was waiting for other ranks, and for whom.

use super::live;
use super::name::find;
use super::part;
use crate::text::{Table, clean, columns, folded, percent, seconds, thousands};
use crate::{Answer, Server, answer};
use std::io::Write;
use std::process::ExitCode;
use throughline_api::waits::{JobWaits, LastArrivalWaits, WaitBasis, WaitParts, WaitSeconds};
use throughline_daemon::Failure;
use throughline_sample::to_rfc3339;

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job waits last                   by operation
  throughline job waits last --by rank         who waits
  throughline job waits 4711 --by communicator
  throughline job waits 4711 --by time         at collectives, in at most 120 steps
  throughline job waits last --json | jq '.total.waiting'

Seconds are summed over ranks (and threads). WAITING is for other ranks: for a late SENDER or RECEIVER, at a
COLLECTIVE for the last rank, for a late ROOT. PROGRESS is a nonblocking transfer that went on only in Wait or Test.
TRANSFER is what remains. BETWEEN has the least and the most that the waiting can be. Of a job that was traced whole
(throughline-exec --trace) the seconds are exact, of others estimated; the second line says which. docs/WAITS.md says how
these are known, and where they can be wrong. Of a job that runs they are of now, as `throughline job show --help` says.";

/// What the rows of the table are.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitGrouping {
    /// MPI operations
    Operation,
    /// Ranks of MPI_COMM_WORLD
    Rank,
    /// Collectives by the members of their communicator
    Communicator,
    /// Steps of time; collectives only
    Time,
}

/// Options of `job waits`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Choose the job: key, scheduler's id, unique beginning, `last` or `last-1`
    #[arg(value_name = "JOB")]
    job: String,
    /// Make a row of each
    #[arg(long, value_enum, default_value_t = WaitGrouping::Operation)]
    by: WaitGrouping,
    /// Print the answer of the API
    #[arg(long)]
    json: bool,
}

/// Prints the table.
///
/// # Errors
/// No such job (1); see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let key = find(server, &options.job)?;
    live::look(server, &key);
    let waits: Answer<JobWaits> = server.answer(&["jobs", &key, "waits"], &[]).map_err(Failure::from)?;
    if options.json {
        answer::print([waits.body.as_str()])?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text(&waits.value, options.by, columns()).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn text(waits: &JobWaits, by: WaitGrouping, width: usize) -> String {
    let total = &waits.total;
    if total.calls == 0 {
        return "No MPI calls are known of this job.\n".to_owned();
    }
    let mut text = format!(
        "{} of {} in MPI ({}) waited for other ranks{}.\n",
        seconds(total.waiting.seconds),
        seconds(total.elapsed_seconds),
        percent(part(total.waiting.seconds, total.elapsed_seconds)),
        between(&total.waiting).map_or_else(String::new, |between| format!(", between {between}")),
    );
    text.push_str(&folded(&format!("{}.", capital(&basis(waits))), width).join("\n"));
    text.push_str("\n\n");
    let table = match by {
        WaitGrouping::Operation => {
            let rows = waits.operations.iter().map(|one| (vec![one.operation.clone()], &one.parts));
            parts(&["OPERATION"], rows)
        }
        WaitGrouping::Rank => {
            parts(&["<RANK"], waits.ranks.iter().map(|one| (vec![one.rank.to_string()], &one.parts)))
        }
        WaitGrouping::Communicator => {
            let name = |one: &throughline_api::waits::OperationWaits| {
                vec![one.operation.clone(), one.members.clone().unwrap_or_default()]
            };
            parts(&["OPERATION", "RANKS"], waits.communicators.iter().map(|one| (name(one), &one.parts)))
        }
        WaitGrouping::Time => course(waits),
    };
    text.extend(table.text().lines().map(|line| clean(line, width) + "\n"));
    if by != WaitGrouping::Time && !waits.last_arrivals.is_empty() {
        text.push_str("\nLast to arrive at collectives\n");
        text.push_str(&last_arrivals(&waits.last_arrivals, width));
    }
    text
}

/// How the seconds are known, with the clocks' bound.
pub(super) fn basis(waits: &JobWaits) -> String {
    match (waits.basis, waits.clock_error_seconds, waits.trace_unused.as_deref()) {
        (WaitBasis::Exact, Some(error), _) if error > 0.0 => {
            format!("exact, from the trace; clocks of its ranks are within {}", seconds(error))
        }
        (WaitBasis::Exact, ..) => "exact, from the trace; all ranks have one clock".to_owned(),
        (WaitBasis::Estimated, _, Some(why)) => {
            format!("estimated from counters and sampled calls; the trace is not used: {}", clean(why, 200))
        }
        (WaitBasis::Estimated, _, None) => "estimated from counters and sampled calls".to_owned(),
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + characters.as_str())
}

fn parts<'a>(names: &[&str], rows: impl Iterator<Item = (Vec<String>, &'a WaitParts)>) -> Table {
    let figures = [
        "<CALLS",
        "<TIME",
        "<WAITING",
        "BETWEEN",
        "<SENDER",
        "<RECEIVER",
        "<COLLECTIVE",
        "<ROOT",
        "<PROGRESS",
        "<TRANSFER",
    ];
    let mut table = Table::new(&[names, &figures].concat());
    for (mut cells, parts) in rows {
        let some = |one: &WaitSeconds| if one.seconds > 0.0 { seconds(one.seconds) } else { "-".to_owned() };
        cells.push(thousands(parts.calls));
        cells.push(seconds(parts.elapsed_seconds));
        cells.push(some(&parts.waiting));
        cells.push(between(&parts.waiting).unwrap_or_default());
        cells.extend(
            [
                &parts.late_sender,
                &parts.late_receiver,
                &parts.at_collective,
                &parts.late_root,
                &parts.progress,
                &parts.transfer,
            ]
            .map(some),
        );
        table.row(cells);
    }
    table
}

/// Bounds that differ from the value as it is shown.
fn between(of: &WaitSeconds) -> Option<String> {
    let (low, high) = (seconds(of.low), seconds(of.high));
    (low != high).then(|| format!("{low} and {high}"))
}

fn course(waits: &JobWaits) -> Table {
    let mut table = Table::new(&["UNTIL", "OPERATION", "<TIME", "<WAITING", "<SHARE"]);
    let course = &waits.course;
    for (at, time) in course.time_ms.iter().enumerate() {
        let (waiting, elapsed) = (course.waiting_seconds[at], course.elapsed_seconds[at]);
        table.row(vec![
            to_rfc3339(time.saturating_mul(1_000_000)),
            course.operation[at].clone(),
            seconds(elapsed),
            seconds(waiting),
            percent(part(waiting, elapsed)),
        ]);
    }
    table
}

/// Most of those who arrived last on the page; all are in the JSON document.
const SHOWN: usize = 8;

fn last_arrivals(all: &[LastArrivalWaits], width: usize) -> String {
    let mut table = Table::new(&["<RANK", "OPERATION", "RANKS", "<OF CALLS", "<OTHERS WAITED"]);
    for one in all.iter().take(SHOWN) {
        table.row(vec![
            one.rank.to_string(),
            one.operation.clone(),
            one.members.clone(),
            percent(Some(one.share)),
            seconds(one.waited_seconds),
        ]);
    }
    table.text().lines().map(|line| clean(line, width) + "\n").collect()
}

/// The section of `job show`: what waits most, and for whom; empty where less than a hundredth of MPI does.
pub(super) fn section(waits: &JobWaits, width: usize) -> String {
    let total = &waits.total;
    if part(total.waiting.seconds, total.elapsed_seconds).is_none_or(|share| share < 0.01) {
        return String::new();
    }
    let mut table =
        Table::new(&["OPERATION", "<TIME", "<WAITING", "BETWEEN", "<TRANSFER", "<PROGRESS", "MOSTLY FOR"]);
    for one in waits.operations.iter().filter(|one| one.parts.waiting.seconds > 0.0).take(SECTION_ROWS) {
        table.row(vec![
            one.operation.clone(),
            seconds(one.parts.elapsed_seconds),
            seconds(one.parts.waiting.seconds),
            between(&one.parts.waiting).unwrap_or_default(),
            seconds(one.parts.transfer.seconds),
            seconds(one.parts.progress.seconds),
            for_whom(waits, &one.operation, &one.parts),
        ]);
    }
    table.text().lines().map(|line| clean(line, width) + "\n").collect()
}

/// Operations in `job show`.
const SECTION_ROWS: usize = 4;

fn for_whom(waits: &JobWaits, operation: &str, parts: &WaitParts) -> String {
    if let Some(last) = waits.last_arrivals.iter().find(|last| last.operation == operation) {
        return format!("rank {} (last in {} of its calls)", last.rank, percent(Some(last.share)));
    }
    let kinds = [
        (parts.late_sender.seconds, "late senders"),
        (parts.late_receiver.seconds, "late receivers"),
        (parts.at_collective.seconds, "the last rank"),
        (parts.late_root.seconds, "its root"),
    ];
    let most = kinds.into_iter().max_by(|one, other| one.0.total_cmp(&other.0));
    most.map_or_else(String::new, |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::waits::{OperationWaits, RankWaits};

    fn waits() -> JobWaits {
        let waiting = WaitSeconds { seconds: 7.0, low: 6.5, high: 7.5 };
        let parts = WaitParts {
            calls: 100,
            elapsed_seconds: 10.0,
            waiting,
            at_collective: waiting,
            transfer: WaitSeconds { seconds: 3.0, low: 2.5, high: 3.5 },
            ..WaitParts::default()
        };
        let one = OperationWaits { operation: "allreduce".into(), parts, ..OperationWaits::default() };
        let members = Some("0-3".to_owned());
        JobWaits {
            total: parts,
            operations: vec![one.clone()],
            communicators: vec![OperationWaits { members, group_size: Some(4), ..one }],
            ranks: vec![RankWaits { rank: 2, parts }],
            last_arrivals: vec![LastArrivalWaits {
                rank: 3,
                operation: "allreduce".into(),
                members: "0-3".into(),
                share: 0.9,
                waited_seconds: 6.9,
            }],
            ..JobWaits::default()
        }
    }

    #[test]
    fn the_first_line_says_how_much_was_waiting() {
        let text = text(&waits(), WaitGrouping::Operation, 200);
        assert!(
            text.starts_with(
                "7.00 s of 10.0 s in MPI (70.0 %) waited for other ranks, between 6.50 s and 7.50 s."
            ),
            "{text}"
        );
        assert!(text.contains("allreduce") && text.contains("Last to arrive"), "{text}");
        assert!(super::text(&waits(), WaitGrouping::Communicator, 200).contains("0-3"));
        assert!(super::text(&JobWaits::default(), WaitGrouping::Rank, 80).starts_with("No MPI calls"));
    }

    #[test]
    fn job_show_says_for_whom() {
        let text = section(&waits(), 200);
        assert!(text.contains("rank 3 (last in 90.0 % of its calls)"), "{text}");
        let traced = JobWaits { basis: WaitBasis::Exact, clock_error_seconds: Some(2e-6), ..waits() };
        assert_eq!(basis(&traced), "exact, from the trace; clocks of its ranks are within 2.00 µs");
        let text = super::text(&traced, WaitGrouping::Operation, 200);
        assert!(text.lines().nth(1).unwrap().contains("Exact, from the trace"), "{text}");
        let unused = JobWaits { trace_unused: Some("5 of its records were lost".into()), ..waits() };
        assert!(basis(&unused).ends_with("the trace is not used: 5 of its records were lost"));
        let mut little = waits();
        little.total.waiting = WaitSeconds { seconds: 0.05, low: 0.0, high: 0.1 };
        assert_eq!(section(&little, 200), "", "less than a hundredth");
    }
}
