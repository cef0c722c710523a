//! The status as aligned text of at most 100 columns, for people.
//!
//! Texts come from other people's programs: control characters never reach the terminal.

use crate::job::as_of;
use crate::text::{ABSENT, Table, age, bytes, clean, count, middle_cut, thousands, time};
use throughline_api::JobState;
use throughline_api::status::{Delivery, Rejected, Source, Status, StatusJob, StoredHistory};
use unicode_width::UnicodeWidthStr;

/// Widest line.
const COLUMNS: usize = 100;
/// Widest name of a source: the longest that there is.
const SOURCE_COLUMNS: usize = 14;
/// Widest name of an origin: a fabric's name, or a node name of usual length.
const ORIGIN_COLUMNS: usize = 28;
/// Most lines of one source; more origins are summed up in one line, the oldest stay visible.
const ORIGINS_MAX: usize = 24;
/// Most operations of a job: those with the most time.
const OPERATIONS_MAX: usize = 4;
/// Most lines of rejected records, those with the most records.
const REJECTED_MAX: usize = 8;
/// Most reasons shown of sources that are down.
const REASONS_MAX: usize = 6;
/// Most lines of one reason.
const FOLDED_LINES: usize = 3;

/// The whole text: the status that a server answered.
pub fn text(status: &Status, server: &str) -> String {
    let mut text: String =
        super::verdict::lines(status).iter().map(|line| folded(line).trim_start().to_owned()).collect();
    text.push_str(&(clean(&format!("{server} at {}", time(status.time_ms)), COLUMNS) + "\n"));
    text.push_str(&(clean(&format!("Database {}", status.database), COLUMNS) + "\n"));
    if let Some(replica) = &status.replica {
        let lag = replica.lag_seconds.map_or("lag not known".to_owned(), |lag| format!("{lag:.1} s behind"));
        let line = format!("Replica {}, {lag} (at most {} s)", replica.place, replica.lag_seconds_max);
        text.push_str(&(clean(&line, COLUMNS) + "\n"));
    }
    if let Some(history) = &status.history {
        text.push_str(folded(&self::history(history)).trim_start());
    }
    if status.sources.is_empty() && status.jobs.is_empty() && status.rejected.is_empty() {
        text.push_str(
            "\nNothing has arrived yet. Start what reads: `throughline-agent run` on each node, \
             `throughline-fabric run`\nonce a fabric, MPI programs under `throughline-exec`; or see everything \
             at once: `throughline demo`.\n",
        );
        return text;
    }
    text.push_str("\nSources\n");
    let (absent, here): (Vec<_>, Vec<_>) = status.sources.iter().partition(|source| source.absent);
    text.push_str(&sources(&here));
    let reasons = here.iter().filter_map(|source| Some((source, source.reason.as_ref()?)));
    for (source, reason) in reasons.take(REASONS_MAX) {
        let when = spell(source, status.time_ms);
        text.push_str(&folded(&format!("{} of {}: {when}{reason}", source.source, source.instance)));
    }
    for of_one in absent.chunk_by(|one, other| one.source == other.source) {
        text.push_str(&folded(&not_there(of_one)));
    }
    if !status.delivery.is_empty() {
        text.push_str("\nDelivery\n");
        text.push_str(&delivery(&status.delivery));
    }
    if !status.rejected.is_empty() {
        text.push_str("\nRejected since yesterday\n");
        text.push_str(&rejected(&status.rejected));
    }
    text.push_str("\nJobs\n");
    if status.jobs.is_empty() {
        text.push_str("  none yet: run an MPI program under throughline-exec on a node with an agent\n");
    }
    for job in &status.jobs {
        text.push_str(&self::job(job, status.time_ms));
    }
    text
}

/// Since when a source is paused or busy, and how long that still lasts.
fn spell(source: &Source, now_ms: i64) -> String {
    #[allow(clippy::cast_precision_loss)] // Far below 2^53.
    let seconds = |from: i64, to: i64| (to - from).max(0) as f64 / 1e3;
    let Some(since) = source.since_ms else { return String::new() };
    let left = source.until_ms.filter(|until| *until > now_ms);
    let left =
        left.map_or_else(String::new, |until| format!(", {} more at most", age(seconds(now_ms, until))));
    format!("{} for {}{left}: ", source.state.word(), age(seconds(since, now_ms)))
}

