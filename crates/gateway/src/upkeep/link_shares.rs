//! Shares of links, beside the rest of upkeep: on a connection of its own, so that a round of either waits for none of the
//! other.

use super::{LinkSeries, Options};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use throughline_daemon::SelfMetrics;
use throughline_sample::catalogue::{
    COMMIT_FAILURES, LAST_ROUND_SECONDS, LATE_LINK_SHARE_WINDOWS, LINK_SERIES_DISCARDED,
    LINK_SHARE_LAG_SECONDS, LINK_SHARE_WINDOWS, SOURCE_UP, TRAFFIC_ROWS_DISCARDED,
};
use throughline_store::{
    Database, LinkShareCache, largest_contributions, link_shares_made_until, make_link_shares,
};
use tokio::time::Instant;
use tokio_postgres::Client;

/// The part of the process in metrics.
pub(super) const SOURCE: &str = "link_shares";

/// Reasons of losses in metrics: no place for growing cells, and none for series of contributors.
const CACHE_FULL: &str = "cache_full";
const SERIES_FULL: &str = "series_full";

/// How often it is looked whether a window is due: half of a window.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long windows are made at a time before metrics are updated.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest time for a round: PATIENCE, and one window behind it.
const ROUND_LIMIT: Duration = Duration::from_secs(300);

/// After a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Runs for as long as it is polled. An absent database is waited for; a failure stops nothing else.
pub async fn run(database: &Database, options: &Options, metrics: &SelfMetrics, series: &LinkSeries) {
    for metric in [&LINK_SHARE_WINDOWS, &LATE_LINK_SHARE_WINDOWS, &COMMIT_FAILURES] {
        metrics.add(SOURCE, metric, 0);
    }
    metrics.add((SOURCE, CACHE_FULL), &TRAFFIC_ROWS_DISCARDED, 0);
    metrics.add((SOURCE, SERIES_FULL), &LINK_SERIES_DISCARDED, 0);
    let mut is_failing = false;
    loop {
        if let Err(error) = hold(database, options, metrics, series, &mut is_failing).await {
            metrics.add(SOURCE, &COMMIT_FAILURES, 1);
            metrics.set(SOURCE, &SOURCE_UP, 0.0);
            if !is_failing {
                tracing::warn!(error = format!("{error:#}"), "shares of links: trying again");
            }
            is_failing = true;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Makes windows on one connection, until something fails.
async fn hold(
    database: &Database,
    options: &Options,
    metrics: &SelfMetrics,
    series: &LinkSeries,
    is_failing: &mut bool,
) -> anyhow::Result<()> {
    let mut client = database.connect().await?;
    let mut cache = LinkShareCache::default();
    let mut shown = link_shares_made_until(&client).await?;
    loop {
        let begun = Instant::now();
        let round = round(&mut client, &mut cache, options, metrics);
        let is_behind = tokio::time::timeout(ROUND_LIMIT, round).await.context("no answer in 300 s")??;
        if *is_failing {
            tracing::info!("shares of links go on");
        }
        show(&client, series, metrics, &mut shown).await?;
        *is_failing = false;
        metrics.set(SOURCE, &SOURCE_UP, 1.0);
        if !is_behind {
            tokio::time::sleep_until(begun + INTERVAL).await;
        }
    }
}

/// Adds windows made since to the series of `/metrics`. A window that is made again is not added again.
async fn show(
    client: &Client,
    series: &LinkSeries,
    metrics: &SelfMetrics,
    shown: &mut Option<SystemTime>,
) -> anyhow::Result<()> {
    let Some(until) = link_shares_made_until(client).await? else { return Ok(()) };
    if let Some(after) = shown.filter(|after| *after < until) {
        let made = largest_contributions(client, after, until, super::link_series::OF_A_LINK).await?;
        metrics.add((SOURCE, SERIES_FULL), &LINK_SERIES_DISCARDED, series.add(&made));
    }
    *shown = Some(until);
    Ok(())
}

/// Whether there is more to do.
async fn round(
    client: &mut Client,
    cache: &mut LinkShareCache,
    options: &Options,
    metrics: &SelfMetrics,
) -> anyhow::Result<bool> {
    let begun = Instant::now();
    let made = make_link_shares(client, cache, &options.groups, &options.retention, PATIENCE).await?;
    metrics.add(SOURCE, &LINK_SHARE_WINDOWS, made.windows);
    metrics.add(SOURCE, &LATE_LINK_SHARE_WINDOWS, made.late);
    metrics.add((SOURCE, CACHE_FULL), &TRAFFIC_ROWS_DISCARDED, made.left_out);
    if let Some(lag) = made.lag {
        metrics.set(SOURCE, &LINK_SHARE_LAG_SECONDS, lag.as_secs_f64());
    }
    let seconds = begun.elapsed().as_secs_f64();
    if made.windows + made.late > 0 {
        // A round without a window took no time worth knowing.
        metrics.set(SOURCE, &LAST_ROUND_SECONDS, seconds);
        tracing::debug!(
            windows = made.windows,
            late = made.late,
            rows = made.rows,
            seconds,
            "shares of links"
        );
    }
    Ok(made.is_behind)
}
