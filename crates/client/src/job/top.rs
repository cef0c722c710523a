//! `job top`: jobs that run and what they do with MPI now, drawn again in place on a terminal, as lines elsewhere.

use super::live::TopJobs;
use crate::pause::until_stopped;
use crate::text::{
    ABSENT, Table, age, bytes, clean, columns, count, folded, middle_cut, percent, seconds, whole_second,
};
use crate::{Answer, Server, answer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;
use throughline_api::jobs::{JobRate, JobRates};
use throughline_daemon::{Failure, Screen};

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job top                      until q or Ctrl-C; s sorts by the next column
  throughline job top --sort bytes --user ada
  throughline job top --once               one table
  throughline job top --json --count 3     three answers of the API, one per line

Rates are those of the last 10 seconds up to a job's newest row (--window). MPI is the share of its
ranks' time inside MPI in them, or, where several threads of a rank were inside at the same time, how
many threads were inside on average (12.5 thr): their time is no share of that of ranks. SENT/S is what they handed over for sending. OPERATION is where most
of the MPI time went, or, where ranks have been in one call for a second or more, which one, for how
long and how many are. A job that is in no such call and sent nothing for a minute is left out.

The first four jobs are shown live: their nodes send rows each second while the table is shown. Rates of the
others are some seconds older. At most 8 jobs are shown live at a time ([detail] live_jobs_max of server.toml):
where that is reached the table says so.";

/// Shortest time between two tables: a reading costs the database some work.
const SHORTEST_INTERVAL: f64 = 0.5;
/// Time between two looks for a key.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of a frame that are no jobs: heading, jobs that may hang, names of columns, keys.
const OTHER_LINES: usize = 4;
/// A call that goes on for so long, seconds, is named above the table: few do in a job that goes on.
const STUCK_SECONDS: f64 = 60.0;
/// Lines shown where no terminal says how many fit.
const USUAL_LINES: usize = 40;

/// From this width on a job's nodes, age and command are shown.
const WIDE: usize = 110;

/// Options of `job top`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Print one table and end
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print NUMBER tables and end [default: until q or Ctrl-C]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print a table every SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
    /// Take rates over SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = interval)]
    window: Duration,
    /// Sort by a column: mpi, bytes or calls
    #[arg(long, value_name = "COLUMN", default_value = "mpi", value_parser = order)]
    sort: Order,
    /// List only jobs of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Print the answers of the API, one per line
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let long = seconds.filter(|interval| interval.as_secs_f64() >= SHORTEST_INTERVAL);
    long.ok_or_else(|| format!("expected seconds, at least {SHORTEST_INTERVAL}"))
}

/// What jobs are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Mpi,
    Bytes,
    Calls,
}

impl Order {
    const ALL: [Self; 3] = [Self::Mpi, Self::Bytes, Self::Calls];

    fn name(self) -> &'static str {
        match self {
            Self::Mpi => "mpi",
            Self::Bytes => "bytes",
            Self::Calls => "calls",
        }
    }

    fn next(self) -> Self {
        let place = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }

    fn sort(self, rates: &mut JobRates) {
        rates.jobs.sort_by(|one, other| self.value(other).total_cmp(&self.value(one)));
    }

    fn value(self, job: &JobRate) -> f64 {
        match self {
            Self::Mpi => job.mpi_seconds_per_second,
            Self::Bytes => job.bytes_per_second,
            Self::Calls => job.calls_per_second,
        }
    }
}

fn order(text: &str) -> Result<Order, String> {
    let known = Order::ALL.into_iter().find(|order| order.name() == text);
    known.ok_or_else(|| format!("expected one of {}", Order::ALL.map(Order::name).join(", ")))
}

/// Shows the table until it is to end.
///
/// # Errors
/// See [`crate::Error`]; the output is gone.
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let count = if options.once { Some(1) } else { options.count };
    let mut rates = read(server, options)?;
    let mut live = TopJobs::default();
    live.look(server, &keys(&mut rates, options.sort), true);
    if !rates.value.jobs.is_empty() {
        rates = read(server, options)?;
    }
    let screen = if options.once || options.json { None } else { Screen::open()? };
    // A signal must not end the program while the terminal is drawn on: it is taken between two tables.
    let signals = screen.is_some().then(blocked).transpose()?;
    let mut view = View { screen, order: options.sort, json: options.json, notes: Vec::new() };
    let mut shown = 0;
    loop {
        view.notes.clone_from(&live.notes);
        view.show(&mut rates)?;
        shown += 1;
        if count.is_some_and(|count| shown >= count)
            || wait(&mut view, &mut rates, signals.as_ref(), options)?
        {
            return Ok(ExitCode::SUCCESS);
        }
        match read(server, options) {
            Ok(read) => rates = read,
            // The server was restarted: the next request may find it again. The table stays.
            Err(_) if view.screen.is_some() => {}
            Err(error) => return Err(error.into()),
        }
        live.look(server, &keys(&mut rates, view.order), false);
    }
}