/// How far history goes back, and what the next night takes of it.
fn history(history: &StoredHistory) -> String {
    let of = [
        ("readings", history.readings_ms),
        ("minutes", history.minutes_ms),
        ("shares", history.shares_ms),
        ("jobs", history.jobs_ms),
    ];
    let since = |ms: i64| time(ms).get(..16).unwrap_or_default().replace('T', " ");
    let there: Vec<String> =
        of.iter().filter_map(|(name, ms)| Some(format!("{name} since {}", since((*ms)?)))).collect();
    let there = if there.is_empty() { "nothing yet".to_owned() } else { there.join(", ") };
    let goes = match (history.next_day_chunks, history.is_backup_running) {
        (_, true) => "a backup is in progress, and nothing is dropped meanwhile".to_owned(),
        (0, _) => "nothing goes in the next 24 h".to_owned(),
        (chunks, _) => {
            format!("{} of {} go in the next 24 h", count(chunks, "chunk"), bytes(history.next_day_bytes))
        }
    };
    format!("History: {there}; {goes}")
}

/// One line for all nodes that have nothing for a source to read: on most clusters many, and no fault.
fn not_there(of_one: &[&Source]) -> String {
    let Some(first) = of_one.first() else { return String::new() };
    let nodes = match of_one.len() {
        1 => format!("on {}", first.instance),
        count => format!("on {count} nodes, for instance {}", first.instance),
    };
    let reason = first.reason.as_deref().unwrap_or("its daemon reports so");
    format!("{} not there {nodes}: {reason}", first.source)
}

fn sources(sources: &[&Source]) -> String {
    let mut table =
        Table::new(&["SOURCE", "ORIGIN", "STATE", "<NEWEST", "<ROWS/S", "<DROPPED", "<FAILED READS"]);
    for of_one in sources.chunk_by(|one, other| one.source == other.source) {
        let mut shown: Vec<&Source> = of_one.to_vec();
        if shown.len() > ORIGINS_MAX {
            // Those without rows first, then the oldest.
            let age = |source: &Source| source.age_seconds.unwrap_or(f64::INFINITY);
            shown.sort_by(|one, other| age(other).total_cmp(&age(one)));
            shown.truncate(ORIGINS_MAX);
        }
        for source in &shown {
            table.row(vec![
                clean(&source.source, SOURCE_COLUMNS),
                clean(&source.instance, ORIGIN_COLUMNS),
                source.state.word().to_owned(),
                source.age_seconds.map_or(ABSENT.to_owned(), age),
                format!("{:.1}", source.rows_per_second),
                source.records_discarded.map_or(ABSENT.to_owned(), thousands),
                source.failed_reads.map_or(ABSENT.to_owned(), thousands),
            ]);
        }
        if of_one.len() > shown.len() {
            let rows: f64 = of_one.iter().map(|source| source.rows_per_second).sum();
            let more = format!("and {} with newer rows", of_one.len() - shown.len());
            table.row(vec![
                clean(&of_one[0].source, SOURCE_COLUMNS),
                more,
                String::new(),
                String::new(),
                format!("{rows:.1} all"),
            ]);
        }
    }
    table.text()
}

fn delivery(delivery: &[Delivery]) -> String {
    let headings = ["ORIGIN", "<REPORTED", "<WAITING", "<LAG", "<DELIVERED", "<DROPPED", "<FAILED ATTEMPTS"];
    let mut table = Table::new(&headings);
    let number = |value: Option<u64>| value.map_or(ABSENT.to_owned(), thousands);
    let mut shown: Vec<&Delivery> = delivery.iter().collect();
    if shown.len() > ORIGINS_MAX {
        // What waits on a daemon that reports no more is older than it said.
        let lag = |one: &Delivery| one.lag_seconds.unwrap_or(0.0) + one.age_seconds.unwrap_or(0.0);
        shown.sort_by(|one, other| lag(other).total_cmp(&lag(one)));
        shown.truncate(ORIGINS_MAX);
    }
    for one in &shown {
        table.row(vec![
            clean(&one.instance, ORIGIN_COLUMNS),
            reported(one),
            number(one.spool_entries),
            one.lag_seconds.map_or(ABSENT.to_owned(), age),
            number(one.delivered_entries),
            number(one.records_discarded),
            number(one.delivery_failures),
        ]);
    }
    if delivery.len() > shown.len() {
        table.row(vec![format!("and {} with less lag", delivery.len() - shown.len())]);
    }
    table.text()
}

