//! `/jobs/{job}` and `/jobs/{job}/ranks`: one job, its hosts, operations and ranks.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use super::list::find;
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::collections::HashMap;
use std::sync::Arc;
use throughline_api::jobs::{
    JobDetail, JobHost, JobRanks, Operation, OperationAlgorithm, OperationSize, RankColumns,
};
use throughline_query::as_of::{self, AsOf};
use throughline_query::contests;
use throughline_query::job_parts;
use throughline_query::jobs::{self, Cell, Rank, Totals};
use throughline_query::open_calls::{self, OpenCall};
use throughline_query::time::now;
use throughline_query::{traffic, verdicts};

/// `GET /jobs/{job}`.
pub async fn job(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let id = job.id;
            let ranks = jobs::ranks(client, id).await?;
            // Sums and operations are as of one time.
            let as_of = as_of::sums_of(client, id).await?;
            let totals =
                jobs::totals(client, &[id], &as_of).await?.into_iter().map(|(_, totals)| totals).next();
            let cells = jobs::cells(client, id, as_of.get(&id)).await?;
            let matrices = traffic::kinds(client, id).await?;
            let endings = job_parts::endings(client, id).await?;
            let job = job.described(now(client).await?, totals, as_of.get(&id));
            let mut libraries: Vec<String> = ranks.iter().map(|rank| rank.library.clone()).collect();
            libraries.sort();
            libraries.dedup();
            let open_calls = open_calls::grouped(&open_calls::of_jobs(client, &[id]).await?);
            let (hosts, operations) = (hosts(&ranks), operations(&cells));
            let verdicts = verdicts::of_job(client, id, false).await?;
            Ok(JobDetail {
                first_lost: job_parts::first_lost(client, id).await?,
                settings: job_parts::settings(client, id).await?,
                job,
                libraries,
                hosts,
                endings,
                contests: contests::of_job(client, id).await?,
                matrices,
                operations,
                open_calls,
                verdicts,
            })
        })
        .await?;
    answer::json(&response, &request.headers)
}

/// Hosts by the smallest rank on them.
fn hosts(ranks: &[Rank]) -> Vec<JobHost> {
    let mut hosts: Vec<JobHost> = Vec::new();
    let mut place_of = HashMap::new();
    for rank in ranks {
        let place = *place_of.entry(&rank.host).or_insert_with(|| {
            let (host, first_rank, last_rank) = (rank.host.clone(), rank.rank, rank.rank);
            hosts.push(JobHost { host, ranks: 0, first_rank, last_rank });
            hosts.len() - 1
        });
        hosts[place].ranks += 1;
        // Ranks come in their order.
        hosts[place].last_rank = rank.rank;
    }
    hosts
}

fn operations(cells: &[Cell]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    // Cells come ordered by operation and size class.
    for cell in cells {
        if operations.last().is_none_or(|last| last.operation != cell.operation) {
            operations.push(Operation { operation: cell.operation.clone(), ..Operation::default() });
        }
        if let Some(operation) = operations.last_mut() {
            add(operation, cell);
        }
    }
    let all: f64 = operations.iter().map(|operation| operation.elapsed_seconds).sum();
    for operation in &mut operations {
        operation.time_share = (all > 0.0).then(|| answer::rounded(operation.elapsed_seconds / all));
        operation.algorithms.sort_by(|one, other| other.elapsed_seconds.total_cmp(&one.elapsed_seconds));
    }
    operations.sort_by(|one, other| other.elapsed_seconds.total_cmp(&one.elapsed_seconds));
    operations
}

