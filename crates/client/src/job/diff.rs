//! `job diff`: the ratio of time of two jobs per operation and size class, with their counts.

mod headline;
mod places;

use super::as_of;
use super::name::find;
use super::{mean, part};
use crate::text::{ABSENT, Table, age, clean, columns, folded, percent, seconds, size_class, thousands};
use crate::{Answer, Server, answer};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use throughline_api::JobState;
use throughline_api::jobs::{Job, JobDetail, JobRanks, Operation};
use throughline_daemon::Failure;

/// Shown below the options.
const HELP: &str = "\
Examples:
  throughline job diff last-1 last                  the newest two jobs
  throughline job diff 4711 4712 --by operation     without size classes
  throughline job diff 4711 4712 --json | jq '.comparison.rows[] | select(.calls_differ)'

The first lines say which took longer, and where most of the difference is.
Each ratio is A divided by B: below 1 A took less time, above 1 B did. CALL is the ratio of the mean
time of a call, TIME that of all calls together. The first lines are those in which the two differ
most in time. A `!` marks calls that differ in number: there the totals compare different work.";

/// Options of `job diff`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Options {
    /// Divide the times of this job
    #[arg(value_name = "A")]
    a: String,
    /// Divide by the times of this job
    #[arg(value_name = "B")]
    b: String,
    /// Make a line of each
    #[arg(long, value_name = "WHAT", default_value = "size", value_parser = ["size", "operation"])]
    by: String,
    /// Show at most N lines
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print the answers of the API and every line as one JSON object
    #[arg(long)]
    json: bool,
}

/// Two jobs and their comparison.
#[derive(Debug)]
struct Document {
    a: Job,
    b: Job,
    comparison: Comparison,
}

/// The comparison, as the document has it.
#[derive(Debug, Default, Serialize)]
struct Comparison {
    /// Ratio of the time inside MPI.
    mpi_time_ratio: Option<f64>,
    /// Ratio of the durations.
    duration_ratio: Option<f64>,
    /// Time of the ranks outside of MPI, summed, of A and B; null where it is not known, or several threads were in MPI at a time.
    compute_seconds: [Option<f64>; 2],
    /// What differs of the ranks' nodes, CPUs, GPUs and adapter ports.
    placement: Vec<String>,
    /// What keeps the two from being compared, or limits it.
    caveats: Vec<String>,
    rows: Vec<Row>,
}

/// One operation and size class.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Row {
    operation: String,
    /// Largest message of the class, bytes; null for a whole operation.
    size_class_bytes: Option<u64>,
    a: Option<Side>,
    b: Option<Side>,
    /// Whether the numbers of calls differ.
    calls_differ: bool,
    /// Mean time of a call, A divided by B.
    call_time_ratio: Option<f64>,
    /// Time of all calls, A divided by B; null where the worlds differ.
    time_ratio: Option<f64>,
    /// Time of all calls, A minus B.
    difference_seconds: f64,
}

/// What one of the jobs did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Side {
    calls: u64,
    bytes: u64,
    elapsed_seconds: f64,
    seconds_per_call: Option<f64>,
    /// Names of what the library did inside, where it is known.
    algorithms: Vec<String>,
}

