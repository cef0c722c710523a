//! The link that an address means: GUID and port of one of its ends.

use super::topology::Topology;
use crate::api_error::ApiError;

/// The place of the link with an end at this GUID and port.
///
/// # Errors
/// There was no such link.
pub fn place_of(topology: &Topology, subnet: &str, end: &(String, i32)) -> Result<usize, ApiError> {
    let (guid, port) = end;
    let node = topology.columns.nodes.guid.iter().position(|known| known == guid);
    let found = node.and_then(|node| topology.link_at.get(&(node, *port)).copied());
    found.map(|(place, _)| place).ok_or_else(|| {
        let message = format!("no cable at port {port} of {guid} in {subnet} at that time");
        let remedy = "/api/v1/fabric/{subnet}/topology?at= lists those that there were; `to` is the time";
        ApiError::not_found(message, remedy)
    })
}

/// GUID and port of a link's name.
///
/// # Errors
/// It is none.
pub fn parse(text: &str) -> Result<(String, i32), ApiError> {
    let parts = text.to_ascii_lowercase();
    let parts = parts.split_once('.').and_then(|(guid, port)| {
        let digits = guid.strip_prefix("0x")?;
        let is_guid = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        Some((is_guid.then(|| guid.to_owned())?, port.parse().ok()?))
    });
    parts.ok_or_else(|| {
        let remedy = "give GUID.PORT of one end, as 0x0002c90300000001.7";
        ApiError::parameter("link", format!("{text} names no link"), remedy)
    })
}
