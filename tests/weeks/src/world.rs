//! Plays a plan: the site, who sends to it, the jobs that run, and what is compared.

use crate::checks::{self, Checks, Window, span};
use crate::clock::{FakedClock, pause, true_seconds};
use crate::jobs::{Job, Rows};
use crate::plan::{Plan, SETTLED, Step};
use crate::program::{MpiProgram, compile};
use crate::prometheus::Prometheus;
use crate::send::{Feed, Senders};
use crate::site::Site;
use crate::truth::{DAY, HOUR, INTERVAL};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use throughline_sample::row_rules::DEFAULT;
use tokio_postgres::Client;

/// The clock jumps by at most so much at once where nothing is read.
const JUMP: i64 = 2 * DAY;
/// How long it may take, by true time, until what ranks sent is stored.
const STORED: Duration = Duration::from_secs(60);

/// How long after a jump `status` may report what it did, in true seconds.
const STATUS_SECONDS: f64 = 30.0;
/// How long programs may take to call MPI, in true seconds.
const PROGRAMS_READY: f64 = 60.0;

/// Ranks' rows are there for a week after the end of their job.
const ROWS: i64 = 6 * DAY;
/// From here on totals are all there is.
const TOTALS_FROM: i64 = 9 * DAY;
/// Jobs are known for a year after their end, and are gone a week later at the latest.
const JOBS: i64 = 365 * DAY;
const JOBS_GONE: i64 = 373 * DAY;
/// Tables of more bytes are compared, and how far the prediction may be off.
const SIZED_BYTES: f64 = 1e7;
const SIZE_SHARE: f64 = 0.15;

/// What is known of a job: operations, regions, matrix of ranks, traffic of nodes, matrix of nodes.
struct WantedJob {
    name: String,
    number: u32,
    ended: Option<i64>,
    parts: [Rows; 5],
}

/// What is there.
pub struct World {
    plan: Plan,
    spans: Vec<(i64, i64)>,
    clock: FakedClock,
    site: Site,
    client: Client,
    senders: Senders,
    prometheus: Prometheus,
    jobs: Vec<Job>,
    programs: Vec<MpiProgram>,
    programs_ended: Option<i64>,
    /// When the world began, seconds since 1970: a midnight.
    began: i64,
    /// Readings of the late host that are on their way.
    late: Vec<(i64, i64)>,
    at: i64,
    /// Ranks push nothing.
    is_held: bool,
    checks: Checks,
    /// Records that came too late so far, and when the last did.
    rejected: i64,
    rejected_at: Option<i64>,
    /// True seconds at the begin.
    since: f64,
}

impl World {
    /// Starts all; `bin` is where Throughline's programs are.
    pub async fn start(plan: Plan, folder: &Path, bin: &Path, is_quiet: bool) -> anyhow::Result<Self> {
        let mut clock = FakedClock::open()?;
        let began = (FakedClock::now() / DAY + 1) * DAY;
        clock.jump_to(began)?;
        let mut site = Site::start(folder, bin)?;
        site.start_serve()?;
        site.start_agents()?;
        let client = site.database().await?;
        let senders = Senders::start(&format!("http://{}", site.collect), plan.links.clone(), began)?;
        let mut prometheus = Prometheus::start(folder, &site.query).await?;
        let spans = plan.spans();
        prometheus.fill(&plan.links, began, &spans).await?;
        let mut world = Self {
            plan,
            spans,
            clock,
            site,
            client,
            senders,
            prometheus,
            jobs: Vec::new(),
            programs: Vec::new(),
            programs_ended: None,
            began,
            late: Vec::new(),
            at: 0,
            is_held: false,
            checks: Checks { is_quiet, ..Checks::default() },
            rejected: 0,
            rejected_at: None,
            since: true_seconds(),
        };
        world.start_programs(bin)?;
        let end = true_seconds() + PROGRAMS_READY;
        while !world.programs.iter().all(MpiProgram::is_ready) {
            anyhow::ensure!(true_seconds() < end, "programs of MPICH do not call MPI");
            pause(Duration::from_millis(50)).await;
        }
        Ok(world)
    }

