//! Pages for people: what Vite made of `web/`, embedded by build.rs, with the headers that keep them to this server.
//!
//! Each page is the same document; which one it shows is decided in the browser by the path. They use the JSON API and
//! nothing else, from nowhere else: the content security policy says so.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

mod files {
    include!(concat!(env!("OUT_DIR"), "/pages.rs"));
}

/// Scripts, styles, pictures and data from this server only; no inline code; nobody else may frame the pages.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Files below `/assets/` have a hash of their content in the name.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// Everything else is requested anew: it is small, and an update of the server must show.
const NOT_KEPT: &str = "no-cache";

/// Shown where the pages are missing from the build.
const NOT_BUILT: &str = "The pages are not part of this build: it was made without Node.\n\
                         `make build` makes them (needs Node 18 and npm); with cargo alone: `make pages`, then build again.\n";

/// Whether the pages are part of this build.
pub fn are_built() -> bool {
    find("/index.html").is_some()
}

/// Paths of the pages and of what they load. Without pages `/` and the pages' paths answer with `about` and how to
/// build them.
pub fn router(about: String) -> Router {
    let page = move || {
        let about = about.clone();
        async move { document(StatusCode::OK, &about) }
    };
    Router::new()
        .route("/", get(page.clone()))
        .route("/fabric", get(page.clone()))
        .route("/jobs", get(page.clone()))
        .route("/jobs/{job}", get(page.clone()))
        .route("/nodes", get(page.clone()))
        .route("/nodes/{host}", get(page.clone()))
        .route("/multicast", get(page.clone()))
        .route("/multicast/{mlid}", get(page))
        .route(
            "/assets/{file}",
            get(|Path(file): Path<String>| async move { asset(&format!("/assets/{file}")) }),
        )
        .route("/icon.svg", get(|| async { asset("/icon.svg") }))
        .route("/licenses.txt", get(|| async { asset("/licenses.txt") }))
}

/// What answers a path that nothing else answers: the page that says so to a browser, a line to a program.
pub async fn missing(headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let line = "no such path: / has the pages, /api/v1/openapi.yaml says what the API answers\n";
    if accept.contains("text/html") && are_built() {
        return document(StatusCode::NOT_FOUND, line);
    }
    (StatusCode::NOT_FOUND, line).into_response()
}

fn find(path: &str) -> Option<&'static [u8]> {
    let at = files::FILES.binary_search_by(|(name, _)| (*name).cmp(path)).ok()?;
    files::FILES.get(at).map(|(_, content)| *content)
}

/// The pages' document, else `about` and how to build the pages.
fn document(status: StatusCode, about: &str) -> Response {
    match find("/index.html") {
        Some(content) => (status, headers("text/html; charset=utf-8", NOT_KEPT), content).into_response(),
        None => {
            let text = format!("{about}\n{NOT_BUILT}");
            (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
        }
    }
}

fn asset(path: &str) -> Response {
    let Some(content) = find(path) else {
        let why = if are_built() { "no such file\n" } else { NOT_BUILT };
        return (StatusCode::NOT_FOUND, why).into_response();
    };
    let keep = if path.starts_with("/assets/") { FOR_EVER } else { NOT_KEPT };
    (headers(content_type(path), keep), content).into_response()
}

fn headers(kind: &'static str, keep: &'static str) -> [(HeaderName, HeaderValue); 5] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static(keep)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ]
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_that_the_search_needs() {
        assert!(files::FILES.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn the_document_loads_only_files_that_are_embedded() {
        let Some(document) = find("/index.html") else {
            assert!(files::FILES.is_empty(), "either all pages are there or none");
            return;
        };
        let text = std::str::from_utf8(document).unwrap();
        let loaded: Vec<&str> =
            text.split(['"', '\'']).filter(|part| part.starts_with('/') && part.len() > 1).collect();
        assert!(loaded.iter().any(|path| path.ends_with(".js")), "{text}");
        for path in loaded {
            assert!(find(path).is_some(), "{path} is not embedded");
            assert_ne!(content_type(path), "application/octet-stream", "{path}");
        }
        assert!(!text.contains("<style") && !text.contains("http"), "nothing inline, nothing from elsewhere");
    }

    #[test]
    fn pages_carry_the_policy_and_assets_may_be_cached() {
        if !are_built() {
            return;
        }
        let page = document(StatusCode::OK, "");
        assert!(
            page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("default-src 'none'")
        );
        assert_eq!(page.headers()[header::CACHE_CONTROL], NOT_KEPT);
        let script = files::FILES.iter().find(|(name, _)| name.ends_with(".js")).unwrap().0;
        assert_eq!(asset(script).headers()[header::CACHE_CONTROL], FOR_EVER);
        assert_eq!(asset("/assets/none.js").status(), StatusCode::NOT_FOUND);
    }
}
