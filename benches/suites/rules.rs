//! What each function hands over for sending, as an expression in C over its parameters `a0`, `a1` and so on: "What is
//! counted" of crates/mpit-bridge/protocol/README.md. Positions, not names: libraries name parameters differently.

/// Collectives and messages, in lower case: each may also be there as `I...` and as `..._init`.
const SHAPES: &[(&str, &str)] = &[
    ("send", "message(a1, a2, a3)"),
    ("bsend", "message(a1, a2, a3)"),
    ("ssend", "message(a1, a2, a3)"),
    ("rsend", "message(a1, a2, a3)"),
    ("sendrecv", "message(a1, a2, a3)"),
    ("sendrecv_replace", "message(a1, a2, a3)"),
    ("psend", "message(a1 * a2, a3, a4)"),
    ("recv", "0"),
    ("precv", "0"),
    ("barrier", "0"),
    ("bcast", "from_root(a1, a2, a3, a4)"),
    ("allreduce", "sized(a2, a3)"),
    ("reduce", "to_root(a2, a3, a5, a6)"),
    ("scan", "sized(a2, a3)"),
    ("exscan", "sized(a2, a3)"),
    ("gather", "gathered(a0, a1, a2, a4, a5, a6, a7)"),
    ("gatherv", "gathered_v(a0, a1, a2, a4, LARGE, a6, a7, a8)"),
    ("scatter", "scattered(a1, a2, a6, a7)"),
    ("scatterv", "scattered_v(a1, LARGE, a3, a7, a8)"),
    ("allgather", "one_block(a0, a1, a2, a4, a5)"),
    ("allgatherv", "one_block_v(a0, a1, a2, a4, LARGE, a6, a7)"),
    ("alltoall", "one_block(a0, a1, a2, a4, a5) * others(a6)"),
    ("alltoallv", "exchanged_v(a0, a1, a3, a5, a7, LARGE, a8)"),
    ("alltoallw", "exchanged_w(a0, a1, a3, a5, a7, LARGE, a8)"),
    ("reduce_scatter", "summed(a2, LARGE, a3, own_size(a5))"),
    ("reduce_scatter_block", "sized(a2, a3) * own_size(a5)"),
    ("neighbor_allgather", "sized(a1, a2)"),
    ("neighbor_allgatherv", "sized(a1, a2)"),
    ("neighbor_alltoall", "to_neighbours(a1, a2, a6)"),
    ("neighbor_alltoallv", "to_neighbours_v(a1, LARGE, a3, NULL, a8)"),
    ("neighbor_alltoallw", "to_neighbours_v(a1, LARGE, MPI_BYTE, a3, a8)"),
];

/// One-sided operations: each may also be there as `R...`.
const ONE_SIDED: &[(&str, &str)] = &[
    ("put", "message(a1, a2, a3)"),
    ("accumulate", "message(a1, a2, a3)"),
    ("get_accumulate", "a10 == MPI_NO_OP ? 0 : message(a1, a2, a6)"),
    ("fetch_and_op", "a5 == MPI_NO_OP ? 0 : message(1, a2, a3)"),
    ("compare_and_swap", "message(1, a3, a4)"),
];

/// Functions that call back what the program set for attributes, requests of its own or errors: what that calls is the
/// program's.
const CALLING_BACK: &[&str] = &[
    "Attr_delete",
    "Attr_put",
    "Comm_call_errhandler",
    "Comm_delete_attr",
    "Comm_disconnect",
    "Comm_dup",
    "Comm_dup_with_info",
    "Comm_free",
    "Comm_idup",
    "Comm_idup_with_info",
    "Comm_set_attr",
    "File_call_errhandler",
    "Grequest_complete",
    "Session_call_errhandler",
    "Type_delete_attr",
    "Type_dup",
    "Type_free",
    "Type_set_attr",
    "Win_call_errhandler",
    "Win_delete_attr",
    "Win_free",
    "Win_set_attr",
];

/// Without the ending of its form with large counts.
pub fn without_form(name: &str) -> &str {
    name.strip_suffix("_c").unwrap_or(name)
}

/// The expression; "0" for what sends nothing.
pub fn bytes(name: &str) -> String {
    let plain = without_form(name);
    let lower = plain.to_lowercase();
    let of = |table: &[(&str, &'static str)], what: &str| {
        table.iter().find(|(shape, _)| *shape == what).map(|(_, bytes)| *bytes)
    };
    let shape = lower.strip_suffix("_init").unwrap_or(&lower);
    let begun = |prefix: char| lower.strip_prefix(prefix).unwrap_or("");
    let found = of(SHAPES, shape)
        .or_else(|| of(SHAPES, begun('i')))
        .or_else(|| of(ONE_SIDED, &lower))
        .or_else(|| of(ONE_SIDED, begun('r')))
        .unwrap_or_else(|| written_to_file(&lower));
    found.replace("LARGE", if plain == name { "0" } else { "1" })
}

fn written_to_file(lower: &str) -> &'static str {
    let writes = lower.starts_with("file_write") || lower.starts_with("file_iwrite");
    match (writes && !lower.ends_with("_end"), lower.contains("_at")) {
        (false, _) => "0",
        (true, false) => "sized(a2, a3)",
        (true, true) => "sized(a3, a4)",
    }
}

/// Makes a request that counts when it is started.
pub fn is_persistent(name: &str) -> bool {
    let lower = without_form(name).to_lowercase();
    lower.strip_suffix("_init").is_some_and(|shape| SHAPES.iter().any(|(known, _)| *known == shape))
}

/// What is called while it is open is not the program's.
pub fn hides_calls(name: &str) -> bool {
    !CALLING_BACK.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_go_by_the_whole_family() {
        for name in ["Send", "Isend", "Send_init", "Irsend_c", "Rput", "Isendrecv_replace"] {
            assert_eq!(bytes(name), "message(a1, a2, a3)", "{name}");
        }
        assert_eq!(bytes("Ialltoallv_c"), "exchanged_v(a0, a1, a3, a5, a7, 1, a8)");
        assert_eq!(bytes("Rget_accumulate"), "a10 == MPI_NO_OP ? 0 : message(a1, a2, a6)");
        assert_eq!(bytes("File_iwrite_at_all_c"), "sized(a3, a4)");
        assert_eq!(bytes("File_write_ordered_begin"), "sized(a2, a3)");
        for name in ["Recv", "Rget", "File_write_all_end", "Init", "Comm_rank", "Session_init"] {
            assert_eq!(bytes(name), "0", "{name}");
        }
    }

    #[test]
    fn only_operations_make_persistent_requests() {
        assert!(
            is_persistent("Psend_init") && is_persistent("Allreduce_init_c") && is_persistent("Barrier_init")
        );
        assert!(!is_persistent("Session_init") && !is_persistent("Send"));
    }
}