    fn start_programs(&mut self, bin: &Path) -> anyhow::Result<()> {
        let folder = &self.site.folder;
        let shim = bin.join("lib/throughline/libthroughline-mpich.so");
        let (Some(program), true) = (compile(folder)?, shim.exists()) else {
            println!("LEFT OUT: programs of MPICH: no mpicc.mpich, or no {}", shim.display());
            return Ok(());
        };
        let [socket, _] = self.site.rank_sockets();
        for (name, number, is_gone) in [("program", 7101, false), ("gone", 7102, true)] {
            self.programs.push(MpiProgram::start(
                (&program, &shim, &socket),
                folder,
                (name, number, is_gone),
            )?);
        }
        Ok(())
    }

    /// Plays the plan; how many checks failed.
    pub async fn play(mut self) -> anyhow::Result<Checks> {
        for step in self.plan.steps.clone() {
            match step {
                Step::Feed { to, jump, what } => self.feed(to, jump, what).await?,
                Step::Skip { to } => self.skip(to).await?,
                Step::Late { from, to } => {
                    println!("{} late readings of {} to {}", self.progress(), span(from), span(to));
                    self.senders.feed(from, to, Feed::LateHost)?;
                    self.senders.drained().await?;
                    self.late.retain(|late| *late != (from, to));
                    if self.plan.links.iter().any(|link| link.lost.contains(&(from, to))) {
                        // A reading and a round of its source.
                        self.rejected += (to - from) / INTERVAL * 2;
                        self.rejected_at = Some(self.at);
                    }
                }
                Step::Off { to } => self.off(to).await?,
                Step::CallAgain => self
                    .programs
                    .iter_mut()
                    .filter(|program| program.name == "program")
                    .try_for_each(MpiProgram::call_again)?,
                Step::EndPrograms => {
                    self.programs_ended = Some(self.at);
                    self.programs.iter_mut().try_for_each(MpiProgram::end)?;
                }
                Step::Sizes => {
                    self.site.thinned(&self.client).await?;
                    self.check_sizes()?;
                }
                Step::Hold => self.is_held = true,
                Step::Settle => self.site.settle(&self.client).await?,
                Step::Check => self.check().await?,
            }
        }
        Ok(self.checks)
    }

    fn progress(&self) -> String {
        format!("[{:4.0} s] {}", true_seconds() - self.since, span(self.at))
    }

    async fn feed(&mut self, to: i64, jump: i64, what: Feed) -> anyhow::Result<()> {
        println!("{} all is read until {}", self.progress(), span(to));
        if what == Feed::ButLateHost {
            self.late.push((self.at, to));
        }
        while self.at < to {
            let from = self.at;
            self.jump_to(to.min(from + jump))?;
            self.senders.feed(from, self.at, what)?;
            self.senders.drained().await?;
        }
        Ok(())
    }

    async fn skip(&mut self, to: i64) -> anyhow::Result<()> {
        println!("{} the clock jumps to {}", self.progress(), span(to));
        while self.at < to {
            self.jump_to(to.min(self.at + JUMP))?;
            pause(Duration::from_secs(2)).await;
        }
        Ok(())
    }

    /// True time goes on meanwhile: the world is never ahead of its clock.
    fn jump_to(&mut self, second: i64) -> anyhow::Result<()> {
        self.clock.jump_to(self.began + second)?;
        self.at = second;
        let sockets: [PathBuf; 2] = self.site.rank_sockets();
        let started = self.jobs.len();
        let due = self.plan.jobs.iter().skip(started).take_while(|plan| plan.starts <= second);
        self.jobs.extend(due.cloned().map(|plan| Job::start(plan, &sockets)).collect::<Vec<_>>());
        if self.is_held {
            return Ok(());
        }
        self.jobs.iter_mut().try_for_each(|job| job.go_on(second))
    }