/// The jobs in the order of the table.
fn keys(rates: &mut Answer<JobRates>, order: Order) -> Vec<String> {
    order.sort(&mut rates.value);
    rates.value.jobs.iter().map(|job| job.job_key.clone()).collect()
}

/// Waits until the next table is due; `true` where the user wants to end.
fn wait(
    view: &mut View,
    rates: &mut Answer<JobRates>,
    signals: Option<&SignalFd>,
    options: &Options,
) -> anyhow::Result<bool> {
    let due = Instant::now() + options.interval;
    let Some(signals) = signals else { return Ok(until_stopped(options.interval)?) };
    while Instant::now() < due {
        let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
        let came = poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], timeout)?;
        if came > 0 || view.key(rates)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// SIGINT and SIGTERM as a descriptor.
fn blocked() -> std::io::Result<SignalFd> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    Ok(SignalFd::new(&signals)?)
}

struct View {
    screen: Option<Screen>,
    order: Order,
    json: bool,
    /// Why jobs are not shown live.
    notes: Vec<String>,
}

impl View {
    /// Takes a key; `true` when it is to end.
    fn key(&mut self, rates: &mut Answer<JobRates>) -> std::io::Result<bool> {
        let Some(screen) = &self.screen else { return Ok(false) };
        match screen.key(Duration::ZERO)? {
            Some(b'q' | b'Q') => Ok(true),
            Some(b's' | b'S') => {
                self.order = self.order.next();
                self.show(rates).map(|()| false)
            }
            _ => Ok(false),
        }
    }

