//! Answers: JSON, compressed where the reader takes that, with an entity tag where the same is requested repeatedly.

use crate::api_error::ApiError;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::io::Write;

/// Smaller bodies are not worth compressing: they fit in one packet.
const COMPRESSED_FROM_BYTES: usize = 1400;

/// Larger ones are made on a thread of their own: not on one that polls sockets.
const ASIDE_FROM_BYTES: usize = 64 * 1024;

/// A body as it is and compressed.
#[derive(Clone, Debug)]
pub struct Body {
    plain: Bytes,
    zipped: Option<Bytes>,
}

impl Body {
    /// Writes and compresses.
    ///
    /// # Errors
    /// The value is none of JSON's.
    pub fn new(value: &impl Serialize) -> Result<Body, ApiError> {
        let plain = serde_json::to_vec(value).map_err(|error| ApiError::internal(error.to_string()))?;
        let zipped = (plain.len() >= COMPRESSED_FROM_BYTES).then(|| zip(&plain)).transpose()?;
        Ok(Body { plain: plain.into(), zipped })
    }

    /// The response to a request with these headers. `tag` is what If-None-Match is held against.
    pub fn response(&self, headers: &HeaderMap, tag: Option<&str>) -> Response {
        let tag = tag.map(|tag| format!("\"{tag}\""));
        if let Some(tag) = &tag
            && is_known(headers, tag)
        {
            return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag.clone())]).into_response();
        }
        let takes_gzip = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
        let zipped =
            self.zipped.as_ref().filter(|_| takes_gzip.is_some_and(throughline_daemon::http::accepts_gzip));
        let body = zipped.unwrap_or(&self.plain).clone();
        let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
        let out = response.headers_mut();
        let value = |text: &str| header::HeaderValue::from_str(text).ok();
        out.insert(header::VARY, header::HeaderValue::from_static("accept-encoding"));
        out.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
        if zipped.is_some() {
            out.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
        }
        if let Some(tag) = tag.as_deref().and_then(value) {
            out.insert(header::ETAG, tag);
        }
        response
    }
}

/// Whether the reader has what the tag stands for. Weak and strong are the same here.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    known.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
}

fn zip(plain: &[u8]) -> Result<Bytes, ApiError> {
    let failed = |error: std::io::Error| ApiError::internal(error.to_string());
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder.write_all(plain).map_err(failed)?;
    Ok(encoder.finish().map_err(failed)?.into())
}

/// The response of a value that is made once.
///
/// # Errors
/// The value is none of JSON's.
pub fn json(value: &impl Serialize, headers: &HeaderMap) -> Result<Response, ApiError> {
    Ok(Body::new(value)?.response(headers, None))
}

/// Makes a body, on a thread of its own where it will be large.
///
/// # Errors
/// The value is none of JSON's.
pub async fn body_aside<T: Serialize + Send + 'static>(value: T, size_hint: usize) -> Result<Body, ApiError> {
    if size_hint < ASIDE_FROM_BYTES {
        return Body::new(&value);
    }
    let made = tokio::task::spawn_blocking(move || Body::new(&value)).await;
    made.map_err(|error| ApiError::internal(error.to_string()))?
}

/// A share or rate with four digits behind the point: more says nothing, and costs bytes.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), header::HeaderValue::from_static(value))).collect()
    }

    #[tokio::test]
    async fn a_large_body_is_compressed_for_those_who_take_it() {
        let body = Body::new(&vec![7; 2000]).unwrap();
        let plain = body.response(&headers(&[]), None);
        assert!(plain.headers().get(header::CONTENT_ENCODING).is_none());
        let plain = to_bytes(plain.into_body(), usize::MAX).await.unwrap();
        let zipped = body.response(&headers(&[(header::ACCEPT_ENCODING, "gzip, br")]), None);
        assert_eq!(zipped.headers()[header::CONTENT_ENCODING], "gzip");
        let zipped = to_bytes(zipped.into_body(), usize::MAX).await.unwrap();
        let mut unpacked = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&zipped[..]), &mut unpacked).unwrap();
        assert_eq!(unpacked.as_bytes(), plain);
        let small = Body::new(&[1]).unwrap();
        assert!(
            small
                .response(&headers(&[(header::ACCEPT_ENCODING, "gzip")]), None)
                .headers()
                .get("content-encoding")
                .is_none()
        );
    }

    #[test]
    fn who_has_the_version_gets_no_body() {
        let body = Body::new(&[1]).unwrap();
        let status = |known| body.response(&headers(&[(header::IF_NONE_MATCH, known)]), Some("v1")).status();
        for known in ["\"v1\"", "W/\"v1\"", "\"v0\", \"v1\"", "*"] {
            assert_eq!(status(known), StatusCode::NOT_MODIFIED, "{known}");
        }
        assert_eq!(status("\"v2\""), StatusCode::OK);
        assert_eq!(body.response(&headers(&[]), Some("v1")).headers()[header::ETAG], "\"v1\"");
    }

    #[test]
    fn four_digits() {
        assert_eq!([0.123_456, 1.0 / 3.0, 0.0, 2.0].map(rounded), [0.1235, 0.3333, 0.0, 2.0]);
    }
}