/// How long ago, or for how long there has been no report.
fn reported(one: &Delivery) -> String {
    match (one.age_seconds, one.is_silent) {
        (None, _) => ABSENT.to_owned(),
        (Some(seconds), true) => format!("silent {}", age(seconds)),
        (Some(seconds), false) => age(seconds),
    }
}

fn rejected(rejected: &[Rejected]) -> String {
    let mut table = Table::new(&["SENDER", "REASON", "<RECORDS", "LAST", "KINDS"]);
    for one in rejected.iter().take(REJECTED_MAX) {
        table.row(vec![
            clean(&one.sender, ORIGIN_COLUMNS),
            clean(&one.reason, 12),
            thousands(one.records),
            time(one.last_ms).get(..19).unwrap_or_default().to_owned(),
            clean(&one.kinds, 24),
        ]);
    }
    if rejected.len() > REJECTED_MAX {
        table.row(vec![format!("and {} more (--json)", rejected.len() - REJECTED_MAX)]);
    }
    table.text()
}

fn job(StatusJob { job, operations }: &StatusJob, now_ms: i64) -> String {
    let user = job.user.as_deref().map_or(ABSENT.to_owned(), |user| clean(user, 16));
    let ranks = match job.world_size {
        Some(size) if size != job.ranks => format!("{} of {size} ranks", job.ranks),
        _ if job.ranks == 1 => "1 rank".to_owned(),
        _ => format!("{} ranks", job.ranks),
    };
    let nodes = if job.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", job.nodes) };
    #[allow(clippy::cast_precision_loss)] // milliseconds
    let since = job.end_ms.or(job.reported_ms).or(job.start_ms);
    let since = since.map(|since| age((now_ms - since).max(0) as f64 / 1e3));
    let state = match (job.state, since) {
        (JobState::Running, _) | (_, None) => job.state.to_string(),
        (JobState::Silent, Some(since)) => format!("silent for {since}"),
        (JobState::Ended | JobState::Lost, Some(since)) => format!("{} {since} ago", job.state),
    };
    let share = job.mpi_time_share().filter(|_| !operations.is_empty());
    let share = share.map_or(String::new(), |share| format!(", {:.0} % in MPI", share * 100.0));
    let as_of = job.as_of.as_ref().filter(|_| !operations.is_empty());
    let rest = format!("{user}, {ranks} on {nodes}, {state}{share}");
    let key = middle_cut(&clean(&job.job_key, 4 * COLUMNS), COLUMNS.saturating_sub(4 + rest.width()));
    let mut text = clean(&format!("  {key}  {rest}"), COLUMNS) + "\n";
    if let Some(title) = job.title() {
        text.push_str(&format!("    {}\n", clean(&title, COLUMNS - 4)));
    }
    if let Some(at) = as_of {
        text.push_str(&format!("    {}\n", clean(&as_of::words(at), COLUMNS - 4)));
    }
    let mut table = Table::new(&[]);
    for operation in operations.iter().take(OPERATIONS_MAX) {
        table.row(vec![
            format!("  {}", clean(&operation.operation, 30)),
            format!("<{} calls", thousands(operation.calls)),
            format!("<{}", bytes(operation.bytes)),
            format!("<{:.3} s", operation.elapsed_seconds),
        ]);
    }
    text + &table.text()
}