    fn show(&self, rates: &mut Answer<JobRates>) -> std::io::Result<()> {
        if self.json {
            self.notes.iter().for_each(|note| eprintln!("throughline: {note}"));
            return answer::print([rates.body.as_str()]);
        }
        self.order.sort(&mut rates.value);
        let rates = &rates.value;
        if let Some(screen) = &self.screen {
            let (rows, width) = screen.size();
            let fits = rows.saturating_sub(OTHER_LINES);
            return screen
                .draw(&format!("{}\nq: quit  s: sort by the next column", self.table(rates, fits, width)));
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", self.table(rates, USUAL_LINES, columns()))?;
        out.flush()
    }

    fn table(&self, rates: &JobRates, fits: usize, width: usize) -> String {
        let jobs = &rates.jobs;
        let sent: f64 = jobs.iter().map(|job| job.bytes_per_second).sum();
        let heading = format!(
            "{}  running jobs: {}, by {}; sending {} in all",
            whole_second(rates.as_of_ms),
            jobs.len(),
            self.order.name(),
            rate(sent)
        );
        let mut text = clean(&heading, width) + "\n";
        let notes: Vec<String> = self.notes.iter().flat_map(|note| folded(note, width)).collect();
        notes.iter().for_each(|line| text.push_str(&(clean(line, width) + "\n")));
        let fits = fits.saturating_sub(notes.len());
        text.push_str(&stuck(jobs, width));
        if jobs.is_empty() {
            return text + "no running job sent anything in the last minute";
        }
        let wide = width >= WIDE;
        let mut headings = vec!["JOB", "USER", "<RANKS", "<MPI", "<SENT/S", "<CALLS/S", "OPERATION"];
        if wide {
            headings.splice(2..2, ["<NODES", "<FOR"]);
            headings.push("COMMAND");
        }
        let mut table = Table::new(&headings);
        for job in jobs.iter().take(fits) {
            let mut row = vec![
                middle_cut(&clean(&job.job_key, 200), if wide { 28 } else { 18 }),
                job.user.as_deref().map_or(ABSENT.to_owned(), |user| clean(user, 8)),
                job.ranks.to_string(),
                inside(job),
                rate(job.bytes_per_second),
                number(job.calls_per_second),
                operation(job),
            ];
            if wide {
                let running = job.running_seconds.map_or(ABSENT.to_owned(), age);
                row.splice(2..2, [job.nodes.to_string(), running]);
                row.push(job.command.as_deref().map_or(String::new(), |command| clean(command, width)));
            }
            table.row(row);
        }
        let lines = table.text();
        let lines = lines.lines().map(|line| clean(line.strip_prefix("  ").unwrap_or(line), width));
        text.push_str(&lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n"));
        text
    }
}

/// A line about jobs with calls that have gone on for long; none without.
fn stuck(jobs: &[JobRate], width: usize) -> String {
    let mut all: Vec<(f64, &JobRate)> = jobs
        .iter()
        .filter_map(|job| Some((job.open_call.as_ref()?.longest_seconds, job)))
        .filter(|(since, _)| *since >= STUCK_SECONDS)
        .collect();
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    let Some((_, longest)) = all.first() else { return String::new() };
    let who = format!("{} {}", middle_cut(&clean(&longest.job_key, 200), 28), operation(longest));
    let line =
        format!("In one call for a minute or more: {}, the longest {who}", count(all.len() as u64, "job"));
    clean(&line, width) + "\n"
}

fn read(server: &Server, options: &Options) -> Result<Answer<JobRates>, Failure> {
    let window = options.window.as_secs_f64().to_string();
    let mut query = vec![("window", window.as_str())];
    query.extend(options.user.as_deref().map(|user| ("user", user)));
    Ok(server.answer(&["job-rates"], &query)?)
}

/// The share of the ranks' time in MPI, or the threads inside where these are more than its ranks.
fn inside(job: &JobRate) -> String {
    let is_threaded = job.mpi_time_share.is_none() && job.mpi_seconds_per_second > 0.0 && job.ranks > 0;
    if is_threaded {
        return format!("{:.1} thr", job.mpi_seconds_per_second);
    }
    percent(job.mpi_time_share)
}

/// The call that a job is in, or where most of its MPI time went.
fn operation(job: &JobRate) -> String {
    if let Some(open) = &job.open_call {
        let time = seconds(open.longest_seconds);
        return format!("{} for {time}: {}", clean(&open.operation, 20), count(open.ranks, "rank"));
    }
    let Some(operation) = &job.top_operation else { return ABSENT.to_owned() };
    let share = job.top_operation_share.map_or(String::new(), |share| format!(" {:.0} %", share * 100.0));
    clean(operation, 20) + &share
}

fn rate(bytes_per_second: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative, and rounded
    let whole = bytes_per_second.max(0.0).round() as u64;
    format!("{}/s", bytes(whole))
}

/// Three digits with a prefix: `12.3 k`.
fn number(value: f64) -> String {
    match value {
        v if v < 999.5 => format!("{v:.0}"),
        v if v < 999_500.0 => format!("{:.1} k", v / 1e3),
        v => format!("{:.1} M", v / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::OpenCalls;

    #[test]
    fn the_table_fits_and_is_sorted() {
        let job = |key: &str, share, bytes| JobRate {
            job_key: key.into(),
            user: Some("ada".into()),
            command: Some("./solve ".to_owned() + &"x".repeat(200)),
            ranks: 1024,
            nodes: 16,
            running_seconds: Some(4000.0),
            calls_per_second: 123_456.0,
            bytes_per_second: bytes,
            mpi_seconds_per_second: share * 1024.0,
            mpi_time_share: Some(share),
            top_operation: Some("neighbor_alltoallv".into()),
            top_operation_share: Some(0.8),
            ..JobRate::default()
        };
        let rates = |jobs: &[JobRate]| JobRates { jobs: jobs.to_vec(), ..JobRates::default() };
        let mut jobs = [job("slurm:1.0@1000", 0.1, 5e9), job("slurm:2.0@1000", 0.4, 1e9)];
        for (width, order, first) in [(80, Order::Mpi, "slurm:2"), (160, Order::Bytes, "slurm:1")] {
            let view = View { screen: None, order, json: false, notes: Vec::new() };
            jobs.sort_by(|one, other| order.value(other).total_cmp(&order.value(one)));
            let text = view.table(&rates(&jobs), 10, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.lines().nth(2).is_some_and(|line| line.starts_with(first)), "{text}");
            assert!(text.contains("123.5 k") && text.contains("sending 6.0 GB/s in all"), "{text}");
        }
        let open = OpenCalls {
            operation: "barrier".into(),
            ranks: 3,
            longest_seconds: 138.4,
            ..OpenCalls::default()
        };
        let hung = JobRate { open_call: Some(open), ..job("slurm:3", 0.75, 0.0) };
        assert_eq!(operation(&hung), "barrier for 138 s: 3 ranks");
        let text = View { screen: None, order: Order::Mpi, json: false, notes: Vec::new() }.table(
            &rates(&[hung]),
            10,
            80,
        );
        assert!(text.contains("75.0 %") && text.contains("barrier for 138 s: 3 ranks"), "{text}");
        let said = "In one call for a minute or more: 1 job, the longest slurm:3 barrier for 138 s: 3 ranks";
        assert!(said.starts_with(text.lines().nth(1).unwrap().trim_end_matches('…')), "{text}");
        // Four threads of each of 1,024 ranks: no share of the ranks' time.
        let threads =
            JobRate { mpi_seconds_per_second: 3900.25, mpi_time_share: None, ..job("slurm:4", 0.0, 0.0) };
        let text = View { screen: None, order: Order::Mpi, json: false, notes: Vec::new() }.table(
            &rates(&[threads]),
            10,
            80,
        );
        assert!(text.contains("3900.2 thr") && !text.contains(" %  "), "{text}");
        let notes = vec!["8 other jobs are shown live, the most at a time; ".repeat(3)];
        let text = View { screen: None, order: Order::Mpi, json: false, notes }.table(&rates(&jobs), 10, 80);
        assert!(
            text.contains("8 other jobs are shown live") && text.lines().all(|line| line.len() <= 80),
            "{text}"
        );
        assert_eq!(Order::Calls.next(), Order::Mpi);
        assert!(order("time").unwrap_err().contains("mpi, bytes, calls"));
        assert!(interval("0").is_err());
    }
}
