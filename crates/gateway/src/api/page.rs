//! Where the next page of a list begins: the last item's place in the order, in a form that nobody needs to read.

use super::request::ApiRequest;
use crate::api_error::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write;

/// Writes a place.
pub fn cursor(place: &impl Serialize) -> String {
    let text = serde_json::to_vec(place).unwrap_or_default();
    text.iter().fold(String::with_capacity(text.len() * 2), |mut cursor, byte| {
        _ = write!(cursor, "{byte:02x}");
        cursor
    })
}

/// Parameter `next`.
///
/// # Errors
/// It is none of [`cursor`]'s, or one of another list.
pub fn next<T: DeserializeOwned>(request: &ApiRequest) -> Result<Option<T>, ApiError> {
    let Some(text) = request.text("next")? else { return Ok(None) };
    let pairs = text.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> =
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
    let place = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    place.map(Some).ok_or_else(|| {
        let remedy = "give `next` of the answer before, with the other parameters as they were";
        ApiError::parameter("next", format!("next = {text} is no place in this list"), remedy)
    })
}