/// A sentence on as many lines as it needs, up to [`FOLDED_LINES`]; the remedy is at its end.
fn folded(sentence: &str) -> String {
    let lines = crate::text::folded(&clean(sentence, FOLDED_LINES * COLUMNS), COLUMNS);
    lines.into_iter().take(FOLDED_LINES).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::{Job, Totals};
    use throughline_api::status::{SourceState, StatusOperation as Operation};

    const SERVER: &str = "http://127.0.0.1:9460";
    const NOW_MS: i64 = 1_795_863_600_000; // 2026-11-28T11:00:00Z

    fn status() -> Status {
        let source = |source: &str, instance: String, age: Option<f64>, up| Source {
            source: source.into(),
            instance,
            age_seconds: age,
            rows_per_second: 12.5,
            up,
            records_discarded: Some(1_234_567),
            ..Source::default()
        };
        let operation = |name: &str, calls| Operation {
            operation: name.into(),
            calls,
            bytes: calls * 8192,
            elapsed_seconds: 1.5,
        };
        let job = Job {
            job_key: "local:".to_owned() + &"n".repeat(80),
            user: Some("ada\x1b[2J".into()),
            command: Some("./solve --input ".to_owned() + &"x".repeat(200)),
            ranks: 3,
            world_size: Some(4),
            nodes: 2,
            state: JobState::Ended,
            end_ms: Some(NOW_MS - 130_000),
            totals: Some(Totals { mpi_seconds: 2.34, observed_seconds: Some(10.0), ..Totals::default() }),
            ..Job::default()
        };
        Status {
            time_ms: NOW_MS,
            database: "throughline on /var/lib/throughline/db/socket".into(),
            replica: None,
            clock: None,
            history: None,
            contests: Vec::new(),
            bypassed: Vec::new(),
            clocks: Vec::new(),
            rejected: vec![Rejected {
                sender: "node:n0001".into(),
                reason: "time_future".into(),
                records: 12,
                kinds: "events, mpi_ops".into(),
                last_ms: NOW_MS - 60_000,
            }],
            sources: vec![
                source("mad", "0xfe80000000000000".into(), Some(0.42), Some(true)),
                Source {
                    state: SourceState::Down,
                    reason: Some("no_gpu: ".to_owned() + &"x\n".repeat(90)),
                    ..source("nvml", "n1".into(), None, Some(false))
                },
                Source {
                    absent: true,
                    reason: Some("no_gpu".into()),
                    ..source("nvml", "n2".into(), None, None)
                },
                Source {
                    absent: true,
                    reason: Some("no_gpu".into()),
                    ..source("nvml", "n3".into(), None, None)
                },
                source("sysfs", "n1".into(), Some(7000.0), None),
            ],
            delivery: [("n1", 7.0), ("n2", 7400.0)]
                .map(|(instance, age)| Delivery {
                    instance: instance.into(),
                    age_seconds: Some(age),
                    is_silent: age > 75.0,
                    lag_seconds: Some(0.0),
                    ..Delivery::default()
                })
                .to_vec(),
            jobs: vec![StatusJob {
                job,
                operations: vec![operation("allreduce", 1_000_000), operation("bcast", 3)],
            }],
        }
    }

    #[test]
    fn fits_the_terminal_and_cannot_harm_it() {
        let text = text(&status(), SERVER);
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
        for part in [
            "0.4 s",
            "down",
            "silent",
            "1,234,567",
            "3 of 4 ranks on 2 nodes",
            "ended 2 min ago",
            "23 % in MPI",
            "node:n0001  time_future       12  2026-11-28T10:59:00  events, mpi_ops",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        // A daemon that went away keeps its line.
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(words.iter().any(|line| line.starts_with(&["n1", "7.0", "s"])), "{text}");
        assert!(words.iter().any(|line| line.starts_with(&["n2", "silent", "2", "h"])), "{text}");
        assert!(text.contains("  nvml not there on 2 nodes, for instance n2: no_gpu\n"), "{text}");
        assert!(text.contains("allreduce  1,000,000 calls   8.2 GB  1.500 s"), "{text}");
    }

    #[test]
    fn an_empty_database_says_what_to_start() {
        let text = text(&Status::default(), SERVER);
        assert!(text.contains("throughline-agent run") && text.contains("throughline demo"), "{text}");
    }

    #[test]
    fn many_origins_are_summed_up_and_the_oldest_stay() {
        let mut status = status();
        status.sources = (0..100)
            .map(|n| Source {
                source: "sysfs".into(),
                instance: format!("node{n:03}"),
                state: SourceState::Rows,
                age_seconds: Some(f64::from(n)),
                rows_per_second: 1.0,
                ..Source::default()
            })
            .collect();
        let text = text(&status, SERVER);
        assert!(text.contains("node099") && !text.contains("node000"), "{text}");
        assert!(text.contains("and 76 with newer rows") && text.contains("100.0 all"), "{text}");
    }
}
