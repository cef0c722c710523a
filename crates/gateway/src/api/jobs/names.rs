//! `/job-names/{name}`: the job that a name means which a person typed.

use super::super::request::ApiRequest;
use super::super::{Api, answer};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use throughline_api::jobs::JobName;
use throughline_query::job_names::{self, Candidate, NameResolution};
use throughline_sample::admission::is_deceptive;
use throughline_sample::job_key::has_id;
use throughline_sample::to_rfc3339;

/// Most candidates in a message.
const CANDIDATES_MAX: usize = 5;
/// Longest key and longest other text in a message, characters.
const KEY_CHARACTERS: usize = 120;
const TEXT_CHARACTERS: usize = 40;
/// A time to the second, as RFC 3339 begins.
const SECOND_CHARACTERS: usize = 19;

/// `GET /job-names/{name}`.
pub async fn name(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let user = request.text("uid")?.is_some().then(|| request.number("uid", 0, 0, u32::MAX)).transpose()?;
    request.done()?;
    let name = request.path("name");
    let meaning = api.query(async |client| Ok(job_names::meaning(client, name, user).await?)).await?;
    match meaning {
        NameResolution::Job(job_key) => answer::json(&JobName { job_key }, &request.headers),
        other => Err(error(&other, name, user)),
    }
}

fn error(meaning: &NameResolution, name: &str, user: Option<u32>) -> ApiError {
    const RUN: &str = "run an MPI program under throughline-exec on a node with an agent";
    const LIST: &str = "`throughline job list` shows those that there are";
    let name = plain(name, KEY_CHARACTERS);
    match (meaning, user) {
        (NameResolution::NoJobYet, None) => ApiError::not_found("no job yet", RUN),
        (NameResolution::NoJobYet, Some(user)) => ApiError::not_found(
            format!("no job of yours yet (user {user})"),
            &format!("{RUN}; `throughline job list` shows those of others"),
        ),
        (NameResolution::Nothing { is_empty: true, .. }, _) => {
            ApiError::not_found(format!("no job {name}: the database has none yet"), RUN)
        }
        (NameResolution::Nothing { nearest, .. }, _) if !nearest.is_empty() => {
            let nearest: Vec<String> = nearest.iter().map(|key| plain(key, KEY_CHARACTERS)).collect();
            ApiError::not_found(format!("no job {name}"), &format!("the nearest: {}", nearest.join(", ")))
        }
        (NameResolution::Several(jobs), _) => {
            let more = if jobs.len() > CANDIDATES_MAX { ", …" } else { "" };
            let shown: Vec<String> = jobs.iter().take(CANDIDATES_MAX).map(about).collect();
            ApiError::ambiguous(
                format!("{name} fits {} jobs: {}{more}", jobs.len(), shown.join(", ")),
                "name one of them by more of its key",
            )
        }
        (NameResolution::NotAsMany, _) => {
            ApiError::not_found(format!("there are not as many jobs: {name}"), LIST)
        }
        (NameResolution::Nothing { .. } | NameResolution::Job(_), _) => {
            ApiError::not_found(format!("no job {name}"), LIST)
        }
    }
}

/// A candidate with what distinguishes it from others. The key has its cluster, and where it has a SLUID no number.
fn about(job: &Candidate) -> String {
    let or = |text: &Option<String>, absent: &str| plain(text.as_deref().unwrap_or(absent), TEXT_CHARACTERS);
    let number = job.native_id.as_deref().filter(|id| !has_id(&job.key, id));
    let number = number.map_or_else(String::new, |id| format!("job {}, ", plain(id, TEXT_CHARACTERS)));
    let began = job.began.and_then(|began| began.checked_mul(1_000_000)).map(to_rfc3339);
    let began =
        began.map_or_else(String::new, |began| format!(", since {}Z", plain(&began, SECOND_CHARACTERS)));
    format!(
        "{} ({number}user {}, by its {}, on {}{began})",
        plain(&job.key, KEY_CHARACTERS),
        or(&job.user, "unknown"),
        or(&job.evidence, "own word"),
        or(&job.host, "no node yet"),
    )
}

/// Names come from other people's programs, and messages go to terminals.
fn plain(text: &str, characters: usize) -> String {
    text.chars().take(characters).map(|c| if is_deceptive(c) { '\u{fffd}' } else { c }).collect()
}
