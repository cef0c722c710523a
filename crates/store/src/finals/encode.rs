//! Totals of a job as rows of `job_final` and `job_node_final`. Pure.
//!
//! | packed rows | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | start of a rank | rank | pid, -1: none | begin, µs since 2000 | µs to its end, -1: none | ending | ns in an open call | its operation | world, where not the job's |
//! | its place | library | CPUs | GPUs | adapter ports | NUMA nodes | those of the ports | | |
//! | totals of an operation | start of a rank, less the place of the row | calls | bytes | µs | longest µs | µs waited | bytes received | |
//! | cell | number of operation and algorithm | calls | bytes | time | longest | waited | bytes received | size class |
//! | pair of nodes | from | to | bytes | messages | pairs of ranks | | | |
//!
//! Numbers of texts, operations, libraries and places begin with 1; 0 is none. Starts of ranks and places of rows begin with 0.

use std::collections::{BTreeMap, BTreeSet};

use throughline_packed::rows::{Row, pack};

use super::account;
use super::read::{CellTotals, JobTotals, NodePair, OperationTotals, RankStart};
use crate::packed_rows::PackedBits;

const ENDINGS: [&str; 4] = ["clean", "lost", "unseen", "silent"];

/// A row of `job_node_final`.
#[derive(Debug)]
pub(super) struct NodeFinal {
    pub place: i32,
    pub node_id: Option<i64>,
    pub host: String,
    pub began: i64,
    pub ended: i64,
    pub rank_count: i32,
    /// Lines.
    pub operations: String,
    /// Lines.
    pub texts: String,
    pub ranks: PackedBits,
    pub places: PackedBits,
    pub totals: Vec<PackedBits>,
    pub account: Option<PackedBits>,
}

/// Texts by number, from 1.
#[derive(Default)]
struct Numbered {
    texts: Vec<String>,
    numbers: BTreeMap<String, i64>,
}

