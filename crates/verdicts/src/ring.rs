//! *One-directional ring*: GPUs pass data on in a circle, so that one direction of each of their links is idle.
//!
//! Needs what each link between two GPUs carried in both directions. It is said of a host where at least three GPUs have links with
//! a direction that carries [`BUSY`] of its speed and the other one a tenth of that or less, and no GPU there has
//! another kind of busy link. Links to a switch do not show who the data is for, and are not judged.

use crate::evidence::{Evidence, GpuLink};
use crate::statistics::number;
use crate::text::{alike, bytes, percent};
use crate::{Confidence, Kind, Verdict, fact};
use std::collections::{BTreeMap, BTreeSet};

/// Part of its speed that makes a link busy.
pub const BUSY: f64 = 0.25;

/// Part of the busy direction that the idle one carries at most.
pub const IDLE: f64 = 0.1;

/// A ring of two has both directions.
const GPUS_MIN: usize = 3;

fn busiest(link: &GpuLink) -> f64 {
    link.transmit.max(link.receive)
}

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let mut hosts: BTreeMap<&str, Vec<&GpuLink>> = BTreeMap::new();
    let is_busy =
        |link: &&GpuLink| link.bytes_per_second > 0.0 && busiest(link) >= BUSY * link.bytes_per_second;
    for link in evidence.gpu_links.iter().filter(|link| link.peer_gpu.is_some()).filter(is_busy) {
        hosts.entry(&link.host).or_default().push(link);
    }
    let ring = |links: &Vec<&GpuLink>| {
        let gpus: BTreeSet<u32> = links.iter().map(|link| link.gpu).collect();
        gpus.len() >= GPUS_MIN
            && links.iter().all(|link| link.transmit.min(link.receive) <= IDLE * busiest(link))
    };
    let found: Vec<(&str, Vec<&GpuLink>)> = hosts.into_iter().filter(|(_, links)| ring(links)).collect();
    let Some((host, links)) = found.first() else { return Vec::new() };
    let mean =
        |of: &dyn Fn(&GpuLink) -> f64| links.iter().map(|link| of(link)).sum::<f64>() / number(links.len());
    let (busy, idle) = (mean(&busiest), mean(&|link| link.transmit.min(link.receive)));
    let elsewhere = alike(found.len() - 1);
    vec![Verdict {
        kind: Kind::OneDirectionalRing,
        subject: (*host).to_owned(),
        observation: format!(
            "GPUs on {host} pass data on in one direction: {}/s a link one way, {}/s the other, {} of its speed{elsewhere}.",
            bytes(busy),
            bytes(idle),
            percent(mean(&|link| busiest(link) / link.bytes_per_second)),
        ),
        remedy: "Use rings in both directions, or more channels (NCCL: let it choose its rings, NCCL_MIN_NCHANNELS; own code: halve the data and \
                 send the halves both ways)."
            .to_owned(),
        confidence: Confidence::Certain,
        cost: None,
        other_job: None,
        facts: vec![
            fact("busy direction, of its speed", busy / links[0].bytes_per_second, "share", Some(BUSY)),
            fact("idle direction, of the busy one", idle / busy.max(f64::MIN_POSITIVE), "share", Some(IDLE)),
        ],
    }]
}
