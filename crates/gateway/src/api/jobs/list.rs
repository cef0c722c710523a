//! `/jobs`: jobs that run, read once a second for all requests, and jobs that ended, page by page.

use super::super::request::ApiRequest;
use super::super::{Api, answer, page};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use throughline_api::jobs::Jobs;
use throughline_query::as_of;
use throughline_query::jobs::{self, Job, JobQuery, Sort, Totals};
use throughline_query::time::now;
use tokio_postgres::Client;

/// Most jobs of a page with sums: each job costs the database some work.
const TOTALS_MAX: usize = 100;

/// Jobs that run, as of a time.
#[derive(Debug)]
pub struct LiveJobs {
    time: i64,
    jobs: Vec<Job>,
}

/// A place in a list: the value that it is sorted by, and the job.
#[derive(Serialize, Deserialize)]
struct Place(Value, i64);

/// What jobs are sorted by.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Text(String),
}

/// Which jobs a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobStateFilter {
    Live,
    Ended,
    All,
}

/// What was requested.
struct ListFilter<'a> {
    sort: Sort,
    is_descending: bool,
    text: Option<&'a str>,
    user: Option<&'a str>,
    scheduler: Option<&'a str>,
    since: Option<i64>,
    with_totals: bool,
    limit: usize,
    behind: Option<Place>,
}

const SORTS: [(&str, Sort); 8] = [
    ("start", Sort::Start),
    ("end", Sort::End),
    ("duration", Sort::Duration),
    ("user", Sort::User),
    ("name", Sort::Name),
    ("nodes", Sort::Nodes),
    ("ranks", Sort::Ranks),
    ("key", Sort::Key),
];

/// `GET /jobs`.
pub async fn jobs(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let which = request.word(
        "state",
        &[("live", JobStateFilter::Live), ("ended", JobStateFilter::Ended), ("all", JobStateFilter::All)],
    )?;
    let with_totals = request.word("totals", &[("false", false), ("true", true)])?;
    let filter = ListFilter {
        sort: request.word("sort", &SORTS)?,
        is_descending: request.word("order", &[("desc", true), ("asc", false)])?,
        text: request.text("q")?,
        user: request.text("user")?,
        scheduler: request.text("scheduler")?,
        since: request.time("from")?,
        with_totals,
        limit: request.limit()?,
        behind: page::next(&request)?,
    };
    request.done()?;
    if with_totals && filter.limit > TOTALS_MAX {
        let message = format!("limit = {} with sums", filter.limit);
        let remedy = format!("with totals=true give at most limit={TOTALS_MAX}");
        return Err(ApiError::parameter("limit", message, &remedy));
    }
    if which == JobStateFilter::All && matches!(filter.sort, Sort::End | Sort::Duration) {
        let remedy = "sort all jobs by another word, or list those that ended with state=ended";
        return Err(ApiError::parameter("sort", "a job that runs has no end and no duration yet", remedy));
    }
    let list = match which {
        JobStateFilter::Live => live(&api, filter).await?,
        JobStateFilter::Ended => page_of(&api, filter, false).await?,
        JobStateFilter::All => page_of(&api, filter, true).await?,
    };
    answer::json(&list, &request.headers)
}

async fn live(api: &Api, filter: ListFilter<'_>) -> Result<Jobs, ApiError> {
    let read = async || {
        api.query(async |client| Ok(LiveJobs { time: now(client).await?, jobs: jobs::live(client).await? }))
            .await
    };
    let live = api.live_jobs.get(read).await?;
    let mut fitting: Vec<(Value, &Job)> =
        live.jobs.iter().filter(|job| filter.fits(job)).map(|job| (value(job, filter.sort), job)).collect();
    let compare = |one: &(Value, i64), other: &(Value, i64)| {
        let order = one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal).then(one.1.cmp(&other.1));
        if filter.is_descending { order.reverse() } else { order }
    };
    let key = |(value, job): &(Value, &Job)| (value.clone(), job.id);
    fitting.sort_by(|one, other| compare(&key(one), &key(other)));
    let total = fitting.len();
    let begin = match &filter.behind {
        Some(Place(value, id)) => {
            let place = (value.clone(), *id);
            fitting.partition_point(|one| compare(&key(one), &place) != Ordering::Greater)
        }
        None => 0,
    };
    let page: Vec<&(Value, &Job)> = fitting[begin..].iter().take(filter.limit).collect();
    let next = (begin + page.len() < total).then(|| page.last()).flatten();
    let next = next.map(|(value, job)| page::cursor(&Place(value.clone(), job.id)));
    let page: Vec<Job> = page.into_iter().map(|(_, job)| (*job).clone()).collect();
    let jobs = with_totals(api, page, live.time, filter.with_totals).await?;
    Ok(Jobs { as_of_ms: live.time, total: Some(total), jobs, next })
}

