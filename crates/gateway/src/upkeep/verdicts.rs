//! Verdicts on jobs, beside the rest of upkeep: each minute on those that run, and once on those that have ended.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::Context;
use throughline_daemon::SelfMetrics;
use throughline_query::evidence::{self, Cache, OfJob};
use throughline_query::jobs::{self, Job};
use throughline_query::link_shares::{JobLabel, Source, job_name};
use throughline_sample::catalogue::{
    COMMIT_FAILURES, JOBS_WITH_VERDICT, JUDGED_JOBS, LAST_ROUND_SECONDS, SOURCE_UP,
};
use throughline_sample::row_rules::MINUTELY;
use throughline_store::{
    Database, DetailReason, Error, JobToJudge, JobsInTurns, Judgement, end_turns, jobs_to_judge,
    judge_sooner, write_judgements,
};
use throughline_verdicts::{JudgedJob, Kind, Verdict, accuse, judge, report};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::detail::Triggers;

/// The part of the process in metrics.
pub(super) const SOURCE: &str = "verdicts";

/// How often it is looked which jobs are due.
const INTERVAL: Duration = Duration::from_secs(2);

/// Jobs of one round: more wait for the next one.
const JOBS_MAX: i64 = 1000;

/// How long a round judges: a job whose turn comes meanwhile waits for no more than that. Those that are left are of senders or
/// owners that have had their turn.
const ROUND_PATIENCE: Duration = Duration::from_secs(5);

/// The first rows of a job's ranks have come by then, seconds.
const FIRST_ROWS_WITHIN: f64 = 60.0;

/// Where nothing can be said of a job yet, it is looked at again after ten times as long as the look took, so that looking takes no more
/// than a tenth of a core, and after no more than this.
const PAUSE_OF_LOOKS: f64 = 10.0;
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(10);

/// A job whose judgement failed is tried again after this time: until then others have its turn.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Longest time for one job. It is tried again later, and others are judged meanwhile.
const JOB_LIMIT: Duration = Duration::from_secs(10);

/// The pause after a round that left jobs, as a part of the time that it took: a flood leaves the database to others, too.
const PAUSE_OF_FLOOD: f64 = 0.5;

/// The part of the time that a sender's jobs took that counts in the next round.
const SPENT_THAT_COUNTS: f64 = 0.5;

/// Less than this is forgotten, seconds.
const SPENT_MIN: f64 = 0.001;

/// Longest time for a round.
const ROUND_LIMIT: Duration = Duration::from_secs(300);

/// After a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Verdicts that the full resolution explains: who is late, and what happened before nothing went on.
const EXPLAINED_BY_DETAIL: [Kind; 2] = [Kind::Hung, Kind::SlowRank];

/// What follows from judgements.
#[derive(Clone, Copy, Debug, Default)]
pub struct AfterJudgement {
    /// Reports of jobs that have ended wait in the database to be posted.
    pub posts_reports: bool,
    /// Detail that is requested without a person.
    pub detail: Triggers,
}

/// What is known from one round to the next: evidence that changes little, what is said of the order of jobs' ranks, which is
/// made where it was read again who sends to whom, and what is said of each job that runs.
#[derive(Debug, Default)]
pub struct VerdictMemory {
    cache: Cache,
    placements: HashMap<i64, Option<Verdict>>,
    said: HashMap<i64, (Instant, Vec<Kind>)>,
    /// Jobs that others hold up, as they were judged last: a round may have only one of the two.
    victims: HashMap<i64, JudgedJob>,
    /// Seconds that jobs of each sender took of late.
    spent: HashMap<i64, f64>,
}

impl VerdictMemory {
    /// Takes note of what is said, and forgets jobs that run no more. A round has only some of those that run.
    fn note(&mut self, judgements: &[Judgement]) {
        for one in judgements {
            if one.job.is_final {
                self.said.remove(&one.job.id);
            } else {
                let kinds = one.verdicts.iter().map(|verdict| verdict.kind).collect();
                self.said.insert(one.job.id, (Instant::now(), kinds));
            }
        }
        self.said.retain(|_, (since, _)| since.elapsed() <= MINUTELY.largest_gap());
        self.cache.retain(|job| self.said.contains_key(&job));
        self.placements.retain(|job, _| self.said.contains_key(job));
        self.victims.retain(|job, _| self.said.contains_key(job));
    }

    /// Keeps what is said of the order of ranks now, or adds what was said last.
    fn settle(&mut self, job: i64, has_traffic: bool, verdicts: &mut Vec<Verdict>) {
        if has_traffic {
            let said = verdicts.iter().find(|one| one.kind == Kind::Placement).cloned();
            self.placements.insert(job, said);
        } else if let Some(Some(said)) = self.placements.get(&job)
            && verdicts.iter().all(|one| one.kind != Kind::Hung)
        {
            verdicts.retain(|one| one.kind != Kind::NothingFound);
            verdicts.push(said.clone());
        }
    }

