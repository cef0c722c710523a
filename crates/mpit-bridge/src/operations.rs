//! Numbers and names of the wrapped operations, as in `shim/operations_*.h` (a test compares the two).
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
    "send_init",
    "bsend_init",
    "ssend_init",
    "rsend_init",
    "recv_init",
    "isendrecv",
    "isendrecv_replace",
    "bcast_init",
    "allreduce_init",
    "reduce_init",
    "scan_init",
    "exscan_init",
    "gather_init",
    "gatherv_init",
    "scatter_init",
    "scatterv_init",
    "allgather_init",
    "allgatherv_init",
    "alltoall_init",
    "alltoallv_init",
    "alltoallw_init",
    "reduce_scatter_init",
    "reduce_scatter_block_init",
    "neighbor_allgather",
    "ineighbor_allgather",
    "neighbor_allgatherv",
    "ineighbor_allgatherv",
    "neighbor_alltoall",
    "ineighbor_alltoall",
    "neighbor_alltoallv",
    "ineighbor_alltoallv",
    "neighbor_alltoallw",
    "ineighbor_alltoallw",
    "neighbor_allgather_init",
    "neighbor_allgatherv_init",
    "neighbor_alltoall_init",
    "neighbor_alltoallv_init",
    "neighbor_alltoallw_init",
    "put",
    "rput",
    "get",
    "rget",
    "accumulate",
    "raccumulate",
    "get_accumulate",
    "rget_accumulate",
    "file_read",
    "file_read_all",
    "file_read_at",
    "file_read_at_all",
    "file_read_shared",
    "file_read_ordered",
    "file_write",
    "file_write_all",
    "file_write_at",
    "file_write_at_all",
    "file_write_shared",
    "file_write_ordered",
    "file_iread",
    "file_iread_all",
    "file_iread_at",
    "file_iread_at_all",
    "file_iread_shared",
    "file_iwrite",
    "file_iwrite_all",
    "file_iwrite_at",
    "file_iwrite_at_all",
    "file_iwrite_shared",
    "file_read_all_begin",
    "file_read_at_all_begin",
    "file_read_ordered_begin",
    "file_write_all_begin",
    "file_write_at_all_begin",
    "file_write_ordered_begin",
    "win_create",
    "win_allocate",
    "win_allocate_shared",
];

const UNCOUNTED: &[&str] = &[
    "barrier",
    "ibarrier",
    "wait",
    "waitall",
    "waitany",
    "waitsome",
    "test",
    "testall",
    "testany",
    "testsome",
    "probe",
    "iprobe",
    "start",
    "startall",
    "request_free",
    "cancel",
    "mprobe",
    "improbe",
    "psend_init",
    "precv_init",
    "pready",
    "pready_range",
    "pready_list",
    "parrived",
    "barrier_init",
    "fetch_and_op",
    "compare_and_swap",
    "win_fence",
    "win_start",
    "win_complete",
    "win_post",
    "win_wait",
    "win_test",
    "win_lock",
    "win_unlock",
    "win_lock_all",
    "win_unlock_all",
    "win_flush",
    "win_flush_local",
    "win_flush_all",
    "win_flush_local_all",
    "win_sync",
    "file_read_all_end",
    "file_read_at_all_end",
    "file_read_ordered_end",
    "file_write_all_end",
    "file_write_at_all_end",
    "file_write_ordered_end",
    "file_open",
    "file_close",
    "file_sync",
    "file_set_size",
    "file_preallocate",
    "finalize",
    "comm_dup",
    "comm_dup_with_info",
    "comm_create",
    "comm_create_group",
    "comm_split",
    "comm_split_type",
    "cart_create",
    "cart_sub",
    "graph_create",
    "dist_graph_create",
    "dist_graph_create_adjacent",
    "intercomm_create",
    "intercomm_merge",
    "comm_join",
    "comm_spawn",
    "comm_spawn_multiple",
    "comm_accept",
    "comm_connect",
    "comm_create_from_group",
    "intercomm_create_from_groups",
    "comm_free",
    "comm_disconnect",
    "win_create_dynamic",
    "win_free",
    "file_set_info",
    "file_set_atomicity",
    "file_seek_shared",
    "file_set_view",
    "file_delete",
    "buffer_detach",
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

/// Operations whose bytes need not pass the layer that reports messages: one-sided ones, and persistent sends. A shim sends
/// them as calls only where they do not.
pub(crate) fn is_unreported(operation: u16) -> bool {
    const NAMES: [&str; 15] = [
        "put",
        "rput",
        "get",
        "rget",
        "accumulate",
        "raccumulate",
        "get_accumulate",
        "rget_accumulate",
        "fetch_and_op",
        "compare_and_swap",
        "send_init",
        "bsend_init",
        "ssend_init",
        "rsend_init",
        "psend_init",
    ];
    operation_name(operation).is_some_and(|name| NAMES.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_shim() {
        let tables = [
            include_str!("../shim/operations_messages.h"),
            include_str!("../shim/operations_collectives.h"),
            include_str!("../shim/operations_communicators.h"),
            include_str!("../shim/operations_windows.h"),
            include_str!("../shim/operations_files.h"),
            include_str!("../shim/operations.h"),
        ];
        let rows = tables.iter().flat_map(|table| table.lines());
        let mut theirs: Vec<(u16, &str)> = rows
            .filter_map(|row| {
                let mut words = row.strip_prefix("    X(")?.split(", ");
                Some((words.next()?.parse().ok()?, words.nth(1)?))
            })
            .collect();
        theirs.sort_unstable();
        assert_eq!(theirs, operations().collect::<Vec<_>>());
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