fn add(operation: &mut Operation, cell: &Cell) {
    let (calls, bytes) = (whole(cell.calls), whole(cell.bytes));
    let (size_class_bytes, received_bytes) = (whole(cell.size_class_bytes), cell.received_bytes.map(whole));
    operation.calls = operation.calls.saturating_add(calls);
    operation.bytes = operation.bytes.saturating_add(bytes);
    operation.elapsed_seconds += cell.elapsed_seconds;
    operation.received_bytes = sum(operation.received_bytes, received_bytes, u64::saturating_add);
    operation.wait_seconds = sum(operation.wait_seconds, cell.wait_seconds, |one, other| one + other);
    operation.longest_seconds = sum(operation.longest_seconds, cell.longest_seconds, f64::max);
    match operation.sizes.last_mut().filter(|size| size.size_class_bytes == size_class_bytes) {
        Some(size) => {
            size.calls = size.calls.saturating_add(calls);
            size.bytes = size.bytes.saturating_add(bytes);
            size.elapsed_seconds += cell.elapsed_seconds;
        }
        None => operation.sizes.push(OperationSize {
            size_class_bytes,
            calls,
            bytes,
            elapsed_seconds: cell.elapsed_seconds,
            algorithms: Vec::new(),
        }),
    }
    if let Some(size) = operation.sizes.last_mut().filter(|_| !cell.algorithm.is_empty())
        && !size.algorithms.contains(&cell.algorithm)
    {
        size.algorithms.push(cell.algorithm.clone());
    }
    if cell.algorithm_source.is_empty() && cell.algorithm.is_empty() {
        return;
    }
    let same = |known: &&mut OperationAlgorithm| {
        known.algorithm == cell.algorithm && known.source == cell.algorithm_source
    };
    match operation.algorithms.iter_mut().find(same) {
        Some(known) => {
            known.calls = known.calls.saturating_add(calls);
            known.elapsed_seconds += cell.elapsed_seconds;
        }
        None => operation.algorithms.push(OperationAlgorithm {
            algorithm: cell.algorithm.clone(),
            source: cell.algorithm_source.clone(),
            calls,
            elapsed_seconds: cell.elapsed_seconds,
        }),
    }
}

/// Counts of the database are signed.
fn whole(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}

/// Puts together what may be absent: absent and absent stay so.
fn sum<T>(one: Option<T>, other: Option<T>, together: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(together(one, other)),
        (one, other) => one.or(other),
    }
}

/// `GET /jobs/{job}/ranks`.
pub async fn ranks(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    request.done()?;
    let response = api
        .query(async |client| {
            let job = find(client, request.path("job")).await?;
            let as_of = as_of::ranks(client, job.id).await?;
            let totals = jobs::rank_totals(client, job.id, as_of.as_ref()).await?.into_iter().collect();
            let open = open_calls::of_jobs(client, &[job.id]).await?;
            let ranks = columns(job.key, jobs::ranks(client, job.id).await?, &totals, &open);
            Ok(JobRanks { as_of: as_of.as_ref().map(AsOf::described), ..ranks })
        })
        .await?;
    answer::json(&response, &request.headers)
}

fn columns(job_key: String, ranks: Vec<Rank>, totals: &HashMap<i32, Totals>, open: &[OpenCall]) -> JobRanks {
    // Of a rank the longest stands first.
    let open: HashMap<i32, &OpenCall> = open.iter().rev().map(|call| (call.rank, call)).collect();
    let (hosts, places) = places(&ranks);
    let mut columns = RankColumns { host: places, ..RankColumns::default() };
    for rank in ranks {
        let totals = totals.get(&rank.rank);
        columns.rank.push(rank.rank);
        columns.start_ms.push(rank.start);
        columns.end_ms.push(rank.end);
        columns.ending.push(rank.ending);
        columns.gpus.push(rank.gpus);
        columns.ports.push(rank.ports);
        columns.cpus.push(rank.cpus.filter(|cpus| !cpus.is_empty()));
        columns.calls.push(totals.map(|totals| totals.calls));
        columns.bytes.push(totals.map(|totals| totals.bytes));
        columns.mpi_seconds.push(totals.map(|totals| totals.mpi_seconds));
        columns.observed_seconds.push(totals.and_then(|totals| totals.observed_seconds));
        let open = open.get(&rank.rank);
        columns.open_operation.push(open.map(|call| call.operation.clone()));
        columns.open_seconds.push(open.map(|call| call.seconds));
    }
    JobRanks { job_key, hosts, ranks: columns, as_of: None }
}

/// The hosts of ranks by the smallest rank on them, and each rank's place among them.
pub fn places(ranks: &[Rank]) -> (Vec<String>, Vec<usize>) {
    let hosts = hosts(ranks);
    let place_of: HashMap<&str, usize> =
        hosts.iter().enumerate().map(|(place, host)| (host.host.as_str(), place)).collect();
    let places = ranks.iter().map(|rank| place_of.get(rank.host.as_str()).copied().unwrap_or(0)).collect();
    (hosts.into_iter().map(|host| host.host).collect(), places)
}