    /// Puts jobs of one place into the order of the time that their senders took of late, so that a sender whose jobs take long
    /// has no more of it than others.
    fn least_spent_first(&mut self, jobs: &mut [JobToJudge]) {
        for spent in self.spent.values_mut() {
            *spent *= SPENT_THAT_COUNTS;
        }
        self.spent.retain(|_, spent| *spent > SPENT_MIN);
        let spent = |job: &JobToJudge| self.spent.get(&job.turn.node_id).copied().unwrap_or_default();
        jobs.sort_by(|one, other| one.place.cmp(&other.place).then(spent(one).total_cmp(&spent(other))));
    }

    /// Adds what others said of jobs that they are victims of, and takes note of victims.
    fn accuse(&mut self, said: &mut [JudgedJob], jobs: &[(JobToJudge, OfJob)]) {
        accuse(said, self.victims.values());
        for ((job, _), judged) in jobs.iter().zip(said) {
            if judged.verdicts.iter().any(|one| one.kind == Kind::Victim) {
                self.victims.insert(job.id, judged.clone());
            } else {
                self.victims.remove(&job.id);
            }
        }
    }
}

/// Runs for as long as it is polled. An absent database is waited for; a failure stops nothing else.
pub async fn run(database: &Database, metrics: &SelfMetrics, after: AfterJudgement) {
    metrics.add(SOURCE, &JUDGED_JOBS, 0);
    metrics.add(SOURCE, &COMMIT_FAILURES, 0);
    let mut is_failing = false;
    loop {
        if let Err(error) = hold(database, metrics, after, &mut is_failing).await {
            metrics.add(SOURCE, &COMMIT_FAILURES, 1);
            metrics.set(SOURCE, &SOURCE_UP, 0.0);
            if !is_failing {
                tracing::warn!(error = format!("{error:#}"), "verdicts on jobs: trying again");
            }
            is_failing = true;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Judges on one connection, until something fails.
async fn hold(
    database: &Database,
    metrics: &SelfMetrics,
    after: AfterJudgement,
    is_failing: &mut bool,
) -> anyhow::Result<()> {
    let mut client = database.connect().await?;
    let mut known = VerdictMemory::default();
    evidence::limit(&client).await?;
    loop {
        let begun = Instant::now();
        let has_more = tokio::time::timeout(ROUND_LIMIT, judge_jobs(&mut client, metrics, after, &mut known))
            .await
            .context("no answer in 300 s")??;
        if *is_failing {
            tracing::info!("verdicts on jobs go on");
        }
        *is_failing = false;
        metrics.set(SOURCE, &SOURCE_UP, 1.0);
        let pause = begun.elapsed().mul_f64(PAUSE_OF_FLOOD);
        let next = if has_more { Instant::now() + pause } else { begun + INTERVAL };
        tokio::time::sleep_until(next.min(begun + INTERVAL)).await;
    }
}

/// Judges jobs that are due, in turns of senders and owners, for [`ROUND_PATIENCE`]. Returns whether more may wait.
pub async fn judge_jobs(
    client: &mut Client,
    metrics: &SelfMetrics,
    after: AfterJudgement,
    known: &mut VerdictMemory,
) -> anyhow::Result<bool> {
    let begun = Instant::now();
    judge_sooner(client).await?;
    let JobsInTurns { jobs: mut due, mut has_more } = jobs_to_judge(client, JOBS_MAX).await?;
    if due.is_empty() {
        return Ok(has_more);
    }
    known.least_spent_first(&mut due);
    let source = Source::read(client).await?;
    let (mut said, mut of_jobs, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for job in due {
        if begun.elapsed() > ROUND_PATIENCE {
            has_more = true;
            break;
        }
        let started = Instant::now();
        let judged = tokio::time::timeout(JOB_LIMIT, one(client, job, &source, known)).await;
        let took = started.elapsed();
        *known.spent.entry(job.turn.node_id).or_default() += took.as_secs_f64();
        match judged {
            // What its ranks did has not come yet.
            Ok(Ok(Some((judged, of_job)))) if !job.is_final && is_too_soon(&judged, &of_job) => {
                later.push((job.id, took.mul_f64(PAUSE_OF_LOOKS).min(LOOKED_AT_WITHIN)));
            }
            Ok(Ok(Some((judged, of_job)))) => {
                said.push(judged);
                of_jobs.push((job, of_job));
            }
            Ok(Ok(None)) => later.push((job.id, AFTER_FAILURE)),
            Ok(Err(error)) if client.is_closed() => return Err(error.into()),
            Ok(Err(error)) => fail(metrics, &mut later, job, &error.to_string()),
            Err(_) => fail(metrics, &mut later, job, "no answer in 10 s"),
        }
    }
    known.accuse(&mut said, &of_jobs);
    let judgement = |((job, of_job), judged)| after.judgement(job, &of_job, judged);
    let judgements: Vec<Judgement> = of_jobs.into_iter().zip(said).map(judgement).collect();
    write(client, metrics, &judgements, after.posts_reports, &mut later).await?;
    let jobs: Vec<i64> = judgements.iter().map(|one| one.job.id).collect();
    end_turns(client, &jobs, &later).await?;
    known.note(&judgements);
    count(metrics, known, judgements.len(), begun);
    Ok(has_more)
}

/// Whether there is no verdict on a job because it has only begun.
fn is_too_soon(judged: &JudgedJob, of_job: &OfJob) -> bool {
    judged.verdicts.is_empty() && of_job.age_seconds < FIRST_ROWS_WITHIN
}

/// Takes note of a job whose judgement failed.
fn fail(metrics: &SelfMetrics, later: &mut Vec<(i64, Duration)>, job: JobToJudge, error: &str) {
    metrics.add(SOURCE, &COMMIT_FAILURES, 1);
    tracing::debug!(job = job.id, error, "no verdict on a job");
    later.push((job.id, AFTER_FAILURE));
}

/// Writes judgements; where the database refuses one of them, each by itself, so that it costs the others nothing.
async fn write(
    client: &mut Client,
    metrics: &SelfMetrics,
    judgements: &[Judgement],
    posts_reports: bool,
    later: &mut Vec<(i64, Duration)>,
) -> anyhow::Result<()> {
    let Err(error) = write_judgements(client, judgements, posts_reports).await else { return Ok(()) };
    if client.is_closed() {
        return Err(error.into());
    }
    for one in judgements {
        if let Err(error) = write_judgements(client, std::slice::from_ref(one), posts_reports).await {
            if client.is_closed() {
                return Err(error.into());
            }
            fail(metrics, later, one.job, &error.to_string());
        }
    }
    Ok(())
}

impl AfterJudgement {
    fn judgement(self, job: JobToJudge, of_job: &OfJob, judged: JudgedJob) -> Judgement {
        let verdicts = judged.verdicts;
        let wants_detail = if job.is_final {
            let has_lost = of_job.evidence.ranks.iter().any(|rank| rank.ending.as_deref() == Some("lost"));
            has_lost && self.detail.takes(DetailReason::JobEnd)
        } else {
            let is_explained = verdicts.iter().any(|one| EXPLAINED_BY_DETAIL.contains(&one.kind));
            is_explained && self.detail.takes(DetailReason::Verdict)
        };
        let report = job.is_final.then(|| report::text(&of_job.heading, &of_job.evidence, &verdicts));
        Judgement { job, verdicts, report, wants_detail }
    }
}

/// One job with what is said of it; `None` where it is gone.
async fn one(
    client: &Client,
    due: JobToJudge,
    source: &Source,
    known: &mut VerdictMemory,
) -> Result<Option<(JudgedJob, OfJob)>, Error> {
    let Some(job) = jobs::by_id(client, due.id).await? else { return Ok(None) };
    let of_job = evidence::of_job(client, &job, source, &mut known.cache).await?;
    let mut verdicts = judge(&of_job.evidence);
    known.settle(due.id, of_job.has_traffic, &mut verdicts);
    let Job { key, user, name, native_id, .. } = job;
    let name = job_name(&JobLabel { key: key.clone(), user, name, native_id });
    Ok(Some((JudgedJob { key, name, verdicts }, of_job)))
}

#[allow(clippy::cast_precision_loss)] // jobs
fn count(metrics: &SelfMetrics, known: &VerdictMemory, jobs: usize, begun: Instant) {
    metrics.add(SOURCE, &JUDGED_JOBS, jobs as u64);
    let seconds = begun.elapsed().as_secs_f64();
    metrics.set(SOURCE, &LAST_ROUND_SECONDS, seconds);
    let mut by: BTreeMap<Kind, usize> = Kind::ALL.into_iter().map(|kind| (kind, 0)).collect();
    for kind in known.said.values().flat_map(|(_, kinds)| kinds) {
        *by.entry(*kind).or_default() += 1;
    }
    for (kind, jobs) in by {
        metrics.set((SOURCE, kind.name()), &JOBS_WITH_VERDICT, jobs as f64);
    }
    tracing::debug!(jobs, seconds, "verdicts on jobs");
}
