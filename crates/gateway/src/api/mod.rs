//! The JSON API, `/api/v1/`, as `openapi.yaml` has it: what the pages use, and anybody else may.
//!
//! A handler takes an [`ApiRequest`](request::ApiRequest), queries the database ([`Api::query`]: a connection of the reading role,
//! bounded in number and time) and makes an answer, or an [`ApiError`]. What many requests want at once about the present is
//! read once a second for all of them ([`fresh`]).

mod again;
mod alerts;
mod answer;
mod detail_requests;
mod events;
mod fabric;
mod fresh;
mod gpu_metrics;
mod jobs;
mod link_rates;
mod live;
mod nodes;
mod nvlink_metrics;
mod own_devices;
mod page;
mod pcie;
mod request;
mod search;
mod status;

pub use crate::api_error::ApiError;

use crate::read::Limits;
use crate::thresholds::Thresholds;
use crate::upkeep::Triggers;
use axum::Router;
use axum::http::{Uri, header};
use axum::response::IntoResponse;
use axum::routing::get;
use detail_requests::request_link;
use fresh::CachedValue;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_daemon::SelfMetrics;
use throughline_query::long_range::LongRange;
use throughline_query::{Pool, ReadPath};
use throughline_sample::catalogue::REQUESTS_REJECTED;
use throughline_store::{Database, DetailRefusal};
use tokio::sync::Semaphore;
use tokio_postgres::Client;

/// How long a request waits for one of the connections.
const PATIENCE: Duration = Duration::from_secs(5);

/// How old an answer about the present may be that several are given.
const FRESH: Duration = Duration::from_millis(900);

/// Requests for detail that are written at a time: each has a connection of its own for some milliseconds.
const WRITES_MAX: usize = 2;

/// The contract.
const DOCUMENT: &str = include_str!("../../openapi.yaml");

/// What answers.
#[derive(Debug)]
pub struct Api {
    pool: Pool,
    limits: Limits,
    /// Where the database is, for people.
    place: String,
    fabric: fabric::FabricCache,
    live_jobs: CachedValue<jobs::LiveJobs>,
    /// Jobs that somebody looks at.
    shown_jobs: live::ShownJobs,
    thresholds: Thresholds,
    detail: Detail,
    /// Where ranges are read that begin before what the database holds.
    long_range: LongRange,
}

/// What may be requested of agents' recorders. Requests are the only thing that the API writes.
#[derive(Debug)]
struct Detail {
    database: Database,
    /// The quotas, and what is requested for alerts.
    triggers: Triggers,
    metrics: SelfMetrics,
    /// Requests that are being written.
    parallel: Semaphore,
}

impl Api {
    /// Reads this database, or its replica.
    #[must_use]
    pub fn new(path: impl Into<ReadPath>, limits: Limits) -> Api {
        let path = path.into();
        let place = path.primary().place().to_owned();
        let detail = Detail {
            database: path.primary().clone(),
            triggers: Triggers::default(),
            metrics: SelfMetrics::default(),
            parallel: Semaphore::new(WRITES_MAX),
        };
        let pool = Pool::new(path, limits.parallel, limits.time).for_small_answers();
        Api {
            pool,
            limits,
            place,
            fabric: fabric::FabricCache::default(),
            live_jobs: CachedValue::new(FRESH),
            shown_jobs: live::ShownJobs::default(),
            thresholds: Thresholds::default(),
            detail,
            long_range: LongRange::default(),
        }
    }

    /// With a site's quotas of detail on demand; what is refused is counted.
    #[must_use]
    pub fn with_detail(self, triggers: Triggers, metrics: SelfMetrics) -> Api {
        for reason in DetailRefusal::REASONS {
            metrics.add((crate::refusals::DETAIL, reason), &REQUESTS_REJECTED, 0);
        }
        Api { detail: Detail { triggers, metrics, ..self.detail }, ..self }
    }

    /// With a server of PromQL for long ranges.
    #[must_use]
    pub fn with_long_range(self, long_range: LongRange) -> Api {
        Api { long_range, ..self }
    }

    /// With a site's thresholds.
    #[must_use]
    pub fn with_thresholds(self, thresholds: Thresholds) -> Api {
        Api { thresholds, ..self }
    }

    /// Queries the database with a connection of its own.
    ///
    /// # Errors
    /// The request's own, no connection, or longer than a statement may take.
    async fn query<T>(
        &self,
        request: impl AsyncFnOnce(&Client) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let connection = self.pool.get(PATIENCE).await?;
        let Some(client) = connection.client() else { return Err(ApiError::internal("no connection")) };
        let begun = Instant::now();
        // A database that hangs does not end its statements by itself.
        let filter = tokio::time::timeout(self.limits.answer_within(), request(client)).await;
        let slow = || ApiError::too_slow(self.limits.time.as_secs());
        match filter.unwrap_or_else(|_| Err(slow())) {
            Ok(answer) => {
                connection.release().await;
                Ok(answer)
            }
            // What failed for another reason leaves the connection as good as it was.
            Err(error) if error.is_of_the_request() => {
                connection.release().await;
                Err(error)
            }
            Err(_) if begun.elapsed() >= self.limits.time => Err(slow()),
            Err(error) => Err(error),
        }
    }
}

