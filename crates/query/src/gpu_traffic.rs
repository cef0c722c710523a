//! What a job's ranks sent to ranks on other GPUs of their node, or of its NVLink domain, beside what NVLinks carried into these GPUs in the same time.
//!
//! MPI is counted by the node that sends, the operation and the rank that receives. So what is known is how much each GPU was meant to
//! receive, and not from which GPU: where ranks share one, some of it never left it.

use crate::jobs::Rank;
use crate::long_range::{LongRange, RangeError};
use crate::nodes::{self, Gpu, Host};
use crate::rates::CountedLink;
use crate::time::{Grid, QueryTime};
use crate::traffic::spread;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// An end of NVLinks that is no GPU's: what it carries is between a GPU and its host.
const TO_HOST: &str = "cpu";

/// A longer range has few steps ([`LONG_STEPS`]): of its many rows only the sums at the ends of steps are read. Milliseconds.
const LONG_MS: i64 = 6 * 3_600_000;

/// Steps of a long range at most.
const LONG_STEPS: usize = 24;

/// Rows of nodes come so far apart: a step is no shorter. Milliseconds.
const STEP_MIN_MS: i64 = 10_000;

/// Rows of an answer: operations, GPUs and steps.
const ROWS_MAX: i64 = 500_000;

/// GPUs that the same ranks use, and the ranks: one each, as a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuGroup {
    /// The host's number in the tables.
    pub host: i64,
    /// Numbers of its GPUs in the tables.
    pub gpus: Vec<i64>,
    /// Their indices on the host.
    pub indices: Vec<i32>,
    /// The job's ranks on them.
    pub ranks: Vec<i32>,
    /// Their NVLink domain over several nodes.
    pub domain: Option<String>,
}

/// Groups of the GPUs of a job's ranks on these hosts, by host and lowest index, and hosts with a rank whose GPUs are not known. A
/// partition counts as its GPU.
#[must_use]
pub fn groups(hosts: &[Host], gpus: &[Gpu], ranks: &[Rank]) -> (Vec<GpuGroup>, BTreeSet<i64>) {
    let host_of: HashMap<&str, i64> = hosts.iter().map(|host| (host.name.as_str(), host.id)).collect();
    let (mut groups, mut unknown) = (Vec::<GpuGroup>::new(), BTreeSet::new());
    for rank in ranks {
        let Some(host) = host_of.get(rank.host.as_str()) else { continue };
        let Some(uuids) = &rank.gpus else {
            unknown.insert(*host);
            continue;
        };
        let of_host = |uuid: &str| gpus.iter().find(|gpu| gpu.host == *host && gpu.uuid == uuid);
        let whole = |uuid: &String| {
            let gpu = of_host(uuid)?;
            gpu.parent.as_deref().map_or(Some(gpu), of_host)
        };
        let mut merged = GpuGroup { host: *host, ranks: vec![rank.rank], ..GpuGroup::default() };
        for gpu in uuids.iter().filter_map(whole) {
            if !merged.gpus.contains(&gpu.id) {
                merged.gpus.push(gpu.id);
                merged.indices.push(gpu.index);
                merged.domain = merged.domain.or_else(|| gpu.nvlink_domain.clone());
            }
        }
        if merged.gpus.is_empty() {
            continue;
        }
        // Groups that have one of its GPUs are one with it.
        let (same, others) = groups.into_iter().partition::<Vec<_>, _>(|group| {
            group.host == *host && group.gpus.iter().any(|gpu| merged.gpus.contains(gpu))
        });
        for group in same {
            for (gpu, index) in group.gpus.into_iter().zip(group.indices) {
                if !merged.gpus.contains(&gpu) {
                    merged.gpus.push(gpu);
                    merged.indices.push(index);
                }
            }
            merged.ranks.extend(group.ranks);
        }
        groups = others;
        merged.indices.sort_unstable();
        merged.ranks.sort_unstable();
        groups.push(merged);
    }
    groups.sort_by(|one, other| (one.host, &one.indices).cmp(&(other.host, &other.indices)));
    (groups, unknown)
}

/// Steps between two times and no others: what GPUs carried before and after is not the job's own.
#[must_use]
pub fn grid(from: i64, to: i64, points: usize) -> Grid {
    let length = (to - from).max(1);
    let most = if length > LONG_MS { LONG_STEPS } else { points };
    let steps = usize::try_from(length / STEP_MIN_MS).unwrap_or(most).clamp(1, most.max(1));
    Grid { from, step: (length / i64::try_from(steps).unwrap_or(1)).max(1), steps }
}

fn is_long(grid: &Grid) -> bool {
    grid.to() - grid.from > LONG_MS - STEP_MIN_MS
}

/// What NVLinks of a group's GPUs carried, bytes a second in each step; `None` where one of their links was not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkTraffic {
    /// Links that are there.
    pub links: usize,
    /// Sent.
    pub sent: Vec<Option<f64>>,
    /// Received.
    pub received: Vec<Option<f64>>,
}