impl Numbered {
    fn number(&mut self, text: &str) -> i64 {
        // A line each.
        let text = &*text.replace('\n', " ");
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.texts.push(text.to_owned());
        let number = number(self.texts.len());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn optional(&mut self, text: Option<&String>) -> Option<i64> {
        text.map(|text| self.number(text))
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Rounded: nanoseconds of a sum of calls would take a sixth of all that stays of a rank.
fn microseconds(nanoseconds: i64) -> i64 {
    nanoseconds.saturating_add(500) / 1000
}

/// A node's starts of ranks, and what these did.
struct Node<'a> {
    node_id: Option<i64>,
    host: &'a str,
    starts: Vec<RankStart>,
    totals: Vec<(usize, &'a OperationTotals)>,
}

/// The nodes of a job by their first ranks. Totals of a start that no node reported are with another start of the rank, or at a node without
/// a name.
pub(super) fn nodes(totals: &JobTotals) -> Vec<NodeFinal> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut node_of: BTreeMap<(Option<i64>, &str), usize> = BTreeMap::new();
    let mut start_of: BTreeMap<(i32, i64), (usize, usize)> = BTreeMap::new();
    for start in &totals.ranks {
        let place = *node_of.entry((start.node_id, &start.host)).or_insert_with(|| {
            nodes.push(Node {
                node_id: start.node_id,
                host: &start.host,
                starts: Vec::new(),
                totals: Vec::new(),
            });
            nodes.len() - 1
        });
        start_of.entry((start.rank, start.start)).or_insert((place, nodes[place].starts.len()));
        nodes[place].starts.push(start.clone());
    }
    for total in &totals.operations {
        let (place, at) = *start_of.entry((total.rank, total.epoch)).or_insert_with(|| {
            let of_rank =
                nodes.iter().position(|node| node.starts.iter().any(|start| start.rank == total.rank));
            let place = of_rank.unwrap_or_else(|| {
                *node_of.entry((None, "")).or_insert_with(|| {
                    nodes.push(Node { node_id: None, host: "", starts: Vec::new(), totals: Vec::new() });
                    nodes.len() - 1
                })
            });
            let start = RankStart { rank: total.rank, start: total.epoch, ..RankStart::default() };
            nodes[place].starts.push(start);
            (place, nodes[place].starts.len() - 1)
        });
        nodes[place].totals.push((at, total));
    }
    let libraries: BTreeMap<&str, i64> =
        totals.libraries.iter().enumerate().map(|(at, name)| (name.as_str(), number(at + 1))).collect();
    let world = totals.world_size();
    let encoded = nodes.iter().enumerate().map(|(at, node)| {
        let account = totals.accounts.get(&(node.node_id, node.host.to_owned())).map(account::encode);
        NodeFinal { account, ..node.encode(at, &libraries, world) }
    });
    encoded.collect()
}

impl Node<'_> {
    fn encode(&self, at: usize, libraries: &BTreeMap<&str, i64>, world: Option<i32>) -> NodeFinal {
        let (mut operations, mut texts) = (Numbered::default(), Numbered::default());
        let mut of_operations: Vec<Vec<Row>> = Vec::new();
        for (start, total) in &self.totals {
            let place = operations.number(&total.operation);
            if of_operations.len() < operations.texts.len() {
                of_operations.push(Vec::new());
            }
            let rows = usize::try_from(place - 1).ok().and_then(|place| of_operations.get_mut(place));
            let Some(rows) = rows else { continue };
            // Where all starts called it, that takes no bits.
            let start = number(*start) - number(rows.len());
            rows.push(Row {
                fixed: [
                    start,
                    total.calls,
                    total.bytes,
                    microseconds(total.elapsed),
                    microseconds(total.longest),
                ],
                optional: [total.wait.map(microseconds), total.received, None],
            });
        }
        let rank = |start: &RankStart| {
            let ending =
                start.ending.as_deref().and_then(|ending| ENDINGS.iter().position(|known| *known == ending));
            let open = start.open.as_ref();
            Row {
                fixed: [
                    start.rank.into(),
                    start.pid.unwrap_or(-1),
                    start.start,
                    start.end.map_or(-1, |end| (end - start.start).max(0)),
                    ending.map_or(0, |ending| number(ending + 1)),
                ],
                optional: [
                    open.map(|(_, nanoseconds)| *nanoseconds),
                    open.map(|(operation, _)| operations.number(operation)),
                    start.world_size.filter(|size| Some(*size) != world).map(i64::from),
                ],
            }
        };
        let ranks: Vec<Row> = self.starts.iter().map(rank).collect();
        // A call in which a rank was killed is perhaps its only one of the operation.
        of_operations.resize_with(operations.texts.len(), Vec::new);
        let mut place = |start: &RankStart| Row {
            fixed: [
                start.library.as_deref().and_then(|name| libraries.get(name)).copied().unwrap_or(0),
                texts.optional(start.cpus.as_ref()).unwrap_or(0),
                texts.optional(start.gpus.as_ref()).unwrap_or(0),
                texts.optional(start.ports.as_ref()).unwrap_or(0),
                texts.optional(start.numa.as_ref()).unwrap_or(0),
            ],
            optional: [texts.optional(start.port_numa.as_ref()), None, None],
        };
        let places: Vec<Row> = self.starts.iter().map(&mut place).collect();
        let began = self.starts.iter().map(|start| start.start).min().unwrap_or(0);
        let ended = self.starts.iter().filter_map(|start| start.end).max().unwrap_or(began);
        let numbers: BTreeSet<i32> = self.starts.iter().map(|start| start.rank).collect();
        NodeFinal {
            place: i32::try_from(at + 1).unwrap_or(i32::MAX),
            node_id: self.node_id,
            host: self.host.to_owned(),
            began,
            ended,
            rank_count: i32::try_from(numbers.len()).unwrap_or(i32::MAX),
            operations: operations.texts.join("\n"),
            texts: texts.texts.join("\n"),
            ranks: PackedBits::of(pack(&ranks)),
            places: PackedBits::of(pack(&places)),
            totals: of_operations.iter().map(|rows| PackedBits::of(pack(rows))).collect(),
            account: None,
        }
    }
}

/// What cells are of, the cells, and the unit of their times in nanoseconds: 1, or as many thousands as the largest sum needs. A sum of seconds
/// has 53 bits, so nothing is lost by it.
pub(super) fn cells(cells: &[CellTotals]) -> (Vec<String>, PackedBits, i64) {
    const LIMIT: f64 = (1_u64 << 61) as f64;
    let largest = cells.iter().flat_map(|cell| [Some(cell.elapsed), cell.wait]).flatten().fold(0.0, f64::max);
    let mut unit = 1;
    while largest * 1e9 / unit_of(unit) > LIMIT {
        unit *= 1000;
    }
    // Rounded, and below the limit.
    #[allow(clippy::cast_possible_truncation)]
    let time = |seconds: f64| (seconds * 1e9 / unit_of(unit)).round() as i64;
    let mut operations = Numbered::default();
    let row = |cell: &CellTotals| Row {
        fixed: [
            operations.number(&[&*cell.operation, &cell.algorithm, &cell.source].join("\t")),
            cell.calls,
            cell.bytes,
            time(cell.elapsed),
            time(cell.longest.unwrap_or_default()),
        ],
        optional: [cell.wait.map(time), cell.received, cell.size_class_bytes],
    };
    let rows: Vec<Row> = cells.iter().map(row).collect();
    (operations.texts, PackedBits::of(pack(&rows)), unit)
}

#[allow(clippy::cast_precision_loss)] // powers of a thousand
fn unit_of(unit: i64) -> f64 {
    unit as f64
}

/// Kinds of traffic, and the pairs of nodes of each.
pub(super) fn pairs(pairs: &[NodePair], nodes: &[NodeFinal]) -> (Vec<String>, Vec<PackedBits>) {
    // A host that several nodes' records name is where its first ranks are.
    let mut place_of: BTreeMap<&str, i64> = BTreeMap::new();
    nodes.iter().for_each(|node| _ = place_of.entry(&node.host).or_insert(node.place.into()));
    let place = |host: &str| place_of.get(host).copied().unwrap_or(0);
    let mut kinds: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for pair in pairs {
        let (from, to) = pair.hosts.as_ref().map_or((0, 0), |(from, to)| (place(from), place(to)));
        let row = Row { fixed: [from, to, pair.bytes, pair.messages, pair.rank_pairs], optional: [None; 3] };
        kinds.entry(&pair.kind).or_default().push(row);
    }
    kinds.into_iter().map(|(kind, rows)| (kind.to_owned(), PackedBits::of(pack(&rows)))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_packed::rows::unpack;

    fn start(rank: i32, host: &str, start: i64) -> RankStart {
        RankStart {
            rank,
            node_id: Some(7),
            host: host.to_owned(),
            pid: Some(4000 + i64::from(rank)),
            world_size: Some(4),
            library: Some("MPICH".to_owned()),
            start,
            end: Some(start + 1_000_000),
            ending: Some("lost".to_owned()),
            cpus: Some(format!("{rank}")),
            ..RankStart::default()
        }
    }

    fn total(rank: i32, epoch: i64, operation: &str) -> OperationTotals {
        OperationTotals {
            rank,
            epoch,
            operation: operation.to_owned(),
            calls: 5,
            ..OperationTotals::default()
        }
    }

    fn rows(bits: &PackedBits) -> Vec<Row> {
        unpack(bits.bytes()).unwrap()
    }

    #[test]
    fn each_start_is_at_its_node_with_its_totals() {
        let mut killed = start(1, "b", 200);
        killed.open = Some(("barrier".to_owned(), 9));
        let totals = JobTotals {
            ranks: vec![start(0, "b", 100), start(0, "b", 150), killed, start(2, "a", 100)],
            operations: vec![
                total(0, 150, "send"),
                total(2, 100, "recv"),
                total(2, 77, "recv"),
                total(9, 1, "send"),
            ],
            libraries: vec!["MPICH".to_owned()],
            ..JobTotals::default()
        };
        let nodes = nodes(&totals);
        let names: Vec<(&str, i32)> = nodes.iter().map(|node| (node.host.as_str(), node.place)).collect();
        assert_eq!(names, [("b", 1), ("a", 2), ("", 3)]);
        assert_eq!(nodes.iter().map(|node| node.rank_count).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(nodes[0].operations, "send\nbarrier");
        let ranks = rows(&nodes[0].ranks);
        assert_eq!(ranks.iter().map(|row| row.fixed[2]).collect::<Vec<_>>(), [100, 150, 200]);
        assert_eq!((ranks[2].fixed[4], ranks[2].optional), (2, [Some(9), Some(2), None]));
        assert_eq!(rows(&nodes[0].totals[0])[0].fixed[..2], [1, 5], "the second start");
        assert!(rows(&nodes[0].totals[1]).is_empty());
        // Totals without a claim.
        assert_eq!(rows(&nodes[1].ranks)[1].fixed[1..4], [-1, 77, -1]);
        assert_eq!(nodes[0].texts, "0\n1");
        assert_eq!(nodes[2].node_id, None);
    }

    #[test]
    fn times_of_a_large_job_have_a_larger_unit() {
        let cell = CellTotals { operation: "send".to_owned(), elapsed: 1.5, ..CellTotals::default() };
        let (operations, bits, unit) = cells(std::slice::from_ref(&cell));
        assert_eq!(
            (operations, rows(&bits)[0].fixed[3], unit),
            (vec!["send\t\t".to_owned()], 1_500_000_000, 1)
        );
        let large = CellTotals { wait: Some(4e10), ..cell };
        let (_, bits, unit) = cells(&[large]);
        assert_eq!((rows(&bits)[0].optional[0], unit), (Some(40_000_000_000_000_000), 1000));
    }

    #[test]
    fn pairs_are_of_places_and_the_rest_of_none() {
        let totals = JobTotals { ranks: vec![start(0, "b", 1), start(1, "a", 1)], ..JobTotals::default() };
        let pair = |kind: &str, hosts: Option<(&str, &str)>| NodePair {
            kind: kind.to_owned(),
            hosts: hosts.map(|(from, to)| (from.to_owned(), to.to_owned())),
            bytes: 8,
            messages: 2,
            rank_pairs: 1,
        };
        let all = [pair("wire", None), pair("logical", Some(("a", "b"))), pair("logical", None)];
        let (kinds, packed) = pairs(&all, &nodes(&totals));
        assert_eq!(kinds, ["logical", "wire"]);
        assert_eq!(
            rows(&packed[0]).iter().map(|row| row.fixed).collect::<Vec<_>>(),
            [[2, 1, 8, 2, 1], [0, 0, 8, 2, 1]]
        );
    }
}
