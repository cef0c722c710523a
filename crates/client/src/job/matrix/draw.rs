//! The matrix as lines: numbers where they fit, else shades.

use super::grid::{Grid, NAME_COLUMNS};
use super::headline::{InterNodeTraffic, sentences};
use super::unit::Unit;
use crate::text::{bytes, clean, count};

/// A tile is as wide as it is high on most terminals.
const TILE_COLUMNS: usize = 2;
/// Most tiles of a side: what still fits a large terminal's height.
const TILES_MAX: usize = 64;
/// Most rows and columns with numbers: more are no longer read but looked at.
const NUMBERS_MAX: usize = 16;
/// From nothing to most.
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];
/// A tile without traffic.
const EMPTY: char = '·';
/// Smallest ratio of the largest to the smallest value for which shades are steps of a factor, not of a sum.
const WIDE_RANGE: u64 = 16;

/// What a matrix of the library's messages lacks.
const UNREPORTED: &str = "Open MPI does not report most one-sided operations in it, nor 4.1 persistent sends: --kind logical has them.";

/// The matrix with what stands out of it, its heading and legend.
pub fn text(
    key: &str,
    kind: &str,
    grid: &Grid,
    crossing: &InterNodeTraffic,
    unit: Unit,
    width: usize,
) -> String {
    let (bytes_all, messages_all) = grid.sums();
    let what = if grid.ranks { "rank" } else { "node" };
    let heading = format!(
        "Job {key}: {kind} {} from row to column, {}; all pairs {} in {}",
        unit.noun(),
        count(grid.names.len() as u64, what),
        bytes(bytes_all),
        count(messages_all, "message")
    );
    let mut text = String::new();
    for sentence in sentences(grid, crossing, unit).iter().chain([&heading]) {
        text.push_str(crate::text::folded(sentence, width).join("\n").trim_start());
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&numbers(grid, unit, width).unwrap_or_else(|| shades(grid, unit, width)));
    if kind == "wire" {
        text.push_str(&crate::text::folded(UNREPORTED, width).join("\n"));
        text.push('\n');
    }
    text
}

/// A table of numbers with the sums of rows, if it fits.
fn numbers(grid: &Grid, unit: Unit, width: usize) -> Option<String> {
    if grid.names.len() > NUMBERS_MAX {
        return None;
    }
    let tiles = grid.tiles(1, |entry| unit.of(entry));
    let cell = |value: Option<u64>| value.map_or(EMPTY.to_string(), |value| unit.text(value));
    let names: Vec<String> = grid.names.iter().map(|name| clean(name, NAME_COLUMNS)).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut heading = vec![String::new()];
    heading.extend(names.iter().cloned());
    heading.push("all".to_owned());
    rows.push(heading);
    for (name, tiles) in names.iter().zip(&tiles) {
        let mut row = vec![name.clone()];
        row.extend(tiles.iter().map(|value| cell(*value)));
        row.push(unit.text(tiles.iter().flatten().fold(0, |sum, value| sum.saturating_add(*value))));
        rows.push(row);
    }
    let widths: Vec<usize> = (0..=names.len() + 1)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    if widths.iter().map(|width| width + 2).sum::<usize>() > width {
        return None;
    }
    let mut text = String::new();
    for row in rows {
        let line: String = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}")).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&format!("\n  {EMPTY} nothing sent\n"));
    Some(text)
}

fn shades(grid: &Grid, unit: Unit, width: usize) -> String {
    let count = grid.names.len();
    let name_width = if grid.ranks {
        2 * count.to_string().len() + 1
    } else {
        grid.names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(NAME_COLUMNS)
    };
    let room = (width.saturating_sub(name_width + 4) / TILE_COLUMNS).clamp(1, TILES_MAX);
    let side = count.div_ceil(room).max(1);
    let tiles = grid.tiles(side, |entry| unit.of(entry));
    let scale = Scale::of(tiles.iter().flatten().flatten().copied());
    let mut text = columns(tiles.len(), side, name_width, grid.ranks);
    for (row, values) in tiles.iter().enumerate() {
        let line: String = values
            .iter()
            .flat_map(|value| {
                std::iter::repeat_n(value.map_or(EMPTY, |value| scale.shade(value)), TILE_COLUMNS)
            })
            .collect();
        text.push_str(&format!("  {:>name_width$} {line}\n", name(grid, row, side)));
    }
    text.push('\n');
    if side > 1 {
        let what = if grid.ranks { "ranks" } else { "nodes" };
        let tile = format!("a tile is {side} x {side} {what} and shows the sum of its pairs");
        text.push_str(&crate::text::folded(&tile, width).join("\n"));
        text.push('\n');
    }
    if !grid.ranks {
        text.push_str("  columns are numbered as the rows stand, from 0\n");
    }
    let legend = format!("{EMPTY}{EMPTY} nothing; {}", scale.legend(unit));
    text.push_str(&crate::text::folded(&legend, width).join("\n"));
    text.push('\n');
    text
}

