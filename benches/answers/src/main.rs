//! `bench-answers`: sends one recorded input to two builds, each in its own protocol and under the same wall clock, and compares
//! all that either answers: routes, views, PromQL and commands. `benches/answers.sh` builds and calls it.

mod answers;
mod compare;
mod input;
mod record;
mod renames;
mod requests;
mod self_metrics;
mod site;
mod times;
mod wire;

use answers::{Answers, Lists};
use anyhow::{Context, ensure};
use clap::{Args, Parser, Subcommand};
use compare::{Counts, Difference, Rules, compare};
use input::Seed;
use serde_json::{Value, json};
use site::{Build, DEMO, RELEASE, Site};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use times::Compared;
use wire::{Schema, Sender};

/// What a server has cached for the second in which it was read is gone by then.
const CACHES: Duration = Duration::from_millis(2500);
/// By then a request for detail is with its senders, and what they answer is taken.
const ORDERS: Duration = Duration::from_secs(5);
/// The database is made so long before the first batch.
const BEFORE_NANOSECONDS: i64 = 60_000_000_000;
/// Differences that are printed of a surface.
const SHOWN: usize = 15;

/// Answers by moment.
type Moments = BTreeMap<String, Answers>;
/// A site that has its input, and what it answered meanwhile.
type Played = (Site, Moments);

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Compares two builds
    Compare {
        old: PathBuf,
        new: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Measures the processor time of each request on two builds, in turn
    Times {
        old: PathBuf,
        new: PathBuf,
        /// Only requests that contain this
        #[arg(long, default_value = "")]
        only: String,
        #[command(flatten)]
        options: Options,
    },
    /// Measures the processor time of each request of one build on a site of some hours, and on one with months of history
    History {
        build: PathBuf,
        /// Only requests that contain this
        #[arg(long, default_value = "")]
        only: String,
        #[command(flatten)]
        options: Options,
    },
    /// Compares a build with itself, where errors are seeded into the input: each must be found
    Seeds {
        build: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Records what is sent to a Unix socket, and passes it on to another one
    Record { checkout: PathBuf, listen: PathBuf, upstream: PathBuf, file: PathBuf },
}

#[derive(Args)]
struct Options {
    /// Folder with the input and the lists
    #[arg(long)]
    lists: PathBuf,
    /// The compiled clock
    #[arg(long)]
    clock: PathBuf,
    /// Folder of PostgreSQL's programs
    #[arg(long)]
    postgres: PathBuf,
    /// Prometheus' program
    #[arg(long)]
    prometheus: PathBuf,
    /// Writes counts and all differences as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Leaves all answers in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Action::Record { checkout, listen, upstream, file } => {
            record::run(&checkout, &listen, upstream, &file).await?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Compare { old, new, options } => {
            let (old, new) = (Build::of("old", &old, DEMO)?, Build::of("new", &new, DEMO)?);
            let bench = Bench::new(options)?;
            let input = input::read(&bench.options.lists)?;
            bench.lists.requests.check(&old.checkout, &old.throughline(), &renames::Renames::default())?;
            bench.lists.requests.check(&new.checkout, &new.throughline(), &bench.lists.renames)?;
            let ((_, old), (_, new)) = bench.play_both((&old, &input), (&new, &input), true)?;
            let (counts, found) = bench.compare(&old, &new)?;
            bench.report(&counts, &found)?;
            Ok(ExitCode::from(u8::from(!found.is_empty())))
        }
        Action::Times { old, new, only, options } => {
            let (old, new) = (Build::of("old", &old, RELEASE)?, Build::of("new", &new, RELEASE)?);
            let bench = Bench::new(options)?;
            let input = input::read(&bench.options.lists)?;
            let moment = input.iter().rev().find_map(|line| line["moment"].as_str()).context("a moment")?;
            let now = input.iter().rev().find_map(|line| line["at"].as_i64()).context("a time")?;
            let ((old, _), (new, _)) = bench.play_both((&old, &input), (&new, &input), false)?;
            let mut sites = [old, new];
            let is_met = tokio::task::block_in_place(|| {
                times::measure(&mut sites, &bench.lists, (moment, now), (&only, Compared::Builds))
            })?;
            Ok(ExitCode::from(u8::from(!is_met)))
        }
        Action::History { build, only, options } => {
            let young = Build::of("new", &build, RELEASE)?;
            let bench = Bench::new(options)?;
            let input = input::read(&bench.options.lists)?;
            let moment = input.iter().rev().find_map(|line| line["moment"].as_str()).context("a moment")?;
            let now = input.iter().rev().find_map(|line| line["at"].as_i64()).context("a time")?;
            let ((one, _), (other, _)) = bench.play_both((&young, &input), (&young, &input), false)?;
            let mut sites = [one, other];
            let is_met = tokio::task::block_in_place(|| {
                times::measure(&mut sites, &bench.lists, (moment, now), (&only, Compared::History))
            })?;
            Ok(ExitCode::from(u8::from(!is_met)))
        }
        Action::Seeds { build, options } => {
            let bench = Bench::new(options)?;
            let build = Build::of("old", &build, DEMO)?;
            let mut input = input::read(&bench.options.lists)?;
            let clean = input.clone();
            let seeds = Seed::read(&bench.options.lists)?;
            seeds.iter().try_for_each(|seed| seed.plant(&mut input))?;
            let seeded = Build { name: "seeded", ..build.clone() };
            let ((_, clean), (_, seeded)) = bench.play_both((&build, &clean), (&seeded, &input), true)?;
            let (counts, found) = bench.compare(&clean, &seeded)?;
            bench.report(&counts, &found)?;
            let mut missed = 0;
            for seed in &seeds {
                let is_it = |one: &&Difference| {
                    one.surface == seed.surface
                        && one.request.contains(&seed.request)
                        && one.path.contains(&seed.path)
                };
                match found.iter().find(is_it) {
                    Some(Difference { request, path, old, new, .. }) => {
                        println!("found: {}: {request} {path}: {old:.80} is {new:.80}", seed.name);
                    }
                    None => {
                        missed += 1;
                        println!("MISSED: {} in {} {}", seed.name, seed.surface, seed.request);
                    }
                }
            }
            println!("{} of {} seeded errors found", seeds.len() - missed, seeds.len());
            Ok(ExitCode::from(u8::from(missed > 0)))
        }
    }
}