async fn page_of(api: &Api, filter: ListFilter<'_>, with_live: bool) -> Result<Jobs, ApiError> {
    let value = filter.behind.as_ref().map(|Place(value, id)| match value {
        Value::Number(number) => (number.to_string(), *id),
        Value::Text(text) => (text.clone(), *id),
    });
    if let Some(Place(value, _)) = &filter.behind {
        let is_text = matches!(filter.sort, Sort::User | Sort::Name | Sort::Key);
        if is_text != matches!(value, Value::Text(_)) {
            let remedy = "give `next` of the answer before, with the other parameters as they were";
            return Err(ApiError::parameter("next", "next is a place in a list of another order", remedy));
        }
    }
    let (mut found, time) = api
        .query(async |client| {
            let query = JobQuery {
                with_live,
                sort: filter.sort,
                is_descending: filter.is_descending,
                text: filter.text,
                user: filter.user,
                scheduler: filter.scheduler,
                since: filter.since,
                behind: value.as_ref().map(|(value, id)| (value.as_str(), *id)),
                limit: filter.limit as i64 + 1,
            };
            Ok((jobs::page(client, &query).await?, now(client).await?))
        })
        .await?;
    let is_more = found.len() > filter.limit;
    found.truncate(filter.limit);
    let next = found.last().filter(|_| is_more).map(|(job, value)| {
        let value = match filter.sort {
            Sort::User | Sort::Name | Sort::Key => Value::Text(value.clone()),
            _ => value.parse().map_or_else(|_| Value::Text(value.clone()), Value::Number),
        };
        page::cursor(&Place(value, job.id))
    });
    let page = found.into_iter().map(|(job, _)| job).collect();
    let jobs = with_totals(api, page, time, filter.with_totals).await?;
    Ok(Jobs { as_of_ms: time, total: None, jobs, next })
}

impl ListFilter<'_> {
    /// Whether a live job passes the filter.
    fn fits(&self, job: &Job) -> bool {
        let words = [&job.native_id, &job.user, &job.name, &job.account, &job.queue, &job.command];
        let has = |text: &str| {
            let text = text.to_lowercase();
            let all = words.into_iter().flatten().chain([&job.key]);
            all.into_iter().any(|word| word.to_lowercase().contains(&text))
        };
        self.text.is_none_or(has)
            && self.user.is_none_or(|user| job.user.as_deref() == Some(user))
            && self.scheduler.is_none_or(|scheduler| job.scheduler.as_deref() == Some(scheduler))
    }
}

#[allow(clippy::cast_precision_loss)] // milliseconds and counts, below 2^53
fn value(job: &Job, sort: Sort) -> Value {
    let start = job.start.unwrap_or(job.first_seen);
    let text = |text: &Option<String>| Value::Text(text.clone().unwrap_or_default());
    match sort {
        Sort::Start => Value::Number(start as f64),
        // All of them end later.
        Sort::End => Value::Number(0.0),
        // The same in the next page, though time went on.
        Sort::Duration => Value::Number(-(start as f64)),
        Sort::User => text(&job.user),
        Sort::Name => text(&job.name),
        Sort::Nodes => Value::Number(job.nodes as f64),
        Sort::Ranks => Value::Number(f64::from(job.world_size.unwrap_or(0))),
        Sort::Key => Value::Text(job.key.clone()),
    }
}

/// Jobs as the API returns them, with their sums where that was requested.
async fn with_totals(
    api: &Api,
    page: Vec<Job>,
    time: i64,
    wanted: bool,
) -> Result<Vec<throughline_api::jobs::Job>, ApiError> {
    let ids: Vec<i64> = page.iter().map(|job| job.id).collect();
    let (as_of, totals) = if wanted {
        api.query(async |client| {
            let as_of = as_of::sums(client, &ids).await?;
            let totals = jobs::totals(client, &ids, &as_of).await?;
            Ok((as_of, totals))
        })
        .await?
    } else {
        Default::default()
    };
    let totals: HashMap<i64, Totals> = totals.into_iter().collect();
    Ok(page
        .into_iter()
        .map(|job| {
            let (totals, as_of) = (totals.get(&job.id).copied(), as_of.get(&job.id));
            job.described(time, totals, as_of)
        })
        .collect())
}

/// The job with a key.
///
/// # Errors
/// There is none.
pub async fn find(client: &Client, key: &str) -> Result<Job, ApiError> {
    jobs::one(client, key).await?.ok_or_else(|| {
        let remedy = "give a whole key, percent-encoded, as /api/v1/jobs or /api/v1/search?q= list them";
        ApiError::not_found(format!("no job {key}"), remedy)
    })
}