/// The routes, to be put under `/api/v1`.
pub fn router(api: Arc<Api>) -> Router {
    let path = api.pool.path().clone();
    let again = axum::middleware::from_fn_with_state(path, again::at_primary);
    Router::new()
        .route("/openapi.yaml", get(async || ([(header::CONTENT_TYPE, "application/yaml")], DOCUMENT)))
        .route("/range", get(events::range))
        .route("/health", get(events::health))
        .route("/status", get(status::status))
        .route("/clock", get(status::clock))
        .route("/events", get(events::events))
        .route("/subnets", get(fabric::subnets))
        .route("/fabric/{subnet}/topology", get(fabric::topology))
        .route("/fabric/{subnet}/load", get(fabric::load))
        .route("/fabric/{subnet}/links/{link}", get(fabric::link))
        .route("/fabric/{subnet}/links/{link}/shares", get(fabric::shares))
        .route("/link-names/{name}", get(fabric::link_name))
        .route("/fabric/{subnet}/jobs/{job}", get(fabric::job))
        .route("/fabric/{subnet}/groups", get(fabric::groups))
        .route("/fabric/{subnet}/groups/{mlid}", get(fabric::group))
        .route("/search", get(search::search))
        .route("/nodes", get(nodes::nodes))
        .route("/nodes/{host}", get(nodes::node))
        .route("/nodes/{host}/rates", get(link_rates::node))
        .route("/nodes/{host}/nvlink", get(nvlink_metrics::nvlink))
        .route("/nodes/{host}/gpu-metrics", get(gpu_metrics::gpu_metrics))
        .route("/jobs", get(jobs::jobs))
        .route("/job-names/{name}", get(jobs::name))
        .route("/jobs/{job}", get(jobs::job))
        .route("/jobs/{job}/ranks", get(jobs::ranks))
        .route("/jobs/{job}/regions", get(jobs::regions))
        .route("/jobs/{job}/traffic", get(jobs::traffic))
        .route("/jobs/{job}/link-peaks", get(jobs::link_peaks))
        .route("/jobs/{job}/link-shares", get(jobs::link_shares))
        .route("/jobs/{job}/verdicts", get(jobs::verdicts))
        .route("/jobs/{job}/report", get(jobs::report))
        .route("/jobs/{job}/account", get(jobs::account))
        .route("/jobs/{job}/account-steps", get(jobs::account_steps))
        .route("/jobs/{job}/waits", get(jobs::waits))
        .route("/jobs/{job}/broadcast", get(jobs::broadcast))
        .route("/jobs/{job}/pvars", get(jobs::pvars))
        .route("/jobs/{job}/pairs", get(jobs::pairs))
        .route("/jobs/{job}/trace", get(jobs::traced_ranks))
        .route("/jobs/{job}/trace/{rank}", get(jobs::records))
        .route("/job-rates", get(jobs::rates))
        .route("/jobs/{job}/matrix", get(jobs::matrix))
        .route("/jobs/{job}/links", get(link_rates::job))
        .route("/jobs/{job}/gpus", get(jobs::gpus))
        .route("/jobs/{job}/lanes", get(jobs::lanes))
        .route("/jobs/{job}/link-lanes", get(jobs::link_lanes))
        .route("/jobs/{job}/gpu-traffic", get(jobs::gpu_traffic))
        .route("/jobs/{job}/operations", get(jobs::operations))
        .route("/jobs/{job}/operation-steps", get(jobs::operation_steps))
        .route("/jobs/{job}/detail", get(detail_requests::of_job).post(detail_requests::request_job))
        .route("/jobs/{job}/live", get(live::state).post(live::request))
        .route("/nodes/{host}/detail", get(detail_requests::of_node).post(detail_requests::request_node))
        .route("/fabric/{subnet}/links/{link}/detail", get(detail_requests::of_link).post(request_link))
        .route("/alerts", get(alerts::list).post(alerts::take))
        .fallback(nothing_here)
        .method_not_allowed_fallback(async || ApiError::method())
        .layer(again)
        .with_state(api)
}

async fn nothing_here(uri: Uri) -> impl IntoResponse {
    let remedy = "/api/v1/openapi.yaml lists what there is";
    ApiError::not_found(format!("nothing at {}", uri.path()), remedy)
}

#[cfg(test)]
mod tests;