/// Of each group, in its order. Links to a CPU are left out.
///
/// # Errors
/// The database's, or a server of PromQL's.
pub async fn links(
    client: &Client,
    long_range: &LongRange,
    groups: &[GpuGroup],
    grid: &Grid,
) -> Result<Vec<LinkTraffic>, RangeError> {
    let ids: Vec<i64> = groups.iter().flat_map(|group| group.gpus.iter().copied()).collect();
    let links = nodes::gpu_links(client, &ids, QueryTime::Time(grid.to())).await?;
    let rates = long_range.rates(client, CountedLink::Nvlinks, &ids, grid).await?;
    let of_group = |group: &GpuGroup| {
        let own = links
            .iter()
            .filter(|link| link.is_active && link.remote_kind != TO_HOST && group.gpus.contains(&link.gpu));
        let mut sum = LinkTraffic {
            links: 0,
            sent: vec![Some(0.0); grid.steps],
            received: vec![Some(0.0); grid.steps],
        };
        for link in own {
            sum.links += 1;
            let rates = rates.get(&(link.gpu, usize::try_from(link.link).unwrap_or(usize::MAX)));
            let of = |step: usize, values: fn(&crate::rates::Rates) -> &Vec<Option<f64>>| {
                rates.and_then(|rates| values(rates).get(step).copied().flatten())
            };
            for step in 0..grid.steps {
                sum.sent[step] = sum.sent[step].zip(of(step, |rates| &rates.out)).map(|(a, b)| a + b);
                sum.received[step] =
                    sum.received[step].zip(of(step, |rates| &rates.received)).map(|(a, b)| a + b);
            }
        }
        sum
    };
    Ok(groups.iter().map(of_group).collect())
}

/// Bytes that one operation sent to a group from ranks of its host or domain, in the steps of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationBytes {
    /// Place of the group.
    pub group: usize,
    /// Ranks there read it from the group: which of them is not known.
    pub is_read: bool,
    /// Lower-case MPI name without the prefix.
    pub operation: String,
    /// By step.
    pub bytes: Vec<f64>,
}

/// What the ranks of each host sent to those of each group on it, by group and operation; of a group in an NVLink domain what those of
/// all of its hosts sent, by the groups in `all`.
///
/// # Errors
/// The database's.
pub async fn operations(
    client: &Client,
    job: i64,
    (groups, all): (&[GpuGroup], &[GpuGroup]),
    grid: &Grid,
) -> Result<Vec<OperationBytes>, Error> {
    let mut places: (Vec<i32>, Vec<i64>, Vec<i32>) = Default::default();
    for (place, group) in (0..).zip(groups) {
        for sender in senders(group, all) {
            for rank in &group.ranks {
                places.0.push(*rank);
                places.1.push(sender);
                places.2.push(place);
            }
        }
    }
    let sql = format!("WITH {}, {}", grown(grid), spread(grid, "operation, rank"));
    let parameters: [&(dyn ToSql + Sync); 5] = [&job, &places.0, &places.1, &ROWS_MAX, &places.2];
    let rows = client.query(&sql, &parameters).await;
    let mut all: BTreeMap<(i32, String), Vec<f64>> = BTreeMap::new();
    for row in rows.map_err(Error::sql("reading what ranks sent to other GPUs of their node"))? {
        let (operation, group, step): (String, i32, i32) = (row.get(0), row.get(1), row.get(2));
        let steps = all.entry((group, operation)).or_insert_with(|| vec![0.0; grid.steps]);
        if let Some(bytes) = usize::try_from(step).ok().and_then(|step| steps.get_mut(step)) {
            #[allow(clippy::cast_precision_loss)] // bytes
            let whole = row.get::<_, Option<i64>>(4).unwrap_or_default() as f64;
            *bytes += whole;
        }
    }
    let of = |((group, operation), bytes): ((i32, String), Vec<f64>)| {
        let is_read = group < 0;
        let group = usize::try_from(if is_read { -1 - group } else { group }).unwrap_or_default();
        OperationBytes { group, is_read, operation, bytes }
    };
    Ok(all.into_iter().map(of).collect())
}

/// Hosts whose ranks reach a group over NVLinks.
fn senders(group: &GpuGroup, all: &[GpuGroup]) -> BTreeSet<i64> {
    let is_near = |other: &&GpuGroup| group.domain.is_some() && other.domain == group.domain;
    all.iter().filter(is_near).map(|other| other.host).chain([group.host]).collect()
}

