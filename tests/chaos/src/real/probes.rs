//! Short jobs of a user who does nothing wrong, one after the other: when each has its first verdict, and its report.

use super::contested::{self, CONTESTED_MAX, Contested, RankName};
use super::part::Part;
use super::site::Site;
use anyhow::ensure;
use std::time::{Duration, Instant};
use throughline_store::Database;
use tokio_postgres::Client;

/// Number of the first one's job; the next ones follow.
pub const FIRST_JOB: u32 = 7800;
/// Jobs at most.
pub const JOBS_MAX: u32 = 200;
/// Ranks of each, one on each agent.
const RANKS: usize = 2;
/// From the start of one to that of the next while there are faults.
const INTERVAL: Duration = Duration::from_secs(40);
/// How long each runs.
const RUNS_FOR: Duration = Duration::from_secs(35);
/// How often the database is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time for a look: a stopped database answers nothing.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);
/// A verdict is there so long after the start while it runs, and a report so long after the end, by docs/VERDICTS.md. Only time without
/// faults counts.
const VERDICT_WITHIN: Duration = Duration::from_secs(20);
const REPORT_WITHIN: Duration = Duration::from_secs(120);
/// So long after a fault all are back: longest pauses of senders, start of a server, and its lock of upkeep.
const RECOVERY: Duration = Duration::from_secs(30);

/// One job.
struct Probe {
    job: u32,
    ranks: Vec<Part>,
    began: Instant,
    ended: Option<Instant>,
    has_verdict: Option<Instant>,
    has_report: Option<Instant>,
    /// Spools of agents that were damaged before it began.
    torn_before: usize,
    /// One was damaged since: its start, its end or a rank may be lost for good, and is counted as lost.
    is_torn: bool,
}

impl Probe {
    fn is_open(&self) -> bool {
        self.has_report.is_none() && !self.is_torn
    }
}

fn torn(site: &Site) -> usize {
    site.agents.iter().map(|agent| agent.torn).sum()
}

/// All of them, and times without faults.
#[derive(Default)]
pub struct Probes {
    all: Vec<Probe>,
    calm: Vec<(Instant, Instant)>,
    disturbed: Option<Instant>,
    looked: Option<Instant>,
    client: Option<Client>,
    contested: Contested,
}

impl Probes {
    /// Notes whether a fault is on now.
    pub fn note(&mut self, is_disturbed: bool) {
        let now = Instant::now();
        if is_disturbed || self.disturbed.is_none() {
            self.disturbed = Some(now);
        } else if self.disturbed.is_some_and(|at| now - at > RECOVERY) {
            match self.calm.last_mut() {
                Some((_, end)) if now - *end < Duration::from_secs(1) => *end = now,
                _ => self.calm.push((now, now)),
            }
        }
    }

    /// Time without faults between the two.
    fn calm_between(&self, from: Instant, to: Instant) -> Duration {
        let overlap =
            |(begin, end): &(Instant, Instant)| (*end).min(to).saturating_duration_since((*begin).max(from));
        self.calm.iter().map(overlap).sum()
    }

    /// Whether the next one is due.
    pub fn is_due(&self) -> bool {
        self.all.last().is_none_or(|last| last.began.elapsed() > INTERVAL)
    }

    /// Starts one.
    pub fn start(&mut self, site: &Site) -> anyhow::Result<()> {
        let number = u32::try_from(self.all.len())?;
        if number >= JOBS_MAX {
            return Ok(());
        }
        let job = FIRST_JOB + number;
        let mut ranks = Vec::new();
        for rank in 0..RANKS {
            let mut part = Part::new(&format!("probe-{job}-{rank}"), "", &site.logs);
            part.spawn(site.rank_command(rank, RANKS, site.socket_of_agent(rank), job)?)?;
            ranks.push(part);
        }
        self.all.push(Probe {
            job,
            ranks,
            began: Instant::now(),
            ended: None,
            has_verdict: None,
            has_report: None,
            torn_before: torn(site),
            is_torn: false,
        });
        Ok(())
    }

    /// Ends those that have run for long enough, and looks at the database now and then.
    pub fn go_on(&mut self, site: &Site) {
        let torn = torn(site);
        for probe in self.all.iter_mut().filter(|probe| probe.has_report.is_none()) {
            probe.is_torn |= probe.torn_before < torn;
        }
        for probe in self.all.iter_mut().filter(|probe| probe.ended.is_none()) {
            if probe.began.elapsed() > RUNS_FOR {
                probe.ranks.iter_mut().for_each(Part::close_input);
                // They end when the agents have taken their last sums.
                if probe.ranks.iter_mut().all(|rank| rank.has_ended().is_some()) {
                    probe.ended = Some(Instant::now());
                }
            }
        }
        if self.looked.is_none_or(|at| at.elapsed() > LOOK_INTERVAL) {
            self.looked = Some(Instant::now());
            let client = self.client.take();
            let look = async { tokio::time::timeout(LOOK_PATIENCE, look(client, site.database())).await };
            if let Ok(Some((client, judged, contested))) = site.runtime.block_on(look) {
                self.client = Some(client);
                self.take_note(&judged);
                self.contested.note(&contested);
            }
        }
    }

