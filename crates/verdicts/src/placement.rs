//! *Placement*: another order of the same ranks on the same hosts would send less through the fabric.
//!
//! Needs bytes from rank to rank, the hosts of ranks, and the switches that these are connected to. The order that it compares with
//! is made greedily: hosts are filled one after the other, switch by switch, with the rank that has most traffic with those already
//! there, and better orders may exist. It speaks where bytes between switches, or else between hosts, are
//! [`CROSSING_MIN`] of all, the other order has at most [`BETTER`] of them, and transfer has [`TRANSFER_MIN`] of the ranks'
//! time. It can't say how much faster the job gets: that is the links' matter.

use crate::evidence::{Evidence, Traffic};
use crate::text::{bytes, percent};
use crate::{Confidence, Kind, Verdict, fact};

/// Part of all bytes that crosses now.
pub const CROSSING_MIN: f64 = 0.3;

/// Part of that which crosses in the other order.
pub const BETTER: f64 = 0.6;

/// Part of the ranks' time that transfer has, so that it matters.
pub const TRANSFER_MIN: f64 = 0.1;

/// Larger worlds are not arranged anew: the work grows by the square.
const RANKS_MAX: usize = 8192;

pub(crate) fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let Some(traffic) = &evidence.traffic else { return Vec::new() };
    let all = evidence.rank_seconds();
    let waiting =
        evidence.waiting.as_ref().map_or(0.0, |one| one.operations.iter().map(|one| one.seconds).sum());
    let transfer = (evidence.mpi_seconds() - waiting).max(0.0) / all.max(f64::MIN_POSITIVE);
    let ranks = traffic.hosts.len();
    if transfer < TRANSFER_MIN || !(4..=RANKS_MAX).contains(&ranks) {
        return Vec::new();
    }
    let sent: f64 = traffic.pairs.iter().map(|pair| pair.2).sum();
    let Some((between, now, then)) = gain(traffic, sent) else { return Vec::new() };
    vec![Verdict {
        kind: Kind::Placement,
        subject: "job".to_owned(),
        observation: format!(
            "{} of what its ranks send to each other ({} of {}) crosses between {between}; another order of the same ranks on the same \
             nodes would need {} ({}).",
            percent(now / sent),
            bytes(now),
            bytes(sent),
            percent(then / sent),
            bytes(then),
        ),
        remedy: "Let neighbours share a node: the launcher's distribution (block instead of cyclic: srun -m block, mpirun --map-by core), \
                 MPI_Cart_create with reorder, or a rank file."
            .to_owned(),
        confidence: Confidence::certain_if(then <= BETTER * BETTER * now),
        cost: None,
        other_job: None,
        facts: vec![
            fact("bytes that cross", now / sent, "share", Some(CROSSING_MIN)),
            fact("in another order, of that", then / now, "share", Some(BETTER)),
            fact("transfer", transfer, "share", Some(TRANSFER_MIN)),
        ],
    }]
}

/// Between what less would cross, bytes that cross now, and in the other order: between switches, else between nodes.
fn gain(traffic: &Traffic, sent: f64) -> Option<(&'static str, f64, f64)> {
    let leaf = |host: &u32| traffic.leaves.get(*host as usize).copied();
    let leaves: Option<Vec<u32>> = traffic.hosts.iter().map(leaf).collect();
    let switches = leaves.filter(|leaves| leaves.windows(2).any(|pair| pair[0] != pair[1]));
    let levels = [switches.map(|areas| ("switches", areas)), Some(("nodes", traffic.hosts.clone()))];
    levels.into_iter().flatten().find_map(|(between, areas)| {
        let places = Places { hosts: &traffic.hosts, areas };
        let identity: Vec<usize> = (0..traffic.hosts.len()).collect();
        let now = places.crossing(traffic, &identity);
        if sent <= 0.0 || now / sent < CROSSING_MIN {
            return None;
        }
        let then = places.crossing(traffic, &order(traffic, &places));
        (then <= BETTER * now).then_some((between, now, then))
    })
}

/// Where ranks are.
struct Places<'a> {
    /// Of each rank.
    hosts: &'a [u32],
    /// Of each rank: its switch, or its host once more.
    areas: Vec<u32>,
}

impl Places<'_> {
    /// Bytes between areas where rank r takes the place of rank `order[r]`.
    fn crossing(&self, traffic: &Traffic, order: &[usize]) -> f64 {
        let area = |rank: u32| order.get(rank as usize).and_then(|place| self.areas.get(*place));
        let is_crossing = |pair: &&(u32, u32, f64)| area(pair.0) != area(pair.1);
        traffic.pairs.iter().filter(is_crossing).map(|pair| pair.2).sum()
    }
}

/// A place for each rank: fills areas, and hosts in them, with ranks that talk to each other.
fn order(traffic: &Traffic, places: &Places<'_>) -> Vec<usize> {
    let ranks = traffic.hosts.len();
    let mut neighbours: Vec<Vec<(usize, f64)>> = vec![Vec::new(); ranks];
    for (from, to, bytes) in &traffic.pairs {
        let (from, to) = (*from as usize, *to as usize);
        if from < ranks && to < ranks && from != to {
            neighbours[from].push((to, *bytes));
            neighbours[to].push((from, *bytes));
        }
    }
    let mut slots: Vec<usize> = (0..ranks).collect();
    slots.sort_by_key(|slot| (places.areas[*slot], places.hosts[*slot], *slot));
    let total: Vec<f64> = neighbours.iter().map(|all| all.iter().map(|one| one.1).sum()).collect();
    let (mut area_gain, mut host_gain) = (vec![0.0; ranks], vec![0.0; ranks]);
    let mut placed = vec![usize::MAX; ranks];
    let mut before: Option<usize> = None;
    for slot in slots {
        let is_new_area = before.is_none_or(|before| places.areas[before] != places.areas[slot]);
        let is_new_host = before.is_none_or(|before| places.hosts[before] != places.hosts[slot]);
        // A new area begins with who has least left to talk to: the end of a chain, the corner of a grid.
        if is_new_area {
            area_gain.fill(0.0);
        }
        if is_new_host {
            host_gain.fill(0.0);
        }
        let left = |rank: usize| -> f64 {
            neighbours[rank].iter().filter(|(other, _)| placed[*other] == usize::MAX).map(|one| one.1).sum()
        };
        let key = |rank: &usize| {
            (host_gain[*rank], area_gain[*rank], if total[*rank] > 0.0 { -left(*rank) } else { f64::MIN })
        };
        let free = (0..ranks).filter(|rank| placed[*rank] == usize::MAX);
        let best = free.max_by(|one, other| {
            key(one)
                .partial_cmp(&key(other))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then_with(|| other.cmp(one))
        });
        let Some(rank) = best else { break };
        placed[rank] = slot;
        for (other, bytes) in &neighbours[rank] {
            area_gain[*other] += bytes;
            host_gain[*other] += bytes;
        }
        before = Some(slot);
    }
    placed
}
