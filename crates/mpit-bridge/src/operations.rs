//! Numbers and names of the wrapped operations, as in `shim/operations.h` (a test compares the two).
//!
//! A number is never given to another operation: shims of other versions are in use on the same node.

/// First number of the operations with counts.
const COUNTED_FROM: u16 = 1;
/// First number of the operations without counts.
const UNCOUNTED_FROM: u16 = 128;

const COUNTED: &[&str] = &[
    "send",
    "bsend",
    "ssend",
    "rsend",
    "isend",
    "ibsend",
    "issend",
    "irsend",
    "recv",
    "irecv",
    "mrecv",
    "imrecv",
    "sendrecv",
    "sendrecv_replace",
    "bcast",
    "ibcast",
    "allreduce",
    "iallreduce",
    "reduce",
    "ireduce",
    "scan",
    "iscan",
    "exscan",
    "iexscan",
    "gather",
    "igather",
    "gatherv",
    "igatherv",
    "scatter",
    "iscatter",
    "scatterv",
    "iscatterv",
    "allgather",
    "iallgather",
    "allgatherv",
    "iallgatherv",
    "alltoall",
    "ialltoall",
    "alltoallv",
    "ialltoallv",
    "alltoallw",
    "ialltoallw",
    "reduce_scatter",
    "ireduce_scatter",
    "reduce_scatter_block",
    "ireduce_scatter_block",
];

const UNCOUNTED: &[&str] = &[
    "barrier", "ibarrier", "wait", "waitall", "waitany", "waitsome", "test", "testall", "testany",
    "testsome", "probe", "iprobe",
];

/// The name of an operation by its number on the wire; `None` for one of a newer shim.
#[must_use]
pub fn operation_name(number: u16) -> Option<&'static str> {
    let (names, from) =
        if number >= UNCOUNTED_FROM { (UNCOUNTED, UNCOUNTED_FROM) } else { (COUNTED, COUNTED_FROM) };
    names.get(usize::from(number.checked_sub(from)?)).copied()
}

/// All operations with their numbers.
pub fn operations() -> impl Iterator<Item = (u16, &'static str)> {
    (COUNTED_FROM..).zip(COUNTED.iter().copied()).chain((UNCOUNTED_FROM..).zip(UNCOUNTED.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of one list in the C table, in their order.
    fn names_in_table(list: &str) -> Vec<String> {
        let table = include_str!("../shim/operations.h");
        let start = table.find(&format!("#define {list}(X)")).unwrap();
        let rows = table[start..].split("\n\n").next().unwrap();
        rows.lines().filter_map(|row| Some(row.split_once("X(")?.1.split(", ").nth(1)?.to_owned())).collect()
    }

    #[test]
    fn numbers_are_those_of_the_shim() {
        assert_eq!(names_in_table("TL_COUNTED_OPERATIONS"), COUNTED);
        assert_eq!(names_in_table("TL_UNCOUNTED_OPERATIONS"), UNCOUNTED);
        assert!(include_str!("../shim/operations.h").contains("TL_UNCOUNTED_START = 127,"));
    }

    #[test]
    fn every_number_has_one_name() {
        for (number, name) in operations() {
            assert_eq!(operation_name(number), Some(name));
        }
        assert_eq!(operation_name(0), None);
        assert_eq!(operation_name(127), None);
        assert_eq!(operation_name(u16::MAX), None);
    }
}
