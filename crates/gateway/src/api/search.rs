//! `/search`: nodes of fabrics, hosts and jobs by what people know of them.

use super::fabric::guid_with_port;
use super::request::ApiRequest;
use super::{Api, answer};
use crate::api_error::ApiError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use throughline_query::search::{self, SearchHit};

/// Digits of a whole GUID.
const GUID_CHARACTERS: usize = 16;

#[derive(Serialize)]
struct Search {
    is_complete: bool,
    results: Vec<Hit>,
}

#[derive(Serialize)]
struct Hit {
    kind: String,
    name: String,
    subnet: Option<String>,
    guid: Option<String>,
    lid: Option<i32>,
    host: Option<String>,
    job_key: Option<String>,
}

/// `GET /search`.
pub async fn search(State(api): State<Arc<Api>>, request: ApiRequest) -> Result<Response, ApiError> {
    let (word, limit) = (request.text("q")?, request.limit()?);
    request.done()?;
    let Some(word) = word.map(str::trim).filter(|word| !word.is_empty()) else {
        let remedy = "give q: part of a name, a GUID, a LID, or a job's key or id";
        return Err(ApiError::parameter("q", "nothing to search for", remedy));
    };
    // A GUID as people paste it, perhaps with a port; part of one stays as it is.
    let typed_guid = guid_with_port(word).filter(|_| word.len() >= GUID_CHARACTERS);
    let word = typed_guid.as_deref().unwrap_or(word);
    let mut found =
        api.query(async |client| Ok(search::search(client, word, limit as i64 + 1).await?)).await?;
    let is_complete = found.len() <= limit;
    found.truncate(limit);
    let response = |found: SearchHit| Hit {
        kind: if found.kind == "ca" { "adapter".to_owned() } else { found.kind },
        name: found.name,
        subnet: found.subnet,
        guid: found.guid,
        lid: found.lid,
        host: found.host,
        job_key: found.job_key,
    };
    let results = found.into_iter().map(response).collect();
    answer::json(&Search { is_complete, results }, &request.headers)
}
