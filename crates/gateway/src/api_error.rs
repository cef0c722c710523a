//! Why there is no answer: one form for all, a status and a JSON object that says what, why and what to do.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use throughline_query::NoConnection;
use throughline_query::long_range::RangeError;
use throughline_store::{DetailRefusal, Error};

/// What is wrong, and what to do.
#[derive(Debug, Serialize)]
pub struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    code: &'static str,
    message: String,
    remedy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>, remedy: &str) -> ApiError {
        let (message, remedy) = (message.into(), remedy.to_owned());
        ApiError { status, code, message, remedy, parameter: None, limit: None }
    }

    /// A parameter is wrong; `remedy` says what is expected.
    pub fn parameter(name: &str, message: impl Into<String>, remedy: &str) -> ApiError {
        let error = ApiError::new(StatusCode::BAD_REQUEST, "bad_parameter", message, remedy);
        ApiError { parameter: Some(name.to_owned()), ..error }
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>, remedy: &str) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message, remedy)
    }

    /// A name means several things.
    pub fn ambiguous(message: impl Into<String>, remedy: &str) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "ambiguous", message, remedy)
    }

    /// The address exists and takes no such method.
    pub fn method() -> ApiError {
        let message = "this address is only read";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message, "use GET or HEAD")
    }

    /// The answer would be larger than a limit allows.
    pub fn over_limit(limit: &str, message: impl Into<String>, remedy: &str) -> ApiError {
        let error = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "over_limit", message, remedy);
        ApiError { limit: Some(limit.to_owned()), ..error }
    }

    /// A statement took longer than it may.
    pub fn too_slow(seconds: u64) -> ApiError {
        let error = ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "too_slow",
            format!("the database did not answer within {seconds} s, the limit query.seconds_max"),
            "ask for a shorter time or for less, or raise query.seconds_max in server.toml",
        );
        ApiError { limit: Some("query.seconds_max".to_owned()), ..error }
    }

    /// No token, or a wrong one.
    pub fn unauthorized(message: impl Into<String>) -> ApiError {
        let remedy = "send `Authorization: Bearer TOKEN` with the token of query.token_file";
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message, remedy)
    }

    /// Sent to a name that is none of this server's.
    pub fn misdirected(message: impl Into<String>, remedy: &str) -> ApiError {
        ApiError::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message, remedy)
    }

    /// The reader has as many requests under way as it may.
    pub fn busy(message: impl Into<String>) -> ApiError {
        let remedy =
            "ask again in a few seconds, one after the other, or raise query.parallel_max in server.toml";
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "busy", message, remedy);
        ApiError { limit: Some("query.parallel_max".to_owned()), ..error }
    }

    /// Not from here.
    pub fn forbidden(message: impl Into<String>, remedy: &str) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message, remedy)
    }

    /// Whether the database is not to blame: the request cannot be answered.
    pub fn is_of_the_request(&self) -> bool {
        self.status.is_client_error()
    }

    /// Nobody's fault but this program's.
    pub fn internal(message: impl Into<String>) -> ApiError {
        let remedy = "the server's log has more; please report it";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message, remedy)
    }
}

impl From<DetailRefusal> for ApiError {
    fn from(refusal: DetailRefusal) -> ApiError {
        let (status, code) = match refusal.reason {
            "off" => (StatusCode::FORBIDDEN, "forbidden"),
            "unknown" => (StatusCode::NOT_FOUND, "not_found"),
            "span" => (StatusCode::PAYLOAD_TOO_LARGE, "over_limit"),
            _ => (StatusCode::TOO_MANY_REQUESTS, "over_limit"),
        };
        let error = ApiError::new(status, code, refusal.message, &refusal.remedy);
        ApiError { limit: refusal.limit.map(str::to_owned), ..error }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        let message = error.to_string();
        match error {
            Error::Refused { .. } | Error::Schema(_) => ApiError::internal(message),
            _ => ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                DATABASE_ABSENT,
                message,
                "`throughline db status` shows whether the private database runs; if it is an operated one, check its server",
            ),
        }
    }
}

impl From<RangeError> for ApiError {
    fn from(error: RangeError) -> ApiError {
        let message = error.to_string();
        match error {
            RangeError::Database(error) => error.into(),
            RangeError::Away { held_from, .. } => {
                let remedy = format!(
                    "is that server running, and does query.promql_url in server.toml lead to its Prometheus API? A range from {held_from} on \
                     is answered without it"
                );
                ApiError::new(StatusCode::BAD_GATEWAY, "long_range_absent", message, &remedy)
            }
        }
    }
}

impl From<NoConnection> for ApiError {
    fn from(error: NoConnection) -> ApiError {
        match error {
            NoConnection::Busy => {
                let error = ApiError::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "busy",
                    error.to_string(),
                    "ask again in a few seconds, or raise query.parallel_max in server.toml",
                );
                ApiError { limit: Some("query.parallel_max".to_owned()), ..error }
            }
            NoConnection::Database(error) => error.into(),
        }
    }
}

/// Marks a response without an answer because the database is away: another one may have it.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseAbsent;

/// The code of an [`ApiError`] for that.
const DATABASE_ABSENT: &str = "database_absent";

/// The form of an [`ApiError`] on its way out.
#[derive(Serialize)]
struct Envelope<'a> {
    error: &'a ApiError,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::warn!(status = %self.status, message = self.message, "a request was not answered");
        }
        let body = serde_json::to_vec(&Envelope { error: &self }).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
        let mut response = (self.status, kind, body).into_response();
        if self.code == DATABASE_ABSENT {
            response.extensions_mut().insert(DatabaseAbsent);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer realm=\"throughline\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