/// Prints the comparison.
///
/// # Errors
/// No such job (1); see [`crate::Error`].
pub fn run(server: &Server, options: &Options) -> anyhow::Result<ExitCode> {
    let [a, b] = [read(server, &options.a)?, read(server, &options.b)?];
    let by_size = options.by == "size";
    let sides = [sides(&a.job.value.operations, by_size), sides(&b.job.value.operations, by_size)];
    let jobs = [a.job.value.job.clone(), b.job.value.job.clone()];
    let mut document = compare(jobs, [&a.job.value.libraries, &b.job.value.libraries], sides);
    document.comparison.placement = places::differences(&a.ranks.value, &b.ranks.value);
    if options.json {
        let comparison = serde_json::to_string(&document.comparison)?;
        let text = answer::joined([
            ("a", a.document().as_str()),
            ("b", b.document().as_str()),
            ("comparison", comparison.as_str()),
        ]);
        answer::print([text.as_str()])?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text(&document, options.limit as usize, columns()).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What the API answers of a job.
struct Answers {
    job: Answer<JobDetail>,
    ranks: Answer<JobRanks>,
}

impl Answers {
    /// The answers under the names of their routes.
    fn document(&self) -> String {
        answer::joined([("job", self.job.body.as_str()), ("ranks", &self.ranks.body)])
    }
}

fn read(server: &Server, name: &str) -> Result<Answers, Failure> {
    let key = find(server, name)?;
    let job = server.answer(&["jobs", &key], &[])?;
    Ok(Answers { job, ranks: server.answer(&["jobs", &key, "ranks"], &[])? })
}

type Sides = BTreeMap<(String, Option<u64>), Side>;

fn sides(operations: &[Operation], by_size: bool) -> Sides {
    let mut sides = Sides::new();
    let sizes =
        operations.iter().flat_map(|operation| operation.sizes.iter().map(move |size| (operation, size)));
    for (operation, size) in sizes {
        let class = by_size.then_some(size.size_class_bytes);
        let side = sides.entry((operation.operation.clone(), class)).or_default();
        side.calls = side.calls.saturating_add(size.calls);
        side.bytes = side.bytes.saturating_add(size.bytes);
        side.elapsed_seconds += size.elapsed_seconds;
        for algorithm in &size.algorithms {
            if !side.algorithms.contains(algorithm) {
                side.algorithms.push(algorithm.clone());
            }
        }
    }
    for side in sides.values_mut() {
        side.seconds_per_call = mean(side.elapsed_seconds, side.calls);
    }
    sides
}

fn compare([a, b]: [Job; 2], libraries: [&Vec<String>; 2], [of_a, mut of_b]: [Sides; 2]) -> Document {
    let mut rows: Vec<Row> = Vec::new();
    for (key, side) in of_a {
        let other = of_b.remove(&key);
        rows.push(row(key, Some(side), other));
    }
    rows.extend(of_b.into_iter().map(|(key, side)| row(key, None, Some(side))));
    let weight = |row: &Row| row.difference_seconds.abs();
    rows.sort_by(|one, other| {
        weight(other).total_cmp(&weight(one)).then_with(|| one.operation.cmp(&other.operation))
    });
    let caveats = caveats(&a, &b, libraries, &rows);
    let one_world = world(&a) == world(&b);
    if !one_world {
        rows.iter_mut().for_each(|row| row.time_ratio = None);
    }
    let comparison = Comparison {
        mpi_time_ratio: ratio(a.mpi_seconds(), b.mpi_seconds()).filter(|_| one_world),
        duration_ratio: ratio(a.lasted_seconds(), b.lasted_seconds()),
        compute_seconds: [compute(&a), compute(&b)],
        placement: Vec::new(),
        caveats,
        rows,
    };
    Document { a, b, comparison }
}

/// Time of a job's ranks outside of MPI.
fn compute(job: &Job) -> Option<f64> {
    let (inside, observed) = job.mpi_seconds().zip(job.observed_seconds())?;
    (!job.is_threaded()).then_some((observed - inside).max(0.0))
}

fn row((operation, size_class_bytes): (String, Option<u64>), a: Option<Side>, b: Option<Side>) -> Row {
    let time = |side: &Option<Side>| side.as_ref().map(|side| side.elapsed_seconds);
    let call = |side: &Option<Side>| side.as_ref().and_then(|side| side.seconds_per_call);
    let calls = |side: &Option<Side>| side.as_ref().map_or(0, |side| side.calls);
    Row {
        operation,
        size_class_bytes,
        calls_differ: calls(&a) != calls(&b),
        call_time_ratio: ratio(call(&a), call(&b)),
        time_ratio: ratio(time(&a), time(&b)),
        difference_seconds: time(&a).unwrap_or(0.0) - time(&b).unwrap_or(0.0),
        a,
        b,
    }
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).and_then(|(a, b)| part(a, b))
}

fn world(job: &Job) -> u64 {
    job.world_size.unwrap_or(job.ranks)
}

/// What limits the comparison, the gravest first.
fn caveats(a: &Job, b: &Job, libraries: [&Vec<String>; 2], rows: &[Row]) -> Vec<String> {
    let mut caveats = Vec::new();
    if world(a) != world(b) {
        caveats.push(format!(
            "The worlds differ: A has {} ranks, B {}. Calls and total times can't be compared; the time of a call can, \
             where it does not depend on the number of ranks.",
            thousands(world(a)),
            thousands(world(b))
        ));
    }
    for (name, job) in [("A", a), ("B", b)] {
        match job.state {
            JobState::Running => caveats.push(match &job.as_of {
                Some(at) => {
                    format!("{name} still runs: its calls and times in MPI are {}.", as_of::words(at))
                }
                None => format!("{name} still runs: nothing of its calls is known yet."),
            }),
            JobState::Lost => caveats.push(format!(
                "{} ranks of {name} ended without MPI_Finalize: what they did last may be missing.",
                thousands(job.ranks_lost)
            )),
            JobState::Silent => caveats.push(format!("{name} fell silent: what came last may be missing.")),
            JobState::Ended => {}
        }
        if job.totals.is_none() && job.state != JobState::Running {
            caveats.push(format!("{name} has no rows: it sent none, or they are older than the retention."));
        }
    }
    if a.nodes != b.nodes {
        caveats.push(format!("A ran on {} nodes, B on {}.", thousands(a.nodes), thousands(b.nodes)));
    }
    if libraries[0] != libraries[1] {
        let names = |names: &Vec<String>| {
            names
                .iter()
                .map(|name| clean(name.split(", package").next().unwrap_or(name), 60))
                .collect::<Vec<_>>()
                .join(" and ")
        };
        caveats.push(format!(
            "The MPI libraries differ: A {}; B {}.",
            names(libraries[0]),
            names(libraries[1])
        ));
    }
    if a.command != b.command {
        caveats.push("The commands differ.".to_owned());
    }
    let differing = rows.iter().filter(|row| row.calls_differ).count();
    if differing > 0 && world(a) == world(b) {
        caveats.push(format!(
            "The numbers of calls differ in {differing} of {} lines (marked !): there only the time of a call compares.",
            rows.len()
        ));
    }
    caveats
}

/// From this width on each job's time of a call is shown.
const WIDE: usize = 120;

fn text(document: &Document, limit: usize, width: usize) -> String {
    let mut text = String::new();
    for sentence in headline::sentences(document) {
        text.push_str(folded(&sentence, width).join("\n").trim_start());
        text.push('\n');
    }
    text.push('\n');
    for (name, job) in [("A", &document.a), ("B", &document.b)] {
        let lasted = job.lasted_seconds().map_or(ABSENT.to_owned(), age);
        let inside = match (job.mpi_seconds(), job.mpi_time_share()) {
            (Some(inside), Some(share)) => {
                format!("{} of the ranks' time in MPI ({})", percent(Some(share)), seconds(inside))
            }
            (Some(inside), None) if job.is_threaded() => {
                format!("{} in MPI, summed over threads", seconds(inside))
            }
            (inside, _) => format!("{} in MPI", inside.map_or(ABSENT.to_owned(), seconds)),
        };
        let line = format!(
            "{name}  {}: {} ranks, {lasted}, {inside}  {}",
            job.job_key,
            thousands(job.ranks),
            job.title().unwrap_or_default()
        );
        text.push_str(clean(&line, width).trim_end());
        text.push('\n');
    }
    text.push_str(&times_of_ranks(document, width));
    for caveat in document.comparison.placement.iter().chain(&document.comparison.caveats) {
        text.push_str(&folded(caveat, width).join("\n"));
        text.push('\n');
    }
    let all = format!(
        "Ratios are A divided by B, below 1 where A took less time. Time in MPI {}, duration {}.",
        times(document.comparison.mpi_time_ratio),
        times(document.comparison.duration_ratio)
    );
    text.push_str(&format!("\n{}\n\n", folded(&all, width).join("\n").trim_start()));
    text.push_str(&table(document, limit, width));
    text
}

/// Where the ranks' time went, in both.
fn times_of_ranks(document: &Document, width: usize) -> String {
    let mut table = Table::new(&["TIME OF ALL RANKS", "<A", "<B", "<A / B"]);
    let mpi = [document.a.mpi_seconds(), document.b.mpi_seconds()];
    for (name, [a, b]) in [("computing", document.comparison.compute_seconds), ("in MPI", mpi)] {
        let shown = |time: Option<f64>| time.map_or(ABSENT.to_owned(), seconds);
        table.row(vec![name.to_owned(), shown(a), shown(b), times(ratio(a, b))]);
    }
    let lines = table.text();
    lines.lines().map(|line| clean(line, width).trim_end().to_owned() + "\n").collect()
}

fn table(document: &Document, limit: usize, width: usize) -> String {
    let wide = width >= WIDE;
    let mut headings = vec!["OPERATION", "<UP TO", "<CALLS A", "<CALLS B", "", "<CALL"];
    if wide {
        headings.splice(5..5, ["<A CALL", "<B CALL"]);
    }
    headings.extend(["<A TIME", "<B TIME", "<TIME"]);
    if wide {
        headings.push("ALGORITHMS");
    }
    let by_size = document.comparison.rows.iter().any(|row| row.size_class_bytes.is_some());
    if !by_size {
        headings.remove(1);
    }
    let mut table = Table::new(&headings);
    let side = |side: &Option<Side>, of: &dyn Fn(&Side) -> Option<f64>| {
        side.as_ref().and_then(of).map_or(ABSENT.to_owned(), seconds)
    };
    let calls = |side: &Option<Side>| side.as_ref().map_or(ABSENT.to_owned(), |side| thousands(side.calls));
    for row in document.comparison.rows.iter().take(limit) {
        let mut cells = vec![
            clean(&row.operation, 24),
            row.size_class_bytes.map_or(ABSENT.to_owned(), size_class),
            calls(&row.a),
            calls(&row.b),
            if row.calls_differ { "!" } else { "" }.to_owned(),
            times(row.call_time_ratio),
            side(&row.a, &|side| Some(side.elapsed_seconds)),
            side(&row.b, &|side| Some(side.elapsed_seconds)),
            times(row.time_ratio),
        ];
        if wide {
            let each =
                [side(&row.a, &|side| side.seconds_per_call), side(&row.b, &|side| side.seconds_per_call)];
            cells.splice(5..5, each);
            cells.push(algorithms(row));
        }
        if !by_size {
            cells.remove(1);
        }
        table.row(cells);
    }
    let mut text: String = table
        .text()
        .lines()
        .map(|line| clean(line.strip_prefix("  ").unwrap_or(line), width).trim_end().to_owned() + "\n")
        .collect();
    if document.comparison.rows.len() > limit {
        text.push_str(&format!("and {} lines that differ less\n", document.comparison.rows.len() - limit));
    }
    text
}

/// `ring`, or `ring > linear` where the two differ.
fn algorithms(row: &Row) -> String {
    let of = |side: &Option<Side>| side.as_ref().map_or(String::new(), |side| side.algorithms.join(" "));
    match (of(&row.a), of(&row.b)) {
        (a, b) if a == b && a.is_empty() => String::new(),
        (a, b) if a == b => clean(&a, 60),
        (a, b) => {
            let or = |text: String| if text.is_empty() { "unknown".to_owned() } else { text };
            clean(&format!("{} > {}", or(a), or(b)), 60)
        }
    }
}

/// A ratio: `0.98`, `1.25`, `137`, `0.012`.
fn times(ratio: Option<f64>) -> String {
    match ratio {
        None => ABSENT.to_owned(),
        Some(ratio) if ratio >= 99.95 => format!("{ratio:.0}"),
        Some(ratio) if ratio >= 9.995 => format!("{ratio:.1}"),
        Some(ratio) if ratio >= 0.0995 => format!("{ratio:.2}"),
        Some(ratio) if ratio >= 0.001 => format!("{ratio:.3}"),
        Some(_) => "< 0.001".to_owned(),
    }
}

#[cfg(test)]
mod tests;
