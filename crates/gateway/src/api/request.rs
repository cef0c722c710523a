//! A request: the parts of its address and its parameters, each taken by name and checked. A parameter that
//! nobody took is an error, so that a misspelt one is not just ignored.

use crate::api_error::ApiError;
use crate::shares::Reader;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use std::fmt::Write;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use throughline_query::time::QueryTime;
use throughline_sample::from_rfc3339;

/// Longest text of a parameter.
const TEXT_BYTES: usize = 1000;

/// Times may be ahead of this server's clock by so much: browsers' clocks are not exact.
const AHEAD_MS: i64 = 60_000;

/// Earliest time that makes sense, and the latest: the years 1970 and 2255.
const TIMES: (i64, i64) = (0, 9_000_000_000_000);

/// Most points of a series, and where the request has none.
const POINTS: (usize, usize) = (2000, 300);
/// Most items of a page of a list, and where the request has none.
const LIMITS: (usize, usize) = (1000, 100);

/// A request.
#[derive(Debug)]
pub struct ApiRequest {
    path: Vec<(String, String)>,
    parameters: Vec<(String, String)>,
    taken: Mutex<Vec<&'static str>>,
    /// Its headers.
    pub headers: HeaderMap,
    /// When it came, milliseconds since 1970.
    pub now: i64,
    /// Who sent it.
    reader: Option<Reader>,
}

impl<S: Send + Sync> FromRequestParts<S> for ApiRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ApiRequest, ApiError> {
        let path = RawPathParams::from_request_parts(parts, state).await;
        let path = path.map_err(|error| {
            ApiError::parameter("path", error.to_string(), "percent-encode UTF-8 in the address")
        })?;
        // No text of the database has one, and it would refuse the statement.
        if path.iter().any(|(_, value)| value.contains('\0')) {
            return Err(ApiError::parameter("path", "the address has a byte 0".to_owned(), "leave it out"));
        }
        let parameters = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri).map_err(|error| {
            ApiError::parameter("query", error.to_string(), "separate NAME=VALUE by &, percent-encoded")
        })?;
        Ok(ApiRequest {
            path: path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            parameters: parameters.0,
            taken: Mutex::default(),
            headers: parts.headers.clone(),
            now: throughline_daemon::Clock::new().now() / 1_000_000,
            reader: parts.extensions.get::<Reader>().cloned(),
        })
    }
}