/// SQL of what flowed from the hosts in $3 to the ranks in $2, which are in the groups in $5. What a rank read (direction
/// receive) went to a rank that is not known: group -1 less that of the rank that it was read from.
fn grown(grid: &Grid) -> String {
    const COLUMNS: &str = "t.node_id, t.operation, t.kind, t.direction, t.peer, t.epoch";
    const OWN: &str = "JOIN own o ON o.node_id = t.node_id AND o.rank = t.peer";
    let (from, to) = (moment(grid.from), moment(grid.to()));
    let step = format!("interval '{} milliseconds'", grid.step);
    let counted = if is_long(grid) {
        format!(
            "SELECT {COLUMNS}, e.time, e.time - {step} AS since, t.bytes, o.place
             FROM (SELECT {from} + n * {step} AS time FROM generate_series(0, {}) n) e
             CROSS JOIN LATERAL internal.mpi_traffic_cells($1, e.time) t {OWN}",
            grid.steps
        )
    } else {
        // Rows of nodes are 60 s apart at most: as in crate::traffic.
        format!(
            "SELECT {COLUMNS}, t.time, t.since, t.bytes, o.place FROM internal.mpi_traffic_rows t {OWN}
             WHERE t.job_id = $1 AND t.node_id = ANY($3) AND t.time > {from} AND t.time <= {to} + interval '60 seconds'
             UNION ALL
             SELECT {COLUMNS}, {from}, {from}, t.bytes, o.place FROM internal.mpi_traffic_cells($1, {from}) t {OWN}"
        )
    };
    format!(
        "own AS MATERIALIZED (
             SELECT * FROM unnest($2::integer[], $3::bigint[], $5::integer[]) o (rank, node_id, place)
         ), counted AS (
             {counted}
         ), grown AS (
             SELECT * FROM (
                 SELECT operation, CASE WHEN direction = 'receive' THEN -1 - place ELSE place END AS rank, time, since, 0 AS calls,
                        0 AS elapsed, greatest(bytes - coalesce(lag(bytes) OVER cell, 0), 0) AS bytes
                 FROM counted
                 WINDOW cell AS (PARTITION BY node_id, operation, kind, direction, peer, epoch ORDER BY time)) rows
             WHERE time > {from} AND since < {to}
         )"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(id: i64, index: i32, parent: Option<&str>) -> Gpu {
        Gpu {
            id,
            host: 1,
            uuid: format!("G{id}"),
            index,
            name: String::new(),
            pci: String::new(),
            numa_node: None,
            nearest_adapters: None,
            parent: parent.map(str::to_owned),
            is_lost: false,
            nvlink_domain: None,
            fabric_state: None,
            pcie_bytes_per_second: None,
        }
    }

    fn rank(rank: i32, host: &str, gpus: Option<&[&str]>) -> Rank {
        let gpus = gpus.map(|gpus| gpus.iter().map(|gpu| (*gpu).to_owned()).collect());
        Rank { rank, host: host.to_owned(), gpus, ..Rank::default() }
    }

    #[test]
    fn steps_lie_between_the_ends() {
        let shape = |length: i64, points| {
            let grid = grid(1_000_123, 1_000_123 + length, points);
            (grid.steps, grid.step, grid.from)
        };
        assert_eq!(shape(8_000, 300), (1, 8_000, 1_000_123));
        assert_eq!(shape(95_000, 300), (9, 10_555, 1_000_123));
        assert_eq!(shape(3_600_000, 60), (60, 60_000, 1_000_123));
        assert_eq!(shape(86_400_000, 300), (24, 3_600_000, 1_000_123));
        assert!(is_long(&grid(0, 86_400_000, 300)) && !is_long(&grid(0, 3_600_000, 300)));
    }

    #[test]
    fn ranks_of_one_gpu_are_a_group_and_partitions_are_their_gpu() {
        let hosts = [Host { id: 1, name: "n1".to_owned(), boot: None }];
        let gpus = [gpu(1, 0, None), gpu(2, 1, None), gpu(3, 2, None), gpu(4, 0, Some("G1"))];
        let of = |ranks: &[Rank]| groups(&hosts, &gpus, ranks);
        let (found, unknown) = of(&[
            rank(0, "n1", Some(&["G4"])),
            rank(1, "n1", Some(&["G1"])),
            rank(2, "n1", Some(&["G2"])),
            rank(3, "n1", Some(&[])),
            rank(4, "n2", Some(&["G3"])),
        ]);
        let shape: Vec<_> = found.iter().map(|group| (group.gpus.clone(), group.ranks.clone())).collect();
        assert_eq!(shape, [(vec![1], vec![0, 1]), (vec![2], vec![2])]);
        assert!(unknown.is_empty());
        // A rank that uses two GPUs joins what had been two groups.
        let (joined, unknown) = of(&[
            rank(0, "n1", Some(&["G1"])),
            rank(1, "n1", Some(&["G3"])),
            rank(2, "n1", Some(&["G3", "G1"])),
            rank(3, "n1", None),
        ]);
        assert_eq!(joined.len(), 1);
        assert_eq!((joined[0].indices.clone(), joined[0].ranks.clone()), (vec![0, 2], vec![0, 1, 2]));
        assert_eq!(unknown, [1].into());
    }

    #[test]
    fn within_a_domain_other_hosts_send_over_nvlinks() {
        let group = |host, domain: Option<&str>| GpuGroup {
            host,
            domain: domain.map(str::to_owned),
            ..GpuGroup::default()
        };
        let all = [group(1, Some("a.1")), group(2, Some("a.1")), group(3, Some("a.2")), group(4, None)];
        assert_eq!(senders(&all[0], &all), [1, 2].into());
        assert_eq!(senders(&all[2], &all), [3].into());
        assert_eq!(senders(&all[3], &all), [4].into());
    }
}
