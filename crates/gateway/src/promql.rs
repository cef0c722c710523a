//! The server of PromQL that long ranges are read from (`[query] promql_url`): Prometheus, VictoriaMetrics, Mimir. Range queries
//! over HTTP, each on a thread of its own, with limits of time and size; nothing is cached here.

use crate::outbound::{self, Limits};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::{Failure, Token, TokenFile};
use throughline_query::long_range::{LongRange, PromqlSeries, PromqlServer};
use throughline_query::time::Grid;
use ureq::Agent;
use ureq::http::{HeaderName, HeaderValue, header};

/// For a connection: a page waits for it.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// For a whole answer: as long as a statement may take by default is too long for a page, which sends several.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Largest answer: a hundred times that of the largest chart.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Longest part of an answer in a message.
const QUOTED_BYTES: usize = 200;

/// Where long ranges are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promql {
    /// What stands before `/api/v1/query_range`.
    pub url: String,
    /// Certificates that its own is checked with; the system's otherwise.
    pub ca_file: Option<PathBuf>,
    /// File with the token of `Authorization: Bearer`.
    pub token_file: Option<PathBuf>,
    /// Further headers, such as a tenant.
    pub headers: BTreeMap<String, String>,
}

impl Promql {
    /// Refuses what cannot work, naming the key. Reads no file.
    ///
    /// # Errors
    /// A value can't be used (64).
    pub fn check(&self) -> Result<(), Failure> {
        let Some(origin) = outbound::origin(&self.url) else {
            let why = "expected http://HOST:PORT/PATH or https://…, as http://127.0.0.1:9090";
            return Err(Failure::usage(format!("query.promql_url = \"{}\": {why}", self.url)));
        };
        if self.url.split('/').nth(2).is_some_and(|authority| authority.contains('@')) {
            let why = "a URL is printed in messages and has no password; use query.promql_token_file";
            return Err(Failure::usage(format!("query.promql_url ({origin}): {why}")));
        }
        if self.url.contains(['?', '#']) {
            let why = "give what stands before /api/v1/query_range, without parameters";
            return Err(Failure::usage(format!("query.promql_url ({origin}): {why}")));
        }
        for (name, value) in &self.headers {
            if HeaderName::try_from(name.as_str()).is_err() || HeaderValue::try_from(value.as_str()).is_err()
            {
                return Err(Failure::usage(format!("query.promql_headers: {name}: not a header of HTTP")));
            }
        }
        Ok(())
    }

    /// Reads the files. Sends nothing.
    ///
    /// # Errors
    /// As [`Promql::check`], and a file can't be used (64, 69, 77).
    pub fn long_range(&self) -> Result<LongRange, Failure> {
        self.check()?;
        let token = self.token_file.as_deref();
        let token = token.map(|path| TokenFile::open("query.promql_token_file", path)).transpose()?;
        let limits = Limits { connect: CONNECT_LIMIT, request: REQUEST_LIMIT };
        let agent = outbound::agent(&self.url, self.ca_file.as_deref(), "query.promql_ca_file", limits)?;
        let place = outbound::origin(&self.url).unwrap_or_default();
        Ok(LongRange::new(Arc::new(Server { agent, settings: self.clone(), token, place })))
    }
}

struct Server {
    agent: Agent,
    settings: Promql,
    token: Option<TokenFile>,
    place: String,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Server").field(&self.place).finish()
    }
}

impl PromqlServer for Server {
    fn place(&self) -> &str {
        &self.place
    }

    fn query_range(
        &self,
        expression: String,
        grid: Grid,
    ) -> BoxFuture<'_, Result<Vec<PromqlSeries>, String>> {
        let (agent, settings) = (self.agent.clone(), self.settings.clone());
        let token = self.token.as_ref().map(TokenFile::current);
        let work = tokio::task::spawn_blocking(move || {
            let body = send(&agent, &settings, token.as_deref(), &expression, &grid)?;
            parse(&body)
        });
        async move { work.await.unwrap_or_else(|error| Err(error.to_string())) }.boxed()
    }
}

fn send(
    agent: &Agent,
    settings: &Promql,
    token: Option<&Token>,
    expression: &str,
    grid: &Grid,
) -> Result<Vec<u8>, String> {
    let seconds = |milliseconds: i64| format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
    let mut request = agent.post(format!("{}/api/v1/query_range", settings.url.trim_end_matches('/')));
    for (name, value) in &settings.headers {
        request = request.header(name, value);
    }
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, token.authorization());
    }
    let form = [
        ("query", expression.to_owned()),
        ("start", seconds(grid.from + grid.step)),
        ("end", seconds(grid.to())),
        ("step", seconds(grid.step)),
        // VictoriaMetrics would round times for its cache.
        ("nocache", "1".to_owned()),
    ];
    let mut response = request.send_form(form).map_err(|error| outbound::cause(&error))?;
    let status = response.status();
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
    let body = body.map_err(|error| format!("its answer can't be read: {error}"))?;
    if status.is_success() {
        return Ok(body);
    }
    // What the server says of the expression, where it does.
    let said = serde_json::from_slice::<Reply>(&body).ok().and_then(|reply| reply.error);
    let said = said.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
    Err(format!(
        "it answers {status} {}",
        throughline_sample::admission::clean_text(said.trim(), QUOTED_BYTES)
    ))
}

#[derive(Deserialize)]
struct Reply {
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Matrix>,
}

#[derive(Deserialize)]
struct Matrix {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

fn parse(body: &[u8]) -> Result<Vec<PromqlSeries>, String> {
    let reply: Reply = serde_json::from_slice(body)
        .map_err(|error| format!("its answer is none of Prometheus' API ({error})"))?;
    let Some(data) = reply.data else {
        return Err(reply.error.unwrap_or_else(|| "its answer has no data".to_owned()));
    };
    let series = data.result.into_iter().map(|series| {
        #[allow(clippy::cast_possible_truncation)] // milliseconds
        let point = |(time, value): (f64, String)| Some(((time * 1e3).round() as i64, value.parse().ok()?));
        PromqlSeries { labels: series.metric, points: series.values.into_iter().filter_map(point).collect() }
    });
    Ok(series.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Promql {
        Promql { url: url.to_owned(), ca_file: None, token_file: None, headers: BTreeMap::new() }
    }

    #[test]
    fn addresses_that_cannot_work_are_refused_with_the_key() {
        assert!(settings("http://vmselect:8481/select/0/prometheus").check().is_ok());
        for url in ["vmselect:8481", "ftp://h/", "http://u:p@h/", "http://h/?x=1"] {
            let message = settings(url).check().unwrap_err().to_string();
            assert!(message.contains("query.promql_url") && !message.contains("u:p@"), "{message}");
        }
        let mut tenant = settings("http://h");
        tenant.headers.insert("X Y".to_owned(), "1".to_owned());
        assert!(tenant.check().unwrap_err().to_string().contains("query.promql_headers"));
    }

    #[test]
    fn answers_are_read_and_what_is_none_is_named() {
        let answer = br#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"port":"1"},"values":[[1.5,"2"],[3,"NaN"],[4,"+Inf"]]}]}}"#;
        let series = parse(answer).unwrap();
        assert_eq!(series[0].labels["port"], "1");
        assert_eq!(series[0].points[0], (1500, 2.0));
        assert!(series[0].points[1].1.is_nan() && series[0].points[2].1.is_infinite());
        assert_eq!(parse(br#"{"status":"error","error":"parse error"}"#).unwrap_err(), "parse error");
        assert!(parse(b"<html>").unwrap_err().contains("none of Prometheus' API"));
    }
}