struct Bench {
    options: Options,
    lists: Lists,
    host: String,
}

impl Bench {
    fn new(options: Options) -> anyhow::Result<Self> {
        let lists = Lists::read(&options.lists, options.prometheus.clone())?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
        Ok(Self { options, lists, host })
    }

    /// Two builds with their inputs, at the same time: much of it is waiting.
    fn play_both(
        &self,
        one: (&Build, &[Value]),
        other: (&Build, &[Value]),
        with_answers: bool,
    ) -> anyhow::Result<(Played, Played)> {
        let runtime = tokio::runtime::Handle::current();
        let play = |(build, input): (&Build, &[Value])| {
            let played = runtime.block_on(self.play(build, input, with_answers));
            // The other one goes on for minutes.
            played.inspect_err(|error| eprintln!("{}: {error:#}", build.name))
        };
        tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| play(other));
                let one = play(one)?;
                Ok((one, other.join().map_err(|_| anyhow::anyhow!("a run broke off"))??))
            })
        })
    }

    /// Sends the input to a build; its answers at each moment where they are wanted.
    async fn play(&self, build: &Build, input: &[Value], with_answers: bool) -> anyhow::Result<Played> {
        let begun = Instant::now();
        let is_old = build.name != "new";
        let first = input.first().and_then(|line| line["at"].as_i64()).context("an empty input")?;
        let site =
            Site::start(build, &self.options.clock, &self.options.postgres, first - BEFORE_NANOSECONDS)?;
        let schema = Schema::of(&build.checkout)?;
        let knows_fabrics = schema.knows_fabrics();
        let mut sender = Sender::connect(&schema, &site.collect).await?;
        let mut moments = BTreeMap::new();
        let mut batches = 0;
        for line in input {
            let now = line["at"].as_i64().context("at")?;
            site.set_clock(now)?;
            if !line["batch"].is_null() {
                let mut line = line.clone();
                if !is_old {
                    line["batch"] = self.lists.renames.json("wire", line["batch"].take());
                    self.lists.renames.self_stats(&mut line["batch"]);
                }
                if knows_fabrics {
                    renames::fabric(&mut line["batch"]);
                }
                sender.send(&line).await?;
                batches += 1;
            } else if let Some(path) = line["post"].as_str() {
                answers::post(&site, path)?;
                std::thread::sleep(ORDERS);
            } else if !line["upkeep"].is_null() {
                site.upkeep()?;
            } else if let Some(moment) = line["moment"].as_str().filter(|_| with_answers) {
                std::thread::sleep(CACHES);
                let answers = answers::all(&site, &self.lists, moment, now, is_old)?;
                eprintln!("{}: {moment}: {} answers, {:.0?}", build.name, answers.len(), begun.elapsed());
                self.keep(build, moment, &answers)?;
                moments.insert(moment.to_owned(), answers);
            }
        }
        ensure!(!with_answers || !moments.is_empty(), "the input has no moment");
        eprintln!("{}: {batches} batches, {:.0?}", build.name, begun.elapsed());
        Ok((site, moments))
    }

    fn keep(&self, build: &Build, moment: &str, answers: &Answers) -> anyhow::Result<()> {
        let Some(folder) = &self.options.keep else { return Ok(()) };
        for ((surface, request), answer) in answers {
            let folder = folder.join(build.name).join(moment).join(surface);
            std::fs::create_dir_all(&folder)?;
            let name: String =
                request.chars().map(|letter| if letter == '/' { '+' } else { letter }).take(200).collect();
            let text = match answer {
                answers::Answer::Text(text) => text.clone(),
                answers::Answer::Json(document) => serde_json::to_string_pretty(document)?,
            };
            std::fs::write(folder.join(name), text)?;
        }
        Ok(())
    }

    fn compare(&self, old: &Moments, new: &Moments) -> anyhow::Result<(Counts, Vec<Difference>)> {
        let (mut counts, mut found) = (Counts::new(), Vec::new());
        let rules = Rules { renames: &self.lists.renames, excluded: &self.lists.excluded, host: &self.host };
        for (moment, old) in old {
            let new = new.get(moment).context("a moment")?;
            let from = found.len();
            let (mut old, mut new) = (old.clone(), new.clone());
            let (compared, differing) = self_metrics::compare((&mut old, &mut new), &rules, &mut found);
            compare(&old, &new, &rules, &mut counts, &mut found);
            let count = counts.entry("promql".to_owned()).or_default();
            *count = (count.0 + compared, count.1 + differing);
            found[from..].iter_mut().for_each(|one| one.request = format!("{moment}: {}", one.request));
        }
        Ok((counts, found))
    }

    fn report(&self, counts: &Counts, found: &[Difference]) -> anyhow::Result<()> {
        for (surface, (answers, differing)) in counts {
            for Difference { request, path, old, new, .. } in
                found.iter().filter(|one| one.surface == *surface).take(SHOWN)
            {
                println!("  {request} {path}: old {old}, new {new}");
            }
            println!("{surface}: {answers} answers compared, {differing} differ");
        }
        if let Some(path) = &self.options.json {
            let differences = found.iter().map(|one| {
                json!({ "surface": one.surface, "request": one.request, "path": one.path, "old": one.old, "new": one.new })
            });
            let document = json!({ "answers": counts, "differences": differences.collect::<Vec<_>>() });
            std::fs::write(path, document.to_string())?;
        }
        Ok(())
    }
}
