//! `job list`: one line for each job, the newest first.

use super::{as_of, verdict_name};
use crate::text::{
    ABSENT, Table, age, bytes, clean, clock, columns, count, folded, middle_cut, whole_second,
};
use crate::{Answer, Server, answer};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use throughline_api::JobState;
use throughline_api::jobs::{AsOf, Job, Jobs};
use throughline_daemon::Failure;
use throughline_daemon::arguments::time;
use throughline_sample::job_key::has_id;

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job list                           the 20 newest jobs
  throughline job list --running                 those that have not ended: running or silent
  throughline job list --user ada --from 2d      one user's, of the last two days
  throughline job list --scheduler slurm --from 2026-11-20T08:00:00Z
  throughline job list --json | jq -r '.jobs[] | select(.totals.mpi_time_share > 0.5) | .job_key'

STATE is `running`; `ended`; `lost`: ended, and a rank never reached MPI_Finalize; `silent`: no node
reports on it any more, or its nodes went away before its end was observed. NODES has the name of a
node that alone reports the job. VERDICT is what slows it down most (`job show` explains it): empty where nothing was found, `-` before it is judged. MPI is the share of the
ranks' time inside MPI. SENT is what the program handed over for sending; both are as of the time in
the first line while a job runs. The last column has the scheduler's name of the job where there is
one, and the command.";

/// Options of `job list`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// List only jobs of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// List only jobs that ran at or after a time: RFC 3339, a day (2026-11-20), or an age (90m, 2h, 3d)
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Timestamp>,
    /// List only jobs that have not ended
    #[arg(long)]
    running: bool,
    /// List only jobs of this scheduler: slurm, pbs, lsf, flux, or local for none
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// List at most N jobs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Print the answers of the API, one per line for each 100 jobs
    #[arg(long)]
    json: bool,
}

/// Most jobs of one request: sums cost the database some work each.
const PAGE: usize = 100;