impl ApiRequest {
    /// Whose quota it counts against.
    pub fn user(&self) -> String {
        self.reader.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string)
    }

    /// Whether it comes from root of this machine or from the server's own user, who can read the database anyway.
    pub fn is_administrator(&self) -> bool {
        let own = nix::unistd::Uid::effective().as_raw();
        matches!(self.reader, Some(Reader::Local(user)) if user == 0 || user == own)
    }

    /// A part of the address.
    pub fn path(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// A parameter; an empty one is none.
    pub fn text(&self, name: &'static str) -> Result<Option<&str>, ApiError> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        let mut all = self.parameters.iter().filter(|(known, _)| known == name).map(|(_, value)| value);
        let (first, second) = (all.next(), all.next());
        if second.is_some() {
            return Err(ApiError::parameter(name, format!("{name} is given twice"), "give it once"));
        }
        let value = first.map(String::as_str).filter(|value| !value.is_empty());
        if value.is_some_and(|value| value.len() > TEXT_BYTES || value.contains('\0')) {
            let message = format!("{name} is longer than {TEXT_BYTES} bytes or has a byte 0");
            return Err(ApiError::parameter(name, message, "give a shorter text"));
        }
        Ok(value)
    }

    /// A number within bounds, both included.
    pub fn number<T: FromStr + PartialOrd + std::fmt::Display + Copy>(
        &self,
        name: &'static str,
        usual: T,
        least: T,
        most: T,
    ) -> Result<T, ApiError> {
        let Some(text) = self.text(name)? else { return Ok(usual) };
        let value = text.parse::<T>().ok().filter(|value| (least..=most).contains(value));
        value.ok_or_else(|| {
            let expected = format!("give a number from {least} to {most}");
            ApiError::parameter(name, format!("{name} = {text}"), &expected)
        })
    }

    /// One of some words; the first unless given.
    pub fn word<T: Copy>(&self, name: &'static str, words: &[(&str, T)]) -> Result<T, ApiError> {
        let text = self.text(name)?.unwrap_or(words[0].0);
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            ApiError::parameter(name, format!("{name} = {text}"), &format!("give one of {}", all.join(", ")))
        })
    }

    /// A time in milliseconds.
    pub fn time(&self, name: &'static str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let time = text.parse::<i64>().ok().or_else(|| from_rfc3339(text).map(|time| time / 1_000_000));
        let time = time.filter(|time| (TIMES.0..=TIMES.1).contains(time));
        time.map(Some).ok_or_else(|| {
            let expected = "give milliseconds since 1970, or a time like 2026-11-20T08:00:00Z";
            ApiError::parameter(name, format!("{name} = {text} is no time"), expected)
        })
    }

    /// The moment of a request: `at`.
    pub fn at(&self) -> Result<QueryTime, ApiError> {
        if self.text("at")?.is_none_or(|text| text == "latest") {
            return Ok(QueryTime::Latest);
        }
        match self.time("at")? {
            Some(time) if time > self.now + AHEAD_MS => {
                let message = "at is in the future";
                Err(ApiError::parameter("at", message, "give `latest` or a time that has been"))
            }
            Some(time) => Ok(QueryTime::Time(time)),
            None => Ok(QueryTime::Latest),
        }
    }

    /// `from` and `to` in milliseconds, with what holds where they are not given.
    pub fn range(&self, usual: impl Fn(Option<i64>) -> (i64, i64)) -> Result<(i64, i64), ApiError> {
        let (from, to) = (self.time("from")?, self.time("to")?);
        let (usual_from, usual_to) = usual(to);
        let (from, to) = (from.unwrap_or(usual_from), to.unwrap_or(usual_to));
        if from >= to {
            let message = format!("the range from {from} to {to} ends before it begins");
            return Err(ApiError::parameter("from", message, "give a `from` that is earlier than `to`"));
        }
        Ok((from, to))
    }

    /// `from` and `to`; the hour before now unless given.
    pub fn last_hour(&self) -> Result<(i64, i64), ApiError> {
        self.range(|to| {
            let to = to.unwrap_or(self.now);
            (to.saturating_sub(3_600_000), to)
        })
    }

    /// Most points of a series.
    pub fn points(&self) -> Result<usize, ApiError> {
        self.number("points", POINTS.1, 1, POINTS.0)
    }

    /// Most items of a list.
    pub fn limit(&self) -> Result<usize, ApiError> {
        self.number("limit", LIMITS.1, 1, LIMITS.0)
    }

    /// All parameters have been taken.
    ///
    /// # Errors
    /// One was not: it has a wrong name.
    pub fn done(&self) -> Result<(), ApiError> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((wrong, _)) = self.parameters.iter().find(|(name, _)| !taken.contains(&name.as_str()))
        else {
            return Ok(());
        };
        let mut known = taken.clone();
        known.sort_unstable();
        known.dedup();
        let mut expected = String::from("this address takes ");
        match known.is_empty() {
            true => expected.push_str("no parameters"),
            false => _ = write!(expected, "{}", known.join(", ")),
        }
        Err(ApiError::parameter(wrong, format!("there is no parameter {wrong} here"), &expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(query: &str) -> ApiRequest {
        let uri = format!("/x?{query}").parse().unwrap();
        let parameters = Query::<Vec<(String, String)>>::try_from_uri(&uri).unwrap().0;
        ApiRequest {
            path: Vec::new(),
            parameters,
            taken: Mutex::default(),
            headers: HeaderMap::new(),
            now: 1_000_000_000_000,
            reader: None,
        }
    }

    fn wrong<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
        format!("{:?}", result.unwrap_err())
    }

    #[test]
    fn times_are_milliseconds_or_words() {
        for text in ["1767225600000", "2026-01-01T00:00:00Z"] {
            assert_eq!(request(&format!("to={text}")).time("to").unwrap(), Some(1_767_225_600_000), "{text}");
        }
        assert_eq!(request("at=latest").at().unwrap(), QueryTime::Latest);
        assert_eq!(request("").at().unwrap(), QueryTime::Latest);
        assert_eq!(request("at=5").at().unwrap(), QueryTime::Time(5));
        assert!(wrong(request("at=2000000000000").at()).contains("future"));
        for text in ["yesterday", "-1", "99999999999999999", "1e3", "2026-13-01T00:00:00Z"] {
            assert!(wrong(request(&format!("at={text}")).at()).contains("is no time"), "{text}");
        }
        let hour = request("to=1000000000000").last_hour().unwrap();
        assert_eq!(hour, (999_996_400_000, 1_000_000_000_000));
        assert!(wrong(request("from=9&to=9").last_hour()).contains("ends before"));
    }

    #[test]
    fn what_is_out_of_bounds_or_unknown_is_refused_with_what_is_expected() {
        assert_eq!(request("limit=1000").limit().unwrap(), 1000);
        for text in ["0", "1001", "-1", "x", "1.5"] {
            assert!(wrong(request(&format!("limit={text}")).limit()).contains("from 1 to 1000"), "{text}");
        }
        let words = [("one", 1), ("two", 2)];
        assert_eq!(
            (request("").word("w", &words).unwrap(), request("w=two").word("w", &words).unwrap()),
            (1, 2)
        );
        assert!(wrong(request("w=three").word("w", &words)).contains("one, two"));
        let misspelt = request("limt=5");
        misspelt.limit().unwrap();
        misspelt.at().unwrap();
        let said = wrong(misspelt.done());
        assert!(said.contains("limt") && said.contains("at, limit"), "{said}");
        assert!(wrong(request("at=1&at=2").at()).contains("twice"));
        assert!(wrong(request(&format!("q={}", "x".repeat(1001))).text("q")).contains("longer"));
        assert!(wrong(request("q=a%00").text("q")).contains("byte 0"));
    }
}
