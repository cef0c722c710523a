//! The first lines of a matrix: what stands out of it. Pure.

use super::grid::{Entry, Grid, NAME_COLUMNS};
use super::unit::Unit;
use crate::text::{clean, percent, thousands};

/// A sender or receiver with so many times as much as the middle one stands out.
const STANDS_OUT: f64 = 2.0;
/// Fewer rows have no middle one that says anything.
const ROWS_MIN: usize = 4;

/// Two sentences: what crosses between nodes, and who sends or receives much more than the others, else the pair with most.
pub fn sentences(grid: &Grid, crossing: &InterNodeTraffic, unit: Unit) -> [String; 2] {
    [between_nodes(crossing, unit), outstanding(grid, unit)]
}

/// What of the traffic goes from one node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InterNodeTraffic {
    /// Nodes with ranks.
    pub nodes: usize,
    /// All of it.
    all: Entry,
    /// Between nodes.
    between: Entry,
}

impl InterNodeTraffic {
    /// From a grid of nodes.
    pub fn of(nodes: &Grid) -> Self {
        let sum = |of: &dyn Fn(&&Entry) -> bool| {
            nodes.entries.iter().filter(of).fold(Entry::default(), |sum, one| Entry {
                bytes: sum.bytes.saturating_add(one.bytes),
                messages: sum.messages.saturating_add(one.messages),
                ..sum
            })
        };
        Self { nodes: nodes.names.len(), all: sum(&|_| true), between: sum(&|one| one.from != one.to) }
    }
}

fn between_nodes(crossing: &InterNodeTraffic, unit: Unit) -> String {
    let (all, between) = (unit.of(&crossing.all), unit.of(&crossing.between));
    match crossing.nodes {
        0 | 1 => format!("Nothing crosses between nodes: all ranks are on one; {} in all.", unit.amount(all)),
        nodes => format!(
            "{} of the {} go from one node to another: {} of {}, on {nodes} nodes.",
            percent(part(between, all)),
            unit.noun(),
            unit.text(between),
            unit.text(all)
        ),
    }
}

fn outstanding(grid: &Grid, unit: Unit) -> String {
    let count = grid.names.len();
    let (mut sent, mut received) = (vec![0u64; count], vec![0u64; count]);
    for entry in &grid.entries {
        for (sums, at) in [(&mut sent, entry.from), (&mut received, entry.to)] {
            if let Some(sum) = sums.get_mut(at as usize) {
                *sum = sum.saturating_add(unit.of(entry));
            }
        }
    }
    let all: u64 = sent.iter().fold(0, |sum, value| sum.saturating_add(*value));
    let Some(most) = grid.entries.iter().max_by_key(|entry| unit.of(entry)) else {
        return "Nothing was sent.".to_owned();
    };
    let what = if grid.ranks { "rank" } else { "node" };
    let who = [(&sent, "sends"), (&received, "receives")].into_iter().find_map(|(sums, verb)| {
        let (at, value, than) = much_more(sums)?;
        let name = clean(grid.names.get(at)?, NAME_COLUMNS);
        let share = percent(part(value, all));
        Some(match than {
            Some(times) => {
                format!("{name} {verb} {share} of all, {times:.1} times as much as the middle {what}")
            }
            None => format!("{name} {verb} {share} of all, the middle {what} nothing"),
        })
    });
    let spread =
        format!("{} of {} pairs have any", thousands(grid.entries.len() as u64), thousands(pairs(grid)));
    who.map_or_else(
        || {
            let (from, to) = (grid.name(most.from), grid.name(most.to));
            let (from, to) = (clean(from, NAME_COLUMNS), clean(to, NAME_COLUMNS));
            let share = percent(part(unit.of(most), all));
            format!("No {what} stands out; the pair with most, {from} to {to}, has {share}; {spread}.")
        },
        |who| format!("{} {who}; {spread}.", if grid.ranks { "Rank" } else { "Node" }),
    )
}

/// The row with most, where it has much more than the middle one, and how many times as much as that; `None` where the middle one
/// has none.
#[allow(clippy::cast_precision_loss)] // ratios
fn much_more(sums: &[u64]) -> Option<(usize, u64, Option<f64>)> {
    if sums.len() < ROWS_MIN {
        return None;
    }
    let mut ordered = sums.to_vec();
    ordered.sort_unstable();
    let middle = ordered[ordered.len() / 2] as f64;
    let (at, value) = sums.iter().copied().enumerate().max_by_key(|(_, value)| *value)?;
    let is_much = value as f64 > middle * STANDS_OUT;
    is_much.then_some((at, value, (middle > 0.0).then(|| value as f64 / middle)))
}

#[allow(clippy::cast_precision_loss)] // a share
fn part(value: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| value as f64 / all as f64)
}

/// Ordered pairs: ranks send nothing to themselves, those of one node do to each other.
fn pairs(grid: &Grid) -> u64 {
    let rows = grid.names.len() as u64;
    rows.saturating_mul(if grid.ranks { rows.saturating_sub(1) } else { rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(from: u32, to: u32, bytes: u64) -> Entry {
        Entry { from, to, bytes, messages: 1 }
    }

    fn on(ranks_a_node: u32, entries: &[Entry], ranks: u32, unit: Unit) -> [String; 2] {
        let hosts: Vec<(u32, String)> =
            (0..ranks).map(|rank| (rank, format!("n{}", rank / ranks_a_node))).collect();
        let crossing = InterNodeTraffic::of(&Grid::by_node(entries, &hosts));
        sentences(&Grid::by_rank(entries, ranks), &crossing, unit)
    }

    #[test]
    fn what_crosses_between_nodes_comes_first() {
        let ring: Vec<Entry> = (0..4).map(|rank| entry(rank, (rank + 1) % 4, 1000)).collect();
        let [first, second] = on(2, &ring, 4, Unit::Bytes);
        assert_eq!(first, "50.0 % of the bytes go from one node to another: 2.0 kB of 4.0 kB, on 2 nodes.");
        assert!(second.starts_with("No rank stands out; the pair with most, "), "{second}");
        assert!(second.ends_with("has 25.0 %; 4 of 12 pairs have any."), "{second}");
        let [first, _] = on(4, &ring, 4, Unit::Messages);
        assert_eq!(first, "Nothing crosses between nodes: all ranks are on one; 4 messages in all.");
    }

    #[test]
    fn who_has_much_more_than_the_others_is_named() {
        let mut hub: Vec<Entry> = (1..6).map(|rank| entry(rank, 0, 1000)).collect();
        assert!(
            on(1, &hub, 6, Unit::Bytes)[1]
                .starts_with("Rank 0 receives 100 % of all, the middle rank nothing; 5 of 30")
        );
        hub.extend((1..6).map(|rank| entry(rank, rank % 5 + 1, 500)));
        let [_, second] = on(1, &hub, 6, Unit::Bytes);
        assert!(
            second.starts_with("Rank 0 receives 66.7 % of all, 10.0 times as much as the middle rank"),
            "{second}"
        );
        assert_eq!(on(1, &[], 4, Unit::Bytes)[1], "Nothing was sent.");
    }
}
