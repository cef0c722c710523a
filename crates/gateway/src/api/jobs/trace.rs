//! `/jobs/{job}/trace`, its records by rank, `/jobs/{job}/pairs` and `/job-rates`: what `throughline job trace`, `matrix` and
//! `top` show. What may be large comes in pages.

use super::super::request::ApiRequest;
use super::super::{Api, answer, page};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_api::jobs::{JobPairs, PairColumns};
use throughline_api::trace::TracedRanks;
use throughline_query::as_of::{self, AsOf};
use throughline_query::trace::{self, RecordQuery};
use throughline_query::{job_rates, traffic};

/// Records of a page of a trace: 2 MB of JSON.
const RECORDS_MAX: i64 = 20_000;

/// Pairs of a page: 10 MB of JSON.
const PAIRS_MAX: i64 = 500_000;

/// `GET /jobs/{job}/trace`.
pub async fn ranks(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let ranks = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            Ok(TracedRanks { ranks: trace::ranks(client, job.id).await?, job_key: job.key })
        })
        .await?;
    let size_hint = ranks.ranks.iter().map(|rank| 200 + rank.comparisons.number.len() * 60).sum();
    Ok(answer::body_aside(ranks, size_hint).await?.response(&request.headers, None))
}

/// `GET /jobs/{job}/trace/{rank}`.
pub async fn records(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let rank = request.path("rank");
    let rank: i32 = rank.parse().ok().filter(|rank| *rank >= 0).ok_or_else(|| {
        ApiError::parameter("rank", format!("rank = {rank}"), "give the number of a rank, from 0")
    })?;
    if request.text("epoch_us")?.is_none() {
        let remedy = "give `epoch_us` of the rank as /jobs/{job}/trace lists it";
        return Err(ApiError::parameter("epoch_us", "epoch_us is not given", remedy));
    }
    let query = RecordQuery {
        rank,
        // Until the year 9999.
        epoch_us: request.number("epoch_us", 0, 0, 253_402_300_799_999_999)?,
        from_ns: request.number("from_ns", i64::MIN, i64::MIN, i64::MAX)?,
        to_ns: request.number("to_ns", i64::MAX, i64::MIN, i64::MAX)?,
        to_ms: request.time("to")?,
        after: request.number("next", -1, -1, i64::MAX)?,
        limit: request.number("limit", RECORDS_MAX, 1, RECORDS_MAX)?,
    };
    request.done()?;
    let records = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            Ok(trace::records(client, job.id, &query).await?)
        })
        .await?;
    let size_hint = records.records.number.len() * 100;
    Ok(answer::body_aside(records, size_hint).await?.response(&request.headers, None))
}

/// `GET /jobs/{job}/pairs`.
pub async fn pairs(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let kind = request.word("kind", &[("logical", "logical"), ("wire", "wire")])?;
    let limit = request.number("limit", PAIRS_MAX, 1, PAIRS_MAX)?;
    let behind: Option<(i32, i32)> = page::next(&request)?;
    request.done()?;
    let (job, as_of, mut pairs, nodes) = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let as_of = as_of::ranks(client, job.id).await?.as_ref().map(AsOf::described);
            let nodes = traffic::node_pairs(client, job.id, kind).await?;
            let pairs = match nodes {
                // Some rows may be there still.
                Some(_) => PairColumns::default(),
                None => traffic::pairs_behind(client, job.id, kind, behind, limit + 1).await?,
            };
            Ok((job, as_of, pairs, nodes))
        })
        .await?;
    let fits = usize::try_from(limit).unwrap_or(0);
    let is_more = pairs.from.len() > fits;
    pairs.from.truncate(fits);
    pairs.to.truncate(fits);
    pairs.bytes.truncate(fits);
    pairs.messages.truncate(fits);
    let last = pairs.from.last().zip(pairs.to.last()).filter(|_| is_more);
    let next = last.map(|(from, to)| page::cursor(&(*from, *to)));
    let size_hint = pairs.from.len() * 20;
    let (job_key, world_size, kind) = (job.key, job.world_size, kind.to_owned());
    let pairs = JobPairs { job_key, as_of, world_size, kind, pairs, nodes, next };
    Ok(answer::body_aside(pairs, size_hint).await?.response(&request.headers, None))
}

/// `GET /job-rates`.
pub async fn rates(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let window = request.number("window", 10.0, 0.5, 86_400.0)?;
    let user = request.text("user")?;
    request.done()?;
    let rates = api.query(async |client| Ok(job_rates::rates(client, window, user).await?)).await?;
    answer::json(&rates, &request.headers)
}