    /// A hostile node may have claimed the key before: what was judged then is not of this job.
    fn take_note(&mut self, judged: &[Judged]) {
        for probe in self.all.iter_mut().filter(|probe| probe.has_report.is_none()) {
            let key = format!("slurm:{}.0@{}", probe.job, nix::unistd::geteuid());
            let Some(judged) = judged.iter().find(|one| one.key == key && one.at > probe.began) else {
                continue;
            };
            probe.has_verdict.get_or_insert(judged.at);
            if judged.is_final && probe.ended.is_some_and(|ended| judged.at > ended) {
                probe.has_report = Some(judged.at);
            }
        }
    }

    /// Whether any has no report yet.
    pub fn are_open(&self) -> bool {
        self.all.iter().any(Probe::is_open)
    }

    /// Fails where a rank was contested for too long by one hostile node; prints what was measured.
    fn check_contests(&self, hostile_nodes: usize) -> anyhow::Result<()> {
        let calm = |(name, begun, end)| (self.calm_between(begun, end), name);
        let mut times: Vec<(Duration, &RankName)> = self.contested.all().map(calm).collect();
        times.sort_unstable();
        let Some((longest, (job, rank))) = times.last() else {
            // It claims ranks of others all the time: nothing was measured then.
            ensure!(hostile_nodes == 0, "no contested rank was seen");
            return Ok(());
        };
        println!(
            "{} times a rank of others was contested: median {:.1} s, at most {:.1} s without faults (rank {rank} of {job})",
            times.len(),
            times[times.len() / 2].0.as_secs_f64(),
            longest.as_secs_f64(),
        );
        ensure!(
            hostile_nodes > 1 || *longest <= CONTESTED_MAX,
            "rank {rank} of {job}: contested for {longest:?} without faults"
        );
        Ok(())
    }

    /// Fails where a verdict or report was late, or a rank contested for long; prints what was measured.
    pub fn check(&self, hostile_nodes: usize) -> anyhow::Result<()> {
        self.check_contests(hostile_nodes)?;
        let now = Instant::now();
        let (mut verdicts, mut reports) = (Vec::new(), Vec::new());
        for probe in self.all.iter().filter(|probe| !probe.is_torn) {
            let ended = probe.ended.unwrap_or(now);
            let verdict = self.calm_between(probe.began, probe.has_verdict.unwrap_or(now).min(ended));
            ensure!(
                verdict <= VERDICT_WITHIN,
                "job {}: no verdict for {verdict:?} without faults",
                probe.job
            );
            let report = self.calm_between(ended, probe.has_report.unwrap_or(now));
            ensure!(report <= REPORT_WITHIN, "job {}: no report for {report:?} without faults", probe.job);
            verdicts.extend(probe.has_verdict.map(|at| at - probe.began));
            reports.extend(probe.has_report.map(|at| at.saturating_duration_since(ended)));
        }
        println!(
            "{} short jobs of others: {} verdicts, median {:.1} s, at most {:.1} s after the start; {} reports, median {:.1} s, at \
             most {:.1} s after the end",
            self.all.len(),
            verdicts.len(),
            median(&mut verdicts),
            most(&verdicts),
            reports.len(),
            median(&mut reports),
            most(&reports)
        );
        let torn = self.all.iter().filter(|probe| probe.is_torn).count();
        println!(
            "{torn} of them while an agent's spool was damaged: neither their verdicts nor reports are judged"
        );
        ensure!(!self.are_open(), "a job has no report");
        Ok(())
    }
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64)
}

fn most(times: &[Duration]) -> f64 {
    times.iter().max().map_or(0.0, Duration::as_secs_f64)
}

/// A job that was judged.
struct Judged {
    key: String,
    is_final: bool,
    at: Instant,
}

/// Jobs of this kind that were judged, and ranks that are contested; nothing where the database is away.
async fn look(client: Option<Client>, database: Database) -> Option<(Client, Vec<Judged>, Vec<RankName>)> {
    let client = match client {
        Some(client) if !client.is_closed() => client,
        _ => database.connect().await.ok()?,
    };
    let sql = "SELECT j.key, d.is_final, extract(epoch FROM now() - d.judged_at)::float8 FROM internal.run j
               JOIN internal.job_judgement d ON d.job_id = j.id WHERE j.key LIKE 'slurm:7___.0@%'";
    let rows = client.query(sql, &[]).await.ok()?;
    let now = Instant::now();
    let judged = rows.iter().filter_map(|row| {
        let age = Duration::from_secs_f64(row.get::<_, f64>(2).max(0.0));
        Some(Judged { key: row.get(0), is_final: row.get(1), at: now.checked_sub(age)? })
    });
    let (judged, contested) = (judged.collect(), contested::look(&client).await?);
    Some((client, judged, contested))
}
