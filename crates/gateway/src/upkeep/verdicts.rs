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
use throughline_store::{Database, Error, JobToJudge, Judgement, jobs_to_judge, write_judgements};
use throughline_verdicts::{JudgedJob, Kind, Verdict, accuse, judge, report};
use tokio::time::Instant;
use tokio_postgres::Client;

/// The part of the process in metrics.
pub(super) const SOURCE: &str = "verdicts";

/// How often it is looked which jobs are due.
const INTERVAL: Duration = Duration::from_secs(10);

/// Jobs of one round: more wait for the next one.
const JOBS_MAX: i64 = 1000;

/// Longest time for a round.
const ROUND_LIMIT: Duration = Duration::from_secs(300);

/// After a failure.
const RETRY: Duration = Duration::from_secs(5);

/// What is known from one round to the next: evidence that changes little, what is said of the order of jobs' ranks, which is
/// made where it was read again who sends to whom, and what is said of each job that runs.
#[derive(Debug, Default)]
pub struct VerdictMemory {
    cache: Cache,
    placements: HashMap<i64, Option<Verdict>>,
    said: HashMap<i64, (Instant, Vec<Kind>)>,
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
}

/// Runs for as long as it is polled. An absent database is waited for; a failure stops nothing else. With `posts_reports`, reports
/// wait in the database to be posted.
pub async fn run(database: &Database, metrics: &SelfMetrics, posts_reports: bool) {
    metrics.add(SOURCE, &JUDGED_JOBS, 0);
    metrics.add(SOURCE, &COMMIT_FAILURES, 0);
    let mut is_failing = false;
    loop {
        if let Err(error) = hold(database, metrics, posts_reports, &mut is_failing).await {
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
    posts_reports: bool,
    is_failing: &mut bool,
) -> anyhow::Result<()> {
    let mut client = database.connect().await?;
    let mut known = VerdictMemory::default();
    evidence::limit(&client).await?;
    loop {
        let begun = Instant::now();
        tokio::time::timeout(ROUND_LIMIT, judge_jobs(&mut client, metrics, posts_reports, &mut known))
            .await
            .context("no answer in 300 s")??;
        if *is_failing {
            tracing::info!("verdicts on jobs go on");
        }
        *is_failing = false;
        metrics.set(SOURCE, &SOURCE_UP, 1.0);
        tokio::time::sleep_until(begun + INTERVAL).await;
    }
}

/// Judges the jobs that are due. With `posts_reports`, the reports of those that have ended wait to be posted.
pub async fn judge_jobs(
    client: &mut Client,
    metrics: &SelfMetrics,
    posts_reports: bool,
    known: &mut VerdictMemory,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let due = jobs_to_judge(client, JOBS_MAX).await?;
    if due.is_empty() {
        return Ok(());
    }
    let source = Source::read(client).await?;
    let (mut said, mut of_jobs) = (Vec::new(), Vec::new());
    for job in due {
        match one(client, job, &source, known).await {
            Ok(Some((judged, of_job))) => {
                said.push(judged);
                of_jobs.push((job, of_job));
            }
            Ok(None) => {}
            Err(error) if client.is_closed() => return Err(error.into()),
            Err(error) => {
                metrics.add(SOURCE, &COMMIT_FAILURES, 1);
                tracing::debug!(job = job.id, error = %error, "no verdict on a job");
            }
        }
    }
    accuse(&mut said);
    let judgement = |((job, of_job), judged): ((JobToJudge, OfJob), JudgedJob)| {
        let report = job.is_final.then(|| report::text(&of_job.heading, &of_job.evidence, &judged.verdicts));
        Judgement { job, verdicts: judged.verdicts, report }
    };
    let judgements: Vec<Judgement> = of_jobs.into_iter().zip(said).map(judgement).collect();
    write_judgements(client, &judgements, posts_reports).await?;
    known.note(&judgements);
    count(metrics, known, judgements.len(), begun);
    Ok(())
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