/// Prints the list.
///
/// # Errors
/// See [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let pages = read(server, options)?;
    if options.json {
        answer::print(pages.iter().map(|page| page.body.as_str()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let jobs: Vec<Job> = pages.into_iter().flat_map(|page| page.value.jobs).collect();
    let mut out = std::io::stdout().lock();
    if jobs.is_empty() {
        writeln!(out, "{}", nothing(options))?;
    } else {
        let width = columns();
        let summary = folded(&summary(&jobs), width).join("\n").trim_start().to_owned();
        out.write_all((summary + "\n" + &text(&jobs, width)).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The newest jobs that pass the filter, page by page.
fn read(server: &Server, options: &Options) -> Result<Vec<Answer<Jobs>>, Failure> {
    let wanted = options.limit as usize;
    let mut pages: Vec<Answer<Jobs>> = Vec::new();
    let mut found = 0;
    let mut next: Option<String> = None;
    let from = options.from.map(|from| from.to_string());
    loop {
        let limit = (wanted - found).min(PAGE).to_string();
        let state = if options.running { "live" } else { "all" };
        let mut query = vec![("state", state), ("totals", "true"), ("limit", &limit)];
        let optional =
            [("user", &options.user), ("scheduler", &options.scheduler), ("from", &from), ("next", &next)];
        query.extend(optional.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))));
        let page: Answer<Jobs> = server.answer(&["jobs"], &query)?;
        found += page.value.jobs.len();
        next.clone_from(&page.value.next);
        pages.push(page);
        if next.is_none() || found >= wanted {
            return Ok(pages);
        }
    }
}

fn nothing(options: &Options) -> &'static str {
    let filtered =
        options.running || options.user.is_some() || options.from.is_some() || options.scheduler.is_some();
    if filtered {
        "no job passes the filter; without it `throughline job list` shows the newest"
    } else {
        "no job yet: run an MPI program under throughline-exec on a node with an agent"
    }
}

/// What is in the list: how many run, ended badly or have a verdict, the commonest one first.
fn summary(jobs: &[Job]) -> String {
    let of = |state: JobState| jobs.iter().filter(|job| job.state == state).count();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for kind in jobs.iter().map(verdict).filter(|kind| !kind.is_empty() && kind != ABSENT) {
        *kinds.entry(kind).or_default() += 1;
    }
    let mut kinds: Vec<(String, usize)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
    let mut parts = vec![count(jobs.len() as u64, "job")];
    for (state, what) in [
        (JobState::Running, "running"),
        (JobState::Lost, "ended without MPI_Finalize"),
        (JobState::Silent, "silent"),
    ] {
        if of(state) > 0 {
            parts.push(format!("{} {what}", of(state)));
        }
    }
    let said: Vec<String> = kinds.iter().map(|(kind, jobs)| format!("{kind} {jobs}")).collect();
    let found =
        if said.is_empty() { "nothing found".to_owned() } else { format!("found: {}", said.join(", ")) };
    format!("{}; {found}", parts.join(", ")) + &times(jobs)
}

/// As of when figures of those that run are: most of them are of one time, and nodes that are behind are named by `job show`.
fn times(jobs: &[Job]) -> String {
    let running = || jobs.iter().filter_map(|job| Some((job, job.as_of.as_ref()?)));
    let Some(newest) = running().map(|(_, at)| at.time_ms).max() else { return String::new() };
    let older = running().filter(|(_, at)| at.time_ms < newest);
    let behind = running().filter(|(_, at)| at.time_ms == newest && !at.behind.is_empty());
    let node = |(job, at): (&Job, &AsOf)| {
        format!("{} without the newest of {}", key(job), count(at.behind.len() as u64, "node"))
    };
    let mut others: Vec<String> =
        older.map(|(job, at)| format!("{} {}", key(job), as_of::words(at))).chain(behind.map(node)).collect();
    let more = others.len().saturating_sub(OTHERS_SHOWN);
    others.truncate(OTHERS_SHOWN);
    if more > 0 {
        others.push(format!("{more} more jobs as of other times"));
    }
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
    format!("; MPI and SENT of running jobs as of {}{others}", clock(newest))
}

/// Most jobs whose figures are of another time that are named.
const OTHERS_SHOWN: usize = 3;

/// Below this width the command has a line of its own.
const WIDE: usize = 130;
/// Widest key and user name where they share a line with the rest.
const KEY_COLUMNS: usize = 28;
const USER_COLUMNS: usize = 12;
const NODE_COLUMNS: usize = 12;

fn text(jobs: &[Job], width: usize) -> String {
    if width >= WIDE { wide(jobs, width) } else { narrow(jobs, width) }
}

fn wide(jobs: &[Job], width: usize) -> String {
    let headings = [
        "JOB",
        "USER",
        "<NODES",
        "<RANKS",
        "STARTED",
        "<LASTED",
        "STATE",
        "VERDICT",
        "<MPI",
        "<SENT",
        "NAME: COMMAND",
    ];
    let mut table = Table::new(&headings);
    for job in jobs {
        let title = job.title().unwrap_or_else(|| ABSENT.to_owned());
        let mut row = vec![key(job), user(job)];
        row.extend(numbers(job));
        row.insert(4, started(job));
        row.push(clean(&title, width));
        table.row(row);
    }
    table.text().lines().map(|line| clean(line.strip_prefix("  ").unwrap_or(line), width) + "\n").collect()
}

fn narrow(jobs: &[Job], width: usize) -> String {
    let mut table = Table::new(&["JOB", "<NODES", "<RANKS", "<LASTED", "STATE", "<MPI", "<SENT"]);
    for job in jobs {
        let mut row = vec![key(job)];
        row.extend(numbers(job));
        row.remove(VERDICT_PLACE); // the second line has it: 80 columns don't hold it
        table.row(row);
    }
    let lines = table.text();
    let mut lines = lines.lines().map(|line| clean(line.strip_prefix("  ").unwrap_or(line), width) + "\n");
    let mut text = lines.next().unwrap_or_default();
    for (line, job) in lines.zip(jobs) {
        let title = job.title().unwrap_or_else(|| ABSENT.to_owned());
        text.push_str(&line);
        let verdict = match verdict(job).as_str() {
            "" | ABSENT => String::new(),
            verdict => format!("[{verdict}]  "),
        };
        text.push_str(&clean(&format!("    {}  {}  {verdict}{title}", started(job), user(job)), width));
        text.push('\n');
    }
    text
}

/// The key; where it has a SLUID, the number that people know is before it.
fn key(job: &Job) -> String {
    let number = job.native_id.as_deref().filter(|id| !has_id(&job.job_key, id));
    let key = number.map_or_else(|| job.job_key.clone(), |number| format!("{number} {}", job.job_key));
    middle_cut(&clean(&key, 200), KEY_COLUMNS)
}

fn user(job: &Job) -> String {
    job.user.as_deref().map_or(ABSENT.to_owned(), |user| clean(user, USER_COLUMNS))
}

/// To the second: a list is for finding, `job show` says it exactly.
fn started(job: &Job) -> String {
    job.start_ms.map_or(ABSENT.to_owned(), whole_second)
}

/// What is wrong; nothing where nothing was found.
fn verdict(job: &Job) -> String {
    match job.verdict.as_deref() {
        Some("nothing_found") => String::new(),
        Some(kind) => verdict_name(kind),
        None => ABSENT.to_owned(),
    }
}

/// Where the verdict stands among [`numbers`], behind the key.
const VERDICT_PLACE: usize = 5;

/// How many, or the one that alone reports it.
fn nodes(job: &Job) -> String {
    job.only_node
        .as_deref()
        .map_or_else(|| job.nodes.to_string(), |node| middle_cut(&clean(node, 200), NODE_COLUMNS))
}

fn numbers(job: &Job) -> Vec<String> {
    let ranks = match job.world_size {
        Some(size) if size > job.ranks => format!("{} of {size}", job.ranks),
        _ if job.ranks_contested > 0 => format!("{} and {} contested", job.ranks, job.ranks_contested),
        _ => job.ranks.to_string(),
    };
    vec![
        nodes(job),
        ranks,
        job.lasted_seconds().map_or(ABSENT.to_owned(), age),
        job.state.to_string(),
        verdict(job),
        job.mpi_time_share().map_or(ABSENT.to_owned(), |share| format!("{:.0} %", share * 100.0)),
        job.totals.map_or(ABSENT.to_owned(), |totals| bytes(totals.bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::Totals;
    use unicode_width::UnicodeWidthStr;

    fn job() -> Job {
        Job {
            job_key: "local:node0123:1000:424242:998877665544".into(),
            user: Some("ada\u{7}".into()),
            command: Some("./solve ".to_owned() + &"x".repeat(300)),
            start_ms: Some(1_795_863_600_123),
            name: Some("climate".into()),
            duration_seconds: Some(3700.0),
            ranks: 3,
            world_size: Some(4),
            nodes: 2,
            totals: Some(Totals {
                bytes: 12_345_678_901,
                mpi_seconds: 2.34,
                observed_seconds: Some(10.0),
                ..Totals::default()
            }),
            verdict: Some("slow_rank".into()),
            ..Job::default()
        }
    }

    #[test]
    fn lines_fit_the_terminal_and_cannot_harm_it() {
        for width in [80, 100, 160] {
            let text = text(&[job(), Job::default()], width);
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
                assert!(!line.contains(char::is_control), "{line:?}");
            }
            for part in [
                "2026-11-28T11:00:00Z",
                "3 of 4",
                "62 min",
                "slow rank",
                "23 %",
                "12.3 GB",
                "ada",
                "climate: ./solve",
            ] {
                assert!(text.contains(part), "{width}: {part} is not in\n{text}");
            }
        }
    }

    #[test]
    fn the_first_line_says_what_was_found() {
        let healthy = Job { verdict: Some("nothing_found".into()), state: JobState::Ended, ..job() };
        let lost = Job { verdict: None, state: JobState::Lost, ..job() };
        let slow = || Job { state: JobState::Running, ..job() };
        assert_eq!(
            summary(&[slow(), healthy.clone(), lost, slow()]),
            "4 jobs, 2 running, 1 ended without MPI_Finalize; found: slow rank 2"
        );
        assert_eq!(summary(std::slice::from_ref(&healthy)), "1 job; nothing found");
        let running = |key: &str, time_ms, behind: usize| Job {
            job_key: key.into(),
            as_of: Some(AsOf { time_ms, behind: vec![throughline_api::jobs::NodeBehind::default(); behind] }),
            ..healthy.clone()
        };
        let jobs = [running("a", 30_000, 0), running("b", 20_000, 0), running("c", 30_000, 2)];
        assert!(
            summary(&jobs).ends_with(
                "; MPI and SENT of running jobs as of 1970-01-01 00:00:30 UTC (b as of 1970-01-01 00:00:20 UTC; c without the newest \
                 of 2 nodes)"
            ),
            "{}",
            summary(&jobs)
        );
    }
}