/// Numbers above the columns, each at the first of its tiles, as many as fit.
fn columns(tiles: usize, side: usize, name_width: usize, ranks: bool) -> String {
    let mut line = String::new();
    for tile in 0..tiles {
        let at = tile * TILE_COLUMNS;
        let number = (tile * side).to_string();
        // A blank between two, and none that ends behind the last tile.
        let free = line.chars().count() == 0 || line.chars().count() + 2 <= at;
        if free && tile % 4 == 0 && at + number.len() <= tiles * TILE_COLUMNS {
            line.push_str(&" ".repeat(at - line.chars().count()));
            line.push_str(&number);
        }
    }
    let corner = if ranks { "" } else { "column" };
    format!("  {corner:>name_width$} {line}\n")
}

fn name(grid: &Grid, tile: usize, side: usize) -> String {
    let (first, last) = (tile * side, ((tile + 1) * side).min(grid.names.len()) - 1);
    match (grid.ranks, first == last) {
        (true, false) => format!("{first}-{last}"),
        _ => clean(&grid.names[first], NAME_COLUMNS),
    }
}

/// Upper ends of the shades' ranges.
struct Scale {
    ends: [u64; SHADES.len()],
    least: u64,
}

impl Scale {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shades
    fn of(values: impl Iterator<Item = u64>) -> Self {
        let (mut least, mut most) = (u64::MAX, 0);
        for value in values {
            (least, most) = (least.min(value), most.max(value));
        }
        least = least.min(most);
        let (low, high) = (least.max(1) as f64, most.max(1) as f64);
        let steps = SHADES.len() as f64;
        let factor = most / least.max(1) >= WIDE_RANGE;
        let mut ends = [0; SHADES.len()];
        for (step, end) in (1u8..).zip(&mut ends) {
            let part = f64::from(step) / steps;
            *end =
                if factor { low * (high / low).powf(part) } else { low + (high - low) * part }.round() as u64;
        }
        ends[SHADES.len() - 1] = most;
        Self { ends, least }
    }

    fn shade(&self, value: u64) -> char {
        let place = self.ends.iter().position(|end| value <= *end).unwrap_or(SHADES.len() - 1);
        SHADES[place]
    }

    fn legend(&self, unit: Unit) -> String {
        if self.least == self.ends[SHADES.len() - 1] {
            return format!("{0}{0} {1}", self.shade(self.least), unit.text(self.least));
        }
        let ranges =
            SHADES.iter().zip(self.ends).map(|(shade, end)| format!("{shade}{shade} to {}", unit.text(end)));
        format!("from {} {}", unit.text(self.least), ranges.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::Entry;
    use super::*;

    fn ring(ranks: u32, bytes: u64) -> Grid {
        let entries: Vec<Entry> = (0..ranks)
            .map(|from| Entry {
                from,
                to: (from + 1) % ranks,
                bytes: bytes * u64::from(from + 1),
                messages: 3,
            })
            .collect();
        Grid::by_rank(&entries, ranks)
    }

    #[test]
    fn small_worlds_have_numbers() {
        let text = text("slurm:1", "logical", &ring(4, 1000), &InterNodeTraffic::default(), Unit::Bytes, 80);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("from row to column, 4 ranks; all pairs 10.0 kB in 12 messages"), "{text}");
        assert!(text.contains("  0       ·  1.0 kB"), "{text}");
        assert!(
            text.lines().any(|line| line.trim_end().ends_with("4.0 kB") && line.starts_with("  3")),
            "{text}"
        );
        let messages = self::text(
            "slurm:1",
            "logical",
            &ring(4, 1000),
            &InterNodeTraffic::default(),
            Unit::Messages,
            80,
        );
        assert!(messages.contains("  1  ·  ·  3"), "{messages}");
    }

    #[test]
    fn larger_worlds_have_shades_and_tiles_that_fit() {
        for (ranks, width) in [(17, 80), (100, 80), (100, 160), (1000, 40), (4096, 160)] {
            let text = text(
                "slurm:1",
                "wire",
                &ring(ranks, 1 << 20),
                &InterNodeTraffic::default(),
                Unit::Bytes,
                width,
            );
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{ranks} {width}: {line}");
            }
            assert!(text.contains('█') && text.contains('·') && text.contains("nothing"), "{text}");
            assert_eq!(text.contains("a tile is"), ranks as usize > (width - 8) / 2, "{text}");
            assert!(text.lines().count() <= TILES_MAX + 12);
        }
    }

    #[test]
    fn shades_grow_with_the_values() {
        let scale = Scale::of([1, 10, 100, 1000, 10_000].into_iter());
        assert_eq!([1, 11, 500, 10_000].map(|value| scale.shade(value)), ['░', '▒', '▓', '█']);
        let narrow = Scale::of([100, 110, 120].into_iter());
        assert_eq!([100, 110, 120].map(|value| narrow.shade(value)), ['░', '▒', '█']);
        let one = Scale::of([7].into_iter());
        assert_eq!(one.legend(Unit::Messages), "░░ 7");
        let zero = Scale::of([0, 0].into_iter());
        assert_eq!(zero.shade(0), '░');
    }
}
