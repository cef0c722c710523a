//! Everything of the crawler that takes bytes from outside, as one list of functions over bytes; see
//! [`throughline_infiniband::fuzz`], whose rules hold here.

use crate::scrape::{CounterChoice, PageRequest};
use crate::transport::wire;
use std::str::FromStr;
use throughline_daemon::Scrape;
use throughline_infiniband::fuzz;

pub use throughline_infiniband::fuzz::Target;

/// The crawler's targets.
pub const TARGETS: &[Target] = &[
    Target { name: "wire", covers: &["transport/wire.rs"], run: frames },
    Target { name: "options", covers: &["port.rs"], run: options },
    Target { name: "epochs", covers: &["sweep/epochs.rs"], run: epochs },
    Target { name: "query", covers: &["scrape.rs"], run: query },
];

/// The target of a name, among those of both crates.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().chain(fuzz::TARGETS).find(|target| target.name == name)
}

fn frames(mut bytes: &[u8]) {
    let bodies = |bytes| {
        let _ = (wire::Hello::decode(bytes), wire::Welcome::decode(bytes));
        let _ = (wire::SendHead::decode(bytes), wire::MadHead::decode(bytes));
    };
    while let Ok(Some(frame)) = wire::take(bytes) {
        bodies(frame.body);
        bytes = &bytes[frame.bytes..];
    }
    bodies(bytes);
}

fn options(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = crate::port::TransportKind::from_str(&text);
}

fn epochs(bytes: &[u8]) {
    let _ = crate::sweep::epochs::parse(bytes);
    // With the right checksum, so that what it guards is reached.
    let sum = crc32c::crc32c(bytes);
    let _ = crate::sweep::epochs::parse([bytes, format!("end {sum:08x}\n").as_bytes()].concat().as_slice());
}

fn query(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let scrape = Scrape { query, ..Scrape::default() };
    if let Ok(request) = PageRequest::parse(&scrape, &CounterChoice::all()) {
        let _ = (request.shard.has(throughline_sample::Guid(1)), request.choice.indices().count());
    }
}
