//! A matrix of traffic: by rank or by node, and summed to tiles. Pure.

use std::collections::BTreeMap;
use throughline_api::jobs::NodePairs;

/// Widest name of a row.
pub const NAME_COLUMNS: usize = 20;

/// What stands for a rank whose node is not known.
pub const UNKNOWN_NODE: &str = "?";

/// Traffic from one row to one column; both are places in the grid's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Who sends.
    pub from: u32,
    /// Who receives.
    pub to: u32,
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// The matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// What its rows and columns stand for: numbers of ranks or names of nodes.
    pub names: Vec<String>,
    /// Where there was traffic, ordered by row and column.
    pub entries: Vec<Entry>,
    /// Whether the names are ranks.
    pub ranks: bool,
}

impl Grid {
    /// A row for each rank of the world; `world` may be smaller than what was seen.
    pub fn by_rank(entries: &[Entry], world: u32) -> Self {
        let seen = entries.iter().map(|entry| entry.from.max(entry.to) + 1).max().unwrap_or(0);
        let names = (0..world.max(seen)).map(|rank| rank.to_string()).collect();
        Self { names, entries: entries.to_vec(), ranks: true }
    }

    /// A row for each node, by its smallest rank.
    pub fn by_node(entries: &[Entry], hosts: &[(u32, String)]) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut place_of: BTreeMap<u32, usize> = BTreeMap::new();
        let mut place = |name: &str| {
            names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            })
        };
        for (rank, host) in hosts {
            place_of.insert(*rank, place(host));
        }
        let mut sums: BTreeMap<(u32, u32), Entry> = BTreeMap::new();
        for entry in entries {
            let mut end = |rank| {
                let at = place_of.get(&rank).copied().unwrap_or_else(|| place(UNKNOWN_NODE));
                u32::try_from(at).unwrap_or(u32::MAX)
            };
            let (from, to) = (end(entry.from), end(entry.to));
            let sum = sums.entry((from, to)).or_insert(Entry { from, to, ..Entry::default() });
            sum.bytes = sum.bytes.saturating_add(entry.bytes);
            sum.messages = sum.messages.saturating_add(entry.messages);
        }
        Self { names, entries: sums.into_values().collect(), ranks: false }
    }

    /// Pairs of nodes as they are stored of an old job. All pairs that are not stored by themselves are one of a node that is not known.
    pub fn of_nodes(nodes: &NodePairs) -> Self {
        let value = |value: &i64| u64::try_from(*value).unwrap_or(0);
        let place = |place: &usize| u32::try_from(*place).unwrap_or(u32::MAX);
        let (ends, amounts) = (nodes.from.iter().zip(&nodes.to), nodes.bytes.iter().zip(&nodes.messages));
        let entry = |((from, to), (bytes, messages))| Entry {
            from: place(from),
            to: place(to),
            bytes: value(bytes),
            messages: value(messages),
        };
        let mut entries: Vec<Entry> = ends.zip(amounts).map(entry).collect();
        let mut names = nodes.hosts.clone();
        if nodes.others_bytes > 0 || nodes.others_messages > 0 {
            let other = place(&names.len());
            names.push(UNKNOWN_NODE.to_owned());
            let (bytes, messages) = (value(&nodes.others_bytes), value(&nodes.others_messages));
            entries.push(Entry { from: other, to: other, bytes, messages });
        }
        Self { names, entries, ranks: false }
    }

    /// Bytes and messages of all entries.
    pub fn sums(&self) -> (u64, u64) {
        self.entries.iter().fold((0, 0), |(bytes, messages), entry| {
            (bytes.saturating_add(entry.bytes), messages.saturating_add(entry.messages))
        })
    }

    /// The name of a place.
    pub fn name(&self, place: u32) -> &str {
        self.names.get(place as usize).map_or(UNKNOWN_NODE, String::as_str)
    }

    /// Sums to tiles of `side` rows and columns: a square of values, row by row; `None` where there was no traffic.
    pub fn tiles(&self, side: usize, value: impl Fn(&Entry) -> u64) -> Vec<Vec<Option<u64>>> {
        let count = self.names.len().div_ceil(side.max(1));
        let mut tiles = vec![vec![None; count]; count];
        for entry in &self.entries {
            let (row, column) = (entry.from as usize / side, entry.to as usize / side);
            if let Some(tile) = tiles.get_mut(row).and_then(|row| row.get_mut(column)) {
                *tile = Some(tile.unwrap_or(0u64).saturating_add(value(entry)));
            }
        }
        tiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(from: u32, to: u32, bytes: u64) -> Entry {
        Entry { from, to, bytes, messages: 1 }
    }

    #[test]
    fn nodes_sum_their_ranks() {
        let hosts: Vec<(u32, String)> = (0..4).map(|rank| (rank, format!("n{}", rank / 2))).collect();
        let entries = [entry(0, 1, 5), entry(0, 2, 7), entry(1, 3, 8), entry(3, 0, 1), entry(9, 0, 2)];
        let grid = Grid::by_node(&entries, &hosts);
        assert_eq!(grid.names, ["n0", "n1", "?"]);
        let pairs: Vec<_> = grid.entries.iter().map(|e| (e.from, e.to, e.bytes, e.messages)).collect();
        assert_eq!(pairs, [(0, 0, 5, 1), (0, 1, 15, 2), (1, 0, 1, 1), (2, 0, 2, 1)]);
        assert_eq!(grid.sums(), (23, 5));
    }

    #[test]
    fn stored_pairs_of_nodes_are_a_grid_and_all_others_one_pair() {
        let nodes = NodePairs {
            hosts: vec!["a".to_owned(), "b".to_owned()],
            from: vec![0, 1],
            to: vec![1, 1],
            bytes: vec![5, 6],
            messages: vec![1, 2],
            others_bytes: 9,
            others_messages: 4,
            ..NodePairs::default()
        };
        let grid = Grid::of_nodes(&nodes);
        assert_eq!(grid.names, ["a", "b", "?"]);
        assert_eq!((grid.sums(), grid.entries[2].from), ((20, 7), 2));
        let none = NodePairs { others_bytes: 0, others_messages: 0, ..nodes };
        assert_eq!(Grid::of_nodes(&none).names, ["a", "b"]);
    }

    #[test]
    fn tiles_sum_and_keep_the_empty_ones_empty() {
        let grid = Grid::by_rank(&[entry(0, 1, 1), entry(1, 0, 2), entry(4, 4, 8)], 5);
        assert_eq!(grid.names.len(), 5);
        let tiles = grid.tiles(2, |entry| entry.bytes);
        assert_eq!(tiles, [[Some(3), None, None], [None, None, None], [None, None, Some(8)]]);
        assert_eq!(grid.tiles(5, |entry| entry.messages), [[Some(3)]]);
        // A peer beyond the world that the job reports is still there.
        assert_eq!(Grid::by_rank(&[entry(0, 9, 1)], 4).names.len(), 10);
    }
}
