//! Role upkeep: rows of one minute, blocks of an hour, fewer old rows, shares of links, verdicts on jobs, retention, jobs that nobody
//! reports any more, bounds of readers, the database's clock, and metrics about the database. Of several servers on one database one does it.
//!
//! Who does it is settled by an advisory lock that lives as long as the holder's connection: when a holder is
//! killed, its connection ends and another one takes over at its next try. A holder that loses its session stops.

mod clock;
mod contests;
mod detail;
mod link_series;
mod link_shares;
mod readers;
mod verdicts;
mod webhook;

pub use detail::Triggers;
pub use link_series::LinkSeries;
#[cfg(test)]
pub(crate) use verdicts::{AfterJudgement, VerdictMemory, judge_jobs};
#[cfg(test)]
pub(crate) use webhook::{Round, post_due};

use std::time::Duration;

use anyhow::Context;
use futures::future::OptionFuture;
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{
    BLOCKS_MADE, COMMIT_FAILURES, DATABASE_BYTES, DATABASE_CHUNKS, EXPIRED_CHUNKS, LAST_ROUND_SECONDS,
    LATE_READINGS, ORPHANED_RANKS, ROLLUP_LAG_SECONDS, ROLLUPS_MADE, SOURCE_UP,
};
use throughline_store::{
    ChunksEncoded, Database, DatabaseSize, Groups, Retention, RetentionWay, apply_retention,
    close_orphaned_jobs, database_size, encode_chunks, expire_jobs, is_backup_running, lock_upkeep,
    make_rollups, move_hours, pack_totals, release_claims, thin_chunks,
};
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::outbound::Receiver;

/// The part of the process in metrics.
const SOURCE: &str = "upkeep";

/// How often a server without the lock requests it, and a lost database is looked for.
const RETRY: Duration = Duration::from_secs(5);

/// How often it is looked whether the session with the lock is there: beside the rounds, work goes on by other connections.
const LOCK_WATCH: Duration = Duration::from_millis(500);

/// How often sizes are requested: cheap, and a scrape every 15 s sees each value a few times.
const FIGURES_INTERVAL: Duration = Duration::from_secs(60);

/// How long minutes are made at a time before the rest has its turn: after a week without upkeep there is much to do.
const MINUTES_PATIENCE: Duration = Duration::from_secs(30);

/// How long blocks are made at a time: minutes come first.
const BLOCKS_PATIENCE: Duration = Duration::from_secs(20);

/// How long old rows are thinned at a time.
const THINNING_PATIENCE: Duration = Duration::from_secs(20);

/// How long final totals are packed at a time.
const FINALS_PATIENCE: Duration = Duration::from_secs(60);

/// The next round of retention comes so soon where nothing may be dropped yet: within seconds of a start senders have confirmed the clock.
const PERMISSION_WAIT: Duration = Duration::from_secs(10);

/// Longest time for one statement of a round; dropping a chunk takes a fraction of a second, but waits for
/// its readers.
const ROUND_LIMIT: Duration = Duration::from_secs(600);

/// What upkeep does.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long rows are retained.
    pub retention: Retention,
    /// Time between two rounds of retention.
    pub interval: Duration,
    /// How long the nodes of a job may say nothing of it before its ranks there count as ended.
    pub job_silence: Duration,
    /// Groups of hosts, for shares of links.
    pub groups: Groups,
    /// Detail that is requested without a person.
    pub detail: Triggers,
    /// Where reports of jobs that have ended are posted.
    pub webhook: Option<Receiver>,
}

/// What is known from one connection to the next.
struct State {
    /// Whether the last try failed: it is logged once.
    failing: bool,
    /// Whether another server had the lock at the last try: it is logged once.
    stands_by: bool,
    /// How the database does retention, once found out.
    way: Option<RetentionWay>,
    /// Chunks that were dropped by the last round, since the database was made.
    dropped_in_all: Option<u64>,
    /// From when on silence says something.
    silence_counts_from: Instant,
    /// Whether a backup was in progress in the last round: its begin and end are logged once.
    has_backup: bool,
}

