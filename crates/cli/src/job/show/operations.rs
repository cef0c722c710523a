//! The table of operations over all ranks.

use crate::job::cells::{Cell, add, mean, part};
use crate::text::{ABSENT, Table, bytes, clean, percent, seconds, size_class, thousands};
use serde::Serialize;

/// Lines narrower than this leave out what can be made of the rest.
const WIDE: usize = 110;

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Operation {
    /// Its MPI name without the prefix.
    pub operation: String,
    /// Calls of all ranks.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// What receives got.
    pub received_bytes: Option<u64>,
    /// Time inside it, summed over ranks.
    pub elapsed_seconds: f64,
    /// Part of the time inside all operations.
    pub time_share: Option<f64>,
    /// From the return of the call that began it to its completion, summed.
    pub wait_seconds: Option<f64>,
    /// Longest single call.
    pub longest_seconds: Option<f64>,
    /// By size class, the smallest first.
    pub sizes: Vec<Size>,
    /// What the library did inside, by the time of it.
    pub algorithms: Vec<Algorithm>,
}

/// One size class of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Size {
    /// Largest message of the class, bytes.
    pub size_class_bytes: u64,
    /// Calls.
    pub calls: u64,
    /// What callers passed to send.
    pub bytes: u64,
    /// Time inside.
    pub elapsed_seconds: f64,
}

/// One algorithm of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Algorithm {
    /// Its name by the library; empty where it is not known.
    pub algorithm: String,
    /// observed, pvar, forced or unknown.
    pub source: String,
    /// Calls.
    pub calls: u64,
    /// Time inside.
    pub elapsed_seconds: f64,
}

/// Sums cells to operations, those with the most time first.
pub fn of(cells: &[Cell]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for cell in cells {
        let at = operations.iter().position(|operation| operation.operation == cell.operation);
        let at = at.unwrap_or_else(|| {
            operations.push(Operation { operation: cell.operation.clone(), ..Operation::default() });
            operations.len() - 1
        });
        add_cell(&mut operations[at], cell);
    }
    let all: f64 = operations.iter().map(|operation| operation.elapsed_seconds).sum();
    for operation in &mut operations {
        operation.time_share = part(operation.elapsed_seconds, all);
        operation.algorithms.sort_by(|one, other| other.elapsed_seconds.total_cmp(&one.elapsed_seconds));
    }
    operations.sort_by(|one, other| other.elapsed_seconds.total_cmp(&one.elapsed_seconds));
    operations
}

fn add_cell(operation: &mut Operation, cell: &Cell) {
    operation.calls = operation.calls.saturating_add(cell.calls);
    operation.bytes = operation.bytes.saturating_add(cell.bytes);
    operation.received_bytes = add(operation.received_bytes, cell.received_bytes);
    operation.elapsed_seconds += cell.elapsed_seconds;
    operation.wait_seconds = add(operation.wait_seconds, cell.wait_seconds);
    operation.longest_seconds =
        operation.longest_seconds.into_iter().chain(cell.longest_seconds).reduce(f64::max);
    // Cells come ordered by size class.
    match operation.sizes.last_mut().filter(|size| size.size_class_bytes == cell.size_class_bytes) {
        Some(size) => {
            size.calls = size.calls.saturating_add(cell.calls);
            size.bytes = size.bytes.saturating_add(cell.bytes);
            size.elapsed_seconds += cell.elapsed_seconds;
        }
        None => operation.sizes.push(Size {
            size_class_bytes: cell.size_class_bytes,
            calls: cell.calls,
            bytes: cell.bytes,
            elapsed_seconds: cell.elapsed_seconds,
        }),
    }
    if cell.algorithm_source.is_empty() && cell.algorithm.is_empty() {
        return;
    }
    let same =
        |known: &&mut Algorithm| known.algorithm == cell.algorithm && known.source == cell.algorithm_source;
    match operation.algorithms.iter_mut().find(same) {
        Some(known) => {
            known.calls = known.calls.saturating_add(cell.calls);
            known.elapsed_seconds += cell.elapsed_seconds;
        }
        None => operation.algorithms.push(Algorithm {
            algorithm: cell.algorithm.clone(),
            source: cell.algorithm_source.clone(),
            calls: cell.calls,
            elapsed_seconds: cell.elapsed_seconds,
        }),
    }
}

