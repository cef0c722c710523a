//! The kinds of record of a batch, listed once.

/// Calls `$apply!` with the fields of [`crate::wire::Batch`] that hold inventory, of which a batch has few, in the order
/// in which they refer to each other.
#[macro_export]
macro_rules! inventory_kinds {
    ($apply:ident) => {
        $apply!(
            nodes,
            gpus,
            gpu_link_infos,
            jobs,
            job_ranks,
            job_comms,
            job_settings,
            ib_nodes,
            ib_multicast_tables,
            ib_multicast_groups,
            ib_multicast_marks,
            ib_topology_marks
        )
    };
}

/// Calls `$apply!` with the fields of [`crate::wire::Batch`] that hold records, inventory before what refers to it.
#[macro_export]
macro_rules! record_kinds {
    ($apply:ident) => {
        $apply!(
            nodes,
            gpus,
            gpu_link_infos,
            jobs,
            job_ranks,
            job_comms,
            job_settings,
            ib_nodes,
            ib_multicast_tables,
            ib_multicast_groups,
            ib_multicast_marks,
            ib_topology_marks,
            ib_ports,
            ib_port_lanes,
            host_ports,
            gpu_links,
            gpu_pcie,
            gpu_pm,
            mpi_ops,
            mpi_peers,
            mpi_pvars,
            mpi_regions,
            mpi_traffic,
            mpi_open_calls,
            mpi_scheduling,
            mpi_sampled_calls,
            mpi_rank_rows,
            mpi_node_cells,
            mpi_traces,
            mpi_clocks,
            events,
            coverage,
            self_stats
        )
    };
}

#[cfg(test)]
mod tests {
    use crate::wire::Batch;
    use std::collections::BTreeSet;

    macro_rules! names {
        ($($kind:ident),+) => { BTreeSet::from([$(stringify!($kind)),+]) };
    }

    #[test]
    fn each_list_of_a_batch_is_a_kind() {
        // What prost prints of a batch names each field; lists are empty in a new one.
        let text = format!("{:?}", Batch::default());
        let fields = text.split([' ', '{', ',']).filter_map(|word| word.strip_suffix(':'));
        let values = text.split(": ").skip(1).map(|rest| rest.starts_with("[]"));
        let lists: BTreeSet<&str> =
            fields.zip(values).filter_map(|(field, is_list)| is_list.then_some(field)).collect();
        let kinds = record_kinds!(names);
        assert_eq!(kinds, lists);
        assert!(inventory_kinds!(names).is_subset(&kinds));
    }
}