/// Runs until `stop` is cancelled. An absent database is waited for. `series` are of the contributors of links, for
/// `/metrics`.
pub async fn run(
    database: Database,
    options: Options,
    metrics: SelfMetrics,
    series: LinkSeries,
    stop: CancellationToken,
) {
    metrics.add(SOURCE, &EXPIRED_CHUNKS, 0);
    metrics.add(SOURCE, &COMMIT_FAILURES, 0);
    metrics.add(SOURCE, &ORPHANED_RANKS, 0);
    metrics.add(SOURCE, &ROLLUPS_MADE, 0);
    metrics.add(SOURCE, &LATE_READINGS, 0);
    metrics.add(SOURCE, &BLOCKS_MADE, 0);
    // What agents have in their spools comes first: while no server ran, nobody could report anything.
    let silence_counts_from = Instant::now() + options.job_silence;
    let work = async {
        let mut state = State {
            failing: false,
            stands_by: false,
            way: None,
            dropped_in_all: None,
            silence_counts_from,
            has_backup: false,
        };
        loop {
            match hold(&database, &options, &metrics, &series, &mut state).await {
                Ok(()) => {}
                Err(error) => {
                    metrics.add(SOURCE, &COMMIT_FAILURES, 1);
                    metrics.set(SOURCE, &SOURCE_UP, 0.0);
                    if !state.failing {
                        tracing::warn!(error = format!("{error:#}"), "upkeep: trying again");
                    }
                    state.failing = true;
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Does the work for as long as this server has the lock; returns at once where another one has it.
async fn hold(
    database: &Database,
    options: &Options,
    metrics: &SelfMetrics,
    series: &LinkSeries,
    state: &mut State,
) -> anyhow::Result<()> {
    let mut client = database.connect().await?;
    if !lock_upkeep(&client).await? {
        stand_by(metrics, state);
        return Ok(());
    }
    state.stands_by = false;
    let webhook = options.webhook.as_ref();
    let after = verdicts::AfterJudgement { posts_reports: webhook.is_some(), detail: options.detail };
    let rounds = rounds(&mut client, options, metrics, state);
    // Beside them, on connections of their own: none waits for another.
    tokio::select! {
        ended = rounds => ended,
        () = link_shares::run(database, options, metrics, series) => Ok(()),
        () = detail::run(database, options.detail, metrics) => Ok(()),
        () = clock::run(database, metrics) => Ok(()),
        () = contests::run(database, metrics) => Ok(()),
        () = readers::run(database, metrics) => Ok(()),
        () = verdicts::run(database, metrics, after) => Ok(()),
        Some(()) = OptionFuture::from(webhook.map(|receiver| webhook::run(database, receiver, metrics))) => Ok(()),
    }
}

/// Another server has the lock: this one is well, and what it measured while it had the lock is not of now.
fn stand_by(metrics: &SelfMetrics, state: &mut State) {
    for source in [
        SOURCE,
        clock::SOURCE,
        contests::SOURCE,
        link_shares::SOURCE,
        readers::SOURCE,
        verdicts::SOURCE,
        webhook::SOURCE,
    ] {
        metrics.unset_gauges(source);
    }
    metrics.set(SOURCE, &SOURCE_UP, 1.0);
    if !std::mem::replace(&mut state.stands_by, true) || state.failing {
        tracing::info!("upkeep is done by another server");
    }
    state.failing = false;
}

/// Minutes, chunks, retention and the rest, one after the other, until something fails.
async fn rounds(
    client: &mut Client,
    options: &Options,
    metrics: &SelfMetrics,
    state: &mut State,
) -> anyhow::Result<()> {
    let mut retention_due = Instant::now();
    loop {
        let started = Instant::now();
        let round = async {
            note_backup(client, state).await?;
            if started >= retention_due {
                let is_done = retain(client, options, metrics, state).await?;
                let pause = if is_done { options.interval } else { PERMISSION_WAIT.min(options.interval) };
                retention_due = started + pause;
            }
            if started >= state.silence_counts_from {
                let closed = close_orphaned_jobs(client, options.job_silence).await?;
                metrics.add(SOURCE, &ORPHANED_RANKS, closed.ranks);
                if closed.ranks > 0 || closed.jobs > 0 {
                    tracing::info!(
                        ranks = closed.ranks,
                        jobs = closed.jobs,
                        "nodes say nothing of their jobs"
                    );
                }
            }
            measure(client, metrics).await?;
            if roll(client, options, metrics).await? {
                return Ok(true);
            }
            thin(client, options).await
        };
        let is_behind = tokio::time::timeout(ROUND_LIMIT, round).await.context("no answer in 600 s")??;
        if state.failing {
            tracing::info!("upkeep goes on");
        }
        state.failing = false;
        metrics.set(SOURCE, &SOURCE_UP, 1.0);
        metrics.set(SOURCE, &LAST_ROUND_SECONDS, started.elapsed().as_secs_f64());
        if !is_behind {
            rest(client, (started + FIGURES_INTERVAL).min(retention_due.max(Instant::now()))).await?;
        }
    }
}

/// Says once that a backup keeps chunks as they are, and once that it has ended.
async fn note_backup(client: &Client, state: &mut State) -> anyhow::Result<()> {
    let is_running = is_backup_running(client).await?;
    match (std::mem::replace(&mut state.has_backup, is_running), is_running) {
        (false, true) => tracing::info!(
            "a backup is in progress: nothing is dropped, thinned or packed until it has ended"
        ),
        (true, false) => {
            tracing::info!("the backup has ended: old rows are dropped, thinned and packed again")
        }
        _ => {}
    }
    Ok(())
}

/// Sleeps until then, unless the session ends before, and with it the lock: another server does the work from then on.
async fn rest(client: &Client, until: Instant) -> anyhow::Result<()> {
    while Instant::now() < until {
        anyhow::ensure!(!client.is_closed(), "the session that held the lock of upkeep ended");
        tokio::time::sleep_until(until.min(Instant::now() + LOCK_WATCH)).await;
    }
    Ok(())
}

/// Packs final totals of jobs, then applies retention; `false` where nothing may be dropped now, or more is to be done.
async fn retain(
    client: &mut Client,
    options: &Options,
    metrics: &SelfMetrics,
    state: &mut State,
) -> anyhow::Result<bool> {
    // Before rows go.
    let begun = Instant::now();
    let packed = pack_totals(client, FINALS_PATIENCE).await?;
    if packed.jobs > 0 {
        tracing::debug!(
            jobs = packed.jobs,
            seconds = begun.elapsed().as_secs_f64(),
            "final totals of jobs are packed"
        );
    }
    let done = apply_retention(client, &options.retention, state.way).await?;
    let released = release_claims(client).await?;
    let expired = expire_jobs(client, &options.retention).await?;
    if expired.jobs > 0 || released.jobs > 0 {
        tracing::info!(
            expired = expired.jobs,
            released = released.jobs,
            "jobs, and claims of ranks of jobs that are packed"
        );
    }
    state.way = Some(done.way);
    // The database's job drops between two rounds.
    let dropped = match state.dropped_in_all.replace(done.dropped_in_all) {
        Some(before) => done.dropped_in_all.saturating_sub(before),
        None => done.dropped_chunks,
    };
    metrics.add(SOURCE, &EXPIRED_CHUNKS, dropped);
    if done.changed_policies > 0 || dropped > 0 {
        let way = match done.way {
            RetentionWay::DatabaseJob => "job of the database",
            RetentionWay::Upkeep => "upkeep",
        };
        tracing::info!(way, dropped, changed = done.changed_policies, "retention");
    }
    Ok(done.is_permitted && !(packed.is_behind || released.is_behind || expired.is_behind))
}

/// Makes rows of minutes, then blocks; whether there is more to do.
async fn roll(client: &mut Client, options: &Options, metrics: &SelfMetrics) -> anyhow::Result<bool> {
    let begun = Instant::now();
    let made = make_rollups(client, &options.retention, MINUTES_PATIENCE).await?;
    metrics.add(SOURCE, &ROLLUPS_MADE, made.minutes);
    metrics.add(SOURCE, &LATE_READINGS, made.late);
    if let Some(lag) = made.lag {
        metrics.set(SOURCE, &ROLLUP_LAG_SECONDS, lag.as_secs_f64());
    }
    let seconds = begun.elapsed().as_secs_f64();
    tracing::debug!(minutes = made.minutes, late = made.late, rows = made.rows, seconds, "rows of minutes");
    if made.is_behind {
        return Ok(true);
    }
    let begun = Instant::now();
    let packed = encode_chunks(client, &options.retention, BLOCKS_PATIENCE).await?;
    metrics.add(SOURCE, &BLOCKS_MADE, packed.blocks);
    let seconds = begun.elapsed().as_secs_f64();
    let ChunksEncoded { blocks, samples, bytes, is_behind } = packed;
    tracing::debug!(blocks, samples, bytes, seconds, "blocks of readings");
    let moved = move_hours(client, &options.retention).await?;
    metrics.add(SOURCE, &EXPIRED_CHUNKS, moved);
    if moved > 0 {
        tracing::info!(hours = moved, "hours of readings are packed only");
    }
    Ok(is_behind)
}

/// Makes old rows fewer; whether there is more to do.
async fn thin(client: &mut Client, options: &Options) -> anyhow::Result<bool> {
    let begun = Instant::now();
    let thinned = thin_chunks(client, &options.retention, THINNING_PATIENCE).await?;
    if thinned.chunks > 0 {
        let (chunks, before, after) = (thinned.chunks, thinned.rows_before, thinned.rows_after);
        tracing::info!(
            chunks,
            before,
            after,
            seconds = begun.elapsed().as_secs_f64(),
            "old rows are thinned"
        );
    }
    Ok(thinned.is_behind)
}

async fn measure(client: &Client, metrics: &SelfMetrics) -> anyhow::Result<()> {
    let DatabaseSize { bytes, chunks } = database_size(client).await?;
    #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
    {
        metrics.set(SOURCE, &DATABASE_BYTES, bytes as f64);
        metrics.set(SOURCE, &DATABASE_CHUNKS, chunks as f64);
    }
    Ok(())
}
