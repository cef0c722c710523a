//! Everything here that takes bytes from outside, as one list of functions over bytes: what `fuzz/` runs under libFuzzer
//! and what tests replay on stable. Nothing else uses it. The crawler has a list of its own for its decoders.
//!
//! Each target must return for any input, without a panic, within time and memory proportional to the input.
//! A test holds the list against the sources: a file with a decoder that no target covers fails it.

use crate::errors::Thresholds;
use crate::mad::sa::{self, rmpp};
use crate::mad::{
    self, ClassPortInfo, Counters, MAD_BYTES, Mad, NodeInfo, PMA_DATA_BYTES, PortCounterSet, PortInfo,
    SmInfo, SwitchInfo,
};
use crate::offline::{self, Kind, SavedSweeps};
use crate::reading::Selection;

/// One thing that takes bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name: of the program in `fuzz/`, and of the folder of its corpus.
    pub name: &'static str,
    /// Source files, below `src/`, whose decoders it runs.
    pub covers: &'static [&'static str],
    /// Runs it.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "smp", covers: &["mad.rs", "mad/smp.rs", "link.rs"], run: smp },
    Target {
        name: "pma",
        covers: &["mad/pma/capability.rs", "mad/pma/counters.rs", "mad/pma/fields.rs", "mad/pma/lanes.rs"],
        run: pma,
    },
    Target { name: "sa", covers: &["mad/sa.rs", "mad/sa/records.rs", "mad/sa/notice.rs"], run: sa_message },
    Target { name: "rmpp", covers: &["mad/sa/rmpp.rs"], run: rmpp_segments },
    Target { name: "thresholds", covers: &["errors/thresholds.rs"], run: thresholds },
    Target { name: "any_file", covers: &["offline.rs", "offline/kind.rs"], run: any_file },
    Target {
        name: "ibnetdiscover",
        covers: &["offline/ibnetdiscover.rs", "offline/links.rs", "offline/lines.rs", "offline/facts.rs"],
        run: |b| file(Kind::Ibnetdiscover, b),
    },
    Target { name: "cache", covers: &["offline/cache.rs"], run: |b| file(Kind::Cache, b) },
    Target { name: "report", covers: &["offline/report.rs"], run: |b| file(Kind::Report, b) },
    Target { name: "linkinfo", covers: &["offline/linkinfo.rs"], run: |b| file(Kind::LinkInfo, b) },
    Target {
        name: "perfquery",
        covers: &["offline/perfquery.rs", "offline/counters.rs"],
        run: |b| file(Kind::Perfquery, b),
    },
    Target { name: "queryerrors", covers: &["offline/queryerrors.rs"], run: |b| file(Kind::QueryErrors, b) },
    Target { name: "database", covers: &["offline/database.rs"], run: |b| file(Kind::Database, b) },
    Target { name: "listing", covers: &["offline/listing.rs"], run: |b| file(Kind::Listing, b) },
    Target { name: "dumped", covers: &["offline/dumped.rs"], run: |b| file(Kind::Dumped, b) },
    Target { name: "names", covers: &["names.rs"], run: names },
    Target { name: "tables", covers: &["offline/tables.rs"], run: |b| file(Kind::Tables, b) },
    Target { name: "groups", covers: &["offline/membership.rs"], run: |b| file(Kind::Groups, b) },
    Target { name: "memory", covers: &["records/inventory.rs"], run: memory },
    Target { name: "key", covers: &["key.rs"], run: key },
];

/// A MAD that begins with these bytes.
fn mad_of(bytes: &[u8]) -> Mad {
    let mut mad = [0; MAD_BYTES];
    let count = bytes.len().min(MAD_BYTES);
    mad[..count].copy_from_slice(&bytes[..count]);
    mad
}