    async fn off(&mut self, to: i64) -> anyhow::Result<()> {
        println!("{} the server and its database are off until {}", self.progress(), span(to));
        self.site.stop_serve();
        self.site.stop_database();
        while self.at < to {
            self.jump_to(to.min(self.at + JUMP))?;
            pause(Duration::from_secs(2)).await;
        }
        self.site.start_database()?;
        self.site.start_serve()?;
        self.client = self.site.database().await?;
        Ok(())
    }

    async fn check(&mut self) -> anyhow::Result<()> {
        self.check_status().await?;
        let at = self.at - SETTLED;
        println!("{} checks", self.progress());
        let now = FakedClock::now() - self.began;
        let recent = [(at - HOUR, at)];
        for (from, to) in self.plan.windows.iter().chain(&recent).copied().filter(|(_, to)| *to <= at) {
            let window = Window {
                links: &self.plan.links,
                began: self.began,
                from,
                to,
                now,
                spans: &self.spans,
                late: &self.late,
            };
            checks::integrals(&mut self.checks, &self.client, &window).await?;
            checks::increases(&mut self.checks, &self.prometheus, &window)?;
            if now - to > 9 * DAY && now - from < 360 * DAY {
                checks::last_values(&mut self.checks, &self.prometheus, &window)?;
            }
        }
        self.is_held = false;
        self.check_jobs(now).await
    }

    /// Jobs that run, and those whose rows are there: all of them, exactly.
    async fn check_jobs(&mut self, now: i64) -> anyhow::Result<()> {
        let mut wanted = Vec::new();
        for job in &self.jobs {
            let (plan, at) = (&job.plan, self.at - SETTLED);
            let parts = [
                plan.operations(at),
                plan.regions(at),
                plan.peers(at),
                plan.node_peers(at),
                plan.node_pairs(at),
            ];
            let name = plan.name.clone();
            wanted.push(WantedJob {
                name,
                number: plan.number,
                ended: job.is_over.then_some(plan.ends),
                parts,
            });
        }
        for program in &self.programs {
            let peers = program.peers();
            // Messages of collectives are laid out by the agent.
            let parts = [program.operations(), program.regions(), peers, Rows::new(), program.node_pairs()];
            let name = format!("MPI {}", program.name);
            wanted.push(WantedJob { name, number: program.number, ended: self.programs_ended, parts });
        }
        for job in wanted {
            let found = "SELECT coalesce(max(key), '') FROM internal.run WHERE native_id = $1";
            let key: String = self.client.query_one(found, &[&job.number.to_string()]).await?.get(0);
            let is_program = job.name.starts_with("MPI");
            let age = job.ended.map(|ended| now - ended);
            let [operations, regions, peers, traffic, pairs] = job.parts;
            let mut list = vec![("operations", checks::OPERATIONS, operations)];
            match age {
                None | Some(..ROWS) => list.extend([
                    ("regions", checks::REGIONS, regions),
                    ("matrix of ranks", checks::PEERS, peers),
                    ("traffic of nodes", checks::TRAFFIC, traffic),
                ]),

                Some(ROWS..TOTALS_FROM) => continue, // a chunk may be there or not
                Some(TOTALS_FROM..) if !self.plan.has_past_jobs => continue,
                Some(TOTALS_FROM..JOBS) => list.push(("matrix of nodes", checks::PAIRS, pairs)),
                Some(JOBS..JOBS_GONE) => continue,
                Some(_) => list = vec![("operations", checks::OPERATIONS, Rows::new())],
            }
            for (what, query, part) in
                list.into_iter().filter(|(what, ..)| !(is_program && what.starts_with("traffic")))
            {
                let got = self.stored(query, &key, &part).await?;
                self.checks.rows(&format!("{what} of job {} at {}", job.name, span(now)), &part, &got);
            }
            if age.is_some_and(|age| (TOTALS_FROM..JOBS).contains(&age)) {
                let (text, is_well) = self.site.throughline(&["job", "matrix", &key])?;
                let got = text.lines().take(4).collect::<Vec<_>>().join(" / ");
                let is_met = is_well && text.contains(crate::jobs::NODES[0]);
                self.checks.check(
                    &format!("job matrix of {} at {}", job.name, span(now)),
                    "the nodes",
                    got,
                    is_met,
                );
            }
        }
        Ok(())
    }

