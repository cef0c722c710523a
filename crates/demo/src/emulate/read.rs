//! Whose bytes were on the emulated cables, as `throughline serve` answers over HTTP.

use super::plan::Plan;
use anyhow::Context;
use std::net::SocketAddr;
use throughline_api::link_shares::LinkShares;
use throughline_client::{Error, Server, Settings};
use throughline_infiniband::topology::PortEnd;

/// What the simulated fabric is called.
pub const FABRIC: &str = "demo";
/// Points of a series: every window of a run of the bench.
const POINTS: &str = "1000";

/// A client of the server at an address.
///
/// # Errors
/// None is expected without certificates.
pub fn client(address: SocketAddr) -> anyhow::Result<Server> {
    let settings =
        Settings { server: format!("http://{address}"), token: None, token_source: None, ca_file: None };
    Ok(Server::new(settings)?)
}

/// How the API names an end of a cable.
#[must_use]
pub fn end_name(plan: &Plan, end: PortEnd) -> String {
    format!("{}.{}", plan.nodes[end.node].guid, end.port)
}

/// Shares of all cables between two times, in milliseconds since 1970; without windows
/// for one that carried nothing yet.
///
/// # Errors
/// The server can't be reached, or answers in an unknown way.
pub fn shares(server: &Server, plan: &Plan, from_ms: i64, to_ms: i64) -> anyhow::Result<Vec<LinkShares>> {
    let (from, to) = (from_ms.to_string(), to_ms.to_string());
    let query = [("from", from.as_str()), ("to", to.as_str()), ("points", POINTS)];
    let read = |end: PortEnd| {
        let name = end_name(plan, end);
        match server.get(&["fabric", FABRIC, "links", &name, "shares"], &query) {
            // The crawler's inventory is not there yet.
            Err(Error::Api { error, .. }) if error.code == "not_found" => Ok(LinkShares::default()),
            answer => answer.with_context(|| format!("shares of the link {name}")),
        }
    };
    plan.cables.iter().map(|cable| read(cable.a)).collect()
}