fn smp(bytes: &[u8]) {
    let _ = (NodeInfo::decode(bytes), SwitchInfo::decode(bytes), SmInfo::decode(bytes));
    let _ = mad::node_description(bytes);
    if let Ok(info) = PortInfo::decode(bytes) {
        let _ = (info.is_linked(), crate::link::of_port(&info, true), crate::link::of_port(&info, false));
    }
    if let Ok(info) = SwitchInfo::decode(bytes) {
        let _ = info.linear_blocks();
    }
    let mad = mad_of(bytes);
    let _ = (mad::reply_header(&mad), mad::smp_data(&mad), mad::performance_data(&mad));
}

fn pma(bytes: &[u8]) {
    // The first part says what the device can do, the rest are its counters.
    let (head, data) = bytes.split_at(bytes.len().min(PMA_DATA_BYTES));
    let capabilities = ClassPortInfo::decode(head).unwrap_or_default();
    let mut counters = Counters::default();
    for data in [data, head, bytes] {
        for set in PortCounterSet::ALL {
            let _ = counters.decode(set, data, &capabilities);
        }
        for index in 0..=mad::counter_metrics().len() {
            let _ = index < mad::counter_metrics().len() && counters.exact(index).is_some();
        }
    }
}

fn sa_message(bytes: &[u8]) {
    let records = sa::Answer::read(bytes).map(|answer| {
        let _ = (answer.status().to_string(), answer.rmpp(), answer.is_cut(), answer.key());
        let _ = (answer.method(), answer.is_response(), answer.transaction(), answer.attribute());
        answer.records().collect::<Vec<&[u8]>>()
    });
    for data in records.unwrap_or_default().into_iter().chain([bytes]) {
        let _ = (
            sa::NodeRecord::decode(data),
            sa::PortInfoRecord::decode(data),
            sa::SwitchInfoRecord::decode(data),
        );
        let _ = (
            sa::LinkRecord::decode(data),
            sa::ForwardingBlock::decode(data),
            sa::MulticastBlock::decode(data),
        );
        let _ = (sa::SmInfoRecord::decode(data), sa::McMember::decode(data), sa::PathRecord::decode(data));
        if let Ok(notice) = sa::Notice::decode(data) {
            let _ = notice.guid();
        }
        let _ = sa::InformInfo::is_subscribed(data);
    }
    let mut mad = [0; MAD_BYTES];
    let _ = sa::build_report_response(&mut mad, bytes);
}

fn rmpp_segments(bytes: &[u8]) {
    let _ = rmpp::Header::read(bytes);
    // Small, so that its limit is reached, too.
    let mut receiver = rmpp::Receiver::new(4096);
    for segment in bytes.chunks(MAD_BYTES) {
        let _ = receiver.take(&mad_of(segment));
    }
}

fn thresholds(bytes: &[u8]) {
    let _ = Thresholds::parse(&String::from_utf8_lossy(bytes));
}

fn names(bytes: &[u8]) {
    let _ = crate::names::NameMap::parse(&String::from_utf8_lossy(bytes), std::path::Path::new("map"));
}

fn memory(bytes: &[u8]) {
    if let Ok(topology) = crate::records::read_snapshot(bytes) {
        let again = crate::records::snapshot(&topology);
        let _ = crate::records::read_snapshot(&again).map(|again| (again.signature(), topology.signature()));
    }
}

fn key(bytes: &[u8]) {
    let _ = crate::key::parse(&String::from_utf8_lossy(bytes));
}

fn any_file(bytes: &[u8]) {
    if let Some(kind) = offline::kind_of(bytes) {
        file(kind, bytes);
    }
}

fn file(kind: Kind, bytes: &[u8]) {
    // What was read must hold together: its documents can be made.
    if let Ok(saved) = offline::read_bytes(kind, bytes) {
        let topology = &saved.topology;
        let _ = (topology.to_json(), topology.to_text(), topology.signature());
        let mut sweeps = SavedSweeps::new(
            saved.snapshots.clone(),
            topology,
            Selection { unlinked: true, ..Selection::default() },
        );
        while sweeps.advance().is_some() {}
        if let [first, .., last] = topology.nodes.as_slice() {
            let _ = topology.route(first.guid, last.guid);
        }
    }
}