    /// Tables above 10 MB beside what `throughline db size` predicts for as long as they have rows.
    fn check_sizes(&mut self) -> anyhow::Result<()> {
        let report = self.site.database_status()?;
        for table in report["tables"].as_array().into_iter().flatten() {
            let (Some(bytes), name) = (table["bytes"].as_f64(), table["table"].as_str().unwrap_or("?"))
            else {
                continue;
            };
            if bytes > SIZED_BYTES {
                let predicted = table["predicted_bytes"].as_f64().unwrap_or(0.0);
                self.checks.near(
                    &format!("bytes of {name} at {}", span(self.at)),
                    bytes,
                    predicted,
                    SIZE_SHARE,
                );
            }
        }
        Ok(())
    }

    /// What is stored, once it is as wanted, or for so long.
    async fn stored(&self, query: &str, key: &str, wanted: &Rows) -> anyhow::Result<Rows> {
        let end = Instant::now() + STORED;
        loop {
            let got = checks::rows(&self.client, query, key).await?;
            if got == *wanted || Instant::now() > end {
                return Ok(got);
            }
            pause(Duration::from_millis(500)).await;
        }
    }

    async fn check_status(&mut self) -> anyhow::Result<()> {
        let row = self
            .client
            .query_one(
                "SELECT coalesce(sum(records), 0)::bigint,
                        coalesce(string_agg(format(' (%s %s of %s: %s)', records, kind, sender, reason), ''), '')
                 FROM internal.record_quarantine",
                &[],
            )
            .await?;
        let (got, which): (i64, String) = (row.get(0), row.get(1));
        self.checks.check(
            &format!("records rejected by {}{which}", span(self.at)),
            self.rejected,
            got,
            self.rejected == got,
        );
        let wanted = if self.rejected_at.is_some_and(|at| self.at - at < 2 * DAY) {
            "REJECTED"
        } else {
            "Nothing is wrong"
        };
        let end = true_seconds() + STATUS_SECONDS;
        let lines = loop {
            let (text, _) = self.site.throughline(&["status"])?;
            let lines =
                text.lines().filter(|line| !line.trim().is_empty()).take(8).collect::<Vec<_>>().join(" / ");
            if text.contains(wanted) || true_seconds() > end {
                break lines;
            }
            pause(Duration::from_secs(1)).await;
        };
        // A slow machine: what is read last is old by now, and rightly said to be.
        #[allow(clippy::cast_precision_loss)] // seconds
        let age = (FakedClock::now() - self.began - self.at) as f64;
        if lines.contains("SILENT") && DEFAULT.is_silent(Some(age)) {
            println!("status at {} is not judged: the last readings are {age} s old", span(self.at));
        } else {
            self.checks.check(
                &format!("status at {}", span(self.at)),
                wanted,
                &lines,
                lines.contains(wanted),
            );
        }
        let end = true_seconds() + STATUS_SECONDS;
        let text = loop {
            let health = ureq::get(format!("http://{}/healthz", self.site.query))
                .config()
                .http_status_as_error(false)
                .build()
                .call();
            let text = health?.body_mut().read_to_string()?;
            // Each jump ends the statements that are in progress, and so a check of the database once.
            if text.starts_with("ok") || true_seconds() > end {
                break text;
            }
            pause(Duration::from_secs(1)).await;
        };
        self.checks.check(
            &format!("healthz at {}", span(self.at)),
            "ok",
            text.trim().replace('\n', " / "),
            text.starts_with("ok"),
        );
        Ok(())
    }
}