/// The table as lines.
pub fn text(operations: &[Operation], width: usize) -> String {
    if operations.is_empty() {
        return "  no rows: the job has sent none yet, or they are older than the retention\n".to_owned();
    }
    let wide = width >= WIDE;
    let mut headings = vec!["OPERATION", "<CALLS", "<SENT", "<TIME", "<SHARE", "<PENDING", "<LARGEST"];
    if wide {
        headings.splice(3..3, ["<RECEIVED"]);
        headings.extend(["<MEAN", "<LONGEST"]);
    }
    headings.push("ALGORITHMS");
    let mut table = Table::new(&headings);
    for operation in operations {
        let optional = |value: Option<f64>| value.map_or(ABSENT.to_owned(), seconds);
        let largest = operation.sizes.iter().rfind(|size| size.calls > 0).map(|size| size.size_class_bytes);
        let mut row = vec![
            clean(&operation.operation, 24),
            thousands(operation.calls),
            bytes(operation.bytes),
            seconds(operation.elapsed_seconds),
            percent(operation.time_share),
            optional(operation.wait_seconds),
            largest.map_or(ABSENT.to_owned(), size_class),
        ];
        if wide {
            row.insert(3, operation.received_bytes.map_or(ABSENT.to_owned(), bytes));
            row.push(optional(mean(operation.elapsed_seconds, operation.calls)));
            row.push(optional(operation.longest_seconds));
        }
        row.push(algorithms(&operation.algorithms));
        table.row(row);
    }
    table.text().lines().map(|line| clean(line, width) + "\n").collect()
}

/// `ring 80 %, linear 20 %`; how it is known where it was not seen at work.
fn algorithms(algorithms: &[Algorithm]) -> String {
    let all: f64 = algorithms.iter().map(|algorithm| algorithm.elapsed_seconds).sum();
    let one = |algorithm: &Algorithm| {
        let mut text = name(algorithm);
        if algorithms.len() > 1 {
            text.push_str(&format!(" {}", percent(part(algorithm.elapsed_seconds, all))));
        }
        text
    };
    match algorithms {
        [] => ABSENT.to_owned(),
        some => clean(&some.iter().map(one).collect::<Vec<_>>().join(", "), 200),
    }
}

/// `ring`, `ring (forced)`, `unknown`.
pub fn name(algorithm: &Algorithm) -> String {
    match (algorithm.algorithm.as_str(), algorithm.source.as_str()) {
        ("", _) => "unknown".to_owned(),
        (name, "observed" | "") => name.to_owned(),
        (name, source) => format!("{name} ({source})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(operation: &str, size: u64, algorithm: &str, source: &str, calls: u64, time: f64) -> Cell {
        Cell {
            operation: operation.into(),
            size_class_bytes: size,
            algorithm: algorithm.into(),
            algorithm_source: source.into(),
            calls,
            bytes: calls * size,
            elapsed_seconds: time,
            longest_seconds: Some(time / 2.0),
            ..Cell::default()
        }
    }

    #[test]
    fn cells_become_operations() {
        let cells = [
            cell("allreduce", 8, "recursivedoubling", "observed", 100, 1.0),
            cell("allreduce", 8192, "", "unknown", 2, 0.5),
            cell("allreduce", 8192, "ring", "forced", 10, 2.5),
            Cell { wait_seconds: Some(0.25), ..cell("isend", 64, "", "", 7, 4.0) },
        ];
        let operations = of(&cells);
        assert_eq!(
            operations.iter().map(|o| o.operation.as_str()).collect::<Vec<_>>(),
            ["allreduce", "isend"]
        );
        let allreduce = &operations[0];
        assert_eq!(
            (allreduce.calls, allreduce.bytes, allreduce.time_share),
            (112, 800 + 12 * 8192, Some(0.5))
        );
        assert_eq!(allreduce.sizes.len(), 2);
        assert_eq!((allreduce.sizes[1].calls, allreduce.sizes[1].elapsed_seconds), (12, 3.0));
        assert_eq!((allreduce.wait_seconds, operations[1].wait_seconds), (None, Some(0.25)));
        for width in [80, 160] {
            let text = text(&operations, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("ring (forced)") && text.contains("8 KiB"), "{text}");
        }
        assert!(self::text(&operations, 160).contains("unknown 12.5 %"));
    }
}
