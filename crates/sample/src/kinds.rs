//! The kinds of record of a batch, listed once.

use crate::wire;

/// Calls `$apply!` with the fields of [`crate::wire::Batch`] that hold records, inventory before what refers to it.
#[macro_export]
macro_rules! record_kinds {
    ($apply:ident) => {
        $crate::record_kinds!(all $apply)
    };
    ($which:ident $apply:ident) => {
        $crate::some_kinds!($which $apply [
            nodes,
            gpus,
            gpu_link_infos,
            gpu_survey_marks,
            jobs,
            job_ranks,
            job_comms,
            job_settings,
            ib_nodes,
            ib_multicast_tables,
            ib_multicast_groups,
            ib_multicast_marks,
            ib_topology_marks
        ] [
            ib_ports,
            ib_port_lanes,
            host_ports,
            gpu_links,
            gpu_pcie,
            gpu_pm,
            gpu_metrics,
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
        ])
    };
}

/// Chooses of both lists of [`record_kinds!`].
#[doc(hidden)]
#[macro_export]
macro_rules! some_kinds {
    (all $apply:ident [$($inventory:ident),+] [$($timed:ident),+]) => {
        $apply!($($inventory,)+ $($timed),+)
    };
    (inventory $apply:ident [$($inventory:ident),+] $timed:tt) => {
        $apply!($($inventory),+)
    };
    (timed $apply:ident $inventory:tt [$($timed:ident),+]) => {
        $apply!($($timed),+)
    };
}

/// Calls `$apply!` with the fields of [`crate::wire::Batch`] that hold inventory (a batch has few), in the order
/// in which they refer to each other.
#[macro_export]
macro_rules! inventory_kinds {
    ($apply:ident) => {
        $crate::record_kinds!(inventory $apply)
    };
}

/// Calls `$apply!` with the fields of [`crate::wire::Batch`] whose records are of times ([`RecordTimes`]): all but inventory.
#[macro_export]
macro_rules! timed_kinds {
    ($apply:ident) => {
        $crate::record_kinds!(timed $apply)
    };
}

/// A record of one time or several, UTC nanoseconds since 1970.
pub trait RecordTimes {
    /// Its times, as its sender had them.
    fn times(&self) -> impl Iterator<Item = i64>;
}

macro_rules! of_one_time {
    ($($record:ident),+) => {
        $(impl RecordTimes for wire::$record {
            fn times(&self) -> impl Iterator<Item = i64> {
                std::iter::once(self.time)
            }
        })+
    };
}
of_one_time!(
    IbPortSample,
    IbPortLanesSample,
    HostPortSample,
    GpuLinksSample,
    GpuPcieSample,
    GpuPmSample,
    GpuMetricsSample,
    MpiRankBin,
    MpiRankPeers,
    MpiPvarSample,
    MpiRankRegions,
    MpiNodeTraffic,
    MpiOpenCall,
    MpiRankScheduling,
    MpiSampledCalls,
    MpiNodeCells,
    Event,
    Coverage,
    SelfStat
);

impl RecordTimes for wire::MpiRankTrace {
    fn times(&self) -> impl Iterator<Item = i64> {
        self.records.iter().map(|record| record.start.saturating_add(self.utc_offset))
    }
}

impl RecordTimes for wire::MpiRankClock {
    fn times(&self) -> impl Iterator<Item = i64> {
        self.points.iter().map(|point| point.time.saturating_add(self.utc_offset))
    }
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
        assert_eq!(record_kinds!(names), lists);
    }
}
