//! Headers that every answer has, errors included: what a browser may not make of it.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

/// Each is put where the answer has none of its own. Data is not framed, runs nothing, is what its type says, and no page
/// of another site may load it or hold on to a window with it.
const USUAL: [(HeaderName, HeaderValue); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN")),
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];

/// Every answer below `/api/`, refusals included, says which version of the API this is: a client that needs another one
/// reports that instead of misreading what it gets.
const API_VERSION_HEADER: HeaderName = HeaderName::from_static(throughline_api::VERSION_HEADER);

/// For `axum::middleware::from_fn`.
pub async fn usual(request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = next.run(request).await;
    if is_api {
        response.headers_mut().insert(API_VERSION_HEADER, HeaderValue::from_static(throughline_api::VERSION));
    }
    for (name, value) in &USUAL {
        if !response.headers().contains_key(name) {
            response.headers_mut().insert(name.clone(), value.clone());
        }
    }
    response
}
