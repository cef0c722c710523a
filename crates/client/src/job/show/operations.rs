//! The table of operations over all ranks.

use crate::job::whole::ReferenceTime;
use crate::job::{mean, part};
use crate::text::{ABSENT, Table, bytes, clean, percent, seconds, size_class, thousands};
use throughline_api::jobs::{Job, Operation, OperationAlgorithm};

/// Lines narrower than this leave out what can be made of the rest.
const WIDE: usize = 110;

/// What is printed in place of a table without rows: only what is known.
pub fn nothing(job: &Job) -> String {
    match &job.as_of {
        None if job.end_ms.is_some() => "  no rows: the job sent none, or they are older than the retention",
        None => "  nothing is known yet: what its ranks called comes some seconds after their start",
        Some(at) if at.behind.is_empty() => "  none: the agents on its nodes counted no call of it by then",
        Some(_) => "  none of the nodes that are not behind",
    }
    .to_owned()
        + "\n"
}

/// The table as lines; shares are of `whole`.
pub fn text(operations: &[Operation], whole: Option<ReferenceTime>, width: usize) -> String {
    let wide = width >= WIDE;
    let mut headings = vec![
        "OPERATION",
        "<CALLS",
        "<SENT",
        "<RECEIVED",
        "<TIME",
        whole.map_or("<SHARE", |whole| whole.heading),
    ];
    if wide {
        headings.extend(["<PENDING", "<LARGEST", "<MEAN", "<LONGEST"]);
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
            operation.received_bytes.map_or(ABSENT.to_owned(), bytes),
            seconds(operation.elapsed_seconds),
            percent(whole.and_then(|whole| part(operation.elapsed_seconds, whole.seconds))),
        ];
        if wide {
            row.push(optional(operation.wait_seconds));
            row.push(largest.map_or(ABSENT.to_owned(), size_class));
            row.push(optional(mean(operation.elapsed_seconds, operation.calls)));
            row.push(optional(operation.longest_seconds));
        }
        row.push(algorithms(&operation.algorithms));
        table.row(row);
    }
    table.text().lines().map(|line| clean(line, width) + "\n").collect()
}

/// `ring 80 %, linear 20 %`; how it is known where it was not seen at work.
fn algorithms(algorithms: &[OperationAlgorithm]) -> String {
    let all: f64 = algorithms.iter().map(|algorithm| algorithm.elapsed_seconds).sum();
    let one = |algorithm: &OperationAlgorithm| {
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
pub fn name(algorithm: &OperationAlgorithm) -> String {
    match (algorithm.algorithm.as_str(), algorithm.source.as_str()) {
        ("", _) => "unknown".to_owned(),
        (name, "observed" | "") => name.to_owned(),
        (name, source) => format!("{name} ({source})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::OperationSize;

    #[test]
    fn the_table_fits_and_says_how_algorithms_are_known() {
        let algorithm = |name: &str, source: &str, calls, elapsed_seconds| OperationAlgorithm {
            algorithm: name.into(),
            source: source.into(),
            calls,
            elapsed_seconds,
        };
        let size =
            |size_class_bytes, calls| OperationSize { size_class_bytes, calls, ..OperationSize::default() };
        let allreduce = Operation {
            operation: "allreduce".into(),
            calls: 112,
            bytes: 99_104,
            received_bytes: Some(1_234),
            elapsed_seconds: 4.0,
            time_share: Some(0.5),
            sizes: vec![size(8, 100), size(8192, 12), size(1 << 20, 0)],
            algorithms: vec![
                algorithm("ring", "forced", 10, 2.5),
                algorithm("recursivedoubling", "observed", 100, 1.0),
                algorithm("", "unknown", 2, 0.5),
            ],
            ..Operation::default()
        };
        let whole = ReferenceTime { seconds: 20.0, name: "of the ranks' time", heading: "<OF RANKS'" };
        for width in [80, 160] {
            let text = text(std::slice::from_ref(&allreduce), Some(whole), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("ring (forced)") && text.contains("TIME  OF RANKS'"), "{text}");
            assert_eq!(text.contains("8 KiB"), width >= WIDE, "{text}");
            // Received bytes are in the narrowest table, too.
            assert!(
                text.contains("RECEIVED") && text.contains("1.2 kB") && text.contains("20.0 %"),
                "{text}"
            );
        }
        assert!(self::text(std::slice::from_ref(&allreduce), Some(whole), 160).contains("unknown 12.5 %"));
    }
}
