//! The JSON API, `/api/v1/`, as `openapi.yaml` has it: what the pages use, and anybody else may.
//!
//! A handler takes a [`Question`](question::Question), asks the store ([`Api::ask`]: a connection of the reading role,
//! bounded in number and time) and makes an answer, or a [`Problem`]. What many ask for at once about the present is
//! read once a second for all of them ([`fresh`]).

mod answer;
mod events;
mod fabric;
mod fresh;
mod jobs;
mod link_rates;
mod nodes;
mod page;
mod problem;
mod question;
mod search;
mod status;

pub use problem::Problem;

use crate::read::Limits;
use axum::Router;
use axum::http::{Uri, header};
use axum::response::IntoResponse;
use axum::routing::get;
use fresh::Fresh;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_query::Pool;
use throughline_store::Database;
use tokio_postgres::Client;

/// How long a question waits for one of the connections.
const PATIENCE: Duration = Duration::from_secs(5);

/// How old an answer about the present may be that several are given.
const FRESH: Duration = Duration::from_millis(900);

/// The contract.
const DOCUMENT: &str = include_str!("../../openapi.yaml");

/// What answers.
#[derive(Debug)]
pub struct Api {
    pool: Pool,
    limits: Limits,
    /// Where the database is, for people.
    place: String,
    fabric: fabric::Kept,
    live_jobs: Fresh<jobs::Live>,
}

impl Api {
    /// Reads this database.
    #[must_use]
    pub fn new(database: Database, limits: Limits) -> Api {
        let place = database.place().to_owned();
        let pool = Pool::new(database, limits.parallel, limits.time).for_small_answers();
        Api { pool, limits, place, fabric: fabric::Kept::default(), live_jobs: Fresh::new(FRESH) }
    }

    /// Asks the database something, with a connection of its own.
    ///
    /// # Errors
    /// The question's own, no connection, or longer than a statement may take.
    async fn ask<T>(&self, question: impl AsyncFnOnce(&Client) -> Result<T, Problem>) -> Result<T, Problem> {
        let lent = self.pool.get(PATIENCE).await?;
        let Some(client) = lent.client() else { return Err(Problem::internal("no connection")) };
        let begun = Instant::now();
        // A database that hangs does not end its statements by itself.
        let asked = tokio::time::timeout(self.limits.answer_within(), question(client)).await;
        let slow = || Problem::too_slow(self.limits.time.as_secs());
        match asked.unwrap_or_else(|_| Err(slow())) {
            Ok(answer) => {
                lent.give_back();
                Ok(answer)
            }
            // What failed for another reason leaves the connection as good as it was.
            Err(problem) if problem.is_of_the_question() => {
                lent.give_back();
                Err(problem)
            }
            Err(_) if begun.elapsed() >= self.limits.time => Err(slow()),
            Err(problem) => Err(problem),
        }
    }
}

/// The routes, to be put under `/api/v1`.
pub fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/openapi.yaml", get(async || ([(header::CONTENT_TYPE, "application/yaml")], DOCUMENT)))
        .route("/range", get(events::range))
        .route("/health", get(events::health))
        .route("/status", get(status::status))
        .route("/events", get(events::events))
        .route("/subnets", get(fabric::subnets))
        .route("/fabric/{subnet}/topology", get(fabric::topology))
        .route("/fabric/{subnet}/load", get(fabric::load))
        .route("/fabric/{subnet}/links/{link}", get(fabric::link))
        .route("/fabric/{subnet}/jobs/{job}", get(fabric::job))
        .route("/fabric/{subnet}/groups", get(fabric::groups))
        .route("/fabric/{subnet}/groups/{mlid}", get(fabric::group))
        .route("/search", get(search::search))
        .route("/nodes", get(nodes::nodes))
        .route("/nodes/{host}", get(nodes::node))
        .route("/nodes/{host}/rates", get(link_rates::node))
        .route("/jobs", get(jobs::jobs))
        .route("/job-names/{name}", get(jobs::name))
        .route("/jobs/{job}", get(jobs::job))
        .route("/jobs/{job}/ranks", get(jobs::ranks))
        .route("/jobs/{job}/regions", get(jobs::regions))
        .route("/jobs/{job}/traffic", get(jobs::traffic))
        .route("/jobs/{job}/link-peaks", get(jobs::link_peaks))
        .route("/jobs/{job}/pairs", get(jobs::pairs))
        .route("/jobs/{job}/trace", get(jobs::traced_ranks))
        .route("/jobs/{job}/trace/{rank}", get(jobs::records))
        .route("/job-rates", get(jobs::rates))
        .route("/jobs/{job}/matrix", get(jobs::matrix))
        .route("/jobs/{job}/links", get(link_rates::job))
        .route("/jobs/{job}/operations", get(jobs::operations))
        .fallback(nothing_here)
        .method_not_allowed_fallback(async || Problem::method())
        .with_state(api)
}

async fn nothing_here(uri: Uri) -> impl IntoResponse {
    let remedy = "/api/v1/openapi.yaml lists what there is";
    Problem::not_found(format!("nothing at {}", uri.path()), remedy)
}

#[cfg(test)]
mod tests;
